//! Random programs by commands: what they answer.

use wharf_files::testing::program::{Operation, Step, callers};
use wharf_files::testing::subject::{Answer, Look, Subject, sorted};
use wharf_files::vfs::SetTime;
use wharf_files::{Allocate, Caller, Kind, LIST_START, OpenFlags, Owner, Special};
use wharf_runtime::Rng;
use wharf_wire::command::Command;
use wharf_wire::file::{
    AttributeOperation, Evict, FileAttributes, FileHandle, FileKind, HandleOperation, Names,
    NearResult, OpenAnswer, OpenMode, PathChange, PathRequest, RenameMode, RequestHead, Start,
    TIME_NOW, TIME_STAYS, XattrMode, entries,
};
use zerocopy::FromBytes;

use super::asker::{Asker, head, path as one};
use super::by_window::ByWindow;

/// Bytes of buffers with requests.
const REQUEST: u32 = 80_000;

/// Bytes of a listing: few entries.
const LISTING: u32 = 200;

/// A handle that was never given.
const NOT_OPEN: FileHandle = FileHandle {
    index: u32::MAX,
    generation: 0,
};

/// Users of a drive's file system, each with what it has open.
pub struct ByCommands {
    pub asker: Asker,
    callers: Vec<Caller>,
    slots: Vec<Vec<Option<FileHandle>>>,
    /// Which reads and writes go by way of the drive's cache, if any do.
    near: Option<Rng>,
    /// And which of them need no command, if the drive has a window.
    pub window: Option<ByWindow>,
}

type Answered = Result<Answer, i32>;

impl Subject for ByCommands {
    async fn step(&mut self, step: &Step, _: u64) -> Answer {
        match self.try_step(step).await {
            Ok(answer) => answer,
            Err(errno) => Answer::Failed(errno),
        }
    }
}

fn two<'a>(from: &'a [u8], to: &'a [u8]) -> Names<'a> {
    Names {
        path2: (Start::ROOT, to),
        ..one(from)
    }
}

fn kind(raw: u16) -> Kind {
    match FileKind::from_raw(raw).expect("a kind") {
        FileKind::File => Kind::File,
        FileKind::Directory => Kind::Directory,
        FileKind::Symlink => Kind::Symlink,
        FileKind::Fifo => Kind::Special(Special::Fifo),
        FileKind::Socket => Kind::Special(Special::Socket),
        FileKind::CharDevice => Kind::Special(Special::CharDevice),
        FileKind::BlockDevice => Kind::Special(Special::BlockDevice),
    }
}

fn look(of: &FileAttributes) -> Answer {
    let kind = kind(of.kind);
    Answer::Look(Look {
        kind,
        mode: of.mode,
        owner: Owner {
            uid: of.uid,
            gid: of.gid,
        },
        links: of.links,
        bytes: if kind == Kind::Directory { 0 } else { of.bytes },
    })
}

fn open_mode(flags: OpenFlags) -> OpenMode {
    OpenMode {
        read: flags.read,
        write: flags.write,
        create: flags.create,
        exclusive: flags.exclusive,
        truncate: flags.truncate,
        append: flags.append,
        directory: flags.directory,
        no_follow: flags.no_follow,
    }
}

fn following(command: Command, follow: bool) -> Command {
    match follow {
        true => command.following(),
        false => command,
    }
}

impl ByCommands {
    pub fn new(asker: Asker) -> ByCommands {
        let callers = callers();
        ByCommands {
            asker,
            slots: vec![vec![None; 64]; callers.len()],
            callers,
            near: None,
            window: None,
        }
    }

    /// The same; most reads and writes go by way of the drive's cache, which is emptied now and then.
    pub fn near(self, rng: Rng) -> ByCommands {
        let host = &self.asker.host;
        let window = host.dma.window();
        ByCommands {
            window: window.map(|window| ByWindow::new(&host.cpu, window)),
            near: Some(rng),
            ..self
        }
    }

