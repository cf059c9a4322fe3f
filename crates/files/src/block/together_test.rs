//! Several tasks at the same files and names, on media that make everybody wait.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;

use wharf_runtime::Seed;

use super::Wfs;
use super::tasks_test::{Slow, run_all, run_one};
use super::testing::{assert_sound, made};
use crate::errno::Fault;
use crate::pages::{PAGE_BYTES, Pages, RamPages, Run};
use crate::{
    Allocate, By, Caller, Content, Entry, Errno, FileError, FileSystem, In, LIST_START, New, Out,
    Owner, Remove, Rename, Sync, Write,
};

type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A directory, and a name there.
type Place = (u64, &'static [u8]);

/// A user of a file system, whose names are one byte or a few.
struct User<'a, P> {
    fs: &'a Wfs<P>,
    caller: Caller,
}

impl<'a, P: Pages> User<'a, P> {
    fn new(fs: &'a Wfs<P>) -> User<'a, P> {
        let caller = Caller::root();
        User { fs, caller }
    }

    fn by(&self) -> By<'_> {
        By {
            caller: &self.caller,
            now_ns: 9,
        }
    }

    async fn make(
        &self,
        directory: u64,
        name: &[u8],
        content: Content<'_>,
    ) -> Result<u64, FileError> {
        let new = New {
            content,
            mode: 0o755,
            owner: Owner { uid: 0, gid: 0 },
            is_open: false,
        };
        let made = self.fs.create(self.by(), Entry::new(directory, name), new);
        made.await.map(|made| made.number)
    }

    async fn write(&self, number: u64, write: Write, data: &[u8]) -> Result<u64, FileError> {
        let done = self.fs.write(self.by(), number, write, In::from(data));
        done.await.map(|done| done.bytes)
    }

    async fn read(&self, number: u64, offset: u64, bytes: usize) -> Result<Vec<u8>, FileError> {
        let mut out = vec![0; bytes];
        let read = self.fs.read(number, offset, Out::from(&mut out), 9).await?;
        out.truncate(read as usize);
        Ok(out)
    }

    async fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8])) -> Result<(), FileError> {
        let (from, to) = (Entry::new(from.0, from.1), Entry::new(to.0, to.1));
        self.fs.rename(self.by(), from, to, Rename::Replace).await
    }
}

fn errno<T>(done: &Result<T, FileError>) -> Option<Errno> {
    done.as_ref().err().map(FileError::errno)
}

/// Runs tasks on a new file system, for some seeds, and checks what they leave.
fn together(tasks: impl for<'a> Fn(&'a Wfs<&'a Slow<'a>>, Seed) -> Vec<Task<'a>>) {
    for seed in 0..6 {
        println!("seed {seed}");
        let medium = made(4000);
        let slow = Slow {
            medium: &medium,
            rng: RefCell::new(Seed(seed).child("slow").rng()),
        };
        let wfs = run_one(Wfs::open(&slow, 30 * PAGE_BYTES)).unwrap().0;
        run_all(tasks(&wfs, Seed(seed)));
        drop(wfs);
        assert_sound(&medium, &format!("seed {seed}"));
    }
}

/// A reader waited for all writes that had come before it.
#[test]
fn a_read_waits_for_one_write_of_the_file_and_not_for_all_that_are_to_come() {
    together(|wfs, _| {
        let user = User::new(wfs);
        let number = run_one(user.make(1, b"f", Content::File)).unwrap();
        assert_eq!(
            run_one(user.write(number, Write::at(0), &[9; 4096])),
            Ok(4096)
        );
        let written = std::rc::Rc::new(Cell::new(0));
        let mut tasks: Vec<Task<'_>> = Vec::new();
        for who in 1..=16u8 {
            let written = written.clone();
            tasks.push(Box::pin(async move {
                let (user, data) = (User::new(wfs), [who; 4096]);
                let done = user.write(number, Write::at(0), &data).await;
                assert_eq!(done, Ok(4096));
                written.set(written.get() + 1);
            }));
        }
        tasks.push(Box::pin(async move {
            let found = User::new(wfs).read(number, 0, 4096).await.unwrap();
            assert!(found.iter().all(|byte| *byte == found[0]), "one write's");
            assert!(written.get() <= 2, "{} writes came before", written.get());
        }));
        tasks
    });
}

#[test]
fn appends_of_four_tasks_are_all_there_and_whole() {
    together(|wfs, _| {
        let number = run_one(User::new(wfs).make(1, b"log", Content::File)).unwrap();
        let left = std::rc::Rc::new(Cell::new(4));
        let each = (1..=4u8).map(|who| {
            let left = left.clone();
            Box::pin(async move {
                let user = User::new(wfs);
                for _ in 0..25 {
                    let line = [who; 300];
                    let done = user.write(number, Write::at_end(), &line).await;
                    assert_eq!(done, Ok(300));
                }
                left.set(left.get() - 1);
                if left.get() == 0 {
                    let all = user.read(number, 0, 40_000).await.unwrap();
                    assert_eq!(all.len(), 4 * 25 * 300);
                    for who in 1..=4 {
                        let lines = all.chunks(300).filter(|line| **line == [who; 300]);
                        assert_eq!(lines.count(), 25, "nothing is lost or mixed");
                    }
                }
            }) as Task<'_>
        });
        each.collect()
    });
}

