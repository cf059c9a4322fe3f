//! All short programs: the rule of ACE (Mohan and others, "Finding Crash-Consistency Bugs with
//! Bounded Black-Box Crash Testing", OSDI 2018, section 5.2).
//!
//! Two directories with two files each, of which one is there from the beginning; every sequence of
//! one, two, … operations on them; behind each of them nothing, or the file or directory concerned
//! is made durable, or everything is. Sequences with an operation that fails are left out: without
//! it they are shorter ones.

use wharf_runtime::Rng;

use super::beside::new_model;
use super::program::{Fill, Operation, Step, callers};
use super::subject::{Answer, Subject, Users};
use crate::arguments::{Allocate, SetXattr, Sync};
use crate::block_on;
use crate::flags::{OpenFlags, Rename};
use crate::model::ModelLimits;
use crate::vfs::SessionLimits;

const DIRECTORIES: [&str; 2] = ["/A", "/B"];
const FILES: [&str; 4] = ["/A/foo", "/A/bar", "/B/foo", "/B/bar"];

/// Bytes of the files that are there from the beginning: a page and a half.
const FILE_BYTES: u64 = 6_144;

/// One operation, and what is made durable behind it: a few steps that belong together.
pub type Phrase = Vec<Step>;

fn bytes(path: &str) -> Vec<u8> {
    path.as_bytes().to_vec()
}

fn steps(operations: Vec<Operation>) -> Phrase {
    operations.into_iter().map(Step::of_root).collect()
}

fn open(path: &str, flags: OpenFlags) -> Operation {
    Operation::Open {
        slot: 0,
        path: bytes(path),
        flags,
        mode: 0o644,
    }
}

fn close() -> Operation {
    Operation::Close { slot: 0 }
}

fn write(offset: u64, bytes: u64, stamp: u32) -> Operation {
    Operation::Write {
        slot: 0,
        offset,
        fill: Fill { stamp, bytes },
    }
}

const NEW: OpenFlags = OpenFlags {
    exclusive: true,
    ..OpenFlags::CREATE
};

/// What is there from the beginning, all of it durable.
pub fn setup() -> Vec<Step> {
    let mut all = Vec::new();
    for (stamp, directory) in (900..).zip(DIRECTORIES) {
        let (path, mode) = (bytes(directory), 0o755);
        all.push(Operation::Mkdir { path, mode });
        let file = format!("{directory}/foo");
        all.extend([open(&file, NEW), write(0, FILE_BYTES, stamp), close()]);
    }
    all.push(Operation::SyncAll);
    steps(all)
}

/// All operations; with each, the file or directory that it makes durable if it makes one durable.
fn operations() -> Vec<(Vec<Operation>, &'static str)> {
    let mut all = Vec::new();
    let directory_of = |file: &'static str| &file[..2];
    for (at, file) in FILES.into_iter().enumerate() {
        let path = || bytes(file);
        let on_open = |operation| vec![open(file, OpenFlags::UPDATE), operation, close()];
        let stamp = 10 * at as u32;
        all.push((vec![open(file, NEW), close()], file));
        for what in [
            Allocate::Extend,
            Allocate::KeepSize,
            Allocate::Punch,
            Allocate::Zero,
        ] {
            let (slot, offset, bytes) = (0, 4_096, 8_192);
            let operation = Operation::Allocate {
                slot,
                offset,
                bytes,
                what,
            };
            all.push((on_open(operation), file));
        }
        // Over what is there, beyond its end, and with a hole before it.
        for (number, offset) in [1_000, FILE_BYTES, 20_000].into_iter().enumerate() {
            let operation = write(offset, 5_000, 100 + stamp + number as u32);
            all.push((on_open(operation), file));
        }
        // "dwrite": whole pages.
        all.push((on_open(write(0, 4_096, 200 + stamp)), file));
        for bytes in [0, 2_000, 20_000] {
            let path = path();
            all.push((vec![Operation::Truncate { path, bytes }], file));
        }
        all.push((vec![Operation::Unlink { path: path() }], directory_of(file)));
        all.push((
            vec![Operation::SetXattr {
                path: path(),
                follow: true,
                name: bytes("user.a"),
                value: vec![b'v'; 40],
                how: SetXattr::Put,
            }],
            file,
        ));
        let (path, target) = (path(), bytes("foo"));
        all.push((
            vec![Operation::Symlink { target, path }],
            directory_of(file),
        ));
        for to in FILES {
            let (from, to_bytes) = (bytes(file), bytes(to));
            let how = Rename::Replace;
            if to != file {
                all.push((
                    vec![Operation::Rename {
                        from: from.clone(),
                        to: to_bytes.clone(),
                        how,
                    }],
                    to,
                ));
                let (to, follow) = (to_bytes, false);
                all.push((vec![Operation::Link { from, to, follow }], file));
            }
        }
    }
    all.extend(of_directories());
    all
}

