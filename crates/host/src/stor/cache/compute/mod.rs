//! Computing on files: in this process, or in the drive, whichever is expected to be done first (OmniCache, section 4.4).
//!
//! 1. Where the pages are is looked up: in the host's cache, in the drive's, in neither.
//! 2. `model.rs` says what either side would take, by what it took before, and which one it is to be.
//! 3. In the host the bytes are read and written through the caches as always. In the drive it is one command; pages that the host's cache has go to the
//!    drive before, and pages that the drive's cache has stay there.
//! 4. What it took is noted, part by part: the drive's answer says how long it waited, moved and computed.
//! 5. What the drive refuses the host computes, whoever was chosen, and the drive is not asked again for a while (`refusals.rs`).
//!
//! That is a checksum, which is written back; `nearest.rs` is a search that both sides can have a part of, `sides.rs` is for programs.

mod model;
mod nearest;
mod refusals;
mod sides;

use std::ops::Range;

use wharf_runtime::Op;
use wharf_runtime::rw_gate::Entry;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::file::VectorFunction;

use super::data::At;
use super::opened::OpenFile;
use super::thread::Cached;
use crate::design::Touch;
use crate::files::{FileError, Summed, crc32c};
use crate::span::Extent;
use crate::stor::StorClient;
use crate::stor::vector::{Computed, Source, Target, Vector};
use wharf_files::{Errno, Handle};

pub use model::Compute;
pub(super) use model::{Decisions, Model, Places, Side};
use model::{DriveRan, HostRan, Place};
pub(super) use refusals::Refusals;
use refusals::{Asked, Function};
pub use sides::{Load, Sides};

/// Most bytes that the drive computes on as one command here: what is longer is read.
pub(super) const DRIVE_BYTES_MAX: u64 = 256 << 10;

impl Cached {
    /// Reads bytes, computes their checksum, and writes them back.
    pub(super) async fn crc_write(
        &self,
        file: &OpenFile,
        extent: Extent,
        room: &mut [u8],
    ) -> Result<Summed, FileError> {
        if !file.can_read || !file.can_write || file.appends {
            return Err(Errno::EBADF.into());
        }
        let left = self.node(file.slot).bytes().saturating_sub(extent.offset);
        let there = Extent::new(extent.offset, extent.bytes.min(left));
        if there.bytes == 0 {
            return Ok(Summed::default());
        }
        let first = there.first_page();
        let pages = first..first + there.pages();
        let mut places = self.places(file.slot, &pages);
        if self.side_of_crc(there, places) == Side::Drive {
            let asking = self.crc_on_drive(file, there, places);
            let refusals = &self.process.refusals;
            if let Some(done) = refusals.note(self.cpu(), crc_of(there), asking).await? {
                return Ok(done);
            }
            places = self.places(file.slot, &pages);
        }
        self.crc_on_host(file, there, places, room).await
    }

    /// Who is to compute a checksum.
    fn side_of_crc(&self, there: Extent, places: Places) -> Side {
        let compute = self.process.compute;
        if compute == Compute::Host || there.bytes > DRIVE_BYTES_MAX {
            return Side::Host;
        }
        let cpu = self.cpu();
        let may_ask = self.process.refusals.may_ask(crc_of(there), cpu.now());
        let decide = || {
            let model = &mut *self.model.borrow_mut();
            match may_ask {
                true => model.choose(compute, places),
                false => model.host_alone(),
            }
        };
        cpu.work(Op::CacheLookup, decide)
    }

    /// Where pages of a file are.
    fn places(&self, slot: u32, pages: &Range<u64>) -> Places {
        let mut places = Places::default();
        for page in pages.clone() {
            places.add(self.place_of(slot, page));
        }
        places
    }

    /// Where a page of a file is.
    fn place_of(&self, slot: u32, page: u64) -> Place {
        match self.is_here(slot, page) {
            true => Place::Here,
            false if self.process.mode.is_near() && self.is_on_device(slot, page) => Place::Near,
            false => Place::Stored,
        }
    }

    async fn crc_on_host(
        &self,
        file: &OpenFile,
        there: Extent,
        places: Places,
        room: &mut [u8],
    ) -> Result<Summed, FileError> {
        let cpu = self.cpu();
        let begun_ns = cpu.now();
        let data = &mut room[..there.bytes as usize];
        let read = self.read(file, there, data).await?;
        let read_ns = cpu.now();
        let data = &data[..read.bytes as usize];
        let pages = data.len().div_ceil(PAGE_BYTES) as u32;
        let crc = cpu.work_n(Op::ChecksumPage, pages, || crc32c(data));
        let computed_ns = cpu.now();
        if !self.write_at_once(file, there, data) {
            self.write(file, At::Offset(there.offset), data).await?;
        }
        self.model.borrow_mut().host_ran(
            places,
            HostRan {
                read_ns: read_ns - begun_ns,
                computed_ns: computed_ns - read_ns,
                written_ns: cpu.now() - computed_ns,
            },
        );
        Ok(Summed {
            bytes: read.bytes,
            crc,
            touch: read.touch,
        })
    }

