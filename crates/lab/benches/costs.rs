//! Measures what each operation costs on this machine, and prints a cost table.
//!
//!     cargo bench -p wharf-lab --bench costs > costs.toml
//!     wharf compare --costs costs.toml
//!
//! Every figure is the median over rounds of the time of a batch of the real code behind the operation,
//! divided by the batch. What cannot be called apart is the difference of two such times; each function says
//! how. One thread, uncontended.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use wharf_drive::PowerSwitch;
use wharf_drive::config::DriveConfig;
use wharf_drive::ftl::{Batch, Finished, Ftl, NONE, Overwrite, Precondition, Urgency};
use wharf_drive::media::{AnyMedia, StampMedia};
use wharf_host::cache::index::{Index, hash_page};
use wharf_lab::config::{Sets, load_drive};
use wharf_lab::result::TimelineBuilder;
use wharf_runtime::clock::Clock;
use wharf_runtime::{Bell, CostTable, Cpu, Machine, Op, Seed, Side, ring};
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::dma::DmaSpace;
use wharf_wire::prp::prp_walk;
use wharf_wire::queue::queue_pair;
use wharf_wire::status::Status;

const ROUNDS: usize = 15;

fn main() {
    let machine = Machine::new(CostTable::free(), false);
    let mut machine = machine;
    let id = machine.add_cpu("bench", Side::Host, 1.0);
    let inline = machine.inline();
    let cpu = inline.cpu(id).clone();
    let mut costs: BTreeMap<Op, f64> = BTreeMap::new();
    queue_costs(&cpu, &mut costs);
    ring_costs(&cpu, &mut costs);
    ftl_costs(&mut costs);
    host_costs(&mut costs);
    print_table(&costs);
}

/// Median nanoseconds of one of `batch` runs of `f`, over rounds; `before` prepares each round.
fn measure<S>(batch: u64, mut before: impl FnMut() -> S, mut f: impl FnMut(&mut S)) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let mut state = before();
            let clock = Clock::start();
            f(&mut state);
            clock.now_ns() as f64 / batch as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

/// The four ends of a queue pair, one after another over the same commands.
fn queue_costs(cpu: &Cpu, costs: &mut BTreeMap<Op, f64>) {
    const BATCH: u64 = 100;
    let space = DmaSpace::new(4096);
    let region = space.register(BATCH as usize).expect("memory");
    let bell = Bell::new();
    let (mut host, mut drive) = queue_pair(128, &bell, 0);
    let mut rounds = [const { Vec::new() }; 4];
    for _ in 0..2000 {
        let clock = Clock::start();
        for cid in 0..BATCH as u16 {
            let command = Command::read(1, u64::from(cid), 1).with_cid(cid);
            let command = command.with_prp(region.address(cid.into()), 0);
            host.submit(cpu, black_box(command)).expect("room");
            host.ring_doorbell(cpu);
        }
        let submitted = clock.now_ns();
        for _ in 0..BATCH {
            let command = drive.fetch(cpu).expect("a command");
            black_box(command.check_flags().is_ok() && command.check_lba_range(1 << 30).is_ok());
            let read = |at| space.read_u64(at);
            black_box(prp_walk(command.prp1, command.prp2, command.pages(), read).count());
        }
        let fetched = clock.now_ns();
        for cid in 0..BATCH as u16 {
            drive.complete(cpu, 1, Completion::new(cid, Status::SUCCESS), 0);
        }
        let completed = clock.now_ns();
        for _ in 0..BATCH {
            black_box(host.poll(cpu).expect("a completion"));
        }
        host.release();
        let polled = clock.now_ns();
        let spans = [
            submitted,
            fetched - submitted,
            completed - fetched,
            polled - completed,
        ];
        rounds
            .iter_mut()
            .zip(spans)
            .for_each(|(all, span)| all.push(span as f64 / BATCH as f64));
    }
    let ops = [
        Op::DriverSubmit,
        Op::CommandFetch,
        Op::CommandComplete,
        Op::DriverComplete,
    ];
    for (op, mut all) in ops.into_iter().zip(rounds) {
        all.sort_by(f64::total_cmp);
        costs.insert(op, all[all.len() / 2]);
    }
}

