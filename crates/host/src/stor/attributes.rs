//! Attributes and extended attributes, set and asked for.

use wharf_files::SetXattr;
use wharf_files::vfs::{SetTime, Target};
use wharf_wire::command::Command;
use wharf_wire::file::{AttributeOperation, PathRequest, STAYS_ID, Start as WireStart};

use super::StorClient;
use super::convert;
use super::names::{NOTHING, aimed};
use crate::files::FileError;
use crate::volume::NAMESPACE;

impl StorClient {
    /// Sets the permission bits.
    ///
    /// # Errors
    /// As [`Session::chmod`](wharf_files::vfs::Session::chmod).
    pub async fn chmod(&self, target: Target<'_>, mode: u16) -> Result<(), FileError> {
        let mut head = self.head()?;
        head.mode = mode;
        let (at, aims) = aimed(target);
        let what = AttributeOperation::Mode;
        let command = |bytes| aims.aim(Command::set_file_attributes(NAMESPACE, what, bytes));
        self.change(&command, head, (&at, NOTHING), b"").await
    }

    /// Gives something to another user, or group.
    ///
    /// # Errors
    /// As [`Session::chown`](wharf_files::vfs::Session::chown).
    pub async fn chown(
        &self,
        target: Target<'_>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), FileError> {
        let mut head = self.head()?;
        head.set_uid = uid.unwrap_or(STAYS_ID);
        head.set_gid = gid.unwrap_or(STAYS_ID);
        let (at, aims) = aimed(target);
        let what = AttributeOperation::Owner;
        let command = |bytes| aims.aim(Command::set_file_attributes(NAMESPACE, what, bytes));
        self.change(&command, head, (&at, NOTHING), b"").await
    }

    /// Sets the times of the last read and of the last change.
    ///
    /// # Errors
    /// As [`Session::set_times`](wharf_files::vfs::Session::set_times).
    pub async fn set_times(
        &self,
        target: Target<'_>,
        accessed: SetTime,
        modified: SetTime,
    ) -> Result<(), FileError> {
        let mut head = self.head()?;
        head.accessed_ns = convert::time(accessed);
        head.modified_ns = convert::time(modified);
        let (at, aims) = aimed(target);
        let what = AttributeOperation::Times;
        let command = |bytes| aims.aim(Command::set_file_attributes(NAMESPACE, what, bytes));
        self.change(&command, head, (&at, NOTHING), b"").await
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// As [`Session::xattr`](wharf_files::vfs::Session::xattr).
    pub async fn xattr(&self, target: Target<'_>, name: &[u8]) -> Result<Vec<u8>, FileError> {
        let (at, aims) = aimed(target);
        let what = PathRequest::GetXattr;
        let command = |bytes| aims.aim(Command::path_request(NAMESPACE, what, bytes));
        self.bytes(&command, (&at, (WireStart::ROOT, name))).await
    }

    /// The names of all extended attributes that this caller may see.
    ///
    /// # Errors
    /// As [`Session::xattrs`](wharf_files::vfs::Session::xattrs).
    pub async fn xattrs(&self, target: Target<'_>) -> Result<Vec<Box<[u8]>>, FileError> {
        let (at, aims) = aimed(target);
        let what = PathRequest::ListXattrs;
        let command = |bytes| aims.aim(Command::path_request(NAMESPACE, what, bytes));
        let all = self.bytes(&command, (&at, NOTHING)).await?;
        let names = all.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(Box::from).collect())
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// As [`Session::set_xattr`](wharf_files::vfs::Session::set_xattr).
    pub async fn set_xattr(
        &self,
        target: Target<'_>,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FileError> {
        let (at, aims) = aimed(target);
        let command = |bytes| {
            let set = AttributeOperation::SetXattr;
            let set = Command::set_file_attributes(NAMESPACE, set, bytes);
            aims.aim(set.with_xattr_mode(convert::set_xattr(how)))
        };
        let both = (&at, (WireStart::ROOT, name));
        self.change(&command, self.head()?, both, value).await
    }

    /// Takes an extended attribute away.
    ///
    /// # Errors
    /// As [`Session::remove_xattr`](wharf_files::vfs::Session::remove_xattr).
    pub async fn remove_xattr(&self, target: Target<'_>, name: &[u8]) -> Result<(), FileError> {
        let (at, aims) = aimed(target);
        let what = AttributeOperation::RemoveXattr;
        let command = |bytes| aims.aim(Command::set_file_attributes(NAMESPACE, what, bytes));
        let both = (&at, (WireStart::ROOT, name));
        self.change(&command, self.head()?, both, b"").await
    }
}
