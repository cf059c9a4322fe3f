//! The programs with which ScaleCache was measured, as its authors publish them:
//! github.com/syslab-cau/ScaleCache, `workloads/filebench/luma_scripts/*_bitbucket.f` and
//! `workloads/ffsb/workload_configuration/bitbucket`. They share little but their names with the
//! personalities that filebench ships.
//!
//! | program | processes of 64 | each of them |
//! |---|---|---|
//! | fileserver | 32 | writes 4 KiB at a random place of one file of the first set, again and again |
//! | | 32 | reads a file of the second set whole, 4 KiB at a time; then the next file |
//! | varmail | 43 | writes 4 KiB at a random place of one file of the first set, again and again |
//! | | 21 | deletes a file of the second set; creates one and writes it whole; appends, `fsync`; reads a file whole, appends to it, `fsync`; reads one whole |
//! | videoserver | 43 | writes 4 KiB at a random place of one passive video, again and again |
//! | | 21 | reads on in one active video, 256 KiB at a time, all of them together 96 MiB a second |
//! | FFSB | 64 | creates a file and writes it whole, or deletes one, or writes one over whole: each as likely |
//!
//! What follows from the programs' source rather than from the scripts:
//!
//! * A filebench process that writes without an `openfile` opens one file, the next of its set, and
//!   keeps it. So every writer has a file of its own, and nobody reads what they write: sets of two
//!   names are two folders.
//! * `readwholefile` goes to the next file of the set whenever one is opened, all processes in one
//!   rotation.
//! * FFSB's profile has seven operations of equal weight and no reads. `stat` and `open_close` move
//!   nothing. Nor do `write` and `append`: they are for 192 GiB each, which the program keeps in 32
//!   bits, where it is 0. Three are left.
//!
//! Ours are:
//!
//! * A process of varmail deletes, creates, appends to and reads files of its own part of the
//!   second set, where filebench gives it any that no other has open. One of FFSB has files of its
//!   own likewise, two places for each process with one file there at the beginning: when both are
//!   full the next creation replaces one.
//! * Events come one by one, where the program makes those of a tenth of a second at once: runs may be shorter than that.
//! * Where a number of requests bounds a run, the limit of the video's readers is one of requests too, as requests that
//!   are sent as fast as others end know no clock. Each makes one for so many of a writer as the writer makes meanwhile
//!   at the 16 GB/s that the paper's eight drives can write: the readers' part of the bytes is what
//!   it would be at that rate.
//! * A file that is appended to is written whole to fifteen sixteenths of its region, for room.

use crate::files::flow::{Act, Pick, Step, own_files};
use crate::files::{Personality, Regions};

/// Bytes of a read of the videoserver's readers.
pub(super) const VIDEO_READ_BYTES: u64 = 256 << 10;

/// Events a second that all readers of the videoserver share.
const VIDEO_EVENTS: u64 = 96;

/// Bytes that an event is good for.
const EVENT_BYTES: u64 = 1 << 20;

/// Bytes a second that all readers of the videoserver read together.
const VIDEO_RATE: u64 = VIDEO_EVENTS * EVENT_BYTES;

/// Reads of the videoserver's readers before the first one that has to wait.
const FREE_READS: u64 = 2;

/// Bytes a second that eight drives of the paper's set-up write (section 4: 2 GB/s each).
const DRIVES_RATE: u64 = 16_000_000_000;

/// Processes of 64 that write at random in varmail and videoserver.
const WRITERS: u64 = 43;

const WRITER: &[Step] = &[(Pick::Existing, Act::WriteSome)];

const FILE_READER: &[Step] = &[(Pick::Next, Act::ReadWhole)];

const MAIL: &[Step] = &[
    (Pick::Existing, Act::Delete),
    (Pick::New, Act::WriteWhole),
    (Pick::Same, Act::Append),
    (Pick::Same, Act::Fsync),
    (Pick::Existing, Act::ReadWhole),
    (Pick::Same, Act::Append),
    (Pick::Same, Act::Fsync),
    (Pick::Existing, Act::ReadWhole),
];

const VIDEO_READER: &[Step] = &[(Pick::Existing, Act::ReadOn)];

/// Any of them, as likely as the others.
const FFSB: &[Step] = &[
    (Pick::New, Act::WriteWhole),
    (Pick::Existing, Act::Delete),
    (Pick::Existing, Act::Overwrite),
];

