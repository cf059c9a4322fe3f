//! Threads that loop through a list of file operations: filebench's personalities, and FFSB.
//!
//! The lists are those of the files that filebench publishes (`workloads/fileserver.f`, `varmail.f` and
//! `videoserver.f` of filebench 1.5), step by step. A file is opened before the first step that needs it open, and closed before
//! the first step about another one; those that write at random, or read on, in one file keep it open. Ours are:
//!
//! * Sizes: a whole file is three quarters of its region, so that appends have room; a video fills its region. They are
//!   all alike, where filebench draws them around a mean. Reads and writes have the workload's request size.
//! * An append is of 1 to 4 pages (filebench: up to 16 KiB, to the byte); without room it is left out.
//! * Each thread has files of its own. A new file is one that does not exist; if all do, one is replaced.
//! * The readers of videoserver read as fast as they can (filebench: at a rate), each a whole video at a time.
//! * FFSB is a set of weights, and has none of its own. Ours are 45 % reads and 45 % overwrites of
//!   one request at a random place, and 10 % appends; a file that is full is cut back to three
//!   quarters of its region.
//!
//! The programs with which ScaleCache was measured are other ones: see `published.rs`; the web server and proxy have sizes and
//! directories of their own: see `web.rs`.

use crate::files::published::{self, Events, Limit, Part, VIDEO_READ_BYTES};
use crate::files::{FileOpKind, OpenHow, Personality, Regions, Run, Runs, web};
use crate::generate::{SeededRng, probability};
use crate::request::PAGE_BYTES;

/// Most pages of an append: `meanappendsize` of fileserver and varmail, 16 KiB.
const APPEND_PAGES_MAX: u64 = 4;

/// Share of files of videoserver that are watched: 32 of 226.
const WATCHED: (u64, u64) = (32, 226);

/// Which file a step is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pick {
    /// One that does not exist.
    New,
    /// One that does.
    Existing,
    /// That of the step before.
    Same,
    /// The next in the rotation of all threads.
    Next,
    /// Any of the thread's files: all are there.
    Any,
    /// The last file of all, which every thread appends to.
    Log,
}

/// What is done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Create,
    WriteWhole,
    Append,
    ReadWhole,
    /// The same, opened for it even if it is the one of the step before.
    ReadFresh,
    Fsync,
    Delete,
    Stat,
    ReadSome,
    WriteSome,
    /// All that it holds is written over.
    Overwrite,
    /// A large read where the thread's last one ended, and again from the start.
    ReadOn,
}

pub(super) type Step = (Pick, Act);

/// How a file is opened that is written anew.
const ANEW: OpenHow = OpenHow::CREATE.and(OpenHow::TRUNCATE);

const FILESERVER: &[Step] = &[
    (Pick::New, Act::WriteWhole),
    (Pick::Existing, Act::Append),
    (Pick::Existing, Act::ReadWhole),
    (Pick::Existing, Act::Delete),
    (Pick::Existing, Act::Stat),
];

const VARMAIL: &[Step] = &[
    (Pick::Existing, Act::Delete),
    (Pick::New, Act::Create),
    (Pick::Same, Act::Append),
    (Pick::Same, Act::Fsync),
    (Pick::Existing, Act::ReadWhole),
    (Pick::Same, Act::Append),
    (Pick::Same, Act::Fsync),
    (Pick::Existing, Act::ReadWhole),
];

const VIDEO_WRITER: &[Step] = &[(Pick::Existing, Act::Delete), (Pick::New, Act::WriteWhole)];

const VIDEO_READER: &[Step] = &[(Pick::Existing, Act::ReadWhole)];

/// Of FFSB a thread takes any step, by weight: one of twenty each.
const FFSB: &[Step] = {
    const READ: Step = (Pick::Existing, Act::ReadSome);
    const WRITE: Step = (Pick::Existing, Act::WriteSome);
    const APPEND: Step = (Pick::Existing, Act::Append);
    &[
        READ, READ, READ, READ, READ, READ, READ, READ, READ, WRITE, WRITE, WRITE, WRITE, WRITE,
        WRITE, WRITE, WRITE, WRITE, APPEND, APPEND,
    ]
};

/// A thread.
#[derive(Debug, Clone)]
struct Thread {
    steps: &'static [Step],
    next: usize,
    files: Vec<u32>,
    /// The file of the step before.
    file: Option<u32>,
    /// The file that it has open.
    open: Option<u32>,
    /// Where its last read ended.
    position: u64,
    /// Turns that a request of it takes.
    turns: u64,
    /// What keeps it from making more, if something does.
    limit: Option<Limit>,
    rng: SeededRng,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    personality: Personality,
    regions: Regions,
    is_weighted: bool,
    whole_bytes: u64,
    threads: Vec<Thread>,
    /// Bytes of each file; `None` for one that does not exist.
    lengths: Vec<Option<u64>>,
    /// Files given out by rotation.
    rotation: usize,
    /// What threads with a limit wait for.
    events: Events,
}

