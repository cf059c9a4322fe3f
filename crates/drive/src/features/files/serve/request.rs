//! The request of a command with names.

use wharf_files::vfs::{At, Start};
use wharf_files::{Caller, Errno};
use wharf_wire::file::{
    FileHandle, LINKS_LEAVE, REQUEST_BYTES_MAX, REQUEST_HEAD_BYTES, Request, RequestError,
    RequestHead, Start as WireStart, StartKind,
};
use wharf_wire::status::StatusCode;
use zerocopy::{FromBytes, IntoBytes};

use super::super::sessions::Files;
use super::{COMMAND_BYTES, Call, Refused};

/// A copy of a request, at a multiple of 8 bytes.
pub(super) struct Copied {
    words: Vec<u64>,
    bytes: usize,
}

impl Call<'_> {
    /// Copies the request: the head, and then as much behind it as that copy of the head says.
    pub(super) async fn request(&self) -> Result<Copied, StatusCode> {
        let mut words = vec![0; REQUEST_HEAD_BYTES / 8];
        self.copy_out(0, words.as_mut_bytes())?;
        let head = RequestHead::ref_from_bytes(words.as_bytes());
        let said = head.map_or(0, |head| {
            let paths = usize::from(head.path_bytes) + usize::from(head.path2_bytes);
            REQUEST_HEAD_BYTES + paths + head.value_bytes as usize
        });
        let bytes = said.min(self.buffer_bytes()).min(REQUEST_BYTES_MAX);
        words.resize(bytes.div_ceil(8), 0);
        let behind = &mut words.as_mut_bytes()[REQUEST_HEAD_BYTES..bytes];
        self.copy_out(REQUEST_HEAD_BYTES, behind)?;
        self.carry(COMMAND_BYTES as usize + bytes).await;
        Ok(Copied { words, bytes })
    }

    /// The session, for the caller that a request names.
    ///
    /// # Errors
    /// `AccessDenied` if that is not who the host is.
    pub(super) fn as_caller(&self, request: &Request<'_>) -> Result<Files, StatusCode> {
        let wire = request.caller();
        let caller = Caller {
            uid: wire.uid,
            gid: wire.gid,
            groups: wire.groups.to_vec(),
        };
        let caller = match &self.authority {
            Some(own) => own.caller(caller)?,
            None => caller,
        };
        let files = self.files.as_caller(caller, request.head.file_bytes_max);
        Ok(files.with_links_leaving(request.head.path_flags & LINKS_LEAVE != 0))
    }

    /// The first path of a request.
    pub(super) fn path<'a>(&self, request: &Request<'a>) -> Result<At<'a>, StatusCode> {
        self.begin(request.start, request.path)
    }

    /// The second path of a request.
    pub(super) fn path2<'a>(&self, request: &Request<'a>) -> Result<At<'a>, StatusCode> {
        self.begin(request.start2, request.path2)
    }

    fn begin<'a>(&self, start: WireStart, path: &'a [u8]) -> Result<At<'a>, StatusCode> {
        let from = match start.kind {
            StartKind::Root => Start::Root,
            StartKind::Number => Start::Number(start.value),
            StartKind::Handle => Start::Handle(self.known(FileHandle::from_raw(start.value))?),
        };
        Ok(At { from, path })
    }
}

impl Copied {
    /// What it says.
    pub(super) fn parse(&self) -> Result<Request<'_>, Refused> {
        Request::parse(&self.words.as_bytes()[..self.bytes]).map_err(|error| match error {
            RequestError::PathTooLong(_) => Errno::ENAMETOOLONG.into(),
            RequestError::ValueTooLong(_) => Errno::E2BIG.into(),
            RequestError::Short { .. } | RequestError::Field(_) => StatusCode::InvalidField.into(),
        })
    }
}
