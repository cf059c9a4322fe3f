//! Short scenes with few pages and small caches, in many orders: threads read, write, cut, punch and sync the same file while its pages are
//! pushed from one cache to the other and out of both.
//!
//! In virtual time these caches have no threads of the system's: they are tasks, which meet wherever one waits. So what there is to be
//! explored are orders of waits. Tasks wait for random times between steps, and events at the same time come in the order of a seed. The
//! words that threads change in real time are checked by loom where they are (`host/stor/cache/near/index/`, `host/scale/frame_word/`, `wire/window/`).
//!
//! The oracle: a page has a part for each task, which that one alone writes, with values that are all different. What takes bytes away is a
//! write of zeros to parts of all. A read may find what was written last before it began, or anything that was under way since.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use wharf_files::{Handle, OpenFlags};
use wharf_host::files::FileClient;
use wharf_host::span::Extent;
use wharf_host::stor::{CacheMode, Eviction, Placement, ReadFill, Stor, StorConfig, StorFiles};
use wharf_host::{Design, DesignConfig};
use wharf_runtime::{CostTable, Cpu, Rng, Seed};
use wharf_wire::dma::{DmaSpace, PAGE_BYTES};

use crate::machine::{OneClient, new_drive, run_as};

const PAGE: u64 = PAGE_BYTES as u64;

const THREADS: u32 = 2;
const TASKS: u32 = 2;

const PAGES: u64 = 9;

/// Bytes of each page that a task alone writes.
const PART: u64 = 800;

/// Steps of a task, between which all of them rest several times.
const ACTS: u32 = 3;
const STEPS: u32 = 14;

/// After so long nobody has a page on its way.
const REST_NS: u64 = 100_000_000;

/// A write of a value, or of zeros, to a part of a page.
#[derive(Debug, Clone, Copy)]
struct Write {
    value: u32,
    begun: u64,
    /// Never, until it has.
    ended: u64,
}

/// What was written to each part of each page.
struct Parts {
    writes: Vec<Vec<Write>>,
    now: u64,
}

/// A part: whose, and of which page.
type Part = (u32, u64);

impl Parts {
    fn new() -> Parts {
        let zeros = Write {
            value: 0,
            begun: 0,
            ended: 0,
        };
        Parts {
            writes: vec![vec![zeros]; (THREADS * TASKS) as usize * PAGES as usize],
            now: 0,
        }
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn of(&mut self, (task, page): Part) -> &mut Vec<Write> {
        &mut self.writes[(u64::from(task) * PAGES + page) as usize]
    }

    /// Begins a write; gives when.
    fn begin(&mut self, parts: &[Part], value: u32) -> u64 {
        let begun = self.tick();
        let write = Write {
            value,
            begun,
            ended: u64::MAX,
        };
        parts.iter().for_each(|part| self.of(*part).push(write));
        begun
    }

    fn end(&mut self, parts: &[Part], begun: u64) {
        let ended = self.tick();
        for part in parts {
            let writes = self.of(*part).iter_mut();
            let own = writes.filter(|write| write.begun == begun);
            own.for_each(|write| write.ended = ended);
        }
    }

    /// Whether one who began to read a part then may have found a value by now.
    fn may_be(&mut self, part: Part, begun: u64, value: u32) -> bool {
        let writes = self.of(part);
        let last = |write: &Write| {
            let is_over = |other: &&Write| other.begun > write.ended && other.ended < begun;
            writes.iter().find(is_over).is_none()
        };
        writes
            .iter()
            .any(|write| write.value == value && last(write))
    }
}

struct Player {
    files: Rc<StorFiles>,
    handle: Handle,
    cpu: Cpu,
    task: u32,
    parts: Arc<Mutex<Parts>>,
    rng: Rng,
    values: u32,
    about: String,
}

impl Player {
    fn parts<R>(&self, f: impl FnOnce(&mut Parts) -> R) -> R {
        f(&mut self.parts.lock().expect("no holder panics"))
    }

    fn extent(&self, (task, page): Part) -> Extent {
        Extent::new(page * PAGE + u64::from(task) * PART, PART)
    }

    async fn write(&mut self, page: u64) {
        self.values += 1;
        let (part, value) = ((self.task, page), self.values);
        let data = value.to_le_bytes().repeat(PART as usize / 4);
        let begun = self.parts(|parts| parts.begin(&[part], value));
        let written = self.files.write_at(self.handle, self.extent(part), &data);
        written.await.expect("it is written");
        self.parts(|parts| parts.end(&[part], begun));
    }

