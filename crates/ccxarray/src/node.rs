//! A node: its slots, its bits of tags, and the state that says who may do what to it.
//!
//! Slots change by compare-and-exchange alone. Three rarer things need a word of their own, the
//! *state*: clearing bits of tags, emptying the node for good, and taking it for a root of no use.
//! The state has a phase and a number that grows with each of them:
//!
//! ```text
//!           lock             unlock                  Live: anybody may fill slots
//!   Live ──────────► Busy ──────────► Live           Busy: one thread clears bits of tags
//!           freeze           commit                  Freezing: one thread freezes empty slots
//!   Live ──────────► Freezing ──────► Dead, Hollow   Dead: nothing is in it nor ever will be
//!                       │ thaw                       Hollow: all it ever will have is its first child
//!                       └───────────► Live
//! ```
//!
//! A *frozen* slot is an empty one with the number of a freeze in it. Who wants to fill it
//! must look at the state first: a freeze under way is called off (`thaw`), so that nobody ever
//! waits for the freezer; in a dead node nothing can be filled. As the next freeze puts
//! another number into the slot, a filler that has looked before fails.

use crate::cost_hook::CostHook;
use crate::entry::{TAGS, Tag, Word};
use crate::sync::{AtomicU64, Ordering};

/// Bits of an index that a level of the tree resolves. Models have small nodes.
pub const LEVEL_BITS: u32 = if cfg!(loom) {
    1
} else if cfg!(shuttle) {
    2
} else {
    6
};

/// Slots of a node.
pub const SLOTS: usize = 1 << LEVEL_BITS;

/// An index's part that chooses a slot.
pub const SLOT_MASK: u64 = SLOTS as u64 - 1;

/// Levels of the highest tree.
pub const LEVELS: usize = u64::BITS.div_ceil(LEVEL_BITS) as usize;

/// Bits of all slots in a word of tags.
pub const ALL_SLOTS: u64 = u64::MAX >> (64 - SLOTS);

/// Slots of a cache line of 64 bytes.
const SLOTS_PER_LINE: usize = 8;

/// Cache lines of a node: one of tags and state, the others of slots.
const LINES: usize = 1 + SLOTS.div_ceil(SLOTS_PER_LINE);

/// What may be done to a node. See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Phase {
    /// Slots can be filled.
    Live = 0,
    /// Slots can be filled; one thread clears bits of tags.
    Busy = 1,
    /// One thread freezes the slots; who fills one calls that off.
    Freezing = 2,
    /// Empty for good: it leaves the tree.
    Dead = 3,
    /// A root with nothing but its first child: it leaves the tree, and the child takes its place.
    Hollow = 4,
}

/// A phase, and the number of the latest lock or freeze.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State(u64);

impl State {
    const PHASE_BITS: u32 = 3;

    fn new(number: u64, phase: Phase) -> State {
        State(number << State::PHASE_BITS | phase as u64)
    }

    /// The phase.
    pub fn phase(self) -> Phase {
        match self.0 & ((1 << State::PHASE_BITS) - 1) {
            0 => Phase::Live,
            1 => Phase::Busy,
            2 => Phase::Freezing,
            3 => Phase::Dead,
            _ => Phase::Hollow,
        }
    }

    fn number(self) -> u64 {
        self.0 >> State::PHASE_BITS
    }
}

/// Why a slot was not filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// There is something else in it.
    Occupied(Word),
    /// The node is dead or hollow.
    Closed,
}

/// 64 bytes of tags and state, then the slots, each line of them on a line of its own.
#[repr(C, align(64))]
pub struct Node<L> {
    tags: [AtomicU64; TAGS],
    state: AtomicU64,
    slots: Slots,
    lines: [L; LINES],
    #[cfg(any(loom, shuttle, tsan))]
    freed: std::sync::atomic::AtomicBool,
}

#[repr(C, align(64))]
struct Slots([AtomicU64; SLOTS]);

#[cfg(not(any(loom, shuttle, tsan)))]
const _: () = assert!(size_of::<Node<()>>() == 64 + 512, "no more than in Linux");

impl<L: Default> Node<L> {
    /// A node with nothing in it, on the heap.
    pub fn make() -> Box<Node<L>> {
        Box::new(Node {
            tags: std::array::from_fn(|_| AtomicU64::new(0)),
            state: AtomicU64::new(0),
            slots: Slots(std::array::from_fn(|_| AtomicU64::new(0))),
            lines: std::array::from_fn(|_| L::default()),
            #[cfg(any(loom, shuttle, tsan))]
            freed: std::sync::atomic::AtomicBool::new(false),
        })
    }

    /// An inner node over one child, which may have any tag. Nobody else sees it yet.
    pub fn make_above(child: u64) -> Box<Node<L>> {
        let node = Node::make();
        node.slots.0[0].store(Word::child(child).0, Ordering::Relaxed);
        for tag in &node.tags {
            tag.store(1, Ordering::Relaxed);
        }
        node
    }
}

impl<L> Node<L> {
    /// The node's address, to be linked or retired.
    pub fn address(&self) -> u64 {
        std::ptr::from_ref(self).expose_provenance() as u64
    }

