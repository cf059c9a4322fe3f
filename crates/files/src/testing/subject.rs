//! Something that programs can be run on, and what it answers.

use std::ops::Deref;

use super::program::{Operation, SLOTS, Step};
use crate::arguments::Place;
use crate::attributes::{Attributes, Kind, Owner};
use crate::caller::Caller;
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::flags::{Handle, OpenFlags};
use crate::limits::LIST_START;
use crate::vfs::{At, Session, SessionLimits, Target};

/// Entries of a listing that are asked for at once.
const ENTRIES_AT_ONCE: usize = 3;

/// Attributes that two file systems have alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Look {
    /// What it is.
    pub kind: Kind,
    /// Its permission bits.
    pub mode: u16,
    /// Whose it is.
    pub owner: Owner,
    /// How many names it has.
    pub links: u32,
    /// Its bytes; 0 of a directory.
    pub bytes: u64,
}

impl Look {
    /// Of something with these attributes.
    pub fn of(attributes: &Attributes) -> Look {
        Look {
            kind: attributes.kind,
            mode: attributes.mode,
            owner: attributes.owner,
            links: attributes.links,
            bytes: match attributes.kind {
                Kind::Directory => 0,
                _ => attributes.bytes,
            },
        }
    }
}

/// What an operation answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Done,
    /// It failed, with this number.
    Failed(i32),
    /// Bytes that were read, a target, a value.
    Bytes(Vec<u8>),
    /// A number of bytes, or a place in a file.
    Number(u64),
    /// Attributes.
    Look(Look),
    /// Names in order, of entries or of extended attributes, with what they lead to.
    Names(Vec<(Vec<u8>, Option<Kind>)>),
}

impl Answer {
    /// Whether it failed so.
    pub fn is(&self, errno: Errno) -> bool {
        *self == Answer::Failed(errno.number())
    }
}

/// Something that programs can be run on.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait Subject {
    /// Does what a step says, at a time.
    async fn step(&mut self, step: &Step, now_ns: u64) -> Answer;
}

/// All users of a file system, each with what it has open.
pub struct Users<P> {
    users: Vec<(Session<P>, [Option<Handle>; SLOTS])>,
}

impl<P: Deref<Target: FileSystem> + Clone> Users<P> {
    /// These users, of whom nobody has opened anything.
    pub fn new(fs: &P, callers: &[Caller], limits: SessionLimits) -> Users<P> {
        let user = |caller: &Caller| {
            let session = Session::new(fs.clone(), caller.clone(), limits);
            (session, [None; SLOTS])
        };
        Users {
            users: callers.iter().map(user).collect(),
        }
    }

    /// Closes all that is open.
    ///
    /// # Errors
    /// Of the first that fails.
    pub async fn close_all(&mut self) -> Result<(), FileError> {
        for (session, slots) in &mut self.users {
            *slots = [None; SLOTS];
            session.close_all().await?;
        }
        Ok(())
    }

    /// The number of what a user has open in a slot.
    pub async fn number(&self, user: usize, slot: usize) -> Option<u64> {
        let (session, slots) = &self.users[user];
        let target = Target::Handle(slots[slot]?);
        session.stat(target).await.ok().map(|found| found.number)
    }

    /// What is open, and has no name any more.
    pub async fn nameless(&self) -> Vec<Attributes> {
        let mut found: Vec<Attributes> = Vec::new();
        for (session, slots) in &self.users {
            for handle in slots.iter().flatten() {
                let Ok(open) = session.stat(Target::Handle(*handle)).await else {
                    continue;
                };
                let is_known = found.iter().any(|other| other.number == open.number);
                if open.links == 0 && !is_known {
                    found.push(open);
                }
            }
        }
        found
    }

    async fn open(
        &mut self,
        (user, slot): (usize, usize),
        path: &[u8],
        (flags, mode): (OpenFlags, u16),
        now_ns: u64,
    ) -> Result<Answer, FileError> {
        let (session, slots) = &mut self.users[user];
        let opened = session.open(now_ns, path.into(), flags, mode).await?;
        if let Some(before) = slots[slot].replace(opened.handle) {
            session.close(before).await?;
        }
        Ok(Answer::Done)
    }
}

/// A handle that was never given: what is not open.
const NOT_OPEN: Handle = Handle {
    index: u32::MAX,
    generation: 0,
};

fn done((): ()) -> Answer {
    Answer::Done
}

/// Names in order.
pub fn sorted(mut names: Vec<(Vec<u8>, Option<Kind>)>) -> Answer {
    names.sort();
    Answer::Names(names)
}

/// All entries of a directory.
async fn list<P: Deref<Target: FileSystem>>(
    session: &Session<P>,
    path: At<'_>,
    now_ns: u64,
) -> Result<Answer, FileError> {
    let opened = session.open(now_ns, path, OpenFlags::DIRECTORY, 0).await?;
    let (mut entries, mut cookie, mut is_end) = (Vec::new(), LIST_START, false);
    while !is_end {
        let before = entries.len();
        is_end = session
            .list(opened.handle, cookie, ENTRIES_AT_ONCE, &mut entries)
            .await?;
        assert!(is_end || entries.len() > before, "a listing goes on");
        cookie = entries.last().map_or(cookie, |entry| entry.cookie);
    }
    session.close(opened.handle).await?;
    let names = entries.iter();
    Ok(sorted(
        names
            .map(|entry| (entry.name.to_vec(), Some(entry.kind)))
            .collect(),
    ))
}

