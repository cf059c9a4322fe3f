//! One operation on files.

use std::fmt;

/// What an operation does. The names are those of file traces (`docs/traces.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FileOpKind {
    /// Opens a file, and keeps it open for the thread.
    Open,
    /// Closes it.
    Close,
    /// Reads a range.
    Read,
    /// Reads from the first byte to the end.
    ReadWhole,
    /// Writes a range.
    Write,
    /// Reads a range, computes its CRC-32C, and writes the range back.
    CrcWrite,
    /// Reads a range of vectors, and finds the nearest to one.
    Nearest,
    /// Writes at the end, wherever that is.
    Append,
    /// Sets the size.
    Truncate,
    /// Gives a range back: it reads as zeros.
    Punch,
    /// Makes data and metadata durable.
    Fsync,
    /// Makes data durable, and of the metadata what reading it needs.
    Fdatasync,
    /// Asks for the attributes, by name.
    Stat,
    /// Removes a name.
    Remove,
    /// Gives a file another name.
    Rename,
    /// Gives a file a second name.
    Link,
    /// Makes a symbolic link.
    Symlink,
    /// Makes a directory.
    Mkdir,
    /// Removes an empty directory.
    Rmdir,
    /// Lists a directory.
    List,
}

impl FileOpKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [FileOpKind; 20] = [
        FileOpKind::Open,
        FileOpKind::Close,
        FileOpKind::Read,
        FileOpKind::ReadWhole,
        FileOpKind::Write,
        FileOpKind::CrcWrite,
        FileOpKind::Nearest,
        FileOpKind::Append,
        FileOpKind::Truncate,
        FileOpKind::Punch,
        FileOpKind::Fsync,
        FileOpKind::Fdatasync,
        FileOpKind::Stat,
        FileOpKind::Remove,
        FileOpKind::Rename,
        FileOpKind::Link,
        FileOpKind::Symlink,
        FileOpKind::Mkdir,
        FileOpKind::Rmdir,
        FileOpKind::List,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            FileOpKind::Open => "open",
            FileOpKind::Close => "close",
            FileOpKind::Read => "read",
            FileOpKind::ReadWhole => "readwhole",
            FileOpKind::Write => "write",
            FileOpKind::CrcWrite => "crcwrite",
            FileOpKind::Nearest => "nearest",
            FileOpKind::Append => "append",
            FileOpKind::Truncate => "truncate",
            FileOpKind::Punch => "punch",
            FileOpKind::Fsync => "fsync",
            FileOpKind::Fdatasync => "fdatasync",
            FileOpKind::Stat => "stat",
            FileOpKind::Remove => "remove",
            FileOpKind::Rename => "rename",
            FileOpKind::Link => "link",
            FileOpKind::Symlink => "symlink",
            FileOpKind::Mkdir => "mkdir",
            FileOpKind::Rmdir => "rmdir",
            FileOpKind::List => "list",
        }
    }

    /// The one of this name.
    pub fn by_name(name: &[u8]) -> Option<FileOpKind> {
        let all = FileOpKind::ALL.into_iter();
        all.into_iter().find(|kind| kind.name().as_bytes() == name)
    }

    /// Whether bytes of a file move.
    pub fn moves_data(self) -> bool {
        self.is_read() || self.is_write()
    }

    /// Whether bytes come from a file.
    pub fn is_read(self) -> bool {
        matches!(
            self,
            FileOpKind::Read | FileOpKind::ReadWhole | FileOpKind::CrcWrite | FileOpKind::Nearest
        )
    }

    /// Whether bytes go to a file.
    pub fn is_write(self) -> bool {
        matches!(self, FileOpKind::Write | FileOpKind::Append)
    }

    /// Whether it names two files.
    pub fn has_other(self) -> bool {
        matches!(
            self,
            FileOpKind::Rename | FileOpKind::Link | FileOpKind::Symlink
        )
    }
}

impl fmt::Display for FileOpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenHow(u8);

impl OpenHow {
    /// For what is there.
    pub const EXISTING: OpenHow = OpenHow(0);
    /// Made if it is not there.
    pub const CREATE: OpenHow = OpenHow(1);
    /// An error if it is there.
    pub const EXCLUSIVE: OpenHow = OpenHow(2);
    /// Cut to nothing.
    pub const TRUNCATE: OpenHow = OpenHow(4);

    /// Letters of the flags in traces, in the order of their bits.
    pub const LETTERS: [u8; 3] = *b"cxt";

    /// These and those.
    #[must_use]
    pub const fn and(self, more: OpenHow) -> OpenHow {
        OpenHow(self.0 | more.0)
    }

    /// Whether all of `flags` are among them.
    pub fn has(self, flags: OpenHow) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The flags of these letters; nothing if one is none, or comes twice.
    pub fn of_letters(letters: &[u8]) -> Option<OpenHow> {
        let mut flags = OpenHow::default();
        for letter in letters {
            let bit = OpenHow::LETTERS.iter().position(|known| known == letter)?;
            let flag = OpenHow(1 << bit);
            if flags.has(flag) {
                return None;
            }
            flags = flags.and(flag);
        }
        Some(flags)
    }
}

impl fmt::Display for OpenHow {
    /// Its letters; `-` for none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("-");
        }
        for (bit, letter) in OpenHow::LETTERS.iter().enumerate() {
            if self.has(OpenHow(1 << bit)) {
                write!(f, "{}", char::from(*letter))?;
            }
        }
        Ok(())
    }
}

/// One operation of a thread. Files are named by their numbers in a table of [`Names`](super::Names).
///
/// An operation on an open file uses the handle that its thread has; if it has none, the file is opened before, as
/// it is there, and kept open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOp {
    /// When, in nanoseconds on the trace's own clock, or [`FileOp::NO_TIME`].
    pub time_ns: u64,
    /// First byte of a read, a write, a punch; the size that a truncation leaves; 0 otherwise. Of an append, where it
    /// lands if it is the file's only one at that time, if that is known.
    pub offset: u64,
    /// Bytes of a read, a write, an append, a punch. Of a truncation, a removal, an `open` that truncates: those that go, if
    /// that is known. Of an `fsync`: those that there are, if that is known.
    pub bytes: u64,
    /// Who does it.
    pub thread: u32,
    /// The name.
    pub file: u32,
    /// The second name, of a rename or a link; else 0. A symbolic link is made at `file` and leads to `other`.
    pub other: u32,
    /// What is done.
    pub kind: FileOpKind,
    /// How it is opened, if it is.
    pub how: OpenHow,
}

impl FileOp {
    /// `time_ns` of an operation that has no time.
    pub const NO_TIME: u64 = u64::MAX;

    /// An operation without a time, a range and flags.
    pub fn new(thread: u32, kind: FileOpKind, file: u32) -> FileOp {
        FileOp {
            time_ns: FileOp::NO_TIME,
            offset: 0,
            bytes: 0,
            thread,
            file,
            other: 0,
            kind,
            how: OpenHow::default(),
        }
    }

    /// The time in ns, where there is one.
    pub fn time(&self) -> Option<u64> {
        (self.time_ns != FileOp::NO_TIME).then_some(self.time_ns)
    }
}

/// What is there before the first operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// A directory.
    Directory,
    /// A file of so many bytes, zeros all of them.
    File(u64),
}

/// The names of a workload, by their numbers, and which of them are there at the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// Absolute paths, none twice.
    pub paths: Vec<Box<str>>,
    /// What is there, a directory before all that is in it.
    pub existing: Vec<(u32, Existing)>,
}
