//! What a process keeps of files of a drive in another process: of use, and never old.

mod compute;
mod locks;
mod modes;
mod near;
#[path = "../support/served.rs"]
mod served;
mod writes;

use served::Served;
use wharf::files::{CacheCounts, FileDrive, Keeping, OpenFlags, Serving, now_ns};
use wharf_files::vfs::{Access, At, Service, Start, Target};
use wharf_files::{Allocate, By, Caller, Handle, Place, block_on};

const PAGE: usize = 4096;

impl Served {
    fn new() -> Served {
        Served::with_cache(0)
    }

    /// By a drive that has a cache of so many bytes.
    fn with_cache(bytes: u64) -> Served {
        Served::serving(&Serving {
            processes: 8,
            drive_cache_bytes: bytes,
            ..Serving::default()
        })
    }

    /// A process that keeps so many bytes.
    fn process(&self, cache_bytes: u64) -> Process {
        self.keeping(Keeping::of_bytes(cache_bytes))
    }

    /// The same, which uses the drive's cache too.
    fn both(&self, cache_bytes: u64) -> Process {
        self.keeping(omni(cache_bytes))
    }

    /// A process that keeps what it is told to.
    fn keeping(&self, keeping: Keeping) -> Process {
        Process(FileDrive::attach_keeping(&self.socket(), keeping).unwrap())
    }
}

/// Both caches.
fn omni(bytes: u64) -> Keeping {
    Keeping {
        is_omni: true,
        ..Keeping::of_bytes(bytes)
    }
}

/// What stands for a process: its own way to the drive.
struct Process(FileDrive);

static ROOT: Caller = Caller {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};

fn by() -> By<'static> {
    By {
        caller: &ROOT,
        now_ns: now_ns(),
    }
}

impl Process {
    fn open(&self, path: &str) -> Handle {
        let flags = OpenFlags::CREATE;
        let opened = self.0.open(by(), At::from(path.as_bytes()), flags, 0o644);
        block_on(opened).unwrap().handle
    }

    fn write(&self, file: Handle, offset: u64, data: &[u8]) {
        let written = self.0.write(now_ns(), file, Place::At(offset), data);
        assert_eq!(block_on(written).unwrap().bytes, data.len() as u64);
    }

    fn read(&self, file: Handle, offset: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0xee; bytes];
        let read = block_on(self.0.read(now_ns(), file, offset, &mut out)).unwrap();
        out.truncate(read as usize);
        out
    }

    fn bytes(&self, file: Handle) -> u64 {
        block_on(self.0.stat(by(), Target::Handle(file)))
            .unwrap()
            .bytes
    }

    fn cut(&self, file: Handle, bytes: u64) {
        block_on(self.0.truncate_open(now_ns(), file, bytes)).unwrap();
    }

    fn counts(&self) -> CacheCounts {
        self.0.cache_counts().unwrap()
    }
}

#[test]
fn what_was_read_takes_no_command_until_another_process_changes_it() {
    let served = Served::new();
    let (one, other) = (served.process(1 << 20), served.process(0));
    assert_eq!(other.0.cache_counts(), None);
    let (mine, its) = (one.open("/f"), other.open("/f"));
    let mut expected: Vec<u8> = (0..10 * PAGE + 77).map(|n| (n % 251) as u8).collect();
    other.write(its, 0, &expected);
    for _ in 0..10 {
        assert!(one.read(mine, 0, 100_000) == expected);
        assert!(one.read(mine, 5_000, 20) == expected[5_000..5_020]);
        assert!(one.read(mine, expected.len() as u64, 5).is_empty());
        assert_eq!(one.bytes(mine), expected.len() as u64);
    }
    let before = one.counts();
    assert_eq!((before.leases, before.misses), (1, 1), "{before:?}");
    assert!(before.hits >= 29 && before.attributes >= 9, "{before:?}");
    for round in 1..20_u8 {
        let at = usize::from(round) * 997;
        expected[at..at + 50].fill(round);
        other.write(its, at as u64, &[round; 50]);
        assert!(one.read(mine, 0, 100_000) == expected, "round {round}");
        assert!(one.read(mine, 0, 100_000) == expected);
        assert_eq!(one.bytes(mine), expected.len() as u64);
    }
    assert_eq!(one.counts().leases, 20);
    other.cut(its, 5_000);
    assert_eq!(
        (one.bytes(mine), one.read(mine, 4_990, 100).len()),
        (5_000, 10)
    );
    served_ends(served, [one, other]);
}

fn served_ends<const N: usize>(served: Served, processes: [Process; N]) {
    for Process(drive) in processes {
        drive.end().unwrap();
    }
    served.end();
}

