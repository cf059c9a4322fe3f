//! The table of partitions beside that of another author (the crate `gpt`), and with every byte damaged.

#![allow(missing_docs)]

use std::io::Cursor;

use crc_fast::{CrcAlgorithm, checksum};
use gpt::GptConfig;
use gpt::disk::LogicalBlockSize;
use gpt::partition_types;
use wharf_files::gpt::{Found, Gpt, GptError, Guid, Partition, head_bytes, tail_bytes};

const BLOCKS: u64 = 4096;

fn partition(first_block: u64, last_block: u64, name: &str) -> Partition {
    Partition {
        kind: Guid::FILES,
        guid: Guid([first_block as u8; 16]),
        first_block,
        last_block,
        attributes: 0,
        name: name.into(),
    }
}

/// A disk with two partitions, whole.
fn disk(block_bytes: u32) -> (Gpt, Vec<u8>) {
    let mut gpt = Gpt::new(Guid([7; 16]), block_bytes, BLOCKS).unwrap();
    let (first, last) = gpt.usable();
    let mut data = partition(first, 1000, "data");
    data.set_file_system(3);
    assert_eq!(gpt.add(data), Ok(1));
    assert_eq!(gpt.add(partition(1001, last, "größer")), Ok(2));
    let (head, tail) = gpt.encode();
    let mut image = vec![0; BLOCKS as usize * block_bytes as usize];
    image[..head.len()].copy_from_slice(&head);
    let at = image.len() - tail.len();
    image[at..].copy_from_slice(&tail);
    (gpt, image)
}

fn decode(block_bytes: u32, image: &[u8]) -> Result<Found, GptError> {
    let head = &image[..head_bytes(block_bytes)];
    let tail = &image[image.len() - tail_bytes(block_bytes)..];
    let blocks = image.len() as u64 / u64::from(block_bytes);
    Gpt::decode(block_bytes, blocks, head, tail)
}

fn sizes() -> [(u32, LogicalBlockSize); 2] {
    [
        (512, LogicalBlockSize::Lb512),
        (4096, LogicalBlockSize::Lb4096),
    ]
}

#[test]
fn another_program_reads_the_table_as_it_was_written() {
    for (block_bytes, size) in sizes() {
        let (gpt, image) = disk(block_bytes);
        let config = GptConfig::new().logical_block_size(size);
        let theirs = config.open_from_device(Cursor::new(image)).unwrap();
        assert_eq!(theirs.partitions().len(), 2);
        for (number, found) in theirs.partitions() {
            let ours = gpt.partitions()[*number as usize - 1].as_ref().unwrap();
            let place = (ours.first_block, ours.last_block);
            assert_eq!((found.first_lba, found.last_lba), place);
            assert_eq!((&found.name, found.flags), (&ours.name, ours.attributes));
            assert_eq!(found.part_type_guid, partition_types::LINUX_FS);
            assert_eq!(found.part_guid.to_bytes_le(), ours.guid.0);
        }
        assert_eq!(theirs.guid().to_bytes_le(), gpt.disk().0);
    }
}

#[test]
fn the_table_of_another_program_is_read() {
    for (block_bytes, size) in sizes() {
        let image = vec![0; BLOCKS as usize * block_bytes as usize];
        let config = GptConfig::new().writable(true).logical_block_size(size);
        let mut theirs = config.create_from_device(Cursor::new(image), None).unwrap();
        let flags = 5 << 48 | 1;
        let bytes = 100 * u64::from(block_bytes);
        let kind = partition_types::LINUX_FS;
        let number = theirs.add_partition("theirs", bytes, kind, flags, None);
        let number = number.unwrap();
        let wanted = theirs.partitions()[&number].clone();
        let image = theirs.write().unwrap().into_inner();
        let found = decode(block_bytes, &image).unwrap();
        assert!(found.is_head_whole && found.is_tail_whole);
        let ours = found.gpt.partitions()[number as usize - 1]
            .as_ref()
            .unwrap();
        let place = (ours.first_block, ours.last_block);
        assert_eq!(place, (wanted.first_lba, wanted.last_lba));
        assert_eq!((ours.file_system(), ours.attributes & 1), (5, 1));
        assert_eq!((ours.name.as_str(), ours.blocks()), ("theirs", 100));
        assert_eq!(ours.kind, Guid::FILES);
    }
}

