//! Tasks that write over bytes of one file, on memory where everybody waits between any two accesses.

use std::cell::RefCell;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use wharf_files::block_on;
use wharf_files::bytes::{Wpm, check};
use wharf_files::testing::crash::OnMedium;
use wharf_files::testing::recorded::Recording;
use wharf_files::testing::recorded_lines::RecordedLines;
use wharf_files::testing::turns::{Task, interleave, turn};
use wharf_files::{Allocate, Caller, Content, Entry, FileSystem, In, Out, Place, Write, Written};
use wharf_runtime::{Rng, Seed};

use super::maker::WIDE;
use super::tasks::{Slow, by, new};

const PAGE: u64 = 4096;

/// Bytes of the file, if nobody cuts it.
const BYTES: u64 = 12 * PAGE;

/// Bytes that a task has to itself, in each of the first pages, and how many such tasks there are.
const OWN: u64 = 900;
const OWN_PAGES: u64 = 8;
const OWNERS: u64 = 3;

/// The first byte, and how many, of what several tasks write.
const TOGETHER: (u64, u64) = (8 * PAGE + 100, 3 * PAGE);

fn at(offset: u64) -> Write {
    Write {
        place: Place::At(offset),
        end_max: u64::MAX,
    }
}

/// A file system with a file of zeros, and the number of that.
fn with_file(lines: &RecordedLines) -> (Wpm<Slow>, u64) {
    let fs = block_on(Wpm::open(Slow(lines.clone()), 1 << 20)).expect("it opens");
    let (fs, caller) = (fs.0, Caller::root());
    let entry = Entry::new(fs.root(), b"file");
    let file = block_on(fs.create(by(&caller), entry, new(Content::File)));
    let number = file.expect("there is room").number;
    let zeros = vec![0; BYTES as usize];
    block_on(fs.write(by(&caller), number, at(0), In::Bytes(&zeros))).expect("there is room");
    (fs, number)
}

#[test]
fn who_writes_other_pages_of_a_file_is_not_waited_for() {
    let lines = RecordedLines::new(&block_on(WIDE.make()));
    let (fs, number) = with_file(&lines);
    let caller = Caller::root();
    let mut context = Context::from_waker(Waker::noop());
    let bytes = [7; 1000];
    let write = |page: u64| fs.write(by(&caller), number, at(page * PAGE), In::Bytes(&bytes));
    // It reads what else the page has.
    let mut first = pin!(write(3));
    assert!(first.as_mut().poll(&mut context).is_pending());
    let mut same = pin!(write(3));
    let mut behind = pin!(write(4));
    let mut polls = 0..1000;
    let is_done = polls.any(|_| behind.as_mut().poll(&mut context).is_ready());
    assert!(is_done, "nobody is at page 4");
    let waits = (0..1000).all(|_| same.as_mut().poll(&mut context).is_pending());
    assert!(waits, "page 3 is being written");
    let is_written = |done: Poll<Result<Written, _>>| matches!(done, Poll::Ready(Ok(_)));
    assert!((0..1000).any(|_| is_written(first.as_mut().poll(&mut context))));
    assert!((0..1000).any(|_| is_written(same.as_mut().poll(&mut context))));
}

/// What was written: by whom, to which page, what, and how many changes of the media there were when it was done.
#[derive(Debug, Clone, Copy)]
struct Done {
    own: u64,
    page: u64,
    mark: u8,
    changes: usize,
}

/// Writes its own bytes of one page after another.
async fn write_own(
    fs: &Wpm<Slow>,
    number: u64,
    own: u64,
    rng: &RefCell<Rng>,
    all: &RefCell<Vec<Done>>,
) {
    let caller = Caller::root();
    for mark in 1..30 {
        let page = rng.borrow_mut().below(OWN_PAGES);
        let data = [mark; OWN as usize];
        let to = at(page * PAGE + own * OWN);
        let written = fs.write(by(&caller), number, to, In::Bytes(&data)).await;
        assert_eq!(written.expect("there is room").bytes, OWN);
        let changes = fs.lines().0.changes();
        all.borrow_mut().push(Done {
            own,
            page,
            mark,
            changes,
        });
    }
}

/// Writes bytes that others write too, of several pages.
async fn write_together(fs: &Wpm<Slow>, number: u64, mark: u8) {
    let (caller, data) = (Caller::root(), [mark; TOGETHER.1 as usize]);
    for _ in 0..10 {
        let written = fs.write(by(&caller), number, at(TOGETHER.0), In::Bytes(&data));
        written.await.expect("there is room");
    }
}

/// Looks at bytes that are written at once: they are of one write, as far as they are there.
async fn read(fs: &Wpm<Slow>, number: u64, rng: &RefCell<Rng>) {
    for _ in 0..60 {
        let (page, own, is_together) = {
            let mut rng = rng.borrow_mut();
            (rng.below(OWN_PAGES), rng.below(OWNERS), rng.below(2) == 0)
        };
        let (from, bytes) = match is_together {
            true => TOGETHER,
            false => (page * PAGE + own * OWN, OWN),
        };
        let mut out = vec![0; bytes as usize];
        let found = fs.read(number, from, Out::Bytes(&mut out), 0).await;
        let found = &out[..found.expect("it is there") as usize];
        assert!(found.iter().all(|byte| *byte == found[0]), "at {from}");
        turn().await;
    }
}

