//! `wharf array`, as its user meets it.

#![allow(missing_docs)]

mod support;

use std::sync::Arc;

use support::Place;
use wharf_storage::array::Array;
use wharf_storage::{Blocking, FileOptions, Target, open};

const SIZE: &str = "8MiB";
const MADE: [&str; 5] = ["--chunk", "64KiB", "--journal", "1MiB", "--size=8MiB"];

impl Place {
    fn create(&self, level: &str, members: &[&str]) -> String {
        let mut arguments = vec!["create", "--level", level];
        arguments.extend(MADE);
        arguments.extend(members);
        self.ok(&arguments)
    }

    fn targets(&self, names: &[&str]) -> Vec<Arc<dyn Target>> {
        let options = FileOptions {
            exclusive: true,
            ..FileOptions::default()
        };
        let open = |name: &&str| open(&self.path(name), &options).expect("a member");
        names.iter().map(open).collect()
    }

    /// Writes to the array as a program does.
    fn fill(&self, names: &[&str], byte: u8) {
        let array = Array::open(&self.targets(names), false).expect("an array");
        let mut way = Blocking::new(&array).expect("a channel");
        let data = vec![byte; array.size_bytes() as usize];
        way.write(0, &data).expect("a write");
        drop(way);
        array.close().expect("it closes");
    }

    fn holds(&self, names: &[&str], byte: u8) -> bool {
        let array = Array::open(&self.targets(names), false).expect("an array");
        let mut found = vec![!byte; array.size_bytes() as usize];
        let mut way = Blocking::new(&array).expect("a channel");
        way.read(0, &mut found).expect("a read");
        found.iter().all(|b| *b == byte)
    }
}

#[test]
fn an_array_is_made_described_and_checked() {
    let place = Place::of("array");
    let made = place.create("5", &["a", "b", "c"]);
    assert!(made.contains("RAID-5 of 3"), "{made}");
    assert!(made.contains("chunk 64 KiB"), "{made}");
    place.fill(&["a", "b", "c"], 7);
    let told = place.ok(&["describe", "c", "a"]);
    assert!(told.contains("closed cleanly"), "{told}");
    assert!(told.contains("member 0  active     a"), "{told}");
    assert!(told.contains("member 1  missing    -"), "{told}");
    let checked = place.ok(&["check", "b", "c", "a"]);
    assert!(checked.contains("0 disagree"), "{checked}");
    assert!(place.holds(&["a", "b", "c"], 7));
}

#[test]
fn what_disagrees_is_found_and_mended() {
    let place = Place::of("array");
    place.create("10", &["a", "b"]);
    place.fill(&["a", "b"], 1);
    let mut behind = Blocking::new(&*place.targets(&["b"])[0]).expect("a channel");
    behind
        .write(2 << 20, &[9; 4096])
        .expect("a write behind its back");
    drop(behind);
    place.fails(1, "--repair", &["check", "a", "b"]);
    let mended = place.ok(&["check", "--repair", "a", "b"]);
    assert!(mended.contains("1 disagree, 1 repaired"), "{mended}");
    assert!(place.ok(&["check", "a", "b"]).contains("0 disagree"));
    assert!(place.holds(&["a", "b"], 1));
}

#[test]
fn a_lost_member_is_rebuilt() {
    for (level, names) in [("5", ["a", "b", "c", "d"]), ("10", ["a", "b", "c", "d"])] {
        let place = Place::of("array");
        place.create(level, &names);
        place.fill(&names, 5);
        std::fs::remove_file(place.path("b")).expect("it is there");
        place.fails(2, "member 1 is missing", &["check", "a", "c", "d"]);
        let rebuilt = place.ok(&["rebuild", "--onto", "new", "a", "c", "d"]);
        assert!(
            rebuilt.contains("member 1 is rebuilt: the array is complete"),
            "{rebuilt}"
        );
        assert!(
            place
                .ok(&["check", "a", "new", "c", "d"])
                .contains("0 disagree")
        );
        assert!(place.holds(&["a", "new", "c", "d"], 5));
        place.fails(
            2,
            "no member is out",
            &["rebuild", "--onto", "e", "a", "new", "c", "d"],
        );
        assert!(!place.path("e").exists(), "nothing was changed");
    }
}

