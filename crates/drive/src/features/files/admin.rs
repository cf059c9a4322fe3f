//! Admin commands for files: a key, and sessions that are taken back.

use std::rc::Rc;

use wharf_runtime::OnCpu;
use wharf_wire::command::Command;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::file::{DriveKey, Revoke};
use wharf_wire::opcode::AdminOpcode;
use wharf_wire::status::StatusCode;
use zerocopy::{FromZeros, IntoBytes};

use super::firmware::Firmware;
use super::{firmware, first_core};
use crate::controller::{Controller, SetOutcome};

/// Does an admin command, if it is one of these.
pub(super) fn command(controller: &mut Controller, command: &Command) -> Option<SetOutcome> {
    match command.admin_opcode()? {
        AdminOpcode::SetKey => Some(set_key(controller, command).map(|()| Some(0))),
        AdminOpcode::Revoke => Some(revoke(controller, command).map(|()| Some(0))),
        _ => None,
    }
}

fn set_key(controller: &Controller, command: &Command) -> Result<(), StatusCode> {
    if !command.prp1.is_multiple_of(PAGE_BYTES as u64) {
        return Err(StatusCode::PrpOffsetInvalid);
    }
    let mut key = DriveKey::new_zeroed();
    // SAFETY: the page is named by a command in flight and the controller alone reads it.
    unsafe {
        controller
            .dma()
            .read_bytes(command.prp1, key.as_mut_bytes())
    }
    .map_err(|_| StatusCode::DataTransferError)?;
    firmware(controller).access().set_key(key)
}

fn revoke(controller: &Controller, command: &Command) -> Result<(), StatusCode> {
    let (kind, which) = command.revokes().ok_or(StatusCode::InvalidField)?;
    if kind != Revoke::Session && which > u64::from(u32::MAX) {
        return Err(StatusCode::InvalidField);
    }
    let (firmware, cpu) = (firmware(controller), &first_core(controller).cpu);
    let now_ns = firmware.now_ns(cpu.now());
    for host in firmware.access().revoke(kind, which, now_ns) {
        close_all(controller, &firmware, host);
    }
    Ok(())
}

/// Closes what a host has open, gives its locks back, and ends its leases. Nobody waits for it: what is closed was promised to nobody.
pub(super) fn close_all(controller: &Controller, firmware: &Rc<Firmware>, host: u32) {
    // Its memory may be another's soon.
    let left = firmware.leases().writers.take_all(host);
    firmware.end_host(host);
    let guest = host.checked_sub(1);
    let Some(files) = firmware.sessions().take(guest) else {
        return;
    };
    let (leases, near) = (firmware.leases().clone(), firmware.near().clone());
    let closes = async move {
        let fs = files.file_system().below();
        near.host_leaves(fs, host).await;
        leases.writers.write_all(fs, left).await;
        let _ = files.close_all().await;
    };
    let cpu = &first_core(controller).cpu;
    cpu.spawn("closes files", OnCpu::new(cpu, closes));
}
