//! Crashes of the host machine: any write since the last sync may be lost, whatever the order.
//!
//! A tiny translation layer writes, relocates, erases, logs and syncs. Its writes are recorded;
//! the file is rebuilt from a random prefix of them, without a random half of those that no sync
//! covered, and the layer recovers by the newest readable copy. No page and no log may be older
//! than the last sync before the crash, and none may be made up.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::media::file::store::Event;

const LPNS: u32 = 5;
/// Room for all pages thrice over, and two spare blocks: a crash may leave one of them half full.
const BLOCKS: u32 = 6;

/// What the drive holds: the version of each logical page, and the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    pages: BTreeMap<u32, u64>,
    log: Vec<Vec<u8>>,
}

/// What may be found after a crash.
#[derive(Debug, Clone, Default)]
struct Allowed {
    /// Versions of pages at the last sync.
    pages_min: BTreeMap<u32, u64>,
    /// The last versions written.
    pages_max: BTreeMap<u32, u64>,
    /// The log at the last sync, and after each change since.
    logs: Vec<Vec<Vec<u8>>>,
}

/// The state before each change, with the number of writes to the file that there had been.
#[derive(Debug, Default)]
struct History {
    states: Vec<(usize, State)>,
    /// Number of writes at the return of each sync, and the index of the state that it made safe.
    syncs: Vec<(usize, usize)>,
}

impl History {
    /// What a crash after `cut` writes may leave.
    fn allowed(&self, cut: usize) -> Allowed {
        let (_, safe) = *self
            .syncs
            .iter()
            .rfind(|&&(writes, _)| writes <= cut)
            .unwrap();
        let begun = self
            .states
            .iter()
            .rposition(|&(writes, _)| writes <= cut)
            .unwrap();
        let states = &self.states[safe..=begun];
        Allowed {
            pages_min: states[0].1.pages.clone(),
            pages_max: states[states.len() - 1].1.pages.clone(),
            logs: states.iter().map(|(_, state)| state.log.clone()).collect(),
        }
    }
}

struct Layer {
    image: FileImage,
    media: FileMedia,
    seq: u64,
    open: u32,
    state: State,
    history: History,
    journal: Vec<Event>,
}

/// Where the newest copy of each page lies. Only the out-of-band data is looked at.
fn recover(media: &FileMedia) -> BTreeMap<u32, (Oob, u32)> {
    let mut newest = BTreeMap::new();
    for ppn in 0..media.geometry().pages() {
        if let Some(oob) = media.oob(ppn) {
            let entry = newest.entry(oob.lpn).or_insert((oob, ppn));
            if oob.seq > entry.0.seq {
                *entry = (oob, ppn);
            }
        }
    }
    newest
}

fn read_version(media: &FileMedia, ppn: u32) -> u64 {
    let mut data = [0; 8];
    media
        .read(ppn, &mut data)
        .unwrap_or_else(|error| panic!("a recovered page: {error}"));
    u64::from_le_bytes(data)
}

impl Layer {
    /// Opens the image after a crash, and checks what that left.
    fn open(path: &Path, allowed: &Allowed) -> Self {
        let image = FileImage::open(path, FileOptions::default()).unwrap();
        let media = image.core(0).unwrap();
        let found = recover(&media);
        let pages: BTreeMap<_, _> = found
            .iter()
            .map(|(&lpn, &(_, ppn))| (lpn, read_version(&media, ppn)))
            .collect();
        for lpn in 0..LPNS {
            let [least, most] = [&allowed.pages_min, &allowed.pages_max].map(|m| m.get(&lpn));
            let version = pages.get(&lpn);
            let possible = least <= version && version <= most;
            assert!(
                possible,
                "page {lpn} is {version:?} of {least:?}..={most:?}"
            );
        }
        let log = media.log_read().unwrap();
        assert!(
            allowed.logs.contains(&log),
            "log {log:?} of {:?}",
            allowed.logs
        );
        let mut layer = Self {
            image,
            media,
            seq: found.values().map(|(oob, _)| oob.seq).max().unwrap_or(0),
            open: 0,
            state: State { pages, log },
            history: History::default(),
            journal: Vec::new(),
        };
        // All that was found counts as it was found, once the next sync has made it safe; what was
        // safe before the crash still is.
        let safe = State {
            pages: allowed.pages_min.clone(),
            log: layer.state.log.clone(),
        };
        layer.history.states.push((0, safe));
        layer.history.syncs.push((0, 0));
        layer.change();
        layer
    }

    /// Notes the state that is about to be made, or has been found.
    fn change(&mut self) {
        self.journal.extend(self.image.take_journal());
        self.history
            .states
            .push((self.journal.len(), self.state.clone()));
    }

    /// Notes that the latest state is safe.
    fn safe(&mut self) {
        self.journal.extend(self.image.take_journal());
        let latest = self.history.states.len() - 1;
        self.history.syncs.push((self.journal.len(), latest));
    }

