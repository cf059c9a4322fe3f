//! How near each profile comes to Table 2 of the ScalaCache paper, at 1/32 of its size with a cache of
//! 1/32 of 12 GiB; the full size is printed by `examples/profile_fit.rs`.

use wharf_workload::profiles::{Profile, TABLE_CACHE_BYTES};

const DIVISOR: u64 = 32;

/// Largest number of requests of a scaled-down run.
const REQUESTS_MAX: u64 = 200_000;

#[test]
fn profiles_come_near_the_table() {
    println!(
        "{:<10} requests  size KiB  hit ratio  randomness  reuse GiB (table / here)",
        ""
    );
    for profile in Profile::ALL {
        let table = profile.table;
        let requests = (table.requests / DIVISOR).min(REQUESTS_MAX);
        let fit = profile.measure(requests, 7).unwrap();
        let line = format!(
            "{:<10} {requests}  {:.2} / {:.2}  {:.2} / {:.3}  {:.2} / {:.3}  {:.2} / {:.3}",
            table.name,
            table.mean_kib,
            fit.mean_kib,
            table.hit_ratio,
            fit.hit_ratio,
            table.randomness,
            fit.randomness,
            table.reuse_gib,
            fit.reuse_gib
        );
        println!("{line}");
        let relative = |got: f64, want: f64| (got - want).abs() / want;
        assert!(relative(fit.mean_kib, table.mean_kib) < 0.02, "{line}");
        assert!((fit.hit_ratio - table.hit_ratio).abs() < 0.015, "{line}");
        assert!((fit.randomness - table.randomness).abs() < 0.01, "{line}");
        assert!(relative(fit.reuse_gib, table.reuse_gib) < 0.12, "{line}");
        assert!(
            (fit.write_share - profile.write_share).abs() < 0.03,
            "{line}"
        );
    }
}

#[test]
fn the_table_is_consistent_in_itself_and_with_the_sizes() {
    for profile in Profile::ALL {
        let table = profile.table;
        // Requests times mean size is the data size, up to the rounding of the paper (0.33 Mops has two
        // digits).
        let data_gib = table.requests as f64 * table.mean_kib / (1u64 << 20) as f64;
        assert!(
            (data_gib / table.data_gib - 1.0).abs() < 0.005,
            "{}: {data_gib}",
            table.name
        );
        let weights: u64 = profile.sizes.iter().map(|size| size.1).sum();
        let sum: f64 = profile
            .sizes
            .iter()
            .map(|&(size, w)| f64::from(size) * w as f64)
            .sum();
        let mean_kib = sum / weights as f64 / 1024.0;
        assert!(
            (mean_kib - table.mean_kib).abs() < 0.005,
            "{}: {mean_kib}",
            table.name
        );
        assert_eq!(profile.cache_bytes(table.requests), TABLE_CACHE_BYTES);
    }
}

#[test]
fn requests_stay_in_the_footprint_whatever_is_asked() {
    for profile in Profile::ALL {
        for (requests, footprint) in [(1, None), (1000, Some(8 << 20)), (5000, Some(1 << 40))] {
            let generator = profile.generator(Some(requests), footprint, 3).unwrap();
            let end = generator.footprint_bytes();
            assert!(footprint.is_none_or(|footprint| end <= footprint));
            assert_eq!(generator.clone().count() as u64, requests);
            assert!(generator.into_iter().all(|request| request.end() <= end));
        }
    }
}
