//! Which messages and commands requests take.

use super::*;

#[test]
fn requests_fall_apart_into_a_command_for_each_page_unless_there_is_one_manager() {
    // A manager alone makes one command of what it finds at a time: of each message at worst.
    for (managers, commands) in [(1, 1..=6), (2, 16..=16), (3, 16..=16), (4, 16..=16)] {
        let (mut rig, design) = rig::<Tri>(stamps(1), cache(256), &managed_by(managers));
        rig.spawn_client(0, &design, |_, client| async move {
            assert_eq!(read(&*client, 32, 16).await, 0);
            assert_eq!(read(&*client, 32, 16).await, 16);
        });
        let store = rig.stores[0].clone();
        rig.machine.run_virtual(Seed(1)).unwrap();
        let found = store.count(IoOpcode::Read);
        assert!(commands.contains(&found), "{managers} managers: {found}");
    }
}

#[test]
fn a_page_that_a_client_holds_takes_no_message() {
    let messages = |rounds: u64| {
        let (mut rig, design) = rig::<Tri>(stamps(1), cache(256), &managed_by(2));
        rig.spawn_client(0, &design, move |_, client| async move {
            read(&*client, 0, 6).await;
            for _ in 0..rounds {
                assert_eq!(read(&*client, 0, 6).await, 6);
                write(&*client, 0, 6, 7).await;
            }
            assert!(ns(&*client, "manager_wait") > 0);
            assert_eq!(client.gauges().get("manager_asks"), Some(Amount::Count(6)));
            // The mock takes its time over each read; managers had the requests meanwhile.
            assert!(ns(&*client, "manager_held") > 6 * 1_000);
            assert_eq!(client.open_tickets(), 0);
        });
        let summary = rig.machine.run_virtual(Seed(1)).unwrap();
        count(&summary, "client", Op::MessageSend) + count(&summary, "service", Op::MessageSend)
    };
    // Three pins of each of two managers in a message each; at worst an answer for every page.
    let asked = messages(0);
    assert!((4..=8).contains(&asked), "{asked} messages");
    assert_eq!(messages(100), asked);
}

#[test]
fn a_page_that_another_client_holds_is_pinned_without_an_answer() {
    let (mut rig, design) = rig::<Tri>(stamps(2), cache(256), &managed_by(1));
    let read_by_first = Arc::new(AtomicBool::new(false));
    let is_read = read_by_first.clone();
    rig.spawn_client(0, &design, move |_, client: Rc<TriClient>| async move {
        write(&*client, 5, 1, 9).await;
        is_read.store(true, Ordering::Relaxed);
    });
    rig.spawn_client(1, &design, move |cpu, client: Rc<TriClient>| async move {
        while !read_by_first.load(Ordering::Relaxed) {
            cpu.sleep_until(cpu.now() + 1_000).await;
        }
        let mut out = [0; 8];
        let touch = client.read(Extent::of_pages(5, 1), &mut out).await.unwrap();
        assert_eq!((touch.hits, out), (1, [9; 8]));
        assert_eq!(ns(&*client, "manager_wait"), 0);
    });
    let store = rig.stores[0].clone();
    let summary = rig.machine.run_virtual(Seed(1)).unwrap();
    assert_eq!(count(&summary, "client1", Op::MessageSend), 0);
    assert_eq!(count(&summary, "client1", Op::MessageReceive), 0);
    // A page that is written whole is not read first.
    assert!(store.seen().is_empty());
}

/// What is written whole is not read, unless the published code is asked for: it makes a command of every
/// page that is not in the cache.
#[test]
fn overwritten_pages_are_read_first_where_that_is_asked_for() {
    for (reads_before_overwrite, reads) in [(false, 0), (true, 16)] {
        let own = TriConfig {
            reads_before_overwrite,
            ..managed_by(2)
        };
        let (mut rig, design) = rig::<Tri>(stamps(1), cache(256), &own);
        let store = rig.stores[0].clone();
        rig.spawn_client(0, &design, move |_, client| async move {
            write(&*client, 32, 16, 1).await;
            assert_eq!(store.count(IoOpcode::Read), reads);
            // Pages that are there are read in neither way.
            write(&*client, 32, 16, 2).await;
            assert_eq!(read(&*client, 32, 16).await, 16);
            client.flush().await.unwrap();
            assert_eq!(store.count(IoOpcode::Read), reads);
            for page in 32..48 {
                assert_eq!(store.page(page).unwrap(), [2; 8]);
            }
        });
        rig.machine.run_virtual(Seed(1)).unwrap();
    }
}

/// A manager that waits for the drive polls its queue pairs all the time; one that waits for messages alone
/// does not. The first was accounted like the second, and a manager's engine cost next to nothing.
#[test]
fn empty_polls_of_queue_pairs_counted_for_nothing() {
    const IO_NS: u64 = 1_000_000;
    let fate = |_: u32| |_: u64, _: &Command| Fate::Done(IO_NS);
    let mut rig = Rig::with_services(stamps(1), 1, fate);
    let design: Arc<Tri> = rig.design_told(cache(256), &managed_by(1));
    rig.spawn_services(&design);
    rig.spawn_client(0, &design, |cpu: Cpu, client: Rc<TriClient>| async move {
        let polled_ns = || ns(&*client, "manager_poll");
        for pages in 1..4 {
            read(&*client, pages * 100, 1).await;
            let all_ns = pages * IO_NS;
            assert!(
                (all_ns * 9 / 10..=all_ns).contains(&polled_ns()),
                "{pages} pages"
            );
        }
        // What a client holds, and time without any request, takes no command.
        let before_ns = polled_ns();
        read(&*client, 100, 1).await;
        cpu.sleep_until(cpu.now() + 10 * IO_NS).await;
        read(&*client, 100, 1).await;
        assert_eq!(polled_ns(), before_ns);
        read(&*client, 900, 1).await;
        assert!(polled_ns() <= before_ns + IO_NS);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}
