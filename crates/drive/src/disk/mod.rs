//! A disk: platters, heads and one arm behind the controller that flash drives have.
//!
//! The walk of a request, from the controller on:
//!
//! 1. the controller gives the disk's one core a share, and a job takes it up, as of a flash drive;
//! 2. the handler (`features/disk/`) puts a read among those that wait ([`Disk::ask`]), or a write's
//!    data into the buffer, and wakes the arm;
//! 3. the arm (`core/arm.rs`) chooses among waiting reads and runs of written sectors what is reached
//!    soonest, with ageing (`elevator.rs`), asks when it ends (`geometry.rs`: seek, settling, turn,
//!    transfer), sleeps until then, and changes the platters (`platters.rs`) sector by sector, each only
//!    while there is power;
//! 4. the handler copies what was read from buffer or platters to the host, and answers.
//!
//! A write is answered when it is in the buffer, if the write cache is on and it forces nothing, and else when
//! it is on the platter. A flush waits for all that was answered before. At a power cut the buffer is
//! lost: of what it held, what the arm had reached is new and the rest old, sector by sector.
//!
//! While nothing else is to be done the head goes on reading after a read (the track buffer): a read that
//! goes on there costs no turn. Written sectors wait for a turn without reads, for three quarters of the
//! buffer, or for somebody who waits for them.
//!
//! | file | idea |
//! |---|---|
//! | `geometry.rs` | where sectors lie, and when they are below a head |
//! | `elevator.rs` | which command is next |
//! | `buffer.rs` | written sectors that are not on the platter |
//! | `platters.rs` | what sectors hold |

mod buffer;
mod elevator;
mod geometry;
mod platters;

pub use buffer::{Run, WriteBuffer};
pub use geometry::{DiskGeometry, Place};
pub use platters::Platters;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use wharf_runtime::{Alarm, Notify};

use crate::config::DiskConfig;
use elevator::{Candidate, choose};

/// What a disk did since power-on.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskCounters {
    /// Sectors that the host read.
    pub read_sectors: u64,
    /// Sectors that the host wrote.
    pub written_sectors: u64,
    /// Sectors that the host deallocated.
    pub trimmed_sectors: u64,
    /// Sectors that write zeroes commands set to zeros.
    pub zeroed_sectors: u64,
    /// Flushes.
    pub flushes: u64,
    /// Sectors that the heads read for the host.
    pub media_reads: u64,
    /// Sectors that the heads wrote.
    pub media_writes: u64,
    /// Times that the heads did not go on where they had ended.
    pub seeks: u64,
    /// Of these, those of reads.
    pub read_seeks: u64,
    /// Time of seeks, of changes of heads, and of waiting for the turn, in nanoseconds.
    pub positioning_ns: u64,
    /// Time in which the heads were at work, in nanoseconds.
    pub busy_ns: u64,
}

/// A read that waits for the arm.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    number: u64,
    first: u32,
    count: u32,
    since_ns: u64,
}

/// What the head has read ahead, or is going to.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    first: u32,
    next: u32,
    next_ns: u64,
    end: u32,
}

/// What the arm does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A read, by its number.
    Read {
        /// Its number.
        number: u64,
        /// First sector.
        first: u32,
        /// Sectors.
        count: u32,
    },
    /// Written sectors.
    Write(Run),
    /// Nothing before that time, unless something comes; `u64::MAX` is never.
    Nothing(u64),
}

/// A disk's state, below its core.
pub struct Disk {
    config: DiskConfig,
    geometry: DiskGeometry,
    sectors: u32,
    /// Until the disk is powered off.
    pub(crate) platters: RefCell<Option<Platters>>,
    pub(crate) buffer: RefCell<WriteBuffer>,
    reads: RefCell<VecDeque<Waiting>>,
    /// Number of the latest read.
    numbers: Cell<u64>,
    /// Cylinder and head that the arm is at.
    at: Cell<(u32, u32)>,
    /// The sector after the one that was transferred last.
    next: Cell<u32>,
    ahead: Cell<Option<Ahead>>,
    last_read_ns: Cell<u64>,
    /// Somebody waits for written sectors to be on the platter.
    pub(crate) urgent: Cell<u32>,
    /// Writes that could not be made since power-on.
    pub(crate) failures: Cell<u64>,
    pub(crate) counters: Cell<DiskCounters>,
    /// Wakes the arm.
    pub(crate) work: Alarm,
    /// Something has been read or is on the platter.
    pub(crate) done: Notify,
}

impl Disk {
    /// A disk at rest over its platters. `sectors` are those that it shows.
    pub fn new(config: &DiskConfig, sectors: u32, platters: Platters) -> Disk {
        let buffered = config.write_buffer_bytes / 4096;
        Disk {
            geometry: DiskGeometry::new(config),
            config: config.clone(),
            sectors,
            platters: RefCell::new(Some(platters)),
            buffer: RefCell::new(WriteBuffer::new(buffered as usize)),
            reads: RefCell::default(),
            numbers: Cell::new(0),
            at: Cell::new((0, 0)),
            next: Cell::new(0),
            ahead: Cell::new(None),
            last_read_ns: Cell::new(0),
            urgent: Cell::new(0),
            failures: Cell::new(0),
            counters: Cell::default(),
            work: Alarm::default(),
            done: Notify::new(),
        }
    }

    /// Sectors that it shows.
    pub fn sectors(&self) -> u32 {
        self.sectors
    }

