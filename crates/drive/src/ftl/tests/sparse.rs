//! The sparse map is what a plain table is, and its memory is what is there.

use super::*;
use crate::ftl::entry::Entry;
use crate::ftl::sparse_map::SparseMap;

/// An entry of each kind; the plain table has the pages that a sparse map forgets as unmapped.
fn random_entry(rng: &mut Rng) -> (u32, u32) {
    let entry = match rng.below(10) {
        0 => Place::Unmapped.encode(),
        1 => return (Place::Trimmed.encode(), Place::Unmapped.encode()),
        2 | 3 => Place::Zero.encode(),
        4 => Place::Frame(rng.below(50) as u32).encode(),
        5 => Entry::Cached(rng.below(50) as u32).encode(),
        _ => Place::Flash(rng.below(1 << 30) as u32).encode(),
    };
    (entry, entry)
}

fn check(map: &SparseMap, model: &[u32]) {
    let known = |at: u32| (at..model.len() as u32).find(|lpn| model[*lpn as usize] != 0);
    for (lpn, entry) in (0..).zip(model) {
        assert_eq!(map.get(lpn), *entry, "page {lpn}");
        assert_eq!(
            map.next_known(lpn..model.len() as u32),
            known(lpn),
            "from page {lpn}"
        );
    }
    let stored = model.iter().filter(|entry| **entry > 2).count() as u64;
    let rows = model
        .chunks(64)
        .filter(|row| row.iter().any(|entry| *entry != 0))
        .count() as u64;
    assert_eq!(map.len(), (rows, stored));
}

#[test]
fn a_sparse_map_is_what_a_plain_table_is() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut rng = Seed(seed).rng();
        let pages = 1 + rng.below(5_000) as u32;
        let mut map = SparseMap::new(pages, pages.into()).unwrap();
        let mut model = vec![0; pages as usize];
        for _ in 0..6 {
            // Dense in a part, thin elsewhere, then mostly gone.
            let (from, width) = (rng.below(pages.into()) as u32, 1 + rng.below(400) as u32);
            for _ in 0..rng.below(3_000) {
                let near = (from + rng.below(width.into()) as u32) % pages;
                let far = rng.below(pages.into()) as u32;
                let lpn = if rng.chance(2, 3) { near } else { far };
                let (entry, kept) = random_entry(&mut rng);
                map.set(lpn, entry);
                model[lpn as usize] = kept;
            }
            check(&map, &model);
            for lpn in (0..pages).filter(|lpn| lpn % 97 != seed as u32 % 97) {
                map.set(lpn, 0);
                model[lpn as usize] = 0;
            }
            check(&map, &model);
        }
        (0..pages).for_each(|lpn| map.set(lpn, 0));
        let tables = map.bytes();
        // A chunk of each class is kept.
        assert!(tables < 52 << 10, "an empty map takes {tables} bytes");
    }
}

/// Bytes of memory that this process has in use.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages = statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
    pages * 4096
}

/// Bytes of memory for each of `entries` pages, as the map says and as the system does.
fn cost(what: &str, shown: u32, lpns: impl Iterator<Item = u32> + Clone) -> f64 {
    let before = resident_bytes();
    let entries = lpns.clone().count() as u64;
    let mut map = SparseMap::new(shown, entries).unwrap();
    lpns.clone()
        .for_each(|lpn| map.set(lpn, Place::Flash(lpn >> 5).encode()));
    let (said, taken) = (map.bytes(), resident_bytes() - before);
    let each = |bytes: u64| bytes as f64 / entries as f64;
    println!(
        "{what}: {:.1} B a page by the map's count, {:.1} resident",
        each(said),
        each(taken)
    );
    // Other tests of this process take memory too; they are small.
    let slack = 24 << 20;
    assert!(
        taken < said + said / 8 + slack,
        "{what}: {taken} bytes are resident, {said} counted"
    );
    lpns.for_each(|lpn| map.set(lpn, 0));
    let left = map.bytes();
    assert!(left < said / 16, "{what}: {left} of {said} bytes are left");
    assert!(
        resident_bytes() < before + left + slack,
        "{what}: memory is not given back"
    );
    each(said)
}

/// 256 GiB shown by a core, of which 1 in 32 pages is there: 2 million pages.
#[test]
fn memory_of_a_sparse_map_follows_what_is_there_and_is_given_back() {
    const SHOWN: u32 = 1 << 26;
    // Uniform singles: one page in each 32, anywhere in them; a flat map would take 128 bytes each.
    let hash = |n: u32| n.wrapping_mul(0x9e37_79b1) >> 7;
    let singles = (0..SHOWN / 32).map(|n| n * 32 + hash(n) % 32);
    let uniform = cost("uniform singles at 1 in 32", SHOWN, singles);
    assert!((12.0..18.0).contains(&uniform), "{uniform}");
    // Runs of 8, one in each 256.
    let runs = (0..SHOWN / 256).flat_map(|n| (0..8).map(move |i| n * 256 + hash(n) % 248 + i));
    let runs = cost("runs of 8 at 1 in 32", SHOWN, runs);
    assert!((12.0..18.0).contains(&runs), "{runs}");
    // The whole of every 32nd 16 MiB.
    let clusters = (0..SHOWN / 32).map(|n| n / 4096 * (4096 * 32) + n % 4096);
    let clustered = cost("clusters of 16 MiB at 1 in 32", SHOWN, clusters);
    // Rows count by groups, and only the touched part of a group is resident.
    assert!((4.0..10.0).contains(&clustered), "{clustered}");
}
