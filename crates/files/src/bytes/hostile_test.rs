//! Memory made by somebody who knows the checksums: whatever it says is an error, or obeyed where it
//! can be; never a panic, and never without an end.

use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::{Rng, Seed};
use zerocopy::{FromBytes, IntoBytes};

use super::gates;
use super::journal::{self, NOTE_BYTES, NOTES};
use super::layout::{Geometry, JOURNAL_PAGE, PAGE, SLOT_BYTES, Superblock, TABLE_PAGE, crc32c};
use super::log::{HEAD_BYTES, LogHead, page_of_end, read_slot};
use super::record::{Extent, Inode, Name, Record, RecordKind, Value, Whose};
use super::{Make, Wpm, check, make};
use crate::lines::RamLines;
use crate::testing::beside::time_of;
use crate::testing::program::callers;
use crate::testing::random::Steps;
use crate::testing::subject::{Subject, Users};
use crate::testing::taste::Taste;
use crate::vfs::{Session, SessionLimits};
use crate::{
    By, Caller, Content, Entry, Errno, FileSystem, Kind, LIST_START, New, Out, Owner, Rename, Seek,
    block_on,
};

const PAGES: u64 = 300;
const MEMORY: usize = 8 << 10;

fn new_memory() -> RamLines {
    let lines = RamLines::new(PAGES);
    let new = Make {
        file_system: 0x5eed,
        now_ns: 1,
        uid: 0,
        gid: 0,
        mode: 0o755,
    };
    block_on(make(&lines, new)).unwrap();
    lines
}

/// A file system with some of everything.
fn with_everything(seed: u64) -> RamLines {
    let lines = new_memory();
    let fs = Rc::new(block_on(Wpm::open(&lines, MEMORY)).unwrap().0);
    use_it(&fs, seed, 300);
    drop(fs);
    lines
}

fn use_it(fs: &Rc<Wpm<&RamLines>>, seed: u64, steps: usize) {
    let program = Steps::new(Seed(seed).child("use").rng(), Taste::default()).program(steps);
    let mut users = Users::new(fs, &callers(), SessionLimits::default());
    for (at, step) in program.iter().enumerate() {
        block_on(users.step(step, time_of(at)));
    }
    let _ = block_on(users.close_all());
}

/// Looks at everything that can be found.
fn look<F: FileSystem>(fs: &F) {
    let (mut numbers, mut at) = (vec![fs.root()], 0);
    while at < numbers.len().min(200) {
        let (mut entries, mut cookie) = (Vec::new(), LIST_START);
        for _ in 0..10 {
            let is_end = block_on(fs.list(numbers[at], cookie, 20, &mut entries));
            cookie = entries.last().map_or(cookie, |entry| entry.cookie);
            if is_end != Ok(false) {
                break;
            }
        }
        for entry in entries {
            let _ = block_on(fs.lookup(numbers[at], &entry.name));
            numbers.push(entry.number);
        }
        at += 1;
    }
    for number in numbers.into_iter().take(200) {
        let mut bytes = vec![0; 20_000];
        for offset in [0, 10_000, 1 << 40, u64::MAX / 2] {
            let _ = block_on(fs.read(number, offset, Out::from(&mut bytes), 0));
            let _ = block_on(fs.seek(number, offset, Seek::Data));
            let _ = block_on(fs.seek(number, offset, Seek::Hole));
        }
        let _ = block_on(fs.read_link(number));
        for name in block_on(fs.xattrs(number)).unwrap_or_default() {
            let _ = block_on(fs.xattr(number, &name));
        }
    }
    let _ = block_on(fs.stat_fs());
}

/// A log on the media: its number, where it ends, and its pages with where each of them ends.
struct Log {
    slot: u64,
    whose: Whose,
    pages: Vec<(u64, u64)>,
}

struct Forger<'a> {
    lines: &'a RamLines,
    geometry: Geometry,
    logs: Vec<Log>,
    rng: Rng,
}

/// What is forged.
const FORGERIES: [&str; 7] = [
    "a record's bytes",
    "a record more",
    "a head of a page",
    "a slot",
    "a note",
    "a superblock",
    "bytes of a value or a file",
];

