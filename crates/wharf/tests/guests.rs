//! A store that several processes use: the tests start this program again as the second process, and
//! talk to it by lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use wharf::host::scala::guard::Intent;
use wharf::host::{Clock, IoError, Scala};
use wharf::store::{Client, Store, StoreError, StoreOptions};

#[path = "guests/hostile.rs"]
mod hostile;

/// What marks an answer among the lines of the test harness.
const ANSWER: &str = "answer ";

/// What a hostile guest of a store tries.
const SCRIBBLED: hostile::Target = hostile::Target {
    depth: 128,
    has_tokens: false,
    opcodes: &[
        0x00, 0x01, 0x02, 0x08, 0x09, 0x0c, 0x81, 0x81, 0x83, 0x83, 0x83, 0xc0,
    ],
};

/// A second process, which serves lines until its input ends.
struct Second {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Second {
    fn start() -> Second {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "second_process", "--nocapture"])
            .env("WHARF_SECOND_PROCESS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Second {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// One that has attached.
    fn attached(path: &Path) -> Second {
        let mut second = Second::start();
        assert_eq!(second.ask(&format!("attach {}", path.display())), "done");
        second
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let read = self.output.read_line(&mut line).unwrap();
            assert!(read > 0, "the second process has ended");
            // The harness may not have ended its own line.
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return answer.trim_end().to_string();
            }
        }
    }

    fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.answer()
    }

    /// Ends it as a crash would, whatever it does.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it in order.
    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success());
    }
}

/// What a page holds: the same word all over, of the page and its version.
fn fill(page: u64, version: u64, data: &mut [u8]) {
    for word in data.chunks_mut(8) {
        word.copy_from_slice(&(page << 32 | version).to_le_bytes());
    }
}

/// The versions that are in a page: its words are all of this page.
fn versions(page: u64, data: &[u8]) -> Vec<u64> {
    let mut found = Vec::new();
    for word in data.chunks(8) {
        let word = u64::from_le_bytes(word.try_into().unwrap());
        assert_eq!(word >> 32, page, "page {page} holds {word:#x}");
        if found.last() != Some(&(word & 0xffff_ffff)) {
            found.push(word & 0xffff_ffff);
        }
    }
    found
}

fn version_of(client: &Client<Scala>, page: u64) -> u64 {
    let mut data = [0; 4096];
    client.read_at(page * 4096, &mut data).unwrap();
    let found = versions(page, &data);
    assert_eq!(found.len(), 1, "page {page} is torn: {found:?}");
    found[0]
}

fn write_page(client: &Client<Scala>, page: u64, version: u64) {
    let mut data = [0; 4096];
    fill(page, version, &mut data);
    client.write_at(page * 4096, &data).unwrap();
}

/// Writes versions of random pages for ever.
fn write_for_ever(client: &Client<Scala>, pages: u64, seed: u64) -> ! {
    let mut state = seed | 1;
    loop {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        write_page(client, state % pages, state >> 33);
    }
}

/// Not a test by itself: what the tests start.
#[test]
#[ignore = "the second process of the other tests"]
fn second_process() {
    let expected = std::env::var_os("WHARF_SECOND_PROCESS");
    assert!(expected.is_some(), "the other tests start it");
    let mut client: Option<Client<Scala>> = None;
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        let attached = || client.as_ref().expect("it has attached");
        let answer = match words[0] {
            "attach" => match Client::attach(words[1]) {
                Ok(attached) => {
                    client = Some(attached);
                    "done".to_string()
                }
                Err(error) => error.to_string(),
            },
            "write" => {
                write_page(attached(), number(1), number(2));
                "done".into()
            }
            "read" => version_of(attached(), number(1)).to_string(),
            "flush" => format!("{:?}", attached().flush()),
            "commands" => attached().statistics().driver.commands().to_string(),
            "hold" => {
                let pages = number(1)..number(2);
                let guards = attached().pin(pages, Intent::Write).unwrap();
                println!("{ANSWER}held");
                std::thread::park();
                drop(guards);
                unreachable!("it is killed");
            }
            "write-for-ever" => {
                println!("{ANSWER}begun");
                write_for_ever(attached(), number(1), number(2))
            }
            "scribble" => {
                let scribbler = hostile::Scribbler::attach(words[1], SCRIBBLED);
                println!("{ANSWER}begun");
                scribbler.run(number(2), u64::MAX);
                unreachable!("it is killed before")
            }
            "close" => format!("{:?}", client.take().unwrap().close()),
            other => panic!("unknown: {other}"),
        };
        println!("{ANSWER}{answer}");
    }
}

struct Shared {
    store: Store<Scala>,
    _folder: tempfile::TempDir,
    path: std::path::PathBuf,
}

