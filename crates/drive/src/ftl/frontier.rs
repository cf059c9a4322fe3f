//! Frontiers: the open blocks that pages are written to, one on each plane for host writes and one
//! for collected pages, which are colder (Rosenblum and Ousterhout, 1992). Writes go round the
//! planes that are idle, and to the plane with the least to do if none is.

use super::blocks::{Blocks, State};
use super::entry::NONE;
use super::frames::Origin;

#[derive(Debug, Clone, Copy)]
struct Open {
    block: u32,
    next_page: u32,
}

const CLOSED: Open = Open {
    block: NONE,
    next_page: 0,
};

/// What a page is taken for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Whose page it is.
    pub origin: Origin,
    /// The plane that is asked first, if it is not the one with the least to do.
    pub plane: Option<u32>,
    /// Free blocks that a host write leaves to collection.
    pub reserve: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
}

/// The open blocks of a core.
#[derive(Debug)]
pub struct Frontiers {
    host: Vec<Open>,
    gc: Vec<Open>,
    host_plane: u32,
    gc_plane: u32,
}

impl Frontiers {
    /// No block is open.
    pub fn new(planes: u32) -> Frontiers {
        let none = vec![CLOSED; planes as usize];
        Frontiers {
            host: none.clone(),
            gc: none,
            host_plane: 0,
            gc_plane: 0,
        }
    }

    /// Takes the next page: block and page index within it. `is_taken` says which planes are out of
    /// question, `backlog_ns` how long one will be busy, `reserve` whether a plane's next block
    /// may be opened.
    #[inline]
    pub fn take_page(
        &mut self,
        blocks: &mut Blocks,
        wanted: Wanted,
        is_taken: impl Fn(u32) -> bool,
        backlog_ns: impl Fn(u32) -> u64,
        reserve: impl FnOnce(&Blocks, u32, u32) -> bool,
    ) -> Option<(u32, u32)> {
        let Wanted { origin, .. } = wanted;
        let may_open = match origin {
            Origin::Host => blocks.free_count() > wanted.reserve,
            Origin::Gc => true,
        };
        let (open, turn) = match origin {
            Origin::Host => (&mut self.host, &mut self.host_plane),
            Origin::Gc => (&mut self.gc, &mut self.gc_plane),
        };
        let has_room = |plane: u32| {
            !is_taken(plane)
                && (open[plane as usize].block != NONE || (may_open && blocks.has_free(plane)))
        };
        let plane = match wanted.plane.filter(|plane| has_room(*plane)) {
            Some(plane) => plane,
            None => {
                let found = least_busy(*turn, open.len() as u32, has_room, backlog_ns)?;
                *turn = if found + 1 == open.len() as u32 {
                    0
                } else {
                    found + 1
                };
                found
            }
        };
        let slot = &mut open[plane as usize];
        if slot.block == NONE {
            if !reserve(blocks, plane, blocks.next_free(plane, origin)?) {
                return None;
            }
            let block = blocks.open(plane, origin).expect("the plane has room");
            *slot = Open {
                block,
                next_page: 0,
            };
        }
        let taken = (slot.block, slot.next_page);
        slot.next_page += 1;
        if slot.next_page == wanted.pages_per_block {
            *slot = CLOSED;
        }
        Some(taken)
    }

    /// Pages that are left in collection's open blocks.
    pub fn gc_room(&self, pages_per_block: u32) -> u32 {
        let open = self.gc.iter().filter(|open| open.block != NONE);
        open.map(|open| pages_per_block - open.next_page).sum()
    }

    /// True if the block is being written.
    #[inline]
    pub fn is_open(&self, blocks: &Blocks, block: u32) -> bool {
        let plane = blocks.plane_of(block) as usize;
        self.host[plane].block == block || self.gc[plane].block == block
    }

    /// Ends the writing of all open blocks; gives those blocks.
    pub fn close_all(&mut self) -> Vec<u32> {
        let open = self.host.iter_mut().chain(&mut self.gc);
        let blocks = open.map(|slot| std::mem::replace(slot, CLOSED).block);
        blocks.filter(|block| *block != NONE).collect()
    }

    /// Goes on with a partly written block after power-on; false if the plane has no place for it.
    pub fn reopen(&mut self, blocks: &Blocks, block: u32, next_page: u32) -> bool {
        let plane = blocks.plane_of(block) as usize;
        for open in [&mut self.host[plane], &mut self.gc[plane]] {
            if open.block == NONE {
                debug_assert!(blocks.get(block).state == State::Open);
                *open = Open { block, next_page };
                return true;
            }
        }
        false
    }
}

/// From `turn` on, the first plane with room that is idle, or else the one with the least to do.
#[inline]
fn least_busy(
    turn: u32,
    planes: u32,
    has_room: impl Fn(u32) -> bool,
    backlog_ns: impl Fn(u32) -> u64,
) -> Option<u32> {
    let mut best: Option<(u64, u32)> = None;
    for plane in (turn..planes).chain(0..turn) {
        if !has_room(plane) {
            continue;
        }
        let backlog_ns = backlog_ns(plane);
        if backlog_ns == 0 {
            return Some(plane);
        }
        if best.is_none_or(|(least_ns, _)| backlog_ns < least_ns) {
            best = Some((backlog_ns, plane));
        }
    }
    best.map(|(_, plane)| plane)
}
