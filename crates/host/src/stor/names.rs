//! Operations by path: opening, asking, changing.

use wharf_files::vfs::{At, Opened, Start, Target};
use wharf_files::{Attributes, Errno, OpenFlags, Rename, Special, StatFs};
use wharf_wire::command::Command;
use wharf_wire::file::{
    Caller as WireCaller, FileAttributes, FileSystemStatus, GROUPS_MAX, LINKS_LEAVE, Names,
    OpenAnswer, PATH_BYTES_MAX, PathChange, PathRequest, RequestError, RequestHead,
    Start as WireStart,
};
use zerocopy::{FromBytes, IntoBytes};

use super::StorClient;
use super::convert;
use super::placement::About;
use super::send::Buffer;
use crate::files::FileError;
use crate::volume::NAMESPACE;

/// The first path of a request, and the second or the name of an extended attribute.
pub(super) type Both<'a> = (&'a At<'a>, (WireStart, &'a [u8]));

/// No second path.
pub(super) const NOTHING: (WireStart, &[u8]) = (WireStart::ROOT, b"");

/// A command for a buffer of so many bytes.
pub(super) type OfBytes<'a> = &'a dyn Fn(u32) -> Command;

/// Bytes of paths and values that are asked for at first.
const FIRST_BYTES: usize = 4096;

impl StorClient {
    /// A head that says who asks.
    pub(super) fn head(&self) -> Result<RequestHead, FileError> {
        let caller = &*self.caller;
        let mut groups = &caller.groups[..];
        if groups.len() > GROUPS_MAX {
            // The drive knows all groups of who shows it claims. Elsewhere, to leave some out could let the caller do what
            // these groups may not.
            if !self.inner.access.is_one_user() {
                return Err(Errno::EINVAL.into());
            }
            groups = &groups[..GROUPS_MAX];
        }
        let mut head = RequestHead::of(WireCaller {
            uid: caller.uid,
            gid: caller.gid,
            groups,
        });
        head.file_bytes_max = self.file_bytes_max;
        head.path_flags = if self.links_leave { LINKS_LEAVE } else { 0 };
        Ok(head)
    }

    /// Where names of a path are.
    fn about(&self, at: &At<'_>) -> About {
        let from = match at.from {
            Start::Root => 0,
            Start::Handle(handle) => self.number(handle),
            Start::Number(number) => number,
        };
        if at.path.is_empty() {
            return About::File(from);
        }
        let slash = at.path.iter().rposition(|byte| *byte == b'/');
        let directory = &at.path[..slash.unwrap_or(0)];
        // FNV-1a (Fowler, Noll, Vo).
        let hash = directory
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        About::Names(match directory {
            [] => from,
            _ => hash ^ from,
        })
    }

    /// Sends a command with a request, whose answer takes up to `answer_bytes`; gives its result and the buffer.
    pub(super) async fn ask(
        &self,
        command: OfBytes<'_>,
        head: RequestHead,
        (at, path2): Both<'_>,
        value: &[u8],
        answer_bytes: usize,
    ) -> Result<(u64, Buffer<'_>), FileError> {
        let names = Names {
            path: convert::place(at),
            path2,
            value,
        };
        if names.path.1.len().max(path2.1.len()) > PATH_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        let request = head.with_names(&names).map_err(|error| match error {
            RequestError::PathTooLong(_) => Errno::ENAMETOOLONG,
            RequestError::ValueTooLong(_) => Errno::E2BIG,
            RequestError::Short { .. } | RequestError::Field(_) => Errno::EINVAL,
        })?;
        let bytes = request.len().max(answer_bytes);
        if bytes > self.inner.bytes_max {
            return Err(Errno::E2BIG.into());
        }
        let mut buffer = self.inner.buffer(bytes).await;
        buffer.put(&request);
        let result = buffer.send(self.about(at), command(bytes as u32)).await?;
        Ok((result, buffer))
    }

    /// Sends a command with a request and without an answer.
    pub(super) async fn change(
        &self,
        command: OfBytes<'_>,
        head: RequestHead,
        both: Both<'_>,
        value: &[u8],
    ) -> Result<(), FileError> {
        self.ask(command, head, both, value, 0).await.map(drop)
    }

    /// Sends a command with a request; its answer is a structure.
    pub(super) async fn answered<T: FromBytes + IntoBytes>(
        &self,
        command: OfBytes<'_>,
        head: RequestHead,
        both: Both<'_>,
    ) -> Result<T, FileError> {
        let (_, buffer) = self.ask(command, head, both, b"", size_of::<T>()).await?;
        let mut answer = T::new_zeroed();
        buffer.get(answer.as_mut_bytes());
        Ok(answer)
    }

