//! Groups: one wait for the completions of many commands, without an allocation for each.
//!
//! A request that sends several commands opens a *group*, names it with each command, and waits
//! for the group. Groups live in a slab of their CPU; a [`Group`] is the right to one of them.
//!
//! A command that times out counts as answered for the one who waits, but stays *late* until the
//! drive answers it: until then the drive may use its buffers. Whoever owns buffers gives them
//! back only when the group [is quiet](Group::is_quiet).

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use wharf_runtime::{Cpu, TaskId};
use wharf_wire::completion::Completion;

use crate::error::IoError;

/// The result where no command was answered; the results of commands have 63 bits.
pub const NO_RESULT: u64 = u64::MAX;

/// What became of a command: its result, which some have although they failed, and why it failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub result: u64,
    pub error: Option<IoError>,
}

impl Outcome {
    /// That of a command with this completion.
    pub fn of(completion: &Completion, error: Option<IoError>) -> Outcome {
        let result = completion.wide_result();
        Outcome { result, error }
    }
}

#[derive(Default)]
struct State {
    /// Commands without an answer or timeout.
    pending: u32,
    /// Commands that timed out and have not been answered since.
    late: u32,
    error: Option<IoError>,
    /// Result of the last completion, of a success or not.
    result: u64,
    waiter: Option<TaskId>,
    owned: bool,
}

impl State {
    fn note(&mut self, outcome: Outcome) {
        self.result = outcome.result;
        self.error = self.error.or(outcome.error);
    }
}

/// The groups of one CPU.
#[derive(Default)]
pub struct Groups {
    states: RefCell<Vec<State>>,
    free: RefCell<Vec<u32>>,
    polled: Polled,
}

/// How long a CPU had nothing to do while commands were under way: time of empty polls of its queue pairs.
#[derive(Default)]
struct Polled {
    /// Commands that somebody waits for.
    under_way: Cell<u32>,
    /// The CPU's idle time when the first of them began, or at a later end of one.
    idle_ns: Cell<u64>,
    ns: Cell<u64>,
}

impl Polled {
    #[inline]
    fn begin(&self, cpu: &Cpu) {
        let before = self.under_way.replace(self.under_way.get() + 1);
        if before == 0 {
            self.idle_ns.set(cpu.idle_ns());
        }
    }

    #[inline]
    fn end(&self, cpu: &Cpu) {
        self.under_way.set(self.under_way.get() - 1);
        let idle_ns = cpu.idle_ns();
        let more_ns = idle_ns - self.idle_ns.replace(idle_ns);
        self.ns.set(self.ns.get() + more_ns);
    }
}

impl Groups {
    /// No groups.
    pub fn new() -> Rc<Groups> {
        Rc::new(Groups::default())
    }

    /// Opens a group.
    #[inline]
    pub fn open(self: &Rc<Self>) -> Group {
        let mut states = self.states.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            states.push(State::default());
            states.len() as u32 - 1
        });
        states[index as usize] = State {
            owned: true,
            result: NO_RESULT,
            ..State::default()
        };
        Group {
            groups: self.clone(),
            index,
        }
    }

    /// One more command.
    #[inline]
    pub(crate) fn begin(&self, cpu: &Cpu, index: u32) {
        self.polled.begin(cpu);
        self.states.borrow_mut()[index as usize].pending += 1;
    }

    /// A command is answered.
    #[inline]
    pub(crate) fn end(&self, cpu: &Cpu, index: u32, outcome: Outcome) {
        self.polled.end(cpu);
        self.change(cpu, index, |state| {
            state.pending -= 1;
            state.note(outcome);
        });
    }

    /// Nanoseconds in which the CPU had nothing to do but poll for the ends of commands; 0 in real time.
    pub fn polled_ns(&self) -> u64 {
        self.polled.ns.get()
    }

    /// A command has timed out.
    pub(crate) fn time_out(&self, cpu: &Cpu, index: u32, error: IoError) {
        self.polled.end(cpu);
        self.change(cpu, index, |state| {
            state.pending -= 1;
            state.late += 1;
            // A timeout outranks a status: the buffers are not free yet.
            if !state.error.is_some_and(|e| e.is_timeout()) {
                state.error = Some(error);
            }
        });
    }

    /// A command that had timed out is answered.
    pub(crate) fn end_late(&self, cpu: &Cpu, index: u32, outcome: Outcome) {
        self.change(cpu, index, |state| {
            state.late -= 1;
            state.note(outcome);
        });
    }

    #[inline]
    fn change(&self, cpu: &Cpu, index: u32, f: impl FnOnce(&mut State)) {
        let mut states = self.states.borrow_mut();
        let state = &mut states[index as usize];
        f(state);
        if state.pending == 0 {
            if let Some(task) = state.waiter {
                cpu.wake(task);
            }
            if !state.owned && state.late == 0 {
                self.free.borrow_mut().push(index);
            }
        }
    }
}

/// The right to one group. Dropping it while commands are out leaves them to themselves.
pub struct Group {
    groups: Rc<Groups>,
    index: u32,
}

impl Group {
    #[inline]
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Waits until every command of the group is answered or has timed out. The outcome is the
    /// first error, timeouts before others, or the result of the last completion; asking clears it.
    /// When a group is quiet after a timeout, asking again tells what the late commands came to:
    /// [`NO_RESULT`] or an error if none succeeded.
    /// What a failed command came to all the same is told by [`Group::last_result`].
    #[inline]
    pub fn wait<'a>(&'a self, cpu: &'a Cpu) -> Wait<'a> {
        Wait { group: self, cpu }
    }

    /// The result of the last completion, also of a failed command; [`NO_RESULT`] if there was none.
    pub fn last_result(&self) -> u64 {
        self.groups.states.borrow()[self.index as usize].result
    }

    /// True if no command of the group is with the drive, not even one that timed out.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        let states = self.groups.states.borrow();
        let state = &states[self.index as usize];
        state.pending == 0 && state.late == 0
    }

    /// Has the running task woken at every change from now on.
    pub(crate) fn watch(&self, cpu: &Cpu) {
        self.groups.states.borrow_mut()[self.index as usize].waiter = Some(cpu.current());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let mut states = self.groups.states.borrow_mut();
        let state = &mut states[self.index as usize];
        state.owned = false;
        state.waiter = None;
        if state.pending == 0 && state.late == 0 {
            self.groups.free.borrow_mut().push(self.index);
        }
    }
}

/// See [`Group::wait`].
pub struct Wait<'a> {
    group: &'a Group,
    cpu: &'a Cpu,
}

impl Future for Wait<'_> {
    type Output = Result<u64, IoError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let mut states = self.group.groups.states.borrow_mut();
        let state = &mut states[self.group.index as usize];
        if state.pending > 0 {
            state.waiter = Some(self.cpu.current());
            return Poll::Pending;
        }
        state.waiter = None;
        Poll::Ready(match state.error.take() {
            Some(error) => Err(error),
            None => Ok(state.result),
        })
    }
}
