//! The design `scale`: CLOCK, read-ahead, who flushes, and threads. (That it keeps every byte is shown in
//! `data.rs`.)

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use common::page_cache::{self, of_frames, read, rig, scatter, stamps, write};
use common::{Rig, healthy};
use wharf_host::design::Amount;
use wharf_host::design::{Reclaim, Replacement};
use wharf_host::dflush::Balance;
use wharf_host::scale::index::Index;
use wharf_host::scale::{DflushAlone, Scale, Variant, Whole};
use wharf_host::{Client, Design, DesignConfig, Extent, ScaleConfig};
use wharf_runtime::Seed;
use wharf_wire::command::Command;
use wharf_wire::mock::Fate;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::status::StatusCode;

/// CLOCK over frames in the order of their numbers, as a textbook has it.
struct Textbook {
    frames: Vec<Option<(u64, bool)>>,
    hand: usize,
    /// Frames that have never had a page, the next one last.
    free: Vec<usize>,
}

impl Textbook {
    fn new(frames: usize) -> Textbook {
        Textbook {
            frames: vec![None; frames],
            hand: 0,
            free: (0..frames).rev().collect(),
        }
    }

    /// Reads a page; true if it was there.
    fn read(&mut self, page: u64) -> bool {
        let found = self.frames.iter_mut().flatten().find(|f| f.0 == page);
        if let Some(frame) = found {
            frame.1 = true;
            return true;
        }
        if self.free.is_empty() {
            self.sweep();
        }
        let frame = self.free.pop().expect("a frame was freed");
        // The read that brought the page in is its first use.
        self.frames[frame] = Some((page, true));
        false
    }

    /// The hand goes over a stretch of frames at a time, until some are free.
    fn sweep(&mut self) {
        let count = self.frames.len();
        while self.free.is_empty() {
            for _ in 0..count.min(32) {
                match &mut self.frames[self.hand] {
                    Some((_, referenced)) if *referenced => *referenced = false,
                    Some(_) => {
                        self.frames[self.hand] = None;
                        self.free.push(self.hand);
                    }
                    None => {}
                }
                self.hand = (self.hand + 1) % count;
            }
        }
    }
}

/// Pages of a volume over which [`apart`] scatters.
const VOLUME_PAGES: u64 = 5_000_000;

/// Place number `n`: so far from all others, and at such steps, that nothing is read ahead.
fn apart(n: u64) -> u64 {
    Seed(n).child("apart").rng().below(VOLUME_PAGES)
}

#[test]
fn pages_stay_and_go_as_by_clock() {
    for seed in 0..60 {
        let mut rng = Seed(seed).child("clock").rng();
        // So few that no CPU keeps free frames of its own.
        let frames = 1 + rng.below(31);
        let range = 1 + rng.below(frames * 3);
        let (mut rig, design) = rig::<Scale<Whole>>(stamps(1, VOLUME_PAGES), frames, false);
        rig.spawn_client(0, &design, move |_, client| async move {
            let mut model = Textbook::new(frames as usize);
            for step in 0..600 {
                // Half of the reads go to a few pages.
                let most = match rng.chance(1, 2) {
                    true => range.div_ceil(5),
                    false => range,
                };
                let page = apart(rng.below(most));
                let hit = read(&*client, page, 1).await.hits == 1;
                assert_eq!(hit, model.read(page), "seed {seed} step {step} page {page}");
            }
        });
        rig.machine.run_virtual(Seed(seed)).unwrap();
    }
}

