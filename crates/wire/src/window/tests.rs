use wharf_runtime::{CostTable, Machine, Seed, Side};

use super::*;
use crate::dma::DmaSpace;

const PAGES: usize = 32;

fn times(mb_s: u64) -> Times {
    Times {
        load_ns: 240,
        to_host: Lane::new(mb_s),
        from_host: Lane::new(mb_s),
    }
}

fn window(mb_s: u64) -> Arc<Window> {
    let memory = DmaSpace::new(PAGE_BYTES).register(PAGES).expect("memory");
    Arc::new(Window::new(Arc::new(memory), times(mb_s)))
}

fn name(number: u64, page: u64) -> FilePage {
    FilePage { number, page }
}

fn on_cpu(test: impl FnOnce(&Cpu) + Send + 'static) {
    let mut machine = Machine::new(CostTable::free(), false);
    let id = machine.add_cpu("client", Side::Host, 1.0);
    machine.spawn_main(id, "test", |cpu| async move { test(&cpu) });
    machine.run_virtual(Seed(1)).expect("it ends");
}

#[test]
fn what_is_shown_can_be_loaded_and_what_is_hidden_cannot() {
    on_cpu(|cpu| {
        let window = window(0);
        let mut out = [0; 8];
        assert!(!window.load(cpu, name(7, 3), 0, &mut out), "nothing is");
        window.show(5, name(7, 3), 4096, false);
        assert!(window.load(cpu, name(7, 3), 100, &mut out) && out == [0; 8]);
        assert!(!window.load(cpu, name(7, 4), 100, &mut out));
        assert!(!window.load(cpu, name(8, 3), 100, &mut out));
        assert!(!window.store(cpu, name(7, 3), 100, &[1; 8]), "not to store");
        window.show(5, name(7, 3), 4096, true);
        assert!(window.store(cpu, name(7, 3), 100, &[1; 8]));
        assert!(window.load(cpu, name(7, 3), 102, &mut out));
        assert_eq!(out, [1, 1, 1, 1, 1, 1, 0, 0]);
        window.hide(5);
        assert!(!window.load(cpu, name(7, 3), 100, &mut out));
        assert!(!window.store(cpu, name(7, 3), 100, &[2; 8]));
        // The same memory has another page then.
        window.show(5, name(7, 9), 4096, false);
        assert!(!window.load(cpu, name(7, 3), 100, &mut out));
        assert!(window.load(cpu, name(7, 9), 100, &mut out));
        window.close();
        assert!(!window.load(cpu, name(7, 9), 100, &mut out));
    });
}

/// Behind the end of a file nothing is stored, and what is there is nobody's to see.
#[test]
fn a_page_ends_where_its_file_does() {
    on_cpu(|cpu| {
        let window = window(0);
        let mut out = [0; 16];
        window.show(0, name(1, 0), 100, true);
        assert!(window.load(cpu, name(1, 0), 84, &mut out));
        assert!(!window.load(cpu, name(1, 0), 85, &mut out));
        assert!(window.store(cpu, name(1, 0), 99, &[1]));
        assert!(!window.store(cpu, name(1, 0), 100, &[1]));
        window.show(0, name(1, 0), 200, false);
        assert!(window.store(cpu, name(1, 0), 184, &out), "it has grown");
        assert!(!window.store(cpu, name(1, 0), 185, &out));
    });
}

#[test]
fn what_was_stored_is_told_once() {
    on_cpu(|cpu| {
        let window = window(0);
        for slot in [0, 3, 31] {
            window.show(slot, name(1, slot.into()), 4096, true);
        }
        let told = |window: &Window| {
            let mut all = Vec::new();
            window.take_stored(|slot| all.push(slot));
            all
        };
        let before = window.stores();
        assert!(told(&window).is_empty());
        for page in [31, 3, 31] {
            assert!(window.store(cpu, name(1, page), 0, &[1]));
        }
        assert_eq!(window.stores(), before + 2, "once until it is told");
        assert_eq!(told(&window), [3, 31]);
        assert!(told(&window).is_empty() && window.stores() == before + 2);
        assert!(window.store(cpu, name(1, 3), 0, &[1]));
        window.hide(3);
        assert_eq!((told(&window), window.stores()), (vec![3], before + 3));
    });
}

