//! With one client at depth 1, `clock` hits and misses exactly as the textbook's CLOCK; and so does
//! `scala` on one drive of one core.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use common::{Rig, Shape};
use wharf_host::{Client, Clock, Design, DesignConfig, Extent, Scala, WritePolicy};
use wharf_runtime::Seed;
use wharf_wire::command::Command;
use wharf_wire::mock::Fate;

/// CLOCK as one finds it in a textbook.
struct Textbook {
    frames: Vec<Option<(u64, bool)>>,
    hand: usize,
    used: usize,
}

impl Textbook {
    fn new(frames: usize) -> Textbook {
        Textbook {
            frames: vec![None; frames],
            hand: 0,
            used: 0,
        }
    }

    /// Touches a page; true if it was there.
    fn touch(&mut self, page: u64) -> bool {
        for frame in self.frames.iter_mut().flatten() {
            if frame.0 == page {
                frame.1 = true;
                return true;
            }
        }
        if self.used < self.frames.len() {
            self.frames[self.used] = Some((page, false));
            self.used += 1;
            return false;
        }
        loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = self.frames[at].as_mut().unwrap();
            if !frame.1 {
                *frame = (page, false);
                return false;
            }
            frame.1 = false;
        }
    }
}

fn compare<D: Design>(seed: u64, pins: bool) {
    let mut rng = Seed(seed).child("textbook").rng();
    let frames = 1 + rng.below(64);
    let range = 1 + rng.below(frames * 3);
    let longest = [1, 2, 8, frames + 5][rng.below(4) as usize].min(range);
    let shape = Shape {
        page_bytes: 8,
        drives: if pins { 1 } else { 1 + rng.below(2) as u32 },
        pins,
        ..Shape::default()
    };
    let config = DesignConfig {
        cache_bytes: frames * 4096,
        write_policy: [WritePolicy::Back, WritePolicy::Through][rng.below(2) as usize],
        ..DesignConfig::default()
    };
    let mut rig = Rig::new(shape, |_| |_: u64, _: &Command| Fate::Done(5_000));
    let design: Arc<D> = rig.design(config);
    rig.spawn_client(0, &design, move |_, client| async move {
        let mut textbook = Textbook::new(frames as usize);
        let mut buffer = vec![0; longest as usize * 8];
        for request in 0..150 {
            let pages = 1 + rng.below(longest);
            let first = rng.below(range - pages + 1);
            // Not always whole pages, but never fewer of them.
            let cut = |rng: &mut wharf_runtime::Rng| {
                if rng.chance(1, 2) {
                    rng.below(2_000)
                } else {
                    0
                }
            };
            let (head, tail) = (cut(&mut rng), cut(&mut rng));
            let extent = Extent::new(first * 4096 + head, pages * 4096 - head - tail);
            let payload = &mut buffer[..pages as usize * 8];
            let touch = match rng.below(10) {
                0..5 => client.read(extent, payload).await,
                5..9 => client.write(extent, payload).await,
                _ => {
                    client.flush().await.unwrap();
                    continue;
                }
            };
            let hits = (first..first + pages)
                .filter(|&page| textbook.touch(page))
                .count();
            let touch = touch.unwrap();
            assert_eq!(
                (touch.pages, touch.hits),
                (pages, hits as u64),
                "seed {seed}, request {request}, {config:?}"
            );
        }
    });
    rig.machine.run_virtual(Seed(seed)).unwrap();
}

#[test]
fn hits_and_misses_are_those_of_the_textbook() {
    for seed in 0..4_000 {
        compare::<Clock>(seed, false);
    }
}

#[test]
fn hits_and_misses_of_scala_are_those_of_the_textbook() {
    for seed in 0..2_000 {
        compare::<Scala>(seed, true);
    }
}

#[test]
fn a_frame_costs_little_memory() {
    for frames in [100_000u64, 262_144, 1_000_000] {
        for clients in [1, 8] {
            let shape = Shape {
                page_bytes: 8,
                clients,
                ..Shape::default()
            };
            let mut rig = Rig::new(shape, |_| |_: u64, _: &Command| Fate::Done(1));
            let design: Arc<Clock> = rig.design(DesignConfig {
                cache_bytes: frames * 4096,
                ..DesignConfig::default()
            });
            let design_too = design.clone();
            rig.spawn_client(0, &design, move |cpu, _: Rc<_>| async move {
                let bytes = design_too.cache().bookkeeping_bytes(&cpu) as f64 / frames as f64;
                assert!(bytes <= 32.0, "{bytes} bytes a frame for {frames} frames");
            });
            rig.machine.run_virtual(Seed(1)).unwrap();
        }
    }
}

#[test]
fn the_real_engine_gives_the_same_hits() {
    let run = |real: bool| {
        let mut rig = Rig::new(
            Shape {
                page_bytes: 8,
                ..Shape::default()
            },
            |_| |_: u64, _: &Command| Fate::Done(0),
        );
        let design: Arc<Clock> = rig.design(DesignConfig {
            cache_bytes: 50 * 4096,
            ..DesignConfig::default()
        });
        let hits = Arc::new(std::sync::Mutex::new(Vec::new()));
        let result = hits.clone();
        rig.spawn_client(0, &design, move |_, client| async move {
            let mut rng = Seed(3).rng();
            let hits = RefCell::new(Vec::new());
            for _ in 0..2_000 {
                let extent = Extent::of_pages(rng.below(100), 1);
                let mut stamp = [1; 8];
                let touch = if rng.chance(1, 2) {
                    client.read(extent, &mut stamp).await
                } else {
                    client.write(extent, &stamp).await
                };
                hits.borrow_mut().push(touch.unwrap().hits);
            }
            *result.lock().unwrap() = hits.take();
        });
        if real {
            let client = rig.client_cpus[0];
            let inline = rig.machine.inline();
            while hits.lock().unwrap().is_empty() {
                inline.pass();
            }
            assert!(inline.cpu(client).now() > 0);
        } else {
            rig.machine.run_virtual(Seed(1)).unwrap();
        }
        Arc::try_unwrap(hits).unwrap().into_inner().unwrap()
    };
    let hits = run(true);
    assert_eq!(hits.len(), 2_000);
    assert_eq!(hits, run(false));
}
