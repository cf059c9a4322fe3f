//! What is known of a file besides its bytes.

/// What a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// What stands for something that is no file.
    Special(Special),
}

/// What stands for something that is no file: who opens it gives it its meaning, and a file system
/// only keeps its name and its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Special {
    /// A pipe with a name.
    Fifo,
    /// A socket with a name.
    Socket,
    /// A device of characters.
    CharDevice,
    /// A device of blocks.
    BlockDevice,
}

impl Special {
    /// All of them.
    pub const ALL: [Special; 4] = [
        Special::Fifo,
        Special::Socket,
        Special::CharDevice,
        Special::BlockDevice,
    ];

    /// Whether it is a device: root alone makes these.
    pub fn is_device(self) -> bool {
        matches!(self, Special::CharDevice | Special::BlockDevice)
    }
}

/// Mode bit: a program runs as the owner of its file.
pub const SET_UID: u16 = 0o4000;

/// Mode bit: a program runs in the group of its file; what is made in a directory gets its group.
pub const SET_GID: u16 = 0o2000;

/// Mode bit: of a directory, only owners of an entry, or of the directory, may remove it.
pub const STICKY: u16 = 0o1000;

/// Mode bit: the group may run a file.
pub const GROUP_EXECUTES: u16 = 0o010;

/// All mode bits.
pub const MODE_BITS: u16 = 0o7777;

/// Whose a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// The attributes of a file, as `stat` gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Which file it is: no other has had, or will have, this number.
    pub number: u64,
    /// What it is.
    pub kind: Kind,
    /// Permission bits, 12 of them.
    pub mode: u16,
    /// Whose it is.
    pub owner: Owner,
    /// Names of a file; 2 and its subdirectories of a directory; 0 of what has no name any more.
    pub links: u32,
    /// Bytes: of a file up to its end, holes among them; of a symbolic link those of its target;
    /// entries of a directory.
    pub bytes: u64,
    /// Which device it is, major and minor number as Linux has them in 32 bits; 0 of what is none.
    pub device: u32,
    /// Bytes of storage that it takes.
    pub stored_bytes: u64,
    /// When it was last read, in nanoseconds of the clock of whoever serves it. As with `relatime`,
    /// a read need not change it.
    pub accessed_ns: u64,
    /// When its bytes, or the entries of a directory, last changed.
    pub modified_ns: u64,
    /// When its attributes last changed.
    pub changed_ns: u64,
}

impl Attributes {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }
}

/// Attributes to set; those that are `None` stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<u16>,
    /// The user whose it is.
    pub uid: Option<u32>,
    /// Its group.
    pub gid: Option<u32>,
    /// Time of the last read.
    pub accessed_ns: Option<u64>,
    /// Time of the last change of bytes.
    pub modified_ns: Option<u64>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Where a listing goes on behind it.
    pub cookie: u64,
    /// The number of the file that it leads to.
    pub number: u64,
    /// What that is.
    pub kind: Kind,
    /// The name.
    pub name: Box<[u8]>,
}