/// A store with `guests` slots that is shared.
fn shared(guests: u32) -> Shared {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let options = StoreOptions::memory(16 << 20).unwrap();
    let options = options.cache_bytes(1 << 20).guests(guests);
    let store = Store::open(&options).unwrap();
    store.share(&path).unwrap();
    Shared {
        store,
        _folder: folder,
        path,
    }
}

#[test]
fn two_processes_use_one_store() {
    let shared = shared(1);
    let client = shared.store.client().unwrap();
    let mut second = Second::attached(&shared.path);
    let mut model = vec![0u64; 700];
    let mut state = 1u64;
    for page in 0..700 {
        write_page(&client, page, 0);
    }
    for version in 1..2000u64 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(99);
        let page = (state >> 33) % 700;
        match state >> 20 & 3 {
            0 => {
                write_page(&client, page, version);
                model[page as usize] = version;
            }
            1 => {
                assert_eq!(second.ask(&format!("write {page} {version}")), "done");
                model[page as usize] = version;
            }
            2 => assert_eq!(version_of(&client, page), model[page as usize]),
            _ => {
                let found = second.ask(&format!("read {page}"));
                assert_eq!(found, model[page as usize].to_string(), "page {page}");
            }
        }
        if version % 500 == 0 {
            assert_eq!(second.ask("flush"), "Ok(())");
        }
    }
    assert_eq!(second.ask("close"), "Ok(())");
    second.end();
    client.close().unwrap();
    // It would fail if a reference had been left.
    shared.store.close().unwrap();
}

#[test]
fn a_page_of_two_processes_is_in_one_frame() {
    let shared = shared(1);
    let client = shared.store.client().unwrap();
    let mut second = Second::attached(&shared.path);
    write_page(&client, 5, 1);
    assert_eq!(second.ask("read 5"), "1");
    let commands = second.ask("commands");
    // No command and no message goes between: what one writes the other sees.
    for version in 2..50 {
        write_page(&client, 5, version);
        assert_eq!(second.ask("read 5"), version.to_string());
        second.ask(&format!("write 5 {}", version + 1000));
        assert_eq!(version_of(&client, 5), version + 1000);
    }
    assert_eq!(second.ask("commands"), commands);
    second.end();
    client.close().unwrap();
    shared.store.close().unwrap();
}

#[test]
fn a_flush_of_one_process_covers_the_others_pages() {
    let folder = tempfile::tempdir().unwrap();
    let (file, path) = (folder.path().join("store"), folder.path().join("socket"));
    let copy = folder.path().join("copy");
    let options = StoreOptions::file(&file, 16 << 20).unwrap();
    let store = Store::<Scala>::open(&options.clone().guests(1)).unwrap();
    store.share(&path).unwrap();
    let client = store.client().unwrap();
    let mut second = Second::attached(&path);
    for page in 0..20 {
        assert_eq!(second.ask(&format!("write {page} 7")), "done");
    }
    client.flush().unwrap();
    write_page(&client, 100, 8);
    assert_eq!(second.ask("flush"), "Ok(())");
    // The file as a crash would leave it now.
    std::fs::copy(&file, &copy).unwrap();
    second.kill();
    client.close().unwrap();
    store.close().unwrap();
    let options = StoreOptions::file(&copy, 16 << 20).unwrap();
    let client = Client::<Scala>::open_local(&options).unwrap();
    for page in 0..20 {
        assert_eq!(version_of(&client, page), 7);
    }
    assert_eq!(version_of(&client, 100), 8);
}

#[test]
fn a_guest_that_is_killed_with_pages_in_its_hands_leaves_nothing_held() {
    let shared = shared(1);
    let client = shared.store.client().unwrap();
    for page in 0..64 {
        write_page(&client, page, 1);
    }
    for _ in 0..3 {
        let mut second = Second::attached(&shared.path);
        second.ask("write 3 2");
        assert_eq!(second.ask("hold 0 8"), "held");
        assert!(
            client.try_pin(3, Intent::Write).is_none(),
            "it is being written"
        );
        second.kill();
        // The words that it had are free, what it wrote is there.
        for page in 0..8 {
            let expected = if page == 3 { 2 } else { 1 };
            assert_eq!(version_of(&client, page), expected);
            write_page(&client, page, 1);
        }
        assert_eq!(client.pin(0..8, Intent::Write).unwrap().len(), 8);
    }
    client.close().unwrap();
    shared.store.close().unwrap();
}