#[test]
fn what_is_cut_and_punched_while_others_write_never_shows_bytes_of_another_file() {
    together(|wfs, seed| {
        let user = User::new(wfs);
        let names: [&[u8]; 3] = [b"a", b"b", b"c"];
        let numbers = names.map(|name| run_one(user.make(1, name, Content::File)).unwrap());
        let task = |who: u64| {
            let mut rng = seed.child("cut").index(who).rng();
            Box::pin(async move {
                let user = User::new(wfs);
                for _ in 0..60 {
                    let nth = rng.below(3) as usize;
                    let (number, mark) = (numbers[nth], nth as u8 + 1);
                    let at = rng.below(20 * 4096);
                    match rng.below(6) {
                        0 => user.fs.truncate(user.by(), number, at).await.unwrap(),
                        1 => {
                            let what = Allocate::Punch;
                            let done = user.fs.allocate(user.by(), number, at, 9000, what);
                            done.await.unwrap();
                        }
                        2 => user.fs.sync(number, Sync::All).await.unwrap(),
                        3 => {
                            let read = user.read(number, at, 20_000).await.unwrap();
                            let is_own = |byte: &u8| [0, mark].contains(byte);
                            assert!(read.iter().all(is_own), "{seed:?}: bytes of another");
                        }
                        _ => {
                            let data = vec![mark; 1 + rng.below(12_000) as usize];
                            let done = user.write(number, Write::at(at), &data).await;
                            assert_eq!(done, Ok(data.len() as u64));
                        }
                    }
                }
            }) as Task<'_>
        };
        (0..4).map(task).collect()
    });
}

#[test]
fn renames_against_each_other_lose_no_directory_and_make_no_circle() {
    together(|wfs, seed| {
        let user = User::new(wfs);
        let a = run_one(user.make(1, b"a", Content::Directory)).unwrap();
        let b = run_one(user.make(1, b"b", Content::Directory)).unwrap();
        let task = |(from, to): (Place, Place)| {
            Box::pin(async move {
                let user = User::new(wfs);
                for _ in 0..30 {
                    let done = user.rename(from, to).await;
                    let allowed = [None, Some(Errno::ENOENT), Some(Errno::EINVAL)];
                    let found = errno(&done);
                    assert!(allowed.contains(&found), "{seed:?}: {found:?}");
                    let _ = user.rename(to, from).await;
                }
            }) as Task<'_>
        };
        let ways: [(Place, Place); 4] = [
            ((1, b"a"), (b, b"x")),
            ((1, b"b"), (a, b"y")),
            ((1, b"a"), (1, b"c")),
            ((1, b"c"), (b, b"z")),
        ];
        ways.into_iter().map(task).collect()
    });
}

#[test]
fn directories_go_or_get_entries_and_files_are_open_or_gone() {
    together(|wfs, seed| {
        let task = |who: u64| {
            let mut rng = seed.child("rmdir").index(who).rng();
            Box::pin(async move {
                let user = User::new(wfs);
                for _ in 0..40 {
                    let name = [b'a' + rng.below(2) as u8];
                    let directory = wfs.lookup(1, &name).await.map(|found| found.number);
                    match rng.below(5) {
                        0 => _ = user.make(1, &name, Content::Directory).await,
                        1 => {
                            let entry = Entry::new(1, &name);
                            let _ = wfs.remove(user.by(), entry, Remove::Directory).await;
                        }
                        2 => {
                            let Ok(directory) = directory else { continue };
                            let done = user.make(directory, b"f", Content::File).await;
                            let allowed = [None, Some(Errno::EEXIST), Some(Errno::ENOENT)];
                            let gone = Some(Errno::ESTALE);
                            let found = errno(&done);
                            assert!(allowed.contains(&found) || found == gone, "{found:?}");
                        }
                        3 => {
                            let Ok(directory) = directory else { continue };
                            let entry = Entry::new(directory, b"f");
                            let _ = wfs.remove(user.by(), entry, Remove::Name).await;
                        }
                        _ => {
                            let Ok(directory) = directory else { continue };
                            let Ok(file) = wfs.lookup(directory, b"f").await else {
                                continue;
                            };
                            if wfs.open(file.number).await.is_err() {
                                continue;
                            }
                            // What is open stays, with its bytes, whoever takes its name.
                            let data = [who as u8; 5000];
                            let done = user.write(file.number, Write::at(0), &data).await;
                            assert_eq!(done, Ok(5000), "{seed:?}");
                            wfs.close(file.number).await.unwrap();
                        }
                    }
                }
            }) as Task<'_>
        };
        (0..4).map(task).collect()
    });
}

