//! The missing pages of a request: fetched by one command for each drive.
//!
//! 1. Pages that miss are placed in slots, and gathered with the pages that leave those slots.
//! 2. The batch is *settled* when the request has been looked through, is too long for one
//!    command, or has to wait for something: who waits for others holds nothing.
//! 3. A command pins pages and gives back those that left their slots, of the same cores. So whatever
//!    order the drive serves a client's commands in, the client never holds more than its share.
//!    Pages to be overwritten whole go in a command of their own, and are announced first
//!    ([`Frames`](crate::scala::frames)).
//! 4. A page that has arrived is used and becomes ready; one that has not leaves its slot, or is
//!    asked for again if the drive says that this may help.
//! 5. A command that times out leaves its slots *stuck*. When the drive answers after all, its pages
//!    are adopted as if nothing had happened; data that was to overwrite them was kept for that.
//! 6. A page that another client has announced, and does not overwrite, is given back to its drive after
//!    the time that a command may take.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};
use wharf_wire::pin::{Access, NOT_PINNED, Unpin, WINDOW_PAGES_MAX};

use crate::error::IoError;
use crate::group::Group;
use crate::pins::{NO_LIST, PAGES_MAX, Sent, needs_list};
use crate::scala::entry::{Entry, Late};
use crate::scala::frames::{Frames, Pinned};
use crate::scala::held::{Held, Turn, Use};
use crate::scala::home::Home;
use crate::scala::index::{Leaving, Place};
use crate::span::Span;

/// Some of them, off the heap while there is one, as in most requests.
type Entries = SmallVec<[Entry; 1]>;

/// A command on its way.
struct InFlight {
    group: Group,
    sent: Sent,
    entries: Entries,
}

/// See the module.
pub(super) struct Batch<'a> {
    held: &'a Held,
    entries: Entries,
}

