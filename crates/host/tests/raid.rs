//! Volumes with redundancy: what they read, what the drives hold, which commands that takes.

mod common;

use std::rc::Rc;
use std::sync::{Arc, Mutex};

use common::{Rig, Shape, check_redundancy, healthy};
use wharf_host::volume::Transfer;
use wharf_host::{
    Design, DesignConfig, DesignError, Hardware, Layout, Level, Scala, ScalaConfig, Volume,
};
use wharf_runtime::{Cpu, Seed};
use wharf_wire::command::Command;
use wharf_wire::dma::{DmaRegion, DmaSpace};
use wharf_wire::mock::{Fate, MockStore};
use wharf_wire::opcode::IoOpcode;
use wharf_wire::status::StatusCode;

fn shape(level: Level, drives: u32) -> Shape {
    Shape {
        level,
        drives,
        drive_pages: 96,
        stripe_pages: 4,
        depth: 64,
        ..Shape::default()
    }
}

fn addresses(region: &DmaRegion, pages: usize) -> Vec<u64> {
    (0..pages).map(|page| region.address(page)).collect()
}

/// Writes pages of the bytes that `byte` gives, and waits.
async fn put(
    cpu: &Cpu,
    volume: &Volume,
    region: &DmaRegion,
    first: u64,
    pages: usize,
    byte: impl Fn(u64) -> u8,
) {
    for page in 0..pages {
        // SAFETY: no command in flight names the region.
        unsafe { region.page_mut(page) }.fill(byte(first + page as u64));
    }
    let data = addresses(region, pages);
    volume.write(cpu, first, &data, false).await.unwrap();
}

/// Reads pages and hands their first bytes out.
async fn get(cpu: &Cpu, volume: &Volume, region: &DmaRegion, first: u64, pages: usize) -> Vec<u8> {
    let data = addresses(region, pages);
    volume.read(cpu, first, &data).await.unwrap();
    // SAFETY: no command in flight names the region.
    let first_byte = |page| unsafe { region.page_mut(page) }[0];
    (0..pages).map(first_byte).collect()
}

/// Runs one client on a volume of this shape with healthy drives, checks redundancy in the end, and gives the drives.
fn on_volume<F: Future<Output = ()> + 'static>(
    shape: Shape,
    run: impl FnOnce(Cpu, Rc<Volume>, Arc<DmaSpace>) -> F + Send + 'static,
) -> (Layout, Vec<Arc<MockStore>>) {
    let mut rig = Rig::new(shape, |d| healthy(Seed(u64::from(d)).rng()));
    let space = rig.space.clone();
    rig.spawn_on_volume(0, move |cpu, volume| run(cpu, volume, space));
    let (layout, stores) = (rig.layout(), rig.stores.clone());
    rig.machine.run_virtual(Seed(1)).unwrap();
    check_redundancy(&layout, &stores, &[]);
    (layout, stores)
}

#[test]
fn clients_that_write_neighbours_at_once_keep_parity_and_every_byte() {
    for seed in 0..80 {
        let mut rng = Seed(seed).child("raid").rng();
        let level = [Level::Raid5, Level::Raid5, Level::Raid10][rng.below(3) as usize];
        let drives = match level {
            Level::Raid10 => 2 * (1 + rng.below(4) as u32),
            _ => 3 + rng.below(6) as u32,
        };
        let shape = Shape {
            page_bytes: [4096, 8][rng.below(2) as usize],
            stripe_pages: [1, 4, 16, 300][rng.below(4) as usize],
            drive_pages: 600,
            clients: 1 + rng.below(5) as u32,
            depth: [2, 8, 64][rng.below(3) as usize],
            ..shape(level, drives)
        };
        let mut rig = Rig::new(shape, |_| healthy(Seed(rng.next_u64()).rng()));
        let (layout, stores) = (rig.layout(), rig.stores.clone());
        // Client `c` has pages `c`, `c + clients` and so on in pieces of three: all rows are shared.
        let written = Arc::new(Mutex::new(vec![0u8; layout.pages() as usize]));
        for client in 0..shape.clients {
            let (space, written) = (rig.space.clone(), written.clone());
            rig.spawn_on_volume(client, move |cpu, volume| async move {
                let region = space.register(400).unwrap();
                let mut rng = Seed(seed).child("client").index(client.into()).rng();
                let clients = u64::from(shape.clients);
                for step in 0..40u8 {
                    let alone = clients == 1;
                    let slot = rng.below(volume.pages() / (3 * clients)) * clients;
                    let first = 3 * (slot + u64::from(client));
                    let most = volume.pages() - first;
                    let longest = if alone { 400.min(most) } else { 3 };
                    let pages = (1 + rng.below(longest)) as usize;
                    let byte = move |page: u64| (page as u8).wrapping_mul(31) ^ step ^ 0x80;
                    put(&cpu, &volume, &region, first, pages, byte).await;
                    let found = get(&cpu, &volume, &region, first, pages).await;
                    for (page, found) in (first..).zip(found) {
                        assert_eq!(found, byte(page), "seed {seed}, page {page}");
                        written.lock().unwrap()[page as usize] = found;
                    }
                    cpu.progress();
                }
            });
        }
        rig.machine.run_virtual(Seed(seed)).unwrap();
        check_redundancy(&layout, &stores, &[]);
        for (page, byte) in (0..).zip(written.lock().unwrap().iter()) {
            let (drive, lba) = layout.locate(page);
            let stored = stores[drive].page(lba).map_or(0, |bytes| bytes[0]);
            assert_eq!(stored, *byte, "seed {seed}, page {page}");
        }
    }
}

