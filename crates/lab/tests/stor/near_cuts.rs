//! Power cuts while threads use files by way of both caches: what was synced is there afterwards, whichever cache had it, and each part of
//! a page is as one of the writes to it has left it.
//!
//! The oracle is a list of the values that each part was given: a cut may lose those since the last sync that was acknowledged.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use wharf_files::{Handle, OpenFlags};
use wharf_host::files::FileClient;
use wharf_host::span::Extent;
use wharf_host::stor::{CacheMode, Eviction, Placement, Stor, StorConfig, StorFiles};
use wharf_host::{Design, DesignConfig};
use wharf_runtime::{Cpu, Rng, Seed};
use wharf_wire::dma::{DmaSpace, PAGE_BYTES};

use crate::machine::{OneClient, new_drive, run_on, run_until_cut};

const PAGE: u64 = PAGE_BYTES as u64;

const PAGES: u64 = 24;

const THREADS: u32 = 2;
const TASKS: u32 = 2;

/// Bytes of each page that a task alone writes.
const OWN: u64 = 800;

/// What a part of a page was given.
#[derive(Clone, Copy, Default)]
struct Part {
    /// The value of the last write that was begun. Values of a part count from 0.
    begun: u32,
    /// Of the last one that is durable for certain.
    durable: u32,
}

/// All parts: of each task those of each page.
type Parts = Arc<Mutex<Vec<[Part; PAGES as usize]>>>;

struct User {
    files: Rc<StorFiles>,
    handle: Handle,
    number: usize,
    parts: Parts,
}

impl User {
    fn parts<R>(&self, f: impl FnOnce(&mut [Part; PAGES as usize]) -> R) -> R {
        f(&mut self.parts.lock().expect("no holder panics")[self.number])
    }

    async fn write(&self, page: u64) {
        let value = self.parts(|parts| {
            parts[page as usize].begun += 1;
            parts[page as usize].begun
        });
        let data = value.to_le_bytes().repeat(OWN as usize / 4);
        let part = Extent::new(page * PAGE + self.number as u64 * OWN, OWN);
        let written = self.files.write_at(self.handle, part, &data).await;
        written.expect("it is written");
    }

    async fn sync(&self) {
        let before = self.parts(|parts| *parts);
        let whole = Extent::new(0, PAGES * PAGE);
        let synced = self.files.sync(self.handle, whole, true).await;
        // What a drive says that has no power any more, nobody hears.
        synced.expect("it is durable");
        self.parts(|parts| {
            for (part, before) in parts.iter_mut().zip(before) {
                part.durable = part.durable.max(before.begun);
            }
        });
    }

    /// Reads pages in order, so that they move to the host's cache.
    async fn read(&self, first: u64) {
        for page in first..(first + 6).min(PAGES) {
            let mut out = vec![0; PAGE as usize];
            let read = self
                .files
                .read_at(self.handle, Extent::of_pages(page, 1), &mut out);
            read.await.expect("it is read");
        }
    }
}

async fn use_file(user: User, cpu: Cpu, mut rng: Rng) {
    loop {
        cpu.yield_now().await;
        let page = rng.below(PAGES);
        match rng.below(16) {
            0 => user.sync().await,
            1 => user.read(page).await,
            _ => user.write(page).await,
        }
    }
}

