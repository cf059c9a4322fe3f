//! Random 4 KiB reads and writes on a file, beside fio with the same flags, in rounds that take
//! turns; and how fast parity is computed.
//!
//!     cargo bench -p wharf-storage                  fio is asked if it is installed
//!     cargo bench -p wharf-storage -- --file PATH --size-mib 1024 --millis 300 --rounds 15 --only "Read depth 32"
//!
//! The file is made with data in it and removed at the end. Rounds are short and many, as disks and
//! machines that are shared change from one second to the next.

#![allow(missing_docs)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use wharf_runtime::clock::Clock;
use wharf_runtime::xor_into;
use wharf_runtime::{Rng, Seed};
use wharf_storage::array::{Array, CreateOptions, Level, create};
use wharf_storage::{
    AlignedBuffer, Channel, Engine, FileOptions, Io, Op, PollGroup, RamTarget, Segment, Target,
    open,
};

const PAGE_BYTES: usize = 4096;

struct Plan {
    file: PathBuf,
    size_bytes: u64,
    millis: u64,
    rounds: usize,
    /// Rows whose name has this in it.
    only: String,
}

impl Plan {
    fn parse() -> Plan {
        let mut plan = Plan {
            file: PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/storage-bench"),
            size_bytes: 1 << 30,
            millis: 300,
            rounds: 15,
            only: String::new(),
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || -> u64 {
                let value = words.next().expect("a value");
                value.parse().expect("a number")
            };
            match word.as_str() {
                "--size-mib" => plan.size_bytes = number() << 20,
                "--millis" => plan.millis = number(),
                "--rounds" => plan.rounds = number() as usize,
                "--file" => plan.file = words.next().expect("a path").into(),
                "--only" => plan.only = words.next().expect("a part of a row's name"),
                "--bench" => {}
                other => panic!("unknown: {other}"),
            }
        }
        plan
    }
}

/// I/Os per second of a channel of its own kept at `depth`.
fn rate(target: &dyn Target, op: Op, depth: usize, millis: u64, rng: &mut Rng) -> f64 {
    let channel = target.channel(depth as u32).expect("a channel");
    rate_of(channel, target.size_bytes(), op, millis, rng)
}

/// I/Os per second of a channel kept at its depth.
fn rate_of(
    mut channel: Box<dyn Channel>,
    size_bytes: u64,
    op: Op,
    millis: u64,
    rng: &mut Rng,
) -> f64 {
    let depth = channel.depth();
    let mut memory = AlignedBuffer::new(depth * PAGE_BYTES);
    let pages = size_bytes / PAGE_BYTES as u64;
    // SAFETY: the memory outlives the channel, which is dropped first.
    unsafe { channel.register(&[Segment::of(&mut memory)]) };
    let clock = Clock::start();
    let mut idle: Vec<u64> = (0..depth as u64).collect();
    let mut ended = 0u64;
    while clock.now_ns() < millis * 1_000_000 {
        for tag in idle.drain(..) {
            let begin = tag as usize * PAGE_BYTES;
            let segment = [Segment::of(&mut memory[begin..begin + PAGE_BYTES])];
            let offset = rng.below(pages) * PAGE_BYTES as u64;
            let io = Io {
                op,
                offset,
                segments: &segment,
                tag,
            };
            // SAFETY: the memory is not looked at while an I/O uses it.
            unsafe { channel.submit(io) }.expect("there is room");
        }
        channel.wait(1, &mut |completion| {
            completion.result.expect("no error");
            idle.push(completion.tag);
            ended += 1;
        });
    }
    let elapsed_ns = clock.now_ns();
    drop(channel);
    ended as f64 * 1e9 / elapsed_ns as f64
}

/// The same by fio; none if it is not installed.
fn fio_rate(plan: &Plan, op: Op, depth: usize, seed: usize) -> Option<f64> {
    let rw = if op == Op::Read {
        "randread"
    } else {
        "randwrite"
    };
    let output = Command::new("fio")
        .args(["--name=bench", "--ioengine=io_uring", "--direct=1"])
        .args(["--registerfiles", "--fixedbufs", "--bs=4k", "--norandommap"])
        .args(["--time_based", "--output-format=json", "--thread"])
        .arg(format!("--filename={}", plan.file.display()))
        .arg(format!("--size={}", plan.size_bytes))
        .arg(format!("--runtime={}ms", plan.millis))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--rw={rw}"))
        .arg(format!("--randseed={}", seed + 1))
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let json: serde_json::Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    let side = if op == Op::Read { "read" } else { "write" };
    json["jobs"][0][side]["iops"].as_f64()
}

fn median(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (
        values[values.len() / 2],
        values[0],
        values[values.len() - 1],
    )
}

fn show(name: &str, values: &mut [f64]) -> f64 {
    let (middle, low, high) = median(values);
    print!("{name} {middle:>9.0} ({low:.0} to {high:.0})   ");
    middle
}

