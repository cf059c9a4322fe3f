//! Rot is found, named and survived.

use super::*;
use crate::media::rot::Rot;

fn rots_and_recovers(media: &mut impl Rot) {
    let data = page(media.geometry().page_bytes, 5);
    let mut out = vec![0; media.page_bytes()];
    for ppn in 0..PAGES_PER_BLOCK {
        media
            .program(
                ppn,
                Oob {
                    lpn: ppn + 10,
                    seq: ppn.into(),
                },
                &data,
            )
            .unwrap();
    }
    media.corrupt(2, 1001).unwrap();
    for ppn in 0..PAGES_PER_BLOCK {
        match media.read(ppn, &mut out) {
            Ok(oob) => assert!(ppn != 2 && oob.lpn == ppn + 10 && out == data),
            Err(error) => assert_eq!(
                error.to_string(),
                "page 2 has rotted: its checksum does not fit its data"
            ),
        }
        // Garbage collection still learns whose data is lost.
        assert_eq!(media.lpn(ppn), Some(ppn + 10));
    }
    media.erase(0).unwrap();
    assert!(matches!(
        media.read(2, &mut out),
        Err(MediaError::Erased { ppn: 2 })
    ));
    media.program(2, Oob { lpn: 1, seq: 100 }, &data).unwrap();
    assert_eq!(media.read(2, &mut out).unwrap().seq, 100);
}

#[test]
fn rot_is_found_in_memory() {
    let ram = RamMedia::new(geometry(PAGE_BYTES), true).unwrap();
    rots_and_recovers(&mut AnyMedia::Ram(ram));
    let mixed = RamMedia::mixed(geometry(PAGE_BYTES), true).unwrap();
    rots_and_recovers(&mut AnyMedia::Ram(mixed));
    let stamps = StampMedia::new(geometry(STAMP_BYTES)).unwrap();
    rots_and_recovers(&mut AnyMedia::Stamp(stamps));
}

#[test]
fn rot_is_found_in_a_file() {
    for page_bytes in [STAMP_BYTES, PAGE_BYTES] {
        let directory = directory();
        let geometry = image_geometry(page_bytes);
        let image = FileImage::create(&image_path(&directory), &geometry, 1, UNORDERED).unwrap();
        rots_and_recovers(&mut AnyMedia::File(image.core(1).unwrap()));
    }
}

/// Flips every single bit of one core's small structures in turn: loading may lose what the bit
/// belonged to, and must never make anything up.
#[test]
fn no_flipped_bit_of_an_image_makes_data_up() {
    let directory = directory();
    let path = image_path(&directory);
    let geometry = ImageGeometry {
        cores: 1,
        core: geometry(STAMP_BYTES),
    };
    let image = FileImage::create(&path, &geometry, 1, UNORDERED).unwrap();
    let mut media = image.core(0).unwrap();
    media.log_replace(&[b"base"]).unwrap();
    media.log_append(b"appended").unwrap();
    media.erase(1).unwrap();
    for ppn in 0..6 {
        media
            .program(
                ppn,
                Oob {
                    lpn: ppn,
                    seq: ppn.into(),
                },
                &page(8, ppn.into()),
            )
            .unwrap();
    }
    media.sync().unwrap();
    let whole = Model::of(&media);
    drop((media, image));
    let good = std::fs::read(&path).unwrap();
    let mut lost = 0;
    for at in (0..good.len()).filter(|&at| good[at] != 0) {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            std::fs::write(&path, &bad).unwrap();
            let Ok(image) = FileImage::open(&path, UNORDERED) else {
                lost += 1;
                continue;
            };
            let Ok(media) = image.core(0) else {
                lost += 1;
                continue;
            };
            let found = Model::of(&media);
            assert_less_or_equal(&found, &whole, at);
            lost += u32::from(found != whole);
        }
    }
    assert!(lost > 1000, "{lost} flips were noticed");
}

/// Everything in `found` is in `whole` too.
fn assert_less_or_equal(found: &Model, whole: &Model, at: usize) {
    for (ppn, page) in &found.pages {
        let known = whole
            .pages
            .get(ppn)
            .unwrap_or_else(|| panic!("byte {at} made page {ppn} up"));
        assert!(
            page.is_none() || page == known,
            "byte {at} changed page {ppn}"
        );
    }
    assert!(
        whole.log.starts_with(&found.log),
        "byte {at} changed the log"
    );
    assert!(
        !found.log.is_empty(),
        "byte {at} lost the base of the log without a word"
    );
}

/// What loading takes for torn is voided at the next sync, but not once its page has been erased
/// and holds something else.
#[test]
fn a_torn_page_that_was_erased_since_is_not_voided() {
    let directory = directory();
    let path = image_path(&directory);
    let image = FileImage::create(&path, &image_geometry(8), 1, UNORDERED).unwrap();
    let mut media = image.core(0).unwrap();
    media.program(1, Oob { lpn: 4, seq: 1 }, &[1; 8]).unwrap();
    media.corrupt(1, 3).unwrap();
    drop(media);
    let mut media = image.core(0).unwrap();
    assert_eq!((media.oob(1), media.written_pages(0)), (None, 2));
    media.erase(0).unwrap();
    let oob = Oob { lpn: 5, seq: 2 };
    media.program(1, oob, &[2; 8]).unwrap();
    media.sync().unwrap();
    drop(media);
    let mut data = [0; 8];
    assert_eq!(image.core(0).unwrap().read(1, &mut data).unwrap(), oob);
    assert_eq!(data, [2; 8]);
}

#[test]
fn an_entry_in_anothers_place_is_not_believed() {
    use crate::media::file::format::{Layout, PageEntry};
    let directory = directory();
    let path = image_path(&directory);
    let geometry = image_geometry(8);
    let image = FileImage::create(&path, &geometry, 1, UNORDERED).unwrap();
    let mut media = image.core(0).unwrap();
    media.program(0, Oob { lpn: 4, seq: 1 }, &[1; 8]).unwrap();
    media.sync().unwrap();
    drop((media, image));
    let mut bytes = std::fs::read(&path).unwrap();
    let entries = Layout::new(&geometry, 0).unwrap().entries as usize;
    let size = size_of::<PageEntry>();
    bytes.copy_within(entries..entries + size, entries + 2 * size);
    std::fs::write(&path, bytes).unwrap();
    let media = FileImage::open(&path, UNORDERED).unwrap().core(0).unwrap();
    assert_eq!((media.lpn(0), media.lpn(2)), (Some(4), None));
    assert!(matches!(
        media.read(2, &mut [0; 8]),
        Err(MediaError::Rot { ppn: 2 })
    ));
}
