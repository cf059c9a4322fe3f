//! A wrong read ends the run, and is named: page, what it should hold, what it held.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use wharf_drive::config::MediaKind;
use wharf_host::direct::DirectClient;
use wharf_host::{
    Client, Design, DesignConfig, DesignError, Direct, Extent, IoError, NoSettings, Parts,
    Statistics, Touch,
};
use wharf_lab::progress::Progress;
use wharf_lab::replay::{Engine, RunError, Setup, row};
use wharf_wire::dma::DmaSpace;
use wharf_workload::{Op, Request};

use crate::support::{listed, planned, setup, small_and_quick, try_run};

/// What a read of the faulty design does wrong.
#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    /// Returns the last write but one.
    Stale,
    /// Swaps the first two units.
    Swapped,
    /// Returns zeros.
    Lost,
    /// Returns bytes that nobody wrote.
    Garbage,
    /// Returns half of an older sector.
    Torn,
}

thread_local! {
    /// The fault of designs made on this thread: a design has no parameters of a test's own.
    static FAULT: Cell<Fault> = const { Cell::new(Fault::None) };
}

/// `direct`, with one fault in its reads.
struct Faulty {
    inner: Arc<Direct>,
    fault: Fault,
    unit_bytes: usize,
}

struct FaultyClient {
    inner: DirectClient,
    fault: Fault,
    unit_bytes: usize,
    /// All that was written to a place, in order.
    written: RefCell<BTreeMap<u64, Vec<Vec<u8>>>>,
}

impl Design for Faulty {
    const NAME: &'static str = "faulty";

    const SUMMARY: &'static str = "direct, with one fault in its reads";

    const HAS_CACHE: bool = false;

    type Config = NoSettings;

    type Client = FaultyClient;

    fn new(
        config: &DesignConfig,
        own: &NoSettings,
        space: &Arc<DmaSpace>,
    ) -> Result<Faulty, DesignError> {
        let unit_bytes = space.page_bytes().min(512);
        let (inner, fault) = (Arc::new(Direct::new(config, own, space)?), FAULT.get());
        Ok(Faulty {
            inner,
            fault,
            unit_bytes,
        })
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<FaultyClient, DesignError> {
        let inner = self.inner.client(parts)?;
        let (fault, unit_bytes) = (self.fault, self.unit_bytes);
        Ok(FaultyClient {
            inner,
            fault,
            unit_bytes,
            written: RefCell::default(),
        })
    }
}

impl Client for FaultyClient {
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let touch = self.inner.read(extent, out).await?;
        let written = self.written.borrow();
        let before = written
            .get(&extent.offset)
            .and_then(|all| all.iter().nth_back(1));
        let unit = self.unit_bytes;
        match (self.fault, before) {
            (Fault::Stale, Some(before)) => out.copy_from_slice(before),
            (Fault::Torn, Some(before)) => out[..256].copy_from_slice(&before[..256]),
            (Fault::Swapped, _) if out.len() >= 2 * unit => {
                let (first, second) = out.split_at_mut(unit);
                first.swap_with_slice(&mut second[..unit]);
            }
            (Fault::Lost, _) => out.fill(0),
            (Fault::Garbage, _) => out.as_chunks_mut::<8>().0.fill(99u64.to_le_bytes()),
            _ => {}
        }
        Ok(touch)
    }

    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        self.written
            .borrow_mut()
            .entry(extent.offset)
            .or_default()
            .push(data.to_vec());
        self.inner.write(extent, data).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.inner.flush().await
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }
}

/// Writes pages 4 and 5 twice, page 9 once, then reads 9 and after that 4 and 5.
fn requests() -> Vec<Request> {
    let page = |op, page: u64, pages: u32| Request::new(op, page * 4096, pages * 4096);
    vec![
        page(Op::Write, 4, 2),
        page(Op::Write, 9, 1),
        page(Op::Write, 4, 2),
        page(Op::Read, 9, 1),
        page(Op::Read, 4, 2),
    ]
}

fn error_of(fault: Fault, kind: MediaKind, engine: Engine) -> String {
    FAULT.set(fault);
    let mut drive = small_and_quick();
    drive.media.kind = kind;
    let setup = Setup {
        engine,
        ..setup(drive)
    };
    let plan = planned(&listed(&requests()), &setup);
    let error = match try_run::<Faulty>(&setup, &plan) {
        Ok(row) => panic!("{fault:?} went unseen: {row:?}"),
        Err(error) => error,
    };
    assert!(matches!(error, RunError::WrongRead { .. }), "{error:?}");
    error.to_string()
}

fn wrong(request: u32, place: &str, found: &str, expected: &str) -> String {
    format!(
        "faulty: request {request}: wrong data: {place} holds {found}, expected {expected}; \
         this is a fault in the design or the drive, not in your input"
    )
}

