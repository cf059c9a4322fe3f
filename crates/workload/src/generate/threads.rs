//! Threads that each read or write a file of their own, as the jobs of fio do.
//!
//! Files lie one after another. Threads take turns: request `k` of all of them, then request `k + 1`. A
//! thread comes to every block of its file once before it comes to one again, in order or shuffled (fio's
//! random map), so that nothing is overwritten on the way.

use super::rng::{SeededRng, probability};
use super::scatter::Scatter;
use super::{bad, check_share};
use crate::error::WorkloadError;
use crate::request::{Op, Request};

/// What the threads do.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadsSpec {
    /// Number of threads, and of files.
    pub threads: u32,
    /// Bytes from the start of a file to that of the next.
    pub file_bytes: u64,
    /// Bytes at the start of a file that its thread works on.
    pub used_bytes: u64,
    /// Bytes of a request; a thread's blocks are as large.
    pub request_bytes: u32,
    /// Blocks in random order; else one after another.
    pub is_random: bool,
    /// Share of reads, from 0 to 1.
    pub read_share: f64,
    /// Requests of all threads together.
    pub requests: u64,
    /// Seed.
    pub seed: u64,
}

/// The requests of the threads; the stream of a request is its thread.
#[derive(Debug, Clone)]
pub struct Threads {
    spec: ThreadsSpec,
    orders: Vec<Option<Scatter>>,
    ops: SeededRng,
    blocks: u64,
    next: u64,
}

impl Threads {
    /// Checks the specification.
    ///
    /// # Errors
    /// No threads or requests, a share out of range, a request larger than what a thread works on, or that
    /// larger than the file.
    pub fn new(spec: ThreadsSpec) -> Result<Threads, WorkloadError> {
        if spec.threads == 0 || spec.requests == 0 {
            return Err(bad("threads", "no threads or no requests are no workload"));
        }
        check_share("read share", spec.read_share)?;
        let blocks = spec.used_bytes / u64::from(spec.request_bytes).max(1);
        if blocks == 0 || spec.request_bytes == 0 || spec.used_bytes > spec.file_bytes {
            return Err(bad(
                "footprint",
                format!(
                    "{} bytes of a file of {} hold no request of {} bytes",
                    spec.used_bytes, spec.file_bytes, spec.request_bytes
                ),
            ));
        }
        let mut keys = SeededRng::child(spec.seed, "threads");
        let order = |_| {
            let key = keys.bits();
            spec.is_random.then(|| Scatter::new(blocks, key))
        };
        Ok(Threads {
            orders: (0..spec.threads).map(order).collect(),
            ops: SeededRng::child(spec.seed, "ops"),
            blocks,
            next: 0,
            spec,
        })
    }
}

impl Iterator for Threads {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let spec = &self.spec;
        if self.next == spec.requests {
            return None;
        }
        let threads = u64::from(spec.threads);
        let (thread, step) = (self.next % threads, self.next / threads % self.blocks);
        self.next += 1;
        let order = &self.orders[thread as usize];
        let block = order.as_ref().map_or(step, |order| order.place(step));
        let offset = thread * spec.file_bytes + block * u64::from(spec.request_bytes);
        let is_read = spec.read_share >= 1.0 || self.ops.chance(probability(spec.read_share));
        let op = if is_read { Op::Read } else { Op::Write };
        Some(Request {
            stream: thread as u32,
            ..Request::new(op, offset, spec.request_bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn spec(is_random: bool) -> ThreadsSpec {
        ThreadsSpec {
            threads: 4,
            file_bytes: 1 << 20,
            used_bytes: 640 << 10,
            request_bytes: 4096,
            is_random,
            read_share: 0.0,
            requests: 4 * 160,
            seed: 7,
        }
    }

    #[test]
    fn every_block_of_every_file_comes_once() {
        for is_random in [false, true] {
            let requests: Vec<Request> = Threads::new(spec(is_random)).unwrap().collect();
            assert_eq!(requests.len(), 640);
            let offsets: BTreeSet<u64> = requests.iter().map(|r| r.offset).collect();
            assert_eq!(offsets.len(), 640, "none twice");
            for request in &requests {
                assert_eq!(request.offset >> 20, u64::from(request.stream));
                assert!(request.end() - (u64::from(request.stream) << 20) <= 640 << 10);
                assert_eq!(request.op, Op::Write);
            }
            let own: Vec<u64> = requests.iter().step_by(4).map(|r| r.offset).collect();
            assert_eq!(own.is_sorted(), !is_random);
        }
    }

    #[test]
    fn threads_begin_anew_at_the_end_and_mix_reads_in() {
        let long = ThreadsSpec {
            requests: 4 * 320,
            read_share: 0.5,
            ..spec(false)
        };
        let requests: Vec<Request> = Threads::new(long).unwrap().collect();
        assert_eq!(requests[0].offset, requests[640].offset);
        let reads = requests.iter().filter(|r| r.op == Op::Read).count();
        assert!((540..740).contains(&reads), "{reads}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |spec: ThreadsSpec| Threads::new(spec).unwrap_err().to_string();
        let none = ThreadsSpec {
            threads: 0,
            ..spec(true)
        };
        assert!(refused(none).contains("no threads"));
        let large = ThreadsSpec {
            request_bytes: 1 << 20,
            ..spec(true)
        };
        assert!(refused(large).contains("hold no request"));
    }
}
