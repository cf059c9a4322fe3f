//! Memory that rots, that was put together wrongly, or that fails.

use std::collections::BTreeSet;

use wharf_files::block_on;
use wharf_files::bytes::{Wpm, check};
use wharf_files::lines::{LINE_BYTES, RamLines};
use wharf_files::pages::PAGE_BYTES;
use wharf_files::testing::beside::time_of;
use wharf_files::testing::crash::OnMedium;
use wharf_files::testing::program::callers;
use wharf_files::testing::random::Steps;
use wharf_files::testing::recorded::Recording;
use wharf_files::testing::recorded_lines::RecordedLines;
use wharf_files::testing::subject::{Answer, Subject, Users};
use wharf_files::testing::taste::Taste;
use wharf_files::testing::view::{Likeness, View, view};
use wharf_files::vfs::SessionLimits;
use wharf_files::{Errno, FileError, FileSystem};
use wharf_runtime::Seed;

use super::maker::{Maker, WIDE};

const MEMORY: usize = 1 << 20;

/// What a random program leaves.
fn with_everything(maker: &Maker, seed: u64, steps: usize) -> RamLines {
    let lines = RecordedLines::new(&block_on(maker.make()));
    let fs = block_on(maker.open(&lines)).expect("it opens");
    let program = Steps::new(Seed(seed).child("rot").rng(), Taste::default()).program(steps);
    let mut users = Users::new(&fs, &callers(), SessionLimits::default());
    for (at, step) in program.iter().enumerate() {
        block_on(users.step(step, time_of(at)));
    }
    block_on(users.close_all()).unwrap();
    lines.medium()
}

fn look(medium: &RamLines) -> Result<View, FileError> {
    let (fs, _) = block_on(Wpm::open(medium, MEMORY))?;
    block_on(view(&fs))
}

fn is_found(medium: &RamLines) -> bool {
    !block_on(check(medium)).is_ok_and(|checked| checked.findings.is_empty())
}

/// Lines that are not zeros.
fn lines_of(medium: &RamLines) -> Vec<u64> {
    let pages = 1200 * PAGE_BYTES as u64 / LINE_BYTES;
    let is_used = |line: &u64| {
        let mut bytes = [0; LINE_BYTES as usize];
        medium.peek(line * LINE_BYTES, &mut bytes).unwrap();
        bytes != [0; LINE_BYTES as usize]
    };
    (0..pages).filter(is_used).collect()
}

/// Bytes of files that are not alike; `None` if anything else is not.
fn unlike_bytes(found: &View, right: &View) -> Option<usize> {
    if found.unlike(right, Likeness::TREE).is_some() {
        return None;
    }
    let both = found.0.values().zip(right.0.values());
    let mut unlike = 0;
    for (found, right) in both {
        if found.pages.keys().ne(right.pages.keys()) {
            return None;
        }
        for (found, right) in found.pages.values().zip(right.pages.values()) {
            unlike += found.iter().zip(right).filter(|(a, b)| a != b).count();
        }
    }
    Some(unlike)
}

#[test]
fn a_line_that_rots_is_an_error_or_the_same_bytes_with_that_bit() {
    let seed = 5;
    println!("seed {seed}");
    let medium = with_everything(&WIDE, seed, 250);
    let whole = look(&medium).unwrap();
    let lines = lines_of(&medium);
    let mut rng = Seed(seed).rng();
    let (mut errors, mut bytes, mut nothing) = (0, 0, 0);
    for line in &lines {
        let hurt = medium.clone();
        let at = line * LINE_BYTES + rng.below(LINE_BYTES);
        let mut byte = [0];
        hurt.peek(at, &mut byte).unwrap();
        byte[0] ^= 1 << rng.below(8);
        hurt.poke(at, &byte).unwrap();
        match look(&hurt) {
            Err(error) => {
                assert_eq!(error.errno(), Errno::EIO, "line {line}: {error}");
                assert!(is_found(&hurt), "line {line}: the check does not find it");
                errors += 1;
            }
            Ok(found) => match unlike_bytes(&found, &whole) {
                // A file may have several names.
                Some(1..=4) => bytes += 1,
                Some(0) => nothing += 1,
                other => panic!("line {line}: {other:?} bytes are not alike"),
            },
        }
    }
    println!(
        "{} lines: {errors} errors, {bytes} bytes, {nothing} nothing",
        lines.len()
    );
    assert!(errors > 100 && bytes > 100, "{errors}, {bytes}, {nothing}");
}