/// A part goes to a core and an answer back: the two ends of each ring.
fn ring_costs(cpu: &Cpu, costs: &mut BTreeMap<Op, f64>) {
    const BATCH: u64 = 1024;
    let bell = Bell::new();
    let push = measure(
        BATCH,
        || ring::<[u64; 8]>(2048, &bell, 0),
        |(sender, _)| (0..BATCH).for_each(|i| sender.push(cpu, black_box([i; 8])).expect("room")),
    );
    let pop = measure(
        BATCH,
        || {
            let (mut sender, receiver) = ring::<[u64; 8]>(2048, &bell, 0);
            (0..BATCH).for_each(|i| sender.push(cpu, [i; 8]).expect("room"));
            (sender, receiver)
        },
        |(_, receiver)| {
            (0..BATCH).for_each(|_| {
                black_box(receiver.try_pop(cpu));
            })
        },
    );
    costs.insert(Op::CommandSplit, push);
    costs.insert(Op::CommandGather, pop);
    // A core takes the part and sends the answer.
    costs.insert(Op::CorePart, pop + push);
}

fn one_core() -> DriveConfig {
    let sets = [
        "drive.firmware.cores=1",
        "drive.geometry.blocks_per_plane=64",
        "drive.timing.read_ns=0",
        "drive.timing.program_ns=0",
        "drive.timing.erase_ns=0",
        "drive.ftl.write_buffer_pages=1024",
        "drive.ftl.over_provisioning=0.11",
    ];
    load_drive("scala", &Sets::parse(&sets).expect("fixed keys"))
        .expect("a preset")
        .0
}

/// The translation layer of a 4 GiB core in stamps, preconditioned.
fn ftl_costs(costs: &mut BTreeMap<Op, f64>) {
    const BATCH: u64 = 512;
    let config = one_core();
    let plan = config.plan().expect("a preset");
    let media = AnyMedia::Stamp(StampMedia::new(plan.media_geometry(8)).expect("memory"));
    let mut ftl = Ftl::open(&config, plan.clone(), media, PowerSwitch::on()).expect("opens");
    let seed = Seed(1);
    ftl.precondition(&Precondition {
        fill_share: 1.0,
        overwrite: Overwrite::Share(1.0),
        seed,
    })
    .expect("fits");
    let pages = u64::from(plan.logical_pages);
    let mut rng = Seed(2).rng();
    let mut page = [0u8; 8];
    let lookup = measure(
        BATCH,
        || {
            (0..BATCH)
                .map(|_| rng.below(pages) as u32)
                .collect::<Vec<_>>()
        },
        |lpns| {
            lpns.iter()
                .for_each(|lpn| drop(black_box(ftl.read(0, *lpn, &mut page))))
        },
    );
    costs.insert(Op::MapLookup, lookup);
    let (mut staged, mut finished) = (Vec::new(), Vec::new());
    let (mut victims, mut moved) = (Vec::new(), Vec::new());
    let (mut done, mut batch) = (Finished::default(), Batch::default());
    for _ in 0..300 {
        let lpns: Vec<u32> = (0..BATCH).map(|_| rng.below(pages) as u32).collect();
        let clock = Clock::start();
        for lpn in &lpns {
            ftl.stage(0, *lpn, NONE, |frame| frame.fill(1))
                .expect("room");
        }
        let after = clock.now_ns();
        ftl.finish_due(0, &mut done);
        let end = clock.now_ns();
        staged.push(after as f64 / BATCH as f64);
        finished.push((end - after) as f64 / BATCH as f64);
        while ftl.collection_need().is_some() {
            collect(&mut ftl, &mut batch, &mut done, &mut victims, &mut moved);
        }
    }
    for (op, mut all) in [
        (Op::PageAllocate, staged),
        (Op::MapUpdate, finished),
        (Op::GcVictim, victims),
        (Op::GcPage, moved),
    ] {
        all.sort_by(f64::total_cmp);
        costs.insert(op, all[all.len() / 2]);
    }
    let clock = Clock::start();
    ftl.deallocate(0, plan.logical_pages / 2, &mut done);
    costs.insert(
        Op::Deallocate,
        clock.now_ns() as f64 / f64::from(plan.logical_pages / 2),
    );
}

/// One victim: the time to choose it, and to look at each page and send valid ones on their way. (The end
/// of their programs is `map_update`.)
fn collect(
    ftl: &mut Ftl,
    batch: &mut Batch,
    done: &mut Finished,
    victims: &mut Vec<f64>,
    moved: &mut Vec<f64>,
) {
    let clock = Clock::start();
    let Some(victim) = ftl.take_victim(Urgency::Foreground) else {
        return;
    };
    victims.push(clock.now_ns() as f64);
    let (mut page, mut scanned, mut busy_ns) = (0, 0, 0);
    while page < ftl.plan().pages_per_block {
        let clock = Clock::start();
        page = ftl.read_batch(0, victim, page, batch);
        scanned += batch.scanned;
        while let Some(moving) = batch.moves.pop() {
            assert!(
                ftl.stage_move(0, moving, Urgency::Foreground).is_ok(),
                "collection has its reserve"
            );
        }
        busy_ns += clock.now_ns();
        ftl.finish_due(0, done);
    }
    moved.push(busy_ns as f64 / f64::from(scanned.max(1)));
    ftl.start_erase(0, victim);
    ftl.finish_due(0, done);
}

