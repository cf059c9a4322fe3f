//! What one client of `hardware` does with a request.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::{Cpu, Notify};
use wharf_wire::dma::{DmaSpace, RegisterError};
use wharf_wire::pin::{Access, NOT_PINNED, Unpin, WINDOW_PAGES_MAX};

use crate::design::{Counters, Touch, WritePolicy, check_request};
use crate::error::IoError;
use crate::group::Group;
use crate::late::LateCompletions;
use crate::pins::{PAGES_MAX, Pins, Sent, needs_list};
use crate::scala::copied::Copied;
use crate::scala::frames::{Frames, Pinned};
use crate::scala::home::{Home, SetMap};
use crate::span::{Extent, Span, spans};
use crate::volume::Volume;

/// Pause of a task that finds another client in the way, in nanoseconds.
const PAUSE_NS: u64 = 1_000;

/// A page of a request.
struct Entry {
    span: Span,
    home: Home,
    access: Access,
}

/// A command on its way.
struct InFlight {
    group: Group,
    sent: Sent,
    entries: Vec<Entry>,
}

/// What is left to do when a command has ended that nobody waits for.
enum Late {
    /// Pins that timed out, with the data of pages to be overwritten.
    Pins(Sent, Vec<(Entry, Option<Box<[u8]>>)>),
    /// Unpins: the permits of these pages come back.
    Unpins(Sent, Vec<Entry>),
}

/// What the pins of a part of a request came to.
#[derive(Default)]
struct Outcome {
    /// Pages to be given back.
    used: Vec<Entry>,
    /// Pages that are there, but must wait for another client.
    waiting: Vec<(Entry, Pinned)>,
    /// Pages that may be asked for again.
    again: Vec<Entry>,
    error: Option<IoError>,
}

/// One client: permits, and the pins under way.
pub(super) struct Inner {
    pub(super) cpu: Cpu,
    pub(super) volume: Rc<Volume>,
    map: SetMap,
    frames: Arc<Frames>,
    pins: Pins,
    pub(super) counters: Counters,
    policy: WritePolicy,
    /// Free permits of each set, and how many there are.
    permits: RefCell<Vec<u32>>,
    shares: Vec<u32>,
    permits_back: Notify,
    next_ticket: Cell<u64>,
    serving: Cell<u64>,
    late: LateCompletions<Late>,
    /// Pages that a late command is still to overwrite: a write that came later must not be lost.
    stuck: RefCell<Vec<u64>>,
}

impl Inner {
    /// A client that holds nothing of these frames, with its tasks on `cpu` and its lists in `space`.
    pub(super) fn start(
        cpu: &Cpu,
        volume: Rc<Volume>,
        map: SetMap,
        shares: Vec<u32>,
        (frames, space): (Arc<Frames>, &Arc<DmaSpace>),
        policy: WritePolicy,
    ) -> Result<Rc<Inner>, RegisterError> {
        let inner = Rc::new(Inner {
            cpu: cpu.clone(),
            pins: Pins::new(cpu, &volume, space)?,
            volume,
            map,
            frames,
            counters: Counters::default(),
            policy,
            permits: RefCell::new(shares.clone()),
            shares,
            permits_back: Notify::new(),
            next_ticket: Cell::new(0),
            serving: Cell::new(0),
            late: LateCompletions::default(),
            stuck: RefCell::default(),
        });
        let owner = inner.clone();
        cpu.spawn("hardware late completions", async move {
            let end = |group, late| owner.end_late(group, late);
            owner.late.run(&owner.cpu, end).await;
        });
        Ok(inner)
    }

