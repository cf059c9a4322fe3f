//! Write amplification in steady state, as a table under review, beside what theory says of it.
//!
//! A drive of 64 MiB in stamps is filled, overwritten at random until the amplification settles, and
//! measured. For uniform writes the yardstick is cleaning in order of age, for which Desnoyers
//! ("Analytic modeling of SSD write performance", SYSTOR 2012) gives `A = a / (a + W(-a e^-a))`, with
//! `a` the ratio of flash in rotation to logical pages and `W` Lambert's function: greedy cleaning
//! is never worse, and not much better. For a drive that collects from several blocks at once it is an
//! exact simulation of greedy collection that knows no time: one block after another, at once.

use wharf_drive::config::{DriveConfig, GcPolicy, Timing};
use wharf_runtime::Seed;
use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use crate::support::configs::tiny;
use crate::support::host::{Host, code};
use crate::support::rig::Rig;

/// Commands in flight.
const DEPTH: usize = 16;

/// How far a measured value may lie from the table.
const TOLERANCE: f64 = 0.03;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Pattern {
    /// Every page alike.
    Uniform,
    /// Nine of ten writes go to a tenth of the pages.
    HotCold,
}

use GcPolicy::{CostBenefit, Greedy};
use Pattern::{HotCold, Uniform};

/// Policy, pattern, over-provisioning, pages programmed for each page written. Operations take no time here, so
/// the order in which writes and collection have their turns is the program's, and the figures follow it a little.
const TABLE: &[(GcPolicy, Pattern, f64, f64)] = &[
    (Greedy, Uniform, 0.07, 8.63),
    (Greedy, Uniform, 0.12, 4.67),
    (Greedy, Uniform, 0.25, 2.27),
    (Greedy, HotCold, 0.07, 8.88),
    (Greedy, HotCold, 0.12, 5.01),
    (Greedy, HotCold, 0.25, 2.73),
    (CostBenefit, Uniform, 0.07, 8.84),
    (CostBenefit, Uniform, 0.12, 4.75),
    (CostBenefit, Uniform, 0.25, 2.28),
    (CostBenefit, HotCold, 0.07, 6.08),
    (CostBenefit, HotCold, 0.12, 3.35),
    (CostBenefit, HotCold, 0.25, 1.78),
];

fn drive(policy: GcPolicy, over_provisioning: f64) -> DriveConfig {
    let mut config = tiny();
    config.geometry.dies_per_channel = 2;
    config.geometry.blocks_per_plane = 128;
    config.geometry.pages_per_block = 64;
    config.firmware.stripe_pages = 32;
    config.firmware.commands_max = 64;
    config.firmware.parts_max = 32;
    config.ftl.over_provisioning = over_provisioning;
    config.ftl.gc_policy = policy;
    config.ftl.gc_foreground_share = 0.008;
    config.ftl.gc_background_share = 0.012;
    config.ftl.write_buffer_pages = 64;
    config
}

fn measure(config: DriveConfig, pattern: Pattern) -> f64 {
    let mut rig = Rig::new(config);
    rig.depth = 32;
    let pages = rig.config().namespace_pages();
    rig.run(move |mut host| async move {
        let mut rng = Seed(5).child("lba").rng();
        overwrite(&mut host, pages, |i| i).await;
        let mut any = |_| match pattern {
            HotCold if rng.chance(9, 10) => rng.below(pages / 10),
            HotCold => pages / 10 + rng.below(pages - pages / 10),
            Uniform => rng.below(pages),
        };
        overwrite(&mut host, 5 * pages, &mut any).await;
        let before = host.statistics().await;
        overwrite(&mut host, 4 * pages, &mut any).await;
        let run = host.statistics().await.since(&before);
        run.write_amplification().expect("pages were written")
    })
}

/// Writes `count` single pages, several at once.
async fn overwrite(host: &mut Host, count: u64, mut lba: impl FnMut(u64) -> u64) {
    for index in 0..count {
        if index >= DEPTH as u64 {
            assert_eq!(code(&host.next(0).await), StatusCode::Success);
        }
        let command = Command::write(1, lba(index), 1);
        host.send(0, command.with_prp(host.data.address(0), 0));
    }
    for _ in 0..DEPTH {
        assert_eq!(code(&host.next(0).await), StatusCode::Success);
    }
}

/// The branch of Lambert's function above -1, by Newton's method: `w e^w = x`, `-1/e < x < 0`.
fn lambert(x: f64) -> f64 {
    let step = |w: f64, _| w - (w * w.exp() - x) / (w.exp() * (w + 1.0));
    (0..100).fold(-0.2, step)
}

/// The amplification of cleaning in order of age, of blocks that are neither free nor open.
fn cleaning_by_age(over_provisioning: f64) -> f64 {
    let config = drive(Greedy, over_provisioning);
    let plan = config.plan().expect("it can be built");
    // Free blocks are kept at the threshold, and each plane has two open ones, half written.
    let in_rotation = plan.blocks - plan.foreground_blocks - plan.planes;
    let ratio = f64::from(in_rotation * plan.pages_per_block) / f64::from(plan.logical_pages);
    ratio / (ratio + lambert(-ratio * (-ratio).exp()))
}

