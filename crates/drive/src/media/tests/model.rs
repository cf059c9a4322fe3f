//! Every kind of media against the model, under random operations.

use super::*;

/// One kind of media, and how it comes back after a restart.
struct Subject {
    media: Option<AnyMedia>,
    image: Option<(tempfile::TempDir, FileImage)>,
}

impl Subject {
    fn memory(media: AnyMedia) -> Self {
        Self {
            media: Some(media),
            image: None,
        }
    }

    fn file(page_bytes: u32) -> Self {
        let directory = disk_directory();
        let geometry = image_geometry(page_bytes);
        let image = FileImage::create(&image_path(&directory), &geometry, 1, UNORDERED).unwrap();
        let media = AnyMedia::File(image.core(1).unwrap());
        Self {
            media: Some(media),
            image: Some((directory, image)),
        }
    }

    fn media(&mut self) -> &mut AnyMedia {
        self.media.as_mut().unwrap()
    }

    /// Loses all that is not in the image; media in memory stay as they are.
    fn restart(&mut self) {
        let Some((directory, image)) = self.image.take() else {
            return;
        };
        drop((self.media.take(), image));
        let image = FileImage::open(&image_path(&directory), UNORDERED).unwrap();
        self.media = Some(AnyMedia::File(image.core(1).unwrap()));
        self.image = Some((directory, image));
    }
}

