//! Programs: lists of operations on files, which any file system can be given.

use std::fmt;

use crate::arguments::{Allocate, Seek, SetXattr, Sync};
use crate::caller::Caller;
use crate::flags::{OpenFlags, Rename};
use crate::vfs::SetTime;

/// A path, or a name, or a target of a symbolic link.
pub type Bytes = Vec<u8>;

/// The users of a program, by number: root, and two more with a group each; the second one is in
/// the group of the first, too.
pub const USERS: [(u32, u32, &[u32]); 3] = [(0, 0, &[]), (1001, 2001, &[]), (1002, 2002, &[2001])];

/// All of [`USERS`].
pub fn callers() -> Vec<Caller> {
    let caller = |(uid, gid, groups): &(u32, u32, &[u32])| Caller {
        uid: *uid,
        gid: *gid,
        groups: groups.to_vec(),
    };
    USERS.iter().map(caller).collect()
}

/// Places for open files that every user has.
pub const SLOTS: usize = 3;

/// Bytes that tell which write they are of, and where in it they belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// Which write.
    pub stamp: u32,
    /// How many.
    pub bytes: u64,
}

impl Fill {
    /// The bytes.
    pub fn make(self) -> Vec<u8> {
        let word = |at: u64| {
            let mixed = (u64::from(self.stamp) << 32 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // Never zero: what was written can be told from what was not.
            (mixed >> 56) as u8 | 1
        };
        (0..self.bytes).map(word).collect()
    }
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are those of the operations of a session
pub enum Operation {
    Open {
        slot: usize,
        path: Bytes,
        flags: OpenFlags,
        mode: u16,
    },
    Close {
        slot: usize,
    },
    Read {
        slot: usize,
        offset: u64,
        bytes: u64,
    },
    Write {
        slot: usize,
        offset: u64,
        fill: Fill,
    },
    TruncateOpen {
        slot: usize,
        bytes: u64,
    },
    Truncate {
        path: Bytes,
        bytes: u64,
    },
    Allocate {
        slot: usize,
        offset: u64,
        bytes: u64,
        what: Allocate,
    },
    Seek {
        slot: usize,
        offset: u64,
        what: Seek,
    },
    Sync {
        slot: usize,
        what: Sync,
    },
    SyncAll,
    Mkdir {
        path: Bytes,
        mode: u16,
    },
    Rmdir {
        path: Bytes,
    },
    Unlink {
        path: Bytes,
    },
    Rename {
        from: Bytes,
        to: Bytes,
        how: Rename,
    },
    Link {
        from: Bytes,
        to: Bytes,
        follow: bool,
    },
    Symlink {
        target: Bytes,
        path: Bytes,
    },
    ReadLink {
        path: Bytes,
    },
    Stat {
        path: Bytes,
        follow: bool,
    },
    StatOpen {
        slot: usize,
    },
    List {
        path: Bytes,
    },
    Chmod {
        path: Bytes,
        mode: u16,
    },
    Chown {
        path: Bytes,
        follow: bool,
        uid: Option<u32>,
        gid: Option<u32>,
    },
    SetTimes {
        path: Bytes,
        follow: bool,
        accessed: SetTime,
        modified: SetTime,
    },
    Xattr {
        path: Bytes,
        follow: bool,
        name: Bytes,
    },
    SetXattr {
        path: Bytes,
        follow: bool,
        name: Bytes,
        value: Bytes,
        how: SetXattr,
    },
    RemoveXattr {
        path: Bytes,
        follow: bool,
        name: Bytes,
    },
    Xattrs {
        path: Bytes,
        follow: bool,
    },
}

impl Operation {
    /// Whether it makes something durable.
    pub fn is_sync(&self) -> bool {
        matches!(self, Operation::Sync { .. } | Operation::SyncAll)
    }
}

/// One operation of a program, and who asks for it: an index into [`USERS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Who.
    pub user: usize,
    /// What.
    pub operation: Operation,
}

impl Step {
    /// Of root.
    pub fn of_root(operation: Operation) -> Step {
        Step { user: 0, operation }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:?}", self.operation);
        write!(f, "user {}: {}", self.user, with_text(&text))
    }
}

/// Lists of numbers that are text, as text.
fn with_text(debug: &str) -> String {
    let mut out = String::new();
    let mut rest = debug;
    while let Some(start) = rest.find('[') {
        let Some(bytes) = rest[start..].find(']') else {
            break;
        };
        let list = &rest[start + 1..start + bytes];
        let numbers: Result<Vec<u8>, _> = list.split(", ").map(str::parse).collect();
        out.push_str(&rest[..start]);
        match numbers {
            Ok(text) => out.push_str(&format!("b\"{}\"", text.escape_ascii())),
            Err(_) if list.is_empty() => out.push_str("b\"\""),
            Err(_) => out.push_str(&rest[start..=start + bytes]),
        }
        rest = &rest[start + bytes + 1..];
    }
    out + rest
}

/// A program as text, a step a line.
pub fn listing(program: &[Step]) -> String {
    let steps = program.iter().enumerate();
    steps
        .map(|(at, step)| format!("  {at}: {step}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_printed_with_their_paths() {
        let step = Step::of_root(Operation::Symlink {
            target: vec![],
            path: b"/a\xff".to_vec(),
        });
        let text = r#"user 0: Symlink { target: b"", path: b"/a\xff" }"#;
        assert_eq!(step.to_string(), text);
    }

    #[test]
    fn no_byte_of_a_write_is_zero_or_in_another_place() {
        let bytes = Fill {
            stamp: 3,
            bytes: 9000,
        }
        .make();
        assert!(bytes.iter().all(|byte| *byte != 0));
        assert_ne!(bytes[..512], bytes[512..1024]);
        assert_ne!(bytes[..4096], bytes[4096..8192]);
    }
}
