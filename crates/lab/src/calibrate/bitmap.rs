//! The bitmap of a flash cache, its scan, and the chunks that leave it.
//!
//! One sector in 32 of 64 GiB is cached, as where the disk is 32 times as large as the cache: alone, or in runs of
//! eight. Look-ups are of cached sectors at random, with the lock that they take.

use std::hint::black_box;

use wharf_codec::{Codec, Compressor};
use wharf_host::indexless::bitmap::Bitmap;
use wharf_host::indexless::part::{Pages, Part, Run, SECTORS};
use wharf_host::indexless::policy::{Policy, Scan, ScanRules, View};
use wharf_host::indexless::word::Word;
use wharf_runtime::{Cpu, Op, Rng, Seed};

use super::costs::Costs;
use super::sample::{Sample, Sampler};
use super::{CalibrateError, inline_cpu};

/// Parts of the bitmap: 64 GiB.
const PARTS: u64 = 2048;

/// Sectors for each that is cached.
const SPARSITY: u64 = 32;

/// Look-ups that are timed together.
const BATCH: u64 = 256;

/// Bytes of a chunk: 128 KiB.
const CHUNK_BYTES: usize = 32 * 4096;

/// Sectors that leave in a round, as a share of those that are cached.
const ROUND_SHARE: f64 = 0.05;

/// Times all of it.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) -> Result<(), CalibrateError> {
    inline_cpu(|cpu| {
        lookups(sampler, costs, cpu);
        packing(sampler, costs);
        scans(sampler, costs, cpu);
        chunks(sampler, costs);
        Ok(())
    })
}

/// The runs of a part: so many sectors each.
fn part_runs(rng: &mut Rng, run_sectors: u16) -> Vec<Run> {
    let step = SPARSITY * u64::from(run_sectors);
    let runs = u64::from(SECTORS) / step;
    let run = |index: u64| Run {
        first: (index * step + rng.below(step - u64::from(run_sectors))) as u16,
        count: run_sectors,
        word: Word::dirty(rng.below(2) as u8),
    };
    (0..runs).map(run).collect()
}

/// A bitmap with runs of so many sectors, and their first sectors.
fn filled(cpu: &Cpu, run_sectors: u16, raw_bytes: usize) -> (Bitmap, Vec<u64>) {
    let bitmap = Bitmap::new(PARTS * u64::from(SECTORS), raw_bytes, true);
    let (mut rng, mut firsts) = (Seed(31).rng(), Vec::new());
    for part in 0..PARTS {
        let runs = part_runs(&mut rng, run_sectors);
        firsts.extend(
            runs.iter()
                .map(|run| part * u64::from(SECTORS) + u64::from(run.first)),
        );
        bitmap.learn(cpu, part, &runs);
    }
    (bitmap, firsts)
}

fn lookups(sampler: Sampler, costs: &mut Costs, cpu: &Cpu) {
    let unpacked_bytes = PARTS as usize * SECTORS as usize / 2;
    let mut rng = Seed(32).rng();
    let mut at_random = |firsts: &[u64]| -> Vec<u64> {
        let one = |_| firsts[rng.below(firsts.len() as u64) as usize];
        (0..BATCH).map(one).collect()
    };
    let mut look = |bitmap: &Bitmap, firsts: &[u64]| {
        let mut found = Vec::with_capacity(4);
        sampler.time(
            BATCH,
            || at_random(firsts),
            |sectors| {
                for sector in sectors.iter() {
                    found.clear();
                    let looked = bitmap.access(cpu, *sector, 1, &mut found);
                    looked.expect("all parts are known");
                    black_box(&found);
                }
            },
        )
    };
    let (bitmap, firsts) = filled(cpu, 1, unpacked_bytes);
    let offsets = look(&bitmap, &firsts);
    let (runs, run_firsts) = filled(cpu, 8, unpacked_bytes);
    let of_runs = look(&runs, &run_firsts);
    costs.path(
        "bitmap_offsets",
        offsets,
        "a cached sector found in a packed part of single sectors",
    );
    costs.path(
        "bitmap_runs",
        of_runs,
        "a cached sector found in a packed part of runs of eight",
    );
    let mean = |a: f64, b: f64| (a + b) / 2.0;
    let search = Sample {
        ns: mean(offsets.ns, of_runs.ns),
        spread_ns: mean(offsets.spread_ns, of_runs.spread_ns),
    };
    costs.set(
        Op::BitmapSearch,
        search,
        "mean of bitmap_offsets and bitmap_runs",
    );
    // A change of what is cached unpacks a part.
    for first in &firsts {
        let done = bitmap.change(cpu, *first, 1, |_| Word::ABSENT);
        done.and_then(|()| bitmap.change(cpu, *first, 1, |_| Word::dirty(1)))
            .expect("all parts are known");
    }
    let raw = look(&bitmap, &firsts);
    costs.set(
        Op::BitmapLookup,
        raw,
        "a cached sector at random, with the lock of its shard",
    );
    hot_lookups(sampler, costs, cpu, &bitmap, &firsts);
    let mut rng = Seed(33).rng();
    let update = sampler.time(
        2 * BATCH,
        || -> Vec<u64> {
            let one = |_| firsts[rng.below(firsts.len() as u64) as usize];
            (0..BATCH).map(one).collect()
        },
        |sectors| {
            for word in [Word::ABSENT, Word::dirty(1)] {
                for sector in sectors.iter() {
                    let changed = bitmap.change(cpu, *sector, 1, |_| word);
                    changed.expect("all parts are known");
                }
            }
        },
    );
    costs.set(
        Op::BitmapUpdate,
        update,
        "a sector at random leaves, or comes in again",
    );
}