#[test]
fn what_a_process_writes_it_reads_without_a_command() {
    let served = Served::new();
    let (one, other) = (served.process(1 << 20), served.process(1 << 20));
    let file = one.open("/f");
    let mut expected = vec![7; 3 * PAGE];
    one.write(file, 0, &expected);
    assert!(one.read(file, 0, 9 * PAGE) == expected);
    let before = one.counts();
    for round in 0..50_usize {
        let at = round * 1_111 % (6 * PAGE);
        let data = vec![round as u8; 10 + 170 * (round % 60)];
        expected.resize(expected.len().max(at + data.len()), 0);
        expected[at..at + data.len()].copy_from_slice(&data);
        one.write(file, at as u64, &data);
        assert!(one.read(file, 0, 20 * PAGE) == expected, "round {round}");
        // The drive has it, too: whoever is killed now has lost nothing.
        let its = other.open("/f");
        assert!(other.read(its, 0, 20 * PAGE) == expected, "round {round}");
        block_on(other.0.close(its)).unwrap();
    }
    let after = one.counts();
    assert_eq!(after.leases, before.leases);
    assert!(after.misses < before.misses + 4, "{after:?}");
    // What is cut off does not come back.
    one.cut(file, 100);
    one.cut(file, 5_000);
    let mut cut = expected[..100].to_vec();
    cut.resize(5_000, 0);
    assert!(one.read(file, 0, 9_000) == cut);
    block_on(
        one.0
            .allocate(now_ns(), file, 0, PAGE as u64, Allocate::Punch),
    )
    .unwrap();
    assert!(one.read(file, 0, 9_000) == vec![0; 5_000]);
    served_ends(served, [one, other]);
}

#[test]
fn little_memory_and_many_files_are_enough() {
    let served = Served::new();
    let (one, other) = (served.process(1), served.process(8 << 20));
    let content = |file: usize, page: usize| vec![(file * 31 + page) as u8; PAGE];
    let large = other.open("/large");
    for page in 0..700 {
        other.write(large, (page * PAGE) as u64, &content(0, page));
    }
    let mine = one.open("/large");
    for _ in 0..2 {
        for page in (0..700).chain((0..700).rev()) {
            assert!(one.read(mine, (page * PAGE) as u64, PAGE) == content(0, page));
        }
    }
    assert!(one.read(mine, 0, 700 * PAGE).len() == 700 * PAGE);
    // More files than a process has leases.
    for file in 0..600 {
        let its = one.open(&format!("/{file}"));
        one.write(its, 0, &content(file, 0));
        block_on(one.0.close(its)).unwrap();
    }
    for round in 0..2_usize {
        for file in 0..600 {
            let its = other.open(&format!("/{file}"));
            assert!(
                other.read(its, 0, 2 * PAGE) == content(file, round),
                "{file}"
            );
            block_on(other.0.close(its)).unwrap();
        }
        for file in 0..600 {
            let its = one.open(&format!("/{file}"));
            one.write(its, 0, &content(file, round + 1));
            block_on(one.0.close(its)).unwrap();
        }
    }
    served_ends(served, [one, other]);
}

/// Two handles of a file are one file, and a file that took another's name is another.
#[test]
fn names_that_change_hands_give_no_other_files_bytes() {
    let served = Served::new();
    let (one, other) = (served.process(1 << 20), served.process(1 << 20));
    let (first, second) = (one.open("/f"), one.open("/f"));
    one.write(first, 0, b"old");
    assert_eq!(one.read(second, 0, 9), b"old");
    let counts = one.counts();
    assert_eq!(one.read(first, 0, 9), b"old");
    assert_eq!(one.counts().leases, counts.leases);
    let new = other.open("/new");
    other.write(new, 0, b"newer");
    let from = At {
        from: Start::Root,
        path: b"/new",
    };
    let how = wharf_files::Rename::Replace;
    block_on(other.0.rename(by(), from, At::from(b"/f"), how)).unwrap();
    assert_eq!(one.read(first, 0, 9), b"old");
    let stat = block_on(one.0.stat(by(), Target::Handle(first))).unwrap();
    assert_eq!(stat.links, 0);
    let third = one.open("/f");
    assert_eq!(one.read(third, 0, 9), b"newer");
    served_ends(served, [one, other]);
}

/// Who keeps what a server had that is gone is told so.
#[test]
fn nothing_is_kept_longer_than_its_server() {
    let served = Served::new();
    let one = served.process(1 << 20);
    let file = one.open("/f");
    one.write(file, 0, b"something");
    assert_eq!(one.read(file, 0, 9), b"something");
    let Served { place, server } = served;
    server.close().unwrap();
    let mut out = [0; 9];
    let read = block_on(one.0.read(now_ns(), file, 0, &mut out));
    assert_eq!(read.map_err(|error| error.errno().number()), Err(5));
    assert_eq!(one.0.read_kept(file, 0, &mut out), None);
    one.0.abandon();
    drop(place);
}

