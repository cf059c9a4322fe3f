//! What one CPU has of a page cache: its way to frames and drives, and who is to be woken.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::wake::Sleeper;
use wharf_runtime::{Cpu, Op};

use crate::cache::copied::Copied;
use crate::cache::pin::{Action, Pin, Scratch};
use crate::cache::{PageCache, Section};
use crate::design::{Counters, WritePolicy};
use crate::late::LateCompletions;
use crate::span::Span;
use crate::volume::Volume;

/// See the module.
pub struct Local {
    pub(super) cpu: Cpu,
    pub(super) cache: Arc<PageCache>,
    pub(super) volume: Rc<Volume>,
    /// The client.
    pub(super) index: u32,
    policy: WritePolicy,
    pub(super) counters: Counters,
    /// Lists that requests use one after the other. Boxed: a request takes a pointer, not five
    /// vectors.
    #[allow(clippy::vec_box)]
    pub(super) spare: RefCell<Vec<Box<Scratch>>>,
    woken: RefCell<Vec<Sleeper>>,
    pub(super) late: LateCompletions<Vec<Pin>>,
}

impl Local {
    /// The part of client `index`.
    pub fn new(
        cpu: &Cpu,
        cache: Arc<PageCache>,
        volume: Rc<Volume>,
        index: u32,
        policy: WritePolicy,
    ) -> Local {
        Local {
            cpu: cpu.clone(),
            cache,
            volume,
            index,
            policy,
            counters: Counters::default(),
            spare: RefCell::default(),
            woken: RefCell::default(),
            late: LateCompletions::default(),
        }
    }

    /// Copies a span; says whether the frame is being written through now.
    #[inline]
    pub(super) fn copy<P: Copied>(
        &self,
        shard: &mut Section<'_>,
        frame: u32,
        span: &Span,
        payload: &mut P,
    ) -> bool {
        self.cpu
            .work(Op::CopyPage, || payload.copy(span, shard, frame));
        if P::WRITES && self.policy == WritePolicy::Through {
            shard.begin_writing(frame);
            return true;
        }
        if P::WRITES {
            shard.set_dirty(frame);
        }
        false
    }

    pub(super) fn sleeper(&self) -> Sleeper {
        Sleeper {
            client: self.index,
            task: self.cpu.current(),
        }
    }

    /// Runs `f` on a shard with its lock held, then wakes whom it names.
    pub(super) fn with_woken<R>(
        &self,
        shard: u32,
        f: impl FnOnce(&mut Section<'_>, &mut Vec<Sleeper>) -> R,
    ) -> R {
        let mut woken = self.woken.borrow_mut();
        let result = self
            .cache
            .with(&self.cpu, shard, |section| f(section, &mut woken));
        for sleeper in woken.drain(..) {
            self.cache.mailboxes().wake(&self.cpu, self.index, sleeper);
        }
        result
    }

    /// Gives frames up whose commands did not succeed, and which no command names now.
    pub(super) fn give_up(&self, pins: &[Pin]) {
        for pin in pins {
            self.with_woken(pin.shard, |shard, woken| match (pin.leaving, pin.action) {
                (Some(page), _) => shard.take_back(page, woken),
                (None, Action::Clean) => shard.end_writing(pin.frame, false, woken),
                // Of a failed write, the drive may have either content: it shall say which.
                (None, _) => shard.drop_page(pin.frame, woken),
            });
        }
    }
}
