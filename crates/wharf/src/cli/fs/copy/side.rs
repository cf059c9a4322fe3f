//! One side of a copy: the files of this machine, or those of an image.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use crate::files::{File, Kind, Mount, OpenFlags};

/// What is at a path.
pub(super) enum Entry {
    File { mode: u16 },
    Directory { mode: u16 },
    Symlink,
    Other,
}

impl Entry {
    pub(super) fn is_directory(&self) -> bool {
        matches!(self, Entry::Directory { .. })
    }
}

/// See the module.
#[derive(Clone, Copy)]
pub(super) enum Side<'a> {
    Machine,
    Image(&'a Mount),
}

/// Permission bits that are copied: whose a copy is says who runs it, so it runs as nobody else.
const COPIED_MODE: u16 = 0o1777;

pub(super) fn own(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// Nothing where nothing is there.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl<'a> Side<'a> {
    /// Whether both sides are one.
    pub(super) fn is_same(self, other: Side<'a>) -> bool {
        matches!(
            (self, other),
            (Side::Machine, Side::Machine) | (Side::Image(_), Side::Image(_))
        )
    }

    /// Whether two paths of this side lead to one file.
    pub(super) fn is_one(self, path: &[u8], other: &[u8]) -> io::Result<bool> {
        Ok(match self {
            Side::Machine => {
                let number = |path| found(fs::metadata(own(path)));
                let number = |path| Ok::<_, io::Error>(number(path)?.map(|m| (m.dev(), m.ino())));
                number(path)? == number(other)?
            }
            Side::Image(mount) => {
                let number = |path: &[u8]| found(mount.stat(path, true));
                let number = |path| Ok::<_, io::Error>(number(path)?.map(|of| of.number));
                number(path)? == number(other)?
            }
        })
    }

    /// What is at a path; of a symbolic link itself unless `follow`.
    pub(super) fn look(self, path: &[u8], follow: bool) -> io::Result<Option<Entry>> {
        Ok(match self {
            Side::Machine => {
                let metadata = match follow {
                    true => fs::metadata(own(path)),
                    false => fs::symlink_metadata(own(path)),
                };
                found(metadata)?.map(|metadata| {
                    let mode = (metadata.mode() & 0o7777) as u16;
                    match metadata.file_type() {
                        kind if kind.is_file() => Entry::File { mode },
                        kind if kind.is_dir() => Entry::Directory { mode },
                        kind if kind.is_symlink() => Entry::Symlink,
                        _ => Entry::Other,
                    }
                })
            }
            Side::Image(mount) => found(mount.stat(path, follow))?.map(|of| match of.kind {
                Kind::File => Entry::File { mode: of.mode },
                Kind::Directory => Entry::Directory { mode: of.mode },
                Kind::Symlink => Entry::Symlink,
                Kind::Special(_) => Entry::Other,
            }),
        })
    }

    /// The names in a directory, in order.
    pub(super) fn names(self, path: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let mut names: Vec<Vec<u8>> = match self {
            Side::Machine => fs::read_dir(own(path))?
                .map(|entry| Ok(entry?.file_name().into_vec()))
                .collect::<io::Result<_>>()?,
            Side::Image(mount) => {
                let entries = mount.list(path)?.into_iter();
                entries.map(|entry| entry.name.into_vec()).collect()
            }
        };
        names.sort_unstable();
        Ok(names)
    }

    pub(super) fn read_link(self, path: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Side::Machine => Ok(fs::read_link(own(path))?.into_os_string().into_vec()),
            Side::Image(mount) => mount.read_link(path),
        }
    }

    /// Makes a symbolic link, which belongs to whoever runs this program.
    pub(super) fn symlink(self, target: &[u8], path: &[u8]) -> io::Result<()> {
        match self {
            Side::Machine => std::os::unix::fs::symlink(own(target), own(path)),
            Side::Image(mount) => {
                mount.symlink(target, path)?;
                give(mount, path)
            }
        }
    }

    /// Makes a directory, which belongs to whoever runs this program and is nobody else's until it
    /// is whole.
    pub(super) fn mkdir(self, path: &[u8]) -> io::Result<()> {
        match self {
            Side::Machine => {
                let mut builder = fs::DirBuilder::new();
                std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
                builder.create(own(path))
            }
            Side::Image(mount) => {
                mount.mkdir(path, 0o700)?;
                give(mount, path)
            }
        }
    }

    /// Sets permission bits, without those by which a file runs as its owner.
    pub(super) fn set_mode(self, path: &[u8], mode: u16) -> io::Result<()> {
        let mode = mode & COPIED_MODE;
        match self {
            Side::Machine => {
                fs::set_permissions(own(path), fs::Permissions::from_mode(u32::from(mode)))
            }
            Side::Image(mount) => mount.chmod(path, mode),
        }
    }

    pub(super) fn open(self, path: &[u8]) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Side::Machine => Box::new(fs::File::open(own(path))?),
            Side::Image(mount) => Box::new(mount.open_file(path, OpenFlags::READ, 0)?),
        })
    }

    /// Opens a file to be written from its beginning; one that is made belongs to whoever runs this
    /// program.
    pub(super) fn create(self, path: &[u8]) -> io::Result<Box<dyn Target + 'a>> {
        match self {
            Side::Machine => Ok(Box::new(fs::File::create(own(path))?)),
            Side::Image(mount) => {
                let is_new = found(mount.stat(path, true))?.is_none();
                let flags = OpenFlags {
                    truncate: true,
                    ..OpenFlags::CREATE
                };
                let file = mount.open_file(path, flags, 0o600)?;
                if is_new {
                    give(mount, path)?;
                }
                Ok(Box::new(file))
            }
        }
    }
}

/// A file that is written.
pub(super) trait Target {
    /// Writes all of these bytes from byte `at` on.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes it so long.
    fn set_bytes(&self, bytes: u64) -> io::Result<()>;
}

impl Target for fs::File {
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

impl Target for File<'_> {
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut at, mut rest) = (at, bytes);
        while !rest.is_empty() {
            let written = match self.write_at(at, rest)? {
                0 => return Err(io::ErrorKind::StorageFull.into()),
                written => written,
            };
            (at, rest) = (at + written as u64, &rest[written..]);
        }
        Ok(())
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

/// Gives what a path names to whoever runs this program.
fn give(mount: &Mount, path: &[u8]) -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    mount.chown(path, uid.as_raw(), gid.as_raw())
}
