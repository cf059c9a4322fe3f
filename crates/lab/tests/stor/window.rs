//! Pages of the drive's cache that are loaded and stored without a command: what that gains, by how much is read.

use std::sync::Arc;

use wharf_files::OpenFlags;
use wharf_host::files::FileClient;
use wharf_host::span::Extent;
use wharf_host::stor::{CacheMode, ReadFill, Stor, StorConfig};
use wharf_host::{Design, DesignConfig};
use wharf_lab::config::load_costs;
use wharf_wire::dma::{DmaSpace, PAGE_BYTES};

use crate::machine::{OneClient, new_drive_near, run_at_cost};

const PAGE: u64 = PAGE_BYTES as u64;

/// Pages of the file, all of which the drive's cache has.
const PAGES: u64 = 1_024;

/// How long a read takes of what the drive's cache has, in nanoseconds: the mean of 64. Gives too how many pages took no command, and
/// how many of them were loaded.
fn read_ns(bytes: u64, window: bool) -> (f64, u64, u64) {
    let own = StorConfig {
        cache: CacheMode::Near,
        // What is read stays in the drive.
        read_fill: ReadFill::Paper,
        // The other one has next to nothing.
        device_share: 0.99,
        window,
        ..StorConfig::default()
    };
    let config = DesignConfig {
        cache_bytes: 2 * PAGES * PAGE,
        clients: 1,
        ..DesignConfig::default()
    };
    let space = DmaSpace::new(PAGE_BYTES);
    let stor = Arc::new(Stor::new(&config, &own, &space).expect("memory"));
    let (costs, _) = load_costs("default").expect("a table");
    let drive = new_drive_near(2, 2 * PAGES * PAGE);
    let run = run_at_cost(costs, drive, &space, 1, own, move |one: OneClient| {
        let (cpu, files) = (one.cpu.clone(), stor.files_of(one.client, 0));
        async move {
            let opened = files.open(b"/loaded", OpenFlags::CREATE, 0o644).await;
            let handle = opened.expect("it opens").handle;
            let data: Vec<u8> = (0..PAGES * PAGE).map(|at| (at / 7) as u8).collect();
            let whole = Extent::new(0, PAGES * PAGE);
            let written = files.write_at(handle, whole, &data).await;
            written.expect("there is room");
            files.sync_all().await.expect("it is written");
            files.close(handle).await.expect("it is open");
            let opened = files.open(b"/loaded", OpenFlags::READ, 0).await;
            let handle = opened.expect("it opens").handle;
            // Not in order, and a part of each page: they come to the drive's cache.
            let mut out = vec![0; (PAGES * PAGE) as usize];
            for page in (0..PAGES).map(|nth| nth * 389 % PAGES) {
                let part = Extent::new(page * PAGE + 8, 64);
                let read = files.read_at(handle, part, &mut out[..64]).await;
                read.expect("it is read");
            }
            let (mut all_ns, before) = (0, files.statistics().blocks);
            for nth in 0..64 {
                let at = nth * 389 * PAGE % (PAGES * PAGE - bytes) / PAGE * PAGE;
                let out = &mut out[..bytes as usize];
                let begun_ns = cpu.now();
                let read = files.read_at(handle, Extent::new(at, bytes), out).await;
                read.expect("it is read");
                all_ns += cpu.now() - begun_ns;
                let right = &data[at as usize..(at + bytes) as usize];
                assert!(*out == *right, "{bytes} bytes from {at}");
            }
            let after = files.statistics().blocks;
            let loaded = after.window_hits - before.window_hits;
            let hits = after.hits - before.hits;
            (all_ns as f64 / 64.0, hits + loaded, loaded)
        }
    });
    run.1[0]
}

#[test]
fn a_load_beats_a_command_where_little_is_read_and_gains_nothing_where_much_is() {
    for bytes in [
        64,
        256,
        1 << 10,
        4 << 10,
        8 << 10,
        16 << 10,
        64 << 10,
        2 << 20,
    ] {
        let (by_load, without_command, loaded) = read_ns(bytes, true);
        let (by_command, _, none) = read_ns(bytes, false);
        let gain = by_command / by_load;
        println!(
            "{bytes:>8} bytes: {by_load:>9.0} ns by loads, {by_command:>9.0} ns by commands: {gain:.2}"
        );
        assert_eq!(none, 0);
        if bytes > 8 << 10 {
            // Nobody loads so much.
            assert_eq!(loaded, 0, "{bytes} bytes");
            assert!((0.95..1.05).contains(&gain), "{bytes} bytes: {gain}");
            continue;
        }
        assert_eq!(without_command, 64 * bytes.div_ceil(PAGE), "{bytes} bytes");
        assert!(loaded > without_command * 9 / 10, "{loaded} pages");
        let least = if bytes <= 1 << 10 { 1.2 } else { 1.0 };
        assert!(gain >= least, "{bytes} bytes: {gain}");
    }
}
