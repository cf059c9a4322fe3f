use wharf_host::backing::{Backing, BackingError, DiskZones, Names, rebuild};
use wharf_runtime::Seed;

use crate::support::{Device, Loss, Power, Shape, contents_of, created, open, page, run};

/// A store with a chunk of four pages from page 0 on, and one behind it.
fn written() -> (Shape, Device, Device) {
    let shape = Shape::default();
    let (disk, metadata) = created(shape, &Power::on());
    let (d, m) = (disk.clone(), metadata.clone());
    run(move |cpu| async move {
        let store = open(&cpu, shape, &d, &m).await.unwrap();
        let four: Vec<u8> = (1..5).flat_map(|value| page(&shape, value)).collect();
        store.write(0, &four).await.unwrap();
        store.flush().await.unwrap();
        store.write(8, &page(&shape, 8)).await.unwrap();
        store.flush().await.unwrap();
    });
    (shape, disk, metadata)
}

/// The sector of the disk that holds the chunk of page 0: of the zone that was opened first.
fn chunk_sector(disk: &Device) -> u64 {
    let is_chunk = |sector: &u64| disk.sector(*sector).starts_with(b"WCHK");
    disk.durable_sectors()
        .into_iter()
        .find(is_chunk)
        .expect("it was flushed")
}

#[test]
fn a_torn_chunk_is_an_error_and_never_data() {
    let (shape, disk, metadata) = written();
    let at = chunk_sector(&disk);
    // In the header, in the payload, and in its last bytes.
    for byte in [0, 9, 31, 40, 60] {
        disk.damage(at, |sector| sector[byte] ^= 0x10);
        let (d, m) = (disk.clone(), metadata.clone());
        run(move |cpu| async move {
            let store = open(&cpu, shape, &d, &m).await.unwrap();
            let read = contents_of(&store, &shape, 2, 1).await;
            assert_eq!(
                read,
                Err(BackingError::DamagedChunk { page: 0 }),
                "byte {byte}"
            );
            assert_eq!(contents_of(&store, &shape, 8, 1).await, Ok(vec![8]));
            // What is overwritten whole is well again.
            assert_eq!(contents_of(&store, &shape, 4, 4).await, Ok(vec![0; 4]));
        });
        disk.damage(at, |sector| sector[byte] ^= 0x10);
    }
    // A rebuild leaves it out.
    disk.damage(at, |sector| sector[40] ^= 1);
    run(move |cpu| async move {
        let (lost, zones) = (
            Device::new(3, &Power::on()),
            DiskZones::new(disk.clone(), shape.zone_sectors),
        );
        rebuild(&zones, &lost, [3; 16]).await.unwrap();
        let store = open(&cpu, shape, &disk, &lost).await.unwrap();
        assert_eq!(
            contents_of(&store, &shape, 0, 9).await,
            Ok(vec![0, 0, 0, 0, 0, 0, 0, 0, 8])
        );
    });
}

#[test]
fn a_torn_mapping_sector_is_an_error_and_can_be_made_anew() {
    let (shape, disk, metadata) = written();
    metadata.damage(1, |sector| sector[20] ^= 1);
    run(move |cpu| async move {
        let opened = open(&cpu, shape, &disk, &metadata).await;
        assert_eq!(
            opened.map(|_| ()),
            Err(BackingError::DamagedMapping { group: 0 })
        );
        let zones = DiskZones::new(disk.clone(), shape.zone_sectors);
        rebuild(&zones, &metadata, [9; 16]).await.unwrap();
        let store = open(&cpu, shape, &disk, &metadata).await.unwrap();
        assert_eq!(
            contents_of(&store, &shape, 0, 5).await,
            Ok(vec![1, 2, 3, 4, 0])
        );
    });
}

