//! The fields of commands for files.

use super::Token;
use crate::bits::{Bits, bit_fields, wire_enum};
use crate::command::Command;
use crate::opcode::IoOpcode;

bit_fields! {
    /// What all commands for files have.
    mod file_fields {
        HANDLE_INDEX = 10 [31:0];
        HANDLE_GENERATION = 11 [31:0];
        OFFSET_LOW = 12 [31:0];
        OFFSET_HIGH = 13 [31:0];
        LENGTH = 14 [31:0];
    }
}

bit_fields! {
    /// Open file.
    mod open_fields {
        READ = 15 [0:0];
        WRITE = 15 [1:1];
        CREATE = 15 [2:2];
        EXCLUSIVE = 15 [3:3];
        TRUNCATE = 15 [4:4];
        APPEND = 15 [5:5];
        DIRECTORY = 15 [6:6];
        NO_FOLLOW = 15 [7:7];
    }
}

bit_fields! {
    /// Write file.
    mod write_file_fields {
        APPEND = 15 [0:0];
        FUA = 15 [1:1];
    }
}

bit_fields! {
    /// Sync file.
    mod sync_file_fields {
        DATA_ONLY = 15 [0:0];
        WHOLE = 15 [1:1];
        LEAVE = 15 [2:2];
    }
}

bit_fields! {
    /// Path request and path change.
    mod path_fields {
        OPERATION = 15 [7:0];
        FOLLOW = 15 [8:8];
        SIZE_ONLY = 15 [9:9];
        RENAME = 15 [11:10];
        ACCESS = 15 [14:12];
        BY_HANDLE = 15 [15:15];
    }
}

bit_fields! {
    /// Handle operation.
    mod handle_fields {
        OPERATION = 15 [7:0];
    }
}

bit_fields! {
    /// Set file attributes.
    mod attribute_fields {
        OPERATION = 15 [7:0];
        FOLLOW = 15 [8:8];
        XATTR = 15 [11:10];
        BY_HANDLE = 15 [15:15];
    }
}

// All commands with names have these bits in the same place.
const _: () = assert!(
    path_fields::FOLLOW.low == attribute_fields::FOLLOW.low
        && path_fields::BY_HANDLE.low == attribute_fields::BY_HANDLE.low
);

wire_enum! {
    /// What a path request is for. It has a request, and is answered in the same buffer.
    pub enum PathRequest: u8 {
        /// [`FileAttributes`](super::FileAttributes) of what the path names.
        Stat = 0x00 => "stat",
        /// Whether the caller may read, write, run what the path names.
        Access = 0x01 => "access",
        /// Where a symbolic link leads; the result is the length of it.
        ReadLink = 0x02 => "read link",
        /// The value of an extended attribute; the result is its length.
        GetXattr = 0x03 => "get extended attribute",
        /// Names of extended attributes, each with a zero behind it; the result is their length.
        ListXattrs = 0x04 => "list extended attributes",
        /// [`FileSystemStatus`](super::FileSystemStatus).
        FileSystemStatus = 0x05 => "file system status",
        /// Makes a directory; its attributes.
        MakeDirectory = 0x10 => "make directory",
        /// Makes a pipe, socket or device; its attributes.
        MakeSpecial = 0x11 => "make special file",
        /// Makes a symbolic link to the second path; its attributes.
        MakeSymlink = 0x12 => "make symbolic link",
        /// Gives what the path names the second path as one more name; its attributes.
        Link = 0x13 => "link",
    }
}

wire_enum! {
    /// What a path change does. It has a request, and no answer but its status.
    pub enum PathChange: u8 {
        /// Removes a name of what is no directory.
        Remove = 0x00 => "remove",
        /// Removes an empty directory.
        RemoveDirectory = 0x01 => "remove directory",
        /// Gives what the path names the second path as its name instead.
        Rename = 0x02 => "rename",
        /// Sets the size of the file that the path names.
        Truncate = 0x03 => "truncate",
    }
}

wire_enum! {
    /// What becomes of a name that a rename finds taken.
    pub enum RenameMode: u8 {
        /// It is replaced.
        Replace = 0 => "replace",
        /// It is an error (EEXIST).
        NoReplace = 1 => "do not replace",
        /// Both names change places.
        Exchange = 2 => "exchange",
    }
}

wire_enum! {
    /// What setting an extended attribute does with one that is there.
    pub enum XattrMode: u8 {
        /// Replaces it, if it is there.
        Put = 0 => "put",
        /// Fails if it is there (EEXIST).
        Create = 1 => "create",
        /// Fails if it is not there (ENODATA).
        Replace = 2 => "replace",
    }
}

