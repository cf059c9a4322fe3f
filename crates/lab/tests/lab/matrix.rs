//! Designs, drives, clients, depths and sizes in many combinations: each run is right to the last read,
//! and every figure is a number.

use wharf_drive::config::MediaKind;
use wharf_host::boot::Spread;
use wharf_host::{Direct, Hardware, Scala, ScalaConfig};
use wharf_lab::config::{ArrayLayout, DRIVES, WritePolicy};
use wharf_lab::designs::find;
use wharf_lab::input::ClientRule;
use wharf_lab::replay::{Prepare, Setup};
use wharf_runtime::{Rng, Seed};
use wharf_workload::generate::Pattern;
use wharf_workload::{Op, Request};

use crate::support::{
    drive, generated, listed, planned, planned_by, run, run_all, run_those, setup, small, spec,
    try_run,
};

/// Requests of any size and place: sectors, crooked pages, a few larger than the cache.
fn crooked(rng: &mut Rng, requests: u64, bytes: u64) -> Vec<Request> {
    let one = |_| {
        let size = match rng.below(20) {
            0..8 => 512 * (1 + rng.below(8)),
            8..18 => 512 * (1 + rng.below(100)),
            18 => 1 + rng.below(10_000),
            _ => 300 << 10,
        };
        let offset = rng.below(bytes - size);
        let offset = if rng.chance(9, 10) {
            offset / 512 * 512
        } else {
            offset
        };
        Request::new(
            if rng.chance(1, 2) {
                Op::Read
            } else {
                Op::Write
            },
            offset,
            size as u32,
        )
    };
    (0..requests).map(one).collect()
}

#[test]
fn every_design_runs_on_every_drive() {
    assert!(DRIVES.len() >= 6);
    for preset in DRIVES {
        // The tiny drive has four queues, two of them for managers, and less than a megabyte.
        let mut setup = setup(drive(preset.name, &[]));
        (setup.clients, setup.depth, setup.cache_bytes) = (2, 8, 128 << 10);
        let zipf = spec(Pattern::Zipf { theta: 0.9 }, 2_000, 512 << 10);
        // A disk pins no pages.
        let pins = setup.cache().drive.host_memory.enabled;
        assert!(pins || preset.name.starts_with("hdd"));
        let can = |name: &str| {
            let needs = find(name).expect("it is listed").needs(&setup);
            pins || needs.features.is_empty()
        };
        let comparison = run_those(&setup, &planned(&generated(zipf), &setup), can);
        assert_eq!(comparison.drive.preset, preset.name);
        assert!(comparison.rows.len() >= 8 && comparison.rows[1].hit_ratio > Some(0.0));
    }
}

#[test]
fn partial_and_crooked_requests_on_stamps_and_on_bytes() {
    let mut rng = Seed(5).child("crooked").rng();
    for kind in [MediaKind::Stamp, MediaKind::Ram] {
        for write_policy in [WritePolicy::Back, WritePolicy::Through] {
            let mut setup = setup(small());
            setup.cache_mut().drive.media.kind = kind;
            setup.host.write_policy = write_policy;
            // Smaller than the larger requests, so that these cannot be cached whole.
            (setup.cache_bytes, setup.clients, setup.depth) = (128 << 10, 3, 6);
            let requests = crooked(&mut rng, 3_000, 4 << 20);
            run_all(&setup, &planned(&listed(&requests), &setup));
        }
    }
}

#[test]
fn any_number_of_clients_at_any_depth() {
    let mut rng = Seed(6).child("clients").rng();
    for clients in [1, 2, 3, 5, 8, 16] {
        for depth in [1, 2, 7, 64] {
            let mut setup = setup(small());
            (setup.clients, setup.depth, setup.cache_bytes) = (clients, depth, 256 << 10);
            setup.seed = u64::from(clients * 100 + depth);
            let requests = crooked(&mut rng, 600, 2 << 20);
            run_all(&setup, &planned(&listed(&requests), &setup));
        }
    }
}

#[test]
fn more_clients_than_requests_and_more_cache_than_data() {
    let setup = Setup {
        clients: 16,
        depth: 64,
        cache_bytes: 8 << 20,
        ..setup(small())
    };
    let requests = crooked(&mut Seed(7).rng(), 5, 1 << 20);
    run_all(&setup, &planned(&listed(&requests), &setup));
}

#[test]
fn a_cache_of_one_page() {
    let setup = Setup {
        clients: 4,
        depth: 8,
        cache_bytes: 4096,
        ..setup(small())
    };
    let requests = crooked(&mut Seed(8).rng(), 500, 1 << 20);
    let plan = planned(&listed(&requests), &setup);
    // These divide the cache among the firmware cores.
    let divides = |name: &str| ["scala", "hardware"].contains(&name);
    run_those(&setup, &plan, |name| !divides(name));
    for refused in [
        try_run::<Scala>(&setup, &plan).map(drop),
        try_run::<Hardware>(&setup, &plan).map(drop),
    ] {
        let line = refused.unwrap_err().to_string();
        assert!(line.contains("1 frames"), "{line}");
    }
}