/// Look-ups that have nothing to change, each of which begins when the one before has ended; and a bare load of the same
/// word in as much memory, in the same way.
fn hot_lookups(sampler: Sampler, costs: &mut Costs, cpu: &Cpu, bitmap: &Bitmap, firsts: &[u64]) {
    for first in firsts {
        let heated = bitmap.change(cpu, *first, 1, |_| Word::dirty(Word::HEAT_MAX));
        heated.expect("all parts are known");
    }
    let mut rng = Seed(38).rng();
    let mut among = |count: u64| -> Vec<u64> {
        let one = |_| firsts[rng.below(firsts.len() as u64) as usize];
        let some: Vec<u64> = (0..count).map(one).collect();
        some.into_iter().cycle().take(BATCH as usize).collect()
    };
    let look = |sectors: &mut Vec<u64>| {
        let mut found = Vec::with_capacity(4);
        // Always zero, but nobody knows before the look has ended.
        let mut last = 0;
        for sector in sectors.iter() {
            found.clear();
            let looked = bitmap.access(cpu, *sector + last, 1, &mut found);
            looked.expect("all parts are known");
            last = u64::from(found[0].count) - 1;
        }
        black_box(last);
    };
    let at_random = sampler.time(BATCH, || among(BATCH), look);
    costs.path(
        "bitmap_hot",
        at_random,
        "as bitmap_lookup, of sectors as hot as can be, one look after the other",
    );
    let again = sampler.time(
        BATCH,
        || {
            let mut few = among(16);
            look(&mut few);
            few
        },
        look,
    );
    costs.path(
        "bitmap_hot_again",
        again,
        "the same sixteen sectors again and again: no part of it misses a cache",
    );
    let words = vec![1u64; (bitmap.sectors() / 16) as usize];
    let words = black_box(&words[..]);
    let load = |sectors: &mut Vec<u64>| {
        let mut last = 0;
        for sector in sectors.iter() {
            last = words[(*sector / 16 + last) as usize] - 1;
        }
        black_box(last);
    };
    // Pages of zeros that nobody wrote are one page.
    let bare = sampler.time(BATCH, || among(BATCH), load);
    costs.path(
        "bitmap_bare_load",
        bare,
        "a load at such a place of as much memory, one after the other",
    );
}

fn packing(sampler: Sampler, costs: &mut Costs) {
    let mut rng = Seed(34).rng();
    let runs = part_runs(&mut rng, 1);
    let mut room = Vec::new();
    let pack = sampler.time(
        64,
        || {
            let mut pages = Pages::default();
            let parts = (0..32).map(|_| Part::of_runs(&runs, &mut pages));
            (parts.collect::<Vec<_>>(), Pages::keeping(1))
        },
        |(parts, pages)| {
            for part in parts.iter_mut() {
                part.unpack(pages);
                part.pack(&mut room, pages);
            }
        },
    );
    costs.set(
        Op::BitmapPack,
        pack,
        "half of unpacking and packing a part of single sectors",
    );
}

