//! Opening and closing.

use wharf_files::vfs::Target;
use wharf_files::{Errno, OpenFlags};
use wharf_wire::file::{FileHandle, OpenAnswer};
use wharf_wire::status::StatusCode;
use zerocopy::IntoBytes;

use super::{Call, Done, Served, convert};

pub(super) async fn open(call: &Call<'_>) -> Served {
    let copied = call.request().await?;
    let request = copied.parse()?;
    if call.buffer_bytes() < size_of::<OpenAnswer>() {
        return Err(Errno::ERANGE.into());
    }
    let flags = convert::open_flags(call.command.open_mode());
    let (files, path) = (call.as_caller(&request)?, call.path(&request)?);
    let opened = files
        .open(call.now_ns, path, flags, request.head.mode)
        .await?;
    if call.is_revoked() {
        // All that the host had open was closed meanwhile.
        let _ = files.close(opened.handle).await;
        return Err(StatusCode::TokenRevoked.into());
    }
    let mut attributes = opened.attributes;
    if let OpenFlags { truncate: true, .. } = flags {
        // As it is now, and not before it was cut.
        attributes = match files.stat(Target::Handle(opened.handle)).await {
            Ok(now) => now,
            Err(error) => {
                let _ = files.close(opened.handle).await;
                return Err(error.into());
            }
        };
    }
    let handle = FileHandle {
        index: opened.handle.index,
        generation: opened.handle.generation,
    };
    let answer = OpenAnswer {
        attributes: convert::attributes(&attributes),
        handle: handle.raw(),
        is_new: opened.is_new.into(),
        reserved: 0,
    };
    if let Err(status) = call.copy_in(answer.as_bytes()) {
        let _ = files.close(opened.handle).await;
        return Err(status.into());
    }
    Ok(Done {
        result: 0,
        bytes: size_of::<OpenAnswer>() as u32,
    })
}

pub(super) async fn close(call: &Call<'_>) -> Served {
    let handle = call.handle()?;
    let locks = call.at.firmware.locks();
    locks.handle_closes(call.at.core, call.host(), call.command.file_handle());
    call.files.close(handle).await?;
    Ok(Done::result(0))
}