#[test]
fn a_listing_has_once_what_stays_while_other_names_come_and_go() {
    together(|wfs, seed| {
        let user = User::new(wfs);
        for nth in 0..60 {
            let name = format!("stays {nth}");
            run_one(user.make(1, name.as_bytes(), Content::File)).unwrap();
        }
        let change = Box::pin(async move {
            let user = User::new(wfs);
            for nth in 0..120 {
                let name = format!("goes {}", nth % 40);
                let made = user.make(1, name.as_bytes(), Content::File).await;
                if errno(&made) == Some(Errno::EEXIST) {
                    let entry = Entry::new(1, name.as_bytes());
                    wfs.remove(user.by(), entry, Remove::Name).await.unwrap();
                }
            }
        }) as Task<'_>;
        let list = Box::pin(async move {
            for _ in 0..6 {
                let (mut entries, mut cookie) = (Vec::new(), LIST_START);
                while !wfs.list(1, cookie, 5, &mut entries).await.unwrap() {
                    cookie = entries.last().unwrap().cookie;
                }
                let mut names: Vec<&[u8]> = entries.iter().map(|e| &e.name[..]).collect();
                names.sort_unstable();
                assert!(names.windows(2).all(|two| two[0] != two[1]), "{seed:?}");
                let stays = names.iter().filter(|name| name.starts_with(b"stays"));
                assert_eq!(stays.count(), 60, "{seed:?}");
            }
        }) as Task<'_>;
        vec![change, list]
    });
}

/// Counts flushes.
struct Counting<'a> {
    slow: Slow<'a>,
    flushes: Cell<u32>,
}

impl Pages for Counting<'_> {
    fn pages(&self) -> u64 {
        self.slow.pages()
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        self.slow.read(runs, buffer).await
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        self.slow.write(runs, bytes).await
    }

    async fn flush(&self) -> Result<(), Fault> {
        self.flushes.set(self.flushes.get() + 1);
        self.slow.flush().await
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        self.slow.discard(runs).await
    }
}

#[test]
fn many_who_sync_share_a_commit() {
    let medium: RamPages = made(4000);
    let counting = Counting {
        slow: Slow {
            medium: &medium,
            rng: RefCell::new(Seed(1).rng()),
        },
        flushes: Cell::new(0),
    };
    let wfs = &run_one(Wfs::open(&counting, 1 << 20)).unwrap().0;
    let before = counting.flushes.get();
    let tasks = (0..16u8).map(|who| {
        Box::pin(async move {
            let user = User::new(wfs);
            let number = user.make(1, &[b'a' + who], Content::File).await.unwrap();
            for _ in 0..10 {
                user.write(number, Write::at_end(), &[who; 100])
                    .await
                    .unwrap();
                wfs.sync(number, Sync::All).await.unwrap();
            }
        }) as Task<'_>
    });
    run_all(tasks.collect());
    // A commit flushes twice, and 160 were asked for.
    let flushes = counting.flushes.get() - before;
    assert!(flushes < 160, "{flushes} flushes");
}

/// Media that count the writes of files' bytes.
struct Counted<'a> {
    slow: &'a Slow<'a>,
    writes: Cell<u32>,
}

impl Pages for &Counted<'_> {
    fn pages(&self) -> u64 {
        self.slow.pages()
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        self.slow.read(runs, buffer).await
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        self.slow.write(runs, bytes).await
    }

    async fn write_bytes(&self, runs: &[Run], data: In<'_>) -> Result<(), Fault> {
        self.writes.set(self.writes.get() + 1);
        self.slow.write(runs, data.memory()?).await
    }

    async fn flush(&self) -> Result<(), Fault> {
        self.slow.flush().await
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        self.slow.discard(runs).await
    }
}

/// Inodes and pages of different files lie in the same pages of metadata: those who wait for the media amid a
/// write began all of it again for each other one that ended meanwhile.
#[test]
fn writers_of_different_files_do_not_do_their_work_again() {
    const FILES: u8 = 12;
    const ROUNDS: u64 = 5;
    let medium = made(4000);
    let slow = Slow {
        medium: &medium,
        rng: RefCell::new(Seed(1).child("slow").rng()),
    };
    let counted = Counted {
        slow: &slow,
        writes: Cell::new(0),
    };
    let wfs = run_one(Wfs::open(&counted, 64 * PAGE_BYTES)).unwrap().0;
    let user = User::new(&wfs);
    let files: Vec<u64> = (0..FILES)
        .map(|name| run_one(user.make(wfs.root(), &[b'a' + name], Content::File)).unwrap())
        .collect();
    let write = async |number: u64| {
        for round in 0..ROUNDS {
            let data = vec![number as u8; PAGE_BYTES];
            let at = Write::at(round * PAGE_BYTES as u64);
            assert_eq!(user.write(number, at, &data).await, Ok(4096));
        }
    };
    let tasks = files
        .iter()
        .map(|number| Box::pin(write(*number)) as Task<'_>);
    run_all(tasks.collect());
    assert_eq!(counted.writes.get(), u32::from(FILES) * ROUNDS as u32);
    for number in &files {
        let all = run_one(user.read(*number, 0, 1 << 20)).unwrap();
        assert!(all.len() == 5 * PAGE_BYTES && all.iter().all(|byte| *byte == *number as u8));
    }
    run_one(wfs.settle()).unwrap();
    assert_sound(&medium, "after writers");
}
