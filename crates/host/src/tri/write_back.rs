//! Write-back of dirty pages that stay: for flushes, and for writes with write-through.
//!
//! A page may be pinned, and written to, while it is written back: so a *copy* of it is sent to the
//! drive. The manager learns that a client has written when the client takes its pin off; of pages
//! that are still pinned it compares the version with the one that the drive has.
//!
//! 1. All write-backs that were asked for are done together: their dirty pages are listed and sorted.
//! 2. Window by window they are copied and written, neighbours as one command. Meanwhile their frames
//!    are not taken, so that no later content of a page can overtake an earlier one.
//! 3. Pages that are just leaving the cache are waited for, and tried again if they come back.
//!
//! The drives are flushed by the client, when all managers have answered.

use std::collections::BTreeMap;
use std::rc::Rc;

use wharf_runtime::Op;

use crate::error::IoError;
use crate::group::Group;
use crate::tri::manager::Manager;
use crate::tri::message::Outcome;
use crate::tri::under_way::{Asker, Held, WriteBack};
use crate::volume::Transfer;

/// Pages that a manager has for copies: as many are written at a time.
pub(super) const COPIES: u32 = 64;

/// What is to be done about a page.
enum Unwritten {
    /// The drive has it.
    No,
    /// It is open in this frame.
    Ours(u32),
    /// It is leaving the cache.
    Leaving,
    /// The drive does not answer for it.
    Stuck,
}

/// A page that is being written from a copy.
struct Copy {
    page: u64,
    frame: u32,
    version: u32,
    /// The copy's number and address.
    number: u32,
    address: u64,
}

/// Why pages could not be written.
type Failures = BTreeMap<u64, IoError>;

impl Manager {
    /// Notes a write-back, of one page or of all.
    pub(super) fn order_write_back(&self, asker: Asker, page: Option<u64>) {
        self.write_backs
            .borrow_mut()
            .push(WriteBack { asker, page });
        self.write_back_ready.notify_all(&self.cpu);
    }

    /// Does what was ordered, for as long as the CPU runs.
    pub(super) async fn write_back(self: Rc<Self>) {
        loop {
            let orders = std::mem::take(&mut *self.write_backs.borrow_mut());
            if orders.is_empty() {
                self.write_back_ready.wait(&self.cpu).await;
                continue;
            }
            let mut pages = self.pages_of(&orders);
            let mut failures = Failures::new();
            while !pages.is_empty() {
                pages = self.write_pages(&pages, &mut failures).await;
                while !pages.is_empty() && pages.iter().all(|&page| self.is_leaving(page)) {
                    self.settled.wait(&self.cpu).await;
                }
            }
            for WriteBack { asker, page } in orders {
                let failure = match page {
                    Some(page) => failures.get(&page),
                    None => failures.values().next(),
                };
                match failure {
                    Some(&error) => self.fail(asker, error),
                    None => self.answer(asker, 0, Outcome::Written),
                }
            }
            self.go_on_soon();
        }
    }

