//! Two or three threads in every interleaving, each test a race that a tree like this is known to lose.
//! Nodes have two slots here, so indices 0 and 1 share a leaf, 0 to 3 a node above it.

use loom::sync::Arc;
use loom::thread;

use crate::node::Phase;
use crate::{Tag, Tags, XArray, pin};

const DIRTY: Tag = Tag::Dirty;

type Tree = Arc<XArray<u64>>;

/// Runs `others` beside `main` over a tree in which `prepare` was done first; then `check`, and a
/// look at the whole tree. Threads are interrupted `preemptions` times.
fn model<const N: usize>(
    preemptions: usize,
    prepare: fn(&XArray),
    others: [fn(&XArray); N],
    main: fn(&XArray),
    check: fn(&XArray),
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(move || {
        let tree: Tree = Arc::new(XArray::new());
        prepare(&tree);
        let threads = others.map(|other| {
            let tree = tree.clone();
            thread::spawn(move || other(&tree))
        });
        main(&tree);
        for thread in threads {
            thread.join().unwrap();
        }
        check(&tree);
        tree.verify(&pin());
    });
}

fn fill(tree: &XArray, indices: &[u64]) {
    let guard = pin();
    for &index in indices {
        tree.insert(index, index, &guard).unwrap();
    }
}

fn insert<const INDEX: u64>(tree: &XArray) {
    fill(tree, &[INDEX]);
}

fn remove<const INDEX: u64>(tree: &XArray) {
    assert_eq!(tree.remove(INDEX, &pin()).unwrap().entry, INDEX);
}

fn reclaim(tree: &XArray) {
    tree.reclaim(.., &pin());
}

/// A search that finds nothing at 1, and clears what led there.
fn search(tree: &XArray) {
    let found = tree.next_tagged(DIRTY, 0, &pin());
    assert!(matches!(found, None | Some((0, 0))));
}

/// What a search does to a node of the way to index 0 when it has found nothing there.
fn tidy<const LEVEL: u32>(tree: &XArray) {
    let guard = pin();
    if let Some(node) = tree.node_at(0, LEVEL, &guard) {
        tree.tidy(node, LEVEL, DIRTY, 1, &guard);
    }
}

fn tag_and_find(tree: &XArray) {
    let guard = pin();
    assert!(tree.set_tag(0, DIRTY, &guard));
    assert_eq!(tree.next_tagged(DIRTY, 0, &guard), Some((0, 0)));
}

fn has<const INDEX: u64>(tree: &XArray) {
    assert_eq!(tree.get(INDEX, &pin()), Some(INDEX));
}

/// As `tag_and_find`, with a look at the bits alone.
fn tag_and_follow(tree: &XArray) {
    let guard = pin();
    assert!(tree.set_tag(0, DIRTY, &guard));
    for level in [1, 0] {
        let node = tree.node_at(0, level, &guard).unwrap();
        assert_eq!(node.candidates(DIRTY, &()) & 1, 1);
    }
}

fn is_tagged(tree: &XArray) {
    let guard = pin();
    assert_eq!(tree.next_tagged(DIRTY, 0, &guard), Some((0, 0)));
    assert_eq!(tree.next_tagged(DIRTY, 1, &guard), None);
}

#[test]
fn a_neighbours_tag_is_not_lost_when_a_tagged_entry_leaves() {
    model(
        3,
        |tree| {
            fill(tree, &[0, 1]);
            tree.set_tag(1, DIRTY, &pin());
        },
        [|tree| {
            remove::<1>(tree);
            search(tree);
        }],
        tag_and_find,
        is_tagged,
    );
}

#[test]
fn a_new_entry_keeps_its_tag_when_the_old_one_leaves() {
    model(
        3,
        |tree| {
            tree.insert(0, 7, &pin()).unwrap();
            tree.set_tag(0, DIRTY, &pin());
        },
        [|tree| {
            let guard = pin();
            tree.remove_if(0, &guard, |now| now.entry == 7).unwrap();
        }],
        |tree| {
            let guard = pin();
            if tree.insert(0, 0, &guard).is_ok() {
                assert_eq!(tree.get_tagged(0, &guard).unwrap().tags, Tags::NONE);
                assert!(tree.set_tag(0, DIRTY, &guard));
            }
        },
        |tree| {
            let found = tree.get_tagged(0, &pin());
            assert!(found.is_none_or(|now| now.entry == 0 && now.tags.has(DIRTY)));
        },
    );
}

#[test]
fn a_tag_is_found_while_bits_beside_it_and_above_it_are_cleared() {
    model(
        2,
        |tree| {
            fill(tree, &[0, 2]);
            let guard = pin();
            for index in [0, 2] {
                tree.set_tag(index, DIRTY, &guard);
                tree.clear_tag(index, DIRTY, &guard);
            }
        },
        [search],
        tag_and_find,
        is_tagged,
    );
}

#[test]
fn a_tag_is_found_while_two_threads_clear_bits_one_above_the_other() {
    model(
        1,
        |tree| {
            fill(tree, &[0, 2]);
            let guard = pin();
            tree.set_tag(0, DIRTY, &guard);
            tree.clear_tag(0, DIRTY, &guard);
        },
        [tidy::<0>, tidy::<1>],
        tag_and_follow,
        is_tagged,
    );
}

#[test]
fn a_tag_given_while_the_tree_grows_is_found() {
    model(
        2,
        |tree| fill(tree, &[0]),
        [|tree| {
            insert::<2>(tree);
            tidy::<1>(tree);
        }],
        tag_and_find,
        is_tagged,
    );
}

