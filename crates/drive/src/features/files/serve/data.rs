//! Reading, writing, syncing; sizes and storage of open files.

use wharf_files::{Allocate, Errno, In, Out, Place, Seek, Sync};
use wharf_wire::file::HandleOperation;
use wharf_wire::status::StatusCode;

use super::{COMMAND_BYTES, Call, Done, Served};

pub(super) async fn read(call: &Call<'_>) -> Served {
    let handle = call.handle()?;
    call.carry(COMMAND_BYTES as usize).await;
    let offset = call.command.file_offset();
    // Bytes go straight from the media to the host's pages.
    let pages = call.pages();
    let out = Out::Host(call.host_bytes(&pages));
    let count = call.files.read(call.now_ns, handle, offset, out).await?;
    Ok(Done {
        result: count,
        bytes: count as u32,
    })
}

pub(super) async fn write(call: &Call<'_>) -> Served {
    let handle = call.handle()?;
    let appends = call.command.appends();
    let place = match appends {
        true => Place::End,
        false => Place::At(call.command.file_offset()),
    };
    call.carry(COMMAND_BYTES as usize).await;
    let pages = call.pages();
    // What the file system takes of them crosses the link then.
    let data = In::Host(call.host_bytes(&pages));
    let written = call.files.write(call.now_ns, handle, place, data).await?;
    if call.command.file_fua() {
        call.files.sync(handle, Sync::Data).await?;
    }
    match appends {
        false => Ok(Done::result(written.bytes)),
        // The result is where: that it is not all must be said by an error.
        true if written.bytes < u64::from(call.command.file_bytes()) => Err(Errno::ENOSPC.into()),
        true => Ok(Done::result(written.offset)),
    }
}

pub(super) async fn sync(call: &Call<'_>) -> Served {
    if call.command.leaves_files() {
        // What it has written and kept is taken before that.
        call.files.file_system().settle_own().await;
        call.files.file_system().leave_near().await;
        call.at.firmware.end_host(call.host());
        // All is closed, whatever closing one of them ends with.
        let closed = call.files.close_all().await;
        call.files.file_system().below().settle().await?;
        closed?;
        return Ok(Done::result(0));
    }
    if call.command.syncs_all() {
        call.files.sync_all().await?;
        return Ok(Done::result(0));
    }
    let what = match call.command.syncs_data_only() {
        true => Sync::Data,
        false => Sync::All,
    };
    call.files.sync(call.handle()?, what).await?;
    Ok(Done::result(0))
}

pub(super) async fn operate(call: &Call<'_>) -> Served {
    let handle = call.handle()?;
    let operation = call.command.handle_operation_kind();
    let operation = operation.ok_or(StatusCode::InvalidField)?;
    let (offset, bytes) = (call.command.file_offset(), call.command.range_bytes());
    let what = match operation {
        HandleOperation::Truncate => {
            let cut = call.files.truncate_open(call.now_ns, handle, offset);
            cut.await?;
            return Ok(Done::result(0));
        }
        HandleOperation::SeekData | HandleOperation::SeekHole => {
            let what = match operation {
                HandleOperation::SeekData => Seek::Data,
                _ => Seek::Hole,
            };
            return Ok(Done::result(call.files.seek(handle, offset, what).await?));
        }
        HandleOperation::Allocate => Allocate::Extend,
        HandleOperation::AllocateKeepSize => Allocate::KeepSize,
        HandleOperation::Punch => Allocate::Punch,
        HandleOperation::Zero => Allocate::Zero,
        HandleOperation::ZeroKeepSize => Allocate::ZeroKeepSize,
    };
    let done = call
        .files
        .allocate(call.now_ns, handle, offset, bytes, what);
    done.await?;
    Ok(Done::result(0))
}
