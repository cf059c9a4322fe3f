//! Packing: compressed pages are put side by side into units, which are programmed whole.
//!
//! Where pages are packed (`compression`, or `geometry.unit_pages` above 1), a number that a map
//! entry has for flash is that of an *extent* and no page: everything else in this layer goes on as
//! for pages. In the order of a write:
//!
//! 1. [`Ftl::stage_packed`] has the page filled, compresses it (`squeeze.rs`), and refuses it if
//!    the drive would hold more granules than it can: now that its size is known, and before
//!    anything has changed.
//! 2. The page's extent is appended to an *open unit*: of those of host writes, or of collection's,
//!    the one that it leaves the least room in. If it fits none, another is opened on the plane with
//!    the least to do, and the fullest closed if there are several already. Each is on a plane of its
//!    own, so that the units of a block are filled, and programmed, one after another. The frame
//!    keeps the compressed bytes, and the map names the frame.
//! 3. A unit that is *closed* is programmed. That happens when an extent fits none; when
//!    somebody waits for what is in it ([`Ftl::close_host_units`]: a flush, a write that must be on
//!    flash), after `pack_wait_ns`; when no frame is left; and when collection has nothing else to
//!    wait for ([`Ftl::close_gc_units`]). What is left of it is padding.
//! 4. [`Ftl::finish_unit`] ends the program: the media change in one step, then each page of the
//!    unit settles as one that was programmed by itself would.
//!
//! And of a read: the map names a frame or an extent; of either the kept bytes are looked up, by
//! [`Media::read_extent`] with their checksum, and expanded into the reader's page.
//!
//! Collection goes through the extents of a victim and moves what is kept of each as it is: nothing
//! is expanded, nothing compressed.
//!
//! *Full*: what all pages together take, each rounded up to granules, must not exceed the core's
//! capacity. That is a promise of the flash, not of the packing: units have a rest that nothing
//! fits. Where that makes the flash full before, collection finds in the end that it only moves
//! pages round ([`Ftl::is_fruitless`]), and writes are refused as if the capacity were exceeded,
//! until something is deallocated or overwritten.

use super::entry::{NONE, Place};
use super::frames::Origin;
use super::units::{NEVER, Packer, Unit};
use super::write::Refusal;
use super::{Finished, Ftl};
use crate::media::packed::unit::{Content, ExtentData, PAGE_GRANULES, UnitPlace};
use crate::media::{Media, MediaError, Oob, PAGE_BYTES};

impl Ftl {
    /// True if pages are packed into units.
    #[inline]
    pub fn packs(&self) -> bool {
        self.packer.is_some()
    }

    #[inline]
    pub(super) fn packer(&self) -> &Packer {
        self.packer.as_deref().expect("pages are packed")
    }

    #[inline]
    pub(super) fn packer_mut(&mut self) -> &mut Packer {
        self.packer.as_deref_mut().expect("pages are packed")
    }

    /// What the page or extent of this number weighs among a block's valid data.
    #[inline]
    pub(super) fn weight(&self, number: u32) -> u32 {
        match self.plan.unit_pages {
            0 => 1,
            _ => self.media.granules(number),
        }
    }

    /// Granules that a page takes at a place.
    #[inline]
    pub(super) fn granules_at(&self, place: Place) -> u64 {
        match place {
            Place::Unmapped | Place::Trimmed | Place::Zero => 0,
            _ if !self.packs() => u64::from(PAGE_GRANULES),
            Place::Flash(extent) => self.media.granules(extent).into(),
            Place::Frame(frame) => self.packer().content(frame).granules().into(),
        }
    }

