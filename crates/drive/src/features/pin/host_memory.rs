//! The host lends memory, or takes it back: the host memory feature.
//!
//! 1. Everything about the chunks is checked before anything changes. While pages are pinned, nothing
//!    is lent or taken back.
//! 2. The cores write back what is dirty. If one cannot, the memory stays as it is.
//! 3. Each core gets its share, and begins with empty frames.
//!
//! Pins and unpins are refused from step 2 to the end of step 3.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use wharf_wire::command::Command;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::host_memory::{DESCRIPTORS_MAX, HostMemoryDescriptor};
use wharf_wire::status::StatusCode;
use zerocopy::{FromZeros, IntoBytes};

use super::state::Pins;
use crate::controller::{Controller, Handler, SetOutcome};
use crate::core::hmb::{Chunk, Hmb, divide};
use crate::core::{Core, Serve, Step, Waiting, outcome};
use crate::ftl::CACHED_MAX;

/// The host's address of a frame: a multiple of 4096 with bit 63 clear.
const VADD_RESERVED: u64 = 1 << 63 | (PAGE_BYTES as u64 - 1);

/// What the controller knows of the memory.
#[derive(Default)]
pub(super) struct HostMemory {
    /// Frames that the host has lent.
    pub frames: Cell<u32>,
    /// Memory is being lent or taken back.
    pub is_changing: Cell<bool>,
    /// Pins without an answer.
    pub pins_out: Cell<u32>,
    /// The shares of the cores, until those have written back what they cache.
    shares: RefCell<Vec<Arc<Hmb>>>,
}

/// The frames that the drive prefers to be lent, and the fewest it takes: one for every page that a
/// core could have in a frame, and one for each core.
pub(super) fn sizes(controller: &Controller) -> (u32, u32) {
    let cores = controller.cores().len() as u32;
    let each = controller.plan().logical_pages.min(CACHED_MAX);
    (each.saturating_mul(cores), cores)
}

/// Begins to lend memory, or to take it back.
pub(super) fn set(controller: &mut Controller, command: Command) -> SetOutcome {
    let memory = controller.state::<HostMemory>();
    if memory.is_changing.get() || controller.is_formatting() {
        return Err(StatusCode::CommandSequenceError);
    }
    let chunks = match command.lends_host_memory() {
        true => chunks(controller, &command)?,
        false => Vec::new(),
    };
    check_nothing_pinned(controller)?;
    memory.is_changing.set(true);
    let shares = divide(&chunks, controller.cores().len() as u32);
    *memory.shares.borrow_mut() = shares;
    controller.broadcast(&WriteBack, 0, command, 0);
    Ok(None)
}

/// Refuses what cannot be done while pages are pinned.
///
/// # Errors
/// If some are.
pub(super) fn check_nothing_pinned(controller: &Controller) -> Result<(), StatusCode> {
    let is_pinning = controller.state::<HostMemory>().pins_out.get() > 0;
    match is_pinning || controller.cores().any(|core| core.frames_held.get() > 0) {
        true => Err(StatusCode::FramesPinned),
        false => Ok(()),
    }
}

/// Reads and checks the descriptors.
fn chunks(controller: &Controller, command: &Command) -> Result<Vec<Chunk>, StatusCode> {
    let (list, entries) = command.host_memory_list();
    if !list.is_multiple_of(PAGE_BYTES as u64) {
        return Err(StatusCode::PrpOffsetInvalid);
    }
    if entries == 0 || entries > DESCRIPTORS_MAX {
        return Err(StatusCode::InvalidField);
    }
    let bytes = size_of::<HostMemoryDescriptor>() as u64;
    let chunks = (0..u64::from(entries)).map(|index| {
        let mut descriptor = HostMemoryDescriptor::new_zeroed();
        let at = list + index * bytes;
        // SAFETY: the list is named by a command in flight and the controller alone reads it.
        unsafe { controller.dma().read_bytes(at, descriptor.as_mut_bytes()) }
            .map_err(|_| StatusCode::DataTransferError)?;
        chunk(controller, &descriptor)
    });
    let chunks: Vec<Chunk> = chunks.collect::<Result<_, _>>()?;
    let frames: u64 = chunks.iter().map(|c| c.table.frames() as u64).sum();
    let each = frames / controller.cores().len() as u64;
    let counted = frames == u64::from(command.host_memory_frames());
    if !counted || each == 0 || each > u64::from(CACHED_MAX) {
        return Err(StatusCode::InvalidField);
    }
    Ok(chunks)
}

fn chunk(controller: &Controller, descriptor: &HostMemoryDescriptor) -> Result<Chunk, StatusCode> {
    let HostMemoryDescriptor {
        badd,
        bsize,
        vadd,
        table,
        ..
    } = *descriptor;
    let length = u64::from(bsize) * PAGE_BYTES as u64;
    let end = vadd.checked_add(length).ok_or(StatusCode::InvalidField)?;
    if bsize == 0 || vadd & VADD_RESERVED != 0 || end > 1 << 63 {
        return Err(StatusCode::InvalidField);
    }
    let (dma, frames) = (controller.dma(), bsize as usize);
    let fault = |_| StatusCode::DataTransferError;
    dma.check_pages(badd, frames).map_err(fault)?;
    let table = dma.frame_table(table, frames).map_err(fault)?;
    Ok(Chunk {
        badd,
        vadd,
        table: Arc::new(table),
    })
}

/// Step 2: what is cached and dirty becomes durable.
struct WriteBack;

impl Serve for WriteBack {
    fn serve(&self, _: &Core, _: u32) -> Step {
        Step::Waits
    }

    fn wait<'a>(&'a self, core: &'a Core, _: u32) -> Waiting<'a> {
        Box::pin(async { outcome(core.write_all_back().await, 0) })
    }
}

impl Handler for WriteBack {
    fn end(&self, controller: &mut Controller, slot: u16) {
        let (status, command) = {
            let slots = controller.slots().borrow();
            (slots.get(slot).status, slots.get(slot).command)
        };
        if status != StatusCode::Success {
            return end(controller, slot);
        }
        let shares = controller.state::<HostMemory>().shares.take();
        for (core, share) in controller.cores().zip(shares) {
            *core.state::<Pins>().next_frames.borrow_mut() = Some(share);
        }
        controller.forget(slot);
        controller.broadcast(&TakeFrames, 0, command, 0);
    }
}

/// Step 3: a core forgets what is cached and takes its share.
struct TakeFrames;

impl Serve for TakeFrames {
    fn serve(&self, core: &Core, _: u32) -> Step {
        let pins = core.state::<Pins>();
        let frames = pins.next_frames.take();
        let taken = core.take_frames(frames.expect("the controller has left them"));
        pins.guests.take();
        Step::Ended(outcome(taken, 0))
    }
}

impl Handler for TakeFrames {
    fn end(&self, controller: &mut Controller, slot: u16) {
        end(controller, slot);
    }
}

/// The end of a change, done or not.
fn end(controller: &mut Controller, slot: u16) {
    let (status, command) = {
        let slots = controller.slots().borrow();
        (slots.get(slot).status, slots.get(slot).command)
    };
    let memory = controller.state::<HostMemory>();
    memory.is_changing.set(false);
    memory.shares.take();
    if status == StatusCode::Success {
        memory.frames.set(match command.lends_host_memory() {
            true => command.host_memory_frames(),
            false => 0,
        });
    }
    controller.complete(slot);
}