#[test]
fn a_page_can_be_computed_from_the_other_drives() {
    let shape = shape(Level::Raid5, 5);
    let (layout, stores) = on_volume(shape, |cpu, volume, space| async move {
        let region = space.register(64).unwrap();
        put(&cpu, &volume, &region, 3, 50, |page| page as u8 + 1).await;
        put(&cpu, &volume, &region, 17, 1, |_| 0xaa).await;
    });
    for (page, byte) in [(3, 4), (17, 0xaa), (30, 31)] {
        let (lost, lba) = layout.locate(page);
        let others = (0..5).filter(|drive| *drive != lost);
        let bytes = others.map(|drive| stores[drive].page(lba).map_or(0, |page| page[9]));
        assert_eq!(bytes.fold(0, |sum, other| sum ^ other), byte);
    }
}

/// Commands of each kind that a write becomes.
fn commands_of(shape: Shape, first: u64, pages: usize) -> (usize, usize, u32) {
    let told = Arc::new(Mutex::new(0));
    let telling = told.clone();
    let (_, stores) = on_volume(shape, move |cpu, volume, space| async move {
        let region = space.register(64).unwrap();
        *telling.lock().unwrap() = volume.commands_of(Transfer::Write, first, pages as u64);
        put(&cpu, &volume, &region, first, pages, |page| page as u8 + 1).await;
    });
    let count = |opcode| stores.iter().map(|store| store.count(opcode)).sum();
    let told = *told.lock().unwrap();
    (count(IoOpcode::Read), count(IoOpcode::Write), told)
}

#[test]
fn writes_take_as_few_commands_as_their_layout_lets_them() {
    let raid5 = shape(Level::Raid5, 8);
    assert_eq!(commands_of(raid5, 0, 28), (0, 8, 8), "a whole row");
    assert_eq!(commands_of(raid5, 5, 1), (2, 2, 4), "read-modify-write");
    assert_eq!(commands_of(raid5, 0, 24), (1, 7, 8), "reconstruct-write");
    assert_eq!(commands_of(shape(Level::Raid10, 4), 2, 4), (0, 4, 4));
    assert_eq!(commands_of(shape(Level::Raid10, 2), 2, 4), (0, 4, 4));
}

#[test]
fn a_mirrored_volume_reads_from_all_drives() {
    let (_, stores) = on_volume(shape(Level::Raid10, 4), |cpu, volume, space| async move {
        let region = space.register(64).unwrap();
        for first in [0, 64, 128] {
            put(&cpu, &volume, &region, first, 64, |page| page as u8).await;
            let found = get(&cpu, &volume, &region, first, 64).await;
            assert!((first..).zip(found).all(|(page, byte)| byte == page as u8));
        }
    });
    for store in &stores {
        assert!(store.count(IoOpcode::Read) >= 8);
    }
}

#[test]
fn deallocated_pages_are_zeros_and_parity_stays_true() {
    for (level, drives) in [(Level::Raid5, 4), (Level::Raid10, 4)] {
        on_volume(shape(level, drives), |cpu, volume, space| async move {
            let region = space.register(100).unwrap();
            put(&cpu, &volume, &region, 0, 100, |page| page as u8 + 1).await;
            volume.deallocate(&cpu, 7, 50).await.unwrap();
            volume.deallocate(&cpu, 90, 0).await.unwrap();
            let found = get(&cpu, &volume, &region, 0, 100).await;
            for (page, byte) in (0..).zip(found) {
                let gone = (7..57).contains(&page);
                assert_eq!(byte, if gone { 0 } else { page + 1 }, "page {page}");
            }
        });
    }
}

#[test]
fn after_a_write_that_failed_the_next_one_makes_parity_true() {
    // The first write of data fails on its drive, when its parity is written.
    let mut failing = 1;
    let fate = move |drive: u32| {
        move |_: u64, command: &Command| {
            let is_write = command.io_opcode() == Some(IoOpcode::Write);
            if drive == 0 && is_write && failing > 0 {
                failing -= 1;
                return Fate::Failed(StatusCode::WriteFault, 1_000);
            }
            Fate::Done(1_000)
        }
    };
    let mut shape = shape(Level::Raid5, 5);
    shape.driver.retries = 0;
    let mut rig = Rig::new(shape, fate);
    let (layout, stores) = (rig.layout(), rig.stores.clone());
    let (space, parity) = (rig.space.clone(), rig.parity.clone());
    assert_eq!(layout.locate(0).0, 0);
    rig.spawn_on_volume(0, move |cpu, volume| async move {
        let region = space.register(4).unwrap();
        // SAFETY: no command in flight names the region.
        unsafe { region.page_mut(0) }.fill(7);
        let page = addresses(&region, 1);
        volume.write(&cpu, 0, &page, false).await.unwrap_err();
        assert_eq!(parity.doubtful(&cpu), [0]);
        volume.write(&cpu, 0, &page, false).await.unwrap();
        assert_eq!(parity.doubtful(&cpu), []);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
    check_redundancy(&layout, &stores, &[]);
    assert_eq!(stores[0].page(0).unwrap()[0], 7);
}

#[test]
fn designs_whose_drives_keep_the_cache_refuse_redundancy() {
    let space = DmaSpace::new(4096);
    let config = DesignConfig {
        drives: 4,
        level: Level::Raid5,
        ..DesignConfig::default()
    };
    let refusals = [
        Scala::new(&config, &ScalaConfig::default(), &space).err(),
        Hardware::new(&config, &ScalaConfig::default(), &space).err(),
    ];
    for refusal in refusals {
        assert!(matches!(
            refusal,
            Some(DesignError::Level {
                level: Level::Raid5,
                ..
            })
        ));
    }
}
