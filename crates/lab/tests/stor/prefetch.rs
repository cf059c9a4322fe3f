//! The drive brings pages to its own cache ahead of who goes through a file in order: fewer requests wait for flash.

use std::sync::Arc;

use wharf_files::OpenFlags;
use wharf_host::design::Amount;
use wharf_host::files::FileClient;
use wharf_host::span::Extent;
use wharf_host::stor::{CacheMode, Eviction, Stor, StorConfig};
use wharf_host::{Design, DesignConfig};
use wharf_lab::config::load_costs;
use wharf_wire::dma::{DmaSpace, PAGE_BYTES};

use crate::machine::{OneClient, new_drive_near, run_at_cost};

const PAGE: u64 = PAGE_BYTES as u64;

/// Pages of the file: more than the drive's cache has room for.
const PAGES: u64 = 1_024;

/// Pages of the drive's cache, and of the host's.
const NEAR_PAGES: u64 = 512;
const HOST_PAGES: u64 = 128;

/// Bytes of a request.
const BYTES: u64 = 1 << 10;

/// Who waits so long waits for flash: what the drive has at hand takes some 10 us, and a page of flash 60 and more.
const FLASH_NS: u64 = 30_000;

/// What requests in order came to.
#[derive(Debug)]
struct Sum {
    all_ns: u64,
    waited: u64,
    waited_ns: u64,
    prefetched: u64,
    near_pages_max: u64,
}

/// Reads, or writes, `BYTES` bytes at each of `step` bytes of a file in order.
fn go_through(prefetch_pages: u32, step: u64, writes: bool) -> Sum {
    let own = StorConfig {
        cache: CacheMode::Near,
        device_share: NEAR_PAGES as f64 / (NEAR_PAGES + HOST_PAGES) as f64,
        eviction: Eviction::TwoStep,
        prefetch_pages,
        window: false,
        ..StorConfig::default()
    };
    let config = DesignConfig {
        cache_bytes: (NEAR_PAGES + HOST_PAGES) * PAGE,
        ..DesignConfig::default()
    };
    let space = DmaSpace::new(PAGE_BYTES);
    let stor = Arc::new(Stor::new(&config, &own, &space).expect("memory"));
    let (costs, _) = load_costs("default").expect("a table");
    let drive = new_drive_near(2, NEAR_PAGES * PAGE);
    let script = move |one: OneClient| {
        let (cpu, stor, client) = (one.cpu, stor.clone(), one.client);
        let files = stor.files_of(client.clone(), 0);
        async move {
            let data: Vec<u8> = (0..PAGES * PAGE).map(|at| (at / 7) as u8).collect();
            let opened = FileClient::open(&client, b"/long", OpenFlags::CREATE, 0o644).await;
            let made = opened.expect("it opens").handle;
            let whole = Extent::new(0, PAGES * PAGE);
            let written = client.write_at(made, whole, &data).await;
            written.expect("there is room");
            let synced = FileClient::sync(&client, made, whole, false).await;
            synced.expect("it is durable");
            FileClient::close(&client, made).await.expect("it is open");
            let opened = files.open(b"/long", OpenFlags::CREATE, 0).await;
            let handle = opened.expect("it opens").handle;
            let mut sum = Sum {
                all_ns: 0,
                waited: 0,
                waited_ns: 0,
                prefetched: 0,
                near_pages_max: 0,
            };
            let gauge = |name| match stor.gauges().get(name) {
                Some(Amount::Count(count) | Amount::Bytes(count)) => count,
                _ => 0,
            };
            let mut out = vec![0; BYTES as usize];
            for at in (0..PAGES * PAGE / step).map(|nth| nth * step) {
                let extent = Extent::new(at, BYTES);
                let begun_ns = cpu.now();
                match writes {
                    true => {
                        let new = vec![(at / step) as u8; BYTES as usize];
                        let written = files.write_at(handle, extent, &new).await;
                        written.expect("it is written");
                    }
                    false => {
                        let read = files.read_at(handle, extent, &mut out).await;
                        assert_eq!(read.expect("it is read").bytes, BYTES);
                        assert_eq!(out, data[at as usize..(at + BYTES) as usize], "{at}");
                    }
                }
                let ns = cpu.now() - begun_ns;
                sum.all_ns += ns;
                sum.waited += u64::from(ns >= FLASH_NS);
                sum.waited_ns += if ns >= FLASH_NS { ns } else { 0 };
                sum.near_pages_max = sum.near_pages_max.max(gauge("near_bytes") / PAGE);
            }
            // All of it is as it was written, wherever it is.
            for page in (0..PAGES).map(|nth| nth * 389 % PAGES) {
                let mut out = vec![0; PAGE_BYTES];
                let read = files.read_at(handle, Extent::of_pages(page, 1), &mut out);
                assert_eq!(read.await.expect("it is read").bytes, PAGE);
                let mut right = data[(page * PAGE) as usize..((page + 1) * PAGE) as usize].to_vec();
                for at in (page * PAGE..(page + 1) * PAGE).step_by(step.min(PAGE) as usize) {
                    let from = (at - page * PAGE) as usize;
                    if writes && at % step == 0 {
                        right[from..from + BYTES as usize].fill((at / step) as u8);
                    }
                }
                assert_eq!(out, right, "page {page}");
            }
            let both = files.pages_in_both(handle).await;
            assert_eq!(both.expect("the drive answers"), 0);
            sum.prefetched = gauge("near_prefetched");
            files.close(handle).await.expect("it is open");
            sum
        }
    };
    let mut sums = run_at_cost(costs, drive, &space, 1, own, script).1;
    sums.pop().expect("there is one client")
}

#[test]
fn requests_in_order_wait_for_flash_less_often() {
    for (step, writes) in [(BYTES, false), (PAGE, false), (PAGE, true)] {
        let [off, on] = [0, 512].map(|pages| go_through(pages, step, writes));
        println!("every {step} bytes, writes: {writes}: {off:?}, with it {on:?}");
        assert_eq!(off.prefetched, 0);
        assert!(on.prefetched > PAGES * 8 / 10, "{on:?}");
        assert!(on.near_pages_max <= NEAR_PAGES, "{on:?}");
        assert!(on.waited < off.waited, "{off:?}, with it {on:?}");
        assert!(on.waited_ns < off.waited_ns, "{off:?}, with it {on:?}");
        // Else requests come faster than the media read, or write what leaves.
        if step == BYTES {
            assert!(10 * on.waited < off.waited, "{off:?}, with it {on:?}");
        }
    }
}
