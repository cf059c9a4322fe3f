//! What the designs add: structures of the same kind and size as theirs. These figures stand where an
//! operation cannot be timed in its place (`in_place.rs`): because no design of this program does it, or
//! because a design accounts for it beside the code that does it.
//!
//! | operation | timed here |
//! |---|---|
//! | `queue_index_*`, `private_*`, `manager_*` | the index of the host's caches, without its lock |
//! | `pin_list_entry` | an entry of a list page written and read |
//! | `fusion_lookup` | the drive's map entry |
//! | `frame_update` | the word of a random frame locked and unlocked |
//! | `message_*` | one end of a ring of 64-byte entries |
//! | `tree_*` | an ordered tree of all pages |
//! | `concurrent_*` | a ccXArray of all pages |
//! | `list_update` | a random frame moved to the front of a linked list |
//! | `array_entry` | the drive and the place there of a random page, and the rest of its stripe |

use std::collections::BTreeMap;
use std::hint::black_box;

use wharf_host::volume::Layout;
use wharf_runtime::page_index::{Index, hash_page};
use wharf_runtime::{Op, Seed, Versioned};

use super::CalibrateError;
use super::cache::{BATCH, FRAMES, random_pages};
use super::costs::Costs;
use super::sample::{Sample, Sampler};

/// Times each structure.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) -> Result<(), CalibrateError> {
    let (lookup, update) = index(sampler);
    let how = "random look-up in an index of 131,072 pages";
    for op in [Op::QueueIndexLookup, Op::PrivateLookup, Op::ManagerLookup] {
        costs.set(op, lookup, how);
    }
    let how = "half of a removal with an insertion in an index of 131,072 pages";
    for op in [Op::QueueIndexUpdate, Op::PrivateUpdate, Op::ManagerUpdate] {
        costs.set(op, update, how);
    }
    costs.set(
        Op::PinListEntry,
        pin_list(sampler),
        "an entry of a list page written and read",
    );
    costs.set(Op::FusionLookup, costs.get(Op::MapLookup), "as map_lookup");
    costs.set(
        Op::FrameUpdate,
        frames(sampler),
        "the word of a random frame locked and unlocked",
    );
    costs.set(
        Op::MessageSend,
        costs.get(Op::CommandSplit),
        "one push to a ring of 64-byte entries",
    );
    costs.set(
        Op::MessageReceive,
        costs.get(Op::CommandGather),
        "one pop from such a ring",
    );
    let (lookup, update) = tree(sampler);
    costs.set(
        Op::TreeLookup,
        lookup,
        "random look-up in an ordered tree of 131,072 pages",
    );
    costs.set(
        Op::TreeUpdate,
        update,
        "half of a removal with an insertion in it",
    );
    let (lookup, update) = concurrent_tree(sampler);
    costs.set(
        Op::ConcurrentLookup,
        lookup,
        "random look-up in a ccXArray of 131,072 pages",
    );
    costs.set(
        Op::ConcurrentUpdate,
        update,
        "half of a removal with an insertion in it",
    );
    costs.set(
        Op::ListUpdate,
        list(sampler),
        "a random frame moved to the front of a list",
    );
    costs.set(
        Op::ArrayEntry,
        array(sampler),
        "the drive and place of a random page of eight drives, and the rest of its stripe",
    );
    Ok(())
}

fn index(sampler: Sampler) -> (Sample, Sample) {
    let (mut rng, frames) = (Seed(21).rng(), u64::from(FRAMES));
    let mut index = Index::new(FRAMES);
    for page in 0..frames {
        index.insert(page, hash_page(page), page as u32);
    }
    let mut random = || random_pages(&mut rng, frames);
    let lookup = sampler.time(BATCH, &mut random, |pages| {
        for page in pages.iter() {
            let is_page = |frame| u64::from(frame) == *page;
            black_box(index.find(*page, hash_page(*page), is_page));
        }
    });
    let update = sampler.time(BATCH, &mut random, |pages| {
        for page in pages.iter() {
            let (frame, hash) = (*page as u32, hash_page(*page));
            index.remove(*page, hash, frame, u64::from);
            index.insert(*page, hash, frame);
        }
    });
    (lookup, update / 2.0)
}