impl Process {
    fn stat(&self, path: &str) -> Result<u64, i32> {
        let target = Target::Path(At::from(path.as_bytes()), true);
        let found = block_on(self.0.stat(by(), target));
        found
            .map(|found| found.bytes)
            .map_err(|error| error.errno().number())
    }

    fn may_read(&self, path: &str) -> Result<(), i32> {
        let target = Target::Path(At::from(path.as_bytes()), true);
        let asked = block_on(self.0.access(by(), target, Access::READ));
        asked.map_err(|error| error.errno().number())
    }

    fn remove(&self, path: &str) {
        block_on(self.0.unlink(by(), At::from(path.as_bytes()))).unwrap();
    }

    fn mkdir(&self, path: &str) {
        block_on(self.0.mkdir(by(), At::from(path.as_bytes()), 0o755)).unwrap();
    }
}

const ENOENT: i32 = 2;

#[test]
fn what_paths_lead_to_takes_no_command_until_another_process_changes_names() {
    let served = Served::new();
    let (one, other) = (served.process(1 << 20), served.process(1 << 20));
    let file = one.open("/f");
    one.write(file, 0, b"four");
    one.bytes(file);
    other.mkdir("/d");
    for _ in 0..6 {
        assert_eq!((one.stat("/f"), one.stat("/none")), (Ok(4), Err(ENOENT)));
        assert!(one.stat("/d").is_ok() && one.may_read("/f").is_ok());
        assert_eq!(one.may_read("/d/none"), Err(ENOENT));
    }
    let before = one.counts().names;
    for _ in 0..10 {
        assert_eq!((one.stat("/f"), one.stat("/none")), (Ok(4), Err(ENOENT)));
        assert!(one.stat("/d").is_ok() && one.may_read("/f").is_ok());
        assert_eq!(one.may_read("/d/none"), Err(ENOENT));
        let at = At::from(&b"/none"[..]);
        let opened = block_on(one.0.open(by(), at, OpenFlags::READ, 0));
        assert_eq!(
            opened.map(drop).map_err(|error| error.errno().number()),
            Err(ENOENT)
        );
    }
    assert!(one.counts().names >= before + 60, "{:?}", one.counts());
    // What others write shows in sizes, and what they make, remove and rename in names.
    for round in 0..30_u64 {
        let its = other.open("/f");
        other.write(its, 4 + round, b"x");
        assert_eq!(one.stat("/f"), Ok(5 + round));
        let made = other.open("/none");
        assert_eq!(one.stat("/none"), Ok(0));
        assert_eq!(one.may_read("/none"), Ok(()));
        other.remove("/none");
        assert_eq!(
            (one.stat("/none"), one.may_read("/none")),
            (Err(ENOENT), Err(ENOENT))
        );
        // Its own, too.
        let own = one.open("/none");
        assert_eq!(one.stat("/none"), Ok(0));
        one.remove("/none");
        assert_eq!(one.stat("/none"), Err(ENOENT));
        one.mkdir(&format!("/d/{round}"));
        assert!(one.stat(&format!("/d/{round}")).is_ok());
        for (process, handle) in [(&other, its), (&other, made), (&one, own)] {
            block_on(process.0.close(handle)).unwrap();
        }
    }
    served_ends(served, [one, other]);
}

#[test]
fn what_one_user_may_know_is_not_told_to_another() {
    let served = Served::new();
    let (one, other) = (served.process(1 << 20), served.process(0));
    one.mkdir("/closed");
    one.open("/closed/f");
    let mode = block_on(
        one.0
            .chmod(by(), Target::Path(At::from(&b"/closed"[..]), true), 0o700),
    );
    mode.unwrap();
    for _ in 0..9 {
        assert_eq!(one.stat("/closed/f"), Ok(0));
    }
    let stranger = Caller {
        uid: 77,
        gid: 77,
        groups: Vec::new(),
    };
    let as_stranger = By {
        caller: &stranger,
        now_ns: now_ns(),
    };
    let target = Target::Path(At::from(&b"/closed/f"[..]), true);
    for _ in 0..9 {
        let found = block_on(one.0.stat(as_stranger, target));
        assert_eq!(
            found.map(drop).map_err(|error| error.errno().number()),
            Err(13)
        );
    }
    for _ in 0..9 {
        assert_eq!(one.stat("/closed/f"), Ok(0));
    }
    // And what was allowed to others is not any more when that is taken back.
    let open = |mode| {
        let target = Target::Path(At::from(&b"/closed"[..]), true);
        block_on(other.0.chmod(by(), target, mode)).unwrap();
    };
    for _ in 0..9 {
        open(0o755);
        assert!((0..5).all(|_| block_on(one.0.stat(as_stranger, target)).is_ok()));
        open(0o700);
        assert!(block_on(one.0.stat(as_stranger, target)).is_err());
    }
    served_ends(served, [one, other]);
}