impl<'a> Forger<'a> {
    fn new(lines: &'a RamLines, rng: Rng) -> Forger<'a> {
        let geometry = block_on(Geometry::find(lines)).unwrap();
        let mut forger = Forger {
            lines,
            geometry,
            logs: Vec::new(),
            rng,
        };
        for slot in 0..geometry.slots() {
            let (uses, end) = block_on(read_slot(lines, &geometry, slot)).unwrap();
            if end > 0 {
                let log = forger.log(slot, uses, end);
                forger.logs.push(log);
            }
        }
        forger
    }

    fn log(&self, slot: u64, uses: u64, mut end: u64) -> Log {
        let whose = Whose {
            number: Geometry::number_of(slot, uses - 1),
            file_system: self.geometry.file_system,
        };
        let mut pages = Vec::new();
        while end > 0 {
            let page = page_of_end(end);
            pages.push((page, end));
            let head = self.peek(page * PAGE, HEAD_BYTES);
            end = LogHead::read_from_bytes(&head).unwrap().previous.get();
        }
        Log { slot, whose, pages }
    }

    fn peek(&self, at: u64, bytes: u64) -> Vec<u8> {
        let mut out = vec![0; bytes as usize];
        self.lines.peek(at, &mut out).unwrap();
        out
    }

    fn poke(&self, at: u64, bytes: &[u8]) {
        self.lines.poke(at, bytes).unwrap();
    }

    /// A number that somebody would choose.
    fn number(&mut self) -> u64 {
        let log = self.rng.below(self.logs.len() as u64) as usize;
        let log = &self.logs[log];
        match self.rng.below(9) {
            0 => 0,
            1 => u64::MAX,
            2 => self.rng.below(10),
            3 => self.rng.below(PAGES + 3),
            4 => log.whose.number,
            5 => log.pages[0].0,
            6 => log.pages[0].1,
            7 => self.rng.next_u64(),
            _ => 1 << self.rng.below(64),
        }
    }

    /// Puts numbers somewhere into bytes.
    fn scribble(&mut self, bytes: &mut [u8]) {
        for _ in 0..1 + self.rng.below(3) {
            let width = [1, 2, 4, 8][self.rng.below(4) as usize];
            let at = self.rng.below(bytes.len() as u64) as usize / width * width;
            let (number, end) = (self.number(), (at + width).min(bytes.len()));
            bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
        }
    }

    fn any_log(&mut self) -> usize {
        self.rng.below(self.logs.len() as u64) as usize
    }

    fn forge(&mut self, what: usize) {
        match what {
            0 => self.record(),
            1 => self.more_records(),
            2 => self.head(),
            3 => self.slot(),
            4 => self.note(),
            5 => self.superblock(),
            _ => self.bytes(),
        }
    }

    /// Other bytes in a record, of the same kind or of another.
    fn record(&mut self) {
        let at = self.any_log();
        let log = &self.logs[at];
        let whose = log.whose;
        let (page, end) = log.pages[self.rng.below(log.pages.len() as u64) as usize];
        let (start, bytes) = (page * PAGE, self.peek(page * PAGE, end - page * PAGE));
        let (mut records, mut at) = (Vec::new(), HEAD_BYTES as usize);
        // As far as it has not been forged before.
        while let Some(found) = bytes
            .get(at..)
            .and_then(|b| whose.open(start + at as u64, b))
        {
            records.push((start + at as u64, found.len() as u64));
            at += found.len();
        }
        if records.is_empty() {
            return;
        }
        let (at, length) = records[self.rng.below(records.len() as u64) as usize];
        let mut bytes = self.peek(at, length);
        match self.rng.below(4) {
            // The kind and the length.
            0 => self.scribble(&mut bytes[4..8]),
            _ if length > 8 => self.scribble(&mut bytes[8..]),
            _ => {}
        }
        whose.seal(at, &mut bytes);
        self.poke(at, &bytes);
    }

    fn invented(&mut self) -> Record {
        let kinds = RecordKind::ALL;
        let kind = [Kind::File, Kind::Directory, Kind::Symlink][self.rng.below(3) as usize];
        let (name, pages) = (format!("forged {}", self.rng.below(3)), [self.number(); 3]);
        let value = match self.rng.below(2) {
            0 => Value::here(name.as_bytes()),
            _ => Value::in_pages(&[5; 9000], &pages),
        };
        let name: Arc<[u8]> = name.as_bytes().into();
        match kinds[self.rng.below(kinds.len() as u64) as usize] {
            RecordKind::Inode => Record::Inode(Inode {
                kind,
                mode: self.number() as u16,
                links: self.number() as u32,
                uid: 0,
                gid: 0,
                device: self.number() as u32,
                size: self.number(),
                accessed_ns: self.number(),
                modified_ns: self.number(),
                changed_ns: self.number(),
                parent: self.number(),
                latest_cookie: self.number(),
            }),
            RecordKind::Extent => Record::Extent(Extent {
                at: self.number(),
                pages: self.number(),
                first: self.number(),
                is_written: self.rng.chance(1, 2),
            }),
            RecordKind::Name => Record::Name(Name {
                cookie: self.number(),
                number: self.number(),
                kind,
                name,
            }),
            RecordKind::NameGone => Record::NameGone(self.number()),
            RecordKind::Xattr => Record::Xattr(name, value),
            RecordKind::XattrGone => Record::XattrGone(name),
            RecordKind::Target => Record::Target(value),
        }
    }

    /// Records behind the last one of a log, as the file system itself would add them.
    fn more_records(&mut self) {
        let at = self.any_log();
        for _ in 0..1 + self.rng.below(3) {
            let record = self.invented();
            self.add(at, &record);
        }
    }

    /// A record more in the log of index `at`, if there is room in its last page.
    fn add(&mut self, at: usize, record: &Record) {
        let (mut bytes, log) = (record.encode(), &mut self.logs[at]);
        let (page, end) = log.pages[0];
        if end + bytes.len() as u64 > (page + 1) * PAGE {
            return;
        }
        log.whose.seal(end, &mut bytes);
        log.pages[0].1 += bytes.len() as u64;
        let (slot, end_now) = (log.slot, log.pages[0].1);
        self.poke(end, &bytes);
        let word_at = self.geometry.log_end_at(slot);
        let word = self.geometry.word(word_at, end_now);
        self.poke(word_at, &word.to_le_bytes());
    }

    fn head(&mut self) {
        let at = self.any_log();
        let previous = match self.rng.below(2) {
            0 => self.number(),
            _ => self.logs[at].pages[0].1,
        };
        let log = &self.logs[at];
        let (page, _) = log.pages[self.rng.below(log.pages.len() as u64) as usize];
        let head = LogHead::new(log.whose, page, previous);
        self.poke(page * PAGE, head.as_bytes());
    }

    fn slot(&mut self) {
        let at = self.any_log();
        let (slot, end) = (self.logs[at].slot, self.logs[at].pages[0].1);
        let slot = match self.rng.below(3) {
            0 => self.rng.below(self.geometry.slots()),
            _ => slot,
        };
        let value = match self.rng.below(3) {
            0 => end - 8 * self.rng.below(20),
            _ => self.number() & ((1 << 48) - 1),
        };
        let at = self.geometry.slot_at(slot) + 8 * self.rng.below(2);
        let word = match value {
            0 => 0,
            value => self.geometry.word(at, value),
        };
        self.poke(at, &word.to_le_bytes());
    }

    /// A note that is marked, and leads anywhere.
    fn note(&mut self) {
        let table = TABLE_PAGE * PAGE..self.geometry.data_first() * PAGE;
        let mut words = Vec::new();
        for _ in 0..1 + self.rng.below(4) {
            let slot = self.rng.below(40);
            let at = match self.rng.below(4) {
                0 => self.number(),
                _ => table.start + slot * SLOT_BYTES + 8 * self.rng.below(2),
            };
            let value = self.number() & ((1 << 48) - 1);
            let word = match self.rng.below(4) {
                0 => self.number(),
                _ => self.geometry.word(at, value.max(1)),
            };
            words.push((at, word));
        }
        let (noted, at, note) = journal::note(self.rng.below(NOTES), &words);
        let mut body = note.body().to_vec();
        if self.rng.chance(1, 3) {
            self.scribble(&mut body);
        }
        self.poke(at, &body);
        let (mark_at, mark) = match self.rng.chance(1, 3) {
            // Of what is there now, whatever that is.
            true => {
                let mark = 1 << 32 | u64::from(crc32c(&[&body]));
                (at - 8, self.geometry.word(at - 8, mark))
            }
            false => noted.mark(&self.geometry),
        };
        assert!((JOURNAL_PAGE * PAGE..TABLE_PAGE * PAGE).contains(&mark_at));
        assert_eq!((mark_at - JOURNAL_PAGE * PAGE) % NOTE_BYTES, 0);
        self.poke(mark_at, &mark.to_le_bytes());
    }

    fn superblock(&mut self) {
        for at in [0, (PAGES - 1) * PAGE] {
            let mut bytes = self.peek(at, size_of::<Superblock>() as u64);
            self.scribble(&mut bytes[4..]);
            let crc = crc32c(&[&bytes[4..]]);
            bytes[..4].copy_from_slice(&crc.to_le_bytes());
            self.poke(at, &bytes);
        }
    }

    fn bytes(&mut self) {
        let data = self.geometry.data_first()..self.geometry.data_end();
        let page = data.start + self.rng.below(data.end - data.start);
        let mut bytes = self.peek(page * PAGE, PAGE);
        self.scribble(&mut bytes);
        self.poke(page * PAGE, &bytes);
    }
}

fn by(caller: &Caller) -> By<'_> {
    By { caller, now_ns: 2 }
}

