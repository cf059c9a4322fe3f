//! Who flushes, and when.

use super::*;

#[test]
fn neighbours_are_written_back_together_in_whatever_order_they_were_written() {
    page_cache::writes_neighbours_together::<Scale<Whole>>();
}

/// Without a background flusher at all, writers keep the dirty pages below the hard threshold;
/// every one of them takes part.
fn writers_flush<V: Variant>() {
    let (clients, tasks) = (4, 4);
    let (mut rig, design) = rig::<Scale<V>>(stamps(clients, 100_000), 4_000, false);
    for index in 0..clients {
        let shared = design.clone();
        rig.spawn_client(index, &design, move |cpu, client| async move {
            for task in 0..tasks {
                let (client, shared) = (client.clone(), shared.clone());
                let rng = Seed(index.into()).index(task).rng();
                cpu.spawn_main("writer", async move {
                    scatter(client.clone(), rng, 1_500).await;
                    let limits = shared.shared().limits;
                    let more = u64::from(clients) * tasks * limits.dirty_step;
                    let unwritten = shared.shared().unwritten();
                    assert!(unwritten <= limits.dirty_hard + more, "{unwritten}");
                    let written = client.statistics().write_backs;
                    assert!(written > 500, "client {index} wrote {written} pages back");
                });
            }
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn writers_above_the_hard_threshold_flush_side_by_side() {
    writers_flush::<Whole>();
    writers_flush::<DflushAlone>();
}

/// Four clients dirty more than may be, beside the flusher; gives how long they took, in nanoseconds, and the
/// pages that they wrote back themselves.
fn crowd(balance: Balance, seed: Seed) -> (u64, u64) {
    let fate = |drive: u32| healthy(Seed(9).index(drive.into()).rng());
    let mut rig = Rig::with_services(stamps(4, 100_000), 1, fate);
    let design: Arc<Scale<Whole>> = rig.design_told(
        of_frames(4_000),
        &ScaleConfig {
            dflush: balance,
            ..ScaleConfig::default()
        },
    );
    rig.spawn_services(&design);
    let (end_ns, written) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for index in 0..4 {
        let (shared, end_ns, written) = (design.clone(), end_ns.clone(), written.clone());
        rig.spawn_client(index, &design, move |cpu, client| async move {
            scatter(client.clone(), seed.index(index.into()).rng(), 3_000).await;
            let background = shared.shared().common.background_written.load(Relaxed);
            let by_all = client.statistics().write_backs;
            let own = by_all - if index == 0 { background } else { 0 };
            written.fetch_add(own, Relaxed);
            end_ns.fetch_max(cpu.now(), Relaxed);
            let limits = shared.shared().limits;
            let unwritten = shared.shared().unwritten();
            assert!(
                unwritten <= limits.dirty_hard + 4 * limits.dirty_step,
                "{unwritten}"
            );
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
    (end_ns.load(Relaxed), written.load(Relaxed))
}

#[test]
fn writers_that_flush_end_before_those_that_sleep() {
    // Those who sleep first are woken by the first write that ends. Over 40 seeds they were 0.5 %
    // ahead of those who do not sleep at all; seed by seed, and with other costs, either may be
    // first.
    let mut sums_ns = [0; 3];
    for seed in 0..8 {
        let ran = [
            crowd(Balance::Flush, Seed(seed)),
            crowd(Balance::SleepThenFlush, Seed(seed)),
            crowd(Balance::Sleep, Seed(seed)),
        ];
        let [by_flush, by_first, by_sleep] = ran.map(|(_, written)| written);
        assert!(
            by_flush > 0 && by_first > 0,
            "{by_flush} and {by_first} pages"
        );
        assert_eq!(by_sleep, 0, "who sleeps writes nothing");
        for (sum_ns, (took_ns, _)) in sums_ns.iter_mut().zip(ran) {
            *sum_ns += took_ns;
        }
    }
    let [flush_ns, first_ns, sleep_ns] = sums_ns;
    assert!(5 * flush_ns.max(first_ns) < 3 * sleep_ns, "{sums_ns:?} ns");
    assert!(
        33 * flush_ns.abs_diff(first_ns) < flush_ns,
        "within 3 %: {sums_ns:?} ns"
    );
}

/// A writer flushed a few pages at a time, and waited for them, where the published code takes a file as a whole and does not
/// wait: one request in so many pages was as slow as the drive.
#[test]
fn a_writer_that_flushes_files_flushes_rarely_and_down_to_the_background_threshold() {
    let fate = |drive: u32| healthy(Seed(9).index(drive.into()).rng());
    let mut rig = Rig::with_services(stamps(1, 100_000), 0, fate);
    let design: Arc<Scale<Whole>> = rig.design_told(
        DesignConfig {
            files: 4,
            ..of_frames(4_000)
        },
        &ScaleConfig {
            dflush: Balance::FlushFiles,
            ..ScaleConfig::default()
        },
    );
    let shared = design.clone();
    rig.spawn_client(0, &design, move |_, client| async move {
        let limits = shared.shared().limits;
        let (mut flushes, mut least) = (0, u64::MAX);
        for page in 0..3_000 {
            let before = shared.shared().dirty.get();
            // Neighbours would be one request.
            write(&*client, 33 * page, 1).await.unwrap();
            let after = shared.shared().dirty.get();
            if after < before {
                flushes += 1;
                least = least.min(after);
            }
        }
        assert!(
            (1..=3_000 / limits.dirty_background).contains(&flushes),
            "{flushes} times"
        );
        assert!(least <= limits.dirty_background, "{least} pages are dirty");
        client.flush().await.unwrap();
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn the_background_flusher_writes_down_to_its_threshold() {
    let (mut rig, design) = rig::<Scale<Whole>>(stamps(1, 100_000), 4_000, true);
    let shared = design.clone();
    rig.spawn_client(0, &design, move |cpu, client| async move {
        // More than the background threshold of 400, less than the hard one of 800.
        for page in 0..600 {
            write(&*client, 5 * page, 1).await.unwrap();
        }
        cpu.sleep_until(cpu.now() + 1_000_000_000).await;
        let dirty = shared.shared().dirty.get();
        assert!((300..=400).contains(&dirty), "{dirty} pages are dirty");
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

/// Write-back fails while the drive refuses writes: the flush says so, the pages stay dirty, and
/// the next flush writes them.
#[test]
fn a_failed_write_back_is_reported_and_its_pages_stay_dirty() {
    let shape = stamps(1, 1_000);
    let mut failures_left = 4;
    let fate = move |_: u64, command: &Command| match command.io_opcode() {
        Some(IoOpcode::Write) if failures_left > 0 => {
            failures_left -= 1;
            Fate::Failed(StatusCode::WriteFault, 1_000)
        }
        _ => Fate::Done(1_000),
    };
    let mut rig = Rig::new(shape, |_| fate);
    let design: Arc<Scale<Whole>> = rig.design(of_frames(100));
    let (store, shared) = (rig.stores[0].clone(), design.clone());
    rig.spawn_client(0, &design, move |cpu, client| async move {
        write(&*client, 3, 2).await.unwrap();
        let mut failed = 0;
        while client.flush().await.is_err() {
            failed += 1;
            assert_eq!(
                shared.shared().verify(&cpu),
                2,
                "both pages are dirty still"
            );
        }
        assert!(failed > 0, "a drive that refuses writes fails a flush");
        assert_eq!(shared.shared().verify(&cpu), 0);
        assert_eq!(store.page(4), Some(vec![7; 8]));
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}