#[test]
fn write_amplification_is_as_reviewed() {
    let mut wrong = String::new();
    for (policy, pattern, over_provisioning, expected) in TABLE {
        let found = measure(drive(*policy, *over_provisioning), *pattern);
        let theory = cleaning_by_age(*over_provisioning);
        let near = (found / expected - 1.0).abs() < TOLERANCE;
        let plausible = *pattern != Uniform
            || *policy != Greedy
            || (0.85 * theory..1.03 * theory).contains(&found);
        if !near || !plausible {
            wrong += &format!(
                "({policy:?}, {pattern:?}, {over_provisioning}): {found:.3}, not {expected}; \
                 cleaning by age: {theory:.3}\n"
            );
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn lambert_inverts() {
    for x in [-0.36, -0.2, -0.05] {
        let w = lambert(x);
        assert!((w * w.exp() - x).abs() < 1e-9 && w > -1.0, "{x}: {w}");
    }
}

/// One core that collects greedily, page by page, and in no time.
struct GreedyCore {
    pages_per_block: usize,
    /// Where each logical page is.
    map: Vec<usize>,
    /// The logical page of each page of flash, if it is valid.
    pages: Vec<Option<usize>>,
    valid: Vec<usize>,
    free: Vec<usize>,
    /// The open blocks, of host writes and of collected pages, and their next pages.
    open: [(usize, usize); 2],
    programs: u64,
}

impl GreedyCore {
    fn new(blocks: usize, pages_per_block: usize, logical_pages: usize) -> GreedyCore {
        let mut free: Vec<usize> = (0..blocks).collect();
        let open = [(); 2].map(|()| (free.pop().expect("blocks"), 0));
        GreedyCore {
            pages_per_block,
            map: vec![usize::MAX; logical_pages],
            pages: vec![None; blocks * pages_per_block],
            valid: vec![0; blocks],
            free,
            open,
            programs: 0,
        }
    }

    fn program(&mut self, lpn: usize, frontier: usize) {
        if let Some(old) = self.pages.get_mut(self.map[lpn]) {
            *old = None;
            self.valid[self.map[lpn] / self.pages_per_block] -= 1;
        }
        if self.open[frontier].1 == self.pages_per_block {
            self.open[frontier] = (self.free.pop().expect("a block in reserve"), 0);
        }
        let (block, page) = self.open[frontier];
        self.open[frontier].1 += 1;
        self.map[lpn] = block * self.pages_per_block + page;
        self.pages[self.map[lpn]] = Some(lpn);
        self.valid[block] += 1;
        self.programs += 1;
    }

    /// Writes a page, when `idle` blocks are free.
    fn write(&mut self, lpn: usize, idle: usize) {
        while self.free.len() < idle {
            let closed = (0..self.valid.len()).filter(|block| {
                !self.free.contains(block) && self.open.iter().all(|(open, _)| open != block)
            });
            let victim = closed
                .min_by_key(|block| self.valid[*block])
                .expect("one is closed");
            for page in victim * self.pages_per_block..(victim + 1) * self.pages_per_block {
                if let Some(lpn) = self.pages[page] {
                    self.program(lpn, 1);
                }
            }
            self.free.push(victim);
        }
        self.program(lpn, 0);
    }
}

/// The amplification of greedy collection under uniform writes, with `idle` blocks that hold nothing.
fn greedy(config: &DriveConfig, idle: u32) -> f64 {
    let plan = config.plan().expect("it can be built");
    let pages = plan.logical_pages as usize;
    let mut core = GreedyCore::new(plan.blocks as usize, plan.pages_per_block as usize, pages);
    let mut rng = Seed(8).rng();
    (0..pages).for_each(|lpn| core.write(lpn, idle as usize));
    let mut overwrite = |core: &mut GreedyCore, count: usize| {
        for _ in 0..count {
            core.write(rng.below(pages as u64) as usize, idle as usize);
        }
    };
    overwrite(&mut core, 5 * pages);
    let before = core.programs;
    overwrite(&mut core, 4 * pages);
    (core.programs - before) as f64 / (4 * pages) as f64
}

/// Victims that are chosen before they are needed have more valid pages, and all of them are as good
/// as taken from the spare flash: collection from many blocks at once could write far more.
#[test]
fn collection_from_many_blocks_writes_no_more_than_from_one_after_another() {
    for over_provisioning in [0.07, 0.12, 0.25] {
        let mut config = drive(Greedy, over_provisioning);
        config.timing = Timing {
            read_ns: 18_000,
            program_ns: 35_000,
            erase_ns: 250_000,
            channel_ns_per_page: 0,
        };
        let plan = config.plan().expect("it can be built");
        assert!(plan.victims_max > 1);
        // From a drive that holds back no block but those in reserve, to one that keeps those of
        // background collection, of two frontiers on each plane and of all victims out of use.
        let least = greedy(&config, plan.reserve_blocks);
        let unused = plan.background_blocks + 2 * plan.planes + plan.victims_max;
        let most = greedy(&config, unused);
        let found = measure(config, Uniform);
        assert!(
            (0.98 * least..most).contains(&found),
            "{over_provisioning}: {found:.3}, not from {least:.3} to {most:.3}"
        );
    }
}
