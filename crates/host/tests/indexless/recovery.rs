//! How long a cache takes to be known again that was cut: commands, and time.
//!
//! `WHARF_PARTS=2048 cargo test -p wharf-host --test indexless recovery -- --nocapture` prints it
//! for 64 GiB of addresses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wharf_host::indexless::Store;
use wharf_host::{Client, Role};
use wharf_wire::opcode::IoOpcode;

use crate::rig::{Held, PAGE, Session, Shape, page, read, run, sectors, write};

/// Sectors of a part.
const PART: u64 = 8192;

/// Processor time that this thread took, in nanoseconds.
fn cpu_ns() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = told.split(' ').next().and_then(|ns| ns.parse().ok());
    first.unwrap_or(0)
}

/// What opening a cache took.
#[derive(Debug)]
struct Took {
    cached: u64,
    opened_ns: u64,
    first_ns: u64,
    first_hits: u64,
    known_ns: u64,
    /// Of client, keeper and the drive that is made up, once it was open.
    cpu_ns: u64,
    questions: u64,
}

/// A cache of so many parts, in which every 32nd sector is cached, in runs of `run_sectors` of
/// which every fourth is dirty.
fn open_again(parts: u64, run_sectors: u64) -> Took {
    let step = 32 * run_sectors;
    let shape = Shape {
        disk_sectors: parts * PART,
        cache_sectors: wharf_host::indexless::AddressPlan::new(parts * PART).drive_sectors() + 5,
        limit: parts * PART / 32,
        ..Shape::of(Store::Plain)
    };
    let made = run(
        Session::create(&shape),
        &Held::default(),
        |_, client, _| async move {
            write(&client, 0, &[1]).await.unwrap();
            client.flush().await.unwrap();
        },
    );
    let mut held = made.held();
    let content = page(7);
    for (number, first) in (0..parts * PART).step_by(step as usize).enumerate().skip(1) {
        let copy = match number % 4 {
            0 => shape.disk_sectors + first,
            _ => first,
        };
        let pages = (copy..copy + run_sectors).map(|at| (at, content.clone()));
        held.cache.extend(pages);
    }
    let questions = Arc::new(AtomicU64::new(0));
    let of_drive = questions.clone();
    let mut session = Session::open(&shape);
    session.fates = Some(Box::new(move |role, command| {
        let asks = command.io_opcode() == Some(IoOpcode::GetLbaStatus);
        of_drive.fetch_add(u64::from(asks && role == Role::Cache), Ordering::Relaxed);
        None
    }));
    let last = parts * PART - step;
    let ended = run(session, &held, move |cpu, client, cache| async move {
        client.opened().await.unwrap();
        let (opened_ns, cpu_before_ns) = (cpu.now(), cpu_ns());
        let found = read(&client, last, 1).await.unwrap();
        assert_eq!(found, [7]);
        let (first_ns, first_hits) = (cpu.now() - opened_ns, client.statistics().hits);
        while cache.status(&cpu).unlearned_max > 0 {
            // Served meanwhile.
            let mut out = vec![0; PAGE];
            client.read(sectors(last, 1), &mut out).await.unwrap();
            cpu.progress();
        }
        Took {
            cached: cache.status(&cpu).cached,
            opened_ns,
            first_ns,
            first_hits,
            known_ns: cpu.now() - opened_ns,
            cpu_ns: cpu_ns() - cpu_before_ns,
            questions: 0,
        }
    });
    let questions = questions.load(Ordering::Relaxed);
    Took {
        questions,
        ..ended.value
    }
}

#[test]
fn recovery_serves_at_once_and_takes_a_question_for_as_many_runs_as_an_answer_holds() {
    let told = std::env::var("WHARF_PARTS").ok();
    let parts = told.and_then(|parts| parts.parse().ok()).unwrap_or(64);
    for (run_sectors, questions_max) in [(8, 0.25), (1, 1.4)] {
        let took = open_again(parts, run_sectors);
        let each = took.questions as f64 / parts as f64;
        let cpu_us = took.cpu_ns as f64 / 1e3 / parts as f64;
        println!(
            "runs of {run_sectors}: {took:?}, for a part {each:.3} questions and {cpu_us:.1} us of CPU"
        );
        assert!(took.cached + 32 >= parts * PART / 32, "{took:?}");
        assert_eq!(took.first_hits, 1, "warm, and dirty data is there");
        // Of a drive that takes up to 2 us for a command.
        assert!(took.opened_ns < 1_000_000, "{took:?}");
        assert!(took.first_ns < 100_000, "{took:?}");
        assert!(each < questions_max, "{each} questions a part");
        assert!(took.known_ns / parts < 5_000, "{took:?}");
    }
}