#[test]
fn without_a_fault_the_wrapper_passes() {
    let setup = setup(small_and_quick());
    let plan = planned(&listed(&requests()), &setup);
    assert_eq!(
        try_run::<Faulty>(&setup, &plan)
            .expect("no fault")
            .verified_reads,
        2
    );
}

#[test]
fn wrong_stamps_are_named() {
    let of = |fault| error_of(fault, MediaKind::Stamp, Engine::Virtual);
    assert_eq!(
        of(Fault::Stale),
        wrong(4, "page 4", "version 1 of page 4", "version 2")
    );
    assert_eq!(
        of(Fault::Swapped),
        wrong(4, "page 4", "version 2 of page 5", "version 2")
    );
    assert_eq!(
        of(Fault::Lost),
        wrong(3, "page 9", "nothing (zeros)", "version 1")
    );
    assert_eq!(
        of(Fault::Garbage),
        wrong(3, "page 9", "bytes that no write left (0x63)", "version 1")
    );
}

#[test]
fn wrong_sectors_are_named() {
    let of = |fault| error_of(fault, MediaKind::Ram, Engine::Virtual);
    assert_eq!(
        of(Fault::Stale),
        wrong(4, "sector 32", "version 1 of sector 32", "version 2")
    );
    assert_eq!(
        of(Fault::Swapped),
        wrong(3, "sector 72", "version 1 of sector 73", "version 1")
    );
    let torn = "a mixture of version 1 of sector 32 and version 2 of sector 32";
    assert_eq!(of(Fault::Torn), wrong(4, "sector 32", torn, "version 2"));
    assert_eq!(
        of(Fault::Lost),
        wrong(3, "sector 72", "nothing (zeros)", "version 1")
    );
}

#[test]
fn a_wrong_read_ends_a_run_in_real_time_too() {
    let real = Engine::Real {
        client_threads: 1,
        profile: false,
    };
    let error = error_of(Fault::Stale, MediaKind::Stamp, real);
    assert_eq!(
        error,
        wrong(4, "page 4", "version 1 of page 4", "version 2")
    );
}

#[test]
fn one_wrong_read_among_many_clients_ends_them_all() {
    FAULT.set(Fault::Stale);
    for engine in [
        Engine::Virtual,
        Engine::Real {
            client_threads: 2,
            profile: false,
        },
    ] {
        let setup = Setup {
            engine,
            clients: 4,
            ..setup(small_and_quick())
        };
        // Each client has pages of its own, which it writes twice and then reads.
        let requests: Vec<Request> = (0..12_000u64)
            .map(|i| {
                let (page, op) = (i % 4, if i / 4 % 3 < 2 { Op::Write } else { Op::Read });
                Request::new(op, (page + i / 12 * 4) % 2_000 * 4096, 4096)
            })
            .collect();
        let plan = planned(&listed(&requests), &setup);
        let error = try_run::<Faulty>(&setup, &plan).expect_err("stale reads");
        assert!(matches!(error, RunError::WrongRead { .. }), "{error:?}");
    }
}

/// A failing run set the flag of the signal, which other runs look at too: side by side they ended early, and what they
/// had done until then looked like a result.
#[test]
fn a_failing_run_stopped_those_beside_it() {
    FAULT.set(Fault::Stale);
    let setup = setup(small_and_quick());
    let plan = planned(&listed(&requests()), &setup);
    let stop = Arc::new(AtomicBool::new(false));
    let failed = row::<Faulty>(&setup, &plan, Progress::hidden(), &stop);
    assert!(failed.is_err());
    assert!(!stop.load(Relaxed));
}

/// What a design does wrong with blocks is found in files too, and the file is named.
#[test]
fn a_wrong_read_of_a_file_names_it() {
    use wharf_workload::files::{FileJob, FileSpec, Personality};
    let spec = FileSpec {
        personality: Personality::YcsbA,
        requests: 3_000,
        files: 8,
        threads: 2,
        footprint_bytes: Some(4 << 20),
        request_bytes: 8192,
        stride_bytes: None,
        job: FileJob::default(),
        seed: 5,
    };
    let setup = setup(small_and_quick());
    let plan = planned(&crate::file_view::of_files(spec, 4096), &setup);
    for fault in [Fault::Stale, Fault::Swapped, Fault::Lost, Fault::Garbage] {
        FAULT.set(fault);
        let error = try_run::<Faulty>(&setup, &plan).expect_err("it is found");
        let text = error.to_string();
        assert!(matches!(error, RunError::File { .. }), "{fault:?}: {text}");
        let names_file = text.contains("read of /shared/f") && text.contains("page");
        assert!(
            names_file && text.contains("a fault in the design"),
            "{fault:?}: {text}"
        );
    }
    FAULT.set(Fault::None);
    assert!(try_run::<Faulty>(&setup, &plan).is_ok());
}