    /// Has the drive's cache do with a file what might happen at any time.
    async fn evict(&mut self, handle: FileHandle, offset: u64) -> Result<(), i32> {
        let Some(rng) = &mut self.near else {
            return Ok(());
        };
        let evict = match rng.below(8) {
            0 => Command::evict_near(1, handle, Evict::WriteBack, 0, u64::MAX),
            1 => Command::evict_near(1, handle, Evict::Clean, 0, u64::MAX),
            2 => Command::evict_near(1, handle, Evict::WriteBack, offset, 5_000),
            3 => Command::read_near(1, handle, offset, 0).keeping(rng.below(9) as u16),
            _ => return Ok(()),
        };
        let evict = self.asker.aimed(evict);
        match self.asker.send(evict).await.done() {
            // It is not open to be read, or a directory.
            Err(9 | 21) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Whether the next read or write goes by way of the drive's cache.
    fn is_near(&mut self) -> bool {
        self.near.as_mut().is_some_and(|rng| rng.below(4) > 0)
    }

    fn forget(&mut self, handle: FileHandle) {
        if let Some(window) = &mut self.window {
            window.closed(handle);
        }
    }

    fn load(&mut self, handle: FileHandle, offset: u64, bytes: u32) -> Option<Vec<u8>> {
        self.window.as_mut()?.load(handle, offset, bytes as usize)
    }

    fn store(&mut self, handle: FileHandle, offset: u64, data: &[u8]) -> bool {
        let window = self.window.as_mut();
        window.is_some_and(|window| window.store(handle, offset, data))
    }

    /// Closes all that is open.
    pub async fn close_all(&mut self) {
        for handle in std::mem::take(&mut self.slots)
            .into_iter()
            .flatten()
            .flatten()
        {
            let closed = self.asker.send(Command::close_file(1, handle)).await;
            assert_eq!(closed.done(), Ok(0));
        }
    }

    /// Makes an answer of what is in the buffer.
    fn answered<T: FromBytes>(&self) -> T {
        T::read_from_bytes(&self.asker.got(size_of::<T>())).expect("it is as long")
    }

    async fn stat(&mut self, command: Command, user: usize, names: &Names<'_>) -> Answered {
        let head = head(&self.callers[user]);
        self.asker.ask(command, head, names).await.done()?;
        Ok(look(&self.answered()))
    }

    /// A request whose answer is so many bytes.
    async fn bytes(
        &mut self,
        command: Command,
        head: RequestHead,
        names: &Names<'_>,
    ) -> Result<Vec<u8>, i32> {
        let size = self.asker.ask(command.for_size(), head, names).await;
        let size = size.done()?;
        let bytes = self.asker.ask(command, head, names).await.done()?;
        assert_eq!(bytes, size, "what was said before");
        Ok(self.asker.got(bytes as usize))
    }

    async fn open(
        &mut self,
        user: usize,
        path: &[u8],
        flags: OpenFlags,
        mode: u16,
    ) -> Result<FileHandle, i32> {
        let mut head = head(&self.callers[user]);
        head.mode = mode;
        let command = Command::open_file(1, open_mode(flags), REQUEST);
        self.asker.ask(command, head, &one(path)).await.done()?;
        let answer = self.answered::<OpenAnswer>();
        let handle = FileHandle::from_raw(answer.handle);
        if let Some(window) = &mut self.window {
            window.opened(handle, answer.attributes.number, flags);
        }
        Ok(handle)
    }

    async fn try_step(&mut self, step: &Step) -> Answered {
        let user = step.user;
        let handle = |slot: &usize| self.slots[user][*slot].unwrap_or(NOT_OPEN);
        use Operation::*;
        match &step.operation {
            Open {
                slot,
                path,
                flags,
                mode,
            } => {
                let opened = self.open(user, path, *flags, *mode).await?;
                if let Some(before) = self.slots[user][*slot].replace(opened) {
                    self.forget(before);
                    let close = Command::close_file(1, before);
                    self.asker.send(close).await.done()?;
                }
                Ok(Answer::Done)
            }
            Close { slot } => {
                let close = Command::close_file(1, handle(slot));
                self.forget(handle(slot));
                self.slots[user][*slot] = None;
                self.done(close).await
            }
            Read {
                slot,
                offset,
                bytes,
            } => {
                let (handle, bytes) = (handle(slot), *bytes as u32);
                self.evict(handle, *offset).await?;
                if let Some(loaded) = self.load(handle, *offset, bytes) {
                    return Ok(Answer::Bytes(loaded));
                }
                if self.is_near() {
                    let read = Command::read_near(1, handle, *offset, bytes);
                    let kind = self.near.as_mut().map_or(0, |rng| rng.below(4));
                    let read = match kind {
                        0 => read,
                        1 => read.taking(),
                        _ => read.keeping(2).showing(),
                    };
                    let read = self.asker.aimed(read);
                    let result = self.asker.send(read).await.done()?;
                    let count = NearResult::from_raw(result).bytes;
                    return Ok(Answer::Bytes(self.asker.got(count as usize)));
                }
                let read = Command::read_file(1, handle, *offset, bytes);
                let read = self.asker.aimed(read);
                let count = self.asker.send(read).await.done()?;
                Ok(Answer::Bytes(self.asker.got(count as usize)))
            }
            Write { slot, offset, fill } => {
                let handle = handle(slot);
                self.evict(handle, *offset).await?;
                let data = fill.make();
                if self.store(handle, *offset, &data) {
                    return Ok(Answer::Number(data.len() as u64));
                }
                self.asker.put(0, &data);
                if self.is_near() {
                    let write = Command::write_near(1, handle, *offset, data.len() as u32);
                    let write = write.showing();
                    let write = self.asker.aimed(write);
                    let result = self.asker.send(write).await.done()?;
                    return Ok(Answer::Number(NearResult::from_raw(result).bytes.into()));
                }
                let write = Command::write_file(1, handle, *offset, data.len() as u32);
                let write = self.asker.aimed(write);
                Ok(Answer::Number(self.asker.send(write).await.done()?))
            }
            TruncateOpen { slot, bytes } => {
                let operation = HandleOperation::Truncate;
                let handle = handle(slot);
                self.done(Command::handle_operation(1, handle, operation, *bytes, 0))
                    .await
            }
            Allocate {
                slot,
                offset,
                bytes,
                what,
            } => {
                let operation = allocation(*what);
                let handle = handle(slot);
                let command = Command::handle_operation(1, handle, operation, *offset, *bytes);
                self.done(command).await
            }
            Seek { slot, offset, what } => {
                let operation = match what {
                    wharf_files::Seek::Data => HandleOperation::SeekData,
                    wharf_files::Seek::Hole => HandleOperation::SeekHole,
                };
                let handle = handle(slot);
                let seek = Command::handle_operation(1, handle, operation, *offset, 0);
                Ok(Answer::Number(self.asker.send(seek).await.done()?))
            }
            Sync { slot, what } => {
                let data_only = *what == wharf_files::Sync::Data;
                let sync = Command::sync_file(1, handle(slot), 0, u64::MAX, data_only);
                self.done(sync).await
            }
            StatOpen { slot } => {
                let command = Command::path_request(1, PathRequest::Stat, REQUEST);
                let command = command.by_handle(handle(slot));
                self.stat(command, user, &one(b"")).await
            }
            SyncAll => self.done(Command::sync_files(1)).await,
            other => self.on_path(user, other).await,
        }
    }

    async fn done(&mut self, command: Command) -> Answered {
        self.asker.send(command).await.done()?;
        Ok(Answer::Done)
    }

    async fn ask(&mut self, command: Command, head: RequestHead, names: &Names<'_>) -> Answered {
        self.asker.ask(command, head, names).await.done()?;
        Ok(Answer::Done)
    }

    async fn on_path(&mut self, user: usize, operation: &Operation) -> Answered {
        use Operation::*;
        let mut head = head(&self.callers[user]);
        let change = |what| Command::path_change(1, what, REQUEST);
        let request = |what| Command::path_request(1, what, REQUEST);
        match operation {
            Mkdir { path, mode } => {
                head.mode = *mode;
                let command = request(PathRequest::MakeDirectory);
                self.ask(command, head, &one(path)).await
            }
            Rmdir { path } => {
                let command = change(PathChange::RemoveDirectory);
                self.ask(command, head, &one(path)).await
            }
            Unlink { path } => self.ask(change(PathChange::Remove), head, &one(path)).await,
            Rename { from, to, how } => {
                let mode = match how {
                    wharf_files::Rename::Replace => RenameMode::Replace,
                    wharf_files::Rename::NoReplace => RenameMode::NoReplace,
                    wharf_files::Rename::Exchange => RenameMode::Exchange,
                };
                let command = change(PathChange::Rename).with_rename(mode);
                self.ask(command, head, &two(from, to)).await
            }
            Link { from, to, follow } => {
                let command = following(request(PathRequest::Link), *follow);
                self.ask(command, head, &two(from, to)).await
            }
            Symlink { target, path } => {
                let command = request(PathRequest::MakeSymlink);
                self.ask(command, head, &two(path, target)).await
            }
            ReadLink { path } => {
                let command = request(PathRequest::ReadLink);
                let target = self.bytes(command, head, &one(path)).await?;
                Ok(Answer::Bytes(target))
            }
            Stat { path, follow } => {
                let command = following(request(PathRequest::Stat), *follow);
                self.stat(command, user, &one(path)).await
            }
            List { path } => self.list(user, path).await,
            Truncate { path, bytes } => {
                head.size = *bytes;
                self.ask(change(PathChange::Truncate), head, &one(path))
                    .await
            }
            other => self.on_attributes(head, other).await,
        }
    }

    async fn list(&mut self, user: usize, path: &[u8]) -> Answered {
        let handle = self.open(user, path, OpenFlags::DIRECTORY, 0).await?;
        let (mut names, mut cookie) = (Vec::new(), LIST_START);
        loop {
            // A name of 255 bytes takes more than most listings here.
            let mut bytes = LISTING;
            let listed = loop {
                self.asker.put(0, &[0xee; 4096]);
                let list = Command::read_directory(1, handle, cookie, bytes);
                let list = self.asker.aimed(list);
                match self.asker.send(list).await.done() {
                    Err(22) if bytes == LISTING => bytes = 4096,
                    listed => break listed,
                }
            };
            let count = match listed {
                Ok(count) => count as usize,
                Err(errno) => {
                    self.done(Command::close_file(1, handle)).await?;
                    return Err(errno);
                }
            };
            let all = self.asker.got(4096);
            assert!(all[count..].iter().all(|byte| *byte == 0xee), "no more");
            let (rows, is_end) = entries(&all[..count]);
            for (row, name) in rows {
                cookie = row.cookie;
                names.push((name.to_vec(), Some(kind(row.kind))));
            }
            if is_end {
                break;
            }
        }
        self.done(Command::close_file(1, handle)).await?;
        Ok(sorted(names))
    }

    async fn on_attributes(&mut self, mut head: RequestHead, operation: &Operation) -> Answered {
        use Operation::*;
        let set = |what| Command::set_file_attributes(1, what, REQUEST);
        let request = |what| Command::path_request(1, what, REQUEST);
        let time = |set: &SetTime| match set {
            SetTime::Omit => TIME_STAYS,
            SetTime::Now => TIME_NOW,
            SetTime::At(time_ns) => *time_ns,
        };
        match operation {
            Chmod { path, mode } => {
                head.mode = *mode;
                let command = set(AttributeOperation::Mode).following();
                self.ask(command, head, &one(path)).await
            }
            Chown {
                path,
                follow,
                uid,
                gid,
            } => {
                head.set_uid = uid.unwrap_or(u32::MAX);
                head.set_gid = gid.unwrap_or(u32::MAX);
                let command = following(set(AttributeOperation::Owner), *follow);
                self.ask(command, head, &one(path)).await
            }
            SetTimes {
                path,
                follow,
                accessed,
                modified,
            } => {
                (head.accessed_ns, head.modified_ns) = (time(accessed), time(modified));
                let command = following(set(AttributeOperation::Times), *follow);
                self.ask(command, head, &one(path)).await
            }
            Xattr { path, follow, name } => {
                let command = following(request(PathRequest::GetXattr), *follow);
                let value = self.bytes(command, head, &two(path, name)).await?;
                Ok(Answer::Bytes(value))
            }
            SetXattr {
                path,
                follow,
                name,
                value,
                how,
            } => {
                let mode = match how {
                    wharf_files::SetXattr::Put => XattrMode::Put,
                    wharf_files::SetXattr::Create => XattrMode::Create,
                    wharf_files::SetXattr::Replace => XattrMode::Replace,
                };
                let names = Names {
                    value,
                    ..two(path, name)
                };
                let command = set(AttributeOperation::SetXattr).with_xattr_mode(mode);
                self.ask(following(command, *follow), head, &names).await
            }
            RemoveXattr { path, follow, name } => {
                let command = following(set(AttributeOperation::RemoveXattr), *follow);
                self.ask(command, head, &two(path, name)).await
            }
            Xattrs { path, follow } => {
                let command = following(request(PathRequest::ListXattrs), *follow);
                let all = self.bytes(command, head, &one(path)).await?;
                let names = all.split(|byte| *byte == 0);
                let names = names.filter(|name| !name.is_empty());
                Ok(sorted(names.map(|name| (name.to_vec(), None)).collect()))
            }
            other => unreachable!("{other:?} is done elsewhere"),
        }
    }
}

fn allocation(what: Allocate) -> HandleOperation {
    match what {
        Allocate::Extend => HandleOperation::Allocate,
        Allocate::KeepSize => HandleOperation::AllocateKeepSize,
        Allocate::Punch => HandleOperation::Punch,
        Allocate::Zero => HandleOperation::Zero,
        Allocate::ZeroKeepSize => HandleOperation::ZeroKeepSize,
    }
}
