//! Victims: when to collect, from which blocks, and from how many at once.
//!
//! A victim gives a block when all its valid pages have found a place elsewhere. Were more victims
//! begun than there is place for, none would ever be emptied; so each is begun only if collection
//! has room for what is left of all of them, in blocks that host writes cannot take. The first needs
//! no such promise: its pages are fewer than the blocks in reserve have.
//!
//! How many are collected beside the host's writes follows from how many blocks are free, a step for
//! each block. A switch between one victim and all of them would have each core write fast and
//! collect fast in turn, and cores would fall out of step: the host's commands pile up at those that
//! collect, and the dies of the others are idle.

use super::Ftl;
use super::blocks::State;
use crate::config::GcPolicy;
use crate::media::Media;

/// Why a block is collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Host writes wait, or soon will.
    Foreground,
    /// Free blocks are getting few.
    Background,
    /// The block is worn much less than others.
    Wear,
}

#[derive(Debug, Clone, Copy)]
struct Victim {
    block: u32,
    /// What of its pages may still have to be moved, by weight, or more than that.
    unmoved: u32,
    /// A collector is at it; else its pages have moved, and it is erased when they are on flash.
    is_moving: bool,
}

/// The blocks that are being collected.
#[derive(Debug)]
pub struct Victims {
    blocks: Vec<Victim>,
}