    /// Gives the node to the tree: from now on it is freed by its address.
    pub fn into_address(self: Box<Self>) -> u64 {
        Box::into_raw(self).expose_provenance() as u64
    }

    /// Frees the node at an address.
    ///
    /// # Safety
    /// The address comes from [`Node::into_address`], is freed once, and nobody uses it any more.
    pub unsafe fn free(address: u64) {
        let node = std::ptr::with_exposed_provenance_mut::<Node<L>>(address as usize);
        // SAFETY: as the caller promises.
        drop(unsafe { Box::from_raw(node) });
    }

    /// The content of a slot.
    #[inline(always)]
    pub fn load<W: CostHook<Line = L>>(&self, at: u64, cost_hook: &W) -> Word {
        cost_hook.read(self.line(at));
        self.peek(at)
    }

    /// As [`Node::load`], by those of whom no cost hook is told: checks, and the end of a tree.
    #[inline(always)]
    pub fn peek(&self, at: u64) -> Word {
        // Acquire: partner of the release in `exchange`: what a word leads to is complete.
        Word(self.slots.0[at as usize].load(Ordering::Acquire))
    }

    /// The content of a slot as the latest change left it, in order with all changes of it.
    ///
    /// A plain load may give an older word. This one is a change that changes nothing: who changed
    /// the slot before is seen, with all that he did before (acquire), and whoever changes it later
    /// sees what the caller did before (release).
    pub fn settle<W: CostHook<Line = L>>(&self, at: u64, cost_hook: &W) -> Word {
        cost_hook.write(self.line(at));
        // AcqRel: partner of `exchange`, in both directions.
        Word(self.slots.0[at as usize].fetch_or(0, Ordering::AcqRel))
    }

    /// Changes a slot from `from` to `to`; if it is not `from`, gives what it is.
    #[inline]
    pub fn exchange<W: CostHook<Line = L>>(
        &self,
        at: u64,
        from: Word,
        to: Word,
        cost_hook: &W,
    ) -> Result<(), Word> {
        cost_hook.write(self.line(at));
        // Release: partner of the acquire in `peek` and `settle`. Acquire: partner of the release
        // in `settle`.
        self.slots.0[at as usize]
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(Word)
    }

    /// Fills an empty slot.
    #[inline]
    pub fn fill<W: CostHook<Line = L>>(
        &self,
        at: u64,
        new: Word,
        cost_hook: &W,
    ) -> Result<(), Refused> {
        let mut found = self.load(at, cost_hook);
        loop {
            if found.is_present() {
                return Err(Refused::Occupied(found));
            }
            if found != Word::EMPTY && !self.thaw(cost_hook) {
                return Err(Refused::Closed);
            }
            match self.exchange(at, found, new, cost_hook) {
                Ok(()) => return Ok(()),
                Err(other) => found = other,
            }
        }
    }

    /// Calls a freeze off, if one is under way; false if one has succeeded. To be called by
    /// who has seen a frozen slot.
    #[cold]
    fn thaw<W: CostHook<Line = L>>(&self, cost_hook: &W) -> bool {
        let mut state = self.state(cost_hook);
        loop {
            match state.phase() {
                Phase::Live | Phase::Busy => return true,
                Phase::Dead | Phase::Hollow => return false,
                Phase::Freezing => {
                    let live = State::new(state.number(), Phase::Live);
                    match self.change_state(state, live, cost_hook) {
                        Ok(()) => return true,
                        Err(other) => state = other,
                    }
                }
            }
        }
    }

    /// Closes the node: freezes its slots from `first` on and gives it the phase. False if there is
    /// something in one of them, or somebody else at work. One thread alone freezes in a tree.
    pub fn close<W: CostHook<Line = L>>(&self, first: u64, phase: Phase, cost_hook: &W) -> bool {
        let state = self.state(cost_hook);
        if state.phase() != Phase::Live {
            return false;
        }
        let number = state.number() + 1;
        let freezing = State::new(number, Phase::Freezing);
        if self.change_state(state, freezing, cost_hook).is_err() {
            return false;
        }
        let is_frozen = (first..SLOTS as u64).all(|at| self.freeze(at, number, cost_hook));
        let end = if is_frozen { phase } else { Phase::Live };
        // It fails if somebody has filled a slot, who has thawed the node before.
        self.change_state(freezing, State::new(number, end), cost_hook)
            .is_ok_and(|()| is_frozen)
    }

    /// Puts the number of a freeze into an empty slot; false if it is not empty.
    fn freeze<W: CostHook<Line = L>>(&self, at: u64, number: u64, cost_hook: &W) -> bool {
        let mut found = self.load(at, cost_hook);
        loop {
            if found.is_present() {
                return false;
            }
            match self.exchange(at, found, Word::frozen(number), cost_hook) {
                Ok(()) => return true,
                Err(other) => found = other,
            }
        }
    }