    async fn read(&self, part: Part) {
        let begun = self.parts(Parts::tick);
        let mut out = vec![0; PART as usize];
        let read = self.files.read_at(self.handle, self.extent(part), &mut out);
        let bytes = read.await.expect("it is read").bytes as usize;
        // Behind the end of the file there is nothing, as there are zeros in a hole.
        out[bytes..].fill(0);
        for word in out.as_chunks::<4>().0 {
            let value = u32::from_le_bytes(*word);
            let may = self.parts(|parts| parts.may_be(part, begun, value));
            let writes = self.parts(|parts| parts.of(part).clone());
            assert!(may, "{}: {value} in {part:?}: {writes:?}", self.about);
        }
    }

    /// Takes bytes away: those behind the begin of a part, or a page.
    async fn take(&mut self, page: u64, is_cut: bool) {
        let tasks = THREADS * TASKS;
        let all = |task| (0..PAGES).map(move |page| (task, page));
        let at = page * PAGE + self.rng.below(u64::from(tasks)) * PART;
        let is_gone = |part: &Part| match is_cut {
            true => self.extent(*part).offset >= at,
            false => part.1 == page,
        };
        let parts: Vec<Part> = (0..tasks).flat_map(all).filter(is_gone).collect();
        let begun = self.parts(|all| all.begin(&parts, 0));
        match is_cut {
            true => self.files.set_len(self.handle, at).await,
            false => {
                let punched = self.files.punch(self.handle, Extent::of_pages(page, 1));
                punched.await
            }
        }
        .expect("they are taken away");
        self.parts(|all| all.end(&parts, begun));
    }

