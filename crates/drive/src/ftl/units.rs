//! Units: which are open, which is filled next, and when they are closed (`pack.rs` has the walk).

use super::Ftl;
use super::blocks::Blocks;
use super::frames::{Origin, gc_frames};
use super::frontier::Wanted;
use super::squeeze::Squeezer;
use super::write::Refusal;
use crate::config::{CorePlan, DriveConfig, Placement};
use crate::divide::remainder;
use crate::media::Media;
use crate::media::packed::unit::{
    Content, EXTENTS_PER_PAGE, PAGE_GRANULES, UnitPlace, directory_granules,
};

/// Most open units of either origin: more would hardly fill them better.
const OPEN_MAX: u32 = 4;

/// No time.
pub(super) const NEVER: u64 = u64::MAX;

/// Extents and granules of a unit, as far as it is filled.
#[derive(Debug, Clone, Default)]
pub(super) struct Unit {
    /// Where it is going.
    pub place: Option<UnitPlace>,
    pub plane: u32,
    pub is_gc: bool,
    pub granules: u32,
    /// The frames of its extents, in order.
    pub frames: Vec<u32>,
}

impl Unit {
    pub fn block(&self) -> u32 {
        self.place.expect("a unit in use has a place").block
    }
}

/// What packing keeps.
pub(super) struct Packer {
    pub squeezer: Squeezer,
    pub unit_pages: u32,
    /// The units that host writes go to, and those of collection.
    pub open: [Vec<u32>; 2],
    /// How many these are at most.
    pub open_max: [u32; 2],
    /// Units that are open or being programmed, by the number that the flash has for the program.
    pub units: Vec<Unit>,
    pub free_units: Vec<u32>,
    /// Units of each origin that are being programmed.
    pub in_flight: [u32; 2],
    /// When the host's open units are closed at the latest.
    pub close_at_ns: u64,
    /// The number within each block of the next extent.
    pub next_extent: Vec<u32>,
    /// How the page of each frame is kept.
    pub contents: Vec<Content>,
    /// Victims begun since the host wrote or dropped anything.
    pub fruitless_victims: u32,
    pub fruitless_max: u32,
}

impl Packer {
    /// Nothing is open. Where no pages are packed there is none.
    pub fn new(config: &DriveConfig, plan: &CorePlan, frames: u32) -> Option<PackerResult> {
        if plan.unit_pages == 0 {
            return None;
        }
        Some(Squeezer::new(config).map(|squeezer| {
            Box::new(Packer {
                squeezer,
                unit_pages: plan.unit_pages,
                open: [Vec::new(), Vec::new()],
                open_max: open_max(plan, frames),
                units: Vec::new(),
                free_units: Vec::new(),
                in_flight: [0; 2],
                close_at_ns: NEVER,
                next_extent: vec![0; plan.blocks as usize],
                contents: vec![Content::RAW; frames as usize],
                fruitless_victims: 0,
                fruitless_max: 2 * plan.blocks,
            })
        }))
    }

    /// How the page of a frame is kept.
    pub fn content(&self, frame: u32) -> Content {
        self.contents[frame as usize]
    }

    pub fn set_content(&mut self, frame: u32, content: Content) {
        self.contents[frame as usize] = content;
    }

    /// The block's next extents are its first.
    pub fn block_is_erased(&mut self, block: u32) {
        self.next_extent[block as usize] = 0;
    }

    /// Units that are open or being programmed.
    pub fn in_use(&self) -> impl Iterator<Item = &Unit> {
        self.units.iter().filter(|unit| unit.place.is_some())
    }

    /// Whether `granules` more fit the unit as one extent.
    fn has_room(&self, unit: &Unit, granules: u32) -> bool {
        let extents = unit.frames.len() as u32 + 1;
        let taken = unit.granules + granules + directory_granules(self.unit_pages, extents);
        taken <= self.unit_pages * PAGE_GRANULES && extents <= self.unit_pages * EXTENTS_PER_PAGE
    }

    /// The open unit that is left with the least room.
    fn best_fit(&self, origin: Origin, granules: u32) -> Option<u32> {
        let open = self.open[index_of(origin)].iter().copied();
        let fitting = open.filter(|slot| self.has_room(&self.units[*slot as usize], granules));
        fitting.max_by_key(|slot| self.units[*slot as usize].granules)
    }

