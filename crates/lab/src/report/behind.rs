//! What a flash cache has before it and behind it, in a table of its own: hits of reads apart from those of writes, what
//! data takes on flash and on the disk, seeks, memory. For the terminal and for the page.

use super::figures;
use super::format::{bytes, optional, optional_percent};
use crate::result::{DeviceAccount, Row, ratio};

const HEADS: [&str; 10] = [
    "design",
    "read\nhit %",
    "write\nhit %",
    "flash\nratio",
    "flash\nWA",
    "disk\nratio",
    "disk\nWA",
    "seeks\n/read",
    "host\nRAM",
    "drive\nmap",
];

/// A figure of a row that has such figures.
pub(crate) fn figure(row: &Row, name: &str) -> Option<f64> {
    let gauge = |name: &str| row.gauge(name);
    let share = |part: &str, whole: &str| {
        let whole = gauge(whole)?;
        (whole > 0.0).then(|| gauge(part).map(|part| part / whole))?
    };
    let sum = |names: &[&str]| {
        let known: Vec<f64> = names.iter().filter_map(|name| gauge(name)).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>())
    };
    let behind = device(row, "backing")?;
    let packed = device(row, "cache").and_then(|device| device.compression.as_ref());
    match name {
        "read_hit_ratio" => share("read_page_hits", "read_pages"),
        "write_hit_ratio" => share("write_page_hits", "write_pages"),
        "flash_ratio" => packed?.physical_ratio,
        "flash_write_amplification" => packed?.granule_write_amplification,
        "disk_ratio" => {
            let stored = gauge("disk_bytes_stored")? - gauge("disk_bytes_moved")?;
            let pages = gauge("disk_pages_stored")?;
            (stored > 0.0).then(|| pages * 4096.0 / stored)
        }
        // Of bytes before compression: pages of all units written, and what collection moved of them.
        "disk_write_amplification" => {
            let stored = gauge("disk_bytes_stored")?;
            let moved = ratio(stored, stored - gauge("disk_bytes_moved")?);
            Some(share("disk_pages_stored", "disk_pages_given")? * moved)
        }
        "seeks_per_read" => {
            (row.reads > 0).then(|| ratio(behind.read_seeks.unwrap_or(0) as f64, row.reads as f64))
        }
        "host_bytes" => sum(&[
            "bitmap_bytes",
            "index_bytes",
            "policy_bytes",
            "mapping_bytes",
        ]),
        "map_bytes" => Some(packed?.map_bytes as f64),
        "host_gib_per_tib" => {
            gib_per_tib(row, sum(&["bitmap_bytes", "index_bytes", "policy_bytes"])?)
        }
        "map_gib_per_tib" => gib_per_tib(row, packed?.map_bytes as f64),
        _ => None,
    }
}

/// Bytes by what is cached at the end of the run.
fn gib_per_tib(row: &Row, bytes: f64) -> Option<f64> {
    let sectors = row
        .gauge("cached_sectors")
        .filter(|sectors| *sectors > 0.0)?;
    Some(bytes / sectors * 1024.0 / 4096.0)
}

fn device<'a>(row: &'a Row, role: &str) -> Option<&'a DeviceAccount> {
    row.devices.iter().find(|device| device.role == role)
}

/// A line for each design that keeps its data behind others.
fn lines(rows: &[Row]) -> Vec<[String; 10]> {
    let caches = rows.iter().filter(|row| device(row, "backing").is_some());
    let line = |row: &Row| {
        let number = |name: &str| optional(figure(row, name));
        let percent = |name: &str| optional_percent(figure(row, name));
        let size = |name: &str| figure(row, name).map_or_else(|| "–".into(), |of| bytes(of as u64));
        [
            row.design.clone(),
            percent("read_hit_ratio"),
            percent("write_hit_ratio"),
            number("flash_ratio"),
            number("flash_write_amplification"),
            number("disk_ratio"),
            number("disk_write_amplification"),
            number("seeks_per_read"),
            size("host_bytes"),
            size("map_bytes"),
        ]
    };
    caches.map(line).collect()
}

/// As text, after an empty line; empty without such designs.
pub(super) fn table(rows: &[Row]) -> String {
    figures::table(&HEADS, lines(rows), (1, 2))
}

/// As a section of the page; empty without such designs.
pub(super) fn section(rows: &[Row]) -> String {
    figures::section("Cache and disk", &HEADS, lines(rows))
}
