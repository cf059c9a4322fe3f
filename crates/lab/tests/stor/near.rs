//! Files with a cache in the host and one in the drive: threads of a process that use parts of the same pages see what each wrote, and
//! a page is in one of both caches, whichever way it went.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_files::OpenFlags;
use wharf_host::files::FileClient;
use wharf_host::span::Extent;
use wharf_host::stor::{CacheMode, ReadFill, Stor, StorConfig, StorFiles};
use wharf_host::{Design, DesignConfig};
use wharf_runtime::{Cpu, Notify, Seed};
use wharf_wire::dma::{DmaSpace, PAGE_BYTES};

use crate::machine::{OneClient, run_in};

const PAGE: u64 = PAGE_BYTES as u64;

/// Pages of the file.
const PAGES: u64 = 40;

/// Threads, and tasks of each.
const THREADS: u32 = 3;
const TASKS: u32 = 2;

/// Bytes of each page that are a task's own.
const OWN: u64 = 600;

/// Has each task use bytes of its own of all pages, at random and in order; every read is checked.
async fn use_own(files: Rc<StorFiles>, cpu: Cpu, number: u32, seed: u64) {
    let mut rng = Seed(seed).child("task").index(number.into()).rng();
    let opened = files.open(b"/shared", OpenFlags::CREATE, 0o644).await;
    let handle = opened.expect("it opens").handle;
    let own = u64::from(number) * OWN;
    let mut right = [0_u8; PAGES as usize];
    for round in 0..160_u64 {
        cpu.yield_now().await;
        let (page, value) = (rng.below(PAGES), (round % 250) as u8 + 1);
        let part = Extent::new(page * PAGE + own, OWN);
        match rng.below(8) {
            0..3 => {
                let data = vec![value; OWN as usize];
                let written = files.write_at(handle, part, &data).await;
                written.expect("it is written");
                right[page as usize] = value;
            }
            3..6 => {
                let mut out = vec![0xee; OWN as usize];
                let read = files.read_at(handle, part, &mut out).await;
                assert_eq!(read.expect("it is read").bytes, OWN);
                assert!(
                    out.iter().all(|byte| *byte == right[page as usize]),
                    "seed {seed}, task {number}, round {round}, page {page}"
                );
            }
            6 => {
                let sync = files.sync(handle, Extent::new(0, PAGES * PAGE), true);
                sync.await.expect("it is durable");
            }
            _ => {
                // Several pages in order, as large as requests of others are small.
                for page in page..(page + 9).min(PAGES) {
                    let mut out = vec![0xee; PAGE as usize];
                    let read = files.read_at(handle, Extent::of_pages(page, 1), &mut out);
                    assert_eq!(read.await.expect("it is read").bytes, PAGE);
                    let out = &out[own as usize..(own + OWN) as usize];
                    assert!(
                        out.iter().all(|byte| *byte == right[page as usize]),
                        "seed {seed}, task {number}, round {round}, page {page} in order"
                    );
                }
            }
        }
    }
    let both = files.pages_in_both(handle).await;
    assert_eq!(both.expect("the drive answers"), 0, "seed {seed}");
    files.close(handle).await.expect("it is open");
}

fn share(seed: u64, frames: u32, own: StorConfig) {
    let config = DesignConfig {
        cache_bytes: u64::from(frames) * PAGE,
        clients: THREADS,
        ..DesignConfig::default()
    };
    let space = DmaSpace::new(PAGE_BYTES);
    let stor = Arc::new(Stor::new(&config, &own, &space).expect("memory"));
    run_in(&space, 2, THREADS, own, move |one: OneClient| {
        let (cpu, index) = (one.cpu.clone(), one.index);
        let files = Rc::new(stor.files_of(one.client, index));
        async move {
            if index == 0 {
                let all = OpenFlags::CREATE;
                let opened = files.open(b"/shared", all, 0o644).await.expect("it opens");
                let zeros = vec![0; (PAGES * PAGE) as usize];
                let whole = Extent::new(0, PAGES * PAGE);
                let written = files.write_at(opened.handle, whole, &zeros).await;
                written.expect("there is room");
                files.sync_all().await.expect("it is written");
                files.close(opened.handle).await.expect("it is open");
            } else {
                // The file is there then.
                cpu.sleep_until(50_000_000).await;
            }
            let (left, ended) = (Rc::new(Cell::new(TASKS)), Rc::new(Notify::new()));
            for number in 0..TASKS {
                let work = use_own(files.clone(), cpu.clone(), index * TASKS + number, seed);
                let (cpu_of, left, ended) = (cpu.clone(), left.clone(), ended.clone());
                cpu.spawn("task", async move {
                    work.await;
                    left.set(left.get() - 1);
                    ended.notify_all(&cpu_of);
                });
            }
            while left.get() > 0 {
                ended.wait(&cpu).await;
            }
            files.sync_all().await.expect("it is written");
        }
    });
}

#[test]
fn threads_that_use_parts_of_the_same_pages_see_what_they_wrote_and_no_page_is_in_both_caches() {
    for seed in 0..24 {
        let own = StorConfig {
            cache: CacheMode::Near,
            threads: THREADS,
            // Both are full all the time, one of them is, and none is.
            device_share: [0.2, 0.5, 0.3][seed as usize % 3],
            read_fill: [ReadFill::Host, ReadFill::Paper][seed as usize / 3 % 2],
            epoch_ns: [0, 1_000_000_000][seed as usize / 6 % 2],
            ..StorConfig::default()
        };
        let frames = [24, 40, 60][seed as usize % 3];
        share(seed, frames, own);
    }
}
