//! Guests that scribble over all that they share: whatever they write and whenever they go, the calls of the
//! owner and of a good guest come to their end, and when they are gone everything works.
//!
//! Four processes of this program: the test watches; the *owner* has a store in a file and a *good* guest;
//! in each round a *hostile* guest attaches, scribbles by the round's seed, and goes. All that a round does is
//! decided by its seed. A round that hangs is told by the test, with its seed.
//!
//!     WHARF_ROUNDS=1000 cargo test -p wharf --test scribblers
//!     WHARF_ROUNDS=1 WHARF_SEED=77 cargo test -p wharf --test scribblers

use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wharf::host::scala::guard::Intent;
use wharf::host::{IoError, Scala};
use wharf::store::{Client, Store, StoreOptions};

#[path = "scribblers/scribbler.rs"]
mod scribbler;

/// What marks an answer among the lines of the test harness.
const ANSWER: &str = "answer ";

/// Rounds unless `WHARF_ROUNDS` says otherwise.
const ROUNDS: u64 = 60;

/// Rounds with one store: then it is closed, and opened again.
const ROUNDS_OF_STORE: u64 = 20;

/// Seconds after which a round hangs: the longest wait of a call is 30, and that is seldom.
const HANG_S: i64 = 300;

/// Pages that all use, also the hostile.
const HOT: u64 = 1000;

/// Pages of the owner's and of the good guest that are checked when the hostile one is gone.
const CHECKED: u64 = 16;

/// Pages from here on are in no frame while there is a hostile guest: it cannot change them.
const COLD: Range<u64> = 1500..2000;