    /// The same in the drive.
    async fn crc_on_drive(
        &self,
        file: &OpenFile,
        there: Extent,
        places: Places,
    ) -> Result<Summed, FileError> {
        let is_near = self.process.mode.is_near();
        // Only in step with a cache in the drive nobody brings pages here without a lock of them.
        let mut entry = match is_near && places.here == 0 {
            true => Entry::Shared,
            false => Entry::Alone,
        };
        loop {
            self.enter(file.slot, entry).await;
            let done = self.crc_inside(file, there, places, entry).await;
            self.leave(file.slot, entry);
            match done? {
                Some(done) => return Ok(done),
                // Some of its pages have come here meanwhile.
                None => entry = Entry::Alone,
            }
        }
    }

    /// The same for one who is inside; nothing if one has to be alone for it.
    async fn crc_inside(
        &self,
        file: &OpenFile,
        there: Extent,
        places: Places,
        entry: Entry,
    ) -> Result<Option<Summed>, FileError> {
        let (cpu, slot, is_near) = (self.cpu(), file.slot, self.process.mode.is_near());
        let first = there.first_page();
        let pages = first..first + there.pages();
        let begun_ns = cpu.now();
        let _guard = match is_near {
            true => Some(self.lock_pages(slot, &pages, false).await),
            false => None,
        };
        let is_any_here = pages.clone().any(|page| self.is_here(slot, page));
        if is_any_here && entry == Entry::Shared {
            return Ok(None);
        }
        if is_any_here {
            self.drop_pages(slot, there).await?;
        }
        let dropped_ns = cpu.now();
        let node = self.node(slot);
        let done = self
            .client
            .crc_write_on_drive(file.handle, there, (is_near, false));
        let (computed, crc) = done.await?;
        // Where the drive's file ended before there are zeros, which the buffer had at first.
        node.stretch_on_drive(there.offset + there.bytes);
        if is_near {
            let kept = computed.steps[2].kept;
            if kept > 0 && !self.process.omni.note(cpu, &(slot, pages.clone())) {
                self.leave_unknown(file.handle, &pages).await?;
            }
            if u64::from(kept) < there.pages() {
                self.evict_later((slot, first));
            }
        }
        let ran = DriveRan {
            dropped_ns: dropped_ns - begun_ns,
            all_ns: cpu.now() - dropped_ns,
            waited_ns: computed.waited_ns,
            moved_ns: computed.moved_ns,
            computed_ns: computed.computed_ns,
            queued: computed.queued,
        };
        self.model.borrow_mut().drive_ran(places, ran);
        Ok(Some(Summed {
            bytes: there.bytes,
            crc,
            touch: Touch::no_hits(there.pages()),
        }))
    }

    /// How often which side was chosen by this thread, and what was expected of it.
    pub(super) fn decisions(&self) -> Decisions {
        self.model.borrow().decisions()
    }
}

/// What the drive is asked for with a checksum of so much.
fn crc_of(there: Extent) -> Asked {
    Asked::new(Function::Checksum, there.bytes)
}

impl StorClient {
    /// Has the drive read bytes, compute their checksum, and write them back; nothing if it refuses that, or has lately.
    pub(super) async fn crc_write_past(
        &self,
        handle: Handle,
        extent: Extent,
        refusals: &Refusals,
    ) -> Result<Option<Summed>, FileError> {
        let (cpu, asked) = (&self.inner.cpu, crc_of(extent));
        if !refusals.may_ask(asked, cpu.now()) {
            return Ok(None);
        }
        let asking = self.crc_write_whole(handle, extent);
        refusals.note(cpu, asked, asking).await
    }

    /// The same, of a drive that can.
    async fn crc_write_whole(&self, handle: Handle, extent: Extent) -> Result<Summed, FileError> {
        if extent.bytes == 0 {
            return Ok(Summed::default());
        }
        let mut there = extent;
        let done = self.crc_write_on_drive(handle, there, (false, true)).await;
        let (_, crc) = match done {
            Err(error) if error.errno() == Errno::ENODATA => {
                let size = self
                    .stat(wharf_files::vfs::Target::Handle(handle))
                    .await?
                    .bytes;
                there.bytes = there.bytes.min(size.saturating_sub(there.offset));
                if there.bytes == 0 {
                    return Ok(Summed::default());
                }
                self.crc_write_on_drive(handle, there, (false, true))
                    .await?
            }
            done => done?,
        };
        Ok(Summed {
            bytes: there.bytes,
            crc,
            touch: Touch::no_hits(there.pages()),
        })
    }

    /// Has the drive read bytes into a processing buffer, compute their checksum, and write them back, with its cache if it has one.
    async fn crc_write_on_drive(
        &self,
        handle: Handle,
        there: Extent,
        (keeps, is_whole): (bool, bool),
    ) -> Result<(Computed, u32), FileError> {
        let (from, bytes) = (there.offset, there.bytes);
        let mut vector = Vector::new();
        let buffer = vector.buffer(bytes as u32);
        let file = Source::File(handle, from..from + bytes);
        vector.step(VectorFunction::Copy, file, Target::Buffer(buffer, 0, bytes));
        if keeps {
            vector.keeping();
        }
        if is_whole {
            vector.whole();
        }
        let held = || Source::Buffer(buffer, 0, bytes);
        vector.step(VectorFunction::Checksum, held(), Target::Nothing);
        vector.step(
            VectorFunction::Copy,
            held(),
            Target::File(handle, from, bytes),
        );
        if keeps {
            vector.keeping();
        }
        let computed = self.vector(&vector).await?;
        let failed = computed.steps.iter().find_map(|step| step.failed);
        if let Some(errno) = failed {
            return Err(errno.into());
        }
        let crc = computed.steps[1].value as u32;
        Ok((computed, crc))
    }
}
