//! C programs against the header and the library.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library that was built with this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a file");
    let library = test.with_file_name("libwharf_c.so");
    assert!(library.exists(), "no {}", library.display());
    library
}

/// Puts the library into `folder`, by the name that programs are linked with and by the one that they look for when they run.
fn library(folder: &Path) -> &Path {
    let (major, minor) = (
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
    );
    assert_eq!(
        major, "0",
        "from 1.0 on the major version alone is in the name"
    );
    for name in ["libwharf_c.so", &format!("libwharf_c.so.{major}.{minor}")] {
        std::os::unix::fs::symlink(built(), folder.join(name)).unwrap();
    }
    folder
}

/// A program that uses two libraries in Rust meets no name twice.
#[test]
fn the_calls_of_the_header_are_exported_and_nothing_else() {
    let output = Command::new("nm")
        .args(["--dynamic", "--defined-only"])
        .arg(built())
        .output()
        .expect("nm, of the C compiler's package");
    expect_success(&output, "nm");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(root.join("include/wharf.h")).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<_> = text
        .lines()
        .filter_map(|line| line.split(' ').next_back())
        .collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        assert!(
            header.contains(&format!("{name}(")),
            "{name} is in no header"
        );
    }
}

fn compile(source: &str, out: &Path, link: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiler = std::env::var("CC").unwrap_or("cc".into());
    let output = Command::new(compiler)
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-pthread",
            "-D_POSIX_C_SOURCE=200809L",
        ])
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join(source))
        .arg("-o")
        .arg(out)
        .args(link)
        .output()
        .expect("a C compiler");
    expect_success(&output, source);
}

fn expect_success(output: &Output, what: &str) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{what}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}

#[test]
fn a_c_program_gets_from_every_call_what_the_header_says() {
    let folder = tempfile::tempdir().unwrap();
    let (program, library) = (folder.path().join("use"), library(folder.path()));
    let path = format!("-L{}", library.display());
    compile("tests/use.c", &program, &[&path, "-lwharf_c"]);
    let output = Command::new(&program)
        .arg(folder.path().join("data"))
        .env("LD_LIBRARY_PATH", library)
        .output()
        .unwrap();
    expect_success(&output, "tests/use.c");
    assert_eq!(output.stdout, b"all as expected\n");
}

#[test]
fn the_example_prints_what_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let (program, library) = (folder.path().join("hello"), library(folder.path()));
    let path = format!("-L{}", library.display());
    compile("examples/hello.c", &program, &[&path, "-lwharf_c"]);
    let data = folder.path().join("data");
    let run = |arguments: &[&Path]| {
        let mut command = Command::new(&program);
        command.args(arguments).env("LD_LIBRARY_PATH", library);
        command.output().unwrap()
    };
    let output = run(&[&data]);
    expect_success(&output, "examples/hello.c");
    assert_eq!(output.stdout, b"any offset, any length\n");
    assert_eq!(
        &std::fs::read(&data).unwrap()[5000..],
        b"any offset, any length"
    );
    assert_eq!(run(&[]).status.code(), Some(2));
}

#[test]
fn a_c_program_gets_from_every_call_on_files_what_the_header_says() {
    let folder = tempfile::tempdir().unwrap();
    let (program, library) = (folder.path().join("files"), library(folder.path()));
    let path = format!("-L{}", library.display());
    compile("tests/files.c", &program, &[&path, "-lwharf_c"]);
    let output = Command::new(&program)
        .arg(folder.path().join("drive.img"))
        .env("LD_LIBRARY_PATH", library)
        .output()
        .unwrap();
    expect_success(&output, "tests/files.c");
    assert_eq!(output.stdout, b"all calls on files\n");
}

#[test]
fn the_example_of_files_lists_what_it_made() {
    let folder = tempfile::tempdir().unwrap();
    let (program, library) = (folder.path().join("files"), library(folder.path()));
    let path = format!("-L{}", library.display());
    compile("examples/files.c", &program, &[&path, "-lwharf_c"]);
    let image = folder.path().join("drive.img");
    let run = || {
        let mut command = Command::new(&program);
        command.arg(&image).env("LD_LIBRARY_PATH", library);
        command.output().unwrap()
    };
    let output = run();
    expect_success(&output, "examples/files.c");
    assert_eq!(output.stdout, b"first\n");
    // What is there is not made anew.
    let again = run();
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("it exists"));
}
