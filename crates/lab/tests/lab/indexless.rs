//! The flash caches before a disk: every read checked, and hits as the policies without time have them.

use wharf_host::Role;
use wharf_host::indexless::{
    DirectDisk, FirstIn, HalfLru, Ideal, Indexless, IndexlessConfig, LruBatch, OpenCas,
    SecondChance, Store, Through,
};
use wharf_lab::replay::{DeviceGroup, Prepare, RunError, Setup};
use wharf_lab::result::Row;
use wharf_workload::generate::Pattern;

use crate::support::{drive, generated, planned, setup, spec, try_run};

/// A flash drive that shows three times what the disk has.
fn before_a_disk(clients: u32, depth: u32) -> Setup {
    let shape = |blocks: u32| {
        [
            "geometry.channels=2".to_owned(),
            "geometry.dies_per_channel=1".to_owned(),
            "geometry.planes_per_die=1".to_owned(),
            format!("geometry.blocks_per_plane={blocks}"),
            "geometry.pages_per_block=32".to_owned(),
            "firmware.cores=1".to_owned(),
            "ftl.over_provisioning=0.25".to_owned(),
        ]
    };
    let of = |blocks: u32, latency: &str| {
        let mut keys = shape(blocks).to_vec();
        keys.push(format!("link.latency_ns={latency}"));
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        drive("tlc", &keys)
    };
    let mut setup = setup(of(4096, "1us"));
    let mut slow = of(1024, "1ms");
    slow.name = "slow".into();
    let backing = DeviceGroup::new(Role::Backing, slow, 1, &setup.host);
    setup.devices.push(backing);
    (setup.clients, setup.depth, setup.prepare) = (clients, depth, Prepare::Empty);
    setup.cache_bytes = 4 << 20;
    setup
}

fn checked(row: Result<Row, RunError>) -> Row {
    let row = row.unwrap_or_else(|error| panic!("{error}"));
    assert!(row.complete && row.reads > 0);
    assert_eq!(row.verified_reads, row.reads);
    row
}

#[test]
fn every_policy_over_every_store_keeps_every_byte() {
    for store in [Store::Plain, Store::Chunks, Store::Fixed] {
        for (clients, depth) in [(1, 1), (3, 4)] {
            let mut setup = before_a_disk(clients, depth);
            let own = IndexlessConfig {
                store,
                zone_bytes: 10 << 20,
                ..IndexlessConfig::default()
            };
            setup.host.design.set::<Indexless<SecondChance>>(&own);
            let plan = planned(&generated(spec(Pattern::Uniform, 4_000, 12 << 20)), &setup);
            let rows = [
                checked(try_run::<Indexless<SecondChance>>(&setup, &plan)),
                checked(try_run::<Indexless<Ideal>>(&setup, &plan)),
                checked(try_run::<Indexless<HalfLru>>(&setup, &plan)),
                checked(try_run::<Indexless<LruBatch>>(&setup, &plan)),
                checked(try_run::<Indexless<FirstIn>>(&setup, &plan)),
                checked(try_run::<Indexless<OpenCas>>(&setup, &plan)),
            ];
            let around = [
                checked(try_run::<Indexless<Through>>(&setup, &plan)),
                checked(try_run::<Indexless<DirectDisk>>(&setup, &plan)),
            ];
            assert!(around[0].hit_ratio.unwrap() > 0.02, "{}", around[0].design);
            assert_eq!(around[1].hit_ratio, Some(0.0), "{}", around[1].design);
            for row in &rows {
                let hits = row.hit_ratio.unwrap();
                eprintln!(
                    "{store:?} {clients}x{depth} {:<12} {hits:.3} {:.0} us",
                    row.design,
                    row.read_latency_us.unwrap().mean
                );
                assert!(hits > 0.2, "{}: {hits}", row.design);
            }
        }
    }
}

/// A store that cannot be made on the disk: reads fail in words, and nothing hangs.
#[test]
fn a_disk_that_cannot_hold_the_store_fails_every_read() {
    let mut setup = before_a_disk(1, 1);
    let own = IndexlessConfig {
        zone_bytes: 1 << 30,
        ..IndexlessConfig::default()
    };
    setup.host.design.set::<Indexless<SecondChance>>(&own);
    let plan = planned(&generated(spec(Pattern::Uniform, 50, 12 << 20)), &setup);
    let refused = try_run::<Indexless<SecondChance>>(&setup, &plan);
    let error = refused.map(drop).unwrap_err().to_string();
    assert!(error.contains("the disk behind the cache"), "{error}");
}
