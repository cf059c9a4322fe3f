//! The tables of `docs/media-format.md` against the structures of the code.

use std::mem::offset_of;

use super::*;
use crate::media::file::format::*;
use crate::media::packed::unit::{EXTENTS_PER_PAGE, ExtentEntry, GRANULE_BYTES, UnitHeader};

const DOCUMENT: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/media-format.md"
));

/// The rows `(offset, bytes, field)` of the table under a heading, and the bytes it gives in all.
fn table(heading: &str) -> (u64, Vec<(u64, u64, String)>) {
    let (_, section) = DOCUMENT
        .split_once(&format!("\n## {heading}: "))
        .unwrap_or_else(|| panic!("no section {heading:?} in docs/media-format.md"));
    let (bytes, section) = section.split_once(" bytes").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let number = |text: &str| {
        text.parse()
            .unwrap_or_else(|_| panic!("{text:?} is no number"))
    };
    let rows = section.lines().filter_map(|line| {
        let cells: Vec<_> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        cells[0].starts_with(|c: char| c.is_ascii_digit()).then(|| {
            (
                number(cells[0]),
                number(cells[1]),
                cells[2].trim_matches('`').to_string(),
            )
        })
    });
    (number(bytes), rows.collect())
}

/// Checks the table of a structure against the offsets of its fields.
macro_rules! assert_table {
    ($heading:literal, $type:ty: $($field:ident),*) => {{
        let (bytes, rows) = table($heading);
        assert_eq!(bytes, size_of::<$type>() as u64, $heading);
        let offsets = [$((offset_of!($type, $field) as u64, stringify!($field))),*];
        let ends = offsets.iter().skip(1).map(|&(offset, _)| offset).chain([bytes]);
        let fields: Vec<_> = offsets
            .iter()
            .zip(ends)
            .map(|(&(offset, field), end)| (offset, end - offset, field.to_string()))
            .collect();
        assert_eq!(rows, fields, $heading);
    }};
}

#[test]
fn the_document_gives_the_structures_of_the_code() {
    assert_table!("Header", Header:
        magic, version, cores, blocks, pages_per_block, page_bytes, unit_pages, log_bytes, id,
        file_bytes, reserved_2, crc);
    assert_table!("Sync record", SyncRecord: synced_period, reserved, core, crc);
    assert_table!("Slot header", SlotHeader: generation, base_bytes, core, slot, reserved, crc);
    assert_table!("Log record", RecordHeader: len, crc);
    assert_table!("Block record", BlockRecord: erase_count, core, block, crc);
    assert_table!("Page entry", PageEntry:
        seq, lpn, epoch, data_crc, ppn, sync_period, crc);
    assert_table!("Unit header", UnitHeader:
        seq_base, first_extent, extents, reserved, epoch, unit, sync_period, crc);
    assert_table!("Extent entry", ExtentEntry: lpn, seq_offset, bytes, form, data_crc);
}

#[test]
fn the_document_gives_the_constants_of_the_code() {
    assert_eq!(&MAGIC, b"WHARFIMG");
    for line in [
        format!("Version {VERSION_PAGES} is of pages"),
        format!("version {VERSION} is of units"),
        format!("divided into granules of {GRANULE_BYTES} bytes; unit"),
        format!("at most\n{EXTENTS_PER_PAGE} `unit_pages` extents"),
        format!("| core page | {ALIGN} | sync record at {SYNC_AT}, "),
        format!("slot headers at {} and {} |", SLOT_AT[0], SLOT_AT[1]),
    ] {
        assert!(
            DOCUMENT.contains(&line),
            "docs/media-format.md does not say {line:?}"
        );
    }
}

/// The example of the document: its offsets are those of the code.
#[test]
fn the_document_gives_the_layout_of_the_code() {
    let core = CoreGeometry {
        blocks: 1024,
        pages_per_block: 512,
        page_bytes: 4096,
        unit_pages: 0,
        log_bytes: 1 << 20,
    };
    let geometry = ImageGeometry { cores: 4, core };
    let (bytes, rows) = table("Example");
    assert_eq!(bytes, geometry.file_bytes().unwrap());
    let layout = Layout::new(&geometry, 1).unwrap();
    let parts = [
        ("core page", layout.core_page),
        ("block records", layout.block_records),
        ("page entries", layout.entries),
        ("page data", layout.data),
        ("log slot 0", layout.slots[0]),
        ("log slot 1", layout.slots[1]),
    ];
    let ends = parts.iter().skip(1).map(|&(_, at)| at).chain([layout.end]);
    let parts: Vec<_> = parts
        .iter()
        .zip(ends)
        .map(|(&(name, at), end)| (at, end - at, name.into()))
        .collect();
    assert_eq!(rows, parts);
}
