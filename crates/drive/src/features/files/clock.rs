//! The feature by which a host sets what time it is for files (0Eh).

use wharf_wire::command::Command;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::status::StatusCode;
use wharf_wire::timestamp::Timestamp;
use zerocopy::IntoBytes;

use super::{firmware, first_core};
use crate::controller::Controller;

const NS_PER_MS: u64 = 1_000_000;

/// The feature's value.
pub(super) fn get(controller: &Controller) -> Vec<u8> {
    let firmware = firmware(controller);
    let now_ns = firmware.now_ns(first_core(controller).cpu.now());
    let timestamp = Timestamp::of_milliseconds(now_ns / NS_PER_MS);
    let timestamp = match firmware.is_time_set() {
        true => timestamp.set_by_host(),
        false => timestamp,
    };
    timestamp.as_bytes().to_vec()
}

/// Sets it to what the command says.
///
/// # Errors
/// If that is no memory of the host.
pub(super) fn set(controller: &Controller, command: &Command) -> Result<(), StatusCode> {
    if !command.prp1.is_multiple_of(PAGE_BYTES as u64) {
        return Err(StatusCode::PrpOffsetInvalid);
    }
    let mut timestamp = Timestamp::default();
    // SAFETY: the page is named by a command in flight and the controller alone reads it.
    unsafe {
        controller
            .dma()
            .read_bytes(command.prp1, timestamp.as_mut_bytes())
    }
    .map_err(|_| StatusCode::DataTransferError)?;
    let clock_ns = first_core(controller).cpu.now();
    let now_ns = timestamp.milliseconds().saturating_mul(NS_PER_MS);
    firmware(controller).set_time(clock_ns, now_ns);
    Ok(())
}
