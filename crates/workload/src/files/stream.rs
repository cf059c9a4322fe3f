//! The file view: a stream of the operations themselves.
//!
//! Whose turn it is, is settled as in the block view: by the operations that make requests there. Those that only name a
//! file come with the next of their thread, and are not counted.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::{Behaviour, Existing, FileOp, FileOpKind, Names, Regions, Run, Runs};

/// A stream of operations on files.
#[derive(Debug, Clone)]
pub struct FileOps {
    left: u64,
    names: Names,
    behaviour: Behaviour,
    /// Threads by the turns that they have had.
    turns: BinaryHeap<Reverse<(u64, u32)>>,
    planned: Vec<Runs>,
    /// The thread that goes on, and how many turns it has had.
    alone: Option<(u64, u32)>,
    /// The name of file 0: names of directories come before.
    pub(super) first_file: u32,
}

impl FileOps {
    pub(super) fn new(requests: u64, regions: &Regions, behaviour: Behaviour) -> FileOps {
        let (names, first_file) = names(&behaviour);
        FileOps {
            left: requests,
            names,
            first_file,
            turns: (0..regions.threads)
                .map(|thread| Reverse((0, thread)))
                .collect(),
            planned: vec![Runs::new(); regions.threads as usize],
            alone: None,
            behaviour,
        }
    }

    /// The names of all files and directories.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The next operation of a run, which is shorter then.
    fn cut(&self, run: &mut Run, thread: u32) -> FileOp {
        let most = match run.kind.moves_data() {
            true => run.piece,
            false => u64::MAX,
        };
        let bytes = (run.end - run.at).min(most);
        let op = FileOp {
            offset: run.at,
            bytes,
            how: run.how,
            ..FileOp::new(thread, run.kind, self.first_file + run.file)
        };
        run.at += bytes;
        op
    }
}

/// Names of files: one directory for each thread with files of its own, and one for what several use, where the workload has
/// no directories of its own.
fn names(behaviour: &Behaviour) -> (Names, u32) {
    let owners = behaviour.owners();
    let of_owner = |owner: &Option<u32>| match owner {
        Some(thread) => format!("t{thread:04}"),
        None => "shared".to_string(),
    };
    let parts = (0..).zip(&owners).map(|(file, owner)| {
        let default = || vec![of_owner(owner), format!("f{file:06}")];
        behaviour.path(file).unwrap_or_else(default)
    });
    let mut folders = BTreeSet::new();
    let mut files = Vec::new();
    for parts in parts {
        let mut path = String::new();
        for (at, part) in parts.iter().enumerate() {
            path = format!("{path}/{part}");
            if at + 1 < parts.len() {
                folders.insert(path.clone());
            }
        }
        files.push(path);
    }
    let mut names = Names::default();
    // In their order a directory comes before what is in it.
    for name in folders {
        let directory = (names.paths.len() as u32, Existing::Directory);
        names.existing.push(directory);
        names.paths.push(name.into());
    }
    let first_file = names.paths.len() as u32;
    for (path, bytes) in files.into_iter().zip(behaviour.initial()) {
        if let Some(bytes) = bytes {
            let file = (names.paths.len() as u32, Existing::File(bytes));
            names.existing.push(file);
        }
        names.paths.push(path.into());
    }
    (names, first_file)
}

impl Iterator for FileOps {
    type Item = FileOp;

    fn next(&mut self) -> Option<FileOp> {
        if self.left == 0 {
            return None;
        }
        let (made, thread) = self.alone.take().unwrap_or_else(|| {
            let Reverse(turn) = self.turns.pop().expect("there are threads");
            turn
        });
        while self.planned[thread as usize].is_empty() {
            let runs = &mut self.planned[thread as usize];
            self.behaviour.plan(thread, runs);
        }
        let mut run = self.planned[thread as usize]
            .pop_front()
            .expect("just planned");
        let counts = run.counts();
        let op = self.cut(&mut run, thread);
        let planned = &mut self.planned[thread as usize];
        if run.counts() {
            planned.push_front(run);
        }
        // What only names a file is no turn; what others may read is not left half done.
        self.left -= u64::from(counts);
        let next = made
            + if counts {
                self.behaviour.turns(thread)
            } else {
                0
            };
        let is_half_done = self.behaviour.is_shared() && planned.iter().any(Run::counts);
        if !counts || is_half_done {
            self.alone = Some((next, thread));
        } else {
            self.turns.push(Reverse((next, thread)));
        }
        Some(op)
    }
}

impl FileOpKind {
    /// Whether an operation of this kind needs its file open.
    pub fn needs_open(self) -> bool {
        use FileOpKind::{
            Append, Close, CrcWrite, Fdatasync, Fsync, Nearest, Punch, Read, ReadWhole, Truncate,
            Write,
        };
        matches!(
            self,
            Close
                | Read
                | ReadWhole
                | Write
                | CrcWrite
                | Nearest
                | Append
                | Truncate
                | Punch
                | Fsync
                | Fdatasync
        )
    }
}
