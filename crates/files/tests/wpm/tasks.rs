//! Several tasks at once, on memory where everybody waits between any two accesses.

use std::cell::RefCell;

use wharf_files::block_on;
use wharf_files::bytes::{Wpm, check};
use wharf_files::lines::Lines;
use wharf_files::pages::PAGE_BYTES;
use wharf_files::testing::crash::OnMedium;
use wharf_files::testing::recorded::Recording;
use wharf_files::testing::recorded_lines::RecordedLines;
use wharf_files::testing::turns::{Task, interleave, turn};
use wharf_files::{
    By, Caller, Content, Entry, Errno, Fault, FileSystem, In, Kind, LIST_START, New, Out, Owner,
    Place, Remove, Rename, Write,
};
use wharf_runtime::{Rng, Seed};

use super::maker::WIDE;

/// Memory before each access to which the caller gives its turn away.
pub struct Slow(pub RecordedLines);

impl Lines for Slow {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    async fn load(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        turn().await;
        self.0.load(at, out).await
    }

    async fn store(&self, at: u64, bytes: &[u8]) -> Result<(), Fault> {
        turn().await;
        self.0.store(at, bytes).await
    }

    async fn persist(&self, at: u64, bytes: u64) -> Result<(), Fault> {
        turn().await;
        self.0.persist(at, bytes).await
    }

    async fn fence(&self) -> Result<(), Fault> {
        turn().await;
        self.0.fence().await
    }
}

/// What was done, and how many changes of the media there were when it was.
#[derive(Default)]
struct Done {
    names: Vec<(usize, Vec<u8>)>,
    appends: Vec<(usize, u64, u8)>,
}

const APPEND_BYTES: usize = 700;

pub fn by(caller: &Caller) -> By<'_> {
    By { caller, now_ns: 7 }
}