/// As many pages as there are find their places, by far the most of them.
#[test]
fn pages_are_found_when_all_are_shown() {
    on_cpu(|cpu| {
        let memory = DmaSpace::new(PAGE_BYTES).register(4_096).expect("memory");
        let window = Window::new(Arc::new(memory), times(0));
        let names =
            |round: u64| (0..4_096).map(move |slot| (slot, name(round, u64::from(slot) * 3)));
        for round in 0..4 {
            names(round).for_each(|(slot, name)| window.show(slot, name, 4096, false));
            let found = |(_, name): &(u32, FilePage)| window.load(cpu, *name, 0, &mut [0; 8]);
            let count = names(round).filter(found).count();
            assert!(count > 4_000, "{count} of 4,096");
            names(round).for_each(|(slot, _)| window.hide(slot));
            assert_eq!(names(round).filter(found).count(), 0);
        }
        assert!(
            window
                .lines
                .iter()
                .flatten()
                .all(|place| place.load(Ordering::Relaxed) == 0)
        );
    });
}

#[test]
fn lines_take_their_time_and_the_link_is_shared() {
    on_cpu(|cpu| {
        let window = window(0);
        window.show(0, name(1, 0), 4096, true);
        let took = |what: &dyn Fn()| {
            let begun_ns = cpu.now();
            what();
            cpu.now() - begun_ns
        };
        let load = |at: usize, count: usize| {
            took(&|| assert!(window.load(cpu, name(1, 0), at, &mut vec![0; count])))
        };
        let store = |at: usize, count: usize| {
            took(&|| assert!(window.store(cpu, name(1, 0), at, &vec![0; count])))
        };
        // 48 lines are under way at once.
        assert_eq!(
            [load(0, 64), load(0, 8), load(60, 8), load(0, 4096)],
            [240, 240, 245, 555]
        );
        // What is stored in part is loaded before.
        assert_eq!(
            [store(0, 64), store(0, 8), store(60, 8), store(64, 128)],
            [240, 480, 490, 245]
        );
        let slow = window_of_gb(1);
        let took = took(&|| assert!(slow.load(cpu, name(1, 0), 0, &mut [0; 4096])));
        assert_eq!(
            took,
            64 * 80 + 240,
            "80 bytes a line at one byte a nanosecond"
        );
        let (to_host, from_host) = (&slow.times.to_host, &slow.times.from_host);
        assert_eq!(
            to_host.bytes(),
            64 * 80 + 80,
            "and what says that it is shown"
        );
        assert_eq!(from_host.bytes(), 64 * 16);
    });
}

fn window_of_gb(gb_s: u64) -> Arc<Window> {
    let window = window(gb_s * 1_000);
    window.show(0, name(1, 0), 4096, false);
    window
}

/// Runs this on a CPU of the calling thread, in real time.
fn on_thread<T: 'static>(work: impl FnOnce(&Cpu) -> T + Send + 'static) -> T {
    let mut machine = Machine::new(CostTable::free(), false);
    let id = machine.add_cpu("client", Side::Host, 1.0);
    machine
        .inline()
        .block_on(id, |cpu| async move { work(&cpu) })
}

/// Who stores has the page alone, so nobody loads half of what was stored, and the drive hides it between two of them.
#[test]
#[allow(clippy::disallowed_methods)] // threads are what is tested
fn threads_see_whole_stores() {
    let window = window(0);
    let page = name(1, 0);
    window.show(0, page, 4096, true);
    let writers: Vec<_> = (1..=2_u8)
        .map(|value| {
            let window = window.clone();
            let store = move |cpu: &Cpu| {
                let data = |round: u32| [value.wrapping_add(round as u8); 512];
                let stores = (0..2_000).map(|round| window.store(cpu, page, 256, &data(round)));
                stores.filter(|is_stored| *is_stored).count()
            };
            std::thread::spawn(move || on_thread(store))
        })
        .collect();
    let drive = {
        let window = window.clone();
        std::thread::spawn(move || {
            for _ in 0..200 {
                window.hide(0);
                window.show(0, page, 4096, true);
                drop(window.hold(0));
            }
        })
    };
    let loaded = on_thread(move |cpu| {
        let mut out = [0; 512];
        let loads = (0..2_000).filter(|_| {
            let is_there = window.load(cpu, page, 256, &mut out);
            assert!(out.iter().all(|byte| *byte == out[0]), "half of a store");
            is_there
        });
        loads.count()
    });
    drive.join().expect("it ends");
    let stored = writers.into_iter().map(|one| one.join().expect("it ends"));
    assert!(loaded > 0 && stored.sum::<usize>() > 0);
}
