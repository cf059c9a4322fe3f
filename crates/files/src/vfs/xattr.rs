//! Extended attributes, and who may see and set them by the first word of their names.
//!
//! | name | who |
//! |---|---|
//! | `user.…` | who may read, or write, the file; only of files and directories; of a sticky directory only its owner sets |
//! | `trusted.…` | root; nobody else sees them |
//! | `security.…` | all read, root sets |
//!
//! Others are not served (`EOPNOTSUPP`).

use std::ops::Deref;

use super::attributes::Target;
use super::permission::{Access, check, check_owns};
use super::session::Session;
use crate::arguments::SetXattr;
use crate::attributes::{Attributes, Kind, STICKY};
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::limits::{XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX};

/// The first word of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Space {
    User,
    Trusted,
    Security,
    Other,
}

/// The first word of a name, and what is wrong with the rest: said only when permissions are
/// checked.
fn space(name: &[u8]) -> (Space, Result<(), Errno>) {
    let spaces = [
        (&b"user."[..], Space::User),
        (b"trusted.", Space::Trusted),
        (b"security.", Space::Security),
    ];
    let found = spaces
        .into_iter()
        .find(|(prefix, _)| name.starts_with(prefix));
    match found {
        None => (Space::Other, Err(Errno::EOPNOTSUPP)),
        Some((prefix, space)) if prefix.len() == name.len() => (space, Err(Errno::EINVAL)),
        Some((_, space)) => (space, Ok(())),
    }
}

fn check_xattr_name(name: &[u8]) -> Result<(), Errno> {
    match name.len() {
        1..=XATTR_NAME_BYTES_MAX => Ok(()),
        _ => Err(Errno::ERANGE),
    }
}

impl<P: Deref<Target: FileSystem>> Session<P> {
    /// Refuses what this caller may not see, or set.
    fn check_xattr(&self, of: &Attributes, name: &[u8], sets: bool) -> Result<(), Errno> {
        let hidden = match sets {
            true => Errno::EPERM,
            false => Errno::ENODATA,
        };
        let access = match sets {
            true => Access::WRITE,
            false => Access::READ,
        };
        let (space, rest) = space(name);
        match space {
            Space::Trusted if !self.caller.is_root() => return Err(hidden),
            Space::Security if sets && !self.caller.is_root() => return Err(Errno::EPERM),
            Space::Trusted | Space::Security => {}
            Space::User if matches!(of.kind, Kind::Symlink | Kind::Special(_)) => {
                return Err(hidden);
            }
            Space::User | Space::Other => {
                let is_sticky = of.is_directory() && of.mode & STICKY != 0;
                if space == Space::User && is_sticky && sets {
                    check_owns(&self.caller, of)?;
                }
                check(&self.caller, of, access)?;
            }
        }
        rest
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `ERANGE` (a name that is empty or too long); those of a walk, or `EBADF`; `EACCES`,
    /// `EOPNOTSUPP`, `EINVAL` (nothing behind the first word), `ENODATA`.
    pub async fn xattr(&self, target: Target<'_>, name: &[u8]) -> Result<Vec<u8>, FileError> {
        check_xattr_name(name)?;
        self.again(async || {
            let of = self.target(target).await?;
            self.check_xattr(&of, name, false)?;
            self.fs.xattr(of.number, name).await
        })
        .await
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `ERANGE` (a name that is empty or too long), `E2BIG`; those of a walk, or `EBADF`; `EPERM`,
    /// `EACCES`, `EOPNOTSUPP`, `EINVAL` (nothing behind the first word), `EEXIST`, `ENODATA`,
    /// `ENOSPC`.
    pub async fn set_xattr(
        &self,
        now_ns: u64,
        target: Target<'_>,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FileError> {
        check_xattr_name(name)?;
        if value.len() > XATTR_VALUE_BYTES_MAX {
            return Err(Errno::E2BIG.into());
        }
        self.again(async || {
            let of = self.target(target).await?;
            self.check_xattr(&of, name, true)?;
            let by = self.by(now_ns);
            self.fs.set_xattr(by, of.number, name, value, how).await
        })
        .await
    }

    /// Takes an extended attribute away.
    ///
    /// # Errors
    /// As [`Session::set_xattr`].
    pub async fn remove_xattr(
        &self,
        now_ns: u64,
        target: Target<'_>,
        name: &[u8],
    ) -> Result<(), FileError> {
        check_xattr_name(name)?;
        self.again(async || {
            let of = self.target(target).await?;
            self.check_xattr(&of, name, true)?;
            self.fs.remove_xattr(self.by(now_ns), of.number, name).await
        })
        .await
    }

    /// The names of all extended attributes that this caller may see.
    ///
    /// # Errors
    /// Those of a walk, or `EBADF`.
    pub async fn xattrs(&self, target: Target<'_>) -> Result<Vec<Box<[u8]>>, FileError> {
        self.again(async || {
            let of = self.target(target).await?;
            let mut names = self.fs.xattrs(of.number).await?;
            names.retain(|name| self.caller.is_root() || space(name).0 != Space::Trusted);
            Ok(names)
        })
        .await
    }
}
