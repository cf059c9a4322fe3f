//! Storage that fails.

use wharf_runtime::Seed;
use wharf_storage::faulty::Rates;

use crate::{PAGE, faulty, fill, small, stored};

#[test]
fn a_failed_write_back_reaches_the_next_sync_of_each_handle_once() {
    let (target, ram, _) = faulty(1);
    let cache = small(64);
    let file = cache.open_target(target.clone()).unwrap();
    let other = file.clone();
    file.write_all_at(&[7; 20_000], 100).unwrap();
    target.die();
    assert!(file.sync_all().is_err(), "the storage is dead");
    target.live();
    // The page stayed dirty: this sync writes it, and has nothing new to tell.
    file.sync_all().unwrap();
    assert!(stored(&ram)[100..20_100].iter().all(|byte| *byte == 7));
    let text = other.sync_all().unwrap_err().to_string();
    assert!(text.contains("write-backs failed"), "{text}");
    other.sync_all().unwrap();
}

#[test]
fn a_read_that_fails_is_told_and_tried_again() {
    let (target, _, _) = faulty(2);
    let cache = small(64);
    let file = cache.open_target(target.clone()).unwrap();
    target.die();
    let mut out = [1; 100];
    let text = file.read_exact_at(&mut out, 0).unwrap_err().to_string();
    assert!(text.contains("ram: read at byte 0 failed"), "{text}");
    target.live();
    file.read_exact_at(&mut out, 0).unwrap();
    assert_eq!(out, [0; 100]);
}

/// Random writes and reads while one I/O in thirty fails or ends late: what the cache said it took is read
/// back, and stored in the end.
#[test]
fn errors_of_storage_lose_nothing_that_was_taken() {
    for seed in 0..20 {
        println!("seed {seed}");
        let (target, ram, _) = faulty(seed);
        target.set_rates(Rates {
            read_errors_ppm: 30_000,
            write_errors_ppm: 30_000,
            delay_polls_max: 5,
        });
        let cache = small(16);
        let file = cache.open_target(target.clone()).unwrap();
        let mut rng = Seed(seed).child("writes").rng();
        let mut model = vec![0; 40 * PAGE];
        for step in 0..400 {
            // Within a page: it is then old or new as a whole.
            let page = rng.below(40) as usize;
            let at = page * PAGE + rng.below(4_000) as usize;
            let range = at..at + 1 + rng.below(90) as usize;
            let mut data = vec![0; range.len()];
            fill(&mut rng, &mut data);
            match rng.below(3) {
                0 if file.write_all_at(&data, at as u64).is_ok() => {
                    model[range].copy_from_slice(&data);
                }
                0 => {}
                1 => drop(file.sync_all()),
                _ if file.read_exact_at(&mut data, at as u64).is_ok() => {
                    assert!(data == model[range], "step {step}");
                }
                _ => {}
            }
        }
        target.set_rates(Rates::default());
        // The first one may tell of earlier failures.
        let _ = file.sync_all();
        file.sync_all().unwrap();
        assert!(stored(&ram) == model);
    }
}
