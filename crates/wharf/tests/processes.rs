//! Many processes at one drive: each that stands for one has its own way to it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};

use wharf::files::{FileDrive, NewImage, OpenFlags, Server, attach_in_time, make, now_ns};
use wharf_files::vfs::{At, Opened, Service};
use wharf_files::{By, Caller, Handle, Place, Sync, block_on};

/// An image that is served.
struct Served {
    place: tempfile::TempDir,
    server: Server,
}

impl Served {
    fn new(processes: u32) -> Served {
        let place = tempfile::tempdir().unwrap();
        let image = place.path().join("drive.img");
        make(&image, &NewImage::of_bytes(64 << 20)).unwrap();
        let server = Server::open(&image, place.path().join("s"), processes).unwrap();
        Served { place, server }
    }

    fn socket(&self) -> PathBuf {
        self.place.path().join("s")
    }

    fn end(self) {
        self.server.close().unwrap();
        let checked = wharf::files::check(&self.place.path().join("drive.img")).unwrap();
        assert!(checked.is_sound());
    }
}

/// What stands for a process.
struct Process(FileDrive);

static ROOT: Caller = Caller {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};

impl Process {
    /// One that waits for a place if there is none.
    fn attach(socket: &Path) -> Process {
        let attach = || FileDrive::attach_cached(socket, 1 << 16);
        Process(attach_in_time(attach).unwrap())
    }

    fn open(&self, path: &str, flags: OpenFlags) -> Option<Handle> {
        let now = By {
            caller: &ROOT,
            now_ns: now_ns(),
        };
        let opened = self.0.open(now, At::from(path.as_bytes()), flags, 0o644);
        block_on(opened).ok().map(|Opened { handle, .. }| handle)
    }

    /// Writes a file of `number`'s, in several steps, and has it made durable.
    fn write_own(&self, number: usize) {
        let file = self.open(&name(number), OpenFlags::CREATE).unwrap();
        let bytes = contents(number);
        for (index, part) in bytes.chunks(1000).enumerate() {
            let at = Place::At(1000 * index as u64);
            let written = block_on(self.0.write(now_ns(), file, at, part)).unwrap();
            assert_eq!(written.bytes, part.len() as u64);
        }
        block_on(self.0.sync(file, Sync::All)).unwrap();
        block_on(self.0.close(file)).unwrap();
    }

    /// Reads a file of `number`'s, which is there.
    fn check(&self, number: usize) {
        let file = self.open(&name(number), OpenFlags::READ).unwrap();
        let mut found = vec![0; 8192];
        let read = block_on(self.0.read(now_ns(), file, 0, &mut found)).unwrap();
        assert!(found[..read as usize] == contents(number), "of {number}");
        block_on(self.0.close(file)).unwrap();
    }
}

fn name(number: usize) -> String {
    format!("/{number}")
}

fn contents(number: usize) -> Vec<u8> {
    let bytes = 1000 + number * 37 % 5000;
    (0..bytes).map(|at| (number * 31 + at * 7) as u8).collect()
}

/// Does `job` for each number on as many threads as there are numbers of `threads`.
fn on_threads(threads: usize, job: impl Fn(usize) + std::marker::Sync) {
    std::thread::scope(|scope| {
        for number in 0..threads {
            let job = &job;
            scope.spawn(move || job(number));
        }
    });
}

/// Descriptors that this process has.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn hundreds_of_processes_use_a_drive_at_a_time() {
    const PROCESSES: usize = 300;
    const THREADS: usize = 10;
    let served = Served::new(PROCESSES as u32);
    let empty = descriptors();
    let together = Barrier::new(THREADS);
    on_threads(THREADS, |thread| {
        let socket = served.socket();
        let numbers = || (thread..PROCESSES).step_by(THREADS);
        let all: Vec<_> = numbers().map(|_| Process::attach(&socket)).collect();
        together.wait();
        for (process, number) in all.iter().zip(numbers()) {
            process.write_own(number);
        }
        together.wait();
        for (process, number) in all.iter().zip(numbers()) {
            for other in [number, number * 7 + 1, PROCESSES - 1 - number] {
                process.check(other % PROCESSES);
            }
        }
        together.wait();
        // What one changes the others see at once, however seldom they ask.
        if thread == 0 {
            let file = all[0].open("/said", OpenFlags::CREATE).unwrap();
            block_on(all[0].0.write(now_ns(), file, Place::At(0), b"done")).unwrap();
        }
        together.wait();
        assert!(
            all.iter()
                .all(|one| one.open("/said", OpenFlags::READ).is_some())
        );
        for process in all {
            process.0.end().unwrap();
        }
    });
    // Of who has left nothing is kept: it may take a moment until that is noticed.
    let last = Process::attach(&served.socket());
    last.check(PROCESSES - 1);
    while descriptors() > empty + 8 {
        std::thread::yield_now();
    }
    drop(last);
    served.end();
}

#[test]
fn more_processes_than_there_are_places_come_and_go() {
    const PROCESSES: usize = 400;
    const THREADS: usize = 40;
    const PLACES: u32 = 12;
    let served = Served::new(PLACES);
    let (next, here, most) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(0));
    on_threads(THREADS, |_| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= PROCESSES {
                return;
            }
            let process = Process::attach(&served.socket());
            let with_me = here.fetch_add(1, Ordering::Relaxed) + 1;
            let mut most = most.lock().unwrap();
            *most = with_me.max(*most);
            drop(most);
            process.write_own(number);
            process.check(number);
            here.fetch_sub(1, Ordering::Relaxed);
            match number % 3 {
                0 => process.0.end().unwrap(),
                _ => drop(process),
            }
        }
    });
    assert!(most.into_inner().unwrap() <= PLACES as usize);
    let last = Process::attach(&served.socket());
    (0..PROCESSES).for_each(|number| last.check(number));
    drop(last);
    served.end();
}

#[test]
#[allow(clippy::disallowed_methods)] // the thread stands for another process
fn who_opens_a_drive_by_its_socket_waits_for_a_place() {
    let served = Served::new(1);
    let (socket, taken) = (served.socket(), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let first = FileDrive::attach(&socket).unwrap();
            taken.wait();
            // The other one is at it by now, or comes later: either way it gets the place.
            std::thread::sleep(std::time::Duration::from_millis(200));
            drop(first);
        });
        taken.wait();
        let second = wharf::files::open(&socket).unwrap();
        second.end().unwrap();
    });
    served.end();
}