#[test]
fn a_tag_given_while_the_tree_is_lowered_is_found() {
    model(
        2,
        |tree| {
            fill(tree, &[0, 2]);
            remove::<2>(tree);
        },
        [reclaim],
        tag_and_find,
        is_tagged,
    );
}

#[test]
fn a_tag_given_while_the_tree_is_lowered_and_grows_is_found() {
    model(
        1,
        |tree| {
            fill(tree, &[0, 2]);
            remove::<2>(tree);
        },
        [reclaim, |tree| {
            insert::<4>(tree);
            tidy::<1>(tree);
        }],
        tag_and_find,
        is_tagged,
    );
}

/// A root that has been closed as hollow, and over which the tree has grown before it left.
fn grown_over_a_hollow_root(tree: &XArray) {
    fill(tree, &[0, 2]);
    remove::<2>(tree);
    let guard = pin();
    let hollow = tree.node_at(0, 1, &guard).unwrap();
    let empty = tree.node_at(2, 0, &guard).unwrap();
    assert!(empty.close(0, Phase::Dead, &()));
    tree.finish_leaving(empty, 0, 2, &guard);
    assert!(hollow.close(1, Phase::Hollow, &()));
    insert::<4>(tree);
}

#[test]
fn a_tag_given_below_a_hollow_node_is_found_below_the_one_that_replaces_it() {
    model(
        2,
        grown_over_a_hollow_root,
        [|tree| {
            insert::<2>(tree);
            tidy::<1>(tree);
        }],
        tag_and_find,
        is_tagged,
    );
}

#[test]
fn growing_by_one_level_and_by_two_loses_no_chain() {
    model(
        3,
        |tree| fill(tree, &[0]),
        [insert::<2>],
        insert::<4>,
        |tree| {
            has::<0>(tree);
            has::<2>(tree);
            has::<4>(tree);
            assert_eq!(tree.nodes(&pin()), 1 + 2 + 3);
        },
    );
}

#[test]
fn two_threads_that_need_the_same_node_make_one() {
    model(
        3,
        |tree| fill(tree, &[4]),
        [insert::<0>],
        insert::<1>,
        |tree| {
            has::<0>(tree);
            has::<1>(tree);
            assert_eq!(tree.nodes(&pin()), 5);
        },
    );
}

#[test]
fn one_of_two_inserts_and_one_of_two_removals_win() {
    model(
        3,
        |_| {},
        [|tree| {
            let guard = pin();
            if tree.insert(0, 1, &guard).is_ok() {
                assert!(tree.remove(0, &guard).is_some());
            }
        }],
        |tree| {
            let guard = pin();
            if tree.insert(0, 2, &guard).is_ok() {
                assert_eq!(tree.remove(0, &guard).unwrap().entry, 2);
            }
        },
        |tree| assert!(tree.is_empty(&pin())),
    );
}

#[test]
fn a_reader_in_a_node_that_leaves_touches_no_freed_memory() {
    model(
        3,
        |tree| fill(tree, &[0, 2]),
        [|tree| {
            remove::<2>(tree);
            reclaim(tree);
        }],
        |tree| {
            let guard = pin();
            assert!(matches!(tree.get(2, &guard), None | Some(2)));
            assert_eq!(tree.get(0, &guard), Some(0));
        },
        has::<0>,
    );
}

#[test]
fn an_insert_into_an_empty_node_is_not_lost_to_its_reclaim() {
    model(
        3,
        |tree| {
            fill(tree, &[0, 2]);
            remove::<2>(tree);
        },
        [reclaim],
        |tree| {
            insert::<3>(tree);
            has::<3>(tree);
        },
        |tree| {
            has::<0>(tree);
            has::<3>(tree);
        },
    );
}

#[test]
fn inserts_into_the_last_empty_node_are_not_lost_to_its_reclaim() {
    model(
        2,
        |tree| {
            fill(tree, &[0]);
            remove::<0>(tree);
        },
        [reclaim, insert::<2>],
        |tree| {
            insert::<1>(tree);
            has::<1>(tree);
        },
        |tree| {
            has::<1>(tree);
            has::<2>(tree);
        },
    );
}

#[test]
fn inserts_below_and_above_a_root_that_leaves_are_not_lost() {
    model(
        1,
        |tree| {
            fill(tree, &[0, 2]);
            remove::<2>(tree);
        },
        [reclaim, insert::<4>],
        |tree| {
            insert::<3>(tree);
            has::<3>(tree);
        },
        |tree| {
            has::<0>(tree);
            has::<3>(tree);
            has::<4>(tree);
        },
    );
}

#[test]
fn who_has_called_one_freeze_off_does_not_fill_what_the_next_has_closed() {
    model(
        3,
        |tree| {
            fill(tree, &[0, 2]);
            remove::<2>(tree);
        },
        [|tree| {
            reclaim(tree);
            reclaim(tree);
        }],
        insert::<2>,
        has::<2>,
    );
}

#[test]
fn who_has_filled_a_node_that_is_being_frozen_twice_has_filled_it() {
    model(
        1,
        |tree| {
            fill(tree, &[0, 2]);
            remove::<2>(tree);
        },
        [
            |tree| {
                reclaim(tree);
                reclaim(tree);
            },
            |tree| {
                insert::<3>(tree);
                remove::<3>(tree);
            },
        ],
        insert::<2>,
        has::<2>,
    );
}

#[test]
fn one_of_two_reclaimers_takes_nodes_out() {
    model(
        3,
        |tree| {
            fill(tree, &[0, 2]);
            remove::<0>(tree);
            remove::<2>(tree);
        },
        [reclaim],
        reclaim,
        |tree| {
            reclaim(tree);
            assert_eq!(tree.nodes(&pin()), 0);
        },
    );
}