    async fn step(&mut self) {
        match self.rng.below(3) {
            0 => self.cpu.yield_now().await,
            1 => {}
            _ => {
                let ns = self.rng.below(30_000);
                self.cpu.sleep_until(self.cpu.now() + ns).await;
            }
        }
        let page = self.rng.below(PAGES);
        match self.rng.below(20) {
            0 => self.take(page, true).await,
            1 => self.take(page, false).await,
            2..4 => {
                let whole = Extent::new(0, PAGES * PAGE);
                let synced = self.files.sync(self.handle, whole, true);
                synced.await.expect("it is durable");
            }
            4..6 => {
                // In order, so that they come to the host ahead.
                for page in page..PAGES.min(page + 4) {
                    self.read((self.task, page)).await;
                }
            }
            6..12 => {
                let task = self.rng.below((THREADS * TASKS).into()) as u32;
                self.read((task, page)).await;
            }
            _ => self.write(page).await,
        }
    }
}

/// All tasks of all threads come to the same point.
async fn meet(cpu: &Cpu, met: &AtomicU32, turn: u32) {
    met.fetch_add(1, Ordering::Relaxed);
    while met.load(Ordering::Relaxed) < turn * THREADS {
        cpu.sleep_until(cpu.now() + 10_000).await;
        cpu.progress();
    }
}

/// A scene with these caches.
fn scene(seed: u64, own: StorConfig) {
    let config = DesignConfig {
        cache_bytes: 12 * PAGE,
        clients: THREADS,
        ..DesignConfig::default()
    };
    let space = DmaSpace::new(PAGE_BYTES);
    let stor = Arc::new(Stor::new(&config, &own, &space).expect("memory"));
    let parts = Arc::new(Mutex::new(Parts::new()));
    let met = Arc::new(AtomicU32::new(0));
    let is_near = own.cache == CacheMode::Near;
    let order = (CostTable::free(), Seed(seed));
    let script = move |one: OneClient| {
        let files = Rc::new(stor.files_of(one.client, one.index));
        let (cpu, index) = (one.cpu, one.index);
        let (parts, met) = (parts.clone(), met.clone());
        async move {
            let open = async || {
                let opened = files.open(b"/scene", OpenFlags::CREATE, 0o644).await;
                opened.expect("it opens").handle
            };
            let mut players = Vec::new();
            for task in index * TASKS..(index + 1) * TASKS {
                players.push(Player {
                    files: files.clone(),
                    handle: open().await,
                    cpu: cpu.clone(),
                    task,
                    parts: parts.clone(),
                    rng: Seed(seed).child("task").index(task.into()).rng(),
                    values: (task + 1) << 16,
                    about: format!("seed {seed}, task {task}"),
                });
            }
            for act in 0..ACTS {
                meet(&cpu, &met, 2 * act + 1).await;
                players = play(&cpu, players).await;
                meet(&cpu, &met, 2 * act + 2).await;
                cpu.sleep_until(cpu.now() + REST_NS).await;
                if is_near {
                    let both = files.pages_in_both(players[0].handle).await;
                    assert_eq!(both.expect("the drive answers"), 0, "seed {seed}");
                }
            }
            // Whoever has looked at all of it, with and without a cache before the drive, has found the last values.
            meet(&cpu, &met, 2 * ACTS + 1).await;
            for part in
                (0..THREADS * TASKS).flat_map(|task| (0..PAGES).map(move |page| (task, page)))
            {
                players[0].read(part).await;
            }
            for player in &players {
                files.close(player.handle).await.expect("it is open");
            }
            files.sync_all().await.expect("it is durable");
        }
    };
    run_as(order, new_drive(2), &space, THREADS, own, script);
}

/// Has each of them do some steps, side by side.
async fn play(cpu: &Cpu, players: Vec<Player>) -> Vec<Player> {
    let count = players.len();
    let done = Rc::new(Cell::new(Vec::new()));
    for mut player in players {
        let done = done.clone();
        cpu.spawn("task", async move {
            for _ in 0..STEPS {
                player.step().await;
            }
            let mut all = done.take();
            all.push(player);
            done.set(all);
        });
    }
    loop {
        let all = done.take();
        if all.len() == count {
            return all;
        }
        done.set(all);
        cpu.sleep_until(cpu.now() + 10_000).await;
        cpu.progress();
    }
}

#[test]
fn reads_writes_cuts_and_syncs_of_pages_that_are_pushed_about_find_what_was_written() {
    for seed in 0..200 {
        let own = StorConfig {
            cache: [CacheMode::Near, CacheMode::Near, CacheMode::WriteBack][seed as usize % 3],
            threads: THREADS,
            placement: [Placement::ByInode, Placement::RoundRobin][seed as usize / 2 % 2],
            device_share: [0.3, 0.5, 0.7][seed as usize / 3 % 3],
            read_fill: [ReadFill::Host, ReadFill::Paper][seed as usize / 5 % 2],
            epoch_ns: [0, 1_000_000_000][seed as usize / 7 % 2],
            window: seed / 4 % 2 == 0,
            eviction: [Eviction::TwoStep, Eviction::Clock][seed as usize / 11 % 2],
            inactive_ns: [0, 100_000, 30_000_000_000][seed as usize / 13 % 3],
            prefetch_pages: [512, 0][seed as usize / 17 % 2],
            ..StorConfig::default()
        };
        scene(seed, own);
    }
}

/// A file that a task goes on making longer, while another syncs it: pages that come while it does so were written, too.
#[test]
fn a_sync_ends_beside_one_who_makes_the_file_longer_without_an_end() {
    /// Pages of the file when it is synced, and when its writer ends.
    const FIRST: u64 = 3;
    const LAST: u64 = 600;
    for cache in [CacheMode::Near, CacheMode::WriteBack] {
        let own = StorConfig {
            cache,
            threads: THREADS,
            ..StorConfig::default()
        };
        let config = DesignConfig {
            cache_bytes: 1_000 * PAGE,
            clients: THREADS,
            ..DesignConfig::default()
        };
        let space = DmaSpace::new(PAGE_BYTES);
        let stor = Arc::new(Stor::new(&config, &own, &space).expect("memory"));
        let pages = Arc::new(AtomicU32::new(0));
        let order = (CostTable::free(), Seed(1));
        let script = move |one: OneClient| {
            let files = stor.files_of(one.client, one.index);
            let (cpu, index, pages) = (one.cpu, one.index, pages.clone());
            async move {
                let opened = files.open(b"/longer", OpenFlags::CREATE, 0o644).await;
                let handle = opened.expect("it opens").handle;
                let written = || u64::from(pages.load(Ordering::Relaxed));
                if index == 0 {
                    for page in 0..LAST {
                        let extent = Extent::of_pages(page, 1);
                        let written = files.write_at(handle, extent, &[7; PAGE_BYTES]);
                        written.await.expect("there is room");
                        pages.fetch_add(1, Ordering::Relaxed);
                        cpu.sleep_until(cpu.now() + 200).await;
                    }
                    return 0;
                }
                while written() < FIRST {
                    cpu.sleep_until(cpu.now() + 100).await;
                }
                let whole = Extent::new(0, u64::MAX);
                let begun = written();
                let synced = files.sync(handle, whole, false);
                synced.await.expect("it is durable");
                // It may have had one more page when it began.
                let most = begun + 1;
                let sent = files.statistics().blocks.write_backs;
                assert!((FIRST..=most).contains(&sent), "{sent} of {most} pages");
                written()
            }
        };
        let found = run_as(order, new_drive(2), &space, THREADS, own, script).1[1];
        println!("{cache:?}: {found} pages when it was durable");
        assert!(found > 10 * FIRST, "{cache:?}: it was longer then");
    }
}
