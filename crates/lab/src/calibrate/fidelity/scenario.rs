//! The set-ups in which predictions are put beside measurements.

use wharf_runtime::Seed;
use wharf_workload::{Op, Request};

use super::kernel;
use crate::calibrate::stream::page_request;

/// What the drive's flash does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flash {
    /// Answers at once: the processors' work is all there is.
    Instant,
    /// As the preset `scala` has it; for the kernel, as long as the real device.
    Modelled,
}

/// Requests of 4 KiB, one in flight for each client, pages at random.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    /// What it is, as the table has it.
    pub title: &'static str,
    /// Clients, each on a thread of its own.
    pub clients: u32,
    /// Pages that are cached before the requests that count.
    pub hot_pages: u64,
    /// Requests that count.
    pub count: u64,
    /// Share of these that go to a page that nobody has touched.
    pub miss_share: f64,
    /// Share of the hits that are writes.
    pub write_share: f64,
    /// The drive.
    pub flash: Flash,
}

/// All scenarios.
pub(super) fn all(quick: bool) -> Vec<Scenario> {
    let scale = if quick { 2 } else { 1 };
    let hits = Scenario {
        title: "all reads hit",
        clients: 1,
        hot_pages: (1 << 15) / scale,
        count: 500_000 / scale,
        miss_share: 0.0,
        write_share: 0.0,
        flash: Flash::Instant,
    };
    let misses = Scenario {
        title: "one read in ten misses, the drive answers at once",
        hot_pages: (1 << 13) / scale,
        count: 100_000 / scale,
        miss_share: 0.1,
        ..hits.clone()
    };
    vec![
        hits.clone(),
        Scenario {
            title: "all reads hit, two clients",
            clients: 2,
            // While caches fill, three threads share two processors, and how long that takes is chance:
            // it must be short beside what counts.
            hot_pages: hits.hot_pages / 2,
            count: 4 * hits.count,
            ..hits.clone()
        },
        Scenario {
            title: "all hit, three in ten are writes",
            write_share: 0.3,
            ..hits
        },
        misses.clone(),
        Scenario {
            title: "one read in ten misses, the drive takes its time",
            flash: Flash::Modelled,
            ..misses
        },
    ]
}

impl Scenario {
    /// True if requests need the drive; else its thread sleeps.
    pub fn drive_works(&self, design: &str) -> bool {
        // `hardware` pins its pages for each request anew.
        self.miss_share > 0.0 || design == "hardware"
    }

    /// Why a design is not run in this scenario, if so.
    pub fn leaves_out(&self, design: &str, processors: usize) -> Option<&'static str> {
        let drive_works = self.drive_works(design);
        match design {
            "falcon" | "kernel-dflush" => {
                Some("a model of an operating system that this machine does not run")
            }
            "direct" if self.miss_share == 0.0 => Some("it has no cache that could hit"),
            kernel::DESIGN if self.miss_share > 0.0 && self.flash == Flash::Instant => {
                Some("the real device does not answer at once")
            }
            kernel::DESIGN => None,
            // The drive shares the manager's.
            "tri" if self.clients as usize + 1 > processors => {
                Some("its manager needs a processor beside those of the clients")
            }
            "tri" => None,
            _ if self.clients as usize + usize::from(drive_works) > processors => {
                Some("too few processors for its threads")
            }
            _ => None,
        }
    }

    /// Pages that are missed.
    fn cold_pages(&self) -> u64 {
        (self.count as f64 * self.miss_share).ceil() as u64
    }

    /// All pages.
    pub fn pages(&self) -> u64 {
        self.hot_pages + self.cold_pages()
    }

    /// Every client reads every hot page.
    pub fn warm_up(&self) -> Vec<Request> {
        let each = |page| (0..self.clients).map(move |_| page_request(Op::Read, page));
        (0..self.hot_pages).flat_map(each).collect()
    }

    /// The requests that count; each cold page at most once, in no order that could be read ahead.
    pub fn requests(&self) -> Vec<Request> {
        let mut rng = Seed(31).rng();
        let mut cold: Vec<u64> = (self.hot_pages..self.pages()).collect();
        for i in (1..cold.len()).rev() {
            cold.swap(i, rng.below(i as u64 + 1) as usize);
        }
        let mut share = |share: f64| (rng.below(1 << 32) as f64) < share * (1u64 << 32) as f64;
        let kinds: Vec<(bool, bool)> = (0..self.count)
            .map(|_| (share(self.miss_share), share(self.write_share)))
            .collect();
        let request = |(misses, writes)| match (misses, writes) {
            (true, _) => match cold.pop() {
                Some(page) => page_request(Op::Read, page),
                None => page_request(Op::Read, rng.below(self.hot_pages)),
            },
            (false, true) => page_request(Op::Write, rng.below(self.hot_pages)),
            (false, false) => page_request(Op::Read, rng.below(self.hot_pages)),
        };
        kinds.into_iter().map(request).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_has_the_shares_it_names() {
        for scenario in all(true) {
            let requests = scenario.requests();
            assert_eq!(requests.len() as u64, scenario.count);
            let share = |is: &dyn Fn(&&Request) -> bool| {
                requests.iter().filter(is).count() as f64 / requests.len() as f64
            };
            let cold = |r: &&Request| r.pages().start >= scenario.hot_pages;
            assert!((share(&cold) - scenario.miss_share).abs() < 0.01);
            assert!((share(&|r| r.op == Op::Write) - scenario.write_share).abs() < 0.01);
            assert!(requests.iter().all(|r| r.pages().end <= scenario.pages()));
            let mut missed: Vec<u64> = requests.iter().filter(cold).map(|r| r.offset).collect();
            missed.sort_unstable();
            let before = missed.len();
            missed.dedup();
            assert_eq!(missed.len(), before, "a page is missed once");
        }
    }

    #[test]
    fn every_client_warms_every_hot_page() {
        let scenario = Scenario {
            clients: 2,
            hot_pages: 10,
            ..all(true)[0].clone()
        };
        let warm_up = scenario.warm_up();
        for client in 0..2 {
            let pages: Vec<u64> = warm_up
                .iter()
                .skip(client)
                .step_by(2)
                .map(|r| r.pages().start)
                .collect();
            assert_eq!(pages, (0..10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn nothing_runs_on_fewer_processors_than_it_has_busy_threads() {
        let scenarios = all(false);
        let runs = |at: usize, design| scenarios[at].leaves_out(design, 2).is_none();
        assert!(runs(0, "clock") && runs(1, "clock") && runs(3, "clock"));
        assert!(runs(0, "tri") && !runs(1, "tri") && runs(3, "tri"));
        assert!(!runs(0, "direct") && runs(3, "direct"));
        assert!(runs(0, "hardware") && !runs(1, "hardware") && runs(3, "hardware"));
        assert!((0..scenarios.len()).all(|at| !runs(at, "falcon") && !runs(at, "kernel-dflush")));
        assert!(runs(1, "kernel") && !runs(3, "kernel") && runs(4, "kernel"));
    }
}
