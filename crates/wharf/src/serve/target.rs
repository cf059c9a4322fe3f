//! A file, a block device or an array, served straight.
//!
//! 1. A seat has a channel. Reads and writes are its I/Os, as many under way as the client has sent, and
//!    end in any order. The thread waits for the ring and for the socket together.
//! 2. A write that is to be durable is followed by a flush of the channel before it is answered.
//! 3. Holes are made and found by calls on the file system, on threads beside; where there are no holes
//!    zeros are written, a piece at a time.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use wharf_nbd::pool::{Inbox, Pool};
use wharf_nbd::{
    Answer, Buffer, Can, Data, Errno, Export, ExportInfo, Job, Outcome, Seat, Tag, Waiting,
};
use wharf_storage::array::Array;
use wharf_storage::{
    AlignedBuffer, Channel, Completion, FileOptions, Io, PollGroup, Segment, Target,
};

use super::extents::extents;

/// I/Os of a connection that are under way at a time.
const DEPTH: u32 = 256;
/// Threads for calls on the file system.
const THREADS: u32 = 4;
/// Zeros that are written by one I/O, in bytes.
const ZEROS_BYTES: usize = 1 << 20;
/// Holes are made in steps of so many bytes: others have their turn at the file between them.
const STEP_BYTES: u64 = 256 << 20;
/// An array's tasks may wait for other threads, which do not ring: how often to look, in microseconds.
const LOOK_US: u32 = 500;

/// How a target is served.
#[derive(Debug, Clone)]
pub struct Serving {
    /// The name of the export.
    pub name: String,
    /// Writes are refused.
    pub read_only: bool,
}

/// See the module.
pub struct TargetExport {
    info: ExportInfo,
    target: Arc<dyn Target>,
    /// The same, if it is one that has to be closed.
    array: Mutex<Option<Arc<Array>>>,
    is_array: bool,
    zeros: AlignedBuffer,
    pool: Pool,
}

impl TargetExport {
    /// Serves a file or device; makes the file if there is none and `create_bytes` says how large.
    ///
    /// # Errors
    /// If it cannot be opened, or somebody else has it.
    pub fn file(
        path: &Path,
        create_bytes: Option<u64>,
        how: &Serving,
    ) -> Result<TargetExport, String> {
        let target = open_file(path, create_bytes, how.read_only)?;
        TargetExport::new(target, None, how)
    }

    /// Serves an array, which is closed in the end.
    ///
    /// # Errors
    /// If it cannot be put together of these members.
    pub fn array(members: &[PathBuf], how: &Serving) -> Result<TargetExport, String> {
        let open = |path: &PathBuf| open_file(path, None, false);
        let targets: Vec<_> = members.iter().map(open).collect::<Result<_, _>>()?;
        let array = Array::open(&targets, false).map_err(|error| error.to_string())?;
        let array = Arc::new(array);
        TargetExport::new(array.clone(), Some(array), how)
    }

    fn new(
        target: Arc<dyn Target>,
        array: Option<Arc<Array>>,
        how: &Serving,
    ) -> Result<TargetExport, String> {
        let info = info(&*target, how);
        Ok(TargetExport {
            info,
            is_array: array.is_some(),
            array: Mutex::new(array),
            target,
            zeros: AlignedBuffer::new(ZEROS_BYTES),
            pool: Pool::new(THREADS).map_err(|error| error.to_string())?,
        })
    }
}

/// Opens a file or device for this program alone.
pub(super) fn open_file(
    path: &Path,
    create_bytes: Option<u64>,
    read_only: bool,
) -> Result<Arc<dyn Target>, String> {
    let options = FileOptions {
        read_only,
        create_bytes,
        exclusive: !read_only,
        ..FileOptions::default()
    };
    wharf_storage::open(path, &options).map_err(|error| error.to_string())
}

/// What a target is to clients.
pub(super) fn info(target: &dyn Target, how: &Serving) -> ExportInfo {
    let about = target.info();
    let block_bytes = about.block_bytes;
    let preferred = about.optimal_io_bytes.max(4096).next_power_of_two();
    let has_holes = target.holes().is_some();
    ExportInfo {
        name: how.name.clone(),
        description: format!("{} ({})", about.name, about.access),
        // Blocks are whole for clients.
        size_bytes: target.size_bytes() / u64::from(block_bytes) * u64::from(block_bytes),
        block_bytes_min: block_bytes,
        block_bytes_preferred: preferred.clamp(block_bytes, 1 << 20),
        can: Can {
            write: !how.read_only && !about.read_only,
            flush: true,
            trim: has_holes,
            zero: true,
            fast_zero: true,
            cache: false,
            status: has_holes,
            multi_conn: true,
        },
    }
}

impl Export for TargetExport {
    fn info(&self) -> &ExportInfo {
        &self.info
    }