    pub(super) async fn serve<P: Copied>(
        &self,
        extent: Extent,
        mut payload: P,
    ) -> Result<Touch, IoError> {
        let page_bytes = self.frames.page_bytes();
        check_request(&self.volume, page_bytes, extent, payload.bytes())?;
        let first = extent.first_page();
        let touched = first..first + extent.pages();
        if let Some(&page) = self.stuck.borrow().iter().find(|p| touched.contains(p)) {
            return Err(IoError::Stuck { page });
        }
        let mut rest = spans(extent, page_bytes).peekable();
        while rest.peek().is_some() {
            let part = self.next_part(&mut rest, P::WRITES);
            self.serve_part(part, &mut payload).await?;
        }
        if P::WRITES && self.policy == WritePolicy::Through && extent.bytes > 0 {
            self.volume.flush(&self.cpu).await?;
        }
        Ok(Touch::no_hits(extent.pages()))
    }

    /// The next pages of a request, as many as the commands and this client's share allow.
    fn next_part(
        &self,
        rest: &mut std::iter::Peekable<impl Iterator<Item = Span>>,
        writes: bool,
    ) -> Vec<Entry> {
        let mut part: Vec<Entry> = Vec::new();
        let mut left = self.shares.clone();
        while let Some(span) = rest.peek() {
            let home = self.map.home(span.page);
            let left = &mut left[self.map.set(&home) as usize];
            let window = u64::from(WINDOW_PAGES_MAX);
            let is_near = part
                .first()
                .is_none_or(|e| span.page - e.span.page < window);
            if *left == 0 || !is_near || part.len() == PAGES_MAX {
                break;
            }
            *left -= 1;
            let access = match (writes, span.whole) {
                (false, _) => Access::Read,
                (true, false) => Access::Write,
                (true, true) => Access::Overwrite,
            };
            let span = rest.next().expect("it was looked at");
            part.push(Entry { span, home, access });
        }
        part
    }

    /// Takes the permits of `part`, all at once and in the order of asking.
    async fn take_permits(&self, part: &[Entry]) {
        let mut wanted = vec![0; self.shares.len()];
        for entry in part {
            wanted[self.map.set(&entry.home) as usize] += 1;
        }
        let ticket = self.next_ticket.get();
        self.next_ticket.set(ticket + 1);
        let are_free = || {
            wanted
                .iter()
                .zip(&*self.permits.borrow())
                .all(|(w, p)| w <= p)
        };
        while self.serving.get() != ticket || !are_free() {
            self.permits_back.wait(&self.cpu).await;
        }
        self.serving.set(ticket + 1);
        let mut permits = self.permits.borrow_mut();
        permits.iter_mut().zip(&wanted).for_each(|(p, w)| *p -= w);
        self.permits_back.notify_all(&self.cpu);
    }

    fn give_permit_back(&self, entry: &Entry) {
        self.permits.borrow_mut()[self.map.set(&entry.home) as usize] += 1;
        self.permits_back.notify_all(&self.cpu);
    }

    async fn serve_part<P: Copied>(
        &self,
        mut part: Vec<Entry>,
        payload: &mut P,
    ) -> Result<(), IoError> {
        self.take_permits(&part).await;
        for entry in part.iter().filter(|e| e.access == Access::Overwrite) {
            self.frames.announce(entry.span.page);
        }
        let config = self.volume.drivers()[0].config();
        let mut outcome = Outcome::default();
        let mut reason = None;
        for tries_left in (0..=config.retries).rev() {
            for command in self.send(part).await {
                reason = self
                    .receive(command, payload, &mut outcome)
                    .await
                    .or(reason);
            }
            for (entry, pinned) in std::mem::take(&mut outcome.waiting) {
                if let Err(error) = self.use_later(&entry, pinned, payload).await {
                    outcome.error.get_or_insert(error);
                }
                outcome.used.push(entry);
            }
            if outcome.again.is_empty() || tries_left == 0 {
                break;
            }
            self.cpu
                .sleep_until(self.cpu.now() + config.retry_delay_ns)
                .await;
            part = std::mem::take(&mut outcome.again);
        }
        if !outcome.again.is_empty() {
            outcome.error = outcome.error.or(reason);
            outcome.again.iter().for_each(|entry| self.give_up(entry));
        }
        self.unpin(outcome.used, P::WRITES).await;
        outcome.error.map_or(Ok(()), Err)
    }

