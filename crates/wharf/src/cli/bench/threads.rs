//! One row, one round: threads that send the job's requests down their ways, check what they read, and time it.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use wharf_runtime::clock::Clock;
use wharf_runtime::sync::Ordering;
use wharf_storage::{AlignedBuffer, Op};

use super::job::{Job, Request, Requests};
use super::stamp::{Mismatch, PAGE_BYTES, Stamps, Versions};
use super::way::{Slot, Way};

/// Latencies from a nanosecond to a minute, to three digits.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("fixed bounds")
}

/// Why a row failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The file holds something else than was written.
    #[error(transparent)]
    Data(#[from] Mismatch),
    /// A request failed.
    #[error("{0}")]
    Io(String),
}

/// What threads do alike.
pub(super) struct Run<'a> {
    pub(super) job: &'a Job,
    pub(super) round: u32,
    /// Requests under way at a time: the job's depth, or 1 where calls wait.
    pub(super) depth: u32,
    pub(super) stamps: Stamps,
    pub(super) versions: &'a Versions,
    /// Somebody wants it to end.
    pub(super) stop: &'a AtomicBool,
}

/// What was done, by a thread or by all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) reads: u64,
    pub(super) writes: u64,
    /// Flushes amid the writes.
    pub(super) flushes: u64,
    /// From the first request to the end of the last one and of the final flush.
    pub(super) elapsed_ns: u64,
    /// Of these, the final flush.
    pub(super) flush_ns: u64,
    /// CPU time of the process, in the kernel too: its threads, and what caches do beside them.
    pub(super) cpu_ns: u64,
    /// Latencies with their counts.
    pub(super) read_latency_ns: Vec<(u64, u64)>,
    pub(super) write_latency_ns: Vec<(u64, u64)>,
    /// False if it was stopped.
    pub(super) complete: bool,
}

impl Run<'_> {
    /// Runs all threads, each on a way that `way` makes for it. When all are ready, `ready` is called, and then
    /// the time begins. The first thread ends with a flush of everything, if the job wants one.
    pub(super) fn all<'w>(
        &self,
        way: impl Fn() -> Result<Box<dyn Way + 'w>, String> + Sync,
        ready: impl FnOnce() -> Result<(), String>,
    ) -> Result<Done, Fault> {
        let threads = self.job.threads as usize;
        let (prepared, started, ended) = (
            Barrier::new(threads + 1),
            Barrier::new(threads + 1),
            Barrier::new(threads),
        );
        let failed = AtomicBool::new(false);
        let one = |thread: u32| {
            let way = way();
            let worker = way.map(|way| Worker::new(self, thread, way, &failed));
            prepared.wait();
            started.wait();
            let worked = worker.map_err(Fault::Io).and_then(Worker::work);
            if worked.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            ended.wait();
            worked?.finish(thread == 0 && !failed.load(Ordering::Relaxed))
        };
        std::thread::scope(|scope| {
            let one = &one;
            let spawn = |thread| scope.spawn(move || one(thread));
            let all: Vec<_> = (0..self.job.threads).map(spawn).collect();
            prepared.wait();
            let is_ready = ready();
            if is_ready.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            let before_ns = cpu_ns();
            started.wait();
            let parts: Vec<_> = all
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .collect();
            let after_ns = cpu_ns();
            is_ready.map_err(Fault::Io)?;
            let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
            Ok(Done {
                cpu_ns: after_ns - before_ns,
                ..Part::sum(parts)
            })
        })
    }
}

/// A thread's share of [`Done`], with its histograms.
struct Part {
    done: Done,
    reads_ns: Histogram<u64>,
    writes_ns: Histogram<u64>,
}

impl Part {
    fn sum(parts: Vec<Part>) -> Done {
        let mut all = Done {
            complete: true,
            ..Done::default()
        };
        let (mut reads_ns, mut writes_ns) = (histogram(), histogram());
        for Part {
            done,
            reads_ns: reads,
            writes_ns: writes,
        } in parts
        {
            all.reads += done.reads;
            all.writes += done.writes;
            all.flushes += done.flushes;
            all.elapsed_ns = all.elapsed_ns.max(done.elapsed_ns);
            all.flush_ns = all.flush_ns.max(done.flush_ns);
            all.complete &= done.complete;
            reads_ns.add(reads).expect("equal bounds");
            writes_ns.add(writes).expect("equal bounds");
        }
        let pairs = |histogram: &Histogram<u64>| {
            let recorded = histogram.iter_recorded();
            recorded
                .map(|step| (step.value_iterated_to(), step.count_at_value()))
                .collect()
        };
        all.read_latency_ns = pairs(&reads_ns);
        all.write_latency_ns = pairs(&writes_ns);
        all
    }
}

/// A request under way.
struct Pending {
    request: Request,
    began_ns: u64,
    /// The least version that each page of a read may have.
    least: Vec<u32>,
}

