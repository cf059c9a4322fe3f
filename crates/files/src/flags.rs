//! How files are opened and renamed, and what stands for an open one.

/// An open file of one client. It stays valid until it is closed, and is never the same again after
/// that for 2^32 openings of its place: one that was closed gives `EBADF`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    /// Its place among the client's open files.
    pub index: u32,
    /// How often the place was used before.
    pub generation: u32,
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags {
    /// It may be read.
    pub read: bool,
    /// It may be written.
    pub write: bool,
    /// It is made if there is none.
    pub create: bool,
    /// With `create`: that there is one, also a symbolic link, is an error (`EEXIST`).
    pub exclusive: bool,
    /// It is cut to nothing: that takes the right to write it, also if it is opened to read.
    pub truncate: bool,
    /// Writes go to the end, whatever their offset.
    pub append: bool,
    /// Anything but a directory is an error (`ENOTDIR`).
    pub directory: bool,
    /// A symbolic link at the end of the path is an error (`ELOOP`).
    pub no_follow: bool,
}

impl OpenFlags {
    /// For reading what is there.
    pub const READ: OpenFlags = OpenFlags {
        read: true,
        write: false,
        create: false,
        exclusive: false,
        truncate: false,
        append: false,
        directory: false,
        no_follow: false,
    };

    /// For reading and writing what is there.
    pub const UPDATE: OpenFlags = OpenFlags {
        write: true,
        ..OpenFlags::READ
    };

    /// As before, made if it is not there.
    pub const CREATE: OpenFlags = OpenFlags {
        create: true,
        ..OpenFlags::UPDATE
    };

    /// For listing.
    pub const DIRECTORY: OpenFlags = OpenFlags {
        directory: true,
        ..OpenFlags::READ
    };
}

/// What a rename does with a name that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rename {
    /// It replaces it, in one step: there is no instant without a file of that name.
    #[default]
    Replace,
    /// It fails (`EEXIST`).
    NoReplace,
    /// Both names stay, and each leads to what the other led to, in one step. Both must be there
    /// (`ENOENT`).
    Exchange,
}
