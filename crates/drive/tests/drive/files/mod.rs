//! Files served by the drive's cores.
//!
//! | file | what would have to break for it to fail |
//! |---|---|
//! | `support.rs` | programs that run in file tasks of a core |
//! | `asker.rs`, `subject.rs` | commands as a host sends them |
//! | `random.rs` | random programs by commands, on several queues and cores, answer as the model does |
//! | `window.rs`, `by_window.rs` | pages of that cache which are loaded and stored without a command |
//! | `near.rs` | the same by way of the drive's cache; its budgets are walls, and it moves the bytes that are asked for alone |
//! | `near_leases.rs` | no page of a file comes to that cache once a host keeps alone what it writes to the file |
//! | `epochs.rs` | a sync ends beside one who writes without an end, and writes what was dirty when it began |
//! | `protected.rs` | what was written to it is there after power cuts if it is protected, and else what was synced |
//! | `vector.rs` | functions of bytes give what their definitions say; whatever a vector says, nothing of others is seen or harmed |
//! | `codecs.rs` | the drive compresses as a host does, and what is no stream of a codec is refused |
//! | `vector_cuts.rs` | what the steps of a vector made durable outlives a power cut, in their order |
//! | `wasm.rs` | a program does what it says, or is stopped with a reason; reads go on beside it |
//! | `noise.rs` | random commands, most of them wrong, are answered and leave a sound file system |
//! | `malformed.rs` | each wrong field of a command gets its status, and nothing is changed |
//! | `leases.rs` | no change by others can be known of before the word of a lease tells of it |
//! | `locks.rs` | locks keep others out, who waits for one is in nobody's way, and every wait ends |
//! | `lock_leases.rs` | what a host that grants itself locks has is what others find, whatever becomes of the host |
//! | `tokens.rs` | forged, changed, expired and revoked tokens are refused; nobody speaks for others who may not |
//! | `first.rs` | a file that is written on one core is there on another one, and after power-on |
//! | `coming_and_going.rs` | times are those that the host has set; the drive tells what happened at power-on; who leaves leaves nothing open |
//! | `writers.rs` | what a host keeps that it has written is what others find, whatever becomes of the host |
//! | `pages.rs` | tasks that ask other cores for pages never wait in a circle, and get what was written |
//! | `own_memory.rs` | no host names the drive's own memory; budgets are walls; a queue goes when its commands have ended |
//! | `programs.rs` | random programs do on any core what the model does, also through power cuts; equal seeds give equal runs |

mod asker;
mod by_window;
mod codecs;
mod coming_and_going;
mod epochs;
mod first;
mod leases;
mod lock_leases;
mod locks;
mod malformed;
mod near;
mod near_leases;
mod noise;
mod own_memory;
mod pages;
mod programs;
mod protected;
mod random;
mod shares;
mod subject;
mod support;
mod tokens;
mod turns;
mod vector;
mod vector_cuts;
mod wasm;
mod window;
mod writers;