/// One thread at work.
struct Worker<'a> {
    run: &'a Run<'a>,
    /// Before the buffers, which outlive it.
    way: Box<dyn Way + 'a>,
    requests: Requests,
    /// Buffers that are not on their way.
    free: Vec<Slot>,
    pending: Vec<Pending>,
    ended: Vec<(Slot, Result<(), String>)>,
    failed: &'a AtomicBool,
    unsynced: u64,
    clock: Clock,
    part: Part,
}

impl<'a> Worker<'a> {
    fn new(
        run: &'a Run<'a>,
        thread: u32,
        mut way: Box<dyn Way + 'a>,
        failed: &'a AtomicBool,
    ) -> Self {
        let nothing = Request {
            is_read: true,
            block: 0,
        };
        let slot = |index| Slot {
            index,
            buffer: AlignedBuffer::new(run.job.block_bytes as usize),
        };
        let pending = |_| Pending {
            request: nothing,
            began_ns: 0,
            least: vec![0; run.job.block_pages() as usize],
        };
        let mut free: Vec<Slot> = (0..run.depth as usize).map(slot).collect();
        way.meet(&mut free);
        Worker {
            run,
            way,
            requests: Requests::new(run.job, run.round, thread),
            free,
            pending: (0..run.depth).map(pending).collect(),
            ended: Vec::new(),
            failed,
            unsynced: 0,
            clock: Clock::start(),
            part: Part {
                done: Done::default(),
                reads_ns: histogram(),
                writes_ns: histogram(),
            },
        }
    }

    /// Sends requests until there are no more, time is up or somebody fails.
    fn work(mut self) -> Result<Self, Fault> {
        self.clock = Clock::start();
        let mut more = true;
        while more || self.in_flight() > 0 {
            more = more && self.goes_on();
            let syncs = self.run.job.fsync > 0 && self.unsynced >= self.run.job.fsync;
            if syncs && self.in_flight() == 0 {
                self.sync()?;
            }
            while more && !self.free.is_empty() && !(syncs && self.unsynced > 0) {
                match self.begin() {
                    Begun::Yes => {}
                    Begun::Busy => break,
                    Begun::NoMore => (more, self.part.done.complete) = (false, true),
                }
            }
            match self.in_flight() {
                0 => std::thread::yield_now(),
                _ => self.end()?,
            }
        }
        Ok(self)
    }

    /// False if time is up, or somebody wants the run to end.
    fn goes_on(&mut self) -> bool {
        let most_ns = self.run.job.runtime_ns;
        if most_ns.is_some_and(|most_ns| self.clock.now_ns() >= most_ns) {
            self.part.done.complete = true;
            return false;
        }
        !self.run.stop.load(Ordering::Relaxed) && !self.failed.load(Ordering::Relaxed)
    }

    fn in_flight(&self) -> usize {
        self.pending.len() - self.free.len()
    }

    fn begin(&mut self) -> Begun {
        let (run, pages) = (self.run, self.run.job.block_pages());
        let next = self.requests.next(|request| {
            // A reader may read what is being written, and check it against both.
            request.is_read || run.versions.claim(request.block * pages, pages)
        });
        let request = match next {
            None => return Begun::NoMore,
            Some(Err(_)) => return Begun::Busy,
            Some(Ok(request)) => request,
        };
        let mut slot = self.free.pop().expect("a free slot");
        let pending = &mut self.pending[slot.index];
        pending.request = request;
        let first = request.block * pages;
        let bytes = slot.buffer.chunks_exact_mut(PAGE_BYTES);
        for (page, (bytes, least)) in (first..).zip(bytes.zip(&mut pending.least)) {
            match request.is_read {
                true => *least = run.versions.least(page),
                false => run.stamps.fill(page, run.versions.next(page), bytes),
            }
        }
        let op = if request.is_read { Op::Read } else { Op::Write };
        pending.began_ns = self.clock.now_ns();
        self.way
            .begin(slot, op, request.block * run.job.block_bytes);
        Begun::Yes
    }

    /// Waits for requests to end, and checks what they brought.
    fn end(&mut self) -> Result<(), Fault> {
        let mut ended = std::mem::take(&mut self.ended);
        self.way.end(&mut ended);
        let now_ns = self.clock.now_ns();
        let mut outcome = Ok(());
        for (slot, result) in ended.drain(..) {
            let pending = &self.pending[slot.index];
            let took_ns = (now_ns - pending.began_ns).max(1);
            let pages = self.run.job.block_pages();
            let first = pending.request.block * pages;
            let done = &mut self.part.done;
            match (result, pending.request.is_read) {
                (Err(error), _) => outcome = outcome.and(Err(Fault::Io(error))),
                (Ok(()), true) => {
                    done.reads += 1;
                    self.part.reads_ns.saturating_record(took_ns);
                    outcome = outcome.and(self.check(first, &pending.least, &slot.buffer));
                }
                (Ok(()), false) => {
                    done.writes += 1;
                    self.unsynced += 1;
                    self.part.writes_ns.saturating_record(took_ns);
                    self.run.versions.written(first, pages);
                }
            }
            self.free.push(slot);
        }
        self.ended = ended;
        outcome
    }

