use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use wharf_host::IoError;
use wharf_host::backing::{Backing, BackingError, FixedConfig, FixedStore, PlainStore, Sectors};
use wharf_runtime::{Cpu, Seed};

use crate::support::{
    Device, Loss, Model, Op, Power, Shape, contents_of, page, play, random_ops, run,
};

fn fixed(cpu: &Cpu, shape: &Shape, disk: &Device, unit_pages: u32) -> FixedStore<Device> {
    let config = FixedConfig { unit_pages };
    FixedStore::open(cpu, disk.clone(), shape.packer(), config).unwrap()
}

#[test]
fn units_hold_what_a_flat_vector_does_and_count_what_they_modify() {
    for (seed, unit_pages) in [(1, 4), (2, 8), (3, 16), (4, 32)] {
        for stamps in [false, true] {
            let shape = Shape {
                stamps,
                ..Shape::default()
            };
            run(move |cpu| async move {
                let disk = Device::new(2 * (u64::from(unit_pages) + 1) * 6, &Power::on());
                let store = fixed(&cpu, &shape, &disk, unit_pages);
                let pages = store.pages();
                assert_eq!(pages, 6 * u64::from(unit_pages));
                let model = Arc::new(Mutex::new(Model::new(pages)));
                let ops = random_ops(&mut Seed(seed).rng(), pages, 150);
                play(&store, &shape, &model, &ops).await.unwrap();
                play(&store, &shape, &model, &[Op::Flush]).await.unwrap();
                let again = fixed(&cpu, &shape, &disk, unit_pages);
                let all = contents_of(&again, &shape, 0, pages).await.unwrap();
                assert_eq!(all, model.lock().unwrap().now);
            });
        }
    }
}

/// Whole aligned units are written and not read; a page costs a unit.
#[test]
fn parts_of_units_are_read_first_and_whole_ones_are_not() {
    let shape = Shape::default();
    run(move |cpu| async move {
        let disk = Device::new(2 * 9 * 10, &Power::on());
        let store = fixed(&cpu, &shape, &disk, 8);
        let pages = |count: u64| {
            (1..=count)
                .flat_map(|value| page(&shape, value))
                .collect::<Vec<_>>()
        };
        store.write(8, &pages(16)).await.unwrap();
        let whole = store.counters();
        assert_eq!((whole.written_pages, whole.written_units), (16, 2));
        assert_eq!((whole.modified_units, whole.read_units), (0, 0));
        // The end of one unit, a whole one, and the beginning of a third: of these one held data.
        store.write(23, &pages(10)).await.unwrap();
        let mixed = store.counters();
        assert_eq!((mixed.written_units, mixed.modified_units), (5, 2));
        assert_eq!((mixed.read_units, mixed.unit_pages_written), (1, 40));
    });
    let wrong = run(|cpu| async move {
        let disk = Device::new(100, &Power::on());
        let config = FixedConfig { unit_pages: 5 };
        FixedStore::open(&cpu, disk, Shape::default().packer(), config).map(|_| ())
    });
    assert!(matches!(wrong, Err(BackingError::Config(_))));
}

#[test]
fn a_cut_after_every_write_and_flush_leaves_units_old_or_new() {
    for seed in 0..4 {
        let played = |cut_at: u64| {
            let (shape, power) = (Shape::default(), Power::on());
            let disk = Device::new(2 * 5 * 5, &power);
            power.lock().unwrap().cut_at = cut_at;
            let model = Arc::new(Mutex::new(Model::new(20)));
            let (d, held) = (disk.clone(), model.clone());
            run(move |cpu| async move {
                let store = fixed(&cpu, &shape, &d, 4);
                let ops = random_ops(&mut Seed(seed).child("units").rng(), 20, 40);
                let done = play(&store, &shape, &held, &ops).await;
                assert!(done.is_ok() || cut_at < u64::MAX, "{done:?}");
            });
            let events = power.lock().unwrap().events;
            (disk, model, events)
        };
        let events = played(u64::MAX).2;
        for cut_at in 0..events {
            for loss in [Loss::All, Loss::None, Loss::Some] {
                let (disk, model, _) = played(cut_at);
                disk.settle(loss, &mut Seed(seed).index(cut_at).rng());
                let disk = disk.copy(&Power::on());
                let found = run(move |cpu| async move {
                    let shape = Shape::default();
                    let store = fixed(&cpu, &shape, &disk, 4);
                    contents_of(&store, &shape, 0, 20).await.unwrap()
                });
                let settled = model.lock().unwrap().settle(&found);
                settled
                    .unwrap_or_else(|wrong| panic!("seed {seed}, cut {cut_at}, {loss:?}: {wrong}"));
            }
        }
    }
}

/// A device whose sectors take a microsecond each to be written, one after another.
#[derive(Clone)]
struct Slow {
    cpu: Cpu,
    device: Device,
}

const SECTOR_NS: u64 = 1_000;

impl Sectors for Slow {
    fn sectors(&self) -> u64 {
        self.device.sectors()
    }

    async fn read(&self, first: u64, out: &mut [u8]) -> Result<(), IoError> {
        self.cpu.sleep_until(self.cpu.now() + SECTOR_NS / 3).await;
        self.device.read(first, out).await
    }

