//! What the tests of this file system have in common.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use wharf_runtime::Rng;

use super::Wfs;
use super::check::check;
use super::make::{Make, make};
use super::recover;
use super::store::Store;
use crate::errno::{Errno, Fault};
use crate::pages::{PAGE_BYTES, PageBytes, Pages, RamPages, Run};
use crate::{By, Caller, Entry, FileSystem, Kind, LIST_START, Remove};

/// The result of a future that never waits.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

/// What new file systems are in tests.
pub const MAKE: Make = Make {
    file_system: 0x77,
    hash_key: [3, 4],
    now_ns: 1,
    uid: 0,
    gid: 0,
    mode: 0o755,
};

/// A new file system.
pub fn made(pages: u64) -> RamPages {
    let medium = RamPages::new(pages);
    now(make(&medium, MAKE)).expect("it is made");
    medium
}

/// The pages of metadata of what is on a medium, after recovery.
pub fn store<P: Pages>(medium: P, cache_bytes: usize) -> Result<Store<P>, Fault> {
    let geometry = now(recover::geometry(&medium))?;
    let (tail, _) = now(recover::replay(&medium, &geometry))?;
    Ok(Store::new(medium, geometry, tail, cache_bytes))
}

/// A change of a medium.
#[derive(Debug, Clone)]
enum Change {
    Write(u64, Arc<PageBytes>),
    Discard(u64),
    Flush,
}

/// A medium that remembers every change, so that the power can be cut after any of them. It can be
/// told to fail from some change on.
#[derive(Debug)]
pub struct CutPages {
    now: RamPages,
    before: RamPages,
    changes: Mutex<Vec<Change>>,
    fails_from: usize,
}

impl CutPages {
    /// A medium that goes on from another.
    pub fn new(medium: &RamPages) -> CutPages {
        CutPages::failing(medium, usize::MAX)
    }

    /// The same, but all changes from the given one on fail.
    pub fn failing(medium: &RamPages, fails_from: usize) -> CutPages {
        CutPages {
            now: medium.clone(),
            before: medium.clone(),
            changes: Mutex::new(Vec::new()),
            fails_from,
        }
    }

    /// How many changes there were.
    pub fn changes(&self) -> usize {
        self.changes.lock().unwrap().len()
    }

    fn change(&self, change: Change) -> bool {
        let mut changes = self.changes.lock().unwrap();
        let fails = changes.len() >= self.fails_from;
        if !fails {
            changes.push(change);
        }
        !fails
    }

    /// Calls `judge` with the medium after a power cut behind each change, and the number of changes
    /// before the cut. Of what was not flushed by then, some is kept and some is not.
    pub fn cut_everywhere(&self, rng: &mut Rng, mut judge: impl FnMut(usize, RamPages)) {
        let changes = self.changes.lock().unwrap();
        let durable = self.before.clone();
        let mut flushed = 0;
        for at in 0..=changes.len() {
            if at > 0 && matches!(changes[at - 1], Change::Flush) {
                changes[flushed..at].iter().for_each(|c| apply(&durable, c));
                flushed = at;
            }
            let medium = durable.clone();
            let kept_of_8 = rng.below(9);
            for change in &changes[flushed..at] {
                if rng.chance(kept_of_8, 8) {
                    apply(&medium, change);
                }
            }
            judge(at, medium);
        }
    }
}

fn apply(medium: &RamPages, change: &Change) {
    match change {
        Change::Write(page, bytes) => medium.poke(*page, bytes),
        Change::Discard(page) => medium.clear(*page),
        Change::Flush => {}
    }
}

impl Pages for CutPages {
    fn pages(&self) -> u64 {
        self.now.pages()
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        self.now.read(runs, buffer).await
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        let pages = runs.iter().flat_map(|run| run.iter());
        for (page, bytes) in pages.zip(bytes.as_chunks::<PAGE_BYTES>().0) {
            if !self.change(Change::Write(page, Arc::new(*bytes))) {
                return Err(Fault::Write { page });
            }
            self.now.write(&[Run::one(page)], bytes).await?;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), Fault> {
        match self.change(Change::Flush) {
            true => Ok(()),
            false => Err(Fault::Flush),
        }
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        for page in runs.iter().flat_map(|run| run.iter()) {
            if !self.change(Change::Discard(page)) {
                return Err(Fault::Write { page });
            }
        }
        self.now.discard(runs).await
    }
}

/// Removes everything below the root, and the root's extended attributes.
pub fn remove_all<F: FileSystem>(fs: &F) {
    let caller = Caller::root();
    let by = By {
        caller: &caller,
        now_ns: 9,
    };
    for name in now(fs.xattrs(fs.root())).unwrap() {
        now(fs.remove_xattr(by, fs.root(), &name)).unwrap();
    }
    let mut directories = vec![fs.root()];
    while let Some(directory) = directories.last().copied() {
        let mut entries = Vec::new();
        now(fs.list(directory, LIST_START, usize::MAX, &mut entries)).unwrap();
        let before = directories.len();
        for entry in &entries {
            let (name, kind) = (Entry::new(directory, &entry.name), entry.kind);
            let removed = match kind {
                Kind::Directory => now(fs.remove(by, name, Remove::Directory)),
                _ => now(fs.remove(by, name, Remove::Name)),
            };
            match removed {
                Ok(()) => {}
                Err(error) if error.errno() == Errno::ENOTEMPTY => directories.push(entry.number),
                Err(error) => panic!("{error}"),
            }
        }
        if directories.len() == before {
            directories.pop();
        }
    }
}

/// Opens, settles and checks what is on a medium: nothing may be wrong.
pub fn assert_sound(medium: &RamPages, when: &str) {
    let (wfs, _) = now(Wfs::open(medium, 1 << 20)).unwrap();
    now(wfs.settle()).unwrap();
    let checked = now(check(medium)).unwrap();
    assert_eq!(checked.findings, Vec::<String>::new(), "{when}");
}
