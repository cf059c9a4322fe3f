//! The tables of `docs/backing-format.md` against the structures of the code.

use std::mem::offset_of;

use super::format::*;
use crate::indexless::label::{LabelBytes, MAGIC};

const DOCUMENT: &str = include_str!("../../../../docs/backing-format.md");

/// The rows `(offset, bytes, field)` of the table under a heading, and the bytes it gives in all.
fn table(heading: &str) -> (usize, Vec<(usize, usize, String)>) {
    let found = DOCUMENT.split_once(&format!("\n## {heading}: "));
    let (_, section) = found.unwrap_or_else(|| panic!("no section {heading:?}"));
    let (bytes, section) = section.split_once(" bytes").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| {
        let cells: Vec<_> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        let offset = cells[0].parse().ok()?;
        let field = cells[2].trim_matches('`').to_string();
        Some((offset, cells[1].parse().unwrap(), field))
    });
    (bytes.parse().unwrap(), rows.collect())
}

macro_rules! assert_table {
    ($heading:literal, $type:ty: $($field:ident),*) => {{
        let (bytes, rows) = table($heading);
        assert_eq!(bytes, size_of::<$type>(), $heading);
        let offsets = [$((offset_of!($type, $field), stringify!($field))),*];
        let ends = offsets.iter().skip(1).map(|one| one.0).chain([bytes]);
        let fields: Vec<_> = offsets
            .iter()
            .zip(ends)
            .map(|((offset, field), end)| (*offset, end - offset, field.to_string()))
            .collect();
        assert_eq!(rows, fields, $heading);
    }};
}

#[test]
fn the_document_gives_the_structures_of_the_code() {
    assert_table!("Superblock", Superblock:
        magic, version, zone_sectors, zones, page_bytes, epoch, pages, disk_id, cache_id, reserved, crc);
    assert_table!("Superblock of the cache", LabelBytes:
        magic, format, page_bytes, sectors, epoch, cached_max, zone_bytes, disk_id, cache_id, unit_pages,
        store, codec, is_clean, reserved, crc);
    assert_table!("Owner's record", Owner: magic, epoch, disk_id, cache_id, reserved, crc);
    assert_table!("Zone header", ZoneHeader: magic, zone, first_seq, disk_id, reserved, crc);
    assert_table!("Chunk header", ChunkHeader:
        magic, seq, lba, bytes, sectors, codec, reserved, crc);
    assert_table!("Summary entry", SummaryEntry:
        seq, lba, granule, bytes, sectors, codec, reserved);
    assert_table!("Summary footer", SummaryFooter:
        magic, zone, first_seq, entries, reserved, crc);
    assert_table!("Mapping row", RowBytes:
        first, count_less_1, chunk_first, chunk_sectors_less_1, granule, bytes, check);
}

#[test]
fn the_document_gives_the_constants_of_the_code() {
    for (what, magic) in [
        ("WHARFBCK", &SUPERBLOCK_MAGIC[..]),
        ("WHARFCCH", &MAGIC),
        ("WHARFOWN", &OWNER_MAGIC),
        ("WZON", &ZONE_MAGIC),
        ("WCHK", &CHUNK_MAGIC),
        ("WSUM", &SUMMARY_MAGIC),
    ] {
        assert_eq!(what.as_bytes(), magic);
        assert!(
            DOCUMENT.contains(&format!("| `magic` | `{what}` |")),
            "{what}"
        );
    }
    let stamps = super::packer::STAMPS;
    let zeros = super::packer::ZEROS;
    let bits = super::superblock::SEQS_OF_EPOCH.trailing_zeros();
    for line in [
        format!("Version {VERSION} is described here"),
        format!("A sector has {SECTOR_BYTES} bytes"),
        format!("A granule has {GRANULE_BYTES} bytes"),
        format!("A group is {GROUP_SECTORS} neighbouring pages"),
        format!("{stamps} stamps, {zeros} zeros"),
        format!("begin at `e * 2^{bits}`"),
    ] {
        assert!(
            DOCUMENT.contains(&line),
            "the document does not say {line:?}"
        );
    }
}