/// Directories `a`, `a/c` and `b`; their numbers.
fn three_directories() -> (RamLines, [u64; 3]) {
    let (lines, caller) = (new_memory(), Caller::root());
    let fs = block_on(Wpm::open(&lines, MEMORY)).unwrap().0;
    let directory = |at, name: &[u8]| {
        let new = New {
            content: Content::Directory,
            mode: 0o755,
            owner: Owner::default(),
            is_open: false,
        };
        let made = block_on(fs.create(by(&caller), Entry::new(at, name), new));
        made.expect("it is made").number
    };
    let a = directory(fs.root(), b"a");
    let numbers = [a, directory(a, b"c"), directory(fs.root(), b"b")];
    drop(fs);
    (lines, numbers)
}

/// Lets a directory say that another one is its parent.
fn forge_parent(lines: &RamLines, number: u64, parent: u64) {
    let mut forger = Forger::new(lines, Seed(1).rng());
    let log = forger
        .logs
        .iter()
        .position(|log| log.whose.number == number);
    let node = block_on(super::log::load(&lines, &forger.geometry, number)).unwrap();
    let inode = node.inode();
    forger.add(log.unwrap(), &Record::Inode(Inode { parent, ..inode }));
}

/// Its gate was taken for that of renames, behind which the rename itself was.
#[test]
fn a_parent_that_no_inode_can_be_made_a_rename_wait_for_itself() {
    for parent in [u64::MAX, gates::journal(3), 0, 1 << 63] {
        let (lines, [a, _, b]) = three_directories();
        forge_parent(&lines, b, parent);
        let (fs, caller) = (
            block_on(Wpm::open(&lines, MEMORY)).unwrap().0,
            Caller::root(),
        );
        let (from, to) = (Entry::new(a, b"c"), Entry::new(b, b"d"));
        let renamed = block_on(fs.rename(by(&caller), from, to, Rename::Replace));
        // What it is below is not known.
        assert!(renamed.is_ok_and(|()| block_on(fs.lookup(b, b"d")).is_ok()));
        let up = block_on(fs.lookup(b, b".."));
        assert_eq!(up.unwrap_err().errno(), Errno::ENOENT);
        let linked = block_on(fs.link(by(&caller), parent, Entry::new(b, b"e")));
        assert_eq!(linked.unwrap_err().errno(), Errno::ESTALE);
    }
}

