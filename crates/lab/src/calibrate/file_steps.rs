//! Operations on files that are predicted and measured: the same ones in the same order.
//!
//! One file of 16 MiB is cached; pages of it are read and written at random. Then files are made and
//! closed, asked for, and removed, and a log grows by a page and is synced, time after time.

use wharf_runtime::Seed;
use wharf_workload::files::{Existing, FileOp, FileOpKind, Names, OpenHow};

use crate::input::FilesFrom;

/// What is timed.
pub(super) const STEPS: [&str; 6] = [
    "`pread` of 4 KiB, cached",
    "`pwrite` of 4 KiB, cached",
    "create and close",
    "`stat`",
    "`unlink`",
    "append of 4 KiB and `fsync`",
];

/// The kinds of operations that each of [`STEPS`] is the sum of.
pub(super) const KINDS: [&[FileOpKind]; 6] = [
    &[FileOpKind::Read],
    &[FileOpKind::Write],
    &[FileOpKind::Open, FileOpKind::Close],
    &[FileOpKind::Stat],
    &[FileOpKind::Remove],
    &[FileOpKind::Append, FileOpKind::Fsync],
];

/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;

/// Bytes of the file that is read and written.
pub(super) const FILE_BYTES: u64 = 16 << 20;

/// Files that are made and removed.
pub(super) const NAMES: u32 = 2000;

/// Pages that the log grows by.
pub(super) const APPENDED: u64 = 40;

/// Number of the first of the files that are made: the two that are there come before.
const FIRST: u32 = 2;

/// The path of a file that is made.
pub(super) fn name(index: u32) -> String {
    format!("/n{index:05}")
}

/// Where it is read and written.
pub(super) struct Steps {
    /// Offsets of the reads.
    pub(super) reads: Vec<u64>,
    /// Offsets of the writes.
    pub(super) writes: Vec<u64>,
}

impl Steps {
    /// As many reads, and half as many writes.
    pub(super) fn new(reads: usize) -> Steps {
        let mut rng = Seed(1).rng();
        let mut places = |count| -> Vec<u64> {
            let place = |_| rng.next_u64() % (FILE_BYTES / PAGE) * PAGE;
            (0..count).map(place).collect()
        };
        Steps {
            reads: places(reads),
            writes: places(reads / 2),
        }
    }

    /// As operations of one thread. What brings the file into caches, and makes durable what is older than
    /// the log, is of kinds that are not timed.
    pub(super) fn operations(&self) -> FilesFrom {
        let names = (0..NAMES).map(name);
        let paths = ["/data".to_string(), "/log".to_string()]
            .into_iter()
            .chain(names);
        let names = Names {
            paths: paths.map(Into::into).collect(),
            existing: vec![(0, Existing::File(FILE_BYTES)), (1, Existing::File(0))],
        };
        let op = |kind, file| FileOp::new(0, kind, file);
        let page = |kind, file, offset| FileOp {
            offset,
            bytes: PAGE,
            ..op(kind, file)
        };
        let mut ops = vec![op(FileOpKind::ReadWhole, 0)];
        ops.extend(self.reads.iter().map(|at| page(FileOpKind::Read, 0, *at)));
        ops.extend(self.writes.iter().map(|at| page(FileOpKind::Write, 0, *at)));
        let made = FIRST..FIRST + NAMES;
        for file in made.clone() {
            ops.push(FileOp {
                how: OpenHow::CREATE.and(OpenHow::EXCLUSIVE),
                ..op(FileOpKind::Open, file)
            });
            ops.push(op(FileOpKind::Close, file));
        }
        ops.extend(made.clone().map(|file| op(FileOpKind::Stat, file)));
        ops.extend(made.map(|file| op(FileOpKind::Remove, file)));
        ops.extend([op(FileOpKind::Fdatasync, 0), op(FileOpKind::Fdatasync, 1)]);
        for _ in 0..APPENDED {
            ops.extend([page(FileOpKind::Append, 1, 0), op(FileOpKind::Fsync, 1)]);
        }
        FilesFrom::Listed {
            path: "measurement".into(),
            names,
            ops: ops.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_operations_of_its_own() {
        let FilesFrom::Listed { ops, .. } = Steps::new(100).operations() else {
            panic!("they are listed");
        };
        let count = |kind| ops.iter().filter(|op| op.kind == kind).count();
        let counts = KINDS.map(|kinds| kinds.iter().map(|kind| count(*kind)).collect::<Vec<_>>());
        let (names, appended) = (NAMES as usize, APPENDED as usize);
        let all: [&[usize]; 6] = [
            &[100],
            &[50],
            &[names, names],
            &[names],
            &[names],
            &[appended, appended],
        ];
        assert_eq!(counts.each_ref().map(|counts| &counts[..]), all);
    }
}
