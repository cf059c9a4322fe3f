//! Guards.

use super::*;

#[test]
fn guards_keep_their_pages_and_write_in_place() {
    let drive = alone(8, |_, client| async move {
        write_page(&client, 5, 9).await;
        let guard = client.try_pin(5, Intent::Read).unwrap();
        assert_eq!(guard.try_get::<u16>(4094), Some(0x0909));
        let frame = client.frame_of(5);
        for page in 10..40 {
            read_page(&client, page).await;
        }
        assert_eq!(client.frame_of(5), frame);
        drop(guard);
        assert!(client.try_pin(1_000, Intent::Read).is_none());
        {
            let mut guards = client.pin(50..54, Intent::Write).await.unwrap();
            assert_eq!(guards.iter().map(|g| g.page()).sum::<u64>(), 206);
            guards[1].write(100, &[1, 2, 3]);
            // SAFETY: nobody else uses the page.
            unsafe { guards[2].as_mut_slice() }.fill(8);
            let again = client.pin(49..52, Intent::Write).await.err().unwrap();
            assert_eq!(again, IoError::Guarded { page: 50 });
            assert!(client.try_pin(53, Intent::Write).is_none());
            // Requests of the client itself are not kept waiting.
            write_page(&client, 53, 4).await;
            assert_eq!(read_page(&client, 53).await, 4);
        }
        client.flush().await.unwrap();
        for page in 60..100 {
            read_page(&client, page).await;
        }
        assert_eq!(read_page(&client, 52).await, 8);
        let guards = client.pin(51..52, Intent::Read).await.unwrap();
        let mut bytes = [0; 5];
        guards[0].read(99, &mut bytes).await.unwrap();
        assert_eq!(bytes, [0, 1, 2, 3, 0]);
        drop(guards);
        client.release_all().await.unwrap();
    });
    assert_eq!(drive.references(), 0);
    assert_eq!(drive.store.page(53).unwrap()[0], 4);
}

#[test]
fn guards_that_fill_the_share_are_an_error_that_names_it() {
    alone(8, |_, client| async move {
        let guards = client.pin(0..8, Intent::Read).await.unwrap();
        let error = client.pin(8..9, Intent::Read).await.err().unwrap();
        assert_eq!(error, IoError::NoRoom { page: 8, pages: 8 });
        drop(guards);
        assert!(client.pin(8..9, Intent::Read).await.is_ok());
        let error = client.pin(20..40, Intent::Read).await.err().unwrap();
        assert!(matches!(error, IoError::NoRoom { pages: 8, .. }));
        let beyond = client.pin(4_999..5_001, Intent::Read).await.err().unwrap();
        assert!(matches!(beyond, IoError::OutOfRange { .. }));
        assert!(client.release_all().await.unwrap() > 0);
    });
}

#[test]
fn a_request_waits_for_a_guard_of_another_task_and_of_another_client() {
    let mut rig = rig(shape(2, 1, 1));
    let design: Arc<Scala> = rig.design(cache(16));
    let ends = Arc::new(AtomicU64::new(0));
    let ends_too = ends.clone();
    rig.spawn_client(0, &design, move |cpu, client| async move {
        let holder = client.clone();
        let (holder_cpu, ends) = (cpu.clone(), ends_too.clone());
        cpu.spawn_main("holder", async move {
            let mut guards = holder.pin(0..8, Intent::Write).await.unwrap();
            holder_cpu.sleep_until(4_000_000).await;
            guards[0].write(17, &[5]);
            ends.fetch_add(1, Ordering::Relaxed);
        });
        cpu.sleep_until(1_000_000).await;
        // All eight slots of this client are pinned.
        read_page(&client, 100).await;
        assert!(cpu.now() >= 4_000_000);
        ends_too.fetch_add(1, Ordering::Relaxed);
    });
    let ends_too = ends.clone();
    rig.spawn_client(1, &design, move |cpu, client| async move {
        cpu.sleep_until(1_000_000).await;
        assert_eq!(read_page(&client, 0).await, 5);
        assert!(cpu.now() >= 4_000_000);
        ends_too.fetch_add(1, Ordering::Relaxed);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    assert_eq!(ends.load(Ordering::Relaxed), 3);
}

#[test]
fn guards_are_taken_in_order_so_nobody_waits_in_a_circle() {
    let mut rig = rig(shape(2, 1, 1));
    let design: Arc<Scala> = rig.design(cache(32));
    for index in 0..2 {
        rig.spawn_client(index, &design, move |cpu, client| async move {
            let mut out = [0; 8 * PAGE as usize];
            let read = client.read(Extent::of_pages(0, 8), &mut out);
            read.await.unwrap();
            cpu.sleep_until(1_000_000 + 1_000_000 * u64::from(index))
                .await;
            if index == 1 {
                // Waits for page 3, and must not have page 5 meanwhile.
                return drop(client.pin(2..7, Intent::Write).await.unwrap());
            }
            let first = client.pin(3..4, Intent::Write).await.unwrap();
            cpu.sleep_until(3_000_000).await;
            let second = client.pin(5..6, Intent::Write).await.unwrap();
            assert!(cpu.now() < 3_500_000, "{}", cpu.now());
            drop((first, second));
        });
    }
    rig.machine.run_virtual(Seed(1)).unwrap();
}

/// Who met a guard to write that was not dropped, or a word that said so, waited for ever.
#[test]
fn a_call_never_ended_while_another_client_kept_its_page() {
    let mut shape = shape(2, 1, 1);
    shape.driver.timeout_ns = 3_000_000;
    let mut rig = rig(shape);
    let design: Arc<Scala> = rig.design(cache(16));
    rig.spawn_client(0, &design, move |cpu, client| async move {
        let guards = client.pin(2..3, Intent::Write).await.unwrap();
        cpu.sleep_until(100_000_000).await;
        drop(guards);
    });
    rig.spawn_client(1, &design, move |cpu, client| async move {
        cpu.sleep_until(1_000_000).await;
        let in_use = IoError::InUse { page: 2 };
        let mut out = [0; 3 * PAGE as usize];
        // Missing, then held; among others, which are served.
        for _ in 0..2 {
            let begun_ns = cpu.now();
            let read = client.read(Extent::of_pages(1, 3), &mut out).await;
            assert_eq!(read.map(drop), Err(in_use));
            assert!((3_000_000..4_000_000).contains(&(cpu.now() - begun_ns)));
        }
        let written = client.write(Extent::of_pages(2, 1), &out[..PAGE as usize]);
        assert_eq!(written.await.map(drop), Err(in_use));
        assert_eq!(client.pin(2..3, Intent::Write).await.err(), Some(in_use));
        let guards = client.pin(2..3, Intent::Read).await.unwrap();
        assert_eq!(guards[0].read(0, &mut out[..9]).await, Err(in_use));
        drop(guards);
        client.verify();
        assert_eq!(read_page(&client, 1).await, 0);
        cpu.sleep_until(100_000_001).await;
        write_page(&client, 2, 3).await;
        assert_eq!(read_page(&client, 2).await, 3);
        client.release_all().await.unwrap();
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}
