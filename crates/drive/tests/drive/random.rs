//! Random commands and random power cuts against the model.
//!
//! Each case is a small random drive, and three to five runs of it, each ended by a power cut at a
//! random media change or by its end. After every run the flash is opened as at power-on, its whole
//! structure checked, and every page compared with what it may hold.
//!
//! Replay a failing case with the seed that it prints, or hunt for longer:
//!
//! ```text
//! WHARF_SEED=1234 cargo test -p wharf-drive --test drive random
//! WHARF_CASES=1000000 cargo test -p wharf-drive --test drive random
//! ```

use wharf_codec::Codec;
use wharf_drive::PowerSwitch;
use wharf_drive::config::{FrameIndex, MediaKind};
use wharf_runtime::{CostTable, Rng, Seed};

use crate::support::configs;
use crate::support::ops::Mix;
use crate::support::player::{Shared, World, play};
use crate::support::rig::{Rig, compare};

/// Media changes within which a cut falls, if it falls.
const CUT_WITHIN: u64 = 120;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}

/// Runs `cases` cases from `first` on, or the one that WHARF_SEED names.
fn hunt(kind: MediaKind, pins: bool, first: u64, cases: u64) {
    hunt_with(first, cases, |seed| {
        case(seed, kind, pins, FrameIndex::Merged);
    });
}

fn hunt_with(first: u64, cases: u64, case: impl Fn(u64)) {
    let (first, cases) = match variable("WHARF_SEED") {
        Some(seed) => (seed, 1),
        None => (first, variable("WHARF_CASES").unwrap_or(cases)),
    };
    for seed in first..first + cases {
        let _named = NameOnPanic(seed);
        case(seed);
    }
}

/// Says how to replay the case if it fails.
struct NameOnPanic(u64);

impl Drop for NameOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.0;
            eprintln!("replay: WHARF_SEED={seed} cargo test -p wharf-drive --test drive random");
        }
    }
}

/// What a case saw: the hashes of its completions with and without their times, and whether operations cost time.
type Seen = (u64, u64, bool);

fn case(seed: u64, kind: MediaKind, pins: bool, index: FrameIndex) -> Seen {
    case_of(seed, kind, pins, index, None)
}

/// A case of a drive that packs its pages, compressed by this codec, if one is given.
fn case_of(seed: u64, kind: MediaKind, pins: bool, index: FrameIndex, pack: Option<Codec>) -> Seen {
    let seed = Seed(seed);
    let mut rng = seed.child("case").rng();
    let mut config = configs::random(&mut rng, kind);
    if let Some(codec) = pack {
        configs::pack(&mut config, codec, &mut rng);
    }
    let folder = image_folder();
    config.media.path = (kind == MediaKind::File).then(|| folder.path().join("drive.img"));
    config.host_memory.index = index;
    let mut rig = Rig::new(config);
    let costs = rng.chance(1, 2);
    if costs {
        small_costs(&mut rig.costs);
    }
    let world = World::new(rig.config());
    if pins {
        let chunks = (0..1 + rng.below(3)).map(|_| 1 + rng.below(9) as usize);
        let mut chunks: Vec<usize> = chunks.collect();
        chunks[0] += 1;
        world.lock().expect("no holder panics").to_lend = chunks;
    }
    for run in 0..3 + rng.below(3) {
        rig.seed = seed.child("ties").index(run);
        one_run(&mut rig, &world, &mut rng, pins);
        rig.reopen();
        compare(&mut rig, &world);
    }
    let world = world.lock().expect("no holder panics");
    (world.trace, world.data, costs)
}

/// A folder in memory where the system has one: what is tested is not the disk.
pub fn image_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder")
}

/// Every operation costs a little, so that the CPUs' clocks part.
pub fn small_costs(costs: &mut CostTable) {
    for (index, cost) in costs.cost_ns.values_mut().enumerate() {
        *cost = (index % 4) as f64 * 5.0;
    }
}

