//! What the tests of this file system have in common.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::Wfs;
use super::make::{Make, make};
use super::recover;
use super::store::Store;
use crate::check::check;
use crate::errno::{Errno, Fault};
use crate::pages::{Pages, RamPages};
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
