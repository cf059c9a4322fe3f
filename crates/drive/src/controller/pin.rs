//! Pin and unpin: checked whole, then given to every core that has a page in them.

use wharf_wire::command::Command;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::pin::{Access, BITMAP_BYTES, LIST_ENTRIES, Unpin, WINDOW_PAGES_MAX, unpin_offset};
use wharf_wire::status::{Status, StatusCode};

use super::Controller;
use super::slots::After;
use crate::core::part::PinRequest;

/// The result of a pin without a list whose page was not pinned: no address, as those of frames
/// are multiples of 4096.
pub(super) const NO_ADDRESS: u64 = u64::MAX >> 1;

/// Which cores a command concerns: a bit for each.
type CoreSet = u32;

impl Controller {
    /// Starts a pin, or an unpin if `access` is `None`.
    pub(super) fn start_pin(
        &mut self,
        qid: u16,
        command: Command,
        access: Option<Access>,
    ) -> Result<(), StatusCode> {
        if self.lending {
            return Err(StatusCode::CommandSequenceError);
        }
        if self.hmb_frames == 0 {
            return Err(StatusCode::NoHostMemory);
        }
        let queue = self.queues[qid as usize].as_ref();
        let guest = queue.and_then(|queue| queue.queue.guest());
        // One that waited could do so for what the guest itself holds.
        let may_wait = guest.is_none() && self.more_pins_may_wait();
        let mut request = PinRequest {
            list: command.has_list().then_some(command.prp1),
            window: command.slba(),
            pages: access.map_or(0, |_| command.pages()),
            unpins: command.unpin_count(),
            unpin: command.inline_unpin(),
            access: access.unwrap_or(Access::Read),
            may_not_wait: command.may_not_wait() || !may_wait,
            has_waited: false,
            unpin_failed: false,
            // For the cores to say: the host need not ask whether its unpins were served.
            write_protected: !matches!(access, None | Some(Access::Read)) && self.is_read_only(),
            qid,
            guest,
        };
        if access.is_some() {
            command.check_lba_range(self.namespace_pages)?;
        }
        let cores = match request.list {
            None => self.cores_of_single(&mut request)?,
            Some(list) => self.cores_of_list(&request, list)?,
        };
        if cores == 0 {
            self.finish(qid, &command, Status::SUCCESS, 0, 0);
            return Ok(());
        }
        let after = match access {
            Some(_) => After::Pin,
            None => After::Nothing,
        };
        let slot = self.slots.take(qid, command, cores.count_ones(), 0, after);
        if access.is_some() {
            self.pins_out += 1;
            self.slots.set_result(
                slot,
                match request.list {
                    None => NO_ADDRESS,
                    Some(_) => 0,
                },
            );
        }
        for core in (0..self.cores.len() as u32).filter(|core| cores >> core & 1 == 1) {
            self.send(core, request.into_part(slot));
        }
        Ok(())
    }

    /// Pins that wait keep their slots, and what they wait for is an unpin, which needs one too: so
    /// half of the slots are left to others.
    fn more_pins_may_wait(&self) -> bool {
        self.pins_out < self.config.firmware.commands_max / 2
    }

    /// The cores of a command without a list: of its one page, and of its one unpin.
    fn cores_of_single(&mut self, request: &mut PinRequest) -> Result<CoreSet, StatusCode> {
        if request.pages > 1 || request.unpins > 1 || request.pages + request.unpins == 0 {
            return Err(StatusCode::CommandSizeLimitExceeded);
        }
        let mut cores = 0;
        if request.pages == 1 {
            let (core, local) = self.striping.locate(request.window);
            self.cores[core as usize].map.prefetch(local);
            cores |= 1 << core;
        }
        if request.unpins == 1 {
            cores |= self.core_of_unpin(request.unpin)?;
        }
        Ok(cores)
    }

    /// The cores of a command with a list, which is read and checked.
    fn cores_of_list(&self, request: &PinRequest, list: u64) -> Result<CoreSet, StatusCode> {
        if request.pages > WINDOW_PAGES_MAX || request.unpins > LIST_ENTRIES as u32 {
            return Err(StatusCode::CommandSizeLimitExceeded);
        }
        if !list.is_multiple_of(PAGE_BYTES as u64) {
            return Err(StatusCode::PrpOffsetInvalid);
        }
        let (mut cores, mut wanted) = (0, 0);
        for index in 0..(BITMAP_BYTES / 8) as u32 {
            let mut bits = self.list_word(list + u64::from(index * 8))?;
            if request.pages == 0 {
                break; // An unpin has no window.
            }
            let in_window = request.pages.saturating_sub(index * 64).min(64);
            if in_window < 64 && bits >> in_window != 0 {
                return Err(StatusCode::InvalidField);
            }
            wanted += bits.count_ones();
            while bits != 0 {
                let page = request.window + u64::from(index * 64 + bits.trailing_zeros());
                let (core, local) = self.striping.locate(page);
                self.cores[core as usize].map.prefetch(local);
                cores |= 1 << core;
                bits &= bits - 1;
            }
        }
        if wanted + request.unpins > LIST_ENTRIES as u32 {
            return Err(StatusCode::CommandSizeLimitExceeded);
        }
        for index in 0..request.unpins {
            let entry = self.list_word(list + unpin_offset(index))?;
            cores |= self.core_of_unpin(Unpin::from_entry(entry))?;
        }
        Ok(cores)
    }

    fn list_word(&self, at: u64) -> Result<u64, StatusCode> {
        let word = self.dma.read_u64(at);
        word.map_err(|_| StatusCode::DataTransferError)
    }

    fn core_of_unpin(&self, unpin: Unpin) -> Result<CoreSet, StatusCode> {
        if unpin.lba >= self.namespace_pages {
            return Err(StatusCode::LbaOutOfRange);
        }
        Ok(1 << self.striping.locate(unpin.lba).0)
    }
}