    fn take_slot(&mut self) -> u32 {
        self.free_units.pop().unwrap_or_else(|| {
            self.units.push(Unit::default());
            self.units.len() as u32 - 1
        })
    }
}

/// A packer, or why there is none.
pub(super) type PackerResult = Result<Box<Packer>, wharf_codec::TableError>;

/// Open units of host writes and of collection: as many as planes and frames allow. Collection has
/// frames enough to fill those that it has to close early.
fn open_max(plan: &CorePlan, frames: u32) -> [u32; 2] {
    let gc = gc_frames(frames);
    let most = OPEN_MAX.min(plan.planes);
    let of = |frames: u32| (frames / plan.unit_pages).clamp(1, most);
    [of((frames - gc) / 3), of(gc / 8)]
}

fn index_of(origin: Origin) -> usize {
    match origin {
        Origin::Host => 0,
        Origin::Gc => 1,
    }
}

impl Packer {
    /// Collection has nothing to do that would help.
    pub fn give_up(&mut self) {
        self.fruitless_victims = self.fruitless_max + 1;
    }

    pub fn is_fruitless(&self) -> bool {
        self.fruitless_victims > self.fruitless_max
    }
}

impl Ftl {
    /// The open unit that the page fits best, or else a new one.
    pub(super) fn unit_with_room(
        &mut self,
        now_ns: u64,
        origin: Origin,
        lpn: u32,
        content: Content,
    ) -> Result<u32, Refusal> {
        if let Some(unit) = self.packer().best_fit(origin, content.granules()) {
            return Ok(unit);
        }
        let packer = self.packer();
        let own = index_of(origin);
        if packer.open[own].len() as u32 >= packer.open_max[own] {
            self.close_fullest(now_ns, origin);
        }
        loop {
            if let Some(unit) = self.open_unit(now_ns, origin, lpn) {
                return Ok(unit);
            }
            // The plane that has room may be that of an open unit.
            if !self.close_fullest(now_ns, origin) {
                break;
            }
        }
        Err(match self.is_fruitless() || self.lacks_room {
            true => Refusal::CapacityExceeded,
            false => Refusal::NoSpace,
        })
    }

    /// The file system of the image had no room for the block that was to be opened last: nothing is
    /// staged that could not be programmed.
    pub fn lacks_room(&self) -> bool {
        self.lacks_room
    }

    fn open_unit(&mut self, now_ns: u64, origin: Origin, lpn: u32) -> Option<u32> {
        let by_address = origin == Origin::Host && self.config.placement == Placement::Address;
        let wanted = Wanted {
            origin,
            plane: by_address.then(|| remainder(u64::from(lpn), self.plan.planes) as u32),
            reserve: self.plan.reserve_blocks,
            pages_per_block: self.plan.slots_per_block,
        };
        let packer = self.packer.as_deref().expect("pages are packed");
        let is_taken = |plane| {
            let mut open = packer.open[index_of(origin)].iter();
            open.any(|slot| packer.units[*slot as usize].plane == plane)
        };
        let backlog_ns = |plane| self.nand.backlog_ns(now_ns, plane);
        let (media, lacks_room) = (&mut self.media, &mut self.lacks_room);
        // Others leave metadata, and collection, a block with room.
        let leaves = origin == Origin::Host && lpn < self.plan.metadata_first;
        let reserve = |blocks: &Blocks, plane, block| {
            let mut has_room = media.reserve(block);
            if leaves {
                has_room = has_room && blocks.after_next(plane).all(|other| media.reserve(other));
            }
            *lacks_room = !has_room;
            has_room
        };
        let blocks = &mut self.blocks;
        let (block, unit) =
            (self.frontiers).take_page(blocks, wanted, is_taken, backlog_ns, reserve)?;
        self.blocks.begin_program(block);
        let plane = self.blocks.plane_of(block);
        let packer = self.packer_mut();
        let slot = packer.take_slot();
        packer.open[index_of(origin)].push(slot);
        let first_extent = packer.next_extent[block as usize];
        let opened = &mut packer.units[slot as usize];
        opened.place = Some(UnitPlace {
            block,
            unit,
            first_extent,
        });
        (opened.plane, opened.is_gc, opened.granules) = (plane, origin == Origin::Gc, 0);
        Some(slot)
    }

