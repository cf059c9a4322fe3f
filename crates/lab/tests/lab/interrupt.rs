//! A run that is stopped reports what it did until then, and says that it is not all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use wharf_host::clock::ClockClient;
use wharf_host::{
    Client, Clock, ClockConfig, Design, DesignConfig, DesignError, Direct, Extent, IoError, Parts,
    Statistics, Touch,
};
use wharf_lab::compare::{Request as Compare, compare};
use wharf_lab::designs::DESIGNS;
use wharf_lab::progress::Progress;
use wharf_lab::replay::{Engine, Setup, row};
use wharf_lab::report::{html, json, table};
use wharf_wire::dma::DmaSpace;
use wharf_workload::generate::Pattern;

use crate::support::{generated, listed, planned, setup, small, small_and_quick, spec};

/// After so many requests the stop flag is set.
const STOP_AFTER: u64 = 500;

thread_local! {
    /// The flag of runs begun on this thread.
    static STOP: Arc<AtomicBool> = Arc::default();
}

/// `clock`, and someone who presses Ctrl-C after [`STOP_AFTER`] requests.
struct Stopping {
    inner: Arc<Clock>,
    stop: Arc<AtomicBool>,
    seen: AtomicU64,
}

struct StoppingClient {
    inner: ClockClient,
    design: Arc<Stopping>,
}

impl Design for Stopping {
    const NAME: &'static str = "stopping";

    const SUMMARY: &'static str = "clock, and someone who stops it";

    type Config = ClockConfig;

    type Client = StoppingClient;

    fn new(
        config: &DesignConfig,
        own: &ClockConfig,
        space: &Arc<DmaSpace>,
    ) -> Result<Stopping, DesignError> {
        let inner = Arc::new(Clock::new(config, own, space)?);
        Ok(Stopping {
            inner,
            stop: STOP.with(Arc::clone),
            seen: AtomicU64::new(0),
        })
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<StoppingClient, DesignError> {
        let inner = self.inner.client(parts)?;
        Ok(StoppingClient {
            inner,
            design: self.clone(),
        })
    }
}

impl StoppingClient {
    fn count(&self) {
        if self.design.seen.fetch_add(1, Ordering::Relaxed) + 1 == STOP_AFTER {
            self.design.stop.store(true, Ordering::Relaxed);
        }
    }
}

impl Client for StoppingClient {
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        self.count();
        self.inner.read(extent, out).await
    }

    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        self.count();
        self.inner.write(extent, data).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.inner.flush().await
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }
}

#[test]
fn a_run_stopped_on_its_way_reports_its_part() {
    for engine in [
        Engine::Virtual,
        Engine::Real {
            client_threads: 1,
            profile: false,
        },
    ] {
        let setup = Setup {
            engine,
            clients: 3,
            depth: 4,
            ..setup(small_and_quick())
        };
        let plan = planned(&generated(spec(Pattern::Uniform, 50_000, 8 << 20)), &setup);
        let stop = STOP.with(Arc::clone);
        stop.store(false, Ordering::Relaxed);
        let row = row::<Stopping>(&setup, &plan, Progress::hidden(), &stop);
        let row = row.unwrap_or_else(|error| panic!("{error}"));
        assert!(!row.complete);
        // Those in flight are finished, no others are begun.
        let most = STOP_AFTER + u64::from(setup.clients * setup.depth);
        assert!(
            (STOP_AFTER..=most).contains(&row.requests),
            "{engine:?}: {}",
            row.requests
        );
        assert_eq!(row.verified_reads, row.reads);
        assert!(row.iops > 0.0 && row.hit_ratio.is_some_and(|hits| hits > 0.0));
    }
}

#[test]
fn a_comparison_stopped_before_it_begins_has_a_row_of_nothing() {
    let setup = setup(small());
    let plan = planned(&generated(spec(Pattern::Uniform, 100, 1 << 20)), &setup);
    let request = Compare {
        setup,
        designs: DESIGNS.iter().collect(),
        plans: vec![plan],
        cache_spec: "test".into(),
        commit: "test".into(),
        jobs: 1,
    };
    let comparison = compare(&request, &Arc::new(AtomicBool::new(true))).expect("it is no error");
    // The first design is reported as far as it came, the second was not begun.
    assert_eq!(comparison.rows.len(), 1);
    let row = &comparison.rows[0];
    assert_eq!(
        (row.complete, row.requests, row.verified_reads),
        (false, 0, 0)
    );
    assert!(
        comparison
            .warnings
            .iter()
            .any(|note| note.starts_with("interrupted"))
    );
    // No view of it stumbles over the missing figures.
    assert!(table::render(&comparison, 100).contains("direct"));
    assert!(html::render(&comparison).contains("direct"));
    let text = json::to_string(&comparison);
    assert!(
        !text.contains("NaN") && text.contains("\"complete\": false"),
        "{text}"
    );
}

#[test]
#[allow(clippy::disallowed_methods)] // another thread stands for the person at the keyboard
fn a_run_that_waits_for_its_next_request_hears_the_flag() {
    // The second request is due after ten seconds: the longest pause that an open loop makes.
    let mut requests = vec![wharf_workload::Request::new(wharf_workload::Op::Read, 0, 4096); 2];
    (requests[0].time_ns, requests[1].time_ns) = (0, 10_000_000_000);
    let engine = Engine::Real {
        client_threads: 1,
        profile: false,
    };
    let setup = Setup {
        engine,
        speed: Some(1.0),
        ..setup(small_and_quick())
    };
    let plan = planned(&listed(&requests), &setup);
    let stop = Arc::new(AtomicBool::new(false));
    let row = std::thread::scope(|scope| {
        let (flag, setup, plan) = (stop.clone(), &setup, &plan);
        let run = scope.spawn(move || row::<Direct>(setup, plan, Progress::hidden(), &flag));
        std::thread::sleep(std::time::Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        run.join().expect("no panic").expect("no error")
    });
    assert_eq!((row.complete, row.requests), (false, 1));
    assert!(
        row.wall_seconds < 5.0,
        "it slept on for {} s",
        row.wall_seconds
    );
}