impl Flow {
    pub(super) fn new(personality: Personality, regions: Regions, mut rng: SeededRng) -> Flow {
        let is_video = personality == Personality::Videoserver;
        let whole = |share: u64| regions.bytes / 4 * share / PAGE_BYTES * PAGE_BYTES;
        let (whole_bytes, first_bytes, existing) = match personality {
            Personality::Varmail => (whole(3), APPEND_PAGES_MAX * PAGE_BYTES, 0.8),
            Personality::Videoserver => (regions.bytes, regions.bytes, 0.5),
            Personality::Fileserver | Personality::Webproxy => (whole(3), whole(3), 0.8),
            _ => match published::whole_bytes(personality, regions.bytes / PAGE_BYTES) {
                Some(whole) => (whole, whole, 1.0),
                None => (whole(3), whole(3), 1.0),
            },
        };
        let watched = (u64::from(regions.files) * WATCHED.0 / WATCHED.1).max(1) as u32;
        let exists = probability(existing);
        let drawn = web::steps(personality).map(|_| web::sizes(&regions, &mut rng));
        let bytes = |file| {
            drawn
                .as_ref()
                .map_or(first_bytes, |sizes| sizes[file as usize])
        };
        let lengths = (0..regions.files)
            .map(|file| {
                let there = rng.chance(exists) || (is_video && file < watched);
                let there = there && published::exists_first(personality, &regions, file);
                there.then_some(bytes(file))
            })
            .collect();
        let mut thread = |thread: u32| {
            let standard = || {
                let (steps, files): (_, Vec<u32>) = match personality {
                    Personality::Videoserver if thread == 0 => {
                        (VIDEO_WRITER, (watched..regions.files).collect())
                    }
                    Personality::Videoserver => (VIDEO_READER, (0..watched).collect()),
                    Personality::Webserver => {
                        (steps_of(personality), (0..regions.files - 1).collect())
                    }
                    _ => (steps_of(personality), own_files(&regions, thread)),
                };
                Part::new(steps, files)
            };
            let part = published::part(personality, &regions, thread).unwrap_or_else(standard);
            Thread {
                steps: part.steps,
                next: 0,
                files: part.files,
                file: None,
                open: None,
                position: 0,
                turns: part.turns,
                limit: part.limit,
                rng: SeededRng::child(rng.bits(), "thread"),
            }
        };
        Flow {
            personality,
            threads: (0..regions.threads).map(&mut thread).collect(),
            is_weighted: matches!(personality, Personality::Ffsb | Personality::FfsbScaleCache),
            regions,
            whole_bytes,
            lengths,
            rotation: 0,
            events: Events::default(),
        }
    }

    /// Whether all threads append to one file.
    pub(super) fn has_log(&self) -> bool {
        self.personality == Personality::Webserver
    }

    /// The directories of a file and its name, where they are not those of its thread.
    pub(super) fn path(&self, file: u32) -> Option<Vec<String>> {
        web::path(self.personality, &self.regions, file)
    }

    /// Turns that a request of a thread takes.
    pub(super) fn turns(&self, thread: u32) -> u64 {
        self.threads[thread as usize].turns
    }

    /// When a thread may begin its next step, in nanoseconds from the beginning.
    pub(super) fn due_ns(&mut self, thread: u32) -> u64 {
        let limit = self.threads[thread as usize].limit.as_mut();
        limit.map_or(0, |limit| limit.due_ns(&mut self.events))
    }

    pub(super) fn initial(&self) -> Vec<Option<u64>> {
        self.lengths.clone()
    }

    pub(super) fn owners(&self) -> Vec<Option<u32>> {
        let mut users = vec![Vec::new(); self.lengths.len()];
        for (number, thread) in (0..).zip(&self.threads) {
            let files = thread.files.iter();
            files.for_each(|file| users[*file as usize].push(number));
        }
        let owner = |users: Vec<u32>| match users[..] {
            [only] => Some(only),
            _ => None,
        };
        users.into_iter().map(owner).collect()
    }

    /// Plans the next step of a thread.
    pub(super) fn plan(&mut self, thread: u32, runs: &mut Runs) {
        let (act, file) = self.next_step(thread);
        if let Some(file) = file {
            self.open(thread, act, file, runs);
            self.act(thread, act, file, runs);
        }
    }

    /// Closes what the thread has open and does not need any more, and opens what it needs.
    fn open(&mut self, number: u32, act: Act, file: u32, runs: &mut Runs) {
        let thread = &mut self.threads[number as usize];
        let keeps_open = thread.steps.len() == 1 && matches!(act, Act::WriteSome | Act::ReadOn);
        let is_log = self.personality == Personality::Webserver && act == Act::Append;
        if keeps_open || is_log {
            return;
        }
        let run = |kind, how, file, end| Run {
            how,
            ..Run::new(kind, file, (0, end), 0)
        };
        let needs = match act {
            Act::Delete | Act::Stat => None,
            _ => Some(file),
        };
        let makes = matches!(act, Act::Create | Act::WriteWhole);
        let anew = makes || act == Act::ReadFresh;
        if thread.open.is_some() && (thread.open != needs || anew) {
            let open = thread.open.take().expect("just seen");
            runs.push_back(run(FileOpKind::Close, OpenHow::EXISTING, open, 0));
        }
        if needs.is_none() || thread.open == needs {
            return;
        }
        thread.open = needs;
        let old = self.lengths[file as usize].unwrap_or(0);
        let (how, cut) = if makes {
            (ANEW, old)
        } else {
            (OpenHow::EXISTING, 0)
        };
        runs.push_back(run(FileOpKind::Open, how, file, cut));
    }

