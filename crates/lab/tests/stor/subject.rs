//! Random programs by the client: what they answer.

use wharf_files::testing::program::{Operation, SLOTS, Step, callers};
use wharf_files::testing::subject::{Answer, Look, Subject, sorted};
use wharf_files::vfs::Target;
use wharf_files::{Handle, LIST_START, OpenFlags};
use wharf_host::files::FileError;
use wharf_host::stor::StorClient;

/// Entries of a listing that are asked for at once.
const ENTRIES_AT_ONCE: usize = 3;

/// A handle that was never given.
const NOT_OPEN: Handle = Handle {
    index: u32::MAX,
    generation: 0,
};

/// Users of one client, each with what it has open.
pub struct ByClient {
    users: Vec<(StorClient, [Option<Handle>; SLOTS])>,
}

impl ByClient {
    pub fn new(client: &StorClient) -> ByClient {
        let user = |caller| (client.as_caller(caller, u64::MAX), [None; SLOTS]);
        ByClient {
            users: callers().into_iter().map(user).collect(),
        }
    }

    async fn try_step(&mut self, step: &Step) -> Result<Answer, FileError> {
        use Operation::*;
        let (client, slots) = &mut self.users[step.user];
        let handle = |slot: &usize| slots[*slot].unwrap_or(NOT_OPEN);
        match &step.operation {
            Open {
                slot,
                path,
                flags,
                mode,
            } => {
                let opened = client.open(path[..].into(), *flags, *mode).await?;
                if let Some(before) = slots[*slot].replace(opened.handle) {
                    client.close(before).await?;
                }
            }
            Close { slot } => {
                let handle = handle(slot);
                slots[*slot] = None;
                client.close(handle).await?;
            }
            Read {
                slot,
                offset,
                bytes,
            } => {
                let mut out = vec![0xee; *bytes as usize];
                let count = client.read(handle(slot), *offset, &mut out).await?;
                out.truncate(count as usize);
                return Ok(Answer::Bytes(out));
            }
            Write { slot, offset, fill } => {
                let written = client.write(handle(slot), *offset, &fill.make()).await?;
                return Ok(Answer::Number(written));
            }
            TruncateOpen { slot, bytes } => client.truncate_open(handle(slot), *bytes).await?,
            Allocate {
                slot,
                offset,
                bytes,
                what,
            } => {
                let all = client.allocate(handle(slot), *offset, *bytes, *what);
                all.await?;
            }
            Seek { slot, offset, what } => {
                let found = client.seek(handle(slot), *offset, *what).await?;
                return Ok(Answer::Number(found));
            }
            Sync { slot, what } => client.sync(handle(slot), *what).await?,
            StatOpen { slot } => {
                let found = client.stat(Target::Handle(handle(slot))).await?;
                return Ok(Answer::Look(Look::of(&found)));
            }
            other => return on_path(client, other).await,
        }
        Ok(Answer::Done)
    }
}

impl Subject for ByClient {
    async fn step(&mut self, step: &Step, _: u64) -> Answer {
        match self.try_step(step).await {
            Ok(answer) => answer,
            Err(error) => Answer::Failed(error.errno().number()),
        }
    }
}

fn target(path: &[u8], follow: bool) -> Target<'_> {
    Target::Path(path.into(), follow)
}

async fn list(client: &StorClient, path: &[u8]) -> Result<Answer, FileError> {
    let opened = client.open(path.into(), OpenFlags::DIRECTORY, 0).await?;
    let (mut entries, mut cookie, mut is_end) = (Vec::new(), LIST_START, false);
    while !is_end {
        let listed = client.list(opened.handle, cookie, ENTRIES_AT_ONCE, &mut entries);
        is_end = listed.await?;
        cookie = entries.last().map_or(cookie, |entry| entry.cookie);
    }
    client.close(opened.handle).await?;
    let names = entries.iter();
    let names = names.map(|entry| (entry.name.to_vec(), Some(entry.kind)));
    Ok(sorted(names.collect()))
}

/// An operation on what paths name.
async fn on_path(client: &StorClient, operation: &Operation) -> Result<Answer, FileError> {
    use Operation::*;
    match operation {
        SyncAll => client.sync_all().await?,
        Mkdir { path, mode } => drop(client.mkdir(path[..].into(), *mode).await?),
        Rmdir { path } => client.rmdir(path[..].into()).await?,
        Unlink { path } => client.unlink(path[..].into()).await?,
        Rename { from, to, how } => {
            let renamed = client.rename(from[..].into(), to[..].into(), *how);
            renamed.await?;
        }
        Link { from, to, follow } => {
            let linked = client.link(from[..].into(), to[..].into(), *follow);
            linked.await?;
        }
        Symlink { target, path } => {
            client.symlink(target, path[..].into()).await?;
        }
        ReadLink { path } => {
            return Ok(Answer::Bytes(client.read_link(path[..].into()).await?));
        }
        Stat { path, follow } => {
            let found = client.stat(target(path, *follow)).await?;
            return Ok(Answer::Look(Look::of(&found)));
        }
        List { path } => return list(client, path).await,
        Truncate { path, bytes } => client.truncate(path[..].into(), *bytes).await?,
        other => return on_attributes(client, other).await,
    }
    Ok(Answer::Done)
}

/// An operation on attributes, of this kind or that.
async fn on_attributes(client: &StorClient, operation: &Operation) -> Result<Answer, FileError> {
    use Operation::*;
    match operation {
        Chmod { path, mode } => client.chmod(target(path, true), *mode).await?,
        Chown {
            path,
            follow,
            uid,
            gid,
        } => client.chown(target(path, *follow), *uid, *gid).await?,
        SetTimes {
            path,
            follow,
            accessed,
            modified,
        } => {
            let set = client.set_times(target(path, *follow), *accessed, *modified);
            set.await?;
        }
        Xattr { path, follow, name } => {
            let value = client.xattr(target(path, *follow), name).await?;
            return Ok(Answer::Bytes(value));
        }
        SetXattr {
            path,
            follow,
            name,
            value,
            how,
        } => {
            let set = client.set_xattr(target(path, *follow), name, value, *how);
            set.await?;
        }
        RemoveXattr { path, follow, name } => {
            let removed = client.remove_xattr(target(path, *follow), name);
            removed.await?;
        }
        Xattrs { path, follow } => {
            let names = client.xattrs(target(path, *follow)).await?;
            let names = names.into_iter().map(|name| (name.into_vec(), None));
            return Ok(sorted(names.collect()));
        }
        other => unreachable!("{other:?} is done elsewhere"),
    }
    Ok(Answer::Done)
}
