//! Tasks that take turns at random: what one sees may have been changed by another before it acts.

use std::cell::Cell;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use wharf_runtime::Rng;

use crate::arguments::{
    Allocate, By, Entry, New, Remove, Seek, SetXattr, StatFs, Sync, Write, Written,
};
use crate::attributes::{Attributes, DirectoryEntry, SetAttributes};
use crate::errno::FileError;
use crate::file_system::FileSystem;
use crate::flags::Rename;
use crate::payload::{In, Out};

/// Most turns of a run: tasks that get in each other's way for ever are a failure, not a hang.
const TURNS_MAX: u32 = 1_000_000;

/// A task.
pub type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Runs tasks until all have ended; which one goes on is drawn each time one gives its turn away.
///
/// # Panics
/// If they do not end.
pub fn interleave(mut tasks: Vec<Task<'_>>, rng: &mut Rng) {
    let mut context = Context::from_waker(Waker::noop());
    let mut turns = 0;
    while !tasks.is_empty() {
        let at = rng.below(tasks.len() as u64) as usize;
        if tasks[at].as_mut().poll(&mut context).is_ready() {
            drop(tasks.swap_remove(at));
        }
        turns += 1;
        assert!(turns < TURNS_MAX, "tasks go on for ever");
    }
}

/// A file system before each of whose operations the caller's task gives its turn away.
pub struct TakingTurns<P> {
    fs: P,
    turns: Cell<u64>,
}

/// Waits for the next turn.
#[derive(Default)]
struct Turn {
    is_next: bool,
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match std::mem::replace(&mut self.is_next, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// Gives the turn of the task away once.
pub async fn turn() {
    Turn::default().await;
}

impl<P: Deref<Target: FileSystem>> TakingTurns<P> {
    /// The file system that `fs` points to.
    pub fn new(fs: P) -> TakingTurns<P> {
        let turns = Cell::new(0);
        TakingTurns { fs, turns }
    }

    /// How often turns were given away.
    pub fn turns(&self) -> u64 {
        self.turns.get()
    }

    async fn turn(&self) {
        self.turns.set(self.turns.get() + 1);
        turn().await;
    }
}

impl<P: Deref<Target: FileSystem>> FileSystem for TakingTurns<P> {
    fn is_durable(&self) -> bool {
        self.fs.is_durable()
    }

    fn root(&self) -> u64 {
        self.fs.root()
    }

    async fn lookup(&self, directory: u64, name: &[u8]) -> Result<Attributes, FileError> {
        self.turn().await;
        self.fs.lookup(directory, name).await
    }

    async fn attributes(&self, number: u64) -> Result<Attributes, FileError> {
        self.turn().await;
        self.fs.attributes(number).await
    }

    async fn set_attributes(
        &self,
        by: By<'_>,
        number: u64,
        set: SetAttributes,
    ) -> Result<Attributes, FileError> {
        self.turn().await;
        self.fs.set_attributes(by, number, set).await
    }

    async fn create(
        &self,
        by: By<'_>,
        entry: Entry<'_>,
        new: New<'_>,
    ) -> Result<Attributes, FileError> {
        self.turn().await;
        self.fs.create(by, entry, new).await
    }

    async fn link(
        &self,
        by: By<'_>,
        number: u64,
        entry: Entry<'_>,
    ) -> Result<Attributes, FileError> {
        self.turn().await;
        self.fs.link(by, number, entry).await
    }

    async fn remove(&self, by: By<'_>, entry: Entry<'_>, what: Remove) -> Result<(), FileError> {
        self.turn().await;
        self.fs.remove(by, entry, what).await
    }

    async fn rename(
        &self,
        by: By<'_>,
        from: Entry<'_>,
        to: Entry<'_>,
        how: Rename,
    ) -> Result<(), FileError> {
        self.turn().await;
        self.fs.rename(by, from, to, how).await
    }

    async fn read_link(&self, number: u64) -> Result<Vec<u8>, FileError> {
        self.turn().await;
        self.fs.read_link(number).await
    }

    async fn list(
        &self,
        directory: u64,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        self.turn().await;
        self.fs.list(directory, cookie, most, entries).await
    }

    async fn open(&self, number: u64) -> Result<(), FileError> {
        self.turn().await;
        self.fs.open(number).await
    }

    async fn close(&self, number: u64) -> Result<(), FileError> {
        self.turn().await;
        self.fs.close(number).await
    }

    async fn read(
        &self,
        number: u64,
        offset: u64,
        out: Out<'_>,
        now_ns: u64,
    ) -> Result<u64, FileError> {
        self.turn().await;
        self.fs.read(number, offset, out, now_ns).await
    }

    async fn write(
        &self,
        by: By<'_>,
        number: u64,
        write: Write,
        data: In<'_>,
    ) -> Result<Written, FileError> {
        self.turn().await;
        self.fs.write(by, number, write, data).await
    }

    async fn truncate(&self, by: By<'_>, number: u64, bytes: u64) -> Result<(), FileError> {
        self.turn().await;
        self.fs.truncate(by, number, bytes).await
    }

    async fn allocate(
        &self,
        by: By<'_>,
        number: u64,
        offset: u64,
        bytes: u64,
        what: Allocate,
    ) -> Result<(), FileError> {
        self.turn().await;
        self.fs.allocate(by, number, offset, bytes, what).await
    }

    async fn seek(&self, number: u64, offset: u64, what: Seek) -> Result<u64, FileError> {
        self.turn().await;
        self.fs.seek(number, offset, what).await
    }

    async fn sync(&self, number: u64, what: Sync) -> Result<(), FileError> {
        self.turn().await;
        self.fs.sync(number, what).await
    }

    async fn sync_all(&self) -> Result<(), FileError> {
        self.turn().await;
        self.fs.sync_all().await
    }

    async fn xattr(&self, number: u64, name: &[u8]) -> Result<Vec<u8>, FileError> {
        self.turn().await;
        self.fs.xattr(number, name).await
    }

    async fn set_xattr(
        &self,
        by: By<'_>,
        number: u64,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FileError> {
        self.turn().await;
        self.fs.set_xattr(by, number, name, value, how).await
    }

    async fn remove_xattr(&self, by: By<'_>, number: u64, name: &[u8]) -> Result<(), FileError> {
        self.turn().await;
        self.fs.remove_xattr(by, number, name).await
    }

    async fn xattrs(&self, number: u64) -> Result<Vec<Box<[u8]>>, FileError> {
        self.turn().await;
        self.fs.xattrs(number).await
    }

    async fn stat_fs(&self) -> Result<StatFs, FileError> {
        self.turn().await;
        self.fs.stat_fs().await
    }
}
