//! The store over drives, of bytes and of stamps: mock drives behind real queue pairs.

use std::sync::{Arc, Mutex};

use wharf_host::backing::{
    Backing, ChunkConfig, ChunkStore, Contents, DiskZones, Packer, PlainStore, VolumeSectors,
};
use wharf_runtime::Seed;

use crate::common::{self, Rig, healthy};
use crate::support::{self, Model, NAMES, Op, contents_of, play, random_ops};

const DISK_SECTORS: u64 = 2 + 6 * 64;

/// In stamp mode each sector of the disk keeps 8 bytes, and every stamp of every chunk comes back, also when the
/// store is opened anew, through collection.
#[test]
fn chunks_of_bytes_and_of_stamps_come_back_from_drives() {
    for stamps in [true, false] {
        let own = support::Shape {
            stamps,
            pages: 60,
            zones: 6,
            config: ChunkConfig {
                chunk_pages_max: 4,
                mapping_groups: 2,
            },
            ..support::Shape::default()
        };
        let shape = common::Shape {
            page_bytes: own.page_bytes(),
            drives: 2,
            drive_pages: 300,
            ..common::Shape::default()
        };
        let mut rig = Rig::new(shape, |d| healthy(Seed(u64::from(d)).rng()));
        let space = rig.space.clone();
        rig.spawn_on_volume(0, move |cpu, volume| async move {
            let contents = Contents::new();
            let part = |first, sectors| {
                let part = (first, sectors);
                VolumeSectors::new(&cpu, volume.clone(), &space, part, &contents).unwrap()
            };
            let zones = || DiskZones::new(part(0, DISK_SECTORS), 64);
            let metadata = || part(DISK_SECTORS, 2);
            let packer = own.packer();
            let (first, store) = (zones(), metadata());
            let created = ChunkStore::create(&first, &store, NAMES, own.pages, &packer);
            created.await.unwrap();
            let model = Arc::new(Mutex::new(Model::new(own.pages)));
            let mut rng = Seed(5).rng();
            for _ in 0..3 {
                let opened = ChunkStore::open(&cpu, zones(), metadata(), own.packer(), own.config);
                let store = opened.await.unwrap();
                let ops = random_ops(&mut rng, own.pages, 250);
                play(&store, &own, &model, &ops).await.unwrap();
                play(&store, &own, &model, &[Op::Flush]).await.unwrap();
                store.verify().await.unwrap();
                let all = contents_of(&store, &own, 0, own.pages).await.unwrap();
                assert_eq!(all, model.lock().unwrap().now);
                assert!(store.counters().commits > 1);
                cpu.progress();
            }
            // What is not readable any more is not kept.
            let most = DISK_SECTORS * 4096;
            assert_eq!(contents.bytes() > 0, matches!(packer, Packer::Stamps(_)));
            assert!(contents.bytes() < most, "{}", contents.bytes());
        });
        rig.machine.run_virtual(Seed(1)).unwrap();
    }
}

/// A store is made over whatever the metadata's sectors held, and its mapping is not written to be empty.
#[test]
fn a_new_store_knows_nothing_of_what_the_metadata_held() {
    use wharf_host::backing::Sectors;
    let own = support::Shape {
        pages: 2000,
        zones: 6,
        ..support::Shape::default()
    };
    let shape = common::Shape {
        page_bytes: own.page_bytes(),
        drive_pages: DISK_SECTORS + 20,
        ..common::Shape::default()
    };
    let mut rig = Rig::new(shape, |d| healthy(Seed(u64::from(d)).rng()));
    let space = rig.space.clone();
    rig.spawn_on_volume(0, move |cpu, volume| async move {
        let contents = Contents::new();
        let part = |first, sectors| {
            let part = (first, sectors);
            VolumeSectors::new(&cpu, volume.clone(), &space, part, &contents).unwrap()
        };
        let zones = || DiskZones::new(part(0, DISK_SECTORS), 64);
        let metadata = || part(DISK_SECTORS, 16);
        let garbage = vec![0xa5; 12 * 4096];
        metadata().write(2, &garbage).await.unwrap();
        assert_eq!(metadata().written().await.unwrap(), [(2, 12)]);
        let (first, store) = (zones(), metadata());
        let packer = own.packer();
        let created = ChunkStore::create(&first, &store, NAMES, own.pages, &packer);
        created.await.unwrap();
        assert_eq!(metadata().written().await.unwrap(), [(0, 1)], "the owner");
        let opened = ChunkStore::open(&cpu, zones(), metadata(), own.packer(), own.config);
        let store = opened.await.unwrap();
        store.verify().await.unwrap();
        let all = contents_of(&store, &own, 0, own.pages).await.unwrap();
        assert!(all.iter().all(|content| *content == 0));
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}

/// Plain pages of stamps are a name a sector, too.
#[test]
fn plain_pages_of_stamps_come_back_from_drives() {
    let own = support::Shape::default();
    let shape = common::Shape {
        page_bytes: 8,
        drive_pages: 300,
        ..common::Shape::default()
    };
    let mut rig = Rig::new(shape, |d| healthy(Seed(u64::from(d)).rng()));
    let space = rig.space.clone();
    rig.spawn_on_volume(0, move |cpu, volume| async move {
        let contents = Contents::new();
        let part = VolumeSectors::new(&cpu, volume, &space, (10, 200), &contents).unwrap();
        let store = PlainStore::new(part, 8);
        let model = Arc::new(Mutex::new(Model::new(store.pages())));
        let ops = random_ops(&mut Seed(2).rng(), 200, 200);
        play(&store, &own, &model, &ops).await.unwrap();
        let all = contents_of(&store, &own, 0, 200).await.unwrap();
        assert_eq!(all, model.lock().unwrap().now);
    });
    rig.machine.run_virtual(Seed(1)).unwrap();
}