/// A process of this program with a part in the test.
struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(part: &str) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "other_process", "--nocapture"])
            .env("WHARF_PART", part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Process {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// The next answer; `None` if it has ended.
    fn answer(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // The harness may not have ended its own line.
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return Some(answer.trim_end().to_string());
            }
        }
    }

    fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.answer().expect("it answers")
    }

    /// Whether it says something, or ends, within so many seconds.
    fn says_something(&self, within_s: i64) -> bool {
        let mut watched = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
        let within = Timespec {
            tv_sec: within_s,
            tv_nsec: 0,
        };
        !self.output.buffer().is_empty() || poll(&mut watched, Some(&within)).unwrap() > 0
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn answer(what: &str) {
    println!("{ANSWER}{what}");
    std::io::stdout().flush().unwrap();
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

/// What a page holds: its number and its version, all over.
fn content(page: u64, version: u64) -> Vec<u8> {
    (page << 32 | version).to_le_bytes().repeat(512)
}

/// Writes a run of pages at once.
fn write_pages(client: &Client<Scala>, pages: Range<u64>, version: u64) {
    let data: Vec<u8> = pages
        .clone()
        .flat_map(|page| content(page, version))
        .collect();
    let written = client.write_at(pages.start * 4096, &data);
    assert_eq!(written, Ok(()), "pages {pages:?}, version {version}");
}

/// Reads a run of pages at once: they hold this version.
fn check_pages(client: &Client<Scala>, pages: Range<u64>, version: u64) {
    let mut data = vec![0; (pages.end - pages.start) as usize * 4096];
    let read = client.read_at(pages.start * 4096, &mut data);
    assert_eq!(read, Ok(()), "pages {pages:?}, version {version}");
    for (page, found) in pages.zip(data.chunks(4096)) {
        let is_right = found == content(page, version);
        assert!(
            is_right,
            "page {page} holds {:02x?}.., not version {version}",
            &found[..16]
        );
    }
}

/// Has every page in the cache once, so that others leave it.
fn read_hot(client: &Client<Scala>) {
    client
        .read_at(0, &mut vec![0; HOT as usize * 4096])
        .unwrap();
}

/// Calls of all kinds on hot pages while somebody scribbles: each comes to its end. Gives how many failed.
fn work(client: &Client<Scala>, random: &mut Random, calls: u64) -> u64 {
    let mut failed = 0;
    for _ in 0..calls {
        let page = random.below(HOT);
        let offset = page * 4096 + random.below(3000);
        let outcome: Result<(), IoError> = match random.below(16) {
            0 => client.flush(),
            1 => client.pin(page..page + 3, Intent::Write).map(drop),
            2 => client.pin(page..page + 1, Intent::Read).map(|guards| {
                guards[0].try_read(0, &mut [0; 100]);
            }),
            3 => client.set(page * 4096, random.0),
            4 => client.get::<u64>(page * 4096).map(drop),
            5..10 => client.read_at(offset, &mut [0; 5000]),
            10..13 => client.write_at(offset, &[1; 5000]),
            _ => client.write_at(page * 4096, &content(page, 0)),
        };
        failed += u64::from(outcome.is_err());
    }
    failed
}

/// Not a test by itself: the processes of the test below.
#[test]
#[ignore = "the other processes of the other test"]
fn other_process() {
    let part = std::env::var("WHARF_PART").expect("the other test starts it");
    let words: Vec<&str> = part.split(' ').collect();
    let number = |index: usize| words[index].parse::<u64>().unwrap();
    match words[0] {
        "owner" => own(Path::new(words[1]), number(2)..number(3)),
        "good" => be_good(words[1]),
        "hostile" => scribbler::run(words[1], number(2)),
        other => panic!("unknown: {other}"),
    }
}

/// The good guest: works and checks as it is told.
fn be_good(path: &str) {
    let client = Client::<Scala>::attach(path).unwrap();
    answer("attached");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        match words[0] {
            "work" => {
                let failed = work(&client, &mut Random(number(1)), number(2));
                answer(&failed.to_string());
            }
            "write" => {
                write_pages(&client, number(1)..number(1) + CHECKED, number(2));
                answer("written");
            }
            "check" => {
                check_pages(&client, number(1)..number(1) + CHECKED, number(2));
                answer("right");
            }
            "close" => {
                client.close().unwrap();
                return answer("closed");
            }
            other => panic!("unknown: {other}"),
        }
    }
}

/// The owner: rounds with hostile guests, of these seeds.
fn own(folder: &Path, seeds: Range<u64>) {
    let (file, path) = (folder.join("store"), folder.join("socket"));
    let options = StoreOptions::file(&file, 8 << 20).unwrap();
    let options = options.cache_bytes(1 << 20).clients(1).guests(2);
    let store = Store::<Scala>::open(&options).unwrap();
    store.share(&path).unwrap();
    let client = store.client().unwrap();
    let fresh = seeds.start == seeds_of_test().start;
    if fresh {
        write_pages(&client, COLD, 1);
    }
    check_pages(&client, COLD, 1);
    client.flush().unwrap();
    // More pages than there are frames: those from before leave.
    read_hot(&client);
    let mut good = Process::start(&format!("good {}", path.display()));
    assert_eq!(good.answer().as_deref(), Some("attached"));
    for seed in seeds.clone() {
        round(&client, &mut good, &path, seed);
        // The watcher waits for no longer than a round takes.
        answer(&format!("round {seed}"));
    }
    check_pages(&client, COLD, 1);
    assert_eq!(good.ask("close"), "closed");
    assert!(good.child.wait().unwrap().success());
    client.close().unwrap();
    // The translation layer is verified as the drive ends.
    store.close().unwrap();
    answer("closed");
}

/// A hostile guest comes, scribbles while others work, and goes; then all is checked.
fn round(client: &Client<Scala>, good: &mut Process, path: &Path, seed: u64) {
    let mut hostile = Process::start(&format!("hostile {} {seed}", path.display()));
    assert_eq!(hostile.answer().as_deref(), Some("begun"));
    good.tell(&format!("work {seed} 60"));
    let (mut random, mut failed) = (Random(seed ^ 0x5555), 0);
    while !hostile.says_something(0) {
        failed += work(client, &mut random, 10);
    }
    assert_eq!(hostile.answer().as_deref(), Some("done"));
    hostile.child.wait().unwrap();
    let good_failed = good.answer().expect("it works");
    // Now everything works, and what is written is there.
    let (mine, its) = (random.below(400), 500 + random.below(400));
    write_pages(client, mine..mine + CHECKED, seed);
    assert_eq!(good.ask(&format!("write {its} {seed}")), "written");
    assert_eq!(client.flush(), Ok(()));
    for _ in 0..2 {
        check_pages(client, mine..mine + CHECKED, seed);
        check_pages(client, its..its + CHECKED, seed);
        assert_eq!(good.ask(&format!("check {mine} {seed}")), "right");
        assert_eq!(good.ask(&format!("check {its} {seed}")), "right");
        // Again when they have left the cache and come back.
        read_hot(client);
    }
    eprintln!("seed {seed}: {failed} calls of the owner failed, {good_failed} of the good guest");
}

/// The seeds of the rounds.
fn seeds_of_test() -> Range<u64> {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    let first = number("WHARF_SEED").unwrap_or(1);
    first..first + number("WHARF_ROUNDS").unwrap_or(ROUNDS)
}

/// A guest that wrote random bytes over the memory that it shared, and left, had its owner wait for ever: for
/// words that named nobody, or its own process, and for pages announced by counters that anyone could write.
#[test]
fn a_guest_that_scribbled_over_what_it_shares_hung_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = seeds_of_test();
    for first in seeds.clone().step_by(ROUNDS_OF_STORE as usize) {
        let after = (first + ROUNDS_OF_STORE).min(seeds.end);
        let part = format!("owner {} {first} {after}", folder.path().display());
        let mut owner = Process::start(&part);
        let mut next = first;
        loop {
            if !owner.says_something(HANG_S) {
                owner.kill();
                panic!("seed {next} hangs: WHARF_ROUNDS=1 WHARF_SEED={next}");
            }
            match owner.answer().as_deref() {
                Some("closed") => break,
                Some(_) => next += 1,
                None => panic!("seed {next}: the owner has ended; what it said is above"),
            }
        }
        assert_eq!(next, after);
        assert!(owner.child.wait().unwrap().success());
    }
}
