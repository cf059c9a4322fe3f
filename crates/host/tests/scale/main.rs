//! The design `scale`: CLOCK, read-ahead, who flushes, and threads. (That it keeps every byte is
//! shown in `data.rs`.)

#[path = "../common/mod.rs"]
mod common;
mod eviction;
mod reading_ahead;
mod write_back;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use common::page_cache::{self, of_frames, read, rig, scatter, stamps, write};
use common::{Rig, healthy};
use wharf_host::design::{Amount, Reclaim, Replacement};
use wharf_host::dflush::Balance;
use wharf_host::kit::index::Index;
use wharf_host::scale::{DflushAlone, Scale, Variant, Whole};
use wharf_host::{Client, Design, DesignConfig, Extent, ScaleConfig};
use wharf_runtime::Seed;
use wharf_wire::command::Command;
use wharf_wire::mock::Fate;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::status::StatusCode;

/// Pages of a volume over which [`apart`] scatters.
const VOLUME_PAGES: u64 = 5_000_000;

/// Place number `n`: so far from all others, and at such steps, that nothing is read ahead.
fn apart(n: u64) -> u64 {
    Seed(n).child("apart").rng().below(VOLUME_PAGES)
}

#[test]
fn every_file_has_an_index_and_readers_of_its_own() {
    let fate = |drive: u32| common::healthy(Seed(9).index(drive.into()).rng());
    let mut rig = Rig::with_services(stamps(1, 400), 1, fate);
    let design: Arc<Scale<Whole>> = rig.design(DesignConfig {
        files: 4,
        ..of_frames(1_000)
    });
    rig.spawn_services(&design);
    let seen = design.clone();
    rig.spawn_client(0, &design, move |cpu, client| async move {
        let entries = |file| seen.shared().index_of(file).verify(&cpu);
        let pages = || [0, 1, 2, 3].map(entries);
        for page in 0..100 {
            read(&*client, page, 1).await;
        }
        assert_eq!(
            pages(),
            [100, 0, 0, 0],
            "nothing is read ahead of a file's end"
        );
        let touch = write(&*client, 199, 2).await.unwrap();
        assert_eq!((touch.pages, pages()), (2, [100, 1, 1, 0]));
        client.flush().await.unwrap();
        assert_eq!(seen.shared().verify(&cpu), 0);
    });
    let store = rig.stores[0].clone();
    rig.machine.run_virtual(Seed(1)).unwrap();
    for page in [199, 200] {
        assert_eq!(store.page(page), Some(vec![7; 8]));
    }
}

#[test]
fn threads_that_share_pages_never_see_half_of_a_write() {
    page_cache::threads_see_whole_writes::<Scale<Whole>>();
}

#[test]
fn equal_seeds_send_the_drive_equal_commands() {
    page_cache::is_deterministic::<Scale<Whole>>();
}

#[test]
fn a_cache_without_a_page_or_a_client_is_refused() {
    let space = wharf_wire::dma::DmaSpace::new(8);
    let config = |cache_bytes, clients| DesignConfig {
        cache_bytes,
        clients,
        ..DesignConfig::default()
    };
    for (bytes, clients, what) in [(4095, 1, "4095 bytes"), (1 << 20, 0, "no clients")] {
        let Err(error) =
            Scale::<Whole>::new(&config(bytes, clients), &ScaleConfig::default(), &space)
        else {
            panic!("{bytes} bytes for {clients} clients");
        };
        let text = error.to_string();
        assert!(text.contains("'scale'") && text.contains(what), "{text}");
    }
}
