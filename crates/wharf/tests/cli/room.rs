//! Commands that would take more disk or memory than there is: refused in a line, before anything is made or while it can still be told.

use crate::support::Place;

/// A sparse image of any size was made, and its file system was full some day.
#[test]
fn files_that_could_never_be_filled_are_not_made() {
    let place = Place::new();
    place.write("slow", vec![0; 1 << 20]);
    let huge = "1024TiB";
    let commands: [&[&str]; 6] = [
        &[
            "array", "create", "--level", "0", "--size", "512TiB", "new", "b",
        ],
        &["fs", "make", "new", "--size", huge],
        &[
            "cache",
            "create",
            "new",
            "--backing",
            "slow",
            "--size",
            huge,
        ],
        &[
            "serve", "nbd", "--file", "new", "--size", huge, "--socket", "s",
        ],
        &[
            "serve", "nbd", "--store", "new", "--size", huge, "--socket", "s",
        ],
        &[
            "serve", "nbd", "--file", "new", "--size", huge, "--cache", "1m", "--socket", "s",
        ],
    ];
    for command in commands {
        let line = place.refused(command);
        let start = "new: 1024.0 TiB could never be filled, the file system has ";
        assert!(line.starts_with(start), "{command:?}: {line}");
        assert!(line.ends_with(" are free: give a smaller --size"), "{line}");
    }
    assert!(place.files().iter().eq(["slow"]), "{:?}", place.files());
}

/// A trace has no length before it has been read: these were killed, or an abort in the middle.
#[test]
fn a_trace_that_outgrows_memory_is_told_in_a_line() {
    let place = Place::new();
    // All pages differ, and come packed: a pipe would do as well.
    let mut text = String::from("# wharf trace 1\n");
    for page in 0..1_200_000_u64 {
        text += &format!("- R {} 1\n", page * 4096);
    }
    place.write("long", text);
    let line = place.refused_within(100 << 20, &["mrc", "long", "--policies", "lru"]);
    assert!(line.starts_with("long has more than the "), "{line}");
    assert!(
        line.contains(" uses of pages that fit into ") && line.contains("--sample 1%"),
        "{line}"
    );
    let line = place.refused_within(100 << 20, &["compare", "long", "--designs", "direct"]);
    assert!(
        line.starts_with("long has more than ") && line.contains("--requests"),
        "{line}"
    );
    let line =
        place.refused_within_reading(100 << 20, "long", &["compare", "-", "--designs", "direct"]);
    assert!(
        line.starts_with("standard input is longer than the "),
        "{line}"
    );
    // As much as fits is read.
    let words = [
        "mrc",
        "long",
        "--requests",
        "10k",
        "--sizes",
        "10",
        "--policies",
        "lru",
        "--jobs",
        "1",
    ];
    assert!(place.within(100 << 20, &words).status.success());
}