/// Collection once failed writes of other pages, or panicked, where a zone had a chunk that it could not
/// read.
#[test]
fn a_damaged_chunk_stays_and_collection_goes_on_around_it() {
    // A summary that is whole names the chunk; without one it is not even found.
    for is_summary_damaged in [false, true] {
        let (shape, disk, metadata) = written();
        run(move |cpu| async move {
            let store = open(&cpu, shape, &disk, &metadata).await.unwrap();
            // In the zone that this opening begins, the second.
            let four: Vec<u8> = (1..5).flat_map(|value| page(&shape, value)).collect();
            store.write(0, &four).await.unwrap();
            store.flush().await.unwrap();
            let before = chunk_sector(&disk);
            let at = before + u64::from(shape.zone_sectors);
            let zone_end = at - 1 + u64::from(shape.zone_sectors);
            assert!(disk.sector(at).starts_with(b"WCHK"));
            disk.damage(at, |sector| sector[40] ^= 1);
            let mut value = 100;
            for round in 0..1500 {
                let at = 4 + round * 7 % (shape.pages - 8);
                value += 1;
                let written = store.write(at, &page(&shape, value)).await;
                written.unwrap_or_else(|error| panic!("round {round}: {error}"));
                if round == 200 {
                    store.flush().await.unwrap();
                    assert!(disk.sector(zone_end - 1).ends_with_summary(), "{zone_end}");
                    if is_summary_damaged {
                        disk.damage(zone_end - 1, |sector| sector[4095] ^= 1);
                    }
                }
            }
            store.flush().await.unwrap();
            assert!(store.counters().collected_zones > 3);
            let read = contents_of(&store, &shape, 2, 1).await;
            assert_eq!(read, Err(BackingError::DamagedChunk { page: 0 }));
            store.write(0, &four).await.unwrap();
            store.flush().await.unwrap();
            assert_eq!(
                contents_of(&store, &shape, 0, 4).await,
                Ok(vec![1, 2, 3, 4])
            );
            store.verify().await.unwrap();
        });
    }
}

trait Summary {
    fn ends_with_summary(&self) -> bool;
}

impl Summary for Vec<u8> {
    /// Its last 32 bytes are a summary's footer.
    fn ends_with_summary(&self) -> bool {
        self[self.len() - 32..].starts_with(b"WSUM")
    }
}

/// A row of a right checksum that named a chunk beyond the disk was taken for one.
#[test]
fn a_row_that_leads_beyond_the_disk_is_damage() {
    let (shape, disk, metadata) = written();
    let granule = shape.zones * u64::from(shape.zone_sectors) * 8;
    metadata.damage(1, |sector| {
        sector.fill(0);
        sector[4..10].copy_from_slice(&granule.to_le_bytes()[..6]);
        sector[10] = 1;
        let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        digest.update(&0u64.to_le_bytes());
        digest.update(&1u64.to_le_bytes());
        digest.update(&sector[..13]);
        let check = (digest.finalize() as u32).to_le_bytes();
        sector[13..16].copy_from_slice(&check[..3]);
    });
    run(move |cpu| async move {
        let opened = open(&cpu, shape, &disk, &metadata).await.map(|_| ());
        assert_eq!(opened, Err(BackingError::DamagedMapping { group: 0 }));
    });
}

#[test]
fn either_superblock_will_do_and_none_is_an_error() {
    let (shape, disk, metadata) = written();
    for copies in [&[0][..], &[1], &[0, 1]] {
        let (d, m) = (disk.copy(&Power::on()), metadata.copy(&Power::on()));
        copies
            .iter()
            .for_each(|copy| d.damage(*copy, |sector| sector[30] ^= 1));
        let count = copies.len();
        run(move |cpu| async move {
            let opened = open(&cpu, shape, &d, &m).await.map(|_| ());
            let expected = if count == 2 {
                Err(BackingError::NoSuperblock)
            } else {
                Ok(())
            };
            assert_eq!(opened, expected);
        });
    }
    run(move |cpu| async move {
        let other = Shape {
            zone_sectors: 128,
            zones: 4,
            ..shape
        };
        let opened = open(&cpu, other, &disk, &metadata).await.map(|_| ());
        assert_eq!(opened, Err(BackingError::OtherShape));
    });
}

#[test]
fn what_does_not_belong_together_is_not_opened() {
    let (shape, disk, metadata) = written();
    // Another disk of the same shape.
    let power = Power::on();
    let (strange, _) = created(shape, &power);
    let names = Names {
        disk_id: [1; 16],
        cache_id: [2; 16],
    };
    let s = strange.clone();
    run(move |_| async move {
        let own = Device::new(3, &Power::on());
        let zones = DiskZones::new(s, shape.zone_sectors);
        let packer = shape.packer();
        let made =
            wharf_host::backing::ChunkStore::create(&zones, &own, names, shape.pages, &packer);
        made.await.unwrap();
    });
    let (d, m) = (disk.copy(&power), metadata.copy(&power));
    let blank = Device::new(3, &power);
    run(move |cpu| async move {
        assert_eq!(
            open(&cpu, shape, &strange, &m).await.map(|_| ()),
            Err(BackingError::Foreign)
        );
        assert_eq!(
            open(&cpu, shape, &d, &blank).await.map(|_| ()),
            Err(BackingError::NoOwner)
        );
    });
    // Copies from before: two openings later both are old.
    let (old_disk, old_metadata) = (disk.copy(&power), metadata.copy(&power));
    let (d, m) = (disk.clone(), metadata.clone());
    run(move |cpu| async move {
        for _ in 0..2 {
            open(&cpu, shape, &d, &m).await.unwrap();
        }
    });
    let mut rng = Seed(1).rng();
    disk.settle(Loss::None, &mut rng);
    run(move |cpu| async move {
        let opened = open(&cpu, shape, &disk, &old_metadata).await.map(|_| ());
        assert_eq!(opened, Err(BackingError::OldMetadata { disk: 4, cache: 2 }));
        let opened = open(&cpu, shape, &old_disk, &metadata).await.map(|_| ());
        assert_eq!(opened, Err(BackingError::OldDisk { disk: 2, cache: 4 }));
    });
}

