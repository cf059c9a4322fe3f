//! Tests of media of units: against a model, under kills within every write, with rotten
//! directories.

use std::collections::BTreeMap;
use std::path::Path;

use wharf_runtime::{Rng, Seed};

use super::unit::{EXTENTS_PER_PAGE, Form, directory_granules};
use super::*;
use crate::media::rot::Rot;
use crate::media::{AnyMedia, FileImage, FileOptions, ImageGeometry, KillPoint, STAMP_BYTES};

const BLOCKS: u32 = 3;
const PAGES_PER_BLOCK: u32 = 8;
const UNIT_PAGES: u32 = 2;

/// Options under which tests run fast: no waiting for the disk.
const UNORDERED: FileOptions = FileOptions {
    overwrite: false,
    ordered: false,
};

fn geometry(page_bytes: u32) -> CoreGeometry {
    CoreGeometry {
        blocks: BLOCKS,
        pages_per_block: PAGES_PER_BLOCK,
        page_bytes,
        unit_pages: UNIT_PAGES,
        log_bytes: 1024,
    }
}

/// One extent: whose, how kept, what is kept.
type Extent = (Oob, Content, Vec<u8>);

/// What media of units should hold, in the plainest way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    /// By number.
    extents: BTreeMap<u32, Extent>,
    /// Units of each block.
    units: [u32; BLOCKS as usize],
    erases: [u32; BLOCKS as usize],
}

impl Model {
    fn of(media: &impl Media) -> Model {
        let mut model = Model::default();
        let per_block = media.geometry().extents_per_block();
        for block in 0..BLOCKS {
            model.units[block as usize] = media.written_slots(block);
            model.erases[block as usize] = media.erase_count(block);
            for extent in block * per_block..block * per_block + media.written_pages(block) {
                let mut out = vec![0; PAGE_BYTES as usize];
                match media.read_extent(extent, &mut out) {
                    Ok((oob, content)) => {
                        out.truncate(content.stored_bytes(media.page_bytes()));
                        assert_eq!(media.oob(extent), Some(oob));
                        assert_eq!(media.granules(extent), content.granules());
                        model.extents.insert(extent, (oob, content, out));
                    }
                    Err(MediaError::Rot { ppn }) => assert_eq!(ppn, extent),
                    Err(other) => panic!("{other}"),
                }
            }
        }
        model
    }
}

/// As many random extents as fit a unit, or a few less.
fn unit_of(rng: &mut Rng, page_bytes: u32, seq: &mut u64) -> Vec<Extent> {
    let mut extents: Vec<Extent> = Vec::new();
    let mut used = 0;
    for count in 1..=UNIT_PAGES * EXTENTS_PER_PAGE {
        let form = match rng.below(8) {
            0 => Form::Filler,
            1 => Form::Raw,
            _ => Form::Packed,
        };
        let bytes = match form {
            Form::Raw => u64::from(PAGE_BYTES),
            _ if rng.chance(1, 2) => 1 + rng.below(64),
            _ => 1 + rng.below(4000),
        };
        let content = Content {
            bytes: bytes as u16,
            form,
        };
        used += content.granules();
        if used + directory_granules(UNIT_PAGES, count) > UNIT_PAGES * PAGE_GRANULES {
            break;
        }
        *seq += 1 + rng.below(3);
        let oob = Oob {
            lpn: rng.below(100) as u32,
            seq: *seq,
        };
        let kept = (0..content.stored_bytes(page_bytes as usize)).map(|_| rng.below(256) as u8);
        extents.push((oob, content, kept.collect()));
        if rng.chance(1, 12) {
            break;
        }
    }
    extents
}