/// Makes a file, uses it until the power goes, and looks at what is there. Gives how many parts were durable in a newer state than the first,
/// and how many are older than the last write.
fn cut(seed: u64, own: StorConfig) -> (u64, u64) {
    let mut rng = Seed(seed).child("cut").rng();
    let config = DesignConfig {
        // Pages leave the caches all the time, or what is dirty stays where it is.
        cache_bytes: [24, 160][seed as usize / 4 % 2] * PAGE,
        clients: THREADS,
        ..DesignConfig::default()
    };
    let space = DmaSpace::new(PAGE_BYTES);
    let plain = StorConfig::default();
    let made = run_on(
        new_drive(2),
        &space,
        1,
        plain.clone(),
        |one: OneClient| async move {
            let opened = one
                .client
                .open(b"/cut"[..].into(), OpenFlags::CREATE, 0o644)
                .await;
            let handle = opened.expect("it opens").handle;
            let zeros = vec![0; (PAGES * PAGE) as usize];
            let written = one.client.write(handle, 0, &zeros).await;
            assert_eq!(written.expect("there is room"), PAGES * PAGE);
            one.client.sync_all().await.expect("it is durable");
        },
    );
    let parts: Parts = Arc::default();
    let users = (THREADS * TASKS) as usize;
    parts
        .lock()
        .expect("no holder panics")
        .resize(users, [Part::default(); PAGES as usize]);
    let stor = Arc::new(Stor::new(&config, &own, &space).expect("memory"));
    let begun = Arc::new(AtomicBool::new(false));
    let (of_users, begins) = (parts.clone(), begun.clone());
    let after_ns = rng.below(4_000_000);
    let script = move |one: OneClient| {
        let files = Rc::new(stor.files_of(one.client, one.index));
        let (cpu, index, parts) = (one.cpu, one.index, of_users.clone());
        let begins = begins.clone();
        async move {
            for task in 0..TASKS {
                let number = index * TASKS + task;
                let opened = files.open(b"/cut", OpenFlags::CREATE, 0o644).await;
                let user = User {
                    files: files.clone(),
                    handle: opened.expect("it opens").handle,
                    number: number as usize,
                    parts: parts.clone(),
                };
                let rng = Seed(seed).child("task").index(number.into()).rng();
                cpu.spawn("task", use_file(user, cpu.clone(), rng));
            }
            begins.store(true, Ordering::Relaxed);
            std::future::pending().await
        }
    };
    let drive = run_until_cut(made.0, &space, THREADS, own, (begun, after_ns), script);
    let (_, mut found) = run_on(drive, &space, 1, plain, |one: OneClient| async move {
        let opened = one
            .client
            .open(b"/cut"[..].into(), OpenFlags::READ, 0)
            .await;
        let handle = opened.expect("it opens").handle;
        let mut found = vec![0xee; (PAGES * PAGE) as usize];
        let read = one.client.read(handle, 0, &mut found).await;
        assert_eq!(read.expect("it is there"), PAGES * PAGE);
        found
    });
    judge(seed, &found.pop().expect("there is one client"), &parts)
}

fn judge(seed: u64, found: &[u8], parts: &Parts) -> (u64, u64) {
    let (mut kept, mut lost) = (0, 0);
    for (number, parts) in parts.lock().expect("no holder panics").iter().enumerate() {
        for (page, part) in parts.iter().enumerate() {
            let from = page * PAGE_BYTES + number * OWN as usize;
            let found = &found[from..from + OWN as usize];
            let (words, _) = found.as_chunks::<4>();
            let value = u32::from_le_bytes(words[0]);
            let about = format!("seed {seed}, task {number}, page {page}");
            assert!(words.iter().all(|word| *word == words[0]), "{about}: torn");
            let may = part.durable..=part.begun;
            assert!(may.contains(&value), "{about}: {value}, and not of {may:?}");
            kept += u64::from(part.durable > 0);
            lost += u64::from(value < part.begun);
        }
    }
    (kept, lost)
}

#[test]
fn what_was_synced_is_there_after_a_power_cut_whichever_cache_had_it() {
    for cache in [CacheMode::Near, CacheMode::WriteBack] {
        let (mut kept, mut lost) = (0, 0);
        for seed in 0..30 {
            let own = StorConfig {
                cache,
                threads: THREADS,
                placement: [Placement::ByInode, Placement::RoundRobin][seed as usize % 2],
                device_share: [0.3, 0.6][seed as usize / 2 % 2],
                epoch_ns: 0,
                window: seed % 3 != 0,
                eviction: [Eviction::Clock, Eviction::TwoStep][seed as usize / 8 % 2],
                inactive_ns: 100_000,
                prefetch_pages: [0, 512][seed as usize / 8 % 2],
                ..StorConfig::default()
            };
            let (more_kept, more_lost) = cut(seed, own);
            kept += more_kept;
            lost += more_lost;
        }
        // Else it has shown nothing.
        assert!(kept > 100 && lost > 100, "{cache:?}: {kept}, {lost}");
        println!(
            "{cache:?}: {kept} parts were durable in a new state, and {lost} lost their last write"
        );
    }
}
