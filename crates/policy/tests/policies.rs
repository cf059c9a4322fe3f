//! Policies beside libCacheSim, beside each other, and beside what they may do at all.

#![allow(missing_docs)]

use wharf_policy::{AnyPolicy, Kind, Look, Lru, Stream, Victim, simulate};

/// Numbers by Knuth's generator of 64 bits, of which the upper 31 are taken.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        let step = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = step.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Pages of which some are used far more often than others, and scans between.
fn pages(count: usize, seed: u64) -> Vec<u64> {
    let mut numbers = Numbers(seed);
    let (mut pages, mut scan, mut at) = (Vec::with_capacity(count), 0, 0);
    while pages.len() < count {
        if scan > 0 {
            scan -= 1;
            pages.push(1_000_000 + at);
            at = (at + 1) % 7_000;
            continue;
        }
        if numbers.below(500) == 0 {
            scan = 300;
        }
        let three = [(); 3].map(|()| numbers.below(4_000));
        pages.push(three.into_iter().min().expect("three numbers"));
    }
    pages
}

fn stream(pages: &[u64]) -> Stream {
    let mut stream = Stream::default();
    pages.iter().for_each(|page| stream.push(*page));
    stream
}

/// What libCacheSim 0.3.5 (PyPI) hits of `pages(200_000, 1)` with its default parameters, pages of size 1: `tests/libcachesim.py` says it anew.
#[test]
fn hits_are_those_of_libcachesim() {
    let stream = stream(&pages(200_000, 1));
    assert_eq!((stream.len(), stream.distinct()), (200_000, 10_650));
    for (frames, expected) in [
        (100, [5_005, 5_036, 5_052, 7_019, 7_018, 6_489, 6_699]),
        (
            1_000,
            [31_904, 33_798, 35_470, 62_248, 61_356, 53_692, 59_669],
        ),
        (
            3_000,
            [66_213, 77_543, 83_757, 113_243, 115_579, 107_323, 116_479],
        ),
    ] {
        let kinds = [
            Kind::Fifo,
            Kind::Lru,
            Kind::Clock,
            Kind::Sieve,
            Kind::S3Fifo,
            Kind::TwoQ,
            Kind::Arc,
        ];
        let hits = kinds.map(|kind| stream.hits(kind, frames));
        assert_eq!(hits, expected, "{frames} frames");
    }
}

/// W-TinyLFU and LIRS are as their papers have them, and libCacheSim's differ in what its sketch counts, and in that a hit makes room: they are near.
#[test]
fn hits_are_near_those_of_libcachesim() {
    let stream = stream(&pages(200_000, 1));
    for (frames, tiny_lfu, lirs) in [
        (100, 6_393, 6_799),
        (1_000, 63_058, 60_129),
        (3_000, 113_090, 116_718),
    ] {
        for (kind, expected) in [(Kind::WTinyLfu, tiny_lfu), (Kind::Lirs, lirs)] {
            let hits = stream.hits(kind, frames);
            println!("{kind}, {frames} frames: {hits}, libCacheSim {expected}");
            assert!(
                hits.abs_diff(expected) < 200_000 / 50,
                "{kind}, {frames} frames: {hits}"
            );
        }
    }
}