    async fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
        for (sector, data) in (first..).zip(data.chunks(4096)) {
            self.cpu.sleep_until(self.cpu.now() + SECTOR_NS).await;
            self.device.write(sector, data).await?;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.device.flush().await?;
        self.cpu.sleep_until(self.cpu.now() + SECTOR_NS / 2).await;
        Ok(())
    }

    async fn forget(&self, first: u64, sectors: u64) -> Result<(), IoError> {
        self.device.forget(first, sectors).await
    }
}

const UNIT: u32 = 8;

/// The last page of the first unit: its bytes are in the last sector, its checksum in the first.
const LAST: u64 = UNIT as u64 - 1;

/// A unit that takes several sectors: pages that do not compress, but for the last, which has value 1.
fn full_unit(shape: &Shape) -> Vec<u8> {
    let mut rng = Seed(1).rng();
    let bytes = LAST as usize * shape.page_bytes();
    let mut unit: Vec<u8> = (0..bytes).map(|_| rng.below(256) as u8).collect();
    unit.extend(page(shape, 1));
    unit
}

fn bytes() -> Shape {
    Shape {
        stamps: false,
        ..Shape::default()
    }
}

fn slow_store(cpu: &Cpu, shape: &Shape, device: &Device) -> FixedStore<Slow> {
    let (cpu, device) = (cpu.clone(), device.clone());
    let config = FixedConfig { unit_pages: UNIT };
    FixedStore::open(&cpu.clone(), Slow { cpu, device }, shape.packer(), config).unwrap()
}

/// A unit that was not flushed is written again where it is. Who read it meanwhile found a mixture.
#[test]
fn a_unit_that_was_read_while_it_was_written_again_was_called_damaged() {
    let reads = run(|cpu| async move {
        let shape = bytes();
        let device = Device::new(4 * u64::from(UNIT + 1), &Power::on());
        let store = Rc::new(slow_store(&cpu, &shape, &device));
        store.write(0, &full_unit(&shape)).await.unwrap();
        let written = Rc::new(Cell::new((1, 1)));
        let (writer, begun) = (store.clone(), written.clone());
        cpu.spawn("writer", async move {
            for value in 2..60 {
                begun.set((value - 1, value));
                writer.write(LAST, &page(&shape, value)).await.unwrap();
                if value % 7 == 0 {
                    writer.flush().await.unwrap();
                }
            }
            begun.set((59, 59));
        });
        let mut reads = 0;
        while written.get() != (59, 59) {
            let oldest = written.get().0;
            let found = contents_of(&*store, &shape, LAST, 1).await.unwrap()[0];
            assert!((oldest..=written.get().1).contains(&found), "{found}");
            reads += 1;
        }
        reads
    });
    // A reader that has to stand in line is served after the write before it.
    assert!(reads > 25, "{reads} reads beside 58 writes");
}

/// A flush that came amid the second write of a unit said that the first was durable, when it was half overwritten.
#[test]
fn a_flush_amid_a_second_write_of_a_unit_lost_the_first() {
    for flush_ns in (0..20 * SECTOR_NS).step_by(SECTOR_NS as usize / 2) {
        for loss in [Loss::All, Loss::None, Loss::Some] {
            let shape = bytes();
            let cut = run(move |cpu| async move {
                let device = Device::new(4 * u64::from(UNIT + 1), &Power::on());
                let store = Rc::new(slow_store(&cpu, &shape, &device));
                store.write(0, &full_unit(&shape)).await.unwrap();
                store.flush().await.unwrap();
                store.write(LAST, &page(&shape, 2)).await.unwrap();
                let (writer, begin) = (store.clone(), cpu.now());
                cpu.spawn("writer", async move {
                    writer.write(LAST, &page(&shape, 3)).await.unwrap();
                });
                cpu.sleep_until(begin + flush_ns).await;
                store.flush().await.unwrap();
                device.settle(loss, &mut Seed(flush_ns).rng());
                device.copy(&Power::on())
            });
            let found = run(move |cpu| async move {
                let store = fixed(&cpu, &shape, &cut, UNIT);
                contents_of(&store, &shape, LAST, 1).await.unwrap()[0]
            });
            assert!(
                (2..=3).contains(&found),
                "page is {found} after a flush at {flush_ns} ns, {loss:?}"
            );
        }
    }
}

#[test]
fn plain_pages_are_sectors() {
    for stamps in [false, true] {
        let shape = Shape {
            stamps,
            ..Shape::default()
        };
        run(move |_| async move {
            let disk = Device::new(300, &Power::on());
            let store = PlainStore::new(disk.clone(), shape.page_bytes());
            let model = Arc::new(Mutex::new(Model::new(300)));
            let ops = random_ops(&mut Seed(6).rng(), 300, 200);
            play(&store, &shape, &model, &ops).await.unwrap();
            play(&store, &shape, &model, &[Op::Write(7, 1), Op::Flush])
                .await
                .unwrap();
            let all = contents_of(&store, &shape, 0, 300).await.unwrap();
            assert_eq!(all, model.lock().unwrap().now);
            assert_eq!(disk.sector(7)[..8], page(&shape, all[7])[..8]);
            assert!(store.write(300, &page(&shape, 1)).await.is_err());
        });
    }
}
