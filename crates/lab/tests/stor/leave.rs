//! Eviction in two steps: pages of inactive files leave either cache before older ones of files that are used, and then the ranges that were
//! used least lately. Nobody waits for it, and nothing is lost.

use std::sync::Arc;

use wharf_files::{Handle, OpenFlags};
use wharf_host::design::Amount;
use wharf_host::files::FileClient;
use wharf_host::span::Extent;
use wharf_host::stor::{CacheMode, Eviction, Stor, StorClient, StorConfig, StorFiles};
use wharf_host::{Design, DesignConfig};
use wharf_runtime::Cpu;
use wharf_wire::dma::{DmaSpace, PAGE_BYTES};

use crate::machine::{OneClient, new_drive_near, run_on};

const PAGE: u64 = PAGE_BYTES as u64;

/// Pages of each file.
const PAGES: u64 = 20;

/// Pages of each cache: a tenth of it is 7.
const CACHE_PAGES: u64 = 64;

const MS: u64 = 1_000_000;

/// A long time.
const EPOCH_NS: u64 = 30_000_000_000;

/// Half of the pages are in the drive, where it has any.
fn config(cache: CacheMode, inactive_ns: u64) -> (StorConfig, u64) {
    let own = StorConfig {
        cache,
        device_share: 0.5,
        eviction: Eviction::TwoStep,
        inactive_ns,
        window: false,
        ..StorConfig::default()
    };
    let caches = if cache == CacheMode::Near { 2 } else { 1 };
    (own, caches * CACHE_PAGES * PAGE)
}

/// Each page in an order that is not theirs.
fn mixed() -> impl Iterator<Item = u64> {
    (0..PAGES).map(|nth| nth * 7 % PAGES)
}

struct Scene {
    files: StorFiles,
    client: StorClient,
    stor: Arc<Stor>,
    cpu: Cpu,
}

impl Scene {
    async fn open(&self, path: &str) -> Handle {
        let opened = self.files.open(path.as_bytes(), OpenFlags::CREATE, 0o644);
        opened.await.expect("it opens").handle
    }

    /// Writes all pages of a file, each with its own value.
    async fn fill(&self, handle: Handle, seed: u8) {
        for page in 0..PAGES {
            let data = [seed + page as u8; PAGE_BYTES];
            let written = self
                .files
                .write_at(handle, Extent::of_pages(page, 1), &data);
            written.await.expect("there is room");
            // Others do something meanwhile.
            self.rest(MS / 10).await;
        }
    }

    /// Opens a file that was written past the caches.
    async fn open_filled(&self, path: &str, seed: u8) -> Handle {
        let client = &self.client;
        let opened = FileClient::open(client, path.as_bytes(), OpenFlags::CREATE, 0o644).await;
        let handle = opened.expect("it opens").handle;
        for page in 0..PAGES {
            let data = [seed + page as u8; PAGE_BYTES];
            let written = client.write_at(handle, Extent::of_pages(page, 1), &data);
            written.await.expect("there is room");
        }
        let closed = FileClient::close(client, handle).await;
        closed.expect("it is open");
        self.open(path).await
    }

    /// Reads some bytes of a page of a file that was filled.
    async fn look(&self, handle: Handle, page: u64, seed: u8) {
        let mut out = [0; 600];
        let extent = Extent::new(page * PAGE + 700, 600);
        let read = self.files.read_at(handle, extent, &mut out).await;
        assert_eq!(read.expect("it is read").bytes, 600);
        assert_eq!(out, [seed + page as u8; 600], "page {page}");
    }

    /// Pages of a file that the host's cache has.
    fn here(&self, handle: Handle) -> u64 {
        let is_here = |page: &u64| {
            let extent = Extent::new(page * PAGE, 1);
            self.files.read_now(handle, extent, &mut [0]).is_some()
        };
        (0..PAGES).filter(is_here).count() as u64
    }

    /// Of these pages of a file, those that the drive's cache has. They come there, too.
    async fn near(&self, handle: Handle, pages: impl Iterator<Item = u64>, seed: u8) -> u64 {
        let hits = || self.files.statistics().blocks.near_hits;
        let before = hits();
        for page in pages {
            self.look(handle, page, seed).await;
        }
        hits() - before
    }

    async fn rest(&self, ns: u64) {
        self.cpu.sleep_until(self.cpu.now() + ns).await;
    }

    fn gauge(&self, name: &str) -> u64 {
        match self.stor.gauges().get(name) {
            Some(Amount::Count(pages)) => pages,
            other => panic!("{name}: {other:?}"),
        }
    }
}

fn play<F: Future<Output = ()> + 'static>(
    (own, cache_bytes): (StorConfig, u64),
    script: impl Fn(Scene) -> F + Send + Sync + 'static,
) {
    let config = DesignConfig {
        cache_bytes,
        ..DesignConfig::default()
    };
    let space = DmaSpace::new(PAGE_BYTES);
    let stor = Arc::new(Stor::new(&config, &own, &space).expect("memory"));
    let drive = new_drive_near(2, CACHE_PAGES * PAGE);
    let run = move |one: OneClient| {
        script(Scene {
            files: stor.files_of(one.client.clone(), one.index),
            client: one.client,
            stor: stor.clone(),
            cpu: one.cpu,
        })
    };
    run_on(drive, &space, 1, own, run);
}