fn random_operations(mut subject: Subject, seed: u64, operations: u64) {
    let mut dice = Dice::new(seed);
    let mut model = Model::default();
    let page_bytes = subject.media().geometry().page_bytes;
    for seq in 1..=operations {
        match dice.below(100) {
            0..55 => {
                let block = dice.below(BLOCKS.into()) as u32;
                // Mostly in order, now and then with a gap, as translation layers may leave one.
                let index = model.written_pages(block) + u32::from(dice.below(8) == 0);
                if index >= PAGES_PER_BLOCK {
                    continue;
                }
                let ppn = block * PAGES_PER_BLOCK + index;
                let lpn = if dice.below(16) == 0 {
                    LPN_MAX
                } else {
                    dice.below(20) as u32
                };
                let (oob, mut data) = (Oob { lpn, seq }, page(page_bytes, seq));
                // Some are no repetition of a word.
                data[page_bytes as usize - 1] ^= u8::from(seq % 3 == 0);
                subject.media().program(ppn, oob, &data).unwrap();
                model.program(ppn, oob, &data);
            }
            55..75 => {
                let block = dice.below(BLOCKS.into()) as u32;
                subject.media().erase(block).unwrap();
                model.erase(block);
            }
            75..85 => {
                let record = vec![seq as u8; dice.below(200) as usize];
                match subject.media().log_append(&record) {
                    Ok(()) => model.log.push(record),
                    Err(MediaError::LogFull {
                        len,
                        capacity,
                        wanted,
                    }) => {
                        assert!(len + wanted > capacity && capacity == 1024);
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            85..90 => {
                let records: Vec<_> = (0..dice.below(5))
                    .map(|n| vec![n as u8; dice.below(150) as usize])
                    .collect();
                let slices: Vec<_> = records.iter().map(Vec::as_slice).collect();
                subject.media().log_replace(&slices).unwrap();
                model.log = records;
            }
            90..93 => subject.media().sync().unwrap(),
            _ => subject.restart(),
        }
        if seq % 7 == 0 || seq == operations {
            model.assert_is(subject.media());
        }
    }
}

#[test]
fn ram_media_behave_as_the_model() {
    for seed in 0..60 {
        let media = RamMedia::new(geometry(PAGE_BYTES), seed % 2 == 0).unwrap();
        random_operations(Subject::memory(AnyMedia::Ram(media)), seed, 400);
    }
}

#[test]
fn mixed_media_behave_as_the_model() {
    for seed in 0..60 {
        let media = RamMedia::mixed(geometry(PAGE_BYTES), seed % 2 == 0).unwrap();
        random_operations(Subject::memory(AnyMedia::Ram(media)), seed, 400);
    }
}

#[test]
fn stamp_media_behave_as_the_model() {
    for seed in 0..60 {
        let media = StampMedia::new(geometry(STAMP_BYTES)).unwrap();
        random_operations(Subject::memory(AnyMedia::Stamp(media)), seed, 400);
    }
}

#[test]
fn file_media_behave_as_the_model() {
    for seed in 0..30 {
        random_operations(Subject::file(PAGE_BYTES), seed, 250);
        random_operations(Subject::file(STAMP_BYTES), seed, 250);
    }
}

#[test]
fn cores_of_one_image_share_nothing() {
    let directory = directory();
    let geometry = image_geometry(STAMP_BYTES);
    let image = FileImage::create(&image_path(&directory), &geometry, 1, UNORDERED).unwrap();
    let mut cores = [image.core(0).unwrap(), image.core(1).unwrap()];
    let mut models = [Model::default(), Model::default()];
    for seq in 1..=u64::from(geometry.core.pages()) {
        for core in 0..2 {
            let (ppn, oob) = (
                seq as u32 - 1,
                Oob {
                    lpn: seq as u32,
                    seq: seq * 2 + core as u64,
                },
            );
            let data = page(STAMP_BYTES, oob.seq);
            cores[core].program(ppn, oob, &data).unwrap();
            cores[core].log_append(&data).unwrap();
            models[core].program(ppn, oob, &data);
            models[core].log.push(data);
        }
    }
    cores[1].erase(0).unwrap();
    models[1].erase(0);
    drop(cores);
    for (core, model) in models.iter().enumerate() {
        model.assert_is(&image.core(core as u32).unwrap());
    }
}

fn program_twice(mut media: impl Media) {
    let data = vec![0; media.page_bytes()];
    media.program(3, Oob { lpn: 0, seq: 1 }, &data).unwrap();
    media.program(3, Oob { lpn: 9, seq: 2 }, &data).unwrap();
}

#[test]
#[should_panic = "program of page 3 for logical page 9 without an erase"]
fn a_second_program_of_a_ram_page_is_a_bug() {
    program_twice(RamMedia::new(geometry(PAGE_BYTES), false).unwrap());
}

#[test]
#[should_panic = "program of page 3 for logical page 9 without an erase"]
fn a_second_program_of_a_stamp_is_a_bug() {
    program_twice(StampMedia::new(geometry(STAMP_BYTES)).unwrap());
}

#[test]
#[should_panic = "program of page 3 for logical page 9 without an erase"]
fn a_second_program_of_a_file_page_is_a_bug() {
    let directory = directory();
    let image = FileImage::create(
        &image_path(&directory),
        &image_geometry(PAGE_BYTES),
        1,
        UNORDERED,
    );
    program_twice(image.unwrap().core(0).unwrap());
}

#[test]
#[should_panic = "core 0 has its media already"]
fn one_core_has_one_media() {
    let directory = directory();
    let image = FileImage::create(
        &image_path(&directory),
        &image_geometry(PAGE_BYTES),
        1,
        UNORDERED,
    );
    let image = image.unwrap();
    let _first = image.core(0).unwrap();
    let _second = image.core(0);
}

#[test]
fn an_untouched_terabyte_costs_nothing() {
    let geometry = CoreGeometry {
        blocks: 1 << 19,
        pages_per_block: 512,
        page_bytes: 8,
        unit_pages: 0,
        log_bytes: 0,
    };
    let mut media = StampMedia::new(geometry).unwrap();
    let before = resident_bytes();
    let last = geometry.pages() - 1;
    media
        .program(
            last,
            Oob {
                lpn: 7,
                seq: 1 << 40,
            },
            &[1; 8],
        )
        .unwrap();
    assert_eq!(
        media.oob(last),
        Some(Oob {
            lpn: 7,
            seq: 1 << 40
        })
    );
    assert_eq!(media.lpn(0), None);
    let grown = resident_bytes().saturating_sub(before);
    // Other tests run in this process too; the table alone would be 4 GiB.
    assert!(grown < 1 << 30, "{grown} bytes for one page");
}

/// Memory of this process that is backed (`/proc/self/statm`, second field, in pages).
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
