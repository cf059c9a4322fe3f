//! Members that are not what their superblocks say: copies from before, put back.

use std::sync::Arc;

use wharf_runtime::Seed;
use wharf_storage::array::{Array, ArrayError, Level, MemberState, Standing, describe};
use wharf_storage::faulty::{Faulty, Power};
use wharf_storage::{Blocking, RamTarget, Target};

use crate::model::contents;
use crate::support::{Bench, flush, write};

const STRIPES: u64 = 12;
const LEVELS: [(Level, u32); 3] = [(Level::Raid5, 3), (Level::Raid10, 2), (Level::Raid10, 4)];

/// Fills the array of all members, or all but some, with a byte, and closes it.
fn fill(bench: &Bench, out: &[usize], byte: u8) {
    let array = bench.open_without(out);
    assert!(write(&array, 0, &vec![byte; array.size_bytes() as usize]));
    array.close().expect("it closes");
}

fn holds(array: &Array, byte: u8) -> bool {
    contents(array).iter().all(|b| *b == byte)
}

/// What a backup of a member gives back.
fn copy_of(member: &Faulty) -> Arc<Faulty> {
    let bytes = contents(member);
    let ram = RamTarget::new("copy", bytes.len() as u64, 512);
    let mut way = Blocking::new(&ram).expect("a channel");
    way.write(0, &bytes).expect("memory");
    drop(way);
    Arc::new(Faulty::new(Arc::new(ram), Power::new(), Seed(1)))
}

fn rebuild(bench: &mut Bench, member: usize, onto: Arc<Faulty>) {
    let array = bench.open_without(&[member]);
    array.replace(member as u32, onto.clone()).expect("it fits");
    let rebuild = array.rebuild().expect("possible").expect("to do");
    rebuild.finish(&mut |_, _| {}).expect("it is filled");
    array.close().expect("it closes");
    bench.members[member] = onto;
}

/// Describing finds member `old` stale, opening refuses it or goes on without, and it can be rebuilt.
fn is_stale(bench: &mut Bench, old: usize, byte: u8, story: &str) {
    let told = describe(&bench.targets()).expect("members");
    for (member, (standing, _)) in told.members.iter().enumerate() {
        let expected = match member == old {
            true => Standing::Stale,
            false => Standing::Active,
        };
        assert_eq!(*standing, expected, "{story}: member {member}");
    }
    match Array::open(&bench.targets(), false) {
        Err(ArrayError::Stale { member, .. }) => assert_eq!(member as usize, old, "{story}"),
        other => panic!("{story}: {:?}", other.err()),
    }
    let array = bench.open();
    assert_eq!(array.stale(), [old as u32], "{story}");
    assert_eq!(array.states()[old], MemberState::Failed, "{story}");
    assert!(holds(&array, byte), "{story}");
    assert!(array.check(true, &mut |_, _| {}).is_err(), "{story}");
    array.close().expect("it closes");
    let onto = bench.members[old].clone();
    rebuild(bench, old, onto);
    let array = bench.open();
    let report = array.check(false, &mut |_, _| {}).expect("a check");
    assert_eq!(report.mismatches, 0, "{story}");
    assert!(holds(&array, byte), "{story}");
}

/// Member 2 was replaced and put back: it was taken for the one in its place, as that one is active.
#[test]
fn a_member_that_was_replaced_and_is_put_back_is_not_read() {
    for (level, members) in LEVELS {
        for old in 0..members as usize {
            let mut bench = Bench::new(level, members, STRIPES, 5, 1);
            fill(&bench, &[], 1);
            let put_back = bench.members[old].clone();
            let spare = bench.spare(STRIPES);
            rebuild(&mut bench, old, spare);
            fill(&bench, &[], 2);
            bench.members[old] = put_back;
            is_stale(&mut bench, old, 2, &format!("{level:?} {members}: {old}"));
        }
    }
}

/// One member was restored from a backup: what it held was read, and a check that repairs spread it to the others.
#[test]
fn a_member_restored_from_a_backup_is_not_repaired_from() {
    for (level, members) in LEVELS {
        for (old, closed) in [(0, true), (1, true), (0, false), (1, false)] {
            let mut bench = Bench::new(level, members, STRIPES, 5, 2);
            fill(&bench, &[], 1);
            let backup = copy_of(&bench.members[old]);
            let array = bench.open();
            assert!(write(&array, 0, &vec![2; array.size_bytes() as usize]));
            // Else the program was killed.
            match closed {
                true => array.close().expect("it closes"),
                false => assert!(flush(&array)),
            }
            bench.members[old] = backup;
            let story = format!("{level:?} {members}: {old}, closed {closed}");
            is_stale(&mut bench, old, 2, &story);
        }
    }
}

