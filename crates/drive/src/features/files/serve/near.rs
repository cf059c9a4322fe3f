//! Reading and writing by way of the cache in the drive's memory.

use wharf_files::vfs::check_range;
use wharf_files::{Errno, FileError, Handle, In, Out, Place};
use wharf_wire::file::{Evict, NearResult};
use wharf_wire::opcode::IoOpcode;
use wharf_wire::status::StatusCode;

use super::super::bytes::put;
use super::super::near::{Kept, User};
use super::{COMMAND_BYTES, Call, Done, Served};

pub(super) async fn read(call: &Call<'_>) -> Served {
    call.check_near()?;
    let handle = call.handle()?;
    call.carry(COMMAND_BYTES as usize).await;
    let (number, flags) = call.files.opened(handle)?;
    let offset = call.command.file_offset();
    if !flags.read {
        return Err(Errno::EBADF.into());
    }
    check_range(offset, call.buffer_bytes() as u64)?;
    let pages = call.pages();
    let out = Out::Host(call.host_bytes(&pages));
    let kept = match (call.command.takes(), call.command.keeps()) {
        (true, true) => return Err(StatusCode::InvalidField.into()),
        (true, false) => Kept::Taken,
        (false, true) => Kept::With(call.command.keeps_ahead()),
        (false, false) => Kept::AsTheyAre,
    };
    let result = call.read_bytes_near(number, offset, out, kept).await?;
    Ok(Done {
        result: result.raw(),
        bytes: result.bytes,
    })
}

pub(super) async fn write(call: &Call<'_>) -> Served {
    call.check_near()?;
    let handle = call.handle()?;
    call.carry(COMMAND_BYTES as usize).await;
    let count = call.buffer_bytes();
    let offset = call.command.file_offset();
    call.files.writer(handle)?;
    check_range(offset, count as u64)?;
    call.carry(count).await;
    let mut data = vec![0; count];
    call.copy_out(0, &mut data)?;
    let written = call.write_bytes_near(handle, offset, &data).await?;
    Ok(Done::result(written.raw()))
}

pub(super) async fn evict(call: &Call<'_>) -> Served {
    call.check_near()?;
    let handle = call.handle()?;
    let how = call.command.evict_kind();
    let how = how.ok_or(StatusCode::InvalidField)?;
    let (number, flags) = call.files.opened(handle)?;
    if how == Evict::Drop && !flags.write {
        return Err(Errno::EBADF.into());
    }
    let from = call.command.file_offset();
    let bytes = from..from.saturating_add(call.command.range_bytes());
    let evicted = call.files.file_system().evict_near(number, bytes, how);
    Ok(Done::result(evicted.await?))
}

impl Call<'_> {
    /// Refuses commands for a cache where there is none.
    fn check_near(&self) -> Result<(), StatusCode> {
        match self.at.firmware.near().is_on() {
            true => Ok(()),
            false => Err(StatusCode::InvalidOpcode),
        }
    }

    /// Reads bytes of a file, as far as it goes: those that the cache has from there.
    pub(super) async fn read_bytes_near(
        &self,
        number: u64,
        offset: u64,
        out: Out<'_>,
        kept: Kept,
    ) -> Result<NearResult, FileError> {
        let core = self.at.core;
        let put = |bytes: &[u8], out: Out<'_>| {
            let copied = core.copying(1, || put(core, out, bytes));
            copied.map_err(FileError::from)
        };
        let (fs, user) = (self.files.file_system(), self.near_user());
        fs.read_near((number, user), offset, out, kept, put).await
    }

    /// Writes bytes to the cache; what lies behind the end of the file, or finds no room there, to the file.
    pub(super) async fn write_bytes_near(
        &self,
        handle: Handle,
        offset: u64,
        data: &[u8],
    ) -> Result<NearResult, FileError> {
        let (caller, bytes_max) = self.files.writer(handle)?;
        let (number, flags) = self.files.opened(handle)?;
        let count = data.len() as u64;
        let fs = self.files.file_system();
        let is_within = !flags.append && offset + count <= bytes_max;
        let user = self.near_user();
        let written = match is_within && count > 0 {
            true => {
                let write = fs.write_near((number, user), &caller, offset, data);
                write.await?
            }
            false => None,
        };
        self.begin_ageing();
        let write = async |place, data| self.files.write(self.now_ns, handle, place, data).await;
        let Some((result, past)) = written else {
            let written = write(Place::At(offset), In::Bytes(data)).await?;
            return Ok(NearResult {
                bytes: written.bytes as u32,
                ..NearResult::default()
            });
        };
        for part in past {
            let (start, end) = (part.start as usize, part.end as usize);
            let place = Place::At(offset + part.start);
            let written = write(place, In::Bytes(&data[start..end])).await?;
            if written.bytes < part.end - part.start {
                return Err(Errno::ENOSPC.into());
            }
        }
        Ok(result)
    }

    fn near_user(&self) -> User {
        User {
            host: self.host(),
            now_ns: self.now_ns,
            // The window is memory of the drive's process, so nothing is shown to another one. In steps of a vector the bits mean other things.
            shows: self.guest.is_none()
                && self.command.io_opcode() != Some(IoOpcode::Vector)
                && self.command.shows(),
        }
    }
}
