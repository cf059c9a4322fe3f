//! The translation layer of one core: 4 GiB in stamps, aged by one overwrite, so that maps and
//! block tables are as large and as shuffled as in use.

use std::hint::black_box;

use wharf_drive::PowerSwitch;
use wharf_drive::config::DriveConfig;
use wharf_drive::ftl::{Batch, Finished, Ftl, NONE, Overwrite, Precondition, Urgency};
use wharf_drive::media::{AnyMedia, StampMedia};
use wharf_runtime::clock::Clock;
use wharf_runtime::{Op, Rng, Seed};

use super::CalibrateError;
use super::costs::Costs;
use super::sample::Sampler;
use crate::config::{Sets, load_drive};

/// Operations of a round.
const BATCH: u64 = 512;

/// A core of the `scala` drive whose flash takes no time: only the CPU's work is left.
fn one_core() -> Result<DriveConfig, CalibrateError> {
    let sets = [
        "drive.firmware.cores=1",
        "drive.geometry.blocks_per_plane=64",
        "drive.timing.read_ns=0",
        "drive.timing.program_ns=0",
        "drive.timing.erase_ns=0",
        "drive.ftl.write_buffer_pages=1024",
        "drive.ftl.over_provisioning=0.11",
    ];
    Ok(load_drive("scala", &Sets::parse(&sets)?)?.0)
}

/// Times look-ups, writes, collection and deallocation.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) -> Result<(), CalibrateError> {
    let config = one_core()?;
    let plan = config.plan().map_err(wharf_drive::DriveError::from)?;
    let media = StampMedia::new(plan.media_geometry(8)).map_err(wharf_drive::DriveError::from)?;
    let media = AnyMedia::Stamp(media);
    let mut ftl = Ftl::open(&config, plan.clone(), media, PowerSwitch::on())
        .map_err(wharf_drive::DriveError::from)?;
    ftl.precondition(&Precondition {
        fill_share: 1.0,
        overwrite: Overwrite::Share(1.0),
        seed: Seed(1),
    })
    .map_err(wharf_drive::DriveError::from)?;
    let pages = u64::from(plan.logical_pages);
    let mut rng = Seed(2).rng();
    let mut page = [0u8; 8];
    let lookup = sampler.time(
        BATCH,
        || random_pages(&mut rng, pages),
        |lpns| {
            lpns.iter()
                .for_each(|lpn| drop(black_box(ftl.read(0, *lpn, &mut page))))
        },
    );
    costs.set(Op::MapLookup, lookup, "random map entry and its stamp");
    writes(sampler, &mut ftl, pages, costs);
    deallocation(sampler, &mut ftl, plan.logical_pages, costs);
    Ok(())
}

fn random_pages(rng: &mut Rng, pages: u64) -> Vec<u32> {
    (0..BATCH).map(|_| rng.below(pages) as u32).collect()
}

/// Random overwrites: places given, programs ended, and the collection that they call for.
fn writes(sampler: Sampler, ftl: &mut Ftl, pages: u64, costs: &mut Costs) {
    let mut rng = Seed(4).rng();
    let (mut staged, mut finished) = (Vec::new(), Vec::new());
    let mut collected = Collected::default();
    let mut done = Finished::default();
    for _ in 0..sampler.groups * sampler.rounds * 2 {
        let lpns = random_pages(&mut rng, pages);
        let clock = Clock::start();
        for lpn in &lpns {
            ftl.stage(0, *lpn, NONE, |frame| frame.fill(1))
                .expect("room");
        }
        let after = clock.now_ns();
        ftl.finish_due(0, &mut done);
        finished.push((clock.now_ns() - after) as f64 / BATCH as f64);
        staged.push(after as f64 / BATCH as f64);
        while ftl.collection_need().is_some() {
            collect(ftl, &mut done, &mut collected);
        }
    }
    for (op, how, rounds) in [
        (Op::PageAllocate, "a page staged for its program", staged),
        (Op::MapUpdate, "the end of its program", finished),
        (
            Op::GcVictim,
            "the choice of a block, with a look at the clock",
            collected.choices(),
        ),
        (
            Op::GcPage,
            "a page of it examined and moved",
            collected.pages,
        ),
    ] {
        costs.set(op, sampler.figure(&rounds), how);
    }
}

/// Choices of a round.
const CHOICES: usize = 16;

/// Times of collection.
#[derive(Default)]
struct Collected {
    batch: Batch,
    victims: Vec<f64>,
    pages: Vec<f64>,
}

impl Collected {
    /// Means of choices: one of them is too short for the clock.
    fn choices(&self) -> Vec<f64> {
        let together = self.victims.chunks_exact(CHOICES);
        together
            .map(|times| times.iter().sum::<f64>() / CHOICES as f64)
            .collect()
    }
}

/// One victim: the time to choose it, and to look at each page and send valid ones on their way. (The end
/// of their programs is `map_update`.)
fn collect(ftl: &mut Ftl, done: &mut Finished, times: &mut Collected) {
    let clock = Clock::start();
    let Some(victim) = ftl.take_victim(Urgency::Foreground) else {
        return;
    };
    times.victims.push(clock.now_ns() as f64);
    let (mut page, mut scanned, mut busy_ns) = (0, 0, 0);
    while page < ftl.plan().pages_per_block {
        let clock = Clock::start();
        page = ftl.read_batch(0, victim, page, &mut times.batch);
        scanned += times.batch.scanned;
        while let Some(moving) = times.batch.moves.pop() {
            let sent = ftl.stage_move(0, moving, Urgency::Foreground);
            assert!(sent.is_ok(), "collection has its reserve");
        }
        busy_ns += clock.now_ns();
        ftl.finish_due(0, done);
    }
    times.pages.push(busy_ns as f64 / f64::from(scanned.max(1)));
    ftl.start_erase(0, victim);
    ftl.finish_due(0, done);
}

/// Half of all pages, in as many runs as there are rounds.
fn deallocation(sampler: Sampler, ftl: &mut Ftl, logical_pages: u32, costs: &mut Costs) {
    let mut done = Finished::default();
    let run = logical_pages / 2 / (sampler.groups * sampler.rounds) as u32;
    let mut first = 0;
    let sample = sampler.collect(|| {
        let clock = Clock::start();
        ftl.deallocate(first, run, &mut done);
        first += run;
        clock.now_ns() as f64 / f64::from(run)
    });
    costs.set(Op::Deallocate, sample, "a page of a long deallocated run");
}