impl Victims {
    /// None, of `max` at most.
    pub fn new(max: u32) -> Victims {
        Victims {
            blocks: Vec::with_capacity(max as usize),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// How many of them a collector is at.
    fn moving(&self) -> u32 {
        self.blocks.iter().filter(|victim| victim.is_moving).count() as u32
    }

    /// How many of them wait for the end of their pages' programs.
    fn moved_count(&self) -> u32 {
        self.count() - self.moving()
    }

    /// Pages of all of them that may still have to be moved.
    fn unmoved(&self) -> u64 {
        self.blocks.iter().map(|v| u64::from(v.unmoved)).sum()
    }

    fn begin(&mut self, block: u32, unmoved: u32) {
        self.blocks.push(Victim {
            block,
            unmoved,
            is_moving: true,
        });
    }

    /// A page of the block, of this weight, was moved, or need not be any more.
    pub fn moved(&mut self, block: u32, weight: u32) {
        if let Some(victim) = self.blocks.iter_mut().find(|v| v.block == block) {
            victim.unmoved -= weight;
        }
    }

    /// All pages of the block have been looked at, and of this weight are those still to be moved.
    pub fn set_unmoved(&mut self, block: u32, weight: u32) {
        if let Some(victim) = self.blocks.iter_mut().find(|v| v.block == block) {
            victim.unmoved = weight;
        }
    }

    fn set_moved(&mut self, block: u32) {
        if let Some(victim) = self.blocks.iter_mut().find(|v| v.block == block) {
            victim.is_moving = false;
        }
    }

    /// The block is no victim any more.
    pub fn end(&mut self, block: u32) {
        self.blocks.retain(|v| v.block != block);
    }
}

impl Ftl {
    /// Whether collection is needed, and how badly.
    #[inline]
    pub fn collection_need(&self) -> Option<Urgency> {
        if self.wiping {
            return Some(Urgency::Background);
        }
        let free = self.free_or_coming();
        if free <= self.plan.foreground_blocks {
            Some(Urgency::Foreground)
        } else if free < self.plan.background_blocks || self.lacks_room {
            Some(Urgency::Background)
        } else {
            None
        }
    }

    /// Blocks that are free, or as good as that: their pages have moved.
    #[inline]
    fn free_or_coming(&self) -> u32 {
        self.blocks.free_count() + self.erases_pending + self.victims.moved_count()
    }

    /// As [`Ftl::collection_need`], if another victim should be begun beside those that are being
    /// collected: as many as the dies can take when space is short or the host is quiet.
    #[inline]
    pub fn need_of_another_victim(&self, host_is_quiet: bool) -> Option<Urgency> {
        let urgency = self.collection_need()?;
        let at_once = match urgency {
            Urgency::Background if !host_is_quiet && !self.wiping => self.victims_beside_writes(),
            _ => self.plan.victims_max,
        };
        (self.victims.moving() < at_once).then_some(urgency)
    }

    /// How many are missing of the last blocks above the threshold: one for each plane to open.
    #[inline]
    fn missing_blocks(&self) -> u32 {
        let above = self.free_or_coming() - self.plan.foreground_blocks;
        self.plan.planes.saturating_sub(above)
    }

    /// Victims at once while the host writes and space is not short yet: one, and the more the fewer
    /// blocks are left.
    fn victims_beside_writes(&self) -> u32 {
        1 + (self.plan.victims_max - 1) * self.missing_blocks() / self.plan.planes
    }

    /// Whether another victim is needed to leave as many blocks free as writes that never cease leave,
    /// where one is collected after the other. Collection keeps pace with them when it has its share
    /// of the dies, so of the victims: the share of pages that are moved.
    pub(super) fn need_beside_writes(&mut self) -> Option<Urgency> {
        let urgency = self.collection_need()?;
        if urgency == Urgency::Background {
            let moved = self.blocks.fewest_valid()? * self.plan.planes;
            return (self.missing_blocks() * self.plan.weight_per_block > moved).then_some(urgency);
        }
        Some(urgency)
    }

    /// A collector has moved all of a victim's pages: it may turn to another one.
    pub fn set_moved(&mut self, victim: u32) {
        self.victims.set_moved(victim);
    }

    /// True if a collector is at a victim.
    pub fn is_moving(&self) -> bool {
        self.victims.moving() > 0
    }

    /// Blocks that are being collected.
    pub fn victims(&self) -> u32 {
        self.victims.count()
    }

    /// Takes the block to collect, if one is worth it and there is room for its pages.
    pub fn take_victim(&mut self, urgency: Urgency) -> Option<u32> {
        if self.is_fruitless() && urgency != Urgency::Wear && !self.wiping {
            return None;
        }
        // A victim gives room if its data weigh less than it holds.
        let full = self.plan.weight_per_block;
        let valid_max = match urgency {
            Urgency::Foreground => full - 1,
            Urgency::Background => self.plan.background_valid_max.min(full - 1),
            Urgency::Wear => full,
        };
        let victim = match (urgency, self.config.gc_policy) {
            (Urgency::Wear, _) => self.least_worn(),
            (_, GcPolicy::Greedy) => self.blocks.emptiest(),
            (_, GcPolicy::CostBenefit) => self.most_beneficial(valid_max),
        };
        let victim = victim.filter(|b| self.blocks.get(*b).valid <= valid_max)?;
        let valid = self.blocks.get(victim).valid;
        let unmoved = self.victims.unmoved();
        if unmoved > 0 && unmoved + u64::from(valid) > self.room() {
            return None;
        }
        self.victims.begin(victim, valid);
        self.note_victim();
        self.blocks.take_victim(victim);
        match urgency {
            Urgency::Foreground => self.counters.gc_foreground_runs += 1,
            Urgency::Background => self.counters.gc_background_runs += 1,
            Urgency::Wear => self.counters.wear_moves_runs += 1,
        }
        Some(victim)
    }

    /// What collection can write without an erase, by weight, whatever the host writes.
    fn room(&self) -> u64 {
        let slots = self.plan.slots_per_block;
        let reserved = self.blocks.free_count().min(self.plan.reserve_blocks);
        let room =
            u64::from(reserved) * u64::from(slots) + u64::from(self.frontiers.gc_room(slots));
        room * u64::from(self.plan.weight_per_slot())
    }

    /// The closed block with the largest benefit for its cost: `age * (1 - u) / 2u`.
    fn most_beneficial(&self, valid_max: u32) -> Option<u32> {
        let pages = u128::from(self.plan.weight_per_block);
        let closed = self
            .blocks
            .iter()
            .filter(|(_, b)| b.state == State::Closed && b.valid <= valid_max);
        // In whole numbers, so that every machine chooses alike; an empty block is worth most.
        let benefit = |valid: u32, closed_seq: u64| {
            let age = u128::from(self.seq - closed_seq) + 1;
            match u128::from(valid) {
                0 => u128::MAX,
                valid => (age << 32) * (pages - valid) / (2 * valid),
            }
        };
        closed
            .max_by_key(|(_, b)| benefit(b.valid, b.closed_seq))
            .map(|(block, _)| block)
    }

    fn least_worn(&self) -> Option<u32> {
        let closed = self.blocks.iter().filter(|(_, b)| b.state == State::Closed);
        closed
            .min_by_key(|(block, _)| self.media.erase_count(*block))
            .map(|(block, _)| block)
    }

    /// True if static wear levelling should move a block now. Looks at all blocks: ask once in
    /// many erases.
    pub fn wear_gap_exceeded(&self) -> bool {
        if self.config.wear_gap_max == 0 {
            return false;
        }
        let Some(coldest) = self.least_worn() else {
            return false;
        };
        let most = (0..self.plan.blocks)
            .map(|b| self.media.erase_count(b))
            .max()
            .unwrap_or(0);
        most - self.media.erase_count(coldest) > self.config.wear_gap_max
    }

    /// Gives up on a victim with an unreadable page: its other pages have moved.
    pub fn set_spoiled(&mut self, victim: u32) {
        self.victims.end(victim);
        self.blocks.set_state(victim, State::Spoiled);
    }

    /// Gives up on a victim that cannot be erased now: it stays as it is until power-on.
    pub fn abandon_victim(&mut self, victim: u32) {
        self.victims.end(victim);
    }
}
