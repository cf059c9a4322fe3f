//! Leases of open files.

use wharf_files::vfs::Target;
use wharf_files::{FILE_BYTES_MAX, FileSystem, Kind};
use wharf_wire::dma::{DmaArea, PAGE_BYTES, of_guest};
use wharf_wire::file::write_area::{AREA_PAGES, ENTRIES, PLACES};
use wharf_wire::file::{FileAttributes, lock_area};
use wharf_wire::status::StatusCode;
use zerocopy::IntoBytes;

use super::super::SET_ID_BITS;
use super::super::leases::NAMES;
use super::super::lock_leases::LockGrant;
use super::super::near::ALL;
use super::super::writers::Grant;
use super::{COMMAND_BYTES, Call, Done, Served, convert};

/// Gives a lease, and then the attributes: what they miss is told by the word.
pub(super) async fn lease(call: &Call<'_>) -> Served {
    call.carry(COMMAND_BYTES as usize).await;
    if call.command.leases_writes() {
        return lease_to_write(call).await;
    }
    if call.command.leases_locks() {
        return lease_of_locks(call).await;
    }
    let address = call.lease_address();
    let (leases, host) = (call.at.firmware.leases(), call.host());
    let word = || {
        let word = call.at.core.dma().word(address);
        word.map_err(|_| StatusCode::DataTransferError)
    };
    if call.command.leases_names() {
        return Ok(Done::result(leases.grant(host, NAMES, address, word()?)));
    }
    let handle = call.handle()?;
    let (number, _) = call.files.opened(handle)?;
    call.files.file_system().settle(number).await;
    // Whoever stores to a file from now on says so before.
    call.at.firmware.near().hide(number, &ALL);
    let lease = leases.grant(host, number, address, word()?);
    let found = call.files.stat(Target::Handle(handle)).await;
    let lease = match &found {
        Ok(found) if found.kind == Kind::File => lease,
        _ => {
            leases.end(host, number);
            0
        }
    };
    call.copy_in(convert::attributes(&found?).as_bytes())?;
    Ok(Done {
        result: lease,
        bytes: size_of::<FileAttributes>() as u32,
    })
}

/// Gives a lease to write a file, and the attributes from before.
async fn lease_to_write(call: &Call<'_>) -> Served {
    let handle = call.handle()?;
    let (number, _) = call.files.opened(handle)?;
    let (caller, bytes_max) = call.files.writer(handle)?;
    let (area, place) = call.area(AREA_PAGES)?;
    let (fs, host) = (call.files.file_system(), call.host());
    let writers = &call.at.firmware.leases().writers;
    let found = call.files.stat(Target::Handle(handle)).await?;
    let room = fs.below().stat_fs().await?;
    // What every host may keep must find a place.
    let room_pages = writers.hosts_with(host) * ENTRIES as u64;
    let may = found.kind == Kind::File
        && bytes_max >= FILE_BYTES_MAX
        // A write takes these bits away, and who looks at them is not always told by what is kept.
        && found.mode & SET_ID_BITS == 0
        && room.pages_free > room_pages;
    call.copy_in(convert::attributes(&found).as_bytes())?;
    if let Some(other) = writers.of_place(host, place) {
        fs.settle_whole(other).await;
    }
    fs.settle_whole(number).await;
    // What is kept by the host is not looked for near.
    fs.forget_near(number).await?;
    // From here on there is no wait: nobody comes in between.
    let is_near = call.at.firmware.near().may_have(number);
    let is_free = !is_near && !writers.has(number) && writers.of_place(host, place).is_none();
    let lease = match may && is_free && call.files.is_open(handle) {
        true => call.at.firmware.leases().begin_writing(host, number),
        false => None,
    };
    if let Some(lease) = lease {
        let grant = Grant {
            host,
            caller,
            area,
            place,
            lease,
        };
        writers.grant(number, grant);
        call.begin_ageing();
    }
    Ok(Done {
        result: lease.unwrap_or(0),
        bytes: size_of::<FileAttributes>() as u32,
    })
}

/// Gives a lease of the locks of a file.
async fn lease_of_locks(call: &Call<'_>) -> Served {
    let handle = call.handle()?;
    let (number, flags) = call.files.opened(handle)?;
    let (area, place) = call.area(lock_area::AREA_PAGES)?;
    let (host, core) = (call.host(), call.at.core);
    let leases = call.at.firmware.leases();
    if let Some(other) = leases.locks.of_place(host, place) {
        call.settle_locks(other).await;
    }
    call.settle_locks(number).await;
    // From here on there is no wait: nobody comes in between.
    let is_free = leases.locks.of_place(host, place).is_none()
        && call.locks().is_alone(core, number, host)
        && call.files.is_open(handle);
    if !is_free {
        return Ok(Done::result(0));
    }
    let lease = leases.next_number();
    let grant = LockGrant {
        host,
        area,
        place,
        lease,
        may: (flags.read, flags.write),
    };
    let Some(own) = grant.tell(&call.locks().of_host(number, host)) else {
        return Ok(Done::result(0));
    };
    leases.locks.grant(number, grant, &own);
    Ok(Done::result(lease))
}

impl Call<'_> {
    /// The address of the word of a lease.
    fn lease_address(&self) -> u64 {
        match self.guest {
            Some(guest) => of_guest(guest.number, self.command.lease_word()),
            None => self.command.lease_word(),
        }
    }

    /// The area of so many pages whose word of a lease is named, and the place of the word.
    fn area(&self, pages: usize) -> Result<(DmaArea, usize), StatusCode> {
        let address = self.lease_address();
        let within = address % PAGE_BYTES as u64;
        let place = (within / size_of::<u64>() as u64) as usize;
        if !within.is_multiple_of(size_of::<u64>() as u64) || place >= PLACES {
            return Err(StatusCode::InvalidField);
        }
        let area = self.at.core.dma().area(address - within, pages);
        let area = area.map_err(|_| StatusCode::DataTransferError)?;
        Ok((area, place))
    }
}