#[test]
fn drives_side_by_side_are_used_to_their_last_page() {
    for drives in [2, 3, 5] {
        let mut setup = setup(small());
        (setup.cache_mut().drives, setup.clients, setup.depth) = (drives, 4, 8);
        // Stripes that do not divide a drive: the rest of each is not part of the volume.
        setup.cache_mut().spread.stripe_pages = 5;
        let bytes = crate::support::volume_bytes(&setup);
        assert!(bytes < u64::from(drives) * setup.cache().drive.namespace_pages() * 4096);
        let mut requests = crooked(&mut Seed(9).rng(), 1_500, bytes);
        requests.push(Request::new(Op::Write, bytes - 4096, 4096));
        requests.push(Request::new(Op::Read, bytes - 8192, 8192));
        run_all(&setup, &planned(&listed(&requests), &setup));
    }
}

#[test]
fn drives_with_redundancy_serve_every_design_whose_cache_is_the_hosts() {
    for (layout, drives) in [(ArrayLayout::Raid5, 4), (ArrayLayout::Raid10, 4)] {
        let mut setup = setup(small());
        (setup.cache_mut().drives, setup.clients, setup.depth) = (drives, 4, 8);
        setup.cache_mut().spread = Spread {
            level: layout.into(),
            stripe_pages: 5,
            has_array_driver: false,
        };
        let bytes = crate::support::volume_bytes(&setup);
        let requests = crooked(&mut Seed(10).rng(), 1_500, bytes);
        let plan = planned(&listed(&requests), &setup);
        let hosts = |name: &str| !["scala", "hardware"].contains(&name);
        let done = run_those(&setup, &plan, hosts);
        let again = run_those(&setup, &plan, hosts).without_wall_clock();
        assert_eq!(done.without_wall_clock(), again, "{layout:?}");
        for row in &done.rows {
            let has_tree = ["kernel", "falcon", "kernel-dflush", "scale", "scale-dflush"]
                .contains(&&*row.design);
            assert_eq!(
                row.gauge("index_nodes").is_some_and(|n| n > 0.0),
                has_tree,
                "{}",
                row.design
            );
        }
        let refused = try_run::<Scala>(&setup, &plan).map(drop).unwrap_err();
        assert!(
            refused.to_string().contains("use layout raid0"),
            "{refused}"
        );
    }
}

/// The one client that makes requests has all its pages only if it gets most of the cache.
#[test]
fn a_client_has_the_share_of_the_cache_that_it_is_given() {
    let spec = spec(Pattern::Uniform, 4_000, 200 * 4096);
    let hits = |shares: &str| {
        let mut setup = setup(small());
        (setup.clients, setup.depth) = (2, 4);
        let shares = shares.parse().expect("weights");
        setup.host.design.set::<Scala>(&ScalaConfig {
            shares,
            ..ScalaConfig::default()
        });
        let plan = planned_by(&generated(spec.clone()), &setup, ClientRule::Stream);
        let row = run::<Scala>(&setup, &plan);
        row.no_command_hit_ratio.expect("it has a cache")
    };
    let [most, equal, least] = ["7,1", "equal", "1,7"].map(hits);
    assert_eq!(hits("1"), equal);
    assert!(most > 0.9 && equal < 0.75, "{most}, {equal}, {least}");
    assert!(least < equal / 2.0, "{most}, {equal}, {least}");
}

#[test]
fn write_through_writes_more_and_caches_as_well() {
    let mut setup = setup(small());
    setup.prepare = Prepare::Empty;
    let plan = planned(
        &generated(spec(Pattern::Zipf { theta: 0.9 }, 5_000, 4 << 20)),
        &setup,
    );
    let back = run_all(&setup, &plan);
    setup.host.write_policy = WritePolicy::Through;
    let through = run_all(&setup, &plan);
    assert_eq!(back.rows[1].hit_ratio, through.rows[1].hit_ratio);
    assert!(through.rows[1].commands_per_io > back.rows[1].commands_per_io);
    assert_ne!(back.config_hash, through.config_hash);
}

/// Without preparation a second design would read what the first one wrote.
#[test]
fn every_design_begins_on_new_images_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("drive.img");
    let mut setup = setup(small());
    (setup.cache_mut().drives, setup.prepare) = (2, Prepare::Empty);
    setup.cache_mut().drive.media.kind = MediaKind::File;
    setup.cache_mut().drive.media.path = Some(path.clone());
    let requests = crooked(&mut Seed(10).rng(), 500, 2 << 20);
    let plan = planned(&listed(&requests), &setup);
    run_all(&setup, &plan);
    let left = std::fs::read_dir(directory.path())
        .expect("a directory")
        .count();
    assert_eq!(left, 0, "images stay behind");
    // A file that is there already is not the run's to change.
    let other = directory.path().join("drive.img.1");
    std::fs::write(&other, "precious").expect("a file");
    let error = try_run::<Direct>(&setup, &plan).expect_err("an image is in the way");
    let advice =
        "exists: each design runs on a new image there, so remove it or give another media.path";
    assert_eq!(error.to_string(), format!("{} {advice}", other.display()));
    assert_eq!(
        std::fs::read_to_string(&other).expect("it is there"),
        "precious"
    );
    assert!(!path.exists());
}