    /// Stages a page that is compressed, or that holds zeros: see [`Ftl::stage_unless_zeros`].
    pub(super) fn stage_packed_unless_zeros(
        &mut self,
        now_ns: u64,
        lpn: u32,
        owner: u32,
        finished: &mut Finished,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Option<u64>, Refusal> {
        let squeezer = &mut self.packer_mut().squeezer;
        fill(squeezer.page_mut());
        if squeezer.is_zeros() {
            self.counters.host_writes += 1;
            self.zero(lpn, 1, finished);
            return Ok(None);
        }
        let fill = |_: &mut [u8]| {};
        self.stage_packed(now_ns, lpn, owner, fill).map(Some)
    }

    /// Stages a page that is compressed: see [`Ftl::stage`].
    pub(super) fn stage_packed(
        &mut self,
        now_ns: u64,
        lpn: u32,
        owner: u32,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<u64, Refusal> {
        if !self.frames.has_free(Origin::Host) {
            return Err(Refusal::NoFrame);
        }
        let squeezer = &mut self.packer_mut().squeezer;
        fill(squeezer.page_mut());
        let content = squeezer.squeeze();
        self.counters.pages_compressed += 1;
        self.stage_content(now_ns, lpn, owner, content)
    }

    /// Stages a page of zeros that takes the room of a page with this name.
    pub(super) fn stage_filler(
        &mut self,
        now_ns: u64,
        lpn: u32,
        name: u64,
    ) -> Result<u64, Refusal> {
        if self.read_only {
            return Err(Refusal::ReadOnly);
        }
        if !self.frames.has_free(Origin::Host) {
            return Err(Refusal::NoFrame);
        }
        let content = self.packer().squeezer.filler(name);
        self.stage_content(now_ns, lpn, NONE, content)
    }

    fn stage_content(
        &mut self,
        now_ns: u64,
        lpn: u32,
        owner: u32,
        content: Content,
    ) -> Result<u64, Refusal> {
        let needed = u64::from(content.granules());
        self.check_capacity(lpn, needed)?;
        let used = self.used_granules + needed - self.granules_at(self.place(lpn));
        let unit = self.unit_with_room(now_ns, Origin::Host, lpn, content)?;
        let frame = self.frames.take(Origin::Host).expect("it was looked for");
        let packer = self.packer.as_deref_mut().expect("pages are packed");
        let kept = packer.squeezer.squeezed(content);
        self.frames.data_mut(frame)[..kept.len()].copy_from_slice(kept);
        packer.set_content(frame, content);
        packer.fruitless_victims = 0;
        self.counters.host_writes += 1;
        self.counters.host_granules += needed;
        self.append(unit, lpn, frame, owner);
        // Not what a whole page would take.
        self.used_granules = used;
        if !self.frames.has_free(Origin::Host) {
            // Nobody could add to them.
            self.close_fullest(now_ns, Origin::Host);
        }
        Ok(self.next_end_ns().unwrap_or(NEVER))
    }

    /// Puts a page that collection moves into a unit.
    pub(super) fn stage_moved(
        &mut self,
        now_ns: u64,
        lpn: u32,
        frame: u32,
        owner: u32,
    ) -> Result<u64, Refusal> {
        let content = self.packer().content(frame);
        let unit = self.unit_with_room(now_ns, Origin::Gc, lpn, content)?;
        self.counters.moved_granules += u64::from(content.granules());
        self.append(unit, lpn, frame, owner);
        Ok(self.next_end_ns().unwrap_or(NEVER))
    }

    /// A unit's program has ended: its extents are on flash, all or none.
    pub(super) fn finish_unit(&mut self, slot: u32, finished: &mut Finished) {
        if !self.power.allows_change() {
            return;
        }
        let failed = self.write_unit(slot).is_err();
        let packer = self.packer_mut();
        let unit = &mut packer.units[slot as usize];
        let (block, frames) = (unit.block(), std::mem::take(&mut unit.frames));
        let (is_gc, pages) = (unit.is_gc, packer.unit_pages);
        self.counters.programs += u64::from(pages);
        self.counters.unit_programs += 1;
        // What recovery has to look at is extents.
        self.programs_since_checkpoint += frames.len() as u64;
        finished.programs += frames.len() as u32;
        self.read_only |= failed;
        for &frame in &frames {
            let account = *self.frames.get(frame);
            if failed {
                self.abandon(frame);
            } else if !account.dead {
                self.settle(frame, finished);
            }
            if account.owner != NONE {
                finished.owners.push((account.owner, failed));
            }
            self.frames.release(frame);
        }
        let packer = self.packer_mut();
        packer.in_flight[usize::from(is_gc)] -= 1;
        let unit = &mut packer.units[slot as usize];
        unit.place = None;
        // Its memory serves the next.
        unit.frames = frames;
        unit.frames.clear();
        packer.free_units.push(slot);
        self.end_program(block, finished);
    }

    /// Programs a unit where it is going.
    fn write_unit(&mut self, slot: u32) -> Result<(), MediaError> {
        let packer = self.packer.as_deref().expect("pages are packed");
        let unit = &packer.units[slot as usize];
        let page_bytes = self.frames.page_bytes();
        let extent = |&frame: &u32| {
            let (account, content) = (self.frames.get(frame), packer.content(frame));
            ExtentData {
                oob: Oob {
                    lpn: account.lpn,
                    seq: account.seq,
                },
                content,
                data: &self.frames.data(frame)[..content.stored_bytes(page_bytes)],
            }
        };
        let extents: Vec<ExtentData<'_>> = unit.frames.iter().map(extent).collect();
        let place = unit.place.expect("a unit in use has a place");
        self.media.program_unit(place, &extents)
    }

    /// Programs what is in units that are open or being programmed, in the order in which the flash
    /// would have: what capacitors do.
    pub(super) fn save_units(&mut self) {
        let packer = self.packer();
        let slots = (0..).zip(&packer.units);
        let mut slots: Vec<(UnitPlace, u32)> = slots
            .filter_map(|(slot, unit)| Some((unit.place?, slot)))
            .collect();
        slots.sort_by_key(|(place, _)| (place.block, place.unit));
        for (_, slot) in slots {
            // There is nobody left to be told of a failure.
            let _ = self.write_unit(slot);
        }
    }

    /// Reads what is kept of an extent and expands it; `None` if that would be waited for, and is not to be.
    pub(super) fn read_packed(
        &mut self,
        extent: u32,
        out: &mut [u8],
        waits: bool,
    ) -> Result<Option<Oob>, MediaError> {
        let squeezer = &self.packer().squeezer;
        let mut kept = squeezer.kept();
        let read = match waits {
            true => Some(self.media.read_extent(extent, &mut kept)?),
            false => self.media.read_extent_if_near(extent, &mut kept)?,
        };
        let Some((oob, content)) = read else {
            return Ok(None);
        };
        let bytes = content.stored_bytes(out.len());
        let expanded = squeezer.expand(content, &kept[..bytes], out);
        drop(kept);
        self.counters.pages_expanded += 1;
        match expanded {
            true => Ok(Some(oob)),
            // Memory that is not verified.
            false => Err(MediaError::Rot { ppn: extent }),
        }
    }

    /// Expands the page of a frame.
    pub(super) fn expand_frame(&self, frame: u32, out: &mut [u8]) {
        let packer = self.packer();
        let content = packer.content(frame);
        let kept = &self.frames.data(frame)[..content.stored_bytes(out.len())];
        let expanded = packer.squeezer.expand(content, kept, out);
        assert!(expanded, "frame {frame} does not hold what was put there");
    }

    /// Something was dropped: collection may find room again.
    #[inline]
    pub(super) fn note_dropped(&mut self) {
        if let Some(packer) = self.packer.as_deref_mut() {
            packer.fruitless_victims = 0;
        }
    }

    /// A victim is begun.
    pub(super) fn note_victim(&mut self) {
        if let Some(packer) = self.packer.as_deref_mut() {
            packer.fruitless_victims += 1;
        }
    }

    /// True if collection has gone round the flash twice since the host could write anything: it
    /// only moves pages.
    pub fn is_fruitless(&self) -> bool {
        self.packer.as_deref().is_some_and(Packer::is_fruitless)
    }

    /// What recovery has found: of each block what its valid data weigh.
    pub(super) fn recover_packer(&mut self, valid: &[u32]) {
        let Some(packer) = self.packer.as_deref_mut() else {
            return;
        };
        for (block, next) in (0..).zip(&mut packer.next_extent) {
            *next = self.media.written_pages(block);
        }
        self.used_granules = valid.iter().map(|granules| u64::from(*granules)).sum();
    }

    /// True once every write of the host's up to `seq` is on flash.
    pub(super) fn is_host_settled(&self, seq: u64) -> bool {
        let oldest = self.frames.oldest_seq_of(Origin::Host);
        oldest.is_none_or(|oldest| oldest > seq)
    }

    /// Blocks of the units that are open or being programmed, one for each.
    pub(super) fn blocks_of_units(&self) -> impl Iterator<Item = u32> {
        self.packer().in_use().map(Unit::block)
    }

    /// Reads an extent for collection into a frame, as it is.
    pub(super) fn read_to_move(&mut self, extent: u32, frame: u32) -> Result<u32, MediaError> {
        let packer = self.packer.as_deref_mut().expect("pages are packed");
        let mut kept = packer.squeezer.kept();
        let (_, content) = self.media.read_extent(extent, &mut kept)?;
        let bytes = content.stored_bytes(self.frames.page_bytes());
        self.frames.data_mut(frame)[..bytes].copy_from_slice(&kept[..bytes]);
        drop(kept);
        packer.set_content(frame, content);
        Ok(content.granules())
    }

    /// Flash pages that hold so many granules.
    pub(super) fn pages_of(granules: u32) -> u32 {
        (granules * (PAGE_BYTES / PAGE_GRANULES)).div_ceil(PAGE_BYTES)
    }
}