/// RAID-0 cannot do without the member, so it is not opened.
#[test]
fn a_striped_array_with_an_old_member_is_refused() {
    let mut bench = Bench::new(Level::Raid0, 3, STRIPES, 5, 3);
    fill(&bench, &[], 1);
    let backup = copy_of(&bench.members[1]);
    fill(&bench, &[], 2);
    bench.members[1] = backup;
    for allow_missing in [false, true] {
        match Array::open(&bench.targets(), allow_missing) {
            Err(ArrayError::TooFew(out)) => assert_eq!(out, [1]),
            other => panic!("{:?}", other.err()),
        }
    }
}

/// Each half counted the other as failed; together, the half with fewer events was silently dropped.
#[test]
fn mirrors_that_were_used_apart_are_not_put_together() {
    for (members, ours, theirs) in [
        (2, vec![0], vec![1]),
        (4, vec![0, 2], vec![1, 3]),
        (4, vec![0, 3], vec![1, 2]),
    ] {
        for again in [0, 1, 2] {
            let bench = Bench::new(Level::Raid10, members, STRIPES, 5, 4);
            fill(&bench, &[], 1);
            fill(&bench, &theirs, 2);
            (0..again).for_each(|_| fill(&bench, &theirs, 2));
            fill(&bench, &ours, 3);
            for allow_missing in [false, true] {
                let error = Array::open(&bench.targets(), allow_missing).err();
                assert!(
                    matches!(error, Some(ArrayError::Parted { .. })),
                    "{error:?}"
                );
            }
            let told = describe(&bench.targets()).expect("members");
            let parted = |m: &&usize| told.members[**m].0 == Standing::Parted;
            let counts = (
                ours.iter().filter(parted).count(),
                theirs.iter().filter(parted).count(),
            );
            let half = ours.len();
            assert!(counts == (half, 0) || counts == (0, half), "{counts:?}");
            // Either alone is good.
            assert!(holds(&bench.open_without(&theirs), 2));
            assert!(holds(&bench.open_without(&ours), 3));
        }
    }
}

/// Two clones of a whole array that were used alike have equal event counts, and one member of each the same number.
#[test]
fn members_of_two_clones_are_not_mixed() {
    for (level, members) in LEVELS {
        for mixed in 0..members as usize {
            let mut bench = Bench::new(level, members, STRIPES, 5, 5);
            fill(&bench, &[], 1);
            let clones: Vec<_> = bench.members.iter().map(|m| copy_of(m)).collect();
            fill(&bench, &[], 2);
            let ours = std::mem::replace(&mut bench.members, clones);
            fill(&bench, &[], 3);
            let theirs = std::mem::replace(&mut bench.members, ours);
            assert!(holds(&bench.open(), 2), "a clone of all is as good");
            fill(&bench, &[], 2);
            bench.members[mixed] = theirs[mixed].clone();
            for allow_missing in [false, true] {
                if let Ok(array) = Array::open(&bench.targets(), allow_missing) {
                    assert_eq!(array.states()[mixed], MemberState::Failed);
                    assert!(allow_missing && holds(&array, 2));
                }
            }
        }
    }
}

/// A backup of all members of one time is an array like any other.
#[test]
fn a_backup_of_all_members_is_the_array_of_that_time() {
    for (level, members) in LEVELS {
        let mut bench = Bench::new(level, members, STRIPES, 5, 6);
        fill(&bench, &[], 1);
        let copies: Vec<_> = bench.members.iter().map(|m| copy_of(m)).collect();
        fill(&bench, &[], 2);
        bench.members = copies;
        let array = Array::open(&bench.targets(), false).expect("it opens");
        assert!(holds(&array, 1));
    }
}

/// A stale member that was rebuilt kept records of its journal from a history that had parted; when the epoch they were
/// of came in this one too, a power cut replayed them.
#[test]
fn a_rebuilt_member_forgets_the_journal_of_another_history() {
    let mut bench = Bench::new(Level::Raid5, 3, STRIPES, 60, 7);
    fill(&bench, &[], 1);
    let clones: Vec<_> = bench.members.iter().map(|m| copy_of(m)).collect();
    let ours = std::mem::replace(&mut bench.members, clones);
    // There, writes without a member that only member 2 has a part of; some epochs on, with records for each.
    let row = |array: &Array| array.size_bytes() / STRIPES;
    for _ in 0..30 {
        let array = bench.open_without(&[0]);
        for stripe in 0..STRIPES {
            assert!(write(&array, stripe * row(&array), &[9; 8192]));
        }
        drop(array);
    }
    let theirs = std::mem::replace(&mut bench.members, ours);
    rebuild(&mut bench, 2, theirs[2].clone());
    for _ in 0..80 {
        // Killed each time, so that records of the epoch are replayed.
        let array = bench.open();
        let report = array.check(false, &mut |_, _| {}).expect("a check");
        assert_eq!(report.mismatches, 0);
        assert!(holds(&array, 1));
    }
}
