//! What becomes of buffers whose commands timed out.
//!
//! The drive may still use them, so they cannot be given back when the request ends. The request
//! leaves them, with their group, to the client's late, which gives them back when the drive has
//! answered the last command. If it never does, they stay out of use for as long as the client
//! lives.

use std::cell::RefCell;

use wharf_runtime::{Cpu, Notify};

use crate::group::Group;

/// Orphans of one client: things of type `T` that a group's commands may still use.
pub struct LateCompletions<T> {
    orphans: RefCell<Vec<(Group, T)>>,
    arrived: Notify,
}

impl<T> Default for LateCompletions<T> {
    fn default() -> Self {
        LateCompletions {
            orphans: RefCell::default(),
            arrived: Notify::new(),
        }
    }
}

impl<T> LateCompletions<T> {
    /// Keeps `thing` until `group` is quiet.
    pub fn adopt(&self, cpu: &Cpu, group: Group, thing: T) {
        self.orphans.borrow_mut().push((group, thing));
        self.arrived.notify_all(cpu);
    }

    /// Number of things kept.
    pub fn orphans(&self) -> usize {
        self.orphans.borrow().len()
    }

    /// Gives things to `release` when their groups are quiet, with the group, for as long as the CPU runs.
    pub async fn run(&self, cpu: &Cpu, release: impl Fn(Group, T)) {
        loop {
            while let Some((group, thing)) = self.take_quiet(cpu) {
                release(group, thing);
            }
            self.arrived.wait(cpu).await;
        }
    }

    fn take_quiet(&self, cpu: &Cpu) -> Option<(Group, T)> {
        let mut orphans = self.orphans.borrow_mut();
        let quiet = orphans.iter().position(|(group, _)| group.is_quiet());
        orphans.iter().for_each(|(group, _)| group.watch(cpu));
        quiet.map(|index| orphans.swap_remove(index))
    }
}
