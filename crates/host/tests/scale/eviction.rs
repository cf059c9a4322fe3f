//! Which pages leave, and what the index keeps.

use super::*;

/// Nodes of the trees that find cached pages.
fn index_nodes(design: &impl Design) -> u64 {
    match design.gauges().get("index_nodes") {
        Some(Amount::Count(nodes)) => nodes,
        other => panic!("{other:?}"),
    }
}

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
    assert_eq!(left_after_a_scan(Replacement::TwoLists), 16);
    assert_eq!(left_after_a_scan(Replacement::Clock), 0);
    for replacement in [Replacement::S3Fifo, Replacement::Arc, Replacement::Lirs] {
        assert_eq!(left_after_a_scan(replacement), 16, "{replacement:?}");
    }
}

/// Hits of reads of these pages, one after the other.
fn hits_of(replacement: Replacement, frames: u64, pages: Arc<Vec<u64>>) -> u64 {
    let mut rig = Rig::new(stamps(1, VOLUME_PAGES), |_| healthy(Seed(1).rng()));
    let own = ScaleConfig {
        replacement,
        ..ScaleConfig::default()
    };
    let design = rig.design_told::<Scale<Whole>>(of_frames(frames), &own);
    let hits = Arc::new(AtomicU64::new(0));
    let count = hits.clone();
    rig.spawn_client(0, &design, |_, client| async move {
        for page in pages.iter() {
            count.fetch_add(read(&*client, apart(*page), 1).await.hits, Relaxed);
        }
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    hits.load(Relaxed)
}

/// The cache makes room before it knows for which page: policies that ask for that may differ by a little.
#[test]
fn one_client_hits_what_the_policy_hits_in_a_simulation() {
    let mut rng = Seed(11).rng();
    let pages: Arc<Vec<u64>> = Arc::new(
        (0..6_000)
            .map(|nth| match nth % 500 > 380 {
                true => 1_000 + nth,
                false => rng.below(200).min(rng.below(200)),
            })
            .collect(),
    );
    let mut stream = wharf_policy::Stream::default();
    pages.iter().for_each(|page| stream.push(apart(*page)));
    for (name, kind) in wharf_policy::Kind::ALL {
        let known = Replacement::ALL.iter().find(|(known, _)| *known == name);
        let Some((_, replacement)) = known else {
            continue;
        };
        // So few that no CPU keeps free frames of its own, and pages leave one by one.
        let (hits, expected) = (
            hits_of(*replacement, 31, pages.clone()),
            stream.hits(kind, 31),
        );
        let most_apart = match replacement {
            // CLOCK's hand goes over 32 frames at a time.
            Replacement::Clock => continue,
            Replacement::S3Fifo | Replacement::TwoQ | Replacement::Arc => expected / 50,
            // It counts by hashes of pages, which are other numbers here.
            Replacement::WTinyLfu => expected / 12,
            _ => 0,
        };
        println!("{name}: {hits} hits, {expected} expected");
        assert!(
            hits.abs_diff(expected) <= most_apart,
            "{name}: {hits} hits, {expected} expected"
        );
    }
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
