//! Bytes of nodes, beside the tree that takes empty nodes out at once.
#![cfg(not(any(loom, shuttle, tsan)))]

mod support;

use ccxarray::locked::{Changes, Control, Tree};
use ccxarray::{XArray, pin};
use support::Rng;

/// Bytes of a node in Linux, and of one here.
const NODE_BYTES: u64 = 576;

/// A file in both trees.
#[derive(Default)]
struct File {
    tree: XArray,
    locked: Tree,
    control: Control,
}

impl File {
    fn insert(&mut self, page: u64) {
        let _ = self.tree.insert(page, page, &pin());
        Changes::new(&self.locked, &mut self.control).insert(page, page);
    }

    fn remove(&mut self, page: u64) {
        self.tree.remove(page, &pin());
        Changes::new(&self.locked, &mut self.control).remove(page);
    }

    /// The safe point: nodes that evictions have emptied are taken out.
    fn close(&self) {
        self.tree.reclaim(.., &pin());
    }
}

/// The fileserver mix of filebench: many files of 128 KiB on average are created, appended to, read
/// and deleted; memory pressure takes single pages out, and files are closed after each use.
#[test]
fn a_fileserver_takes_no_more_memory_than_with_the_locked_tree() {
    let mut rng = Rng(1);
    let mut files: Vec<File> = (0..500).map(|_| File::default()).collect();
    let (mut bytes, mut locked_bytes) = (0, 0);
    for step in 0..20_000 {
        let at = rng.below(files.len() as u64) as usize;
        let file = &mut files[at];
        match rng.below(8) {
            // Whole-file write: a gamma-like spread around 32 pages.
            0..3 => {
                let pages = 1 + (rng.below(32) + rng.below(32) + rng.below(3));
                (0..pages).for_each(|page| file.insert(page));
            }
            3..5 => {
                let from = rng.below(64);
                (from..from + 4).for_each(|page| file.insert(page));
            }
            5..7 => {
                for _ in 0..16 {
                    file.remove(rng.below(128));
                }
            }
            _ => *file = File::default(),
        }
        file.close();
        if step % 100 == 0 {
            let guard = pin();
            for file in &mut files {
                bytes += file.tree.nodes(&guard) as u64 * NODE_BYTES;
                assert_eq!(
                    file.tree.memory_bytes(&guard) - size_of::<XArray>(),
                    file.tree.nodes(&guard) * NODE_BYTES as usize
                );
                let size = Changes::new(&file.locked, &mut file.control).size();
                locked_bytes += size.nodes * NODE_BYTES;
            }
        }
    }
    let ratio = bytes as f64 / locked_bytes as f64;
    assert!(ratio <= 1.05, "{ratio:.3} of the locked tree's bytes");
}

/// Between two safe points every node that was emptied stays: no more than the file has ever had.
#[test]
fn memory_between_safe_points_is_that_of_the_whole_file() {
    let (tree, guard) = (XArray::<u64>::new(), pin());
    for page in 0..64 * 64 {
        tree.insert(page, page, &guard).unwrap();
        tree.remove(page, &guard);
    }
    assert_eq!(tree.nodes(&guard), 65);
    assert_eq!(tree.reclaim(.., &guard), 65);
    assert_eq!(tree.memory_bytes(&guard), size_of::<XArray>());
}

/// With every leaf given back that a removal empties, a file read at random takes the memory of the pages that it has
/// at the time, as with the locked tree, however large it is.
#[test]
fn a_large_file_of_few_pages_takes_few_nodes() {
    let (mut file, guard, mut rng) = (File::default(), pin(), Rng(2));
    let mut pages = std::collections::VecDeque::new();
    for _ in 0..50_000 {
        let page = rng.below(1 << 28);
        file.insert(page);
        pages.push_back(page);
        if pages.len() > 100 {
            let page = pages.pop_front().unwrap();
            file.remove(page);
            file.tree.reclaim_leaf(page, &guard);
        }
    }
    let nodes = file.tree.nodes(&guard) as u64;
    assert_eq!(
        nodes,
        Changes::new(&file.locked, &mut file.control).size().nodes
    );
    assert!(nodes <= 5 * 100, "{nodes} nodes");
}