    fn write(&mut self, lpn: u32, version: u64) {
        if self.media.written_pages(self.open) == PAGES_PER_BLOCK {
            self.collect();
        }
        self.state.pages.insert(lpn, version);
        self.change();
        self.append(lpn, version);
    }

    /// Programs the next page of the open block.
    fn append(&mut self, lpn: u32, version: u64) {
        let index = self.media.written_pages(self.open);
        assert!(
            index < PAGES_PER_BLOCK,
            "an empty block holds a whole block"
        );
        self.seq += 1;
        let oob = Oob { lpn, seq: self.seq };
        let ppn = self.open * PAGES_PER_BLOCK + index;
        self.media
            .program(ppn, oob, &version.to_le_bytes())
            .unwrap();
    }

    /// Opens an empty block and, if only one more is left, moves the live pages of another into it.
    fn collect(&mut self) {
        let mut live = [0; BLOCKS as usize];
        let newest = recover(&self.media);
        for (_, ppn) in newest.values() {
            live[(ppn / PAGES_PER_BLOCK) as usize] += 1;
        }
        for block in 0..BLOCKS {
            if live[block as usize] == 0 && self.media.written_pages(block) > 0 {
                self.media.erase(block).unwrap();
            }
        }
        let empty = |block: &u32| self.media.written_pages(*block) == 0;
        let open = (0..BLOCKS).find(empty).expect("two blocks are spare");
        let more = (0..BLOCKS).filter(empty).count() > 2;
        self.open = open;
        if more {
            return;
        }
        let others = (0..BLOCKS).filter(|&block| block != open);
        let victim = others.min_by_key(|&block| live[block as usize]).unwrap();
        for (lpn, (_, ppn)) in newest {
            if ppn / PAGES_PER_BLOCK == victim {
                self.append(lpn, read_version(&self.media, ppn));
            }
        }
        self.media.erase(victim).unwrap();
    }

    fn log(&mut self, version: u64, dice: &mut Dice) {
        let record = vec![version as u8; 1 + dice.below(40) as usize];
        if self.state.log.len() < 6 && dice.below(4) > 0 {
            self.state.log.push(record.clone());
            self.change();
            self.media.log_append(&record).unwrap();
        } else {
            self.state.log = vec![record; dice.below(3) as usize];
            self.change();
            let slices: Vec<_> = self.state.log.iter().map(Vec::as_slice).collect();
            self.media.log_replace(&slices).unwrap();
            // A replacement is safe by itself, and with it all that was before.
            self.safe();
        }
    }

    fn sync(&mut self) {
        self.media.sync().unwrap();
        self.safe();
    }
}

/// Rebuilds the file as a crash after `cut` writes might leave it.
fn crash(before: &[u8], journal: &[Event], dice: &mut Dice) -> Vec<u8> {
    let synced = journal.iter().rposition(|event| *event == Event::Sync);
    let mut file = before.to_vec();
    for (index, event) in journal.iter().enumerate() {
        if let Event::Write { at, bytes } = event
            && (synced.is_some_and(|synced| index < synced) || dice.below(2) == 0)
        {
            file[*at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }
    file
}

/// Work from what a crash left, then the next crash; answers what may be found after it.
fn live_and_crash(path: &Path, dice: &mut Dice, allowed: &Allowed) -> Allowed {
    let before = std::fs::read(path).unwrap();
    let mut layer = Layer::open(path, allowed);
    if dice.below(2) == 0 {
        layer.sync();
    }
    layer.collect();
    let version = layer.state.pages.values().copied().max().unwrap_or(0);
    for version in version + 1..=version + dice.below(30) {
        match dice.below(12) {
            0 => layer.sync(),
            1..3 => layer.log(version, dice),
            _ => layer.write(dice.below(LPNS.into()) as u32, version),
        }
    }
    layer.journal.extend(layer.image.take_journal());
    let Layer {
        image,
        media,
        history,
        journal,
        ..
    } = layer;
    drop((image, media));
    let cut = dice.below(journal.len() as u64 + 1) as usize;
    std::fs::write(path, crash(&before, &journal[..cut], dice)).unwrap();
    history.allowed(cut)
}

#[test]
fn a_crash_of_the_machine_loses_nothing_that_was_synced() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let directory = directory();
        let path = image_path(&directory);
        let core = CoreGeometry {
            blocks: BLOCKS,
            ..geometry(STAMP_BYTES)
        };
        let geometry = ImageGeometry { cores: 1, core };
        drop(FileImage::create(&path, &geometry, seed, FileOptions::default()).unwrap());
        let mut allowed = Allowed {
            logs: vec![vec![]],
            ..Allowed::default()
        };
        for life in 0..15 {
            // Shown only if the test fails.
            println!("seed {seed}, life {life}");
            allowed = live_and_crash(&path, &mut dice, &allowed);
        }
    }
}