wire_enum! {
    /// What is done with an open file, without data. PRP1 is the length of a range, PRP2 is 0.
    pub enum HandleOperation: u8 {
        /// The size becomes `OFFSET`.
        Truncate = 0x00 => "truncate",
        /// The range gets storage; the file ends behind it, or where it did.
        Allocate = 0x01 => "allocate",
        /// The range gets storage; the size stays.
        AllocateKeepSize = 0x02 => "allocate, keep size",
        /// Storage of the range is given back: it reads as zeros.
        Punch = 0x03 => "punch",
        /// The range reads as zeros and has storage; the file ends behind it, or where it did.
        Zero = 0x04 => "zero",
        /// The same; the size stays.
        ZeroKeepSize = 0x05 => "zero, keep size",
        /// The first data from `OFFSET` on: the result.
        SeekData = 0x06 => "seek data",
        /// The first hole from `OFFSET` on: the result.
        SeekHole = 0x07 => "seek hole",
    }
}

wire_enum! {
    /// Which attributes are set.
    pub enum AttributeOperation: u8 {
        /// Permission bits.
        Mode = 0x00 => "mode",
        /// User and group.
        Owner = 0x01 => "owner",
        /// Times of the last read and the last change.
        Times = 0x02 => "times",
        /// An extended attribute.
        SetXattr = 0x03 => "set extended attribute",
        /// Takes an extended attribute away.
        RemoveXattr = 0x04 => "remove extended attribute",
    }
}

/// An open file of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct FileHandle {
    /// Its place in the drive's table.
    pub index: u32,
    /// Which of those that had this place it is.
    pub generation: u32,
}

