//! Tests of the translation layer alone: random histories on flash so small that everything happens
//! within a few hundred operations, and power cuts in the middle of them.

mod cached;
mod checkpoint;
mod planted;
mod runs;
mod sparse;
#[path = "../../../tests/drive/support/tiny.rs"]
mod tiny;

use std::collections::BTreeMap;

use wharf_runtime::{Rng, Seed};

use super::{Batch, Finished, Ftl, NONE, Place, Refusal, Urgency};
use crate::config::{DriveConfig, Timing};
use crate::media::{AnyMedia, Media, StampMedia};
use crate::power::PowerSwitch;
use tiny::tiny;

/// Two planes of ten blocks of four pages; most operations take time, so that many are under way.
fn config(checkpoint_pages: u64) -> DriveConfig {
    let mut config = tiny();
    config.geometry.planes_per_die = 2;
    config.timing = Timing {
        read_ns: 300,
        program_ns: 700,
        erase_ns: 2_000,
        channel_ns_per_page: 100,
    };
    config.ftl.over_provisioning = 0.5;
    config.ftl.volatile_write_cache = true;
    config.ftl.checkpoint_pages = checkpoint_pages;
    config.media.verify = false;
    config
}

/// The same flash under a namespace of 300 pages, of which 40 can be on flash.
fn sparse_config(checkpoint_pages: u64) -> DriveConfig {
    let mut config = config(checkpoint_pages);
    config.ftl.shown_bytes = 300 * 4096;
    config
}

fn new_media(config: &DriveConfig) -> AnyMedia {
    let geometry = config
        .plan()
        .unwrap()
        .media_geometry(config.page_bytes() as u32);
    AnyMedia::Stamp(StampMedia::new(geometry).unwrap())
}

fn open(config: &DriveConfig, media: AnyMedia, power: &PowerSwitch) -> Ftl {
    Ftl::open(config, config.plan().unwrap(), media, power.clone())
        .unwrap_or_else(|error| panic!("{error}"))
}

/// A page that was made zeros: it reads as one that was deallocated, and is allocated.
const ZEROS: u64 = u64::MAX;

/// What may be found of each page after a power cut: its versions since the last flush, oldest
/// first; 0 is "deallocated or never written".
#[derive(Debug, Clone, Default)]
struct Model(BTreeMap<u32, Vec<u64>>);

impl Model {
    fn versions(&mut self, lpn: u32) -> &mut Vec<u64> {
        self.0.entry(lpn).or_insert_with(|| vec![0])
    }

    fn flush(&mut self) {
        for versions in self.0.values_mut() {
            versions.drain(..versions.len() - 1);
        }
    }

    /// Compares a recovered core with what may be found, and goes on from what was.
    fn settle(&mut self, ftl: &mut Ftl) {
        for lpn in 0..ftl.plan().logical_pages {
            let mut data = [0; 8];
            ftl.read(0, lpn, &mut data).unwrap();
            let found = match ftl.place(lpn) {
                Place::Zero => ZEROS,
                _ => u64::from_le_bytes(data),
            };
            assert!(found == 0 || ftl.place(lpn).is_mapped());
            let allowed = self.versions(lpn);
            assert!(
                allowed.contains(&found),
                "page {lpn}: {found} is none of {allowed:?}"
            );
            *allowed = vec![found];
        }
    }
}

/// A collector between two of its steps.
#[derive(Debug, Default)]
struct Collector {
    victim: Option<(u32, u32)>,
    batch: Batch,
}

impl Collector {
    /// The next step: choose a victim, move a few pages, or erase.
    fn step(&mut self, ftl: &mut Ftl, now_ns: u64) {
        let Some((victim, page)) = self.victim else {
            let victim = ftl
                .collection_need()
                .and_then(|urgency| ftl.take_victim(urgency));
            self.victim = victim.map(|victim| (victim, 0));
            return;
        };
        if page < ftl.plan().pages_per_block {
            let next = ftl.read_batch(now_ns, victim, page, &mut self.batch);
            while let Some(moving) = self.batch.moves.pop() {
                ftl.stage_move(now_ns, moving, Urgency::Background)
                    .expect("a reserved page");
            }
            self.victim = Some((victim, next));
        } else if ftl.is_empty(victim) {
            ftl.write_log().unwrap();
            ftl.start_erase(now_ns, victim);
            self.victim = None;
        }
    }
}

/// A core that lives through random operations.
struct Life {
    ftl: Ftl,
    now_ns: u64,
    version: u64,
    collector: Collector,
    power: PowerSwitch,
}

impl Life {
    fn begin(config: &DriveConfig, media: AnyMedia, power: PowerSwitch, version: u64) -> Life {
        Life {
            ftl: open(config, media, &power),
            now_ns: 0,
            version,
            collector: Collector::default(),
            power,
        }
    }

    /// One random operation; the model learns of it.
    fn step(&mut self, rng: &mut Rng, model: &mut Model) {
        let pages = self.ftl.plan().logical_pages;
        self.now_ns += rng.below(400);
        match rng.below(100) {
            0..60 => self.write(rng.below(u64::from(pages)) as u32, model),
            60..66 => self.clear(rng, model, false),
            66..70 => self.clear(rng, model, true),
            70..74 => self.flush(model),
            74..90 => self.collector.step(&mut self.ftl, self.now_ns),
            _ => self.ftl.finish_due(self.now_ns, &mut Finished::default()),
        }
        if self.ftl.checkpoint_is_due() {
            self.ftl.write_checkpoint().unwrap();
        }
    }

    fn write(&mut self, lpn: u32, model: &mut Model) {
        self.version += 1;
        let stamp = self.version.to_le_bytes();
        match self.ftl.stage(self.now_ns, lpn, NONE, |frame| {
            frame.copy_from_slice(&stamp)
        }) {
            Ok(_) => model.versions(lpn).push(self.version),
            Err(Refusal::NoFrame) => {
                self.now_ns = self.ftl.next_end_ns().expect("frames are under way");
                self.ftl.finish_due(self.now_ns, &mut Finished::default());
            }
            Err(Refusal::NoSpace) => {
                self.now_ns += 700;
                self.ftl.finish_due(self.now_ns, &mut Finished::default());
                self.collector.step(&mut self.ftl, self.now_ns);
            }
            Err(Refusal::CapacityExceeded) if self.ftl.plan().is_sparse => {
                let plan = self.ftl.plan();
                // A cut may have brought deallocated pages back beside those that took their place.
                assert!(self.ftl.used_granules() / 64 >= plan.capacity_pages.into());
                assert!(!self.ftl.place(lpn).takes_flash());
            }
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    /// Deallocates a few pages, or has them hold zeros; in a sparse map far apart at times.
    fn clear(&mut self, rng: &mut Rng, model: &mut Model, zeros: bool) {
        let pages = u64::from(self.ftl.plan().logical_pages);
        let first = rng.below(pages);
        let most = if rng.chance(1, 8) { pages } else { 5 };
        let count = rng.below((pages - first).min(most)) + 1;
        let (first, count) = (first as u32, count as u32);
        let mut finished = Finished::default();
        match zeros {
            false => drop(self.ftl.deallocate(first, count, &mut finished)),
            true => self.ftl.zero(first, count, &mut finished),
        }
        let version = if zeros { ZEROS } else { 0 };
        (first..first + count).for_each(|lpn| model.versions(lpn).push(version));
    }

    fn flush(&mut self, model: &mut Model) {
        self.ftl.finish_all();
        self.ftl.write_log().unwrap();
        if !self.power.is_cut() {
            model.flush();
        }
    }
}
