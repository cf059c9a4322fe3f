//! Leases of open files.

use wharf_files::Kind;
use wharf_files::vfs::Target;
use wharf_wire::dma::of_guest;
use wharf_wire::file::FileAttributes;
use wharf_wire::status::StatusCode;
use zerocopy::IntoBytes;

use super::super::leases::NAMES;
use super::{COMMAND_BYTES, Call, Done, Served, convert};

/// Gives a lease, and then the attributes: what they miss is told by the word.
pub(super) async fn lease(call: &Call<'_>) -> Served {
    call.carry(COMMAND_BYTES as usize).await;
    let address = match call.guest {
        Some(guest) => of_guest(guest.number, call.command.lease_word()),
        None => call.command.lease_word(),
    };
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