#[test]
fn directories_that_are_each_others_parents_made_a_walk_without_end() {
    let (lines, [a, c, b]) = three_directories();
    forge_parent(&lines, a, b);
    forge_parent(&lines, b, a);
    let fs = block_on(Wpm::open(&lines, MEMORY)).unwrap().0;
    let session = Session::new(&fs, Caller::root(), SessionLimits::default());
    let renamed = block_on(session.rename(9, b"a/c".into(), b"b/c".into(), Rename::Replace));
    assert_eq!(renamed.unwrap_err().errno(), Errno::ELOOP);
    assert_eq!(block_on(fs.lookup(a, b"c")).unwrap().number, c);
}

#[test]
fn forged_memory_is_an_error_and_never_a_panic() {
    let mut found_wrong = [0; FORGERIES.len()];
    let mut opened = [0; FORGERIES.len()];
    for seed in 0..4 {
        let medium = with_everything(seed);
        let mut rng = Seed(seed).child("forge").rng();
        for round in 0..700 {
            let what = round % FORGERIES.len();
            println!("seed {seed}, round {round}: {}", FORGERIES[what]);
            let forged = medium.clone();
            let mut forger = Forger::new(&forged, Seed(rng.next_u64()).rng());
            for _ in 0..1 + rng.below(2) {
                forger.forge(what);
            }
            if let Ok(checked) = block_on(check(&forged)) {
                found_wrong[what] += usize::from(!checked.findings.is_empty());
            }
            let Ok((fs, _)) = block_on(Wpm::open(&forged, MEMORY)) else {
                continue;
            };
            opened[what] += 1;
            let fs = Rc::new(fs);
            look(&*fs);
            use_it(&fs, rng.next_u64(), 40);
            look(&*fs);
        }
    }
    println!("{found_wrong:?} were found to be wrong, {opened:?} could be opened, of 400 each");
    for (what, name) in FORGERIES.iter().enumerate().take(4) {
        assert!(found_wrong[what] > 100, "the check does not find {name}");
        assert!(opened[what] > 100, "{name} is never looked at");
    }
    assert!(opened[4] > 50, "{opened:?}");
}
