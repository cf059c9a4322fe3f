//! The example programs, small: each checks its own results and fails if they are wrong.

use std::path::PathBuf;
use std::process::Command;

/// Where `cargo test` has put an example.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a file");
    let folder = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let program = folder.join("examples").join(name);
    assert!(
        program.exists(),
        "build the examples first: cargo test -p wharf --examples"
    );
    program
}

/// What an example prints when it succeeds. It leaves nothing in its folder.
fn run(name: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(program(name))
        .args(arguments)
        .args(["--folder".as_ref(), folder.path().as_os_str()])
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success(),
        "{name}: {}\n{out}{errors}",
        output.status
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "files are left"
    );
    out
}

#[test]
fn key_value_loses_no_commit() {
    for workload in ["a", "f"] {
        let small = [
            "--records",
            "2000",
            "--operations",
            "2000",
            "--memory",
            "256KiB",
        ];
        let out = run(
            "key_value",
            &[&small[..], &["--workload", workload]].concat(),
        );
        assert!(out.contains("2000 keys, no commit lost"), "{out}");
    }
}

#[test]
fn external_sort_sorts() {
    let out = run(
        "external_sort",
        &["--records", "20000", "--memory", "512KiB"],
    );
    assert!(out.contains("in 16 runs"), "{out}");
    assert!(out.contains("in order, and all are there"), "{out}");
}

#[test]
fn edge_rank_gives_the_same_ranks_as_mmap() {
    let out = run(
        "edge_rank",
        &[
            "--vertices",
            "5000",
            "--edges",
            "200000",
            "--memory",
            "256KiB",
        ],
    );
    assert!(out.contains("equal ranks"), "{out}");
}

#[test]
fn pagerank_gives_the_same_ranks_as_mmap() {
    let out = run(
        "pagerank",
        &["--vertices", "5000", "--edges", "100000", "--cache", "1MiB"],
    );
    assert!(out.contains("equal results"), "{out}");
}
