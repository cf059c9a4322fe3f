//! Any bytes as the directory of a unit: told to be blank, damaged or sound, never a panic. What is
//! sound comes back the same when it is written again, and fits the unit.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wharf_drive::media::packed::unit::{
    Directory, EXTENTS_PER_PAGE, Found, PAGE_GRANULES, UNIT_PAGES_MAX, directory_granules,
    directory_room,
};
use wharf_fuzz::input::Input;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let unit_pages = 1 + input.number(1) as u32 % UNIT_PAGES_MAX;
    let unit = input.number(4) as u32;
    let seal = input.number(1) % 4 != 0;
    let mut bytes = input.rest().to_vec();
    bytes.resize(directory_room(unit_pages) as usize, 0);
    if seal {
        make_sound(&mut bytes, unit);
    }
    let Found::Sound(directory) = Directory::decode(&bytes, unit, unit_pages) else {
        return;
    };
    let count = directory.extents.len() as u32;
    let used: u32 = directory
        .extents
        .iter()
        .map(|(_, content, _)| content.granules())
        .sum();
    let taken = used + directory_granules(unit_pages, count);
    assert!(taken <= unit_pages * PAGE_GRANULES && count <= unit_pages * EXTENTS_PER_PAGE);
    // Extents are written in the order of their numbers, which count from the first.
    if directory.extents.is_sorted_by_key(|(oob, ..)| oob.seq) {
        let again = Directory::decode(&directory.encode(unit), unit, unit_pages);
        assert_eq!(again, Found::Sound(directory));
    }
});

/// Gives the bytes their unit's number, a number of extents that they have room for, and a checksum.
fn make_sound(bytes: &mut [u8], unit: u32) {
    let count = usize::from(bytes[12]) % ((bytes.len() - 32) / 16 + 1);
    bytes[12..14].copy_from_slice(&(count as u16).to_le_bytes());
    bytes[20..24].copy_from_slice(&unit.to_le_bytes());
    let covered = [&bytes[..28], &bytes[32..32 + 16 * count]].concat();
    bytes[28..32].copy_from_slice(&crc32c(&covered).to_le_bytes());
}

/// CRC32C, a bit at a time: written apart from the code that is tested.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(!0, step)
}