fn fill(path: &Path, size_bytes: u64) {
    let options = FileOptions {
        create_bytes: Some(size_bytes),
        ..FileOptions::default()
    };
    let target = open(path, &options).expect("a file");
    let mut way = wharf_storage::Blocking::new(&*target).expect("a channel");
    let mut rng = Seed(1).child("fill").rng();
    let mut piece = vec![0u8; 1 << 20];
    for chunk in piece.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next_u64().to_le_bytes());
    }
    for offset in (0..size_bytes).step_by(piece.len()) {
        way.write(offset, &piece).expect("it is filled");
    }
    way.flush().expect("it is filled");
}

fn files(plan: &Plan) {
    println!("{}", wharf_storage::capabilities());
    if let Some(folder) = plan.file.parent() {
        std::fs::create_dir_all(folder).expect("a folder");
    }
    fill(&plan.file, plan.size_bytes);
    let mut rng = Seed(1).child("offsets").rng();
    for op in [Op::Read, Op::Write] {
        for depth in [1, 16, 32] {
            let row = format!("{op:?} depth {depth}");
            if !row.contains(&plan.only) {
                continue;
            }
            // A shared ring has no descriptors and no memory registered.
            let ways = [
                (Engine::Uring, false),
                (Engine::Uring, true),
                (Engine::Threads, false),
            ];
            let mut rates = [const { Vec::new() }; 4];
            for round in 0..plan.rounds {
                for ((engine, is_shared), rates) in ways.into_iter().zip(&mut rates) {
                    let options = FileOptions {
                        engine,
                        ..FileOptions::default()
                    };
                    let Ok(target) = open(&plan.file, &options) else {
                        continue;
                    };
                    let channel = match is_shared {
                        true => target.channel_in(&PollGroup::new(), depth as u32),
                        false => target.channel(depth as u32),
                    };
                    let (channel, size_bytes) = (channel.expect("a channel"), target.size_bytes());
                    rates.push(rate_of(channel, size_bytes, op, plan.millis, &mut rng));
                }
                rates[3].extend(fio_rate(plan, op, depth, round));
            }
            print!("{row:14}: ");
            let mut ours = 0.0;
            for (name, rates) in ["io_uring", "shared ring", "threads", "fio"]
                .into_iter()
                .zip(&mut rates)
            {
                if rates.is_empty() {
                    print!("{name}: not to be had   ");
                    continue;
                }
                let middle = show(name, rates);
                match name {
                    "io_uring" => ours = middle,
                    "shared ring" => print!("shared/own {:.3}   ", middle / ours),
                    "fio" => print!("io_uring/fio {:.3}", ours / middle),
                    _ => {}
                }
            }
            println!();
        }
    }
    let _ = std::fs::remove_file(&plan.file);
}

/// GB of parity per second, over windows that stay in the nearest cache and over all of memory.
fn xor(rounds: usize) {
    for (name, bytes) in [
        ("8 KiB, L1", 8 << 10),
        ("64 KiB", 64 << 10),
        ("64 MiB, memory", 64 << 20),
    ] {
        let (mut into, mut from) = (AlignedBuffer::new(bytes), AlignedBuffer::new(bytes));
        into.fill(1);
        from.fill(2);
        let times = (1 << 31) / bytes;
        let mut rates: Vec<f64> = (0..rounds)
            .map(|_| {
                let clock = Clock::start();
                for _ in 0..times {
                    xor_into(std::hint::black_box(&mut into), std::hint::black_box(&from));
                }
                (times * bytes) as f64 / clock.now_ns() as f64
            })
            .collect();
        let (middle, low, high) = median(&mut rates);
        println!("xor over {name}: {middle:.1} GB/s ({low:.1} to {high:.1})");
    }
}

/// I/Os per second of arrays of four members in memory, which is what the array itself costs.
fn arrays(plan: &Plan) {
    let mut rng = Seed(1).child("arrays").rng();
    for level in [Level::Raid0, Level::Raid5, Level::Raid10] {
        let ram = |_| Arc::new(RamTarget::new("ram", 192 << 20, 4096)) as Arc<dyn Target>;
        let members: Vec<_> = (0..4).map(ram).collect();
        let options = CreateOptions {
            zeroed: true,
            ..CreateOptions::new(level, [1; 16])
        };
        create(&members, &options, &mut |_, _| {}).expect("an array");
        let array = Array::open(&members, false).expect("it opens");
        for op in [Op::Read, Op::Write] {
            let row = format!("{level:?} of 4 in memory, {op:?} depth 16");
            if !row.contains(&plan.only) {
                continue;
            }
            print!("{row}:");
            let rates = (0..plan.rounds).map(|_| rate(&array, op, 16, plan.millis, &mut rng));
            show("", &mut rates.collect::<Vec<_>>());
            println!();
        }
    }
}

fn main() {
    let plan = Plan::parse();
    if "xor".contains(&plan.only) {
        xor(plan.rounds);
    }
    arrays(&plan);
    files(&plan);
}