pub fn one_run(rig: &mut Rig, world: &Shared, rng: &mut Rng, pins: bool) {
    let power = match rng.chance(4, 5) {
        true => PowerSwitch::cut_after(1 + rng.below(CUT_WITHIN)),
        false => PowerSwitch::on(),
    };
    let clients = 1 + rng.below(2) as usize;
    let scripts = (0..clients).map(|client| {
        let mix = Mix {
            namespace_pages: rig.config().namespace_pages(),
            is_disk: rig.config().disk.is_some(),
            admin: client == 0,
            pin_percent: if pins { 45 } else { 0 },
            write_percent: 30 + rng.below(60),
        };
        let count = 10 + rng.below(50) as usize;
        play(world, mix.draw(rng, count), 1 + rng.below(4) as usize)
    });
    let scripts = scripts.collect();
    rig.run_clients(&power, scripts);
}

#[test]
fn random_commands_and_power_cuts_on_stamps() {
    hunt(MediaKind::Stamp, false, 0, 8_000);
}

#[test]
fn random_commands_and_power_cuts_on_whole_pages() {
    hunt(MediaKind::Ram, false, 1_000_000, 2_000);
}

#[test]
fn random_commands_and_power_cuts_on_mixed_pages() {
    hunt(MediaKind::Mixed, false, 1_500_000, 1_000);
}

#[test]
fn random_commands_and_power_cuts_on_an_image_file() {
    hunt(MediaKind::File, false, 2_000_000, 200);
}

#[test]
fn random_pins_among_commands_and_power_cuts_on_stamps() {
    hunt(MediaKind::Stamp, true, 3_000_000, 4_000);
}

#[test]
fn random_pins_among_commands_and_power_cuts_on_whole_pages() {
    hunt(MediaKind::Ram, true, 4_000_000, 1_000);
}

/// Cases of drives that pack their pages: with pins one in three.
fn hunt_packed(kind: MediaKind, codec: Codec, first: u64, cases: u64) {
    hunt_with(first, cases, |seed| {
        case_of(seed, kind, seed % 3 == 0, FrameIndex::Merged, Some(codec));
    });
}

#[test]
fn random_commands_and_power_cuts_on_packed_stamps() {
    hunt_packed(MediaKind::Stamp, Codec::Zlib, 6_000_000, 6_000);
}

#[test]
fn random_commands_and_power_cuts_on_units_of_whole_stamps() {
    hunt_packed(MediaKind::Stamp, Codec::None, 6_500_000, 1_500);
}

#[test]
fn random_commands_and_power_cuts_on_pages_packed_by_lz4() {
    hunt_packed(MediaKind::Ram, Codec::Lz4, 7_000_000, 1_500);
}

#[test]
fn random_commands_and_power_cuts_on_pages_packed_by_zlib() {
    hunt_packed(MediaKind::Ram, Codec::Zlib, 8_000_000, 600);
}

#[test]
fn random_commands_and_power_cuts_on_units_of_whole_pages() {
    hunt_packed(MediaKind::Ram, Codec::None, 8_500_000, 500);
}

#[test]
fn random_commands_and_power_cuts_on_an_image_of_units() {
    hunt_packed(MediaKind::File, Codec::Lz4, 9_000_000, 150);
    hunt_packed(MediaKind::File, Codec::None, 9_500_000, 50);
}

/// Of the cases whose operations take no time, every completion, its answer and its time are the same.
#[test]
fn a_hash_table_beside_the_map_answers_as_the_merged_index_does() {
    hunt_with(5_000_000, 1_500, |seed| {
        let run = |index| case(seed, MediaKind::Stamp, true, index);
        let (merged, hash) = (run(FrameIndex::Merged), run(FrameIndex::Hash));
        let costs = merged.2;
        assert!(costs || merged == hash, "{merged:x?} and {hash:x?}");
    });
}