/// Rounds of a cache in use: what was chosen leaves, as much comes in elsewhere, and some of the rest is used.
fn scans(sampler: Sampler, costs: &mut Costs, cpu: &Cpu) {
    let raw_bytes = PARTS as usize * SECTORS as usize / 2;
    let (bitmap, _) = filled(cpu, 8, raw_bytes);
    let limit = bitmap.totals().cached;
    let budget = (limit as f64 * ROUND_SHARE) as u64;
    let mut rng = Seed(35).rng();
    let mut runs = Vec::new();
    let visits = sampler.collect(|| {
        let (mut seen, clock) = (0, wharf_runtime::clock::Clock::start());
        for part in 0..PARTS / 16 {
            bitmap.visit(cpu, part, &mut runs, |runs| {
                seen += runs.len();
                for run in runs.iter_mut() {
                    run.word = run.word.cooler();
                }
                true
            });
        }
        clock.now_ns() as f64 / seen as f64
    });
    costs.set(
        Op::ScanVisit,
        visits,
        "all runs of a part made cooler, by the run",
    );
    let mut scan = Scan::new(ScanRules::default());
    let mut victims = Vec::new();
    let by_evicted = sampler.collect(|| {
        victims.clear();
        let view = View {
            cpu,
            bitmap: &bitmap,
            limit,
        };
        let clock = wharf_runtime::clock::Clock::start();
        scan.choose(view, budget, &mut victims);
        let took_ns = clock.now_ns() as f64;
        let left: u64 = victims.iter().map(|victim| u64::from(victim.count)).sum();
        for victim in &victims {
            let gone = bitmap.change(cpu, victim.first, victim.count, |_| Word::ABSENT);
            gone.expect("all parts are known");
        }
        refill(cpu, &bitmap, limit, &mut rng);
        took_ns / left.max(1) as f64
    });
    costs.path(
        "scan_by_evicted",
        by_evicted,
        "choosing in rounds of 5 %, by the sector that leaves",
    );
}

fn refill(cpu: &Cpu, bitmap: &Bitmap, limit: u64, rng: &mut Rng) {
    let groups = bitmap.sectors() / 8;
    while bitmap.totals().cached < limit {
        let first = rng.below(groups) * 8;
        let dirty = rng.below(2) == 0;
        let come = |word: Word| match (word.is_cached(), dirty) {
            (true, _) => word.warmer(),
            (false, true) => Word::dirty(1),
            (false, false) => Word::clean(1),
        };
        let come = bitmap.change(cpu, first, 8, come);
        come.expect("all parts are known");
    }
}

fn chunks(sampler: Sampler, costs: &mut Costs) {
    let codec = Codec::Zlib;
    let mut compressor = Compressor::new(codec, codec.level_default()).expect("every build has it");
    let region = super::codecs::pages(&mut Seed(36).rng());
    let pages = (CHUNK_BYTES / 4096) as u64;
    let mut out = vec![0; CHUNK_BYTES];
    let mut rng = Seed(37).rng();
    let mut place = || rng.below((region.len() / CHUNK_BYTES) as u64) as usize * CHUNK_BYTES;
    let pack = sampler.time(pages, &mut place, |at| {
        black_box(compressor.compress(&region[*at..][..CHUNK_BYTES], &mut out));
    });
    costs.set(
        Op::ChunkPack,
        pack,
        "of 128 KiB, of which two fifths are random bytes, into zlib, by the page",
    );
    let mut packed = |at: usize| {
        let bytes = compressor.compress(&region[at..][..CHUNK_BYTES], &mut out);
        out[..bytes.expect("it is text for the most part")].to_vec()
    };
    let kept: Vec<Vec<u8>> = (0..16).map(|_| packed(place())).collect();
    let mut back = vec![0; CHUNK_BYTES];
    let mut turn = 0;
    let unpack = sampler.time(
        pages,
        || {
            turn = (turn + 1) % kept.len();
            turn
        },
        |at| {
            let expanded = compressor.decompress(&kept[*at], &mut back);
            expanded.expect("it was compressed so");
            black_box(&back);
        },
    );
    costs.set(
        Op::ChunkUnpack,
        unpack,
        "such a chunk out of zlib, by the page",
    );
}