    /// Changes what is counted.
    pub(crate) fn count(&self, change: impl FnOnce(&mut DiskCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// Has sectors be read; gives the read's number.
    pub fn ask(&self, now_ns: u64, first: u32, count: u32) -> u64 {
        let number = self.numbers.get() + 1;
        self.numbers.set(number);
        self.reads.borrow_mut().push_back(Waiting {
            number,
            first,
            count,
            since_ns: now_ns,
        });
        number
    }

    /// Whether a read is still to be served.
    pub fn is_waiting(&self, number: u64) -> bool {
        self.reads.borrow().iter().any(|read| read.number == number)
    }

    /// A read has been served.
    pub(crate) fn end_read(&self, number: u64, now_ns: u64) {
        self.reads.borrow_mut().retain(|read| read.number != number);
        self.last_read_ns.set(now_ns);
    }

    /// What to do next.
    pub(crate) fn choose(&self, now_ns: u64) -> Work {
        self.advance(now_ns);
        let reads = self.reads.borrow();
        let depth = self.config.queue_depth as usize;
        let known = reads.iter().take(depth);
        let of_reads = known.clone().enumerate().map(|(index, read)| Candidate {
            what: index as u64,
            positioning_ns: self.positioning_of_read(now_ns, read.first),
            since_ns: read.since_ns,
        });
        let buffer = self.buffer.borrow();
        let idle_ns = self.last_read_ns.get() + self.geometry.turn_ns();
        let full = buffer.sectors() * 4 > buffer.sectors_max() * 3;
        let writes = full || self.urgent.get() > 0 || reads.is_empty() && now_ns >= idle_ns;
        let runs = match writes {
            true => buffer.runs_near(self.next.get()),
            false => Vec::new(),
        };
        let of_writes = (depth as u64..).zip(&runs).map(|(what, run)| Candidate {
            what,
            positioning_ns: self.positioning(now_ns, run.first, true),
            since_ns: run.since_ns,
        });
        let chosen = choose(now_ns, self.config.aging_share, of_reads.chain(of_writes));
        match chosen.map(|one| one.what as usize) {
            None if buffer.sectors() > 0 => Work::Nothing(idle_ns),
            None => Work::Nothing(u64::MAX),
            Some(what) if what >= depth => Work::Write(runs[what - depth]),
            Some(what) => Work::Read {
                number: reads[what].number,
                first: reads[what].first,
                count: reads[what].count,
            },
        }
    }

    fn positioning(&self, now_ns: u64, first: u32, writes: bool) -> u64 {
        let place = self.geometry.place(first);
        let moved_ns = self.geometry.move_ns(self.at.get(), &place, writes);
        moved_ns + self.geometry.rotation_ns(now_ns + moved_ns, &place)
    }

    fn positioning_of_read(&self, now_ns: u64, first: u32) -> u64 {
        match self.ahead.get() {
            Some(ahead) if first >= ahead.first && first < ahead.next => 0,
            Some(ahead) if first == ahead.next && ahead.next < ahead.end => 0,
            _ => self.positioning(now_ns, first, false),
        }
    }

    /// Reads ahead what has passed below the head by now.
    fn advance(&self, now_ns: u64) {
        let Some(mut ahead) = self.ahead.get() else {
            return;
        };
        let most = ahead.end - ahead.next;
        let (read, end_ns) = self
            .geometry
            .stream_until(ahead.next_ns, ahead.next, most, now_ns);
        if read > 0 {
            (ahead.next, ahead.next_ns) = (ahead.next + read, end_ns);
            self.ahead.set(Some(ahead));
            self.stand_at(ahead.next - 1);
        }
    }

    fn stand_at(&self, sector: u32) {
        let place = self.geometry.place(sector);
        self.at.set((place.cylinder, place.head));
    }

    /// Begins a read; gives its end. What is read ahead is given at once.
    pub(crate) fn start_read(&self, now_ns: u64, first: u32, count: u32) -> u64 {
        let end = first + count;
        let read_ahead = (self.config.read_ahead_bytes / 4096) as u32;
        let (mut from, mut begin_ns) = (first, None);
        if let Some(ahead) = self.ahead.get()
            && first >= ahead.first
            && first <= ahead.next
        {
            if end <= ahead.next {
                self.next.set(end);
                return now_ns;
            }
            from = ahead.next;
            begin_ns = (ahead.next < ahead.end).then_some(ahead.next_ns);
        }
        let start_ns = begin_ns.unwrap_or_else(|| self.position(now_ns, from, first, false));
        let end_ns = self.geometry.stream(start_ns, from, end - from);
        self.count(|c| {
            c.media_reads += u64::from(end - from);
            c.busy_ns += end_ns - now_ns.min(end_ns);
        });
        self.stand_at(end - 1);
        self.next.set(end);
        self.ahead.set(Some(Ahead {
            first,
            next: end,
            next_ns: end_ns,
            end: end.saturating_add(read_ahead).min(self.sectors),
        }));
        end_ns.max(now_ns)
    }

    /// Begins to write sectors; gives the end.
    pub(crate) fn start_write(&self, now_ns: u64, run: Run) -> u64 {
        let start_ns = self.position(now_ns, run.first, run.first, true);
        let end_ns = self.geometry.stream(start_ns, run.first, run.count);
        self.count(|c| c.busy_ns += end_ns - now_ns);
        self.stand_at(run.first + run.count - 1);
        self.next.set(run.first + run.count);
        self.ahead.set(None);
        end_ns
    }

    /// Brings a head to sector `from`, of a command that begins at `first`; gives when it is there.
    fn position(&self, now_ns: u64, from: u32, first: u32, writes: bool) -> u64 {
        let positioning_ns = self.positioning(now_ns, from, writes);
        let goes_on = first == self.next.get();
        self.count(|c| {
            c.seeks += u64::from(!goes_on);
            c.read_seeks += u64::from(!goes_on && !writes);
            c.positioning_ns += positioning_ns;
        });
        now_ns + positioning_ns
    }
}