/// Cuts the file and makes it as long as it was, and takes the storage of some pages.
async fn cut(fs: &Wpm<Slow>, number: u64, rng: &RefCell<Rng>) {
    let caller = Caller::root();
    for _ in 0..10 {
        let bytes = rng.borrow_mut().below(OWN_PAGES * PAGE);
        let what = (bytes, 5_000, Allocate::Punch);
        let punched = fs.allocate(by(&caller), number, what.0, what.1, what.2);
        punched.await.expect("there is room");
        for bytes in [bytes, BYTES] {
            let cut = fs.truncate(by(&caller), number, bytes).await;
            cut.expect("there is room");
        }
    }
}

/// Runs tasks at one file; gives what those did that write bytes of their own, and the media.
fn run(seed: u64, is_cut: bool) -> (Vec<Done>, RecordedLines) {
    let lines = RecordedLines::new(&block_on(WIDE.make()));
    let (fs, number) = with_file(&lines);
    let (rng, done) = (RefCell::new(Seed(seed).rng()), RefCell::default());
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for own in 0..OWNERS {
        tasks.push(Box::pin(write_own(&fs, number, own, &rng, &done)));
    }
    match is_cut {
        true => tasks.push(Box::pin(cut(&fs, number, &rng))),
        false => {
            tasks.push(Box::pin(write_together(&fs, number, 101)));
            tasks.push(Box::pin(write_together(&fs, number, 102)));
            tasks.push(Box::pin(read(&fs, number, &rng)));
        }
    }
    interleave(tasks, &mut Seed(seed).child("turns").rng());
    (done.into_inner(), lines)
}

/// The file as it is on media, and what a check finds.
fn file_on(lines: &RecordedLines) -> Vec<u8> {
    let (fs, recovered) = block_on(Wpm::open(lines.clone(), 1 << 20)).expect("it opens");
    assert_eq!(recovered.damaged, 0);
    let checked = block_on(check(fs.lines())).unwrap();
    assert_eq!(checked.findings, Vec::<String>::new());
    let file = block_on(fs.lookup(fs.root(), b"file")).expect("it was there before");
    let mut bytes = vec![0; BYTES as usize];
    let read = block_on(fs.read(file.number, 0, Out::Bytes(&mut bytes), 0)).unwrap();
    bytes.truncate(read as usize);
    bytes
}

/// The bytes of a page that a task has to itself.
fn own_of(file: &[u8], own: u64, page: u64) -> &[u8] {
    let from = (page * PAGE + own * OWN) as usize;
    &file[from..from + OWN as usize]
}

/// Whether each task's bytes are what it wrote last before a number of changes, or wrote next.
fn judge(file: &[u8], done: &[Done], changes: usize) {
    for (own, page) in (0..OWNERS).flat_map(|own| (0..OWN_PAGES).map(move |page| (own, page))) {
        let of_these = done.iter().filter(|one| (one.own, one.page) == (own, page));
        let (before, behind): (Vec<Done>, Vec<Done>) =
            of_these.partition(|one| one.changes <= changes);
        let last = before.last().map_or(0, |one| one.mark);
        let next = behind.first().map_or(last, |one| one.mark);
        let found = own_of(file, own, page);
        let is_so = [last, next].contains(&found[0]) && found.iter().all(|byte| *byte == found[0]);
        assert!(
            is_so,
            "{own} in page {page}: {} and not {last} or {next}",
            found[0]
        );
    }
}

#[test]
fn those_who_write_parts_of_the_same_pages_undo_nothing_of_each_other() {
    for seed in 0..20 {
        println!("seed {seed}");
        let (done, lines) = run(seed, false);
        let file = file_on(&lines);
        judge(&file, &done, lines.changes());
        let together = &file[TOGETHER.0 as usize..(TOGETHER.0 + TOGETHER.1) as usize];
        assert!(together.iter().all(|byte| *byte == together[0]));
    }
}

#[test]
fn what_was_written_beside_others_is_there_after_a_cut_and_nothing_by_half() {
    for seed in 20..22 {
        println!("seed {seed}");
        let (done, lines) = run(seed, false);
        let mut rng = Seed(seed).child("cuts").rng();
        // Behind those that made the file.
        for changes in (60..=lines.changes()).step_by(11) {
            for medium in lines.some_after_cut(changes, 2, &mut rng) {
                let file = file_on(&RecordedLines::new(&medium));
                judge(&file, &done, changes);
            }
        }
    }
}

#[test]
fn what_is_cut_off_beside_those_who_write_does_not_come_back() {
    for seed in 40..60 {
        println!("seed {seed}");
        let (done, lines) = run(seed, true);
        let file = file_on(&lines);
        for (own, page) in (0..OWNERS).flat_map(|own| (0..OWN_PAGES).map(move |page| (own, page))) {
            let mut of_these = done.iter().filter(|one| (one.own, one.page) == (own, page));
            let last = of_these.next_back().map_or(0, |one| one.mark);
            let is_known = |byte: &u8| *byte == 0 || *byte == last;
            assert!(own_of(&file, own, page).iter().all(is_known));
        }
    }
}