/// The cache's index and frames, the copy, and the client's own account.
fn host_costs(costs: &mut BTreeMap<Op, f64>) {
    const FRAMES: u32 = 1 << 18;
    const BATCH: u64 = 4096;
    let mut rng = Seed(3).rng();
    let mut index = Index::new(FRAMES);
    for page in 0..u64::from(FRAMES) {
        index.insert(page, hash_page(page), page as u32);
    }
    let table: Vec<u64> = (0..u64::from(FRAMES)).collect();
    let mut random = || {
        (0..BATCH)
            .map(|_| rng.below(u64::from(FRAMES)))
            .collect::<Vec<_>>()
    };
    let lookup = measure(BATCH, &mut random, |pages| {
        for page in pages.iter() {
            let found = index.find(*page, hash_page(*page), |frame| {
                table[frame as usize] == *page
            });
            black_box(found);
        }
    });
    let update = measure(BATCH, &mut random, |pages| {
        for page in pages.iter() {
            let frame = *page as u32;
            index.remove(*page, hash_page(*page), frame, |frame| {
                table[frame as usize]
            });
            index.insert(*page, hash_page(*page), frame);
        }
    });
    let lock = measure(
        BATCH,
        || std::sync::atomic::AtomicBool::new(false),
        |taken| {
            for _ in 0..BATCH {
                // What an uncontended spin lock costs: an exchange and a store.
                while taken.swap(true, std::sync::atomic::Ordering::Acquire) {}
                taken.store(false, std::sync::atomic::Ordering::Release);
            }
        },
    );
    costs.insert(Op::CacheLookup, lookup + lock);
    // Each run took a page out and put it in again: two updates.
    costs.insert(Op::CacheUpdate, update / 2.0 + lock);
    // One step of the hand: a frame's word is read and its reference bit cleared.
    let step = measure(
        u64::from(FRAMES),
        || table.clone(),
        |words| {
            words
                .iter_mut()
                .for_each(|word| *word = black_box(*word) & !(1 << 62));
        },
    );
    costs.insert(Op::ClockStep, step);
    copy_and_client(costs);
}

fn copy_and_client(costs: &mut BTreeMap<Op, f64>) {
    const PAGES: usize = 1 << 18;
    const BATCH: u64 = 4096;
    let space = DmaSpace::new(4096);
    let region = Arc::new(space.register(PAGES).expect("memory"));
    for page in 0..PAGES {
        // SAFETY: no command is in flight and one reference is alive at a time.
        unsafe { region.page_mut(page) }.fill(1);
    }
    let mut rng = Seed(4).rng();
    let mut buffer = vec![0u8; 4096];
    let copy = measure(
        BATCH,
        || {
            (0..BATCH)
                .map(|_| rng.below(PAGES as u64) as usize)
                .collect::<Vec<_>>()
        },
        |pages| {
            for page in pages.iter() {
                // SAFETY: as above.
                buffer.copy_from_slice(unsafe { region.page_mut(*page) });
                black_box(&buffer);
            }
        },
    );
    costs.insert(Op::CopyPage, copy);
    let mut histogram =
        hdrhistogram::Histogram::<u64>::new_with_bounds(1, 1 << 40, 3).expect("bounds");
    let mut timeline = TimelineBuilder::new(4);
    let mut time_ns = 0;
    let client = measure(
        BATCH,
        || (),
        |()| {
            for _ in 0..BATCH {
                let latency = rng.below(1 << 16) + 1;
                time_ns += latency;
                histogram.saturating_record(latency);
                timeline.record(time_ns, 4096, 1, 1);
            }
        },
    );
    costs.insert(Op::ClientRequest, client);
}

fn print_table(costs: &BTreeMap<Op, f64>) {
    println!("name = \"measured\"");
    println!("machine = \"{}\"", machine());
    println!("date = \"\"      # the day of the measurement");
    println!("commit = \"\"    # the commit that was measured");
    println!("\n[cost_ns]");
    for op in Op::ALL {
        println!("{} = {:.1}", op.key(), costs[op]);
    }
}

/// The processor's name and number, as Linux gives it.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown processor", |rest| {
        rest.trim_start_matches([' ', '\t', ':'])
    });
    let count = text
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    format!("{count} x {model}")
}