/// LIRS with lists that are looked through: `(page, is hot, is there)` in the stack, the newest last, and pages of the queue.
fn plain_lirs(pages: &[u64], frames: usize) -> u64 {
    let cold = (frames / 100).max(1);
    let (mut stack, mut queue): (Vec<(u64, bool, bool)>, Vec<u64>) = Default::default();
    let mut left: Vec<u64> = Vec::new();
    let mut hits = 0;
    for &page in pages {
        let at = stack.iter().position(|(held, ..)| *held == page);
        let in_queue = queue.iter().position(|held| *held == page);
        let is_hot = at.is_some_and(|at| stack[at].1);
        let hot = stack.iter().filter(|(_, is_hot, _)| *is_hot).count();
        let is_hit = is_hot || in_queue.is_some();
        hits += u64::from(is_hit);
        if !is_hit && hot + queue.len() == frames {
            let gone = match queue.is_empty() {
                true => panic!("there are cold pages"),
                false => queue.remove(0),
            };
            if let Some(held) = stack.iter_mut().find(|(held, ..)| *held == gone) {
                held.2 = false;
                left.push(gone);
            }
        }
        // It is on top from now on.
        let was = stack.iter().position(|(held, ..)| *held == page);
        let was = was.map(|at| stack.remove(at));
        left.retain(|held| *held != page);
        let becomes_hot = is_hot || was.is_some() || !is_hit && hot < frames - cold;
        stack.push((page, becomes_hot, true));
        queue.retain(|held| *held != page);
        if !becomes_hot {
            queue.push(page);
        }
        let hot = stack.iter().filter(|(_, is_hot, _)| *is_hot).count();
        if hot > frames - cold {
            let oldest = stack.iter().position(|(_, is_hot, _)| *is_hot);
            let (oldest, ..) = stack.remove(oldest.expect("one is hot"));
            queue.push(oldest);
        }
        while let Some(&(held, false, _)) = stack.first() {
            stack.remove(0);
            left.retain(|other| *other != held);
        }
        while stack.len() > 2 * frames && !left.is_empty() {
            let first = left.remove(0);
            stack.retain(|(held, ..)| *held != first);
        }
    }
    hits
}

#[test]
fn lirs_is_what_its_paper_says() {
    for (frames, count) in [(2, 2_000), (5, 3_000), (60, 10_000), (400, 10_000)] {
        for seed in 1..4 {
            let mut pages = pages(count, seed);
            if frames < 10 {
                pages.iter_mut().for_each(|page| *page %= 12);
            }
            let hits = stream(&pages).hits(Kind::Lirs, frames);
            assert_eq!(
                hits,
                plain_lirs(&pages, frames as usize),
                "{frames} frames, seed {seed}"
            );
        }
    }
}

/// Whatever a policy does, it hits no more than who knows the future, and no less than nothing; with room for all, all but first uses.
#[test]
fn no_policy_hits_more_than_is_possible() {
    for seed in 1..6 {
        let all = pages(8_000, seed);
        let stream = stream(&all);
        let (len, distinct) = (stream.len(), stream.distinct());
        for frames in [
            1,
            2,
            3,
            19,
            100,
            1_000,
            distinct - 1,
            distinct,
            distinct + 7,
        ] {
            let most = stream.hits(Kind::Belady, frames);
            assert!(most <= len - u64::from(distinct));
            for (name, kind) in Kind::ALL {
                let hits = stream.hits(kind, frames);
                assert!(hits <= most, "{name}, {frames} frames, seed {seed}");
                if frames >= distinct {
                    assert_eq!(hits, len - u64::from(distinct), "{name}");
                }
            }
        }
        assert_eq!(stream.hits(Kind::Lru, 0), 0);
    }
}

/// A frame of a cache: its page, uses since the last look, and whether it may go.
#[derive(Clone, Copy, Default)]
struct Frame {
    page: Option<u64>,
    uses: u8,
    is_held: bool,
}

/// A cache whose pages are discarded too, whose frames may be held, and which does not always know for whom it makes room.
fn rough(kind: Kind, seed: u64, frames: u32) {
    let mut numbers = Numbers(seed);
    let mut policy = kind.policy(frames).expect("a policy");
    let mut cache = vec![Frame::default(); frames as usize];
    for _ in 0..5_000 {
        let page = numbers.below(u64::from(frames) * 3);
        let frame = cache.iter().position(|held| held.page == Some(page));
        match (numbers.below(8), frame) {
            (0, Some(frame)) => {
                cache[frame] = Frame::default();
                policy.remove(frame as u32);
            }
            (1, Some(frame)) => cache[frame].is_held ^= true,
            (_, Some(frame)) if policy.hears_uses() => policy.hit(frame as u32),
            (_, Some(frame)) => cache[frame].uses = (cache[frame].uses + 1).min(3),
            (way, None) => {
                let empty = cache.iter().position(|held| held.page.is_none());
                let coming = (way > 2).then_some(page);
                let frame = empty.or_else(|| make_room(&mut *policy, &mut cache, coming, way == 0));
                if let Some(frame) = frame {
                    cache[frame] = Frame {
                        page: Some(page),
                        ..Frame::default()
                    };
                    policy.insert(frame as u32, page);
                }
            }
        }
    }
}