#[test]
fn lines_that_belong_elsewhere_or_were_lost_are_errors() {
    let seed = 6;
    println!("seed {seed}");
    let medium = with_everything(&WIDE, seed, 250);
    let whole = look(&medium).unwrap();
    let lines = lines_of(&medium);
    let data = Likeness::TREE;
    let mut rng = Seed(seed).rng();
    for line in &lines {
        for lost in [true, false] {
            let hurt = medium.clone();
            let mut bytes = [0; LINE_BYTES as usize];
            if !lost {
                let other = lines[rng.below(lines.len() as u64) as usize];
                hurt.peek(other * LINE_BYTES, &mut bytes).unwrap();
            }
            hurt.poke(line * LINE_BYTES, &bytes).unwrap();
            match look(&hurt) {
                Err(error) => assert_eq!(error.errno(), Errno::EIO, "line {line}: {error}"),
                Ok(found) => assert_eq!(found.unlike(&whole, data), None, "line {line}"),
            }
        }
    }
}

#[test]
fn what_is_damaged_takes_no_changes_and_loses_nothing_else() {
    let seed = 7;
    println!("seed {seed}");
    let medium = with_everything(&WIDE, seed, 150);
    let whole = look(&medium).unwrap();
    let mut refused = 0;
    for line in lines_of(&medium) {
        let hurt = medium.clone();
        hurt.poke(line * LINE_BYTES + 3, &[0x5a]).unwrap();
        let recorded = RecordedLines::new(&hurt);
        let Ok((fs, recovered)) = block_on(Wpm::open(recorded.clone(), MEMORY)) else {
            continue;
        };
        if recovered.damaged == 0 {
            continue;
        }
        refused += 1;
        assert_eq!(recorded.changes(), 0, "line {line}: nothing is given back");
        let fs = std::rc::Rc::new(fs);
        let mut users = Users::new(&fs, &callers(), SessionLimits::default());
        let program = Steps::new(Seed(line).rng(), Taste::default()).program(10);
        for (at, step) in program.iter().enumerate() {
            let answer = block_on(users.step(step, time_of(at)));
            assert!(!matches!(answer, Answer::Number(1..)) || recorded.changes() == 0);
        }
        assert_eq!(recorded.changes(), 0, "line {line}");
        // Whatever can still be read is what it was.
        let mut entries = Vec::new();
        if block_on(fs.list(fs.root(), 0, 100, &mut entries)).is_ok() {
            let top = whole
                .0
                .keys()
                .filter(|path| path.len() > 1 && !path[1..].contains(&b'/'));
            let top: BTreeSet<&[u8]> = top.map(|path| &path[1..]).collect();
            let found: BTreeSet<&[u8]> = entries.iter().map(|entry| &entry.name[..]).collect();
            assert_eq!(found, top);
        }
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn memory_that_fails_at_any_change_leaves_a_state_that_was_there() {
    let seed = 8;
    println!("seed {seed}");
    let base = block_on(WIDE.make());
    let program = Steps::new(Seed(seed).child("fails").rng(), Taste::default()).program(60);
    for fails_from in 0..400 {
        let lines = RecordedLines::failing(&base, fails_from);
        let fs = block_on(WIDE.open(&lines)).expect("opening changes nothing");
        let mut users = Users::new(&fs, &callers(), SessionLimits::default());
        let mut was_failing = false;
        for (at, step) in program.iter().enumerate() {
            let answer = block_on(users.step(step, time_of(at)));
            was_failing |= answer.is(Errno::EIO) || answer.is(Errno::EROFS);
        }
        if was_failing {
            block_on(view(&*fs)).expect("what is there can be read");
        }
        drop(users);
        let medium = lines.medium();
        let (_, recovered) = block_on(Wpm::open(&medium, MEMORY)).unwrap();
        assert_eq!(recovered.damaged, 0, "fails from {fails_from}");
        let checked = block_on(check(&medium)).unwrap();
        assert_eq!(checked.findings, Vec::<String>::new(), "{fails_from}");
    }
}