fn of_directories() -> Vec<(Vec<Operation>, &'static str)> {
    let mut all = Vec::new();
    for (directory, inner, other) in [("/A", "/A/C", "/B/C"), ("/B", "/B/C", "/A/C")] {
        let (path, mode) = (bytes(inner), 0o755);
        all.push((vec![Operation::Mkdir { path, mode }], directory));
        let path = bytes(inner);
        all.push((vec![Operation::Rmdir { path }], directory));
        let (from, to, how) = (bytes(inner), bytes(other), Rename::Replace);
        all.push((vec![Operation::Rename { from, to, how }], other));
        let (path, mode) = (bytes(directory), 0o700);
        all.push((vec![Operation::Chmod { path, mode }], directory));
    }
    let (from, to, how) = (bytes("/A"), bytes("/D"), Rename::Replace);
    all.push((vec![Operation::Rename { from, to, how }], "/"));
    all
}

/// All operations, each with nothing, something, or everything made durable behind it.
pub fn phrases() -> Vec<Phrase> {
    let mut all = Vec::new();
    for (operations, concerned) in operations() {
        let with = |more: Vec<Operation>| steps([operations.clone(), more].concat());
        all.push(with(Vec::new()));
        let what = Sync::All;
        let sync = Operation::Sync { slot: 0, what };
        all.push(with(vec![open(concerned, OpenFlags::READ), sync, close()]));
        all.push(with(vec![Operation::SyncAll]));
    }
    all
}

/// Whether all steps of a program are done when it is run.
fn is_all_done(program: &[Step]) -> bool {
    let model = new_model(ModelLimits::default());
    let mut users = Users::new(&&model, &callers(), SessionLimits::default());
    let mut steps = program.iter();
    steps.all(|step| !matches!(block_on(users.step(step, 0)), Answer::Failed(_)))
}

/// A program: phrases behind [`setup`].
#[derive(Debug, Clone)]
pub struct Program {
    /// All of it.
    pub steps: Vec<Step>,
    /// Where its last phrase begins. What is before that is a shorter program, with the same changes
    /// of the media, behind which the power was cut there.
    pub last_from: usize,
}

fn program<'a>(phrases: impl IntoIterator<Item = &'a Phrase>) -> Program {
    let (mut steps, mut last_from) = (setup(), 0);
    for phrase in phrases {
        last_from = steps.len();
        steps.extend_from_slice(phrase);
    }
    Program { steps, last_from }
}

/// All programs of `length` operations behind [`setup`]; it stands before each of them.
pub fn programs(length: u32) -> impl Iterator<Item = Program> {
    let phrases = phrases();
    let number_of = phrases.len();
    let nth = move |number: usize| {
        let places = (0..length).map(|place| number / number_of.pow(place) % number_of);
        program(places.map(|place| &phrases[place]))
    };
    (0..number_of.pow(length))
        .map(nth)
        .filter(|program| is_all_done(&program.steps))
}

/// Programs of `length` operations, chosen at random, without an end.
pub fn chosen(length: u32, mut rng: Rng) -> impl Iterator<Item = Program> {
    let phrases = phrases();
    let choose = move || {
        let mut one = || &phrases[rng.below(phrases.len() as u64) as usize];
        program((0..length).map(|_| one()).collect::<Vec<_>>())
    };
    std::iter::repeat_with(choose).filter(|program| is_all_done(&program.steps))
}

#[cfg(test)]
mod tests {
    use wharf_runtime::Seed;

    use super::*;

    #[test]
    fn programs_are_chosen_by_their_seed() {
        let some = |seed| -> Vec<_> { chosen(3, Seed(seed).rng()).take(5).collect() };
        assert_eq!(format!("{:?}", some(1)), format!("{:?}", some(1)));
        assert_ne!(format!("{:?}", some(1)), format!("{:?}", some(2)));
    }

    #[test]
    fn every_program_ends_and_none_comes_twice() {
        let mut one: Vec<_> = programs(1)
            .map(|program| format!("{:?}", program.steps))
            .collect();
        let count = one.len();
        one.sort();
        one.dedup();
        assert_eq!(one.len(), count);
        assert!((80..250).contains(&count), "{count}");
        let two = programs(2).step_by(101).count();
        assert!(two > 100, "{two}");
    }
}
