//! Path requests: what has an answer beyond its status.

use wharf_files::vfs::{Access, Target};
use wharf_files::{Attributes, Errno, StatFs};
use wharf_wire::file::{FileSystemStatus, PathRequest, Request};
use wharf_wire::status::StatusCode;
use zerocopy::IntoBytes;

use super::super::sessions::Files;
use super::{Call, Done, Refused, Served, convert};

pub(super) async fn serve(call: &Call<'_>) -> Served {
    let kind = call.command.path_request_kind();
    let kind = kind.ok_or(StatusCode::InvalidField)?;
    let copied = call.request().await?;
    let request = copied.parse()?;
    let files = call.as_caller(&request)?;
    match kind {
        PathRequest::Stat => {
            let found = files.stat(call.target(&request)?).await?;
            call.answer_attributes(&found)
        }
        PathRequest::Access => {
            let access = access(call.command.access_bits());
            files.access(call.target(&request)?, access).await?;
            Ok(Done::result(0))
        }
        PathRequest::ReadLink => {
            let target = files.read_link(call.path(&request)?).await?;
            call.answer_bytes(&target)
        }
        PathRequest::GetXattr => {
            let target = call.target(&request)?;
            let value = files.xattr(target, request.path2).await?;
            call.answer_bytes(&value)
        }
        PathRequest::ListXattrs => {
            let names = files.xattrs(call.target(&request)?).await?;
            let all: Vec<u8> = names
                .iter()
                .flat_map(|name| [name.as_ref(), b"\0"].concat())
                .collect();
            call.answer_bytes(&all)
        }
        PathRequest::FileSystemStatus => {
            let status = file_system_status(&files.stat_fs().await?);
            call.answer(status.as_bytes())
        }
        made => {
            let made = make(call, made, &files, &request).await?;
            call.answer_attributes(&made)
        }
    }
}

/// Makes something.
async fn make(
    call: &Call<'_>,
    what: PathRequest,
    files: &Files,
    request: &Request<'_>,
) -> Result<Attributes, Refused> {
    let (path, head, now_ns) = (call.path(request)?, request.head, call.now_ns);
    Ok(match what {
        PathRequest::MakeDirectory => files.mkdir(now_ns, path, head.mode).await?,
        PathRequest::MakeSpecial => {
            let special = convert::special(head.special).ok_or(StatusCode::InvalidField)?;
            let (device, mode) = (head.device, head.mode);
            files.mknod(now_ns, path, special, device, mode).await?
        }
        PathRequest::MakeSymlink => files.symlink(now_ns, request.path2, path).await?,
        PathRequest::Link => {
            let to = call.path2(request)?;
            files.link(now_ns, path, to, call.command.follows()).await?
        }
        _ => return Err(StatusCode::InvalidField.into()),
    })
}

impl Call<'_> {
    /// What a request is about: the open file of the command's handle, or what its path names.
    pub(super) fn target<'a>(&self, request: &Request<'a>) -> Result<Target<'a>, StatusCode> {
        match self.command.is_by_handle() {
            true => self.handle().map(Target::Handle),
            false => Ok(Target::Path(self.path(request)?, self.command.follows())),
        }
    }

    /// Gives bytes of a known number to the host.
    fn answer(&self, bytes: &[u8]) -> Served {
        self.copy_in(bytes)?;
        Ok(Done {
            result: 0,
            bytes: bytes.len() as u32,
        })
    }

    fn answer_attributes(&self, of: &Attributes) -> Served {
        self.answer(convert::attributes(of).as_bytes())
    }

    /// Gives bytes to the host, with their number; or their number alone, if it wants no more.
    fn answer_bytes(&self, bytes: &[u8]) -> Served {
        let result = bytes.len() as u64;
        if self.command.wants_size() {
            return Ok(Done::result(result));
        }
        if bytes.len() > self.buffer_bytes() {
            return Err(Errno::ERANGE.into());
        }
        let done = self.answer(bytes)?;
        Ok(Done { result, ..done })
    }
}

fn access(bits: u8) -> Access {
    let each = [(4, Access::READ), (2, Access::WRITE), (1, Access::EXECUTE)];
    let wanted = each.into_iter().filter(|(bit, _)| bits & bit != 0);
    wanted.fold(Access::NONE, |all, (_, one)| all.and(one))
}

fn file_system_status(of: &StatFs) -> FileSystemStatus {
    FileSystemStatus {
        pages: of.pages,
        pages_free: of.pages_free,
        files: of.files,
        files_free: of.files_free,
        file_bytes_max: of.file_bytes_max,
        id: of.id,
        links_max: of.links_max,
        reserved: 0,
    }
}