impl<P: Deref<Target: FileSystem> + Clone> Subject for Users<P> {
    async fn step(&mut self, step: &Step, now_ns: u64) -> Answer {
        match self.try_step(step, now_ns).await {
            Ok(answer) => answer,
            Err(error) => Answer::Failed(error.errno().number()),
        }
    }
}

impl<P: Deref<Target: FileSystem> + Clone> Users<P> {
    async fn try_step(&mut self, step: &Step, now_ns: u64) -> Result<Answer, FileError> {
        use Operation::*;
        if let Open {
            slot,
            path,
            flags,
            mode,
        } = &step.operation
        {
            return self
                .open((step.user, *slot), path, (*flags, *mode), now_ns)
                .await;
        }
        let (session, slots) = &mut self.users[step.user];
        let handle = |slot: &usize| slots[*slot].unwrap_or(NOT_OPEN);
        Ok(match &step.operation {
            Open { .. } => Answer::Done,
            Close { slot } => {
                let handle = handle(slot);
                slots[*slot] = None;
                session.close(handle).await.map(done)?
            }
            Read {
                slot,
                offset,
                bytes,
            } => {
                let mut out = vec![0xee; *bytes as usize];
                let read = session
                    .read(now_ns, handle(slot), *offset, &mut out)
                    .await?;
                out.truncate(read as usize);
                Answer::Bytes(out)
            }
            Write { slot, offset, fill } => {
                let (place, data) = (Place::At(*offset), fill.make());
                let write = session.write(now_ns, handle(slot), place, &data);
                Answer::Number(write.await?.bytes)
            }
            TruncateOpen { slot, bytes } => {
                let cut = session.truncate_open(now_ns, handle(slot), *bytes);
                cut.await.map(done)?
            }
            Allocate {
                slot,
                offset,
                bytes,
                what,
            } => {
                let all = session.allocate(now_ns, handle(slot), *offset, *bytes, *what);
                all.await.map(done)?
            }
            Seek { slot, offset, what } => {
                let found = session.seek(handle(slot), *offset, *what).await?;
                Answer::Number(found)
            }
            Sync { slot, what } => session.sync(handle(slot), *what).await.map(done)?,
            StatOpen { slot } => {
                let target = Target::Handle(handle(slot));
                Answer::Look(Look::of(&session.stat(target).await?))
            }
            other => on_path(session, other, now_ns).await?,
        })
    }
}

fn target(path: &[u8], follow: bool) -> Target<'_> {
    Target::Path(path.into(), follow)
}

/// An operation on what paths name.
async fn on_path<P: Deref<Target: FileSystem>>(
    session: &Session<P>,
    operation: &Operation,
    now_ns: u64,
) -> Result<Answer, FileError> {
    use Operation::*;
    let made = |_: Attributes| Answer::Done;
    match operation {
        SyncAll => session.sync_all().await.map(done),
        Mkdir { path, mode } => session
            .mkdir(now_ns, path[..].into(), *mode)
            .await
            .map(made),
        Rmdir { path } => session.rmdir(now_ns, path[..].into()).await.map(done),
        Unlink { path } => session.unlink(now_ns, path[..].into()).await.map(done),
        Rename { from, to, how } => {
            let (from, to) = (from[..].into(), to[..].into());
            session.rename(now_ns, from, to, *how).await.map(done)
        }
        Link { from, to, follow } => {
            let (from, to) = (from[..].into(), to[..].into());
            session.link(now_ns, from, to, *follow).await.map(made)
        }
        Symlink { target, path } => {
            let made_at = session.symlink(now_ns, target, path[..].into());
            made_at.await.map(made)
        }
        ReadLink { path } => session.read_link(path[..].into()).await.map(Answer::Bytes),
        Stat { path, follow } => {
            let found = session.stat(target(path, *follow)).await?;
            Ok(Answer::Look(Look::of(&found)))
        }
        List { path } => list(session, path[..].into(), now_ns).await,
        Truncate { path, bytes } => {
            let cut = session.truncate(now_ns, path[..].into(), *bytes);
            cut.await.map(done)
        }
        other => on_attributes(session, other, now_ns).await,
    }
}

/// An operation on attributes, of this kind or that.
async fn on_attributes<P: Deref<Target: FileSystem>>(
    session: &Session<P>,
    operation: &Operation,
    now_ns: u64,
) -> Result<Answer, FileError> {
    use Operation::*;
    match operation {
        Chmod { path, mode } => {
            let set = session.chmod(now_ns, target(path, true), *mode);
            set.await.map(done)
        }
        Chown {
            path,
            follow,
            uid,
            gid,
        } => {
            let set = session.chown(now_ns, target(path, *follow), *uid, *gid);
            set.await.map(done)
        }
        SetTimes {
            path,
            follow,
            accessed,
            modified,
        } => {
            let set = session.set_times(now_ns, target(path, *follow), *accessed, *modified);
            set.await.map(done)
        }
        Xattr { path, follow, name } => {
            let value = session.xattr(target(path, *follow), name);
            value.await.map(Answer::Bytes)
        }
        SetXattr {
            path,
            follow,
            name,
            value,
            how,
        } => {
            let set = session.set_xattr(now_ns, target(path, *follow), name, value, *how);
            set.await.map(done)
        }
        RemoveXattr { path, follow, name } => {
            let set = session.remove_xattr(now_ns, target(path, *follow), name);
            set.await.map(done)
        }
        Xattrs { path, follow } => {
            let names = session.xattrs(target(path, *follow)).await?;
            let names = names.into_iter().map(|name| (name.into_vec(), None));
            Ok(sorted(names.collect()))
        }
        other => unreachable!("{other:?} is done elsewhere"),
    }
}