    fn seat(&self) -> Result<Box<dyn Seat + '_>, String> {
        let group = PollGroup::new();
        let channel = self.target.channel_in(&group, DEPTH);
        Ok(Box::new(TargetSeat {
            export: self,
            channel: channel.map_err(|error| error.to_string())?,
            group,
            works: Vec::new(),
            free: Vec::new(),
            backlog: VecDeque::new(),
            inbox: Inbox::new().map_err(|error| error.to_string())?,
            under_way: 0,
        }))
    }

    fn close(&self) -> Result<(), String> {
        let mut array = self.array.lock().unwrap_or_else(PoisonError::into_inner);
        if self.info.can.write && array.take().is_none() {
            return wharf_storage::Blocking::new(&*self.target)
                .map_err(|error| error.to_string())?
                .flush()
                .map_err(|error| error.to_string());
        }
        Ok(())
    }
}

/// What is still to be done of a job after its present I/O.
enum Work {
    Read(Buffer),
    Write {
        /// Memory of the write, which the channel reads.
        _buffer: Buffer,
        fua: bool,
    },
    Flush,
    /// Writes zeros.
    Zero {
        offset: u64,
        len: u64,
        fua: bool,
    },
}

struct TargetSeat<'a> {
    // The order of the fields is the order of their end: the channel waits for what it has.
    channel: Box<dyn Channel>,
    group: PollGroup,
    export: &'a TargetExport,
    works: Vec<Option<(Tag, Work)>>,
    free: Vec<usize>,
    /// What waits for room in the channel.
    backlog: VecDeque<Step>,
    inbox: Arc<Inbox>,
    under_way: usize,
}

/// An I/O of a job.
#[derive(Clone, Copy)]
struct Step {
    work: usize,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Read(u64, Segment),
    Write(u64, Segment),
    Flush,
}

impl TargetSeat<'_> {
    fn start(&mut self, tag: Tag, work: Work, what: What) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.works.push(None);
            self.works.len() - 1
        });
        self.works[index] = Some((tag, work));
        self.under_way += 1;
        self.submit(Step { work: index, what });
    }

    fn submit(&mut self, step: Step) {
        if !self.backlog.is_empty() || !self.try_submit(step) {
            self.backlog.push_back(step);
        }
    }

    fn try_submit(&mut self, step: Step) -> bool {
        let tag = step.work as u64;
        let segments;
        let io = match step.what {
            What::Read(offset, segment) => {
                segments = [segment];
                Io::read(offset, &segments, tag)
            }
            What::Write(offset, segment) => {
                segments = [segment];
                Io::write(offset, &segments, tag)
            }
            What::Flush => Io::flush(tag),
        };
        // SAFETY: the memory is a buffer in `works`, which stays there until the I/O is reported, or the
        // export's zeros, which outlive the channel and are only written from.
        unsafe { self.channel.submit(io) }.is_ok()
    }

    /// Begins the next piece of zeros, from `offset` on.
    fn zeros(&self, offset: u64, len: u64) -> What {
        let count = len.min(ZEROS_BYTES as u64) as usize;
        What::Write(offset, Segment::of_const(&self.export.zeros[..count]))
    }

    /// Has a job end, or go on.
    fn ended(&mut self, completion: Completion, done: &mut dyn FnMut(Tag, Outcome)) {
        let index = completion.tag as usize;
        let (tag, work) = self.works[index].take().expect("it is under way");
        let (next, outcome) = match (completion.result, work) {
            (Err(error), _) => {
                let errno = Errno::of_system(error.errno.raw_os_error());
                (None, Err(errno))
            }
            (Ok(()), Work::Read(buffer)) => (None, Ok(Answer::Buffer(buffer))),
            (Ok(()), Work::Write { fua: true, .. }) => (Some(Work::Flush), Ok(Answer::Nothing)),
            (Ok(()), Work::Zero { offset, len, fua }) => {
                let step = len.min(ZEROS_BYTES as u64);
                let (offset, len) = (offset + step, len - step);
                let next = match (len, fua) {
                    (0, true) => Some(Work::Flush),
                    (0, false) => None,
                    _ => Some(Work::Zero { offset, len, fua }),
                };
                (next, Ok(Answer::Nothing))
            }
            (Ok(()), Work::Write { .. } | Work::Flush) => (None, Ok(Answer::Nothing)),
        };
        if let Some(work) = next {
            let what = match work {
                Work::Zero { offset, len, .. } => self.zeros(offset, len),
                _ => What::Flush,
            };
            self.works[index] = Some((tag, work));
            return self.submit(Step { work: index, what });
        }
        self.free.push(index);
        self.under_way -= 1;
        done(tag, outcome);
    }

    /// Makes a hole, or zeros without writing them, on a thread beside.
    fn make_hole(&mut self, tag: Tag, hole: Hole, fua: bool) {
        let target = self.export.target.clone();
        self.export.pool.run(tag, &self.inbox, move || {
            hole.make(&*target)?;
            if fua {
                flush(&*target)?;
            }
            Ok(Answer::Nothing)
        });
    }
}

/// Makes durable what was done to a target beside its channels.
pub(super) fn flush(target: &dyn Target) -> Result<(), Errno> {
    let flushed = wharf_storage::Blocking::new(target).map(|mut one| one.flush());
    match flushed {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Errno::of_system(error.errno.raw_os_error())),
        Err(_) => Err(Errno::Io),
    }
}

