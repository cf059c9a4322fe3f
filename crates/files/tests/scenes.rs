//! Threads at one file system, in orders that shuttle chooses (`--cfg shuttle`): its inodes, gates, orphans and journal are
//! the real ones, over pages whose every access lets others go first.
//!
//! A failure prints its schedule; `WHARF_SCHEDULE=FILE` replays the one in a file, on the test that has failed.
#![cfg(shuttle)]

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use shuttle::rand::Rng;
use shuttle::thread::{spawn, yield_now};
use wharf_files::block::{Make, Wfs, check, make};
use wharf_files::pages::{Pages, RamPages, Run};
use wharf_files::{
    By, Caller, Content, Entry, Errno, Fault, FileError, FileSystem, In, LIST_START, New, Out,
    Owner, Remove, Rename, Write,
};

/// Orders of each scene, unless `WHARF_ORDERS` says otherwise.
const ORDERS: usize = 2_000;

/// The root directory.
const ROOT: u64 = 1;

/// Pages that let others go first.
struct Slow(RamPages);

impl Pages for Slow {
    fn pages(&self) -> u64 {
        self.0.pages()
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        yield_now();
        self.0.read(runs, buffer).await
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        yield_now();
        self.0.write(runs, bytes).await
    }

    async fn flush(&self) -> Result<(), Fault> {
        yield_now();
        self.0.flush().await
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        yield_now();
        self.0.discard(runs).await
    }
}

/// Runs a future on a thread of a scene; others run while it waits.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => yield_now(),
        }
    }
}

/// A file system, as a thread uses it.
#[derive(Clone)]
struct User {
    fs: Arc<Wfs<Slow>>,
    caller: Caller,
}

impl User {
    fn by(&self) -> By<'_> {
        By {
            caller: &self.caller,
            now_ns: 9,
        }
    }

    fn create(&self, directory: u64, name: &[u8], content: Content<'_>) -> Result<u64, FileError> {
        let new = New {
            content,
            mode: 0o755,
            owner: Owner { uid: 0, gid: 0 },
            is_open: false,
        };
        let made = self.fs.create(self.by(), Entry::new(directory, name), new);
        wait(made).map(|made| made.number)
    }

    fn remove(&self, directory: u64, name: &[u8], what: Remove) -> Result<(), FileError> {
        wait(self.fs.remove(self.by(), Entry::new(directory, name), what))
    }

    fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8])) -> Result<(), FileError> {
        let (from, to) = (Entry::new(from.0, from.1), Entry::new(to.0, to.1));
        wait(self.fs.rename(self.by(), from, to, Rename::Replace))
    }

    fn names(&self, directory: u64) -> Vec<Vec<u8>> {
        let mut entries = Vec::new();
        let listed = self
            .fs
            .list(directory, LIST_START, usize::MAX, &mut entries);
        wait(listed).expect("it is a directory");
        entries.into_iter().map(|entry| entry.name.into()).collect()
    }

    fn free(&self) -> u64 {
        wait(self.fs.stat_fs()).expect("it answers").pages_free
    }
}

/// Plays a scene in many orders: `prepare` on one thread, `threads` beside each other, each with its number, `after` on one
/// thread. Nothing may be wrong with what is on the media then.
fn play<T: Send + Sync + 'static>(
    threads: u64,
    prepare: impl Fn(&User) -> T + Send + Sync + 'static,
    each: impl Fn(&User, &T, u64) + Send + Sync + 'static,
    after: impl Fn(&User, &T) + Send + Sync + 'static,
) {
    let each = Arc::new(each);
    let scene = move || {
        let medium = RamPages::new(600);
        let new = Make {
            file_system: 7,
            hash_key: [1, 2],
            now_ns: 1,
            uid: 0,
            gid: 0,
            mode: 0o755,
        };
        wait(make(&medium, new)).expect("it is made");
        let (fs, _) = wait(Wfs::open(Slow(medium), 64 << 10)).expect("it opens");
        let user = User {
            fs: Arc::new(fs),
            caller: Caller::root(),
        };
        let made = Arc::new(prepare(&user));
        let run = |number| {
            let (user, made, each) = (user.clone(), made.clone(), each.clone());
            spawn(move || each(&user, &made, number))
        };
        for thread in (0..threads).map(run).collect::<Vec<_>>() {
            thread.join().expect("its thread ends well");
        }
        after(&user, &made);
        wait(user.fs.settle()).expect("the media are well");
        let fs = Arc::into_inner(user.fs).expect("nobody else has it");
        let found = wait(check(&fs.into_pages().0)).expect("it can be read");
        assert_eq!(found.findings, Vec::<String>::new());
    };
    let orders = std::env::var("WHARF_ORDERS").ok();
    let orders = orders.map_or(ORDERS, |orders| orders.parse().expect("a number"));
    match std::env::var("WHARF_SCHEDULE") {
        Ok(file) => shuttle::replay_from_file(scene, file),
        Err(_) => shuttle::check_random(scene, orders),
    }
}

fn errno<T>(done: &Result<T, FileError>) -> Option<Errno> {
    done.as_ref().err().map(FileError::errno)
}