#[test]
fn pages_of_an_inactive_file_leave_the_host_before_older_ones_of_one_that_is_used() {
    for cache in [CacheMode::WriteBack, CacheMode::Near] {
        for (inactive_ns, closes) in [(20 * MS, false), (EPOCH_NS, true), (EPOCH_NS, false)] {
            play(config(cache, inactive_ns), move |scene| async move {
                let used = scene.open("/used").await;
                scene.fill(used, 1).await;
                scene.rest(MS).await;
                let idle = scene.open("/idle").await;
                scene.fill(idle, 40).await;
                scene.rest(50 * MS).await;
                scene.look(used, 0, 1).await;
                if closes {
                    scene.files.close(idle).await.expect("it is open");
                }
                let new = scene.open("/new").await;
                scene.fill(new, 80).await;
                scene.rest(50 * MS).await;
                let counts = ["evicted_inactive", "evicted_oldest"].map(|name| scene.gauge(name));
                let about = format!("{cache:?}, closes: {closes}, {inactive_ns} ns: {counts:?}");
                let idle = match closes {
                    true => scene.open("/idle").await,
                    false => idle,
                };
                let here = [used, idle, new].map(|handle| scene.here(handle));
                if closes || inactive_ns < EPOCH_NS {
                    assert_eq!(here, [PAGES, PAGES - counts[0], PAGES], "{about}");
                    assert!(counts[0] > 0 && counts[1] == 0, "{about}");
                } else {
                    // No file is inactive: the pages go that were used least lately, however lately their file was.
                    assert_eq!(here[1..], [PAGES, PAGES], "{about}");
                    assert_eq!(counts, [0, PAGES - here[0]], "{about}");
                    assert!(here[0] > 0 && here[0] < PAGES, "{about}");
                    let is_first_here = scene.files.read_now(used, Extent::new(0, 1), &mut [0]);
                    assert!(is_first_here.is_some(), "it was used just now");
                }
                // All that was written is there.
                for (handle, seed) in [(used, 1), (idle, 40), (new, 80)] {
                    for page in mixed() {
                        scene.look(handle, page, seed).await;
                    }
                }
            });
        }
    }
}

#[test]
fn ranges_of_an_inactive_file_leave_the_drive_before_older_ones_of_one_that_is_used() {
    for inactive_ns in [20 * MS, EPOCH_NS] {
        let (own, cache_bytes) = config(CacheMode::Near, inactive_ns);
        play((own, cache_bytes), move |scene| async move {
            let mut handles = Vec::new();
            for (path, seed) in [("/used", 1), ("/idle", 40), ("/new", 80), ("/last", 120)] {
                handles.push(scene.open_filled(path, seed).await);
            }
            let [used, idle, new, last] = handles[..] else {
                panic!("four were opened");
            };
            assert_eq!(scene.near(used, mixed(), 1).await, 0);
            scene.rest(MS).await;
            assert_eq!(scene.near(idle, mixed(), 40).await, 0);
            scene.rest(50 * MS).await;
            // The oldest pages of a file that is used.
            assert_eq!(scene.near(used, 0..1, 1).await, 1);
            scene.near(new, mixed(), 80).await;
            scene.rest(MS).await;
            scene.near(last, mixed().take(4), 120).await;
            scene.rest(MS).await;
            let names = ["near_evicted_inactive", "near_evicted_oldest"];
            let counts = names.map(|name| scene.gauge(name));
            let about = format!("{inactive_ns} ns: {counts:?}");
            if inactive_ns < EPOCH_NS {
                assert!(counts[0] > 0 && counts[1] == 0, "{about}");
                assert_eq!(scene.near(used, mixed(), 1).await, PAGES, "{about}");
            } else {
                assert!(counts[0] == 0 && counts[1] > 0, "{about}");
                assert_eq!(scene.near(used, 0..1, 1).await, 1, "{about}");
                let left = PAGES - scene.near(idle, mixed(), 40).await;
                assert_eq!(left, 0, "{about}: older ones were there");
            }
        });
    }
}

/// Who makes files longer finds room, and waits for it less often than where frames are freed when they are needed.
#[test]
fn ranges_leave_before_there_is_no_room() {
    let (own, cache_bytes) = config(CacheMode::WriteBack, EPOCH_NS);
    play((own, cache_bytes), |scene| async move {
        for nth in 0..12 {
            let handle = scene.open(&format!("/{nth}")).await;
            scene.fill(handle, nth).await;
            scene.rest(10 * MS).await;
            let counts = ["evicted_inactive", "evicted_oldest"].map(|name| scene.gauge(name));
            let left = counts[0] + counts[1];
            let free = CACHE_PAGES - (PAGES * u64::from(nth + 1) - left);
            assert!(free >= 7, "file {nth}: {free} pages are free");
            assert_eq!(counts[0], 0, "all are open, and were used");
            assert_eq!(scene.here(handle), PAGES, "the newest ones are there");
        }
    });
}