#[test]
fn existing_data_is_not_harmed_without_force() {
    let place = Place::of("array");
    std::fs::write(place.path("a"), vec![b'x'; 8 << 20]).expect("a file");
    let arguments = |force: bool| {
        let mut words = vec!["create", "--level", "0", "--size", SIZE];
        words.extend(force.then_some("--force"));
        words.extend(["a", "b"]);
        words
    };
    place.fails(2, "a: holds data: --force", &arguments(false));
    assert!(
        std::fs::read(place.path("a"))
            .expect("it")
            .iter()
            .all(|b| *b == b'x')
    );
    assert!(!place.path("b").exists(), "what was made is removed");
    place.ok(&arguments(true));
    place.fails(2, "a: is member 0 of array", &arguments(false));

    place.create("5", &["c", "d", "e"]);
    std::fs::remove_file(place.path("e")).expect("it is there");
    place.fails(
        2,
        "a: is member 0 of array",
        &["rebuild", "--onto", "a", "c", "d"],
    );
    std::fs::write(place.path("small"), vec![0; 4 << 20]).expect("a file");
    let told = place.ok(&["describe", "c", "d"]);
    place.fails(
        2,
        "small: has 4194304 bytes, and the array needs 8388608",
        &["rebuild", "--onto", "small", "c", "d"],
    );
    assert_eq!(
        place.ok(&["describe", "c", "d"]),
        told,
        "nothing was changed"
    );
    place.ok(&["rebuild", "--force", "--onto", "a", "c", "d"]);
}

/// Opened for the rebuild, and stopped before the rebuild had ended.
#[test]
fn a_rebuild_that_was_stopped_goes_on_and_leaves_nobody_else_out() {
    let place = Place::of("array");
    let names = ["a", "b", "c", "d"];
    place.create("10", &names);
    place.fill(&names, 3);
    place.fails(2, "give --onto NEW", &["rebuild", "a", "b", "c", "d"]);
    std::fs::remove_file(place.path("b")).expect("it is there");
    {
        let array = Array::open(&place.targets(&["a", "c", "d"]), true).expect("an array");
        let made = FileOptions {
            create_bytes: Some(8 << 20),
            exclusive: true,
            ..FileOptions::default()
        };
        let new = open(&place.path("new"), &made).expect("a file");
        array.replace(1, new).expect("it fits");
        let mut rebuild = array.rebuild().expect("possible").expect("to do");
        assert!(rebuild.step().expect("a step"));
    }
    let told = place.ok(&["describe", "a", "new", "c", "d"]);
    assert!(told.contains("member 1  rebuilding new"), "{told}");
    place.fails(2, "member 1 is left out", &["check", "a", "new", "c", "d"]);
    place.fails(2, "member 3 is missing", &["rebuild", "a", "new", "c"]);
    place.ok(&["rebuild", "a", "new", "c", "d"]);
    place.ok(&["check", "a", "new", "c", "d"]);
    assert!(place.holds(&["a", "new", "c", "d"], 3));
}

