//! A kill of the process after every single write to the file, and within it.
//!
//! Whatever was being done is then done or not done, and everything before it is there.

use super::*;
use crate::media::file::format::PageEntry;

#[derive(Debug, Clone)]
enum Step {
    Program { ppn: u32, oob: Oob },
    Erase { block: u32 },
    Append { byte: u8, len: usize },
    Replace { lens: Vec<usize> },
    Sync,
}

impl Step {
    fn run(&self, media: &mut impl Media) -> Result<(), MediaError> {
        match self {
            Step::Program { ppn, oob } => {
                media.program(*ppn, *oob, &page(media.geometry().page_bytes, oob.seq))
            }
            Step::Erase { block } => media.erase(*block),
            Step::Append { byte, len } => media.log_append(&vec![*byte; *len]),
            Step::Replace { lens } => {
                let records: Vec<_> = lens.iter().map(|&len| vec![0xee; len]).collect();
                media.log_replace(&records.iter().map(Vec::as_slice).collect::<Vec<_>>())
            }
            Step::Sync => media.sync(),
        }
    }

    fn apply(&self, model: &mut Model, page_bytes: u32) {
        match self {
            Step::Program { ppn, oob } => model.program(*ppn, *oob, &page(page_bytes, oob.seq)),
            Step::Erase { block } => model.erase(*block),
            Step::Append { byte, len } => model.log.push(vec![*byte; *len]),
            Step::Replace { lens } => model.log = lens.iter().map(|&len| vec![0xee; len]).collect(),
            Step::Sync => {}
        }
    }
}

/// A short life: two generations of two blocks, and a log that is replaced twice.
fn script() -> Vec<Step> {
    let program = |ppn, seq| Step::Program {
        ppn,
        oob: Oob { lpn: ppn ^ 5, seq },
    };
    vec![
        program(0, 1),
        program(1, 2),
        Step::Append { byte: 1, len: 20 },
        program(4, 3),
        Step::Sync,
        program(2, 4),
        Step::Erase { block: 0 },
        Step::Append { byte: 2, len: 0 },
        program(0, 5),
        Step::Replace { lens: vec![30, 5] },
        Step::Append { byte: 3, len: 61 },
        program(1, 6),
        program(5, 7),
        Step::Erase { block: 1 },
        Step::Replace { lens: vec![] },
        program(4, 8),
        Step::Erase { block: 0 },
        Step::Append { byte: 4, len: 9 },
        program(0, 9),
        Step::Sync,
        Step::Replace { lens: vec![100] },
        program(6, 10),
    ]
}

/// Runs the script with a kill at `point`, then restarts and runs the rest; false if the script
/// ended before the kill.
fn survive(page_bytes: u32, options: FileOptions, point: KillPoint) -> bool {
    let directory = directory();
    let path = image_path(&directory);
    let image = FileImage::create(&path, &image_geometry(page_bytes), 1, options).unwrap();
    let mut media = image.core(1).unwrap();
    image.kill_at(point);
    let mut before = Model::default();
    let mut steps = script().into_iter();
    let struck = steps.by_ref().find(|step| {
        let killed = step.run(&mut media).is_err();
        if !killed {
            step.apply(&mut before, page_bytes);
        }
        killed
    });
    assert!(
        struck.is_none() || media.log_append(b"late").is_err(),
        "no write follows a kill"
    );
    drop((media, image));

    let image = FileImage::open(&path, options).unwrap();
    let mut media = image.core(1).unwrap();
    let found = Model::of(&media);
    if let Some(step) = &struck {
        let mut after = before.clone();
        step.apply(&mut after, page_bytes);
        // A kill that tears one entry itself, which is smaller than a sector, leaves a page that is
        // neither erased nor readable.
        let (mut torn, pages) = match step {
            Step::Program { ppn, .. } => (before.clone(), *ppn..ppn + 1),
            Step::Erase { block } => (
                after.clone(),
                block * PAGES_PER_BLOCK..(block + 1) * PAGES_PER_BLOCK,
            ),
            _ => (before.clone(), 0..0),
        };
        let tears_entries = !point.torn_bytes.is_multiple_of(size_of::<PageEntry>());
        if tears_entries
            && let Some(ppn) = pages
                .into_iter()
                .find(|ppn| found.pages.get(ppn) == Some(&None))
        {
            torn.pages.insert(ppn, None);
        }
        let whole = found == before || found == after || found == torn;
        assert!(
            whole,
            "{point:?} in {step:?}: found\n{found:?}before it was\n{before:?}"
        );
    } else {
        assert_eq!(found, before);
    }
    found.assert_is(&media);

    // Life goes on from there, and a second restart finds the same.
    let mut model = found;
    for step in steps {
        if matches!(step, Step::Program { ppn, .. } if model.pages.contains_key(&ppn)) {
            continue;
        }
        step.run(&mut media).unwrap();
        step.apply(&mut model, page_bytes);
    }
    model.assert_is(&media);
    drop((media, image));
    let image = FileImage::open(&path, options).unwrap();
    model.assert_is(&image.core(1).unwrap());
    struck.is_some()
}

fn sweep(page_bytes: u32, options: FileOptions, torn_bytes: &[usize]) {
    for &torn_bytes in torn_bytes {
        let kills = (0..)
            .take_while(|&writes| survive(page_bytes, options, KillPoint { writes, torn_bytes }));
        let kills = kills.count();
        assert!(kills > 40, "the script writes more than {kills} times");
    }
}

#[test]
fn a_kill_after_any_write_loses_only_what_was_being_done() {
    sweep(PAGE_BYTES, UNORDERED, &[0]);
    sweep(STAMP_BYTES, UNORDERED, &[0]);
    sweep(PAGE_BYTES, FileOptions::default(), &[0]);
}

#[test]
fn a_kill_within_any_write_loses_only_what_was_being_done() {
    let everywhere: Vec<_> = (1..41).chain([64, 100, 2048, 4095]).collect();
    sweep(STAMP_BYTES, UNORDERED, &everywhere);
    sweep(PAGE_BYTES, UNORDERED, &[1, 24, 31, 32, 2048, 4095]);
}
