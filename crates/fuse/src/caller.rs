//! Who asks.

use std::cell::Cell;

use wharf_files::Caller;

thread_local! {
    static ASKING: Cell<u32> = const { Cell::new(0) };
}

/// The process whose question is being answered on this thread, as the kernel says it; while an open file is read, written or
/// closed, the one before.
pub fn asking() -> u32 {
    ASKING.get()
}

/// Who asks, as the kernel says it.
#[derive(Debug, Clone, Copy)]
pub struct Asker {
    uid: u32,
    gid: u32,
    pid: u32,
}

impl Asker {
    /// Who made a request.
    pub fn of(request: &fuser::Request) -> Asker {
        Asker {
            uid: request.uid(),
            gid: request.gid(),
            pid: request.pid(),
        }
    }

    /// From now on it is who asks on this thread.
    pub fn asks(&self) {
        ASKING.set(self.pid);
    }

    /// The same with its other groups, which the kernel does not send: those of its process. A
    /// process that has gone has none. Root needs none.
    pub fn caller(&self) -> Caller {
        let groups = match self.uid {
            0 => Vec::new(),
            _ => groups_of(self.pid).unwrap_or_default(),
        };
        Caller {
            groups,
            ..Caller::user(self.uid, self.gid)
        }
    }
}

fn groups_of(pid: u32) -> Option<Vec<u32>> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Groups:"))?;
    line.split_whitespace()
        .map(|group| group.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_the_process() {
        let mut known: Vec<u32> = rustix::process::getgroups()
            .unwrap()
            .iter()
            .map(|g| g.as_raw())
            .collect();
        let mut found = groups_of(std::process::id()).unwrap();
        known.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, known);
        assert_eq!(groups_of(u32::MAX), None);
    }
}