/// One step of a random life; `false` if it failed.
fn step(
    media: &mut impl Media,
    model: &mut Model,
    rng: &mut Rng,
    seq: &mut u64,
) -> Result<(), MediaError> {
    let per_block = media.geometry().extents_per_block();
    let block = rng.below(u64::from(BLOCKS)) as u32;
    let units = PAGES_PER_BLOCK / UNIT_PAGES;
    let own = block as usize;
    if rng.chance(1, 8) {
        return media.sync();
    }
    if model.units[own] == units || rng.chance(1, 10) {
        media.erase(block)?;
        model
            .extents
            .retain(|extent, _| extent / per_block != block);
        model.units[own] = 0;
        model.erases[own] += 1;
        return Ok(());
    }
    let extents = unit_of(rng, media.geometry().page_bytes, seq);
    let place = UnitPlace {
        block,
        unit: model.units[own],
        first_extent: media.written_pages(block),
    };
    let data = extents.iter().map(|(oob, content, data)| ExtentData {
        oob: *oob,
        content: *content,
        data,
    });
    media.program_unit(place, &data.collect::<Vec<_>>())?;
    let first = block * per_block + place.first_extent;
    model.extents.extend((first..).zip(extents));
    model.units[own] += 1;
    Ok(())
}

fn live(media: &mut impl Media, seed: u64, steps: usize) -> Model {
    let (mut model, mut rng, mut seq) = (Model::of(media), Seed(seed).rng(), 0);
    for at in 0..steps {
        step(media, &mut model, &mut rng, &mut seq).unwrap();
        if at % 16 == 0 {
            assert_eq!(Model::of(media), model, "seed {seed}, step {at}");
        }
    }
    model
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn create(path: &Path, page_bytes: u32) -> FileImage {
    let shape = ImageGeometry {
        cores: 2,
        core: geometry(page_bytes),
    };
    FileImage::create(path, &shape, 1, UNORDERED).unwrap()
}

#[test]
fn units_in_memory_are_what_a_model_says() {
    for (seed, page_bytes) in [(1, PAGE_BYTES), (2, STAMP_BYTES), (3, PAGE_BYTES)] {
        let mut media = PackedMedia::new(geometry(page_bytes), true).unwrap();
        live(&mut media, seed, 600);
    }
}

#[test]
fn units_in_an_image_are_what_a_model_says_also_when_it_is_opened_anew() {
    for (seed, page_bytes) in [(1, PAGE_BYTES), (2, STAMP_BYTES)] {
        let folder = folder();
        let path = folder.path().join("units.wharf");
        let image = create(&path, page_bytes);
        let mut media = image.media(1).unwrap();
        let model = live(&mut media, seed, 300);
        drop((media, image));
        let image = FileImage::open(&path, UNORDERED).unwrap();
        assert_eq!(Model::of(&image.media(1).unwrap()), model);
    }
}

#[test]
fn a_copy_of_units_is_equal_to_the_original() {
    for page_bytes in [PAGE_BYTES, STAMP_BYTES] {
        let mut media = AnyMedia::Packed(PackedMedia::new(geometry(page_bytes), true).unwrap());
        let model = live(&mut media, 5, 90);
        let folder = folder();
        let image = create(&folder.path().join("copy.wharf"), page_bytes);
        let mut copied = image.media(0).unwrap();
        crate::media::copy_core(&media, &mut copied).unwrap();
        assert_eq!(Model::of(&copied), model);
        let mut back = AnyMedia::Packed(PackedMedia::new(geometry(page_bytes), true).unwrap());
        crate::media::copy_core(&copied, &mut back).unwrap();
        assert_eq!(Model::of(&back), model);
    }
}

/// A kill after every single write to the file, and within it at several bytes: what was being done
/// is done or not done.
#[test]
fn a_kill_leaves_a_unit_whole_or_absent() {
    for page_bytes in [PAGE_BYTES, STAMP_BYTES] {
        let mut torn_directories = 0;
        for writes in 0..60 {
            for torn_bytes in [0, 9, 40, 700] {
                torn_directories += u32::from(kill(page_bytes, KillPoint { writes, torn_bytes }));
            }
        }
        assert!(torn_directories > 5, "kills have torn {torn_directories}");
    }
}

/// Lives with a kill at `point`, and looks at what is there then; true if a unit counts as lost.
fn kill(page_bytes: u32, point: KillPoint) -> bool {
    let folder = folder();
    let path = folder.path().join("units.wharf");
    let image = create(&path, page_bytes);
    image.kill_at(point);
    let mut media = image.media(1).unwrap();
    let (mut model, mut rng, mut seq) = (Model::default(), Seed(7).rng(), 0);
    // The same life in memory, a step ahead where the kill strikes.
    let mut twin = PackedMedia::new(geometry(page_bytes), false).unwrap();
    let mut before = model.clone();
    for _ in 0..200 {
        before = model.clone();
        let (mut ahead, mut ahead_rng, mut ahead_seq) = (model.clone(), rng.clone(), seq);
        step(&mut twin, &mut ahead, &mut ahead_rng, &mut ahead_seq).unwrap();
        if step(&mut media, &mut model, &mut rng, &mut seq).is_err() {
            break;
        }
    }
    drop((media, image));
    let image = FileImage::open(&path, UNORDERED).unwrap();
    let mut media = image.media(1).unwrap();
    let found = Model::of(&media);
    let done = Model::of(&twin).extents;
    assert!(
        found.extents == before.extents || found.extents == done,
        "{point:?}: {} extents, where {} were and {} were to be",
        found.extents.len(),
        before.extents.len(),
        done.len()
    );
    let lost = found.units > before.units && found.extents == before.extents;
    // And life goes on, on the units behind what is lost.
    let mut model = found;
    for _ in 0..40 {
        step(&mut media, &mut model, &mut rng, &mut seq).unwrap();
        assert!(Model::of(&media).extents == model.extents, "{point:?}");
    }
    lost
}

/// Programs two units in each block.
fn two_units_each(media: &mut impl Media, rng: &mut Rng) -> Model {
    let (mut model, mut seq) = (Model::default(), 0);
    while model.units != [2; 3] {
        let mut next = model.clone();
        let page_bytes = media.geometry().page_bytes;
        let block = (0..BLOCKS).find(|block| model.units[*block as usize] < 2);
        let block = block.expect("one has less");
        let place = UnitPlace {
            block,
            unit: model.units[block as usize],
            first_extent: media.written_pages(block),
        };
        let extents = unit_of(rng, page_bytes, &mut seq);
        let data = extents.iter().map(|(oob, content, data)| ExtentData {
            oob: *oob,
            content: *content,
            data,
        });
        media
            .program_unit(place, &data.collect::<Vec<_>>())
            .unwrap();
        let first = block * media.geometry().extents_per_block() + place.first_extent;
        next.extents.extend((first..).zip(extents));
        next.units[block as usize] += 1;
        model = next;
    }
    model
}

/// What was programmed since the last sync may have lost its data in a crash of the machine: such a
/// unit is lost as a whole, also after the next sync, which would note it as good.
#[test]
fn a_unit_whose_data_a_crash_lost_is_void_for_good() {
    for page_bytes in [PAGE_BYTES, STAMP_BYTES] {
        let folder = folder();
        let path = folder.path().join("units.wharf");
        let image = create(&path, page_bytes);
        let mut media = image.media(0).unwrap();
        let model = two_units_each(&mut media, &mut Seed(3).rng());
        let kept = |(_, (_, content, _)): &(&u32, &Extent)| content.form != Form::Filler;
        let (torn, _) = model.extents.iter().find(kept).unwrap();
        media.corrupt(*torn, 3).unwrap();
        let unit = (0..)
            .zip(&model.extents)
            .filter(|(_, (extent, _))| *extent < torn);
        assert!(unit.count() < 60, "it is of the first unit");
        drop((media, image));
        let image = FileImage::open(&path, UNORDERED).unwrap();
        let mut media = image.media(0).unwrap();
        let found = Model::of(&media);
        assert_eq!(found.units, model.units, "its place is taken");
        assert!(!found.extents.contains_key(torn));
        let per_block = media.geometry().extents_per_block();
        let second = model.extents.keys().filter(|extent| **extent >= per_block);
        assert!(second.clone().count() > 10);
        assert!(
            second
                .clone()
                .all(|extent| found.extents.contains_key(extent))
        );
        media.sync().unwrap();
        drop((media, image));
        let image = FileImage::open(&path, UNORDERED).unwrap();
        assert_eq!(Model::of(&image.media(0).unwrap()), found);
    }
}

/// A directory that has rotted takes its unit with it, and nothing else: what it held answers rot.
#[test]
fn a_rotten_directory_loses_its_unit_and_no_other() {
    let folder = folder();
    let path = folder.path().join("units.wharf");
    let image = create(&path, PAGE_BYTES);
    let AnyMedia::Packed(mut media) = image.media(0).unwrap() else {
        panic!("an image of units");
    };
    let before = two_units_each(&mut media, &mut Seed(11).rng());
    let per_block = media.geometry().extents_per_block();
    media.sync().unwrap();
    // The first unit of block 1.
    media
        .damage_directory(PAGES_PER_BLOCK / UNIT_PAGES, 70)
        .unwrap();
    drop((media, image));
    let image = FileImage::open(&path, UNORDERED).unwrap();
    let media = image.media(0).unwrap();
    let found = Model::of(&media);
    assert_eq!(found.units, before.units);
    let mut gone = 0;
    for (extent, kept) in &before.extents {
        match found.extents.get(extent) {
            Some(same) => assert_eq!(same, kept),
            None => {
                gone += 1;
                assert_eq!(extent / per_block, 1, "of the block with the rot alone");
                let answer = media.read_extent(*extent, &mut [0; 4096]);
                assert!(matches!(answer, Err(MediaError::Rot { .. })), "{answer:?}");
            }
        }
    }
    let of_block = before.extents.range(per_block..2 * per_block).count();
    assert!(0 < gone && gone < of_block, "{gone} of {of_block}");
}

/// What is programmed while a sync goes on beside is not covered by it: its data are looked at when the
/// image is loaded, and a unit that a crash tore is void, not rotten.
#[test]
fn a_sync_beside_covers_what_was_programmed_before_it_began() {
    let folder = folder();
    let path = folder.path().join("units.wharf");
    let image = create(&path, PAGE_BYTES);
    let mut media = image.media(0).unwrap();
    let mut rng = Seed(5).rng();
    let before = two_units_each(&mut media, &mut rng);
    let held = image.hold_syncs();
    let syncing = media.begin_sync().unwrap().expect("it is held");
    assert!(!syncing.is_done());
    // The third unit of block 0, amid the sync.
    let mut seq = 1 << 20;
    let extents = unit_of(&mut rng, PAGE_BYTES, &mut seq);
    let first_extent = media.written_pages(0);
    let place = UnitPlace {
        block: 0,
        unit: 2,
        first_extent,
    };
    let data = extents.iter().map(|(oob, content, data)| ExtentData {
        oob: *oob,
        content: *content,
        data,
    });
    let data: Vec<_> = data.collect();
    media.program_unit(place, &data).unwrap();
    drop(held);
    media.end_sync(&syncing).unwrap();
    let kept = extents
        .iter()
        .position(|(_, content, _)| content.form != Form::Filler);
    media
        .corrupt(first_extent + kept.unwrap() as u32, 3)
        .unwrap();
    drop((media, image));
    let image = FileImage::open(&path, UNORDERED).unwrap();
    let found = Model::of(&image.media(0).unwrap());
    assert_eq!(found.units, [3, 2, 2], "its place is taken");
    assert_eq!(found.extents, before.extents);
}

/// A sync that finds nothing new to write still ends after the one beside it.
#[test]
fn a_sync_that_goes_on_when_another_is_made_is_waited_for() {
    let folder = folder();
    let path = folder.path().join("units.wharf");
    let image = create(&path, PAGE_BYTES);
    let mut media = image.media(0).unwrap();
    let model = two_units_each(&mut media, &mut Seed(6).rng());
    let held = image.hold_syncs();
    let syncing = media.begin_sync().unwrap().expect("it is held");
    let release = std::thread::scope(|scope| {
        let waits = scope.spawn(|| media.sync());
        assert!(!syncing.is_done());
        drop(held);
        waits.join().unwrap()
    });
    release.unwrap();
    assert!(syncing.is_done(), "the second ended before the first");
    media.end_sync(&syncing).unwrap();
    drop((media, image));
    let image = FileImage::open(&path, UNORDERED).unwrap();
    assert_eq!(Model::of(&image.media(0).unwrap()), model);
}