/// A hole to be made.
#[derive(Clone, Copy)]
struct Hole {
    offset: u64,
    len: u64,
    /// It is zeros with room, not a hole.
    keeps_room: bool,
    /// What lies there need not be zeros then.
    is_hint: bool,
    fast: bool,
}

impl Hole {
    fn make(self, target: &dyn Target) -> Result<(), Errno> {
        let holes = target.holes().ok_or(Errno::NotSupported)?;
        if self.fast && self.keeps_room && !holes.zeroes_quickly() {
            return Err(Errno::NotSupported);
        }
        let (mut at, end) = (self.offset, self.offset + self.len);
        while at < end {
            let step = STEP_BYTES.min(end - at);
            let made = match self.keeps_room {
                true => holes.zero(at, step),
                false => holes.punch(at, step),
            };
            match made.map_err(|errno| Errno::of_system(errno.raw_os_error())) {
                Ok(()) => {}
                Err(Errno::NotSupported) if self.is_hint => return Ok(()),
                Err(Errno::NotSupported) if !self.fast => return write_zeros(target, at, end - at),
                Err(errno) => return Err(errno),
            }
            at += step;
        }
        Ok(())
    }
}

/// Writes zeros where the file system makes none.
fn write_zeros(target: &dyn Target, offset: u64, len: u64) -> Result<(), Errno> {
    let mut one = wharf_storage::Blocking::new(target).map_err(|_| Errno::Io)?;
    let zeros = AlignedBuffer::new(ZEROS_BYTES);
    let (mut at, end) = (offset, offset + len);
    while at < end {
        let step = (end - at).min(ZEROS_BYTES as u64);
        one.write(at, &zeros[..step as usize])
            .map_err(|error| Errno::of_system(error.errno.raw_os_error()))?;
        at += step;
    }
    Ok(())
}

impl Seat for TargetSeat<'_> {
    fn begin(&mut self, tag: Tag, job: Job) -> Option<Outcome> {
        match job {
            Job::Read { mut buffer, .. } if buffer.is_empty() => {
                buffer.fill(0);
                return Some(Ok(Answer::Buffer(buffer)));
            }
            Job::Read { offset, mut buffer } => {
                let what = What::Read(offset, Segment::of(&mut buffer));
                self.start(tag, Work::Read(buffer), what);
            }
            Job::Write {
                offset,
                data: Data::Buffer(buffer),
                fua,
            } if !buffer.is_empty() => {
                let what = What::Write(offset, Segment::of_const(&buffer));
                let work = Work::Write {
                    _buffer: buffer,
                    fua,
                };
                self.start(tag, work, what);
            }
            Job::Write { .. } | Job::Cache { .. } => return Some(Ok(Answer::Nothing)),
            Job::Flush => self.start(tag, Work::Flush, What::Flush),
            Job::Trim { len: 0, .. } | Job::Zero { len: 0, .. } => {
                return Some(Ok(Answer::Nothing));
            }
            Job::Trim { offset, len, fua } => {
                let hole = Hole {
                    offset,
                    len,
                    keeps_room: false,
                    is_hint: true,
                    fast: false,
                };
                self.make_hole(tag, hole, fua);
            }
            Job::Zero {
                offset,
                len,
                no_hole,
                fast,
                fua,
            } => {
                if self.export.target.holes().is_some() {
                    let hole = Hole {
                        offset,
                        len,
                        keeps_room: no_hole,
                        is_hint: false,
                        fast,
                    };
                    self.make_hole(tag, hole, fua);
                } else if fast {
                    return Some(Err(Errno::NotSupported));
                } else {
                    let what = self.zeros(offset, len);
                    self.start(tag, Work::Zero { offset, len, fua }, what);
                }
            }
            Job::Status {
                offset,
                len,
                extents_max,
            } => {
                let target = self.export.target.clone();
                let find = move || extents(&*target, offset, len, extents_max);
                self.export.pool.run(tag, &self.inbox, find);
            }
        }
        None
    }

    fn poll(&mut self, done: &mut dyn FnMut(Tag, Outcome)) {
        self.inbox.take(done);
        loop {
            let mut ended = Vec::new();
            if self.under_way > 0 {
                self.channel.poll(&mut |completion| ended.push(completion));
            }
            let is_quiet = ended.is_empty();
            for completion in ended {
                self.ended(completion, done);
            }
            while let Some(step) = self.backlog.front().copied() {
                if !self.try_submit(step) {
                    break;
                }
                self.backlog.pop_front();
            }
            // What has ended may have begun something else.
            if is_quiet {
                return;
            }
        }
    }

    fn waiting(&self) -> Waiting {
        let ring = match self.under_way {
            0 => None,
            _ => self.group.descriptor(),
        };
        // Without a ring, or with tasks that wait for other threads, nobody rings.
        let look = self.under_way > 0 && (ring.is_none() || self.export.is_array);
        match (ring, self.inbox.descriptor()) {
            (None, None) if !look => Waiting::Nothing,
            (ring, inbox) => Waiting::For([ring, inbox], look.then_some(LOOK_US)),
        }
    }
}