/// Of pages that were used three times, those still there after a scan of many that are used once.
fn left_after_a_scan(replacement: Replacement) -> u64 {
    const HOT: u64 = 16;
    let mut rig = Rig::new(stamps(1, VOLUME_PAGES), |_| healthy(Seed(1).rng()));
    let design = rig.design_told::<Scale<Whole>>(
        of_frames(64),
        &ScaleConfig {
            replacement,
            ..ScaleConfig::default()
        },
    );
    let left = Arc::new(AtomicU64::new(0));
    let count = left.clone();
    rig.spawn_client(0, &design, |_, client| async move {
        for hot in (0..3).flat_map(|_| 0..HOT) {
            read(&*client, apart(hot), 1).await;
        }
        for once in HOT..HOT + 1_000 {
            read(&*client, apart(once), 1).await;
        }
        for hot in 0..HOT {
            count.fetch_add(read(&*client, apart(hot), 1).await.hits, Relaxed);
        }
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    left.load(Relaxed)
}

#[test]
fn two_lists_keep_what_is_used_again_through_a_scan_and_clock_does_not() {
    assert_eq!(left_after_a_scan(Replacement::Lru), 16);
    assert_eq!(left_after_a_scan(Replacement::Clock), 0);
}

/// After reads all over a large volume the index has the nodes of the pages that are there, and no others.
fn index_of_few_pages<V: Variant>() {
    const FRAMES: u64 = 32;
    let (mut rig, design) = rig::<Scale<V>>(stamps(1, 50_000_000), FRAMES, false);
    let cache = design.clone();
    rig.spawn_client(0, &design, move |_, client| async move {
        let mut rng = Seed(7).rng();
        for _ in 0..2_000 {
            read(&*client, rng.below(50_000_000), 1).await;
        }
        let nodes = cache.shared().index_of(0).nodes();
        assert_eq!(index_nodes(&*cache), nodes);
        assert!(nodes <= 5 * FRAMES, "{nodes} nodes");
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

/// Nodes of the trees that find cached pages.
fn index_nodes(design: &impl Design) -> u64 {
    match design.gauges().get("index_nodes") {
        Some(Amount::Count(nodes)) => nodes,
        other => panic!("{other:?}"),
    }
}

/// Reads all over a volume through a small cache, and then deletes all of it; gives the nodes of the index before and
/// after that.
fn nodes_around_a_deletion(index_reclaim: Reclaim) -> (u64, u64) {
    const PAGES: u64 = 100_000;
    let fate = |drive: u32| healthy(Seed(9).index(drive.into()).rng());
    let mut rig = Rig::with_services(stamps(1, PAGES), 0, fate);
    let design: Arc<Scale<Whole>> = rig.design_told(
        of_frames(32),
        &ScaleConfig {
            index_reclaim,
            ..ScaleConfig::default()
        },
    );
    let (cache, seen) = (
        design.clone(),
        Arc::new([AtomicU64::new(0), AtomicU64::new(0)]),
    );
    let noted = seen.clone();
    rig.spawn_client(0, &design, move |_, client| async move {
        for leaf in 0..PAGES / 64 {
            read(&*client, 64 * leaf, 1).await;
        }
        noted[0].store(index_nodes(&*cache), Relaxed);
        let all = Extent {
            offset: 0,
            bytes: 4096 * PAGES,
        };
        client.discard(all).await.unwrap();
        noted[1].store(index_nodes(&*cache), Relaxed);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    (seen[0].load(Relaxed), seen[1].load(Relaxed))
}

#[test]
fn empty_nodes_stay_until_their_file_is_deleted_where_they_are_reclaimed_lazily() {
    let (eager, lazy) = (
        nodes_around_a_deletion(Reclaim::Eager),
        nodes_around_a_deletion(Reclaim::Lazy),
    );
    assert!(eager.0 <= 5 * 32, "{eager:?}: the nodes of 32 pages");
    assert!(
        lazy.0 > 100_000 / 64,
        "{lazy:?}: a leaf for all that was read"
    );
    assert_eq!((eager.1, lazy.1), (0, 0));
}

#[test]
fn the_index_of_a_large_volume_has_the_nodes_of_its_pages() {
    index_of_few_pages::<Whole>();
    index_of_few_pages::<DflushAlone>();
}

#[test]
fn a_file_read_in_order_is_read_ahead_in_large_requests() {
    page_cache::reads_ahead::<Scale<Whole>>(false);
}

/// What came of reads at some places.
struct ReadAt {
    pages: u64,
    /// Pages that were there: touched before, or read ahead.
    found: u64,
    /// Pages that the drive was asked for.
    fetched: u64,
}

/// Reads `pages` pages at each of these places, by a cache of so many frames.
fn read_at(frames: u64, pages: u64, places: impl IntoIterator<Item = u64>) -> ReadAt {
    let (mut rig, design) = rig::<Scale<Whole>>(stamps(1, 1_000_000), frames, false);
    let (store, places) = (rig.stores[0].clone(), Vec::from_iter(places));
    let count = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let counted = count.clone();
    rig.spawn_client(0, &design, move |_, client| async move {
        for place in places {
            let touch = read(&*client, place, pages).await;
            counted[0].fetch_add(touch.pages, Relaxed);
            counted[1].fetch_add(touch.hits + touch.read_ahead_hits, Relaxed);
        }
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    ReadAt {
        pages: count[0].load(Relaxed),
        found: count[1].load(Relaxed),
        fetched: store.seen().iter().map(|c| u64::from(c.pages())).sum(),
    }
}

#[test]
fn readers_that_go_in_steps_are_read_ahead() {
    let check = |what: &str, pages: u64, places: Vec<u64>| {
        let read = read_at(4096, pages, places);
        assert_eq!(read.pages - read.found, 4 * pages, "{what}: four misses");
        let spare = read.fetched - read.pages;
        assert!(spare <= 32, "{what}: {spare} more than were read");
    };
    for (step, pages) in [(100, 1), (7, 2), (64, 8)] {
        let places = (0..400).map(|n| 5_000 + n * step).collect();
        check(&format!("steps of {step}"), pages, places);
    }
    for (step, pages) in [(50, 1), (1, 1), (4, 4)] {
        let places = (0..400).rev().map(|n| n * step).collect();
        check(&format!("steps of -{step}"), pages, places);
    }
}

#[test]
fn steps_are_read_ahead_in_a_small_cache_too() {
    // CLOCK takes some of what was read ahead before it is used.
    let ReadAt { found, fetched, .. } = read_at(32, 1, (0..400).map(|n| 90 * n));
    assert!(found >= 320, "{found} of 400");
    assert!(fetched <= 480, "{fetched} for 400");
}

#[test]
fn other_reads_do_not_end_a_stride() {
    let mut rng = Seed(5).rng();
    let places = (0..400).flat_map(|n| {
        let other = (n > 8).then(|| 400_000 + rng.below(500_000));
        [Some(100 * n), other].into_iter().flatten()
    });
    let ReadAt { found, fetched, .. } = read_at(4096, 1, places);
    assert!(found >= 400 - 4, "{found}");
    assert!(fetched <= 791 + 32, "{fetched}");
}

#[test]
fn a_mark_that_a_stride_left_behind_opens_no_window() {
    // The second stride takes the place of the first, which has read 16 places ahead.
    let two = |later: u64| {
        let (first, second) = ((0..20).map(|n| 100 * n), (0..10).map(|n| 500_000 + 70 * n));
        let later = (20..20 + later).map(|n| 100 * n);
        // The last one misses, and so waits until the drive has seen all that was asked before.
        read_at(4096, 1, first.chain(second).chain(later).chain([900_000]))
    };
    let (without, with) = (two(0), two(16));
    assert_eq!(with.found, without.found + 16, "they were read ahead");
    assert_eq!(with.fetched, without.fetched);
}

#[test]
fn random_readers_are_read_what_they_ask_for() {
    let mut rng = Seed(4).rng();
    let random = read_at(512, 3, (0..400).map(|_| rng.below(900_000)));
    assert_eq!(random.fetched, random.pages - random.found);
    assert!(random.found <= 3, "{}", random.found);
}

#[test]
fn neighbours_are_written_back_together_in_whatever_order_they_were_written() {
    page_cache::writes_neighbours_together::<Scale<Whole>>();
}

/// Without a background flusher at all, writers keep the dirty pages below the hard threshold; every one
/// of them takes part.
fn writers_flush<V: Variant>() {
    let (clients, tasks) = (4, 4);
    let (mut rig, design) = rig::<Scale<V>>(stamps(clients, 100_000), 4_000, false);
    for index in 0..clients {
        let shared = design.clone();
        rig.spawn_client(index, &design, move |cpu, client| async move {
            for task in 0..tasks {
                let (client, shared) = (client.clone(), shared.clone());
                let rng = Seed(index.into()).index(task).rng();
                cpu.spawn_main("writer", async move {
                    scatter(client.clone(), rng, 1_500).await;
                    let limits = shared.shared().limits;
                    let more = u64::from(clients) * tasks * limits.dirty_step;
                    let unwritten = shared.shared().unwritten();
                    assert!(unwritten <= limits.dirty_hard + more, "{unwritten}");
                    let written = client.statistics().write_backs;
                    assert!(written > 500, "client {index} wrote {written} pages back");
                });
            }
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn writers_above_the_hard_threshold_flush_side_by_side() {
    writers_flush::<Whole>();
    writers_flush::<DflushAlone>();
}

/// Four clients dirty more than may be, beside the flusher; gives how long they took, in nanoseconds, and the
/// pages that they wrote back themselves.
fn crowd(balance: Balance, seed: Seed) -> (u64, u64) {
    let fate = |drive: u32| healthy(Seed(9).index(drive.into()).rng());
    let mut rig = Rig::with_services(stamps(4, 100_000), 1, fate);
    let design: Arc<Scale<Whole>> = rig.design_told(
        of_frames(4_000),
        &ScaleConfig {
            dflush: balance,
            ..ScaleConfig::default()
        },
    );
    rig.spawn_services(&design);
    let (end_ns, written) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for index in 0..4 {
        let (shared, end_ns, written) = (design.clone(), end_ns.clone(), written.clone());
        rig.spawn_client(index, &design, move |cpu, client| async move {
            scatter(client.clone(), seed.index(index.into()).rng(), 3_000).await;
            let background = shared.shared().background_written.load(Relaxed);
            let by_all = client.statistics().write_backs;
            let own = by_all - if index == 0 { background } else { 0 };
            written.fetch_add(own, Relaxed);
            end_ns.fetch_max(cpu.now(), Relaxed);
            let limits = shared.shared().limits;
            let unwritten = shared.shared().unwritten();
            assert!(
                unwritten <= limits.dirty_hard + 4 * limits.dirty_step,
                "{unwritten}"
            );
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
    (end_ns.load(Relaxed), written.load(Relaxed))
}

#[test]
fn writers_that_flush_end_before_those_that_sleep() {
    // Those who sleep first are woken by the first write that ends. Over 40 seeds they were 0.5 % ahead of those who do
    // not sleep at all; seed by seed, and with other costs, either may be first.
    let mut sums_ns = [0; 3];
    for seed in 0..8 {
        let ran = [
            crowd(Balance::Flush, Seed(seed)),
            crowd(Balance::SleepThenFlush, Seed(seed)),
            crowd(Balance::Sleep, Seed(seed)),
        ];
        let [by_flush, by_first, by_sleep] = ran.map(|(_, written)| written);
        assert!(
            by_flush > 0 && by_first > 0,
            "{by_flush} and {by_first} pages"
        );
        assert_eq!(by_sleep, 0, "who sleeps writes nothing");
        for (sum_ns, (took_ns, _)) in sums_ns.iter_mut().zip(ran) {
            *sum_ns += took_ns;
        }
    }
    let [flush_ns, first_ns, sleep_ns] = sums_ns;
    assert!(5 * flush_ns.max(first_ns) < 3 * sleep_ns, "{sums_ns:?} ns");
    assert!(
        33 * flush_ns.abs_diff(first_ns) < flush_ns,
        "within 3 %: {sums_ns:?} ns"
    );
}

/// A writer flushed a few pages at a time, and waited for them, where the published code takes a file as a whole and does not
/// wait: one request in so many pages was as slow as the drive.
#[test]
fn a_writer_that_flushes_files_flushes_rarely_and_down_to_the_background_threshold() {
    let fate = |drive: u32| healthy(Seed(9).index(drive.into()).rng());
    let mut rig = Rig::with_services(stamps(1, 100_000), 0, fate);
    let design: Arc<Scale<Whole>> = rig.design_told(
        DesignConfig {
            files: 4,
            ..of_frames(4_000)
        },
        &ScaleConfig {
            dflush: Balance::FlushFiles,
            ..ScaleConfig::default()
        },
    );
    let shared = design.clone();
    rig.spawn_client(0, &design, move |_, client| async move {
        let limits = shared.shared().limits;
        let (mut flushes, mut least) = (0, u64::MAX);
        for page in 0..3_000 {
            let before = shared.shared().dirty.get();
            // Neighbours would be one request.
            write(&*client, 33 * page, 1).await.unwrap();
            let after = shared.shared().dirty.get();
            if after < before {
                flushes += 1;
                least = least.min(after);
            }
        }
        assert!(
            (1..=3_000 / limits.dirty_background).contains(&flushes),
            "{flushes} times"
        );
        assert!(least <= limits.dirty_background, "{least} pages are dirty");
        client.flush().await.unwrap();
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn the_background_flusher_writes_down_to_its_threshold() {
    let (mut rig, design) = rig::<Scale<Whole>>(stamps(1, 100_000), 4_000, true);
    let shared = design.clone();
    rig.spawn_client(0, &design, move |cpu, client| async move {
        // More than the background threshold of 400, less than the hard one of 800.
        for page in 0..600 {
            write(&*client, 5 * page, 1).await.unwrap();
        }
        cpu.sleep_until(cpu.now() + 1_000_000_000).await;
        let dirty = shared.shared().dirty.get();
        assert!((300..=400).contains(&dirty), "{dirty} pages are dirty");
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

/// Write-back fails while the drive refuses writes: the flush says so, the pages stay dirty, and the next
/// flush writes them.
#[test]
fn a_failed_write_back_is_reported_and_its_pages_stay_dirty() {
    let shape = stamps(1, 1_000);
    let mut failures_left = 4;
    let fate = move |_: u64, command: &Command| match command.io_opcode() {
        Some(IoOpcode::Write) if failures_left > 0 => {
            failures_left -= 1;
            Fate::Failed(StatusCode::WriteFault, 1_000)
        }
        _ => Fate::Done(1_000),
    };
    let mut rig = Rig::new(shape, |_| fate);
    let design: Arc<Scale<Whole>> = rig.design(of_frames(100));
    let (store, shared) = (rig.stores[0].clone(), design.clone());
    rig.spawn_client(0, &design, move |cpu, client| async move {
        write(&*client, 3, 2).await.unwrap();
        let mut failed = 0;
        while client.flush().await.is_err() {
            failed += 1;
            assert_eq!(
                shared.shared().verify(&cpu),
                2,
                "both pages are dirty still"
            );
        }
        assert!(failed > 0, "a drive that refuses writes fails a flush");
        assert_eq!(shared.shared().verify(&cpu), 0);
        assert_eq!(store.page(4), Some(vec![7; 8]));
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn every_file_has_an_index_and_readers_of_its_own() {
    let fate = |drive: u32| common::healthy(Seed(9).index(drive.into()).rng());
    let mut rig = Rig::with_services(stamps(1, 400), 1, fate);
    let design: Arc<Scale<Whole>> = rig.design(DesignConfig {
        files: 4,
        ..of_frames(1_000)
    });
    rig.spawn_services(&design);
    let seen = design.clone();
    rig.spawn_client(0, &design, move |cpu, client| async move {
        let entries = |file| seen.shared().index_of(file).verify(&cpu);
        let pages = || [0, 1, 2, 3].map(entries);
        for page in 0..100 {
            read(&*client, page, 1).await;
        }
        assert_eq!(
            pages(),
            [100, 0, 0, 0],
            "nothing is read ahead of a file's end"
        );
        let touch = write(&*client, 199, 2).await.unwrap();
        assert_eq!((touch.pages, pages()), (2, [100, 1, 1, 0]));
        client.flush().await.unwrap();
        assert_eq!(seen.shared().verify(&cpu), 0);
    });
    let store = rig.stores[0].clone();
    rig.machine.run_virtual(Seed(1)).unwrap();
    for page in [199, 200] {
        assert_eq!(store.page(page), Some(vec![7; 8]));
    }
}

#[test]
fn threads_that_share_pages_never_see_half_of_a_write() {
    page_cache::threads_see_whole_writes::<Scale<Whole>>();
}

#[test]
fn equal_seeds_send_the_drive_equal_commands() {
    page_cache::is_deterministic::<Scale<Whole>>();
}

#[test]
fn a_cache_without_a_page_or_a_client_is_refused() {
    let space = wharf_wire::dma::DmaSpace::new(8);
    let config = |cache_bytes, clients| DesignConfig {
        cache_bytes,
        clients,
        ..DesignConfig::default()
    };
    for (bytes, clients, what) in [(4095, 1, "4095 bytes"), (1 << 20, 0, "no clients")] {
        let Err(error) =
            Scale::<Whole>::new(&config(bytes, clients), &ScaleConfig::default(), &space)
        else {
            panic!("{bytes} bytes for {clients} clients");
        };
        let text = error.to_string();
        assert!(text.contains("'scale'") && text.contains(what), "{text}");
    }
}
