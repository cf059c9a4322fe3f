//! Which pages a miss brings and which leave, by which commands.

use super::*;

#[test]
fn missing_pages_of_a_request_take_one_command_for_each_drive() {
    let mut rig = rig(shape(1, 2, 2));
    let design: Arc<Scala> = rig.design(cache(64));
    rig.spawn_client(0, &design, |_, client| async move {
        let mut out = vec![0; 24 * PAGE as usize];
        // Holes among the pages, then pages that must leave for others.
        for (first, pages) in [(2, 1), (9, 3), (0, 24), (100, 24), (200, 24)] {
            let payload = &mut out[..(pages * PAGE) as usize];
            let extent = Extent::of_pages(first, pages);
            client.read(extent, payload).await.unwrap();
        }
        assert!(client.statistics().evictions > 0);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    for drive in &rig.pinning {
        let seen = drive.seen();
        let pins = |c: &&Command| c.io_opcode() == Some(IoOpcode::Pin);
        assert_eq!(seen.iter().filter(pins).count(), seen.len());
        // The first two requests may be on one drive alone.
        assert!((3..=5).contains(&seen.len()), "{}", seen.len());
    }
}

#[test]
fn clean_pages_leave_first_while_a_drive_says_that_it_collects() {
    for gc_aware in [false, true] {
        let mut rig = rig(shape(1, 1, 1));
        let design: Arc<Scala> = rig.design_told(
            cache(32),
            &ScalaConfig {
                gc_aware,
                ..ScalaConfig::default()
            },
        );
        let state = rig.pinning[0].clone();
        rig.spawn_client(0, &design, move |_, client| async move {
            for page in 0..16 {
                write_page(&client, page, 1).await;
            }
            for page in 16..32 {
                read_page(&client, page).await;
            }
            state.collects.store(true, Ordering::Relaxed);
            // The drive says so in the answer to the next command.
            read_page(&client, 100).await;
            let before = client.statistics().write_backs;
            for page in 101..112 {
                read_page(&client, page).await;
            }
            let dirty = client.statistics().write_backs - before;
            assert_eq!(dirty, if gc_aware { 0 } else { 11 });
        });
        rig.machine.run_virtual(Seed(1)).unwrap();
    }
}

/// Every miss had the hand go round all dirty pages until it met the request's own slot: then that
/// one page was fetched, and the hand set out again.
#[test]
fn a_request_went_page_by_page_while_a_drive_collected_and_all_pages_were_dirty() {
    let mut rig = rig(shape(1, 1, 1));
    let design: Arc<Scala> = rig.design(cache(32));
    let state = rig.pinning[0].clone();
    let seen = state.clone();
    rig.spawn_client(0, &design, move |_, client| async move {
        state.collects.store(true, Ordering::Relaxed);
        for page in 0..32 {
            write_page(&client, page, 1).await;
        }
        let mut out = [0; 8 * PAGE as usize];
        client
            .read(Extent::of_pages(100, 8), &mut out)
            .await
            .unwrap();
        assert_eq!(client.statistics().write_backs, 8);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    assert_eq!(seen.seen().len(), 32 + 1, "one command for eight pages");
}

/// A page that was being fetched for another task ended the command that came before it, and what
/// followed was asked for when that had been answered.
#[test]
fn pages_on_their_way_to_another_task_cut_a_request_into_commands() {
    let fate = |_: u64, _: &Command| Fate::Done(1_000_000);
    let mut rig = Rig::new(shape(1, 1, 1), |_| fate);
    let design: Arc<Scala> = rig.design(cache(32));
    let state = rig.pinning[0].clone();
    rig.spawn_client(0, &design, move |cpu, client| async move {
        for (page, begins_ns) in [(2, 0), (5, 800_000)] {
            let (cpu, client) = (cpu.clone(), client.clone());
            cpu.clone().spawn_main("other", async move {
                cpu.sleep_until(begins_ns).await;
                read_page(&client, page).await;
            });
        }
        cpu.sleep_until(900_000).await;
        let mut out = [0; 8 * PAGE as usize];
        let read = client.read(Extent::of_pages(0, 8), &mut out);
        assert_eq!(read.await.unwrap().hits, 2);
        assert!(cpu.now() < 2_000_000, "{}", cpu.now());
        client.verify();
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    assert_eq!(state.seen().len(), 3);
}

/// Announcements are counted by hash, and every overwrite of a page that a client does not hold
/// makes one: a reader of such a page waited for all of them, though the page was there.
#[test]
fn a_reader_of_a_page_in_a_frame_waited_for_who_was_about_to_overwrite_it() {
    let fate = |_: u64, command: &Command| match command.access() {
        Ok(Access::Overwrite) => Fate::Done(2_000_000),
        _ => Fate::Done(100_000),
    };
    let mut rig = Rig::new(shape(3, 1, 1), |_| fate);
    let design: Arc<Scala> = rig.design(cache(30));
    rig.stores[0].set_page(5, &[1; PAGE as usize]);
    rig.spawn_client(0, &design, |_, client| async move {
        assert_eq!(read_page(&client, 5).await, 1);
    });
    rig.spawn_client(1, &design, |cpu, client| async move {
        cpu.sleep_until(1_000_000).await;
        write_page(&client, 5, 2).await;
    });
    rig.spawn_client(2, &design, |cpu, client| async move {
        cpu.sleep_until(1_100_000).await;
        assert_eq!(read_page(&client, 5).await, 1);
        assert!(cpu.now() < 1_300_000, "{}", cpu.now());
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}
