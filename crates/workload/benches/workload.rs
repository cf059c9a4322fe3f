//! Speed of readers, generators and counters: `cargo bench -p wharf-workload`. Prints millions per
//! second; the best of three, each on data in memory.
#![allow(clippy::disallowed_methods)] // A benchmark reads the clock.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use wharf_workload::generate::{Generator, GeneratorSpec, Pattern, SeededRng, Sizes, Zipf};
use wharf_workload::profiles::Profile;
use wharf_workload::textbook::{Clock, PageCache};
use wharf_workload::{
    OutputFormat, ReadOptions, Request, TraceReader, Workload, WorkloadStat, convert,
};

const REQUESTS: u64 = 2_000_000;

/// Prints the speed of `work`, which returns how many things it did.
fn measure(name: &str, mut work: impl FnMut() -> u64) {
    let mut best = f64::MAX;
    let mut count = 0;
    for _ in 0..3 {
        let start = Instant::now();
        count = work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{name:<40}{:>10.1} M/s", count as f64 / best / 1e6);
}

fn generator(pattern: Pattern) -> Generator {
    Generator::new(&GeneratorSpec {
        pattern,
        requests: REQUESTS,
        footprint_bytes: 16 << 30,
        sizes: Sizes::fixed(4096).expect("a valid size"),
        read_share: 0.7,
        seed: 1,
    })
    .expect("a valid specification")
}

fn uniform() -> Workload {
    Workload::from_requests_iter("uniform".to_owned(), generator(Pattern::Uniform), None)
}

fn drain(mut workload: Workload) -> u64 {
    let mut batch = Vec::new();
    let mut count = 0;
    while workload
        .next_batch(&mut batch)
        .expect("a readable workload")
    {
        count += black_box(&batch).len() as u64;
    }
    count
}

fn drain_iter(requests: impl Iterator<Item = Request>) -> u64 {
    let mut count = 0;
    for request in requests {
        black_box(request);
        count += 1;
    }
    count
}

fn readers() {
    let mut msr = Vec::new();
    convert(uniform(), &mut msr, OutputFormat::Msr, Path::new(".")).expect("memory takes it");
    let mut plain = Vec::new();
    convert(uniform(), &mut plain, OutputFormat::Wharf, Path::new(".")).expect("memory takes it");
    let mut disksim = String::new();
    for (i, request) in generator(Pattern::Uniform).enumerate() {
        let sector = request.offset / 512;
        disksim += &format!("{}.{:03} 0 {sector} 8 {}\n", i / 7, i % 1000, i & 1);
    }
    let texts = [
        ("msr", msr),
        ("wharf", plain),
        ("disksim", disksim.into_bytes()),
    ];
    for (name, text) in texts {
        let bytes = text.len() as f64 / 1e6;
        measure(&format!("read {name} lines ({bytes:.0} MB)"), || {
            let options = ReadOptions::default();
            let reader = TraceReader::from_bytes(name, text.clone(), &options);
            drain(Workload::from_stream(reader.expect("a known format")))
        });
    }
}

fn main() {
    readers();
    measure("write wharf lines", || {
        let mut out = Vec::new();
        convert(uniform(), &mut out, OutputFormat::Wharf, Path::new("."))
            .expect("memory takes it")
            .records
    });
    let zipf = Zipf::new(4 << 20, 0.99);
    let mut rng = SeededRng::child(1, "bench");
    measure("zipf ranks", || {
        (0..20_000_000).for_each(|_| _ = black_box(zipf.draw(&mut rng)));
        20_000_000
    });
    for (name, pattern) in [
        ("sequential", Pattern::Sequential),
        ("uniform", Pattern::Uniform),
        ("zipf", Pattern::Zipf { theta: 0.99 }),
    ] {
        let all = generator(pattern);
        measure(&format!("generate {name} requests"), || {
            drain_iter(all.clone())
        });
    }
    let mds = Profile::by_name("mds").expect("a known profile");
    measure("generate mds requests", || {
        let all = mds
            .generator(Some(REQUESTS), None, 1)
            .expect("a valid profile");
        drain_iter(all)
    });
    measure("count uniform requests", || {
        WorkloadStat::of(uniform(), false)
            .expect("readable")
            .requests()
    });
    measure("count with stack distances", || {
        WorkloadStat::of(uniform(), true)
            .expect("readable")
            .requests()
    });
    measure("textbook CLOCK touches, 1 M pages", || {
        let mut clock = Clock::new(1 << 20);
        generator(Pattern::Zipf { theta: 0.99 })
            .for_each(|request| _ = black_box(clock.touch(request.offset / 4096)));
        REQUESTS
    });
}
