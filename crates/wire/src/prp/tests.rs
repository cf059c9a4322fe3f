//! Lists are built and walked, and lists no builder makes are walked.

use super::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;

/// Host memory as the words written to it.
#[derive(Default)]
struct Memory(BTreeMap<u64, u64>);

impl Memory {
    fn read(&self, address: u64) -> Result<u64, ()> {
        self.0.get(&address).copied().ok_or(())
    }

    fn walk(&self, prp: (u64, u64), pages: u32) -> Result<Vec<u64>, PrpError> {
        prp_walk(prp.0, prp.1, pages, |at| self.read(at)).collect()
    }
}

fn page_addresses(rng: &mut Xoshiro256PlusPlus, count: usize) -> Vec<u64> {
    (0..count).map(|_| rng.next_u64() & !OFFSET_MASK).collect()
}

/// Builds the list for `pages` and checks that it reads back, with as many list pages as
/// needed and no word written elsewhere.
fn round_trip(rng: &mut Xoshiro256PlusPlus, count: usize) {
    let pages = page_addresses(rng, count);
    let needed = prp_list_pages(count);
    // List pages apart from each other, in no order, so that no word is written twice.
    let mut list_pages: Vec<u64> = (0..needed as u64).map(|i| (i ^ 1) << 20 | 0x8000).collect();
    list_pages.push(0xdead_0000);
    let mut memory = Memory::default();
    let prp = prp_for(&pages, &list_pages, |at, value| {
        assert_eq!(memory.0.insert(at, value), None, "written twice");
    })
    .unwrap();
    let words = if count <= 2 {
        0
    } else {
        count - 1 + needed - 1
    };
    assert_eq!(memory.0.len(), words, "{count} pages");
    assert!(
        memory
            .0
            .keys()
            .all(|at| list_pages[..needed].contains(&(at & !OFFSET_MASK)))
    );
    assert_eq!(
        memory.walk(prp, count as u32),
        Ok(pages.clone()),
        "{count} pages"
    );

    let mut collected = vec![1];
    let read = |at| memory.read(at);
    assert_eq!(
        prp_collect(prp.0, prp.1, count as u32, read, &mut collected),
        Ok(())
    );
    assert_eq!(collected, pages);

    if needed > 0 {
        let error = prp_for(&pages, &list_pages[..needed - 1], |_, _| {
            panic!("nothing is written")
        });
        let given = needed - 1;
        assert_eq!(
            error,
            Err(PrpBuildError::ListPages {
                pages: count,
                needed,
                given
            })
        );
    }
}

#[test]
fn transfers_of_every_length_come_back() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    for count in 1..=1600 {
        round_trip(&mut rng, count);
    }
    for count in [65535, 65536] {
        round_trip(&mut rng, count);
    }
}

#[test]
fn list_pages_are_counted_right_at_the_edges() {
    let cases = [
        (0, 0),
        (1, 0),
        (2, 0),
        (3, 1),
        (513, 1),
        (514, 2),
        (1024, 2),
        (1025, 3),
    ];
    for (pages, list_pages) in cases {
        assert_eq!(prp_list_pages(pages), list_pages, "{pages} pages");
    }
    assert_eq!(prp_list_pages(65536), 129);
}

/// A list that begins anywhere in a page, written by the rule and not by the builder.
#[test]
fn lists_that_begin_within_a_page_are_walked() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    for case in 0..4000_u64 {
        let slots = 1 + rng.next_u64() % 512;
        let count = 3 + rng.next_u64() % 1200;
        let pages = page_addresses(&mut rng, count as usize);
        let prp2 = 0x7000_0000 + (512 - slots) * 8;
        let mut memory = Memory::default();
        let mut at = prp2;
        for (i, &page) in pages.iter().enumerate().skip(1) {
            if at & OFFSET_MASK == 0xff8 && i + 1 < pages.len() {
                let next = (at & !OFFSET_MASK) + 0x10_0000;
                memory.0.insert(at, next);
                at = next;
            }
            memory.0.insert(at, page);
            at += 8;
        }
        let walked = memory.walk((pages[0], prp2), pages.len() as u32);
        assert_eq!(walked, Ok(pages), "case {case}, {slots} slots");
    }
}

