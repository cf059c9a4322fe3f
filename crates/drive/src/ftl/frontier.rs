//! Frontiers: the open blocks that pages are written to, one on each plane for host writes and one
//! for collected pages, which are colder (Rosenblum and Ousterhout, 1992). Writes go round the
//! planes.

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

    /// Takes the next page: block and page index within it. A host write leaves `reserve` free
    /// blocks to collection.
    #[inline]
    pub fn take_page(
        &mut self,
        blocks: &mut Blocks,
        origin: Origin,
        reserve: u32,
        pages_per_block: u32,
    ) -> Option<(u32, u32)> {
        let may_open = match origin {
            Origin::Host => blocks.free_count() > reserve,
            Origin::Gc => true,
        };
        let (open, plane) = match origin {
            Origin::Host => (&mut self.host, &mut self.host_plane),
            Origin::Gc => (&mut self.gc, &mut self.gc_plane),
        };
        let planes = open.len() as u32;
        for _ in 0..planes {
            let here = *plane;
            *plane = if here + 1 == planes { 0 } else { here + 1 };
            let slot = &mut open[here as usize];
            if slot.block == NONE {
                if !may_open {
                    continue;
                }
                let Some(block) = blocks.open(here, origin) else {
                    continue;
                };
                *slot = Open {
                    block,
                    next_page: 0,
                };
            }
            let taken = (slot.block, slot.next_page);
            slot.next_page += 1;
            if slot.next_page == pages_per_block {
                *slot = CLOSED;
            }
            return Some(taken);
        }
        None
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