    /// Appends a frame's page to a unit, and points the map at the frame.
    pub(super) fn append(&mut self, slot: u32, lpn: u32, frame: u32, owner: u32) {
        let extents_per_block = self.plan.extents_per_block;
        let packer = self.packer_mut();
        let granules = packer.content(frame).granules();
        let unit = &mut packer.units[slot as usize];
        let block = unit.block();
        unit.granules += granules;
        unit.frames.push(frame);
        let next = &mut packer.next_extent[block as usize];
        let extent = block * extents_per_block + *next;
        *next += 1;
        self.point_map_at(frame, lpn, extent, owner);
    }

    /// Has an open unit programmed.
    fn close_unit(&mut self, now_ns: u64, origin: Origin, slot: u32) {
        let packer = self.packer_mut();
        packer.open[index_of(origin)].retain(|open| *open != slot);
        packer.in_flight[index_of(origin)] += 1;
        let unit = &packer.units[slot as usize];
        let extents = unit.frames.len() as u32;
        let taken = unit.granules + directory_granules(packer.unit_pages, extents);
        let (plane, pages) = (unit.plane, packer.unit_pages);
        self.counters.unfilled_granules += u64::from(pages * PAGE_GRANULES - taken);
        self.nand.program_unit(now_ns, plane, pages, slot);
    }

    /// Has the open unit programmed that has the least room left; false if none is open.
    pub(super) fn close_fullest(&mut self, now_ns: u64, origin: Origin) -> bool {
        let packer = self.packer();
        let open = packer.open[index_of(origin)].iter();
        let fullest = open.max_by_key(|slot| packer.units[**slot as usize].granules);
        let Some(fullest) = fullest.copied() else {
            return false;
        };
        self.close_unit(now_ns, origin, fullest);
        true
    }

    /// Has all open units of an origin programmed, counting what is left of them as padding; false if
    /// none is open.
    fn pad_units(&mut self, now_ns: u64, origin: Origin) -> bool {
        let before = self.counters.unfilled_granules;
        let mut closed = false;
        while self.close_fullest(now_ns, origin) {
            closed = true;
        }
        if origin == Origin::Host {
            self.packer_mut().close_at_ns = NEVER;
        }
        self.counters.padding_granules += self.counters.unfilled_granules - before;
        closed
    }

    /// Somebody waits for what is in the host's open units: they are closed after `wait_ns`, or as soon
    /// as they are full. True if there are any.
    pub fn close_host_units(&mut self, now_ns: u64, wait_ns: u64) -> bool {
        let is_instant = self.nand.is_instant();
        let Some(packer) = self.packer.as_deref_mut() else {
            return false;
        };
        if packer.open[0].is_empty() {
            return false;
        }
        if wait_ns > 0 && !is_instant {
            packer.close_at_ns = packer.close_at_ns.min(now_ns + wait_ns);
            return true;
        }
        self.pad_units(now_ns, Origin::Host)
    }

    /// Closes collection's open units, unless others of its are being programmed and will have who
    /// waits go on: then they may be filled meanwhile. True if any was closed.
    pub fn close_gc_units(&mut self, now_ns: u64) -> bool {
        match &self.packer {
            Some(packer) if packer.in_flight[1] == 0 => self.pad_units(now_ns, Origin::Gc),
            _ => false,
        }
    }

    /// Closes all units.
    pub fn close_units(&mut self, now_ns: u64) {
        if self.packs() {
            self.pad_units(now_ns, Origin::Host);
            self.pad_units(now_ns, Origin::Gc);
        }
    }

    /// When the host's open units are to be closed.
    #[inline]
    pub(super) fn close_at_ns(&self) -> Option<u64> {
        let at_ns = self.packer.as_deref()?.close_at_ns;
        (at_ns != NEVER).then_some(at_ns)
    }

    /// Closes the host's open units if their time has come.
    pub(super) fn close_due(&mut self, now_ns: u64) {
        if self.close_at_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            self.pad_units(now_ns, Origin::Host);
        }
    }
}