/// A fuzzer's finding: the first number of an epoch was multiplied beyond 64 bits.
#[test]
fn a_disk_that_says_it_was_opened_too_often_is_refused() {
    const LAST: u64 = (1 << 24) - 1;
    for epoch in [
        LAST - 2,
        LAST - 1,
        LAST,
        LAST + 1,
        1 << 40,
        u64::MAX - 1,
        u64::MAX,
    ] {
        let (shape, disk, metadata) = written();
        for copy in 0..2 {
            disk.damage(copy, |sector| sign_with(&mut sector[..80], 24, epoch));
        }
        metadata.damage(0, |sector| sign_with(&mut sector[..56], 8, epoch));
        run(move |cpu| async move {
            let refused = Err(BackingError::TooOften { openings: epoch });
            let opened = open(&cpu, shape, &disk, &metadata).await.map(|_| ());
            if epoch == LAST - 2 {
                opened.unwrap();
            } else {
                assert_eq!(opened, refused);
            }
            let again = open(&cpu, shape, &disk, &metadata).await.map(|_| ());
            let openings = epoch.max(LAST - 1);
            assert_eq!(again, Err(BackingError::TooOften { openings }));
            let zones = DiskZones::new(disk.clone(), shape.zone_sectors);
            let rebuilt = rebuild(&zones, &metadata, [3; 16]).await.map(|_| ());
            assert_eq!(rebuilt, again);
        });
    }
}

/// Puts a number into a structure, and the checksum that belongs to it into its last four bytes.
fn sign_with(structure: &mut [u8], at: usize, number: u64) {
    structure[at..at + 8].copy_from_slice(&number.to_le_bytes());
    let crc_at = structure.len() - 4;
    let crc = crc_fast::crc32_iscsi(&structure[..crc_at]);
    structure[crc_at..].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn the_earlier_of_two_owners_is_refused() {
    let (shape, disk, metadata) = written();
    run(move |cpu| async move {
        let first = open(&cpu, shape, &disk, &metadata).await.unwrap();
        first.write(3, &page(&shape, 33)).await.unwrap();
        let second = open(&cpu, shape, &disk, &metadata).await.unwrap();
        assert_eq!(first.flush().await, Err(BackingError::Fenced));
        second.write(3, &page(&shape, 44)).await.unwrap();
        second.flush().await.unwrap();
        assert_eq!(first.flush().await, Err(BackingError::Fenced));
        let third = open(&cpu, shape, &disk, &metadata).await.unwrap();
        third.verify().await.unwrap();
        assert_eq!(contents_of(&third, &shape, 3, 1).await, Ok(vec![44]));
    });
}

#[test]
fn pages_beyond_the_end_and_stores_that_cannot_be_are_refused() {
    let (shape, disk, metadata) = written();
    run(move |cpu| async move {
        let store = open(&cpu, shape, &disk, &metadata).await.unwrap();
        let beyond = BackingError::OutOfRange {
            first: 299,
            end: 301,
            pages: 300,
        };
        let two = [page(&shape, 1), page(&shape, 2)].concat();
        assert_eq!(store.write(299, &two).await, Err(beyond));
        assert_eq!(store.discard(299, 2).await, Err(beyond));
        assert_eq!(contents_of(&store, &shape, 299, 2).await, Err(beyond));
        let mut large = shape;
        large.config.chunk_pages_max = 64;
        let opened = open(&cpu, large, &disk, &metadata).await.map(|_| ());
        assert!(matches!(opened, Err(BackingError::Config(_))), "{opened:?}");
        large.config.chunk_pages_max = 0;
        let opened = open(&cpu, large, &disk, &metadata).await.map(|_| ());
        assert!(matches!(opened, Err(BackingError::Config(_))), "{opened:?}");
    });
}