    fn check(&self, first: u64, least: &[u32], bytes: &[u8]) -> Result<(), Fault> {
        for ((page, bytes), least) in (first..).zip(bytes.chunks_exact(PAGE_BYTES)).zip(least) {
            let most = self.run.versions.most(page);
            self.run.stamps.check(page, bytes, *least..=most)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Fault> {
        self.way.flush().map_err(Fault::Io)?;
        self.unsynced = 0;
        self.part.done.flushes += 1;
        Ok(())
    }

    /// Flushes everything, if `flushes`, and gives what was done.
    fn finish(mut self, flushes: bool) -> Result<Part, Fault> {
        let worked_ns = self.clock.now_ns();
        let (job, done) = (self.run.job, &mut self.part.done);
        done.elapsed_ns = worked_ns;
        if flushes && job.end_fsync && job.pattern.writes() {
            self.way.flush().map_err(Fault::Io)?;
            done.elapsed_ns = self.clock.now_ns();
            done.flush_ns = done.elapsed_ns - worked_ns;
        }
        Ok(self.part)
    }
}

/// Whether a request has begun.
enum Begun {
    Yes,
    /// All blocks that were looked at are being written.
    Busy,
    NoMore,
}

/// CPU time of the process so far.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::super::job::{Pattern, tests::job};
    use super::super::way::Outcome;
    use super::*;

    /// A file in memory that has a fault at a page.
    struct Faulty<'a> {
        bytes: &'a std::sync::Mutex<Vec<u8>>,
        ended: Vec<(Slot, Outcome)>,
        breaks: Option<u64>,
        fails: bool,
    }

    impl Way for Faulty<'_> {
        fn begin(&mut self, mut slot: Slot, op: Op, offset: u64) {
            let mut bytes = self.bytes.lock().expect("no panic");
            let there = &mut bytes[offset as usize..][..slot.buffer.len()];
            match op {
                Op::Read => slot.buffer.copy_from_slice(there),
                // A lost write: nothing but the page's old bytes.
                _ if self.breaks == Some(offset / PAGE_BYTES as u64) => {}
                _ => there.copy_from_slice(&slot.buffer),
            }
            let outcome = match self.fails {
                true => Err("no medium".into()),
                false => Ok(()),
            };
            self.ended.push((slot, outcome));
        }

        fn end(&mut self, ended: &mut Vec<(Slot, Outcome)>) {
            ended.append(&mut self.ended);
        }

        fn flush(&mut self) -> Outcome {
            Ok(())
        }
    }

    fn run(job: &Job, breaks: Option<u64>, fails: bool) -> Result<Done, Fault> {
        let stamps = Stamps { file: 1 };
        let mut bytes = vec![0; job.file_bytes as usize];
        for (page, bytes) in (0..).zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
            stamps.fill(page, 0, bytes);
        }
        let bytes = std::sync::Mutex::new(bytes);
        let versions = Versions::new(job.file_bytes / PAGE_BYTES as u64).expect("memory");
        let run = Run {
            job,
            round: 0,
            depth: 1,
            stamps,
            versions: &versions,
            stop: &AtomicBool::new(false),
        };
        let way = || -> Result<Box<dyn Way>, String> {
            Ok(Box::new(Faulty {
                bytes: &bytes,
                ended: Vec::new(),
                breaks,
                fails,
            }))
        };
        run.all(way, || Ok(()))
    }

    #[test]
    fn reads_and_writes_side_by_side_are_counted_and_right() {
        let mut job = job(Pattern::RandRw, 8);
        job.requests = Some(5000);
        job.fsync = 100;
        let done = run(&job, None, false).expect("no fault");
        assert_eq!(done.reads + done.writes, 5000);
        assert!(done.complete && done.flushes >= done.writes / 100 - 2);
        let counted: u64 = done.read_latency_ns.iter().map(|pair| pair.1).sum();
        assert_eq!(counted, done.reads);
    }

    #[test]
    fn a_write_that_was_lost_is_found_by_the_next_read() {
        let mut job = job(Pattern::RandRw, 8);
        job.requests = Some(5000);
        let fault = run(&job, Some(3), false).expect_err("page 3 stays old");
        let said = fault.to_string();
        assert!(said.starts_with("page 3: expected "), "{said}");
        assert!(said.ends_with("found version 0"), "{said}");
    }

    #[test]
    fn an_error_ends_all_threads() {
        let fault = run(&job(Pattern::RandRead, 8), None, true).expect_err("it fails");
        assert_eq!(fault.to_string(), "no medium");
    }
}
