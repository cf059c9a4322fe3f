//! What pins keep: on a core, and of a share that is being served.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use wharf_wire::status::StatusCode;

use super::request::Request;
use crate::core::hmb::Hmb;
use crate::core::{Failed, Share};

/// What pins keep on a core.
#[derive(Default)]
pub(super) struct Pins {
    /// Pins that wait for frames.
    pub line: RefCell<VecDeque<InLine>>,
    /// One that waited and is served next.
    pub resumed: Cell<Option<InLine>>,
    /// Lists of pages that no share uses.
    pub lists: RefCell<Vec<Vec<Wanted>>>,
    /// Shares that were admitted and are not done, by their job.
    pub(super) admitted: RefCell<Vec<Option<Admitted>>>,
    /// What hosts in other processes hold.
    pub guests: RefCell<Holdings>,
    /// Frames that the core is to take.
    pub next_frames: RefCell<Option<Arc<Hmb>>>,
}

/// A share that was admitted: its pages, and what was done so far.
pub(super) struct Admitted {
    pub request: Request,
    pub wanted: Vec<Wanted>,
    pub tally: Tally,
}

impl Pins {
    pub fn take_list(&self) -> Vec<Wanted> {
        self.lists.borrow_mut().pop().unwrap_or_default()
    }

    pub fn keep_list(&self, list: Vec<Wanted>) {
        self.lists.borrow_mut().push(list);
    }

    pub fn set_admitted(&self, job: u32, share: Admitted) {
        let mut admitted = self.admitted.borrow_mut();
        if admitted.len() <= job as usize {
            admitted.resize_with(job as usize + 1, || None);
        }
        admitted[job as usize] = Some(share);
    }
}

/// How far a wanted page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// A frame is reserved for it.
    Missing,
    /// This share brings it into the frame.
    Coming(u32),
    /// Another share brings it into the frame.
    Awaited(u32),
    /// It is in the frame, with a reference.
    Pinned(u32),
    /// It could not be pinned.
    Failed,
}

/// A page that a share wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub lpn: u32,
    /// Its place among the wanted pages of the command.
    pub rank: u16,
    pub stage: Stage,
}

impl Wanted {
    /// The frame that it is pinned in, if it is.
    pub(super) fn frame(&self) -> Option<u32> {
        match self.stage {
            Stage::Pinned(frame) => Some(frame),
            _ => None,
        }
    }
}

/// What a pin did besides, and how it ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub failed: Option<Failed>,
    /// Pages brought into frames.
    pub fetched: u32,
    /// When the link has carried the pages that were written back; 0 if that takes no time.
    pub carried_ns: u64,
}

impl Tally {
    /// Notes a failure; that of the lowest page counts.
    pub fn fail(&mut self, status: StatusCode, lpn: u32) {
        if self.failed.is_none_or(|failed| lpn < failed.lpn) {
            self.failed = Some(Failed { status, lpn });
        }
    }
}

/// A pin that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct InLine {
    pub share: Share,
    /// The failure of an unpin of the same command, before the wait.
    pub failed: Option<Failed>,
}

/// What one guest holds of a core.
#[derive(Default)]
pub(super) struct Holding {
    /// A bit for each frame.
    frames: Vec<u64>,
    /// Frames held, and those that pins under way are going to hold.
    pub taken_or_reserved: u32,
}

/// What each guest holds, by its number.
#[derive(Default)]
pub(super) struct Holdings(Vec<Holding>);

impl Holdings {
    pub fn of(&mut self, guest: u32) -> &mut Holding {
        let guest = guest as usize;
        if self.0.len() <= guest {
            self.0.resize_with(guest + 1, Holding::default);
        }
        &mut self.0[guest]
    }
}

impl Holding {
    pub fn set(&mut self, frame: u32) -> bool {
        let (word, bit) = (frame as usize / 64, 1 << (frame % 64));
        if self.frames.len() <= word {
            self.frames.resize(word + 1, 0);
        }
        let is_new = self.frames[word] & bit == 0;
        self.frames[word] |= bit;
        is_new
    }

    pub fn clear(&mut self, frame: u32) -> bool {
        let (word, bit) = (frame as usize / 64, 1 << (frame % 64));
        let Some(word) = self.frames.get_mut(word).filter(|word| **word & bit != 0) else {
            return false;
        };
        *word &= !bit;
        self.taken_or_reserved -= 1;
        true
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let frames = |(index, word): (usize, u64)| {
            (0..64u32)
                .filter_map(move |bit| (word >> bit & 1 == 1).then_some(index as u32 * 64 + bit))
        };
        self.frames.iter().copied().enumerate().flat_map(frames)
    }
}