    /// The pages that orders are about, as far as the drive may not have them; in order.
    fn pages_of(&self, orders: &[WriteBack]) -> Vec<u64> {
        let mut pages: Vec<u64> = orders.iter().filter_map(|order| order.page).collect();
        if orders.iter().any(|order| order.page.is_none()) {
            let pool = &self.state.borrow().pool;
            let frames = pool.frames();
            self.cpu.work_n(Op::ClockStep, frames.len() as u32, || {
                for frame in frames {
                    let state = self.frames().word_to_read(&self.cpu, frame).state();
                    let is_changed = state.pins() > 0 && pool.has_changed(&self.shared, frame);
                    if state.is_dirty() || is_changed {
                        pages.extend(state.page());
                    }
                }
            });
        }
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// Writes pages back; gives those that were leaving.
    async fn write_pages(&self, pages: &[u64], failures: &mut Failures) -> Vec<u64> {
        let mut leaving = Vec::new();
        let mut rest = pages;
        while let Some(&page) = rest.first() {
            let room = (COPIES - self.copies_stuck.get()) as usize;
            if room == 0 {
                failures.insert(page, IoError::Stuck { page });
                rest = &rest[1..];
                continue;
            }
            let (window, more) = rest.split_at(room.min(rest.len()));
            rest = more;
            let copies = self.copy_window(window, failures, &mut leaving).await;
            self.write_copies(copies, failures).await;
        }
        leaving
    }

    /// Copies what must be written of a window.
    async fn copy_window(
        &self,
        window: &[u64],
        failures: &mut Failures,
        leaving: &mut Vec<u64>,
    ) -> Vec<Copy> {
        let (mut numbers, mut addresses) = (Vec::new(), Vec::new());
        let count = window.len();
        self.copies
            .take(&self.cpu, count, &mut numbers, &mut addresses)
            .await;
        let mut copies = Vec::with_capacity(count);
        for &page in window {
            match self.unwritten(page) {
                Unwritten::No => {}
                Unwritten::Leaving => leaving.push(page),
                Unwritten::Stuck => {
                    failures.insert(page, IoError::Stuck { page });
                }
                Unwritten::Ours(frame) => {
                    let number = numbers.pop().expect("a copy for each page");
                    let address = addresses.pop().expect("a copy for each page");
                    copies.push(Copy {
                        page,
                        frame,
                        version: self.copy(frame, number),
                        number,
                        address,
                    });
                }
            }
        }
        self.copies.give_back(&self.cpu, &mut numbers);
        copies
    }

    /// Copies a frame, which is not taken from now on and clean unless it is written to again.
    fn copy(&self, frame: u32, number: u32) -> u32 {
        self.state.borrow_mut().pool.set_writing(frame, true);
        self.frames()
            .word_to_write(&self.cpu, frame)
            .set_dirty(false);
        // SAFETY: the copy was taken, no command names it yet, and this is the one reference.
        let copy = unsafe { self.copies.page_mut(number) };
        self.cpu.work(Op::CopyPage, || {
            self.frames().read(&self.cpu, frame, 0, copy)
        })
    }

    fn unwritten(&self, page: u64) -> Unwritten {
        let Some(frame) = self.find(page) else {
            return Unwritten::No;
        };
        let word = self.frames().word_to_read(&self.cpu, frame).state();
        let state = &self.state.borrow();
        let is_stuck = |page| state.under_way.get(page).is_some_and(|u| u.is_stuck);
        let is_changed = word.pins() > 0 && state.pool.has_changed(&self.shared, frame);
        match (word.is_busy(), word.is_dirty() || is_changed) {
            (true, true) if is_stuck(&page) => Unwritten::Stuck,
            (true, true) => Unwritten::Leaving,
            // Only this task writes copies: the command of an earlier one has timed out.
            (false, true) if state.pool.is_writing(frame) => Unwritten::Stuck,
            (false, true) => Unwritten::Ours(frame),
            (_, false) => Unwritten::No,
        }
    }

    fn is_leaving(&self, page: u64) -> bool {
        matches!(self.unwritten(page), Unwritten::Leaving)
    }

    /// Writes copies, and waits. Neighbours are one command.
    async fn write_copies(&self, copies: Vec<Copy>, failures: &mut Failures) {
        let mut groups: Vec<(Group, &[Copy])> = Vec::new();
        for run in copies.chunk_by(|a, b| a.page + 1 == b.page) {
            let addresses: Vec<u64> = run.iter().map(|copy| copy.address).collect();
            let group = self.volume.open_group();
            let first = run[0].page;
            self.volume
                .issue(&group, Transfer::Write, first, &addresses)
                .await;
            groups.push((group, run));
        }
        self.volume.ring();
        for (group, run) in groups {
            let mut numbers = run.iter().map(|copy| copy.number).collect();
            match group.wait(&self.cpu).await {
                Ok(_) => {
                    self.counters.write_backs.add(run.len() as u64);
                    run.iter()
                        .for_each(|c| self.written(c.frame, Some(c.version)));
                    self.copies.give_back(&self.cpu, &mut numbers);
                }
                Err(error) => {
                    self.not_written(run, error, failures);
                    match group.is_quiet() {
                        true => {
                            run.iter().for_each(|copy| self.written(copy.frame, None));
                            self.copies.give_back(&self.cpu, &mut numbers);
                        }
                        false => self.leave_to_late(group, run, numbers),
                    }
                }
            }
        }
    }

    #[cold]
    fn not_written(&self, run: &[Copy], error: IoError, failures: &mut Failures) {
        self.shared.note_failures(run.len() as u64);
        for copy in run {
            self.frames()
                .word_to_write(&self.cpu, copy.frame)
                .set_dirty(true);
            failures.insert(copy.page, error);
        }
    }

    #[cold]
    fn leave_to_late(&self, group: Group, run: &[Copy], numbers: Vec<u32>) {
        for copy in run {
            self.state.borrow_mut().pool.set_stuck(copy.frame, true);
        }
        let stuck = self.copies_stuck.get() + numbers.len() as u32;
        self.copies_stuck.set(stuck);
        let frames = run.iter().map(|copy| copy.frame).collect();
        let held = Held::Copies(frames, numbers);
        self.late.adopt(&self.cpu, group, held);
    }

    /// No command writes a copy of a frame any more; the drive has this version, if any.
    pub(super) fn written(&self, frame: u32, version: Option<u32>) {
        let pool = &mut self.state.borrow_mut().pool;
        pool.set_writing(frame, false);
        if let Some(version) = version {
            pool.set_on_drive(frame, version);
        }
        if self.frames().word_to_read(&self.cpu, frame).state().pins() == 0 {
            pool.offer(frame);
        }
    }
}