    /// The state.
    pub fn state<W: CostHook<Line = L>>(&self, cost_hook: &W) -> State {
        cost_hook.read(&self.lines[0]);
        // Acquire: partner of the release in `change_state`.
        State(self.state.load(Ordering::Acquire))
    }

    fn change_state<W: CostHook<Line = L>>(
        &self,
        from: State,
        to: State,
        cost_hook: &W,
    ) -> Result<(), State> {
        cost_hook.write(&self.lines[0]);
        // Release: who sees a node live again sees the bits as they are then; partner of the
        // acquire in `state`. Acquire: a lock's holder sees what the one before did.
        self.state
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(State)
    }

    /// True if nothing can be filled in: the node leaves the tree, or has left it.
    pub fn is_closed<W: CostHook<Line = L>>(&self, cost_hook: &W) -> bool {
        matches!(self.state(cost_hook).phase(), Phase::Dead | Phase::Hollow)
    }

    /// True if there is nothing in any slot from `first` on.
    pub fn is_vacant<W: CostHook<Line = L>>(&self, first: u64, cost_hook: &W) -> bool {
        (first..SLOTS as u64).all(|at| !self.load(at, cost_hook).is_present())
    }

    fn line(&self, at: u64) -> &L {
        &self.lines[1 + at as usize / SLOTS_PER_LINE]
    }
}

/// Bits of tags: where anything tagged may be. `tags.rs` has the protocol.
impl<L> Node<L> {
    /// The bits of a tag.
    pub fn bits<W: CostHook<Line = L>>(&self, tag: Tag, cost_hook: &W) -> u64 {
        cost_hook.read(&self.lines[0]);
        // Acquire: partner of the release in `set_bit`.
        self.tags[tag as usize].load(Ordering::Acquire)
    }

    /// The slots below which there may be something with the tag: no bit is missing that was set
    /// before and has not been cleared for good.
    pub fn candidates<W: CostHook<Line = L>>(&self, tag: Tag, cost_hook: &W) -> u64 {
        let before = self.state(cost_hook);
        let bits = self.bits(tag, cost_hook);
        // Relaxed: who has read a bit's absence has, by the acquire there, seen the lock that was
        // taken before, and reads here that state or a later one.
        let after = State(self.state.load(Ordering::Relaxed));
        if before.phase() == Phase::Busy || before != after {
            // Bits may be away for a moment: look everywhere.
            return ALL_SLOTS;
        }
        bits
    }

    /// Sets a bit, if it is not set.
    pub fn set_bit<W: CostHook<Line = L>>(&self, tag: Tag, at: u64, cost_hook: &W) {
        if self.bits(tag, cost_hook) >> at & 1 == 0 {
            self.or_bits(tag, 1 << at, cost_hook);
        }
    }

    /// Sets bits and gives the word as it was, in order with all changes of it: see [`Node::settle`].
    pub fn or_bits<W: CostHook<Line = L>>(&self, tag: Tag, bits: u64, cost_hook: &W) -> u64 {
        cost_hook.write(&self.lines[0]);
        // AcqRel: partner of itself and of `clear_bits`.
        self.tags[tag as usize].fetch_or(bits, Ordering::AcqRel)
    }

    /// Clears bits. For the holder of the lock.
    pub fn clear_bits<W: CostHook<Line = L>>(&self, tag: Tag, bits: u64, cost_hook: &W) {
        cost_hook.write(&self.lines[0]);
        // AcqRel: partner of `or_bits` and of the load in `bits`.
        self.tags[tag as usize].fetch_and(!bits, Ordering::AcqRel);
    }

    /// Takes the right to clear bits, if the node is live and nobody has it.
    pub fn lock<'a, W: CostHook<Line = L>>(&'a self, cost_hook: &'a W) -> Option<Locked<'a, L, W>> {
        let state = self.state(cost_hook);
        if state.phase() != Phase::Live {
            return None;
        }
        let number = state.number() + 1;
        let busy = State::new(number, Phase::Busy);
        self.change_state(state, busy, cost_hook).ok()?;
        Some(Locked {
            node: self,
            busy,
            cost_hook,
        })
    }
}

/// The right to clear bits of a node, given back at its end. A node with it stays in the tree.
pub struct Locked<'a, L, W: CostHook<Line = L>> {
    node: &'a Node<L>,
    busy: State,
    cost_hook: &'a W,
}

impl<L, W: CostHook<Line = L>> Drop for Locked<'_, L, W> {
    fn drop(&mut self) {
        let live = State::new(self.busy.number(), Phase::Live);
        let unlocked = self.node.change_state(self.busy, live, self.cost_hook);
        debug_assert_eq!(unlocked, Ok(()), "nobody changes a locked node's state");
    }
}

/// Watching for the use of freed nodes.
#[cfg(any(loom, shuttle, tsan))]
impl<L> Node<L> {
    /// True if the node was freed. Relaxed: it watches and orders nothing.
    pub fn is_freed(&self) -> bool {
        self.freed.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Says that it is freed; true if it was before.
    pub fn mark_freed(&self) -> bool {
        self.freed.swap(true, std::sync::atomic::Ordering::Relaxed)
    }
}