pub fn new(content: Content<'_>) -> New<'_> {
    New {
        content,
        mode: 0o755,
        owner: Owner::default(),
        is_open: false,
    }
}

/// Makes names that stay, in directories that others move, and appends to one file; makes, moves
/// and removes what others make, move and remove.
async fn task(fs: &Wpm<Slow>, log: u64, rng: &RefCell<Rng>, done: &RefCell<Done>, mark: u8) {
    let caller = Caller::root();
    let by = by(&caller);
    let below = |most| rng.borrow_mut().below(most);
    let changes = || fs.lines().0.changes();
    for round in 0..40u8 {
        let name = [b'a' + below(4) as u8];
        let (one, other) = (Entry::new(fs.root(), &name), [b'a' + below(4) as u8]);
        let done_so = match below(8) {
            0..2 => {
                let name = format!("stays {mark} {round}").into_bytes();
                let made = fs.create(by, Entry::new(fs.root(), &name), new(Content::File));
                made.await.expect("there is room, and nobody else makes it");
                done.borrow_mut().names.push((changes(), name));
                Ok(())
            }
            2..4 => {
                let bytes = [mark; APPEND_BYTES];
                let written = fs.write(by, log, Write::at_end(), In::Bytes(&bytes)).await;
                let at = written.expect("there is room").offset;
                done.borrow_mut().appends.push((changes(), at, mark));
                Ok(())
            }
            4 => {
                let content = [Content::Directory, Content::File][below(2) as usize];
                fs.create(by, one, new(content)).await.map(|_| ())
            }
            5 => match fs.lookup(fs.root(), &name).await {
                Ok(found) if found.kind == Kind::Directory => {
                    let inner = Entry::new(found.number, &other);
                    fs.create(by, inner, new(Content::Directory))
                        .await
                        .map(|_| ())
                }
                Ok(found) => {
                    let to = Write {
                        place: Place::At(below(9_000)),
                        end_max: u64::MAX,
                    };
                    fs.write(by, found.number, to, In::Bytes(&[mark; 5_000]))
                        .await
                        .map(|_| ())
                }
                Err(error) => Err(error),
            },
            6 => {
                let what = [Remove::Name, Remove::Directory][below(2) as usize];
                fs.remove(by, one, what).await
            }
            _ => {
                let how = [Rename::Replace, Rename::Exchange][below(2) as usize];
                let directory = fs.lookup(fs.root(), &other).await;
                let directory = directory.map_or(fs.root(), |found| found.number);
                let to = [b'a' + below(4) as u8];
                fs.rename(by, one, Entry::new(directory, &to), how).await
            }
        };
        let errno = done_so.err().map(|error| error.errno());
        let known = [
            Errno::ENOENT,
            Errno::EEXIST,
            Errno::ENOTDIR,
            Errno::EISDIR,
            Errno::ENOTEMPTY,
            Errno::EINVAL,
            Errno::ESTALE,
        ];
        assert!(
            errno.is_none_or(|errno| known.contains(&errno)),
            "{errno:?}"
        );
    }
}

/// Runs tasks; gives what they did, the file that they appended to, and the media.
fn run(seed: u64) -> (Done, RecordedLines) {
    let lines = RecordedLines::new(&block_on(WIDE.make()));
    let memory = 3 * PAGE_BYTES;
    let fs = block_on(Wpm::open(Slow(lines.clone()), memory))
        .expect("it opens")
        .0;
    let caller = Caller::root();
    let entry = Entry::new(fs.root(), b"log");
    let log = block_on(fs.create(by(&caller), entry, new(Content::File))).unwrap();
    let (rng, done) = (RefCell::new(Seed(seed).rng()), RefCell::default());
    let mut turns = Seed(seed).child("turns").rng();
    let tasks = (1..5).map(|mark| Box::pin(task(&fs, log.number, &rng, &done, mark)) as Task<'_>);
    interleave(tasks.collect(), &mut turns);
    (done.into_inner(), lines)
}

/// Whether all that was done before a number of changes is there.
fn judge(lines: &RecordedLines, done: &Done, changes: usize) {
    let (fs, recovered) = block_on(Wpm::open(lines.clone(), 1 << 20)).expect("it opens");
    assert_eq!(recovered.damaged, 0);
    for (at, name) in &done.names {
        let found = block_on(fs.lookup(fs.root(), name));
        assert!(*at > changes || found.is_ok(), "{}", name.escape_ascii());
    }
    let log = block_on(fs.lookup(fs.root(), b"log")).expect("it was there before");
    for (at, offset, mark) in &done.appends {
        let mut bytes = [0; APPEND_BYTES];
        let read = block_on(fs.read(log.number, *offset, Out::Bytes(&mut bytes), 0)).unwrap();
        let is_there = read == APPEND_BYTES as u64 && bytes == [*mark; APPEND_BYTES];
        assert!(*at > changes || is_there, "append of {mark} at {offset}");
    }
    let checked = block_on(check(fs.lines())).unwrap();
    assert_eq!(checked.findings, Vec::<String>::new());
}

#[test]
fn tasks_beside_each_other_lose_nothing_and_leave_a_tree_that_is_sound() {
    for seed in 0..20 {
        println!("seed {seed}");
        let (done, lines) = run(seed);
        let mut offsets: Vec<u64> = done.appends.iter().map(|(_, at, _)| *at).collect();
        offsets.sort_unstable();
        let right = (0..offsets.len()).map(|nth| (nth * APPEND_BYTES) as u64);
        assert!(right.eq(offsets), "appends lie one behind the other");
        judge(&lines, &done, lines.changes());
    }
}

#[test]
fn what_tasks_have_done_is_there_after_a_cut_amid_others() {
    for seed in 20..23 {
        println!("seed {seed}");
        let (done, lines) = run(seed);
        let mut rng = Seed(seed).child("cuts").rng();
        for changes in (0..=lines.changes()).step_by(7) {
            for medium in lines.some_after_cut(changes, 2, &mut rng) {
                // What was there before the first of them.
                if changes > 20 {
                    judge(&RecordedLines::new(&medium), &done, changes);
                }
            }
        }
    }
}

#[test]
fn a_listing_has_once_what_stays_whatever_comes_and_goes() {
    for seed in 0..20 {
        println!("seed {seed}");
        let lines = RecordedLines::new(&block_on(WIDE.make()));
        let fs = block_on(Wpm::open(Slow(lines), 1 << 20))
            .expect("it opens")
            .0;
        let caller = Caller::root();
        let by = by(&caller);
        for nth in 0..9u8 {
            let name = [b'0' + nth];
            block_on(fs.create(by, Entry::new(fs.root(), &name), new(Content::File))).unwrap();
        }
        let listing = async {
            let (mut entries, mut cookie, mut is_end) = (Vec::new(), LIST_START, false);
            while !is_end {
                is_end = fs.list(fs.root(), cookie, 2, &mut entries).await.unwrap();
                cookie = entries.last().map_or(cookie, |entry| entry.cookie);
                turn().await;
            }
            let names = entries.iter().filter(|entry| entry.name[0] < b'5');
            let names: Vec<u8> = names.map(|entry| entry.name[0]).collect();
            assert_eq!(names, b"01234");
        };
        let changing = async {
            for nth in 5..9u8 {
                let (name, other) = ([b'0' + nth], [b'a' + nth]);
                let (entry, other) = (Entry::new(fs.root(), &name), Entry::new(fs.root(), &other));
                fs.rename(by, entry, other, Rename::Replace).await.unwrap();
                fs.create(by, entry, new(Content::Directory)).await.unwrap();
                fs.remove(by, other, Remove::Name).await.unwrap();
            }
        };
        let tasks: Vec<Task<'_>> = vec![Box::pin(listing), Box::pin(changing)];
        interleave(tasks, &mut Seed(seed).rng());
    }
}