#[test]
fn one_damaged_copy_is_told_and_the_other_is_taken() {
    let (gpt, whole) = disk(512);
    assert_eq!(decode(512, &whole).unwrap().gpt, gpt);
    let tail_at = whole.len() - tail_bytes(512);
    // Headers, and entries that are used, at either end; what pads them counts for nothing.
    let head = (512..512 + 92).chain(1024..1024 + 256);
    let tail = (tail_at..tail_at + 256).chain(whole.len() - 512..whole.len() - 420);
    for at in head.chain(tail) {
        let mut image = whole.clone();
        image[at] ^= 0x10;
        let found = decode(512, &image).unwrap_or_else(|error| panic!("byte {at}: {error}"));
        assert_eq!(found.gpt, gpt, "byte {at}");
        let is_head = at < tail_at;
        let told = (!found.is_head_whole, !found.is_tail_whole);
        assert_eq!(told, (is_head, !is_head), "byte {at}");
    }
    let mut both = whole.clone();
    both[512 + 40] ^= 1;
    both[tail_at] ^= 1;
    assert_eq!(decode(512, &both).unwrap_err(), GptError::Damaged);
    let blank = vec![0; whole.len()];
    assert_eq!(decode(512, &blank).unwrap_err(), GptError::Missing);
    // The beginning of a larger disk.
    let cut = decode(512, &whole[..whole.len() - 512]);
    assert_eq!(cut.unwrap_err(), GptError::Outside { number: 2 });
}

#[test]
fn partitions_that_do_not_fit_are_refused_and_change_nothing() {
    let (mut gpt, _) = disk(4096);
    let before = gpt.clone();
    let (first, last) = gpt.usable();
    gpt.remove(2).unwrap();
    let without = gpt.clone();
    let outside = GptError::Outside { number: 2 };
    for (wrong, error) in [
        (
            partition(500, 1001, "over"),
            GptError::Overlap { one: 1, other: 2 },
        ),
        (partition(first - 1, first, "low"), outside),
        (partition(2000, last + 1, "high"), outside),
        (partition(2000, 1999, "backwards"), outside),
        (partition(u64::MAX, u64::MAX, "far"), outside),
        (
            partition(2000, 2001, &"n".repeat(37)),
            GptError::Name { number: 2 },
        ),
    ] {
        assert_eq!(gpt.add(wrong), Err(error));
        assert_eq!(gpt, without);
    }
    assert_eq!(gpt.add(before.partitions()[1].clone().unwrap()), Ok(2));
    assert_eq!(gpt, before);
    let mut full = Gpt::new(Guid([1; 16]), 512, BLOCKS).unwrap();
    for block in 0..128 {
        full.add(partition(100 + block, 100 + block, "")).unwrap();
    }
    assert_eq!(full.add(partition(1000, 1000, "")), Err(GptError::Full));
    assert_eq!(full.remove(129), None);
}

#[test]
fn disks_that_cannot_have_a_table_are_refused() {
    let new = |block_bytes, blocks| Gpt::new(Guid([1; 16]), block_bytes, blocks);
    let is_refused = |block_bytes, blocks| {
        let wanted = GptError::Disk {
            block_bytes,
            blocks,
        };
        new(block_bytes, blocks) == Err(wanted)
    };
    assert!(is_refused(4096, 11) && is_refused(1000, BLOCKS) && is_refused(0, BLOCKS));
    assert!(is_refused(512, 0) && is_refused(8192, BLOCKS));
    let smallest = new(4096, 12).unwrap();
    assert_eq!(smallest.usable(), (6, 6));
}

/// Tables whose checksums are right and whose fields are not: a hostile one harms nobody.
#[test]
fn no_field_of_a_table_is_believed() {
    const TABLE_CRC: std::ops::Range<usize> = 600..604;
    const CRC: std::ops::Range<usize> = 528..532;
    let crc = |bytes: &[u8]| (checksum(CrcAlgorithm::Crc32IsoHdlc, bytes) as u32).to_le_bytes();
    let (_, whole) = disk(512);
    let mut taken = 0;
    for at in (512..512 + 92).chain(1024..1024 + 128) {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut head = whole[..head_bytes(512)].to_vec();
            head[at] = byte;
            if !TABLE_CRC.contains(&at) {
                let table = crc(&head[1024..]);
                head[TABLE_CRC].copy_from_slice(&table);
            }
            head[CRC].fill(0);
            let own = crc(&head[512..604]);
            head[CRC].copy_from_slice(&own);
            let Ok(found) = Gpt::decode(512, BLOCKS, &head, &[]) else {
                continue;
            };
            taken += 1;
            let (first, last) = found.gpt.usable();
            for partition in found.gpt.partitions().iter().flatten() {
                assert!(first <= partition.first_block && partition.last_block <= last);
                assert!(partition.blocks() <= BLOCKS);
            }
        }
    }
    assert!(
        taken > 100,
        "{taken} tables with a field changed are still tables"
    );
}