/// Who makes a name that is there, or removes one that is not, is told so: names come and go one at a time.
#[test]
fn names_are_made_and_removed_one_at_a_time() {
    use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
    play(
        3,
        |_| AtomicI64::new(0),
        |user, there, _| {
            for _ in 0..3 {
                match user.create(ROOT, b"name", Content::File) {
                    Ok(_) => _ = there.fetch_add(1, SeqCst),
                    other => assert_eq!(errno(&other), Some(Errno::EEXIST)),
                }
                match user.remove(ROOT, b"name", Remove::Name) {
                    Ok(()) => _ = there.fetch_sub(1, SeqCst),
                    other => assert_eq!(errno(&other), Some(Errno::ENOENT)),
                }
            }
        },
        |user, there| assert_eq!(user.names(ROOT).len() as i64, there.load(SeqCst)),
    );
}

/// A file that is removed while it is open has its bytes until it is closed, and nothing of it is left then.
#[test]
fn what_is_removed_while_it_is_open_goes_when_it_is_closed() {
    play(
        3,
        |user| {
            let before = user.free();
            let number = user
                .create(ROOT, b"file", Content::File)
                .expect("there is room");
            (before, number)
        },
        |user, (_, number), thread| {
            let number = *number;
            if thread == 0 {
                return user
                    .remove(ROOT, b"file", Remove::Name)
                    .expect("it is there");
            }
            match wait(user.fs.open(number)) {
                Ok(()) => {}
                // It has gone before.
                other => return assert_eq!(errno(&other), Some(Errno::ESTALE)),
            }
            let (at, data) = (thread * 4096, [thread as u8; 4096]);
            let write = Write::at(at);
            let written = wait(user.fs.write(user.by(), number, write, In::from(&data[..])));
            assert_eq!(written.map(|written| written.bytes), Ok(4096));
            let mut out = [0; 4096];
            let read = wait(user.fs.read(number, at, Out::from(&mut out[..]), 9));
            assert_eq!((read, out), (Ok(4096), data));
            wait(user.fs.close(number)).expect("it was open");
        },
        |user, (before, number)| {
            assert_eq!(user.names(ROOT), Vec::<Vec<u8>>::new());
            assert_eq!(
                errno(&wait(user.fs.attributes(*number))),
                Some(Errno::ESTALE)
            );
            wait(user.fs.sync_all()).expect("the media are well");
            assert_eq!(user.free(), *before, "nothing of it is left");
        },
    );
}

/// Appends are neither lost nor mixed, whoever syncs meanwhile.
#[test]
fn appends_are_all_there_and_whole() {
    play(
        3,
        |user| {
            user.create(ROOT, b"log", Content::File)
                .expect("there is room")
        },
        |user, number, thread| {
            for _ in 0..3 {
                let line = [thread as u8 + 1; 100];
                let write = user
                    .fs
                    .write(user.by(), *number, Write::at_end(), In::from(&line[..]));
                assert_eq!(wait(write).map(|written| written.bytes), Ok(100));
            }
            wait(user.fs.sync(*number, wharf_files::Sync::All)).expect("the media are well");
        },
        |user, number| {
            let mut all = vec![0; 1000];
            let read = wait(user.fs.read(*number, 0, Out::from(&mut all[..]), 9));
            assert_eq!(read, Ok(900));
            for thread in 1..=3 {
                let lines = all[..900]
                    .chunks(100)
                    .filter(|line| **line == [thread; 100]);
                assert_eq!(lines.count(), 3);
            }
        },
    );
}

/// Directories that are moved into each other, and removed, leave a tree, and nobody waits in a circle.
#[test]
fn directories_that_are_moved_crosswise_stay_a_tree() {
    play(
        3,
        |user| {
            [&b"a"[..], b"b"].map(|name| user.create(ROOT, name, Content::Directory).expect("room"))
        },
        |user, [a, b], thread| match thread {
            0 => drop(user.rename((ROOT, b"a"), (*b, b"a"))),
            1 => drop(user.rename((ROOT, b"b"), (*a, b"b"))),
            _ => drop(user.remove(ROOT, b"a", Remove::Directory)),
        },
        |user, [a, b]| {
            let root = user.names(ROOT).len();
            let inside = [a, b].map(|directory| match wait(user.fs.attributes(*directory)) {
                Ok(_) => user.names(*directory).len(),
                Err(_) => 0,
            });
            // Either one moved into the other, or one was removed and the other stays.
            assert_eq!(root, 1, "{inside:?}");
            assert!(inside.iter().sum::<usize>() <= 1);
        },
    );
}

/// A listing shows no name twice, and each that is there throughout.
#[test]
fn a_listing_has_each_name_once_while_others_come_and_go() {
    play(
        3,
        |user| {
            for name in 0..4_u8 {
                user.create(ROOT, &[b's', b'0' + name], Content::File)
                    .expect("room");
            }
        },
        |user, (), thread| match thread {
            0 => {
                for _ in 0..3 {
                    let mut names = user.names(ROOT);
                    let stay = names.iter().filter(|name| name[0] == b's').count();
                    assert_eq!(stay, 4);
                    let all = names.len();
                    names.sort();
                    names.dedup();
                    assert_eq!(names.len(), all);
                }
            }
            _ => {
                let name = [
                    b'g',
                    b'0' + thread as u8,
                    shuttle::rand::thread_rng().r#gen(),
                ];
                // Zero and the slash are in no name.
                let name = name.map(|byte| if matches!(byte, 0 | b'/') { b'x' } else { byte });
                for _ in 0..2 {
                    user.create(ROOT, &name, Content::File)
                        .expect("its own name");
                    user.remove(ROOT, &name, Remove::Name).expect("it is there");
                }
            }
        },
        |user, ()| assert_eq!(user.names(ROOT).len(), 4),
    );
}