fn pin_list(sampler: Sampler) -> Sample {
    const ENTRIES: u64 = 512;
    let mut page = [0u64; ENTRIES as usize];
    sampler.time(
        ENTRIES,
        || (),
        |()| {
            for (at, entry) in page.iter_mut().enumerate() {
                *entry = black_box(at as u64);
            }
            for entry in &page {
                black_box(*entry);
            }
        },
    )
}

fn frames(sampler: Sampler) -> Sample {
    let words: Vec<Versioned> = (0..FRAMES).map(|_| Versioned::new()).collect();
    let mut rng = Seed(22).rng();
    sampler.time(
        BATCH,
        || random_pages(&mut rng, u64::from(FRAMES)),
        |pages| {
            for page in pages.iter() {
                let word = &words[*page as usize];
                assert!(black_box(word.try_lock()), "nobody else has it");
                word.unlock();
            }
        },
    )
}

fn tree(sampler: Sampler) -> (Sample, Sample) {
    let (mut rng, frames) = (Seed(23).rng(), u64::from(FRAMES));
    let mut tree: BTreeMap<u64, u32> = (0..frames).map(|page| (page, page as u32)).collect();
    let mut random = || random_pages(&mut rng, frames);
    let lookup = sampler.time(BATCH, &mut random, |pages| {
        for page in pages.iter() {
            black_box(tree.get(page));
        }
    });
    let update = sampler.time(BATCH, &mut random, |pages| {
        for page in pages.iter() {
            let frame = tree.remove(page).expect("a page of the tree");
            tree.insert(*page, frame);
        }
    });
    (lookup, update / 2.0)
}

fn concurrent_tree(sampler: Sampler) -> (Sample, Sample) {
    let (mut rng, frames) = (Seed(24).rng(), u64::from(FRAMES));
    let tree = ccxarray::XArray::<u32>::new();
    for page in 0..frames {
        let entered = tree.insert(page, page as u32, &ccxarray::pin());
        assert!(entered.is_ok(), "a new page");
    }
    let mut random = || random_pages(&mut rng, frames);
    let lookup = sampler.time(BATCH, &mut random, |pages| {
        for page in pages.iter() {
            black_box(tree.get(*page, &ccxarray::pin()));
        }
    });
    let update = sampler.time(BATCH, &mut random, |pages| {
        for page in pages.iter() {
            tree.remove(*page, &ccxarray::pin());
            let entered = tree.insert(*page, *page as u32, &ccxarray::pin());
            assert!(entered.is_ok(), "it has just left");
        }
    });
    (lookup, update / 2.0)
}

/// What an array's driver computes for a request. What else Linux' does (its statistics, the request's way through the block
/// layer once more) is not in it.
fn array(sampler: Sampler) -> Sample {
    const DRIVE_PAGES: u64 = 1 << 24;
    let layout = Layout::new(&[DRIVE_PAGES; 8], 128);
    let mut rng = Seed(25).rng();
    sampler.time(
        BATCH,
        || random_pages(&mut rng, layout.pages()),
        |pages| {
            for page in pages.iter() {
                black_box(layout.locate(black_box(*page)));
                black_box(layout.rest_of_stripe(black_box(*page)));
            }
        },
    )
}

/// A circular list of frames by their numbers; its anchor is the entry after the last frame.
struct List {
    next: Vec<u32>,
    previous: Vec<u32>,
}

impl List {
    fn new(frames: u32) -> List {
        let entries = frames + 1;
        List {
            next: (0..entries).map(|at| (at + 1) % entries).collect(),
            previous: (0..entries)
                .map(|at| (at + entries - 1) % entries)
                .collect(),
        }
    }

    fn join(&mut self, before: u32, after: u32) {
        self.next[before as usize] = after;
        self.previous[after as usize] = before;
    }

    fn move_to_front(&mut self, frame: u32) {
        let anchor = self.next.len() as u32 - 1;
        self.join(self.previous[frame as usize], self.next[frame as usize]);
        let first = self.next[anchor as usize];
        self.join(frame, first);
        self.join(anchor, frame);
    }
}

fn list(sampler: Sampler) -> Sample {
    let mut list = List::new(FRAMES);
    let mut rng = Seed(24).rng();
    sampler.time(
        BATCH,
        || random_pages(&mut rng, u64::from(FRAMES)),
        |pages| {
            pages
                .iter()
                .for_each(|page| list.move_to_front(*page as u32))
        },
    )
}
