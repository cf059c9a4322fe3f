//! How a virtual run ends, and what is said of one that cannot go on.

use super::Executor;

/// Polls without any request finishing after which a virtual run counts as stuck.
pub const IDLE_POLLS_MAX: u64 = 200_000_000;

/// A run that cannot go on.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Stall {
    /// Nothing is scheduled, yet work is unfinished.
    #[error("deadlock at {now_ns} ns: nothing is scheduled and these tasks wait: {tasks}")]
    Deadlock {
        /// Virtual time of the last event.
        now_ns: u64,
        /// Names of the waiting tasks with their numbers.
        tasks: String,
    },
    /// Tasks run and run, and nothing gets done.
    #[error(
        "livelock at {now_ns} ns: {polls} polls without progress; the last tasks polled: {tasks}"
    )]
    Livelock {
        /// Virtual time of the last event.
        now_ns: u64,
        /// Polls since the last progress.
        polls: u64,
        /// Names of the tasks polled last.
        tasks: String,
    },
}

/// Why a virtual run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All main tasks are done.
    Done,
    /// A task called [`Cpu::halt`](crate::Cpu::halt).
    Halted,
}

impl Executor {
    pub(super) fn latest_ns(&self) -> u64 {
        self.cpus
            .borrow()
            .iter()
            .map(|c| c.now())
            .max()
            .unwrap_or(0)
    }

    pub(super) fn waiting(&self) -> String {
        let tasks = self.tasks.borrow();
        let waiting = tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| !task.ended.get() && task.main);
        let names: Vec<String> = waiting
            .take(16)
            .map(|(i, t)| format!("{}#{i}", t.name))
            .collect();
        names.join(", ")
    }

    pub(super) fn livelock(&self) -> Stall {
        let tasks = self.tasks.borrow();
        let mut names: Vec<String> = Vec::new();
        for cpu in self.cpus.borrow().iter() {
            let id = cpu.inner().latest.get().0 as usize;
            if let Some(task) = tasks.get(id) {
                names.push(format!("{}#{id} on {}", task.name, cpu.name()));
            }
        }
        Stall::Livelock {
            now_ns: self.latest_ns(),
            polls: self.polls_since_progress(),
            tasks: names.join(", "),
        }
    }
}
