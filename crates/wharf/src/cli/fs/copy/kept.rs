//! What a copy keeps besides bytes and permission bits: times, extended attributes, the owner.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, getxattr, listxattr, setxattr, utimensat};

use super::side::{Side, own};

/// Names of extended attributes that programs of users give.
const USER: &[u8] = b"user.";

/// The largest value of an extended attribute, and the longest list of names, that Linux has.
const XATTR_BYTES_MAX: usize = 64 << 10;

const NS_PER_S: u64 = 1_000_000_000;

/// See the module.
pub(super) struct Kept {
    accessed_ns: u64,
    modified_ns: u64,
    uid: u32,
    gid: u32,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Kept {
    /// What a file or directory has.
    pub(super) fn of(side: Side<'_>, path: &[u8]) -> io::Result<Kept> {
        match side {
            Side::Machine => {
                let found = fs::symlink_metadata(own(path))?;
                // Times before 1970 are its beginning, as no file system of an image has others.
                let ns = |s: i64, ns: i64| u64::try_from(s).unwrap_or(0) * NS_PER_S + ns as u64;
                Ok(Kept {
                    accessed_ns: ns(found.atime(), found.atime_nsec()),
                    modified_ns: ns(found.mtime(), found.mtime_nsec()),
                    uid: found.uid(),
                    gid: found.gid(),
                    xattrs: xattrs_of_machine(path)?,
                })
            }
            Side::Image(mount) => {
                let found = mount.stat(path, false)?;
                let names = mount.xattrs(path)?.into_iter();
                let value = |name: Box<[u8]>| Ok((name.to_vec(), mount.xattr(path, &name)?));
                Ok(Kept {
                    accessed_ns: found.accessed_ns,
                    modified_ns: found.modified_ns,
                    uid: found.owner.uid,
                    gid: found.owner.gid,
                    xattrs: names
                        .filter(|name| name.starts_with(USER))
                        .map(value)
                        .collect::<io::Result<_>>()?,
                })
            }
        }
    }

    /// Gives a copy its owner and extended attributes: a new owner takes permission bits away, which are set then.
    pub(super) fn give_before_mode(&self, side: Side<'_>, path: &[u8]) -> io::Result<()> {
        for (name, value) in &self.xattrs {
            match side {
                Side::Machine => {
                    setxattr(own(path), &name[..], value, rustix::fs::XattrFlags::empty())?
                }
                Side::Image(mount) => mount.set_xattr(path, name, value)?,
            }
        }
        match side {
            Side::Machine => match lchown(own(path), Some(self.uid), Some(self.gid)) {
                // Only root gives files away.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
                other => other,
            },
            Side::Image(mount) => mount.chown(path, self.uid, self.gid),
        }
    }

    /// Gives a copy its times, when nothing is done to it any more.
    pub(super) fn give_times(&self, side: Side<'_>, path: &[u8]) -> io::Result<()> {
        let time = |ns: u64| Timespec {
            tv_sec: (ns / NS_PER_S) as i64,
            tv_nsec: (ns % NS_PER_S) as _,
        };
        match side {
            Side::Machine => {
                let times = Timestamps {
                    last_access: time(self.accessed_ns),
                    last_modification: time(self.modified_ns),
                };
                Ok(utimensat(
                    CWD,
                    own(path),
                    &times,
                    AtFlags::SYMLINK_NOFOLLOW,
                )?)
            }
            Side::Image(mount) => mount.set_times(path, self.accessed_ns, self.modified_ns),
        }
    }
}

/// Those of a file of this machine; none where its file system has none.
fn xattrs_of_machine(path: &[u8]) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut bytes = vec![0; XATTR_BYTES_MAX];
    let length = match listxattr(own(path), &mut bytes[..]) {
        Err(rustix::io::Errno::NOTSUP) => return Ok(Vec::new()),
        length => length?,
    };
    let names = bytes[..length].split(|byte| *byte == 0);
    let names = names.filter(|name| name.starts_with(USER));
    let value = |name: &[u8]| {
        let mut value = vec![0; XATTR_BYTES_MAX];
        let length = getxattr(own(path), name, &mut value[..])?;
        value.truncate(length);
        Ok((name.to_vec(), value))
    };
    names.map(value).collect()
}
