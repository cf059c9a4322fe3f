//! The commands pin and unpin: checked whole, then given to every core that has a page in them.

use wharf_wire::command::Command;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::pin::{Access, BITMAP_BYTES, LIST_ENTRIES, Unpin, WINDOW_PAGES_MAX, unpin_offset};
use wharf_wire::status::{Status, StatusCode};

use super::host_memory::HostMemory;
use super::request::{MAY_NOT_WAIT, Request, WRITE_PROTECTED};
use super::serve;
use crate::controller::{Controller, Handler, IoCommand};
use crate::core::{Core, Serve, Share, Step, Waiting};

/// The result of a pin without a list whose page was not pinned: no address, as those of frames
/// are multiples of 4096.
pub(super) const NO_ADDRESS: u64 = u64::MAX >> 1;

/// Pin, which may unpin too.
pub(super) static PIN: PinOrUnpin = PinOrUnpin { is_pin: true };
/// Unpin.
pub(super) static UNPIN: PinOrUnpin = PinOrUnpin { is_pin: false };

/// Which cores a command concerns: a bit for each.
type CoreSet = u32;

/// One of the two commands.
pub(super) struct PinOrUnpin {
    is_pin: bool,
}

impl Handler for PinOrUnpin {
    fn end(&self, controller: &mut Controller, slot: u16) {
        if self.is_pin {
            let pins = &controller.state::<HostMemory>().pins_out;
            pins.set(pins.get() - 1);
        }
        controller.complete(slot);
    }
}

impl Serve for PinOrUnpin {
    fn serve(&self, core: &Core, job: u32) -> Step {
        serve::begin(core, job)
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        Box::pin(serve::fetch_and_end(core, job))
    }
}

impl IoCommand for PinOrUnpin {
    fn start(
        &'static self,
        controller: &mut Controller,
        qid: u16,
        command: Command,
    ) -> Result<(), StatusCode> {
        let access = match self.is_pin {
            true => Some(command.access()?),
            false => None,
        };
        let memory = controller.state::<HostMemory>();
        if memory.is_changing.get() {
            return Err(StatusCode::CommandSequenceError);
        }
        if memory.frames.get() == 0 {
            return Err(StatusCode::NoHostMemory);
        }
        let guest = controller.guest_of(qid);
        // One that waited could do so for what the guest itself holds.
        let may_wait = guest.is_none() && more_pins_may_wait(controller);
        let mut note = 0;
        if command.may_not_wait() || !may_wait {
            note |= MAY_NOT_WAIT;
        }
        // For the cores to say: the host need not ask whether its unpins were served.
        if !matches!(access, None | Some(Access::Read)) && controller.is_read_only() {
            note |= WRITE_PROTECTED;
        }
        let request = Request::of(&command, note, guest);
        if self.is_pin {
            command.check_lba_range(controller.namespace_pages())?;
        }
        let cores = match request.list {
            None => cores_of_single(controller, &request)?,
            Some(list) => cores_of_list(controller, &request, list)?,
        };
        if cores == 0 {
            controller.finish(qid, &command, Status::SUCCESS, 0, 0);
            return Ok(());
        }
        let slot = controller.take_slot(self, qid, command, cores.count_ones());
        {
            let mut slots = controller.slots().borrow_mut();
            let slot = slots.get_mut(slot);
            slot.note = note;
            if self.is_pin && request.list.is_none() {
                slot.result = NO_ADDRESS;
            }
        }
        if self.is_pin {
            let pins = &controller.state::<HostMemory>().pins_out;
            pins.set(pins.get() + 1);
        }
        let share = Share {
            slot,
            ..Share::default()
        };
        for core in (0..32u32).filter(|core| cores >> core & 1 == 1) {
            controller.send(core, share, self);
        }
        Ok(())
    }

    fn refused_result(&self) -> u64 {
        if self.is_pin { NO_ADDRESS } else { 0 }
    }
}

/// Pins that wait keep their slots, and what they wait for is an unpin, which needs one too: so
/// half of the slots are left to others.
fn more_pins_may_wait(controller: &Controller) -> bool {
    let pins = controller.state::<HostMemory>().pins_out.get();
    pins < controller.config().firmware.commands_max / 2
}

/// The cores of a command without a list: of its one page, and of its one unpin.
fn cores_of_single(controller: &Controller, request: &Request) -> Result<CoreSet, StatusCode> {
    if request.pages > 1 || request.unpins > 1 || request.pages + request.unpins == 0 {
        return Err(StatusCode::CommandSizeLimitExceeded);
    }
    let mut cores = 0;
    if request.pages == 1 {
        let (core, local) = controller.striping().locate(request.window);
        controller.prefetch(core, local);
        cores |= 1 << core;
    }
    if request.unpins == 1 {
        cores |= core_of_unpin(controller, request.unpin)?;
    }
    Ok(cores)
}

/// The cores of a command with a list, which is read and checked.
fn cores_of_list(
    controller: &Controller,
    request: &Request,
    list: u64,
) -> Result<CoreSet, StatusCode> {
    if request.pages > WINDOW_PAGES_MAX || request.unpins > LIST_ENTRIES as u32 {
        return Err(StatusCode::CommandSizeLimitExceeded);
    }
    if !list.is_multiple_of(PAGE_BYTES as u64) {
        return Err(StatusCode::PrpOffsetInvalid);
    }
    let (mut cores, mut wanted) = (0, 0);
    for index in 0..(BITMAP_BYTES / 8) as u32 {
        let mut bits = list_word(controller, list + u64::from(index * 8))?;
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
            let (core, local) = controller.striping().locate(page);
            controller.prefetch(core, local);
            cores |= 1 << core;
            bits &= bits - 1;
        }
    }
    if wanted + request.unpins > LIST_ENTRIES as u32 {
        return Err(StatusCode::CommandSizeLimitExceeded);
    }
    for index in 0..request.unpins {
        let entry = list_word(controller, list + unpin_offset(index))?;
        cores |= core_of_unpin(controller, Unpin::from_entry(entry))?;
    }
    Ok(cores)
}

fn list_word(controller: &Controller, at: u64) -> Result<u64, StatusCode> {
    let word = controller.dma().read_u64(at);
    word.map_err(|_| StatusCode::DataTransferError)
}

fn core_of_unpin(controller: &Controller, unpin: Unpin) -> Result<CoreSet, StatusCode> {
    if unpin.lba >= controller.namespace_pages() {
        return Err(StatusCode::LbaOutOfRange);
    }
    Ok(1 << controller.striping().locate(unpin.lba).0)
}