    async fn attributes_of(
        &self,
        command: OfBytes<'_>,
        head: RequestHead,
        both: Both<'_>,
    ) -> Result<Attributes, FileError> {
        let found: FileAttributes = self.answered(command, head, both).await?;
        Ok(convert::attributes(&found)?)
    }

    /// Asks for bytes of which nobody knows how many there are.
    pub(super) async fn bytes(
        &self,
        command: OfBytes<'_>,
        both: Both<'_>,
    ) -> Result<Vec<u8>, FileError> {
        let head = self.head()?;
        let mut room = FIRST_BYTES;
        loop {
            let answer = self.ask(command, head, both, b"", room).await;
            match answer {
                Ok((bytes, buffer)) => {
                    let mut out = vec![0; bytes as usize];
                    buffer.get(&mut out);
                    return Ok(out);
                }
                Err(FileError::Errno(Errno::ERANGE)) => {
                    let for_size = |bytes| command(bytes).for_size();
                    let size = self.ask(&for_size, head, both, b"", 0).await?.0 as usize;
                    // It may have become shorter meanwhile, or its name be none.
                    if size <= room || size > self.inner.bytes_max {
                        return Err(Errno::ERANGE.into());
                    }
                    room = size;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens what a path names, made with the permission bits `mode` if need be.
    ///
    /// # Errors
    /// As [`Session::open`](wharf_files::vfs::Session::open).
    pub async fn open(&self, at: At<'_>, flags: OpenFlags, mode: u16) -> Result<Opened, FileError> {
        let mut head = self.head()?;
        head.mode = mode;
        let command = |bytes| Command::open_file(NAMESPACE, convert::open_mode(flags), bytes);
        let answer: OpenAnswer = self.answered(&command, head, (&at, NOTHING)).await?;
        let opened = Opened {
            handle: convert::handle(answer.handle),
            attributes: convert::attributes(&answer.attributes)?,
            is_new: answer.is_new != 0,
        };
        self.note_number(opened.handle, opened.attributes.number);
        Ok(opened)
    }

    /// The attributes of something.
    ///
    /// # Errors
    /// Those of a walk, or `EBADF`.
    pub async fn stat(&self, target: Target<'_>) -> Result<Attributes, FileError> {
        let (at, aims) = aimed(target);
        let command = |bytes| aims.aim(Command::path_request(NAMESPACE, PathRequest::Stat, bytes));
        self.attributes_of(&command, self.head()?, (&at, NOTHING))
            .await
    }

    /// Whether the caller may do something: 4 to read, 2 to write, 1 to run, or a sum of these.
    ///
    /// # Errors
    /// Those of a walk; `EACCES`.
    pub async fn access(&self, target: Target<'_>, bits: u8) -> Result<(), FileError> {
        let (at, aims) = aimed(target);
        let command = |bytes| {
            let ask = Command::path_request(NAMESPACE, PathRequest::Access, bytes);
            aims.aim(ask.for_access(bits))
        };
        self.change(&command, self.head()?, (&at, NOTHING), b"")
            .await
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// Those of a walk; `EINVAL` if it is none.
    pub async fn read_link(&self, at: At<'_>) -> Result<Vec<u8>, FileError> {
        let command = |bytes| Command::path_request(NAMESPACE, PathRequest::ReadLink, bytes);
        self.bytes(&command, (&at, NOTHING)).await
    }

    /// How much the file system holds.
    ///
    /// # Errors
    /// `EIO`.
    pub async fn stat_fs(&self) -> Result<StatFs, FileError> {
        let what = PathRequest::FileSystemStatus;
        let command = |bytes| Command::path_request(NAMESPACE, what, bytes);
        let root = At::from(b"/");
        let found: FileSystemStatus = self
            .answered(&command, self.head()?, (&root, NOTHING))
            .await?;
        Ok(convert::stat_fs(&found))
    }

    /// Makes a directory with these permission bits, from which the caller has taken its mask.
    ///
    /// # Errors
    /// As [`Session::mkdir`](wharf_files::vfs::Session::mkdir).
    pub async fn mkdir(&self, at: At<'_>, mode: u16) -> Result<Attributes, FileError> {
        let mut head = self.head()?;
        head.mode = mode;
        let what = PathRequest::MakeDirectory;
        let command = |bytes| Command::path_request(NAMESPACE, what, bytes);
        self.attributes_of(&command, head, (&at, NOTHING)).await
    }

    /// Makes a pipe, a socket or a device.
    ///
    /// # Errors
    /// As [`Session::mknod`](wharf_files::vfs::Session::mknod).
    pub async fn mknod(
        &self,
        at: At<'_>,
        special: Special,
        device: u32,
        mode: u16,
    ) -> Result<Attributes, FileError> {
        let mut head = self.head()?;
        (head.mode, head.device) = (mode, device);
        head.special = convert::special(special).raw();
        let what = PathRequest::MakeSpecial;
        let command = |bytes| Command::path_request(NAMESPACE, what, bytes);
        self.attributes_of(&command, head, (&at, NOTHING)).await
    }

    /// Makes a symbolic link that leads to `target`, which need not be there.
    ///
    /// # Errors
    /// As [`Session::symlink`](wharf_files::vfs::Session::symlink).
    pub async fn symlink(&self, target: &[u8], at: At<'_>) -> Result<Attributes, FileError> {
        let what = PathRequest::MakeSymlink;
        let command = |bytes| Command::path_request(NAMESPACE, what, bytes);
        let both = (&at, (WireStart::ROOT, target));
        self.attributes_of(&command, self.head()?, both).await
    }

    /// Gives a file one more name; of a symbolic link, the link itself unless `follow`.
    ///
    /// # Errors
    /// As [`Session::link`](wharf_files::vfs::Session::link).
    pub async fn link(
        &self,
        from: At<'_>,
        to: At<'_>,
        follow: bool,
    ) -> Result<Attributes, FileError> {
        let command = |bytes| {
            let link = Command::path_request(NAMESPACE, PathRequest::Link, bytes);
            if follow { link.following() } else { link }
        };
        let both = (&from, convert::place(&to));
        self.attributes_of(&command, self.head()?, both).await
    }

    async fn change_name(&self, what: PathChange, at: &At<'_>) -> Result<(), FileError> {
        let command = |bytes| Command::path_change(NAMESPACE, what, bytes);
        self.change(&command, self.head()?, (at, NOTHING), b"")
            .await
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As [`Session::rmdir`](wharf_files::vfs::Session::rmdir).
    pub async fn rmdir(&self, at: At<'_>) -> Result<(), FileError> {
        self.change_name(PathChange::RemoveDirectory, &at).await
    }

    /// Removes a name of what is no directory.
    ///
    /// # Errors
    /// As [`Session::unlink`](wharf_files::vfs::Session::unlink).
    pub async fn unlink(&self, at: At<'_>) -> Result<(), FileError> {
        self.change_name(PathChange::Remove, &at).await
    }

    /// Gives what is at `from` the name `to`, in one step.
    ///
    /// # Errors
    /// As [`Session::rename`](wharf_files::vfs::Session::rename).
    pub async fn rename(&self, from: At<'_>, to: At<'_>, how: Rename) -> Result<(), FileError> {
        let command = |bytes| {
            let rename = Command::path_change(NAMESPACE, PathChange::Rename, bytes);
            rename.with_rename(convert::rename(how))
        };
        let both = (&from, convert::place(&to));
        self.change(&command, self.head()?, both, b"").await
    }

    /// Sets the size of what a path names.
    ///
    /// # Errors
    /// As [`Session::truncate`](wharf_files::vfs::Session::truncate).
    pub async fn truncate(&self, at: At<'_>, bytes: u64) -> Result<(), FileError> {
        let mut head = self.head()?;
        head.size = bytes;
        let command = |length| Command::path_change(NAMESPACE, PathChange::Truncate, length);
        self.change(&command, head, (&at, NOTHING), b"").await
    }
}

/// What a command is aimed at besides its path.
#[derive(Clone, Copy)]
pub(super) enum Aims {
    Path { follow: bool },
    Handle(wharf_files::Handle),
}

/// The path of a target, if it has one.
pub(super) fn aimed(target: Target<'_>) -> (At<'_>, Aims) {
    match target {
        Target::Path(at, follow) => (at, Aims::Path { follow }),
        Target::Handle(handle) => {
            let at = At {
                from: Start::Handle(handle),
                path: b"",
            };
            (at, Aims::Handle(handle))
        }
    }
}

impl Aims {
    pub(super) fn aim(self, command: Command) -> Command {
        match self {
            Aims::Path { follow: true } => command.following(),
            Aims::Path { follow: false } => command,
            Aims::Handle(handle) => command.by_handle(convert::file_handle(handle)),
        }
    }
}
