//! Time, CPUs, tasks, rings and resources: one code on a real and a virtual clock.
//!
//! Everything in Wharf that costs time runs as *tasks* (futures) on *CPUs*. A task belongs to
//! one CPU and runs until it waits for a time, a [`Notifier`], a [`Notify`], or a resource.
//! The same task runs under two engines and cannot tell which:
//!
//! * **virtual**: every CPU has its own clock, one OS thread runs all of them in time order from
//!   an event queue, and [`Cpu::work`] advances the clock by the cost of the operation. Equal
//!   seeds give equal runs.
//! * **real**: CPUs are polled by OS threads, or by the calling thread while it waits
//!   (*inline*); time is the monotonic clock and `work` is a plain call.
//!
//! | file | idea |
//! |---|---|
//! | [`machine`] | what is to run: CPUs and their tasks, then one of the engines |
//! | [`executor`], `events` | tasks, run queues, the event queue; the two run loops |
//! | [`cpu`] | the handle a task has: time, `work`, sleep, wake |
//! | [`notifier`], [`mod@ring`] | how CPUs reach each other: a bounded ring and the notifier that says "look" |
//! | [`notifier_words`], [`bells`] | what a notifier is across processes: words in shared memory; waiting for thousands of them |
//! | [`notify`], [`alarm`], [`resource`] | waiting inside a CPU: for each other, for the earliest of many times, for a busy die |
//! | [`lock`], [`mod@line`] | short sections and cache lines that several CPUs share |
//! | [`wake`], [`waits`], [`range_lock`], [`rw_gate`] | tasks of one CPU that wait for another's: by name, for a thing or an event, for a range, in line |
//! | [`on_cpu`], [`mod@here`], `waker` | futures of the standard library as part of a task: where they are, and who wakes them |
//! | [`versioned`], [`dirty`] | a page that one writes and many read, and whether it was written |
//! | [`page_index`] | the hash table from page to frame of a cache |
//! | [`mod@prefetch`] | asking the processor for memory before it is used |
//! | [`slab`] | big arrays in huge pages that cost memory only where they are touched |
//! | [`mod@xor`] | parity: what arrays of real and of simulated drives have in common |
//! | [`op`] | operations, categories, cost tables, profiles |
//! | [`worker`] | OS threads for system calls that block, and for runs side by side |
//! | [`rng`] | one seed at the root, a named child generator for each part |

pub mod alarm;
pub mod bells;
mod busy;
pub mod clock;
pub mod cpu;
pub mod dirty;
mod events;
pub mod executor;
pub mod here;
mod holders;
pub mod line;
pub mod lock;
pub mod machine;
pub mod notifier;
pub mod notifier_words;
pub mod notify;
pub mod on_cpu;
pub mod op;
pub mod page_index;
pub mod prefetch;
pub mod range_lock;
pub mod resource;
pub mod ring;
pub mod rng;
pub mod rw_gate;
#[cfg(feature = "slabs")]
pub mod slab;
pub mod sync;
pub mod versioned;
pub mod waits;
pub mod wake;
mod waker;
pub mod worker;
pub mod xor;

pub use alarm::Alarm;
pub use bells::Bells;
pub use cpu::{Cpu, Parts};
pub use dirty::DirtyBits;
pub use executor::{Stall, TaskId};
pub use here::{here, with_here};
pub use line::Line;
pub use lock::Lock;
pub use machine::{Background, CpuId, Idle, Inline, Machine};
pub use notifier::{Notifier, Ready};
pub use notifier_words::NotifierWords;
pub use notify::Notify;
pub use on_cpu::OnCpu;
pub use op::{Category, CostTable, Op, Profile, Side};
pub use prefetch::prefetch;
pub use resource::Resource;
pub use ring::{Receiver, Sender, ring};
#[cfg(feature = "random")]
pub use rng::Rng;
pub use rng::Seed;
pub use rw_gate::RwGate;
pub use versioned::{Holder, Versioned};
pub use xor::xor_into;