/// A disk that was replaced, or a backup of one member, was taken for the member of now: reads gave what it held, and a
/// check that repairs spread that to the others.
#[test]
fn a_copy_of_a_member_from_before_is_not_taken_for_the_member() {
    for (level, names) in [
        ("5", &["a", "b", "c"][..]),
        ("10", &["a", "b", "c", "e"][..]),
    ] {
        let place = Place::of("array");
        place.create(level, names);
        place.fill(names, 1);
        std::fs::copy(place.path("c"), place.path("backup")).expect("a copy");
        std::fs::rename(place.path("c"), place.path("c.old")).expect("it is there");
        let others: Vec<&str> = names.iter().copied().filter(|n| *n != "c").collect();
        let mut rebuild = vec!["rebuild", "--onto", "d"];
        rebuild.extend(&others);
        place.ok(&rebuild);
        let now: Vec<&str> = names
            .iter()
            .map(|n| if *n == "c" { "d" } else { n })
            .collect();
        place.fill(&now, 2);
        for old in ["c.old", "backup"] {
            std::fs::copy(place.path(old), place.path("c")).expect("it is put back");
            let with = |words: &[&'static str]| -> Vec<&str> {
                words.iter().chain(names).copied().collect()
            };
            let told = place.ok(&with(&["describe"]));
            assert!(told.contains("member 2  stale      c"), "{told}");
            assert!(told.contains("member 1  active     b"), "{told}");
            place.fails(2, "c: is member 2 as of event", &with(&["check"]));
            place.fails(2, "what it holds is old", &with(&["check", "--repair"]));
            assert_eq!(place.ok(&with(&["describe"])), told, "nothing was changed");
        }
        let mut words = vec!["rebuild", "--force", "--onto", "c"];
        words.extend(&others);
        place.ok(&words);
        let mut words = vec!["check"];
        words.extend(names);
        assert!(place.ok(&words).contains("0 disagree"));
        assert!(place.holds(names, 2));
        // The member that was in its place until now is as old.
        words[0] = "describe";
        *words.iter_mut().find(|w| **w == "c").expect("it") = "d";
        let told = place.ok(&words);
        assert!(told.contains("member 2  stale      d"), "{told}");
    }
}

/// A link to nothing was taken for a file that is to be made, and removed when the command failed.
#[test]
fn a_link_to_nothing_stays_when_no_array_is_made() {
    let place = Place::of("array");
    std::os::unix::fs::symlink("elsewhere", place.path("a")).expect("a link");
    std::fs::write(place.path("b"), vec![b'x'; 8 << 20]).expect("a file");
    std::os::unix::fs::symlink("b", place.path("c")).expect("a link");
    let link = "a: is a link to what does not exist: give the file itself";
    let create = |names: [&'static str; 2]| {
        let mut words = vec!["create", "--level", "0", "--size", SIZE];
        words.extend(names);
        words
    };
    place.fails(2, link, &create(["a", "b"]));
    place.fails(2, "c: holds data", &create(["made", "c"]));
    place.fails(2, link, &create(["made", "a"]));
    for name in ["a", "c"] {
        let kind = std::fs::symlink_metadata(place.path(name)).expect("it is there");
        assert!(kind.is_symlink(), "{name}");
    }
    let left = std::fs::read(place.path("b")).expect("a file");
    assert!(left.iter().all(|b| *b == b'x'));
    assert!(!place.path("elsewhere").exists() && !place.path("made").exists());
}

#[test]
fn bad_input_is_told_in_one_line() {
    let place = Place::of("array");
    let create = |level: &'static str, names: &[&'static str]| {
        let mut words = vec![
            "create",
            "--level",
            level,
            "--size",
            SIZE,
            "--journal",
            "1MiB",
        ];
        words.extend(names);
        words
    };
    place.fails(2, "it is 0, 5 or 10", &create("6", &["a", "b"]));
    place.fails(2, "it takes 3 to 64", &create("5", &["a", "b"]));
    place.fails(2, "an even number", &create("10", &["a", "b", "c"]));
    place.fails(2, "in use", &create("0", &["a", "a"]));
    assert!(!place.path("a").exists(), "nothing is left of it");
    place.fails(2, "give --size", &["create", "--level", "0", "a", "b"]);
    place.fails(
        2,
        "and 68681728 are needed: take larger ones or a smaller journal",
        &["create", "--level", "5", "--size", "2MiB", "a", "b", "c"],
    );
    place.fails(
        2,
        "not a size",
        &["create", "--level", "0", "--size", "much", "a", "b"],
    );
    std::fs::write(place.path("plain"), vec![0; 1 << 20]).expect("a file");
    place.fails(2, "it is not a member of an array", &["describe", "plain"]);
    place.fails(2, "No such file", &["check", "none"]);
    place.create("0", &["x", "y"]);
    place.create("0", &["z", "w"]);
    place.fails(2, "different arrays", &["describe", "x", "w"]);
    let told = place.ok(&["describe", "x", "y"]);
    place.fails(2, "no redundancy", &["check", "x", "y"]);
    assert_eq!(
        place.ok(&["describe", "x", "y"]),
        told,
        "nothing was changed"
    );
}