    /// Sends a pin for each drive and access.
    async fn send(&self, part: Vec<Entry>) -> Vec<InFlight> {
        let parts = divide(part, |entry| (entry.home.drive, entry.access));
        let needs = parts.iter().map(|part| needs_list(part.len(), 0));
        let lists = self.pins.take(needs).await;
        let mut sent = Vec::with_capacity(parts.len());
        for (entries, list) in parts.into_iter().zip(lists) {
            let group = self.volume.open_group();
            let lbas: Vec<u64> = entries.iter().map(|entry| entry.home.lba).collect();
            let (drive, access) = (entries[0].home.drive, entries[0].access);
            let pins = self.pins.send(&group, drive, list, access, &lbas, &[]);
            sent.push(InFlight {
                sent: pins.await,
                group,
                entries,
            });
        }
        self.volume.ring();
        sent
    }

    /// Waits for a command and uses its pages as far as nobody is in the way. Gives the reason for
    /// which pages may be asked for again.
    async fn receive<P: Copied>(
        &self,
        command: InFlight,
        payload: &mut P,
        outcome: &mut Outcome,
    ) -> Option<IoError> {
        let InFlight {
            group,
            mut sent,
            entries,
        } = command;
        let error = self.pins.wait(&mut sent, &group).await.err();
        if let Some(error) = error.filter(IoError::is_timeout) {
            outcome.error.get_or_insert(error);
            let keep = |entry: Entry| {
                let data = payload.data(&entry.span);
                let data = (entry.access == Access::Overwrite).then(|| {
                    self.stuck.borrow_mut().push(entry.span.page);
                    data.into()
                });
                (entry, data)
            };
            let late = Late::Pins(sent, entries.into_iter().map(keep).collect());
            self.late.adopt(&self.cpu, group, late);
            return None;
        }
        let may_help =
            matches!(error, Some(IoError::Status { status, .. }) if status.is_retryable());
        for (index, entry) in (0..).zip(entries) {
            match self.frame_of(&sent, index, &entry) {
                Ok(pinned) => self.arrive(entry, pinned, payload, outcome),
                Err(_) if may_help => outcome.again.push(entry),
                Err(wrong) => {
                    outcome.error.get_or_insert(error.unwrap_or(wrong));
                    self.give_up(&entry);
                }
            }
        }
        self.pins.give_back(sent);
        error.filter(|_| may_help)
    }

    fn frame_of(&self, sent: &Sent, index: u32, entry: &Entry) -> Result<Pinned, IoError> {
        let (address, home) = (self.pins.address(sent, index), &entry.home);
        let frame = self.frames.frame_at(address, home.core, self.map.cores());
        debug_assert!(address != NOT_PINNED || frame.is_none());
        frame.ok_or(IoError::WrongFrame {
            drive: home.drive as u16,
            lba: home.lba,
            address,
        })
    }

    fn arrive<P: Copied>(
        &self,
        entry: Entry,
        pinned: Pinned,
        payload: &mut P,
        outcome: &mut Outcome,
    ) {
        let (overwrites, frame) = (entry.access == Access::Overwrite, pinned.frame);
        let must_wait = !overwrites && pinned.is_blank && self.awaits_overwrite(&entry, frame);
        let is_done = !must_wait && self.copy(&entry, frame, payload);
        if overwrites {
            // If it is not done, another client is writing: then the frame has content.
            self.frames.retract(entry.span.page);
        }
        match is_done {
            true => outcome.used.push(entry),
            false => outcome.waiting.push((entry, pinned)),
        }
    }

    fn copy<P: Copied>(&self, entry: &Entry, frame: u32, payload: &mut P) -> bool {
        let at = (entry.home.drive, frame);
        payload.copy(&self.cpu, &self.frames, at, &entry.span, false)
    }

    fn awaits_overwrite(&self, entry: &Entry, frame: u32) -> bool {
        let Entry { span, home, .. } = entry;
        self.frames.awaits_overwrite(span.page, home.drive, frame)
    }

