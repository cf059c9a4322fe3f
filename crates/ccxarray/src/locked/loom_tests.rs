//! Readers beside a writer, in every interleaving.

use loom::sync::Arc;

use super::*;

fn change(tree: &Tree, control: &mut Control, f: impl FnOnce(&mut Changes<'_>)) {
    f(&mut Changes::new(tree, control));
}

/// Runs a reader beside `write`, over a tree in which `prepare` was done first.
fn model(
    prepare: fn(&mut Changes<'_>),
    write: fn(&mut Changes<'_>),
    read: impl Fn(&Tree) + Send + Sync + Copy + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 50_000;
    builder.check(move || {
        let tree = Arc::new(Tree::default());
        let mut control = Control::default();
        change(&tree, &mut control, prepare);
        let reading = tree.clone();
        let reader = loom::thread::spawn(move || read(&reading));
        change(&tree, &mut control, write);
        reader.join().unwrap();
    });
}

#[test]
fn an_entry_stays_in_sight_while_the_tree_grows_and_shrinks() {
    model(
        |changes| assert_eq!(changes.insert(5, 5), None),
        |changes| {
            changes.insert(64, 64);
            changes.remove(64);
        },
        |tree| assert_eq!(tree.load(5), Some(5)),
    );
}

#[test]
fn a_node_that_is_used_again_elsewhere_fools_nobody() {
    model(
        |changes| {
            changes.insert(5, 5);
            changes.insert(64, 64);
        },
        |changes| {
            // The node of 64 and the root go; the first becomes the node of 200.
            changes.remove(64);
            changes.insert(200, 200);
        },
        |tree| assert!(matches!(tree.load(64), None | Some(64))),
    );
}

#[test]
fn a_walk_finds_what_is_there_all_the_time() {
    model(
        |changes| {
            changes.insert(70, 70);
            changes.set_tag(70, Tag::Dirty, true);
            changes.insert(130, 130);
        },
        |changes| {
            changes.remove(130);
            changes.insert(3, 3);
        },
        |tree| assert_eq!(tree.next(0, Find::Tagged(Tag::Dirty)), Some((70, 70))),
    );
}