/// What a process does, and with which files.
pub(super) struct Part {
    pub(super) steps: &'static [Step],
    pub(super) files: Vec<u32>,
    /// Turns that a request of it takes, where most take one.
    pub(super) turns: u64,
    /// What limits it where it is asked for requests as fast as they end.
    pub(super) limit: Option<Limit>,
}

/// Events that come at a rate and are taken one by one (filebench: `eventgen`).
#[derive(Debug, Clone, Default)]
pub(super) struct Events {
    taken: u64,
}

impl Events {
    /// When the next event comes, which is taken; in nanoseconds from the beginning.
    fn take(&mut self) -> u64 {
        self.taken += 1;
        self.taken * 1_000_000_000 / VIDEO_EVENTS
    }
}

/// The limit of a reader (filebench: `bwlimit`).
#[derive(Debug, Clone, Default)]
pub(super) struct Limit {
    reads: u64,
}

impl Limit {
    /// When the next read may begin, in nanoseconds from the beginning.
    pub(super) fn due_ns(&mut self, events: &mut Events) -> u64 {
        let number = self.reads;
        self.reads += 1;
        let needs_event = number
            .checked_sub(FREE_READS)
            .is_some_and(|paid| paid.is_multiple_of(EVENT_BYTES / VIDEO_READ_BYTES));
        if needs_event { events.take() } else { 0 }
    }
}

impl Part {
    pub(super) fn new(steps: &'static [Step], files: Vec<u32>) -> Part {
        Part {
            steps,
            files,
            turns: 1,
            limit: None,
        }
    }
}

/// The part of a process in one of these programs; `None` in others.
pub(super) fn part(personality: Personality, regions: &Regions, thread: u32) -> Option<Part> {
    let writers = writers(personality, regions.threads)?;
    let half = regions.files / 2;
    if personality == Personality::FfsbScaleCache {
        return Some(Part::new(FFSB, own_files(regions, thread)));
    }
    if personality == Personality::VideoserverScaleCache {
        let mut part = Part::new(WRITER, vec![thread]);
        if thread >= writers {
            part.steps = VIDEO_READER;
            part.turns = video_turns(regions, writers);
            part.limit = Some(Limit::default());
        }
        return Some(part);
    }
    if thread < writers {
        return Some(Part::new(WRITER, vec![thread % half]));
    }
    let second = half..regions.files;
    Some(match personality {
        Personality::FileserverScaleCache => Part::new(FILE_READER, second.collect()),
        _ => {
            let (own, readers) = (thread - writers, regions.threads - writers);
            let own = second.skip(own as usize).step_by(readers as usize);
            Part::new(MAIL, own.collect())
        }
    })
}

/// Seconds that one of these programs runs; `None` for others.
pub(super) fn run_seconds(personality: Personality) -> Option<u64> {
    match personality {
        Personality::FileserverScaleCache
        | Personality::VarmailScaleCache
        | Personality::VideoserverScaleCache => Some(60),
        Personality::FfsbScaleCache => Some(30),
        _ => None,
    }
}

/// Processes that write at random.
fn writers(personality: Personality, threads: u32) -> Option<u32> {
    match personality {
        Personality::FileserverScaleCache => Some(threads.div_ceil(2)),
        Personality::VarmailScaleCache | Personality::VideoserverScaleCache => {
            // Rounded, so that two threads are one of each.
            Some(((u64::from(threads) * WRITERS + 32) / 64) as u32)
        }
        Personality::FfsbScaleCache => Some(threads),
        _ => None,
    }
}

/// Requests of a writer for one of a reader.
fn video_turns(regions: &Regions, writers: u32) -> u64 {
    let readers = u64::from(regions.threads - writers);
    let writes = DRIVES_RATE / regions.request_bytes / u64::from(writers);
    let reads = VIDEO_RATE / VIDEO_READ_BYTES / readers;
    (writes / reads.max(1)).max(1)
}

/// Bytes of a file that is written whole, in such a region; `None` in programs that are not these.
pub(super) fn whole_bytes(personality: Personality, region_pages: u64) -> Option<u64> {
    let pages = match personality {
        Personality::VarmailScaleCache => region_pages - region_pages.div_ceil(16),
        Personality::FileserverScaleCache
        | Personality::VideoserverScaleCache
        | Personality::FfsbScaleCache => region_pages,
        _ => return None,
    };
    Some(pages * crate::request::PAGE_BYTES)
}

/// Whether a file is there at the beginning.
pub(super) fn exists_first(personality: Personality, regions: &Regions, file: u32) -> bool {
    personality != Personality::FfsbScaleCache || file < regions.threads
}