/// Has a page leave a cache that is full; `ends` at the first frame that is held.
fn make_room(
    policy: &mut dyn AnyPolicy,
    cache: &mut [Frame],
    coming: Option<u64>,
    ends: bool,
) -> Option<usize> {
    let may_any = cache.iter().any(|frame| !frame.is_held);
    let victim = policy.evict(coming, &mut |frame| {
        let frame = &mut cache[frame as usize];
        match std::mem::take(&mut frame.uses) {
            0 if frame.page.is_none() => Look::Stays,
            0 if frame.is_held && ends => Look::Ends,
            0 if frame.is_held => Look::Stays,
            0 => Look::Goes,
            times => Look::Used(times),
        }
    });
    match victim {
        Victim::Frame(frame) => {
            let frame = frame as usize;
            assert!(cache[frame].page.is_some(), "an empty frame is given up");
            assert!(!cache[frame].is_held, "a frame that is held is given up");
            Some(frame)
        }
        Victim::Ended => {
            assert!(ends, "nobody told it to end");
            None
        }
        Victim::None => {
            assert!(!may_any, "a frame that may go is not found");
            cache.iter_mut().for_each(|frame| frame.is_held = false);
            None
        }
    }
}

#[test]
fn pages_may_go_or_have_to_stay_at_any_time() {
    for seed in 1..9 {
        for frames in [1, 2, 7, 40, 300] {
            for (name, kind) in Kind::ALL {
                println!("{name}, seed {seed}, {frames} frames");
                if kind != Kind::Belady {
                    rough(kind, seed, frames);
                }
            }
        }
    }
    assert!(Kind::Belady.policy(8).is_none());
}

/// A frame that stays, as its page is dirty or on its way, is not in the way of the next search: a search looks at few frames.
#[test]
fn what_cannot_go_is_passed_once_and_not_at_each_search() {
    const FRAMES: u32 = 1_000;
    for (name, kind) in Kind::ALL {
        let Some(mut policy) = kind.policy(FRAMES) else {
            continue;
        };
        (0..FRAMES).for_each(|frame| policy.insert(frame, frame.into()));
        let mut looks = 0;
        for search in 0..100_u64 {
            let victim = policy.evict(None, &mut |frame| {
                looks += 1;
                match frame < FRAMES / 2 {
                    true => Look::Stays,
                    false => Look::Goes,
                }
            });
            let Victim::Frame(frame) = victim else {
                panic!("{name}: half of the frames may go");
            };
            policy.insert(frame, u64::from(FRAMES) + search);
        }
        assert!(looks < 3 * FRAMES, "{name}: {looks} looks");
    }
}

#[test]
fn names_are_read_as_people_write_them() {
    for (name, kind) in Kind::ALL {
        assert_eq!((kind.to_string().as_str(), name.parse()), (name, Ok(kind)));
    }
    assert_eq!("S3FIFO".parse(), Ok(Kind::S3Fifo));
    assert_eq!("LRU".parse(), Ok(Kind::Lru));
    let unknown = "lfu".parse::<Kind>().unwrap_err().to_string();
    assert!(
        unknown.contains("'lfu'") && unknown.contains("s3-fifo"),
        "{unknown}"
    );
}

/// What the bound is, by hand.
#[test]
fn belady_gives_up_what_is_used_last() {
    let uses = [1, 2, 3, 1, 2, 4, 1, 2, 3, 4];
    // With three frames 1, 2 and 4 stay, and one of 3 and 4 is missed again.
    let stream = stream(&uses);
    assert_eq!(stream.hits(Kind::Belady, 3), 5);
    assert_eq!(stream.hits(Kind::Fifo, 3), 2);
    assert_eq!(simulate::<Lru>(&[0, 1, 0, 2, 0, 1], 3, 2), 2);
}
