//! Drives that answer late, and flushes.

use super::*;

/// A drive that answers its first read after `late_ns`, and all other commands soon; the driver waits
/// for 100 us.
fn rig_with_a_late_read(clients: u32, frames: u64, late_ns: u64) -> (Rig, Arc<Tri>) {
    let mut shape = stamps(clients);
    shape.driver.timeout_ns = 100_000;
    let mut first = true;
    let fate = move |_: u64, _: &Command| match std::mem::take(&mut first) {
        true => Fate::Done(late_ns),
        false => Fate::Done(10_000),
    };
    let mut rig = Rig::with_services(shape, 1, |_| fate);
    let design = rig.design_told(cache(frames), &managed_by(1));
    rig.spawn_services(&design);
    (rig, design)
}

#[test]
fn a_stuck_frame_fails_no_request_that_another_frame_can_serve() {
    const CLIENTS: u32 = 4;
    let (mut rig, design) = rig_with_a_late_read(CLIENTS, 3, 5_000_000);
    for index in 0..CLIENTS {
        rig.spawn_client(index, &design, move |cpu, client| async move {
            if index == 0 {
                let late = client.read(Extent::of_pages(0, 1), &mut [0; 8]).await;
                assert!(late.unwrap_err().is_timeout());
            }
            // All ask at a time when the drive has one of the three frames.
            cpu.sleep_until(200_000).await;
            for round in 0..20 {
                let first = 100 + (round * u64::from(CLIENTS) + u64::from(index)) * 4;
                read(&*client, first, 4).await;
            }
            assert!(cpu.now() < 5_000_000, "done before the drive answers");
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn requests_fail_while_every_frame_is_stuck_or_rests_with_a_client() {
    for frames in [1, 2] {
        let (mut rig, design) = rig_with_a_late_read(1, frames, 5_000_000);
        rig.spawn_client(0, &design, move |cpu, client| async move {
            let mut out = [0; 8];
            let late = client.read(Extent::of_pages(0, 1), &mut out).await;
            assert!(late.unwrap_err().is_timeout());
            // The last frame stays with the client.
            for page in 1..frames {
                assert_eq!(read(&*client, page, 1).await, 0);
            }
            let stuck = client.read(Extent::of_pages(10, 1), &mut out).await;
            assert!(matches!(stuck, Err(IoError::Stuck { page: 10 })));
            cpu.sleep_until(6_000_000).await;
            assert_eq!(read(&*client, 10, 1).await, 0);
        });
        rig.machine.run_virtual(Seed(1)).unwrap();
    }
}

#[test]
fn a_flush_writes_back_what_other_clients_hold() {
    let (mut rig, design) = rig::<Tri>(stamps(2), cache(256), &managed_by(2));
    let written = Arc::new(AtomicBool::new(false));
    let is_written = written.clone();
    let store = rig.stores[0].clone();
    let keep = Arc::new(AtomicBool::new(true));
    let hold = keep.clone();
    rig.spawn_client(0, &design, move |cpu, client: Rc<TriClient>| async move {
        write(&*client, 0, 8, 1).await;
        // Again, in pages that are there: only their versions tell.
        write(&*client, 0, 8, 2).await;
        is_written.store(true, Ordering::Relaxed);
        while hold.load(Ordering::Relaxed) {
            cpu.sleep_until(cpu.now() + 1_000).await;
        }
    });
    rig.spawn_client(1, &design, move |cpu, client: Rc<TriClient>| async move {
        while !written.load(Ordering::Relaxed) {
            cpu.sleep_until(cpu.now() + 1_000).await;
        }
        for _ in 0..2 {
            client.flush().await.unwrap();
            for page in 0..8 {
                assert_eq!(store.page(page).unwrap(), [2; 8]);
            }
            // The second flush finds nothing to write.
            assert_eq!(store.count(IoOpcode::Write), 8);
        }
        keep.store(false, Ordering::Relaxed);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

#[test]
fn write_through_is_on_the_drive_when_it_is_acknowledged() {
    let config = DesignConfig {
        write_policy: WritePolicy::Through,
        ..cache(64)
    };
    let (mut rig, design) = rig::<Tri>(stamps(1), config, &managed_by(2));
    let store = rig.stores[0].clone();
    rig.spawn_client(0, &design, move |_, client| async move {
        for value in 1..5 {
            write(&*client, 10, 5, value).await;
            for page in 10..15 {
                assert_eq!(store.page(page).unwrap(), [value; 8]);
            }
        }
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}