    /// Uses a page once the clients in the way are done.
    async fn use_later<P: Copied>(
        &self,
        entry: &Entry,
        pinned: Pinned,
        payload: &mut P,
    ) -> Result<(), IoError> {
        let (page, frame) = (entry.span.page, pinned.frame);
        self.counters.waits.add(1);
        let timeout_ns = self.volume.drivers()[entry.home.drive].config().timeout_ns;
        let deadline_ns = self.cpu.now().saturating_add(timeout_ns);
        let may_wait = entry.access != Access::Overwrite && pinned.is_blank;
        while (may_wait && self.awaits_overwrite(entry, frame)) || !self.copy(entry, frame, payload)
        {
            if self.cpu.now() >= deadline_ns {
                return Err(IoError::Stuck { page });
            }
            self.cpu.sleep_until(self.cpu.now() + PAUSE_NS).await;
        }
        Ok(())
    }

    /// A page that was not pinned.
    fn give_up(&self, entry: &Entry) {
        if entry.access == Access::Overwrite {
            self.frames.retract(entry.span.page);
        }
        self.give_permit_back(entry);
    }

    /// Gives pages back, without waiting for the end of it.
    async fn unpin(&self, used: Vec<Entry>, is_dirty: bool) {
        let parts = divide(used, |entry| entry.home.drive);
        let needs = parts.iter().map(|part| needs_list(0, part.len()));
        let lists = self.pins.take(needs).await;
        for (entries, list) in parts.into_iter().zip(lists) {
            let group = self.volume.open_group();
            let unpin = |entry: &Entry| Unpin {
                lba: entry.home.lba,
                is_dirty,
            };
            let unpins: Vec<Unpin> = entries.iter().map(unpin).collect();
            let drive = entries[0].home.drive;
            let sent = self
                .pins
                .send(&group, drive, list, Access::Read, &[], &unpins)
                .await;
            let late = Late::Unpins(sent, entries);
            self.late.adopt(&self.cpu, group, late);
        }
        self.volume.ring();
    }

    fn unstick(&self, page: u64) {
        let mut stuck = self.stuck.borrow_mut();
        let at = stuck.iter().position(|&p| p == page);
        stuck.swap_remove(at.expect("a late page is stuck"));
    }

    /// The drive has answered a command that nobody waits for.
    fn end_late(self: &Rc<Self>, group: Group, late: Late) {
        let (mut sent, entries) = match late {
            Late::Pins(sent, entries) => (sent, entries),
            Late::Unpins(sent, entries) => {
                self.pins.give_back(sent);
                return entries
                    .iter()
                    .for_each(|entry| self.give_permit_back(entry));
            }
        };
        let inner = self.clone();
        self.cpu.spawn("late pins", async move {
            // An error is told by the entries; the request has failed long ago.
            let _ = inner.pins.wait(&mut sent, &group).await;
            let mut pinned = Vec::new();
            for (index, (entry, data)) in (0..).zip(entries) {
                if data.is_some() {
                    inner.unstick(entry.span.page);
                }
                let Ok(Pinned { frame, .. }) = inner.frame_of(&sent, index, &entry) else {
                    inner.give_up(&entry);
                    continue;
                };
                if let Some(data) = data {
                    // If another client is writing, the frame has content, and the write failed.
                    let (drive, from) = (entry.home.drive, usize::from(entry.span.from));
                    inner.frames.copy_in(&inner.cpu, drive, frame, from, &data);
                    inner.frames.retract(entry.span.page);
                }
                pinned.push(entry);
            }
            inner.pins.give_back(sent);
            inner.unpin(pinned, true).await;
        });
    }
}

/// Divides pages by a key, in the order in which keys come first.
fn divide<K: PartialEq>(entries: Vec<Entry>, key: impl Fn(&Entry) -> K) -> Vec<Vec<Entry>> {
    let mut parts: Vec<Vec<Entry>> = Vec::new();
    for entry in entries {
        match parts.iter_mut().find(|part| key(&part[0]) == key(&entry)) {
            Some(part) => part.push(entry),
            None => parts.push(vec![entry]),
        }
    }
    parts
}