#[test]
fn small_transfers_do_not_look_at_a_list() {
    let memory = Memory::default();
    assert_eq!(memory.walk((0x1000, 0xffff), 0), Ok(vec![]));
    assert_eq!(memory.walk((0x1000, 0xffff), 1), Ok(vec![0x1000]));
    assert_eq!(memory.walk((0x1000, 0x3000), 2), Ok(vec![0x1000, 0x3000]));
}

#[test]
fn misaligned_pages_are_named() {
    let mut memory = Memory::default();
    memory.0.extend([(0x5000, 0x9000), (0x5008, 0xa004)]);
    let bad = |page, address| Err(PrpError::PageMisaligned { page, address });
    assert_eq!(memory.walk((0x1004, 0), 1), bad(0, 0x1004));
    assert_eq!(memory.walk((0x1000, 0x3008), 2), bad(1, 0x3008));
    assert_eq!(memory.walk((0x1000, 0x5000), 3), bad(2, 0xa004));
    assert_eq!(
        bad(0, 1).unwrap_err().status(),
        StatusCode::PrpOffsetInvalid
    );
}

#[test]
fn misaligned_lists_are_named() {
    let mut memory = Memory::default();
    let bad = |address| Err(PrpError::ListMisaligned { address });
    assert_eq!(memory.walk((0x1000, 0x5004), 3), bad(0x5004));
    memory.0.insert(0x5ff8, 0x7008);
    assert_eq!(memory.walk((0x1000, 0x5ff8), 3), bad(0x7008));
    assert_eq!(bad(1).unwrap_err().status(), StatusCode::PrpOffsetInvalid);
}

#[test]
fn a_list_outside_memory_is_a_transfer_error_and_ends_the_walk() {
    let mut memory = Memory::default();
    memory.0.insert(0x5000, 0x9000);
    let mut walk = prp_walk(0x1000, 0x5000, 9, |at| memory.read(at));
    assert_eq!(walk.next(), Some(Ok(0x1000)));
    assert_eq!(walk.next(), Some(Ok(0x9000)));
    let error = PrpError::ListUnreadable { address: 0x5008 };
    assert_eq!(walk.next(), Some(Err(error)));
    assert_eq!(walk.next(), None);
    assert_eq!(error.status(), StatusCode::DataTransferError);

    let mut addresses = vec![7];
    let read = |at| memory.read(at);
    assert_eq!(
        prp_collect(0x1000, 0x5000, 9, read, &mut addresses),
        Err(error)
    );
    assert!(addresses.is_empty());
}

#[test]
fn a_list_that_points_to_itself_ends() {
    let mut reads = 0;
    let walk = prp_walk(0, 0, 65536, |_| {
        reads += 1;
        Ok::<u64, ()>(0)
    });
    assert_eq!(walk.filter(Result::is_ok).count(), 65536);
    assert_eq!(reads, 65535 + 128);
}

#[test]
fn the_end_of_the_address_space_is_an_address_like_any_other() {
    let last = u64::MAX - 7;
    let mut memory = Memory::default();
    memory.0.extend([(last - 8, 0x2000), (last, 0x3000)]);
    assert_eq!(
        memory.walk((0x1000, last - 8), 3),
        Ok(vec![0x1000, 0x2000, 0x3000])
    );
}

#[test]
fn the_builder_refuses_what_cannot_be_said() {
    let never = |_, _| panic!("nothing is written");
    assert_eq!(prp_for(&[], &[], never), Err(PrpBuildError::Empty));
    let bad = |address| Err(PrpBuildError::Misaligned { address });
    assert_eq!(prp_for(&[0x1001], &[], never), bad(0x1001));
    assert_eq!(prp_for(&[0, 0x1000, 0x1004], &[0x5000], never), bad(0x1004));
    assert_eq!(prp_for(&[0, 0x1000, 0x2000], &[0x5008], never), bad(0x5008));
}