/// What a round of commands left to do.
#[derive(Default)]
struct Rest {
    /// Pages that may be asked for again, with the latest reason.
    again: Entries,
    reason: Option<IoError>,
    /// Pages that are there, but must wait for another client.
    waiting: Vec<(Entry, u32)>,
    /// The first error that is final.
    error: Option<IoError>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(held: &'a Held) -> Batch<'a> {
        Batch {
            held,
            entries: Entries::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn has(&self, slot: u32) -> bool {
        self.entries.iter().any(|entry| entry.slot == slot)
    }

    /// Whether `page`, beyond all pages in the batch, fits the commands.
    pub(super) fn has_room_for(&self, page: u64) -> bool {
        let window = u64::from(WINDOW_PAGES_MAX);
        let is_near = |first: &Entry| page - first.span.page < window;
        self.entries.len() < PAGES_MAX && self.entries.first().is_none_or(is_near)
    }

    pub(super) fn push(
        &mut self,
        span: &Span,
        slot: u32,
        home: Home,
        leaving: Option<Leaving>,
        writes: bool,
    ) {
        let access = match (writes, span.whole) {
            (false, _) => Access::Read,
            (true, false) => Access::Write,
            (true, true) => Access::Overwrite,
        };
        // It leaves a slot of the same set, so it is on the same drive.
        let unpin = |leaving: Leaving| Unpin {
            lba: self.held.map.home(leaving.page).lba,
            is_dirty: leaving.is_dirty,
        };
        self.entries.push(Entry {
            span: *span,
            slot,
            home,
            access,
            leaving: leaving.map(unpin),
        });
    }

    /// Fetches the pages and uses them. The batch is empty then.
    ///
    /// # Errors
    /// The first error; the other pages are used all the same.
    pub(super) async fn settle<U: Use>(&mut self, user: &mut U) -> Result<(), IoError> {
        let held = self.held;
        let mut todo = std::mem::take(&mut self.entries);
        if todo.is_empty() {
            return Ok(());
        }
        for entry in todo.iter().filter(|e| e.access == Access::Overwrite) {
            held.frames.announce(entry.span.page);
        }
        let config = held.volume.drivers()[0].config();
        let mut rest = Rest::default();
        for tries_left in (0..=config.retries).rev() {
            // Most requests miss one page at a time.
            if todo.len() == 1 {
                if held.fetch_one(todo, user, &mut rest).await {
                    return rest.error.map_or(Ok(()), Err);
                }
            } else {
                for command in held.send(todo).await {
                    held.receive(command, user, &mut rest).await;
                }
            }
            held.notify();
            for (entry, frame) in std::mem::take(&mut rest.waiting) {
                if let Err(error) = held.use_later(entry, frame, user).await {
                    rest.error.get_or_insert(error);
                }
            }
            if rest.again.is_empty() || tries_left == 0 {
                break;
            }
            if rest.reason.is_some_and(|reason| reason.is_frame_busy()) {
                // Frames that cannot leave, and so keep others from coming.
                held.frames.mend_all(None);
            }
            held.cpu
                .sleep_until(held.cpu.now() + config.retry_delay_ns)
                .await;
            todo = std::mem::take(&mut rest.again);
        }
        if !rest.again.is_empty() {
            rest.error = rest.error.or(rest.reason);
            rest.again.iter().for_each(|entry| held.give_up(entry));
            held.notify();
        }
        rest.error.map_or(Ok(()), Err)
    }
}

/// Whether sending a command again after this error may help: also where frames seem to be written, if
/// other processes may have made it seem so.
fn may_retry(error: &IoError, frames: &Frames) -> bool {
    let is_retryable = matches!(error, IoError::Status { status, .. } if status.is_retryable());
    is_retryable || error.is_frame_busy() && frames.are_shared()
}

fn wrong_frame(entry: &Entry, address: u64) -> IoError {
    IoError::WrongFrame {
        drive: entry.home.drive as u16,
        lba: entry.home.lba,
        address,
    }
}

impl Held {
    /// Sends the commands for `entries`.
    async fn send(&self, entries: Entries) -> SmallVec<[InFlight; 1]> {
        let mut parts: SmallVec<[Entries; 1]> = SmallVec::new();
        for entry in entries {
            let is_like = |part: &&mut Entries| {
                (part[0].home.drive, part[0].access) == (entry.home.drive, entry.access)
            };
            match parts.iter_mut().find(is_like) {
                Some(part) => part.push(entry),
                None => parts.push(smallvec![entry]),
            }
        }
        // There are no more unpins than pages.
        let needs = parts.iter().map(|part| needs_list(part.len(), part.len()));
        let lists = self.pins.take(needs).await;
        let mut sent = SmallVec::with_capacity(parts.len());
        for (entries, list) in parts.into_iter().zip(lists) {
            let group = self.volume.open_group();
            let lbas: SmallVec<[u64; 4]> = entries.iter().map(|entry| entry.home.lba).collect();
            let unpins: SmallVec<[Unpin; 4]> =
                entries.iter().filter_map(|entry| entry.leaving).collect();
            let (drive, access) = (entries[0].home.drive, entries[0].access);
            let command = self
                .pins
                .send(&group, drive, list, access, &lbas, &unpins)
                .await;
            sent.push(InFlight {
                group,
                sent: command,
                entries,
            });
        }
        self.volume.ring();
        sent
    }

    /// Fetches one page. True if it is used, and nothing is left to do.
    async fn fetch_one<U: Use>(&self, entries: Entries, user: &mut U, rest: &mut Rest) -> bool {
        let mut command = self.send_one(entries).await;
        let outcome = self.pins.wait(&mut command.sent, &command.group).await;
        let pinned = match outcome {
            Ok(()) => self.frame_of(&command.sent, 0, &command.entries[0]),
            Err(_) => Ok(None),
        };
        let Ok(Some(pinned)) = pinned else {
            self.take_answer(command, outcome, user, rest);
            return false;
        };
        let is_used = self.take_in(&command.entries[0], pinned, user);
        if is_used {
            self.notify();
        } else {
            self.take_answer_later(command, pinned, rest);
        }
        is_used
    }

    /// A page has come, and must wait for another client.
    #[cold]
    fn take_answer_later(&self, mut command: InFlight, pinned: Pinned, rest: &mut Rest) {
        let mut entry = command.entries.pop().expect("the command's page");
        entry.leaving = None;
        rest.waiting.push((entry, pinned.frame));
        self.pins.give_back(command.sent);
    }

    /// As [`Held::send`], for one page: its command needs no list.
    async fn send_one(&self, entries: Entries) -> InFlight {
        let group = self.volume.open_group();
        let Entry {
            home,
            access,
            ref leaving,
            ..
        } = entries[0];
        let unpins = leaving.as_slice();
        let sent = self
            .pins
            .send(&group, home.drive, NO_LIST, access, &[home.lba], unpins)
            .await;
        self.volume.ring();
        InFlight {
            group,
            sent,
            entries,
        }
    }

    /// Waits for a command, and uses the pages that are there as far as nobody is in the way.
    async fn receive<U: Use>(&self, mut command: InFlight, user: &mut U, rest: &mut Rest) {
        let outcome = self.pins.wait(&mut command.sent, &command.group).await;
        self.take_answer(command, outcome, user, rest);
    }

    fn take_answer<U: Use>(
        &self,
        command: InFlight,
        outcome: Result<(), IoError>,
        user: &mut U,
        rest: &mut Rest,
    ) {
        let InFlight {
            group,
            sent,
            entries,
        } = command;
        if let Err(error) = outcome
            && error.is_timeout()
        {
            rest.error.get_or_insert(error);
            return self.leave_late(group, sent, entries, user);
        }
        for (index, mut entry) in (0..).zip(entries) {
            // Given back, whatever became of the pin.
            entry.leaving = None;
            match (self.frame_of(&sent, index, &entry), outcome) {
                (Ok(Some(pinned)), _) => self.arrive(entry, pinned, user, rest),
                (Ok(None), Err(error)) if may_retry(&error, &self.frames) => {
                    rest.reason = Some(error);
                    rest.again.push(entry);
                }
                (Ok(None), Err(error)) | (Err(error), _) => {
                    rest.error.get_or_insert(error);
                    self.give_up(&entry);
                }
                (Ok(None), Ok(())) => {
                    rest.error.get_or_insert(wrong_frame(&entry, NOT_PINNED));
                    self.give_up(&entry);
                }
            }
        }
        self.pins.give_back(sent);
    }

    /// The frame that the drive has put a page in, if it has.
    fn frame_of(&self, sent: &Sent, index: u32, entry: &Entry) -> Result<Option<Pinned>, IoError> {
        let address = self.pins.address(sent, index);
        if address == NOT_PINNED {
            return Ok(None);
        }
        let frame = self
            .frames
            .frame_at(address, entry.home.core, self.map.cores());
        frame.map(Some).ok_or_else(|| wrong_frame(entry, address))
    }

    fn arrive<U: Use>(&self, entry: Entry, pinned: Pinned, user: &mut U, rest: &mut Rest) {
        if !self.take_in(&entry, pinned, user) {
            rest.waiting.push((entry, pinned.frame));
        }
    }

    /// Uses a page that has come; false if it must wait for another client.
    fn take_in<U: Use>(&self, entry: &Entry, pinned: Pinned, user: &mut U) -> bool {
        let (overwrites, frame) = (entry.access == Access::Overwrite, pinned.frame);
        if !overwrites && pinned.is_blank && self.awaits_overwrite(entry, frame) {
            return false;
        }
        let place = self.index.set_ready(entry.slot, frame);
        let mut is_done = user.apply(self, place, &entry.span);
        if overwrites {
            if !is_done && self.frames.mend(entry.home.drive, frame) {
                is_done = user.apply(self, place, &entry.span);
            }
            // If it is not done, another client is writing: then the frame has content.
            self.frames.retract(entry.span.page);
        }
        if !is_done {
            // It must not leave before its turn.
            self.index.pin(entry.slot);
        }
        is_done
    }

    fn awaits_overwrite(&self, entry: &Entry, frame: u32) -> bool {
        let Entry { span, home, .. } = entry;
        self.frames.awaits_overwrite(span.page, home.drive, frame)
    }

    /// Uses a page once the clients in the way are done. A client whose own command has timed out
    /// may be in the way for long.
    async fn use_later<U: Use>(
        &self,
        entry: Entry,
        frame: u32,
        user: &mut U,
    ) -> Result<(), IoError> {
        let (page, slot) = (entry.span.page, entry.slot);
        self.counters.waits.add(1);
        let mut turn = Turn::new();
        if self.index.find(page).is_none() {
            self.await_overwrite(&entry, frame, &mut turn).await?;
            self.index.pin(slot);
        }
        let mut outcome = Ok(());
        while outcome.is_ok() && !user.apply(self, Place { slot, frame }, &entry.span) {
            outcome = self.pause(&mut turn, page, frame).await;
        }
        self.index.unpin(slot);
        self.notify();
        outcome
    }

    /// Has a page ready when nobody is about to overwrite it; if that takes too long, gives it back: its
    /// frame may hold zeros that are nobody's data.
    async fn await_overwrite(
        &self,
        entry: &Entry,
        frame: u32,
        turn: &mut Turn,
    ) -> Result<(), IoError> {
        while self.awaits_overwrite(entry, frame) {
            if let Err(error) = self.pause(turn, entry.span.page, frame).await {
                let unpin = Unpin {
                    lba: entry.home.lba,
                    is_dirty: false,
                };
                // Whatever comes of it, the page is not here.
                let _ = self.unpin(entry.home.drive, &[unpin]).await;
                self.index.vacate(entry.slot);
                self.notify();
                return Err(error);
            }
        }
        self.index.set_ready(entry.slot, frame);
        Ok(())
    }

    /// Gives pages back to a drive, as many as fit a command, and waits for its answer.
    pub(super) async fn unpin(&self, drive: usize, unpins: &[Unpin]) -> Result<(), IoError> {
        let needs_list = [needs_list(0, unpins.len())];
        let mut lists = self.pins.take(needs_list.into_iter()).await;
        let (group, list) = (self.volume.open_group(), lists.remove(0));
        let pins = &self.pins;
        let sent = pins.send(&group, drive, list, Access::Read, &[], unpins);
        let mut sent = sent.await;
        self.volume.ring();
        let outcome = pins.wait(&mut sent, &group).await;
        self.keep_until_quiet(group, sent);
        outcome
    }

    /// Takes a page that has not come out of its slot.
    fn give_up(&self, entry: &Entry) {
        if entry.access == Access::Overwrite {
            self.frames.retract(entry.span.page);
        }
        self.index.vacate(entry.slot);
    }

    /// Leaves a command that timed out to the late.
    fn leave_late<U: Use>(&self, group: Group, sent: Sent, entries: Entries, user: &U) {
        let keep = |entry: Entry| {
            self.index.set_stuck(entry.slot);
            let data = (entry.access == Access::Overwrite).then(|| user.data(&entry.span).into());
            (entry, data)
        };
        let entries = entries.into_iter().map(keep).collect();
        let late = Late(sent, entries);
        self.late.adopt(&self.cpu, group, late);
    }

    /// Brings late work to its end: the drive has answered.
    pub(super) fn adopt(self: &Rc<Self>, group: Group, late: Late) {
        let held = self.clone();
        self.cpu.spawn("late pins", async move {
            let Late(mut sent, entries) = late;
            // An error is told by the entries; the request has failed long ago.
            let _ = held.pins.wait(&mut sent, &group).await;
            for (index, (entry, data)) in (0..).zip(entries) {
                match held.frame_of(&sent, index, &entry) {
                    Ok(Some(pinned)) => held.adopt_page(&entry, pinned, data.as_deref()).await,
                    Ok(None) | Err(_) => held.give_up(&entry),
                }
            }
            held.pins.give_back(sent);
            held.notify();
        });
    }

    async fn adopt_page(&self, entry: &Entry, pinned: Pinned, data: Option<&[u8]>) {
        let (page, slot, frame) = (entry.span.page, entry.slot, pinned.frame);
        let Some(data) = data else {
            if !pinned.is_blank {
                self.index.set_ready(slot, frame);
                return;
            }
            // The request has failed long ago.
            let _ = self.await_overwrite(entry, frame, &mut Turn::new()).await;
            return;
        };
        let (drive, from) = (entry.home.drive, usize::from(entry.span.from));
        // If another client is writing, the frame has content, and the write has failed.
        let is_written = self.frames.copy_in(&self.cpu, drive, frame, from, data);
        self.index.set_ready(slot, frame);
        if is_written {
            self.index.set_dirty(slot);
        }
        self.frames.retract(page);
    }
}
