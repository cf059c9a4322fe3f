use std::collections::BTreeMap;

use wharf_runtime::Seed;

use super::*;

fn nobody(_: u32) -> bool {
    false
}

/// Brings a page in; gives what left.
fn bring(index: &QueueIndex, set: u32, page: u64) -> Option<Leaving> {
    let (placed, _) = index.place(set, page, false, nobody);
    let Placed::In(slot, leaving) = placed else {
        panic!("{placed:?}")
    };
    index.set_ready(slot, slot + 1000);
    leaving
}

#[test]
fn what_enters_is_found_until_it_leaves() {
    let mut rng = Seed(5).rng();
    for seed in 0..50 {
        let slots = 1 + rng.below(40) as u32;
        let index = QueueIndex::new(&[slots, slots]).unwrap();
        let mut model: BTreeMap<u64, u64> = BTreeMap::new();
        for _ in 0..600 {
            // Pages that share groups and entries of the translation cache, or, in later cases, stand so
            // far apart that the table grows.
            let page = (rng.below(60) + rng.below(2) * 64) * (1 + seed / 10 * 3);
            match index.look_up(page) {
                Found::Ready(place) => {
                    assert!(model.contains_key(&page), "seed {seed}");
                    // Once from the table, once from the translation cache.
                    assert_eq!([index.find(page), index.find(page)], [Some(place); 2]);
                    assert_eq!(place.frame, place.slot + 1000);
                    if rng.chance(1, 10) {
                        index.vacate(place.slot);
                        model.remove(&page);
                    }
                }
                found => {
                    assert_eq!(found, Found::Absent);
                    assert!(!model.contains_key(&page) && index.find(page).is_none());
                    if let Some(leaving) = bring(&index, (page % 2) as u32, page) {
                        assert!(model.remove(&leaving.page).is_some());
                    }
                    model.insert(page, 0);
                }
            }
            index.verify();
        }
        assert!(model.len() <= 2 * slots as usize);
    }
}

#[test]
fn pages_in_use_or_on_their_way_do_not_leave() {
    let index = QueueIndex::new(&[3]).unwrap();
    (0..3).for_each(|page| assert!(bring(&index, 0, page).is_none()));
    let pinned = index.find(0).unwrap().slot;
    index.pin(pinned);
    assert_eq!(bring(&index, 0, 3).unwrap().page, 1);
    let (placed, _) = index.place(0, 4, false, nobody);
    assert!(matches!(
        placed,
        Placed::In(_, Some(Leaving { page: 2, .. }))
    ));
    assert_eq!(index.look_up(4), Found::Busy);
    // Left are the pinned page, the one on its way, and page 3.
    assert_eq!(bring(&index, 0, 5).unwrap().page, 3);
    let last = index.find(5).unwrap().slot;
    index.pin(last);
    assert_eq!(index.place(0, 6, false, nobody).0, Placed::AllBusy);
    let Placed::In(slot, _) = placed else {
        unreachable!()
    };
    index.set_stuck(slot);
    assert_eq!(index.place(0, 6, false, nobody).0, Placed::AllStuck);
    assert_eq!(index.look_up(4), Found::Stuck);
    index.set_ready(slot, 9);
    index.pin(slot);
    assert_eq!(index.place(0, 6, false, nobody).0, Placed::AllPinned);
    assert!(index.unpin(pinned));
    assert_eq!(bring(&index, 0, 6).unwrap().page, 0);
    index.verify();
}

#[test]
fn the_request_settles_its_own_pages_before_they_leave() {
    let index = QueueIndex::new(&[2]).unwrap();
    let mut own = Vec::new();
    for page in 0..2 {
        let (Placed::In(slot, None), _) = index.place(0, page, false, nobody) else {
            panic!("room")
        };
        own.push(slot);
    }
    let is_own = |slot| own.contains(&slot);
    assert_eq!(index.place(0, 2, false, is_own).0, Placed::Own);
    for slot in own {
        index.set_ready(slot, 0);
    }
    assert_eq!(bring(&index, 0, 2).unwrap().page, 0);
}

#[test]
fn clean_pages_leave_first_while_the_drive_collects() {
    let index = QueueIndex::new(&[4]).unwrap();
    (0..4).for_each(|page| assert!(bring(&index, 0, page).is_none()));
    for page in [0, 1, 3] {
        index.set_dirty(index.find(page).unwrap().slot);
    }
    let place = |page, clean_first| {
        let (placed, _) = index.place(0, page, clean_first, nobody);
        let Placed::In(slot, Some(leaving)) = placed else {
            panic!("{placed:?}")
        };
        index.set_ready(slot, 0);
        index.set_dirty(slot);
        leaving
    };
    let leaving = place(10, true);
    assert_eq!((leaving.page, leaving.is_dirty), (2, false));
    // All are dirty now: they leave in their order.
    let leaving = place(11, true);
    assert_eq!((leaving.page, leaving.is_dirty), (0, true));
    // Without the rule the hand takes the next page, dirty or not.
    assert_eq!(place(12, false).page, 1);
}

#[test]
fn pins_are_counted_over_the_wrap() {
    let index = QueueIndex::new(&[1]).unwrap();
    assert!(bring(&index, 0, 7).is_none());
    let slot = index.find(7).unwrap().slot;
    for _ in 0..3 {
        (0..40_000).for_each(|_| index.pin(slot));
        assert_eq!(index.pins(slot), 40_000);
        (1..40_000).for_each(|_| assert!(!index.unpin(slot)));
        assert!(index.unpin(slot));
    }
    assert_eq!(
        index.place(0, 8, false, nobody).0,
        Placed::In(
            slot,
            Some(Leaving {
                page: 7,
                is_dirty: false
            })
        )
    );
}

#[test]
#[should_panic(expected = "up to 65,535 pins")]
fn no_pin_is_lost_by_too_many() {
    let index = QueueIndex::new(&[1]).unwrap();
    assert!(bring(&index, 0, 7).is_none());
    (0..=65_535).for_each(|_| index.pin(0));
}

#[test]
fn an_index_takes_less_than_three_percent_of_what_it_indexes_at_most() {
    for slots in [1 << 15, 1 << 18, 300_000] {
        let index = QueueIndex::new(&[slots / 2, slots / 2]).unwrap();
        let share = index.bytes() as f64 / (f64::from(slots) * 4096.0);
        assert!(share < 0.0275, "{share}");
    }
}
