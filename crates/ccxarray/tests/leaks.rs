//! Every node is freed: by reclaim, by the loser of a race, or with the tree.
#![cfg(not(any(loom, shuttle, tsan)))]

mod scene;
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

use ccxarray::{XArray, pin};
use scene::{Actor, Scene, check};

/// Counts what is aligned as nodes are, which nothing else in this program is.
struct Counting;

static NODES: AtomicI64 = AtomicI64::new(0);

fn is_node(layout: Layout) -> bool {
    layout.align() == 64 && layout.size() == 576
}

// SAFETY: everything is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        NODES.fetch_add(i64::from(is_node(layout)), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NODES.fetch_sub(i64::from(is_node(layout)), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_node_is_left_when_the_tree_has_gone() {
    let scene = Scene {
        threads: 2,
        steps: 4_000,
        bits: &[5, 9, 20],
    };
    for seed in 0..3 {
        let tree = XArray::new();
        let parts = std::thread::scope(|scope| {
            let other = scope.spawn(|| Actor::new(&tree, scene, 1, seed).play());
            let own = Actor::new(&tree, scene, 0, seed).play();
            vec![own, other.join().unwrap()]
        });
        check(&tree, parts);
    }
    // What waits to be freed is freed as guards come and go.
    for _ in 0..100_000 {
        if NODES.load(Ordering::Relaxed) == 0 {
            return;
        }
        pin().defer(|| ());
    }
    panic!("{} nodes are left", NODES.load(Ordering::Relaxed));
}