impl FileHandle {
    /// Both numbers in one word, the generation above.
    pub const fn raw(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Both numbers of a word.
    pub const fn from_raw(raw: u64) -> FileHandle {
        FileHandle {
            index: raw as u32,
            generation: (raw >> 32) as u32,
        }
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OpenMode {
    /// It may be read.
    pub read: bool,
    /// It may be written.
    pub write: bool,
    /// It is made if it is not there.
    pub create: bool,
    /// With `create`: that it is there is an error.
    pub exclusive: bool,
    /// It is cut to nothing.
    pub truncate: bool,
    /// Writes go to its end.
    pub append: bool,
    /// It must be a directory.
    pub directory: bool,
    /// It must not be a symbolic link.
    pub no_follow: bool,
}

impl OpenMode {
    const fn each(self) -> [(Bits, bool); 8] {
        [
            (open_fields::READ, self.read),
            (open_fields::WRITE, self.write),
            (open_fields::CREATE, self.create),
            (open_fields::EXCLUSIVE, self.exclusive),
            (open_fields::TRUNCATE, self.truncate),
            (open_fields::APPEND, self.append),
            (open_fields::DIRECTORY, self.directory),
            (open_fields::NO_FOLLOW, self.no_follow),
        ]
    }
}

impl Command {
    pub(super) fn file(opcode: IoOpcode, nsid: u32, handle: FileHandle) -> Command {
        Command::blank(opcode.raw(), nsid)
            .with(file_fields::HANDLE_INDEX, handle.index)
            .with(file_fields::HANDLE_GENERATION, handle.generation)
    }

    pub(super) fn at_bytes(self, offset: u64, bytes: u32) -> Command {
        self.with(file_fields::OFFSET_LOW, offset as u32)
            .with(file_fields::OFFSET_HIGH, (offset >> 32) as u32)
            .with(file_fields::LENGTH, bytes)
    }

    /// Closes an open file.
    pub fn close_file(nsid: u32, handle: FileHandle) -> Command {
        Command::file(IoOpcode::CloseFile, nsid, handle)
    }

    /// Reads `bytes` bytes from byte `offset` of an open file on; the result is how many there were.
    pub fn read_file(nsid: u32, handle: FileHandle, offset: u64, bytes: u32) -> Command {
        Command::file(IoOpcode::ReadFile, nsid, handle).at_bytes(offset, bytes)
    }

    /// Writes `bytes` bytes to byte `offset` of an open file on; the result is how many were written.
    pub fn write_file(nsid: u32, handle: FileHandle, offset: u64, bytes: u32) -> Command {
        Command::file(IoOpcode::WriteFile, nsid, handle).at_bytes(offset, bytes)
    }

    /// Writes `bytes` bytes at the end of an open file; the result is where that was.
    pub fn append_file(nsid: u32, handle: FileHandle, bytes: u32) -> Command {
        Command::write_file(nsid, handle, 0, bytes).with(write_file_fields::APPEND, 1)
    }

    /// The same write of a file, durable when it is acknowledged.
    #[must_use]
    pub fn with_file_fua(self) -> Command {
        self.with(write_file_fields::FUA, 1)
    }

    /// Makes `bytes` bytes of an open file durable, from byte `offset` on (`u64::MAX`: all).
    pub fn sync_file(
        nsid: u32,
        handle: FileHandle,
        offset: u64,
        bytes: u64,
        data_only: bool,
    ) -> Command {
        Command::file(IoOpcode::SyncFile, nsid, handle)
            .at_bytes(offset, 0)
            .with_prp(bytes, 0)
            .with(sync_file_fields::DATA_ONLY, data_only.into())
    }

    /// Makes everything in the file system durable.
    pub fn sync_files(nsid: u32) -> Command {
        Command::file(IoOpcode::SyncFile, nsid, FileHandle::default())
            .with(sync_file_fields::WHOLE, 1)
    }

    /// Ends the use of the file system: all that this host has open is closed, everything is durable, and nothing is
    /// left to be replayed at the next power-up.
    pub fn leave_files(nsid: u32) -> Command {
        Command::sync_files(nsid).with(sync_file_fields::LEAVE, 1)
    }

    /// Does something with an open file, without data.
    pub fn handle_operation(
        nsid: u32,
        handle: FileHandle,
        operation: HandleOperation,
        offset: u64,
        bytes: u64,
    ) -> Command {
        Command::file(IoOpcode::HandleOperation, nsid, handle)
            .at_bytes(offset, 0)
            .with_prp(bytes, 0)
            .with(handle_fields::OPERATION, operation.raw().into())
    }

    /// Lists an open directory behind `cookie` into a buffer of `bytes` bytes.
    pub fn read_directory(nsid: u32, handle: FileHandle, cookie: u64, bytes: u32) -> Command {
        Command::file(IoOpcode::ReadDirectory, nsid, handle).at_bytes(cookie, bytes)
    }

    /// Opens what the request in a buffer of `bytes` bytes names.
    pub fn open_file(nsid: u32, mode: OpenMode, bytes: u32) -> Command {
        let command = Command::blank(IoOpcode::OpenFile.raw(), nsid);
        let flags = mode.each().into_iter();
        flags.fold(command.at_bytes(0, bytes), |command, (bits, is_set)| {
            command.with(bits, is_set.into())
        })
    }

    /// Asks something of what the request in a buffer of `bytes` bytes names.
    pub fn path_request(nsid: u32, request: PathRequest, bytes: u32) -> Command {
        Command::blank(IoOpcode::PathRequest.raw(), nsid)
            .at_bytes(0, bytes)
            .with(path_fields::OPERATION, request.raw().into())
    }

    /// Changes what the request in a buffer of `bytes` bytes names.
    pub fn path_change(nsid: u32, change: PathChange, bytes: u32) -> Command {
        Command::blank(IoOpcode::PathChange.raw(), nsid)
            .at_bytes(0, bytes)
            .with(path_fields::OPERATION, change.raw().into())
    }

    /// Sets attributes of what the request in a buffer of `bytes` bytes names.
    pub fn set_file_attributes(nsid: u32, set: AttributeOperation, bytes: u32) -> Command {
        Command::blank(IoOpcode::SetFileAttributes.raw(), nsid)
            .at_bytes(0, bytes)
            .with(attribute_fields::OPERATION, set.raw().into())
    }

    /// The same command with names: a symbolic link at the end of the path is followed.
    #[must_use]
    pub fn following(self) -> Command {
        self.with(path_fields::FOLLOW, 1)
    }

    /// The same command, about an open file in the place of a path.
    #[must_use]
    pub fn by_handle(self, handle: FileHandle) -> Command {
        self.with(path_fields::BY_HANDLE, 1)
            .with(file_fields::HANDLE_INDEX, handle.index)
            .with(file_fields::HANDLE_GENERATION, handle.generation)
    }

    /// The same path request, for the size of the answer alone.
    #[must_use]
    pub fn for_size(self) -> Command {
        self.with(path_fields::SIZE_ONLY, 1)
    }

    /// The same path request of access, for these three bits: 4 read, 2 write, 1 run.
    #[must_use]
    pub fn for_access(self, bits: u8) -> Command {
        self.with(path_fields::ACCESS, u32::from(bits & 7))
    }

    /// The same rename, with what becomes of a name that is taken.
    #[must_use]
    pub fn with_rename(self, mode: RenameMode) -> Command {
        self.with(path_fields::RENAME, mode.raw().into())
    }

    /// The same setting of an extended attribute, with what becomes of one that is there.
    #[must_use]
    pub fn with_xattr_mode(self, mode: XattrMode) -> Command {
        self.with(attribute_fields::XATTR, mode.raw().into())
    }

    /// The same command with a token.
    #[must_use]
    pub fn with_token(mut self, token: Token) -> Command {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| token.0[at + i]));
        (self.cdw2, self.cdw3) = (word(0), word(4));
        self.mptr = u64::from(word(12)) << 32 | u64::from(word(8));
        self
    }

    /// What proves who sends a command for files; 0 where there are no sessions.
    pub fn token(&self) -> Token {
        let low = u64::from(self.cdw3) << 32 | u64::from(self.cdw2);
        Token((u128::from(self.mptr) << 64 | u128::from(low)).to_le_bytes())
    }

    /// The open file that a command is about.
    #[inline]
    pub const fn file_handle(&self) -> FileHandle {
        FileHandle {
            index: self.field(file_fields::HANDLE_INDEX),
            generation: self.field(file_fields::HANDLE_GENERATION),
        }
    }

    /// Where in a file; the cookie of a listing.
    #[inline]
    pub const fn file_offset(&self) -> u64 {
        self.field(file_fields::OFFSET_LOW) as u64
            | (self.field(file_fields::OFFSET_HIGH) as u64) << 32
    }

    /// Bytes of the buffer.
    #[inline]
    pub const fn file_bytes(&self) -> u32 {
        self.field(file_fields::LENGTH)
    }

    /// Bytes of the range of a sync or of a handle operation: all bits set for all.
    #[inline]
    pub const fn range_bytes(&self) -> u64 {
        self.prp1
    }

    /// How a file is opened.
    pub const fn open_mode(&self) -> OpenMode {
        OpenMode {
            read: self.field(open_fields::READ) != 0,
            write: self.field(open_fields::WRITE) != 0,
            create: self.field(open_fields::CREATE) != 0,
            exclusive: self.field(open_fields::EXCLUSIVE) != 0,
            truncate: self.field(open_fields::TRUNCATE) != 0,
            append: self.field(open_fields::APPEND) != 0,
            directory: self.field(open_fields::DIRECTORY) != 0,
            no_follow: self.field(open_fields::NO_FOLLOW) != 0,
        }
    }

    /// Whether a write goes to the end of its file.
    #[inline]
    pub const fn appends(&self) -> bool {
        self.field(write_file_fields::APPEND) != 0
    }

    /// Whether a write is durable when it is acknowledged.
    #[inline]
    pub const fn file_fua(&self) -> bool {
        self.field(write_file_fields::FUA) != 0
    }

    /// Whether a sync is of bytes alone, and of what reading them needs.
    pub const fn syncs_data_only(&self) -> bool {
        self.field(sync_file_fields::DATA_ONLY) != 0
    }

    /// Whether the host's use of the file system ends with this sync.
    pub const fn leaves_files(&self) -> bool {
        self.field(sync_file_fields::LEAVE) != 0
    }

    /// Whether a sync is of the whole file system.
    pub const fn syncs_all(&self) -> bool {
        self.field(sync_file_fields::WHOLE) != 0
    }

    /// What a path request asks.
    pub const fn path_request_kind(&self) -> Option<PathRequest> {
        PathRequest::from_raw(self.field(path_fields::OPERATION) as u8)
    }

    /// What a path change does.
    pub const fn path_change_kind(&self) -> Option<PathChange> {
        PathChange::from_raw(self.field(path_fields::OPERATION) as u8)
    }

    /// What is done with an open file.
    pub const fn handle_operation_kind(&self) -> Option<HandleOperation> {
        HandleOperation::from_raw(self.field(handle_fields::OPERATION) as u8)
    }

    /// Which attributes are set.
    pub const fn attribute_operation(&self) -> Option<AttributeOperation> {
        AttributeOperation::from_raw(self.field(attribute_fields::OPERATION) as u8)
    }

    /// Whether a symbolic link at the end of a path is followed.
    pub const fn follows(&self) -> bool {
        self.field(path_fields::FOLLOW) != 0
    }

    /// Whether a command with names is about an open file instead.
    pub const fn is_by_handle(&self) -> bool {
        self.field(path_fields::BY_HANDLE) != 0
    }

    /// Whether the size of the answer is all that is wanted.
    pub const fn wants_size(&self) -> bool {
        self.field(path_fields::SIZE_ONLY) != 0
    }

    /// The three bits of a request of access: 4 read, 2 write, 1 run.
    pub const fn access_bits(&self) -> u8 {
        self.field(path_fields::ACCESS) as u8
    }

    /// What becomes of a name that a rename finds taken.
    pub const fn rename_mode(&self) -> Option<RenameMode> {
        RenameMode::from_raw(self.field(path_fields::RENAME) as u8)
    }

    /// What becomes of an extended attribute that is there.
    pub const fn xattr_mode(&self) -> Option<XattrMode> {
        XattrMode::from_raw(self.field(attribute_fields::XATTR) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: FileHandle = FileHandle {
        index: 0x0102_0304,
        generation: 0x8506_0708,
    };

    #[test]
    fn what_a_command_says_comes_back() {
        let read = Command::read_file(1, HANDLE, u64::MAX - 5, u32::MAX);
        assert_eq!(read.io_opcode(), Some(IoOpcode::ReadFile));
        assert_eq!(read.file_handle(), HANDLE);
        assert_eq!(
            (read.file_offset(), read.file_bytes()),
            (u64::MAX - 5, u32::MAX)
        );
        assert_eq!(FileHandle::from_raw(HANDLE.raw()), HANDLE);
        let append = Command::append_file(1, HANDLE, 7).with_file_fua();
        assert!(append.appends() && append.file_fua());
        assert!(!Command::write_file(1, HANDLE, 0, 7).appends());
        let sync = Command::sync_file(1, HANDLE, 9, u64::MAX, true);
        assert!(sync.syncs_data_only() && !sync.syncs_all());
        assert_eq!((sync.file_offset(), sync.range_bytes()), (9, u64::MAX));
        assert!(Command::sync_files(1).syncs_all() && !Command::sync_files(1).leaves_files());
        let leave = Command::leave_files(1);
        assert!(leave.syncs_all() && leave.leaves_files());
    }

    #[test]
    fn operations_and_flags_do_not_disturb_each_other() {
        for request in PathRequest::ALL {
            let command = Command::path_request(1, *request, 4096)
                .following()
                .for_size()
                .for_access(5)
                .by_handle(HANDLE);
            assert_eq!(command.path_request_kind(), Some(*request));
            assert!(command.follows() && command.wants_size() && command.is_by_handle());
            assert_eq!(command.access_bits(), 5);
            assert_eq!(
                (command.file_handle(), command.file_bytes()),
                (HANDLE, 4096)
            );
        }
        for mode in RenameMode::ALL {
            let command = Command::path_change(1, PathChange::Rename, 300).with_rename(*mode);
            assert_eq!(command.path_change_kind(), Some(PathChange::Rename));
            assert_eq!(command.rename_mode(), Some(*mode));
        }
        for mode in XattrMode::ALL {
            let set = Command::set_file_attributes(1, AttributeOperation::SetXattr, 300);
            let command = set.with_xattr_mode(*mode).following();
            assert_eq!(
                command.attribute_operation(),
                Some(AttributeOperation::SetXattr)
            );
            assert_eq!(command.xattr_mode(), Some(*mode));
            assert!(command.follows());
        }
        for operation in HandleOperation::ALL {
            let command = Command::handle_operation(1, HANDLE, *operation, 1 << 40, 1 << 41);
            assert_eq!(command.handle_operation_kind(), Some(*operation));
            assert_eq!(
                (command.file_offset(), command.range_bytes()),
                (1 << 40, 1 << 41)
            );
        }
    }

    #[test]
    fn each_way_to_open_has_a_bit_of_its_own() {
        for bit in 0..8_u32 {
            let is = |n: u32| n == bit;
            let mode = OpenMode {
                read: is(0),
                write: is(1),
                create: is(2),
                exclusive: is(3),
                truncate: is(4),
                append: is(5),
                directory: is(6),
                no_follow: is(7),
            };
            let command = Command::open_file(1, mode, 512);
            assert_eq!((command.cdw15, command.open_mode()), (1 << bit, mode));
        }
    }

    #[test]
    fn a_token_takes_the_words_that_no_other_field_has() {
        let token = Token([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        let command = Command::read_file(1, HANDLE, 1, 2);
        assert!(command.token().is(&Token::NONE));
        let with = command.with_token(token);
        assert_eq!(with.token().0, token.0);
        assert_eq!((with.file_handle(), with.file_offset()), (HANDLE, 1));
    }
}