    fn next_step(&mut self, thread: u32) -> (Act, Option<u32>) {
        let (thread, lengths) = (&mut self.threads[thread as usize], &self.lengths);
        let step = match self.is_weighted {
            true => thread.rng.below(thread.steps.len() as u64) as usize,
            false => thread.next,
        };
        thread.next = (thread.next + 1) % thread.steps.len();
        let (pick, act) = thread.steps[step];
        thread.file = match pick {
            Pick::Same => thread.file,
            Pick::Next => {
                self.rotation += 1;
                Some(thread.files[(self.rotation - 1) % thread.files.len()])
            }
            Pick::Any => {
                let nth = thread.rng.below(thread.files.len() as u64);
                Some(thread.files[nth as usize])
            }
            Pick::Log => Some(self.regions.files - 1),
            Pick::Existing => thread.pick(|file| lengths[file as usize].is_some()),
            Pick::New => thread
                .pick(|file| lengths[file as usize].is_none())
                .or_else(|| thread.pick(|_| true)),
        };
        (act, thread.file)
    }

    fn act(&mut self, thread: u32, act: Act, file: u32, runs: &mut Runs) {
        let Thread { rng, position, .. } = &mut self.threads[thread as usize];
        let length = self.lengths[file as usize];
        let old = length.unwrap_or(0);
        let piece = match act {
            Act::ReadOn => VIDEO_READ_BYTES,
            _ => self.regions.request_bytes,
        };
        let mut run = |kind: FileOpKind, at: u64, end: u64| {
            if kind.moves_data() && at == end {
                return;
            }
            runs.push_back(Run::new(kind, file, (at, end), piece));
        };
        let new = match act {
            // It was cut when it was opened.
            Act::Create => Some(0),
            Act::WriteWhole => {
                run(FileOpKind::Write, 0, self.whole_bytes);
                Some(self.whole_bytes)
            }
            Act::Append => {
                let bytes = (1 + rng.below(APPEND_PAGES_MAX)) * PAGE_BYTES;
                let is_full = old + bytes > self.regions.bytes;
                let kept = match self.personality {
                    Personality::Webserver => 0,
                    _ => self.whole_bytes,
                };
                let is_cut = self.is_weighted || self.personality == Personality::Webserver;
                let from = match is_cut && is_full {
                    true => {
                        run(FileOpKind::Truncate, kept, old);
                        kept
                    }
                    false => old,
                };
                let end = (from + bytes).min(self.regions.bytes);
                run(FileOpKind::Append, from, end);
                Some(end)
            }
            Act::ReadWhole | Act::ReadFresh => {
                run(FileOpKind::Read, 0, old);
                length
            }
            Act::Fsync => {
                run(FileOpKind::Fsync, 0, old);
                length
            }
            Act::Delete => {
                run(FileOpKind::Remove, 0, old);
                None
            }
            Act::Stat => {
                run(FileOpKind::Stat, 0, 0);
                length
            }
            Act::Overwrite => {
                run(FileOpKind::Write, 0, old);
                length
            }
            Act::ReadOn => {
                let from = if *position < old { *position } else { 0 };
                *position = (from + VIDEO_READ_BYTES).min(old);
                run(FileOpKind::Read, from, *position);
                length
            }
            Act::ReadSome | Act::WriteSome => {
                let bytes = self.regions.request_bytes.min(old);
                let at = rng.below((old - bytes) / PAGE_BYTES + 1) * PAGE_BYTES;
                let kind = if act == Act::ReadSome {
                    FileOpKind::Read
                } else {
                    FileOpKind::Write
                };
                run(kind, at, at + bytes);
                length
            }
        };
        self.lengths[file as usize] = new;
    }
}

impl Thread {
    /// One of its files that is as asked for.
    fn pick(&mut self, is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let wanted = |file: &u32| is_wanted(*file);
        let count = self.files.iter().copied().filter(wanted).count() as u64;
        let nth = self.rng.below(count.max(1)) as usize;
        self.files.iter().copied().filter(wanted).nth(nth)
    }
}

fn steps_of(personality: Personality) -> &'static [Step] {
    match personality {
        Personality::Varmail => VARMAIL,
        Personality::Ffsb => FFSB,
        _ => web::steps(personality).unwrap_or(FILESERVER),
    }
}

/// The files that are a thread's own.
pub(super) fn own_files(regions: &Regions, thread: u32) -> Vec<u32> {
    (thread..regions.files)
        .step_by(regions.threads as usize)
        .collect()
}