#[test]
fn a_guest_that_is_killed_while_it_writes_harms_no_other_page() {
    let shared = shared(1);
    let client = shared.store.client().unwrap();
    let pages = 300;
    for page in 0..pages {
        write_page(&client, page, 1);
    }
    let mut data = [0; 4096];
    for round in 1..=5u64 {
        let mut second = Second::attached(&shared.path);
        assert_eq!(
            second.ask(&format!("write-for-ever {pages} {}", round * 7919)),
            "begun"
        );
        // Meanwhile the owner reads: whole pages, old or new.
        for step in 0..round * 10 {
            version_of(&client, (step * 37 + round) % pages);
        }
        second.kill();
        for page in 0..pages {
            // The page that it was copying to may be of two versions, as in a file that is mapped.
            client.read_at(page * 4096, &mut data).unwrap();
            assert!(versions(page, &data).len() <= 2, "page {page}");
            write_page(&client, page, round);
        }
    }
    client.close().unwrap();
    shared.store.close().unwrap();
}

#[test]
fn a_hostile_guest_harms_nobody_but_itself() {
    let shared = shared(2);
    let client = shared.store.client().unwrap();
    for round in 1..=2u64 {
        let mut hostile = Second::start();
        let line = format!("scribble {} {}", shared.path.display(), round * 104_729);
        assert_eq!(hostile.ask(&line), "begun");
        let mut second = Second::attached(&shared.path);
        for page in 0..300 {
            write_page(&client, page, round);
            assert_eq!(
                second.ask(&format!("write {} {round}", page + 1000)),
                "done"
            );
        }
        for page in (0..300).rev() {
            assert_eq!(version_of(&client, page), round);
            assert_eq!(
                second.ask(&format!("read {}", page + 1000)),
                round.to_string()
            );
        }
        hostile.kill();
        second.end();
    }
    client.flush().unwrap();
    client.close().unwrap();
    shared.store.close().unwrap();
}

#[test]
fn slots_are_taken_one_after_the_other() {
    let shared = shared(2);
    let mut first = Second::attached(&shared.path);
    let second = Second::attached(&shared.path);
    let refused = Client::<Scala>::attach(&shared.path);
    assert!(matches!(
        refused,
        Err(StoreError::NoSlotLeft { guests: 2, .. })
    ));
    assert_eq!(first.ask("write 1 1"), "done");
    assert_eq!(first.ask("close"), "Ok(())");
    // Attached in the owner's own process, for once: that changes nothing.
    let third = Client::<Scala>::attach(&shared.path).unwrap();
    assert_eq!(version_of(&third, 1), 1);
    drop(third);
    second.kill();
    first.end();
    assert!(Client::<Scala>::attach(&shared.path).is_ok());
    shared.store.close().unwrap();
    let gone = Client::<Scala>::attach(&shared.path);
    assert!(matches!(gone, Err(StoreError::Unreachable { .. })));
}

#[test]
fn a_store_that_is_closed_cuts_its_guests_off_and_says_so() {
    let shared = shared(1);
    let mut second = Second::attached(&shared.path);
    assert_eq!(second.ask("write 1 1"), "done");
    assert!(matches!(shared.store.close(), Err(StoreError::ClientsLeft)));
    second.kill();
}

#[test]
fn a_guest_that_asked_for_the_drives_and_left_is_gone() {
    let shared = shared(1);
    let mut guest = UnixStream::connect(&shared.path).unwrap();
    guest
        .write_all(&hostile::raw::ask(1, 0, [0; 16], 0))
        .unwrap();
    assert!(guest.read(&mut [0; 4096]).unwrap() > 0, "it is let in");
    // More than the listener reads at a time.
    guest.write_all(&[1; 50_000]).unwrap();
    drop(guest);
    shared.store.close().unwrap();
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let options = StoreOptions::memory(4 << 20).unwrap();
    let store = Store::<Scala>::open(&options).unwrap();
    let refused = store.share(&path).unwrap_err();
    assert!(
        refused.to_string().contains("StoreOptions::guests"),
        "{refused}"
    );
    store.close().unwrap();
    let store = Store::<Scala>::open(&options.clone().guests(1)).unwrap();
    let nowhere = store.share(folder.path().join("no/such/folder"));
    assert!(matches!(nowhere, Err(StoreError::CannotListen { .. })));
    // A socket that a dead owner has left is no hindrance.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    store.share(&path).unwrap();
    assert!(matches!(
        store.share(&path),
        Err(StoreError::NotShareable { .. })
    ));
    store.close().unwrap();
    let many = Store::<Clock>::open(&options.guests(63));
    assert!(matches!(
        many,
        Err(StoreError::TooManyGuests { guests: 63, .. })
    ));
}

#[test]
fn a_guest_keeps_to_its_share() {
    let shared = shared(1);
    let client = Client::<Scala>::attach(&shared.path).unwrap();
    // Half of 256 frames.
    let held = client.pin(0..128, Intent::Read).unwrap();
    assert!(matches!(
        client.pin(128..129, Intent::Read),
        Err(IoError::NoRoom { .. })
    ));
    drop(held);
    client.close().unwrap();
    shared.store.close().unwrap();
}
