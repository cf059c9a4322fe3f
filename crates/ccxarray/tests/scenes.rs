//! Whole scenes of several threads: on real threads, or in orders that shuttle chooses
//! (`--cfg shuttle`, where nodes have four slots). A failing seed fails again.
#![cfg(not(loom))]

mod scene;
mod support;

use scene::{Actor, Scene, check};

/// Some neighbours, far indices, and what makes the tree grow and shrink.
const SMALL: Scene = Scene {
    threads: 3,
    steps: if cfg!(shuttle) { 8 } else { 2_000 },
    bits: if cfg!(shuttle) {
        &[2, 4, 5]
    } else {
        &[5, 8, 13, 30]
    },
};

/// Many in few nodes.
const CROWDED: Scene = Scene {
    threads: 2,
    steps: if cfg!(shuttle) { 12 } else { 6_000 },
    bits: if cfg!(shuttle) { &[3] } else { &[7] },
};

#[cfg(shuttle)]
mod orders {
    use ccxarray::XArray;
    use shuttle::rand::Rng;
    use shuttle::sync::Arc;

    use super::*;

    fn play(scene: Scene) {
        let tree = Arc::new(XArray::new());
        let seed = shuttle::rand::thread_rng().r#gen();
        let threads: Vec<_> = (0..scene.threads)
            .map(|number| {
                let tree = tree.clone();
                shuttle::thread::spawn(move || Actor::new(&tree, scene, number, seed).play())
            })
            .collect();
        let parts = threads.into_iter().map(|thread| thread.join().unwrap());
        check(&tree, parts.collect());
    }

    #[test]
    fn a_small_tree_in_random_orders() {
        shuttle::check_random(|| play(SMALL), 2_000);
    }

    #[test]
    fn a_small_tree_in_orders_with_few_changes() {
        shuttle::check_pct(|| play(SMALL), 2_000, 3);
    }

    #[test]
    fn a_crowded_node_in_random_orders() {
        shuttle::check_random(|| play(CROWDED), 2_000);
    }

    #[test]
    fn a_crowded_node_in_orders_with_few_changes() {
        shuttle::check_pct(|| play(CROWDED), 2_000, 3);
    }
}

#[cfg(not(shuttle))]
mod threads {
    use ccxarray::XArray;

    use super::*;

    fn play(scene: Scene) {
        for seed in 0..if cfg!(tsan) { 1 } else { 4 } {
            let tree = XArray::new();
            let parts = std::thread::scope(|scope| {
                let actors = (0..scene.threads).map(|number| {
                    let tree = &tree;
                    scope.spawn(move || Actor::new(tree, scene, number, seed).play())
                });
                let threads: Vec<_> = actors.collect();
                let parts = threads.into_iter().map(|thread| thread.join().unwrap());
                parts.collect()
            });
            check(&tree, parts);
        }
    }

    #[test]
    fn a_small_tree_on_threads() {
        play(SMALL);
    }

    #[test]
    fn a_crowded_node_on_threads() {
        play(CROWDED);
    }
}
