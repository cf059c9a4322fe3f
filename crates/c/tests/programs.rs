//! C programs against the header and the library.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where the library lies that was built with this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a file");
    let folder = test.parent().expect("a file lies in a folder").to_owned();
    assert!(
        folder.join("libwharf_c.so").exists(),
        "no library in {}",
        folder.display()
    );
    folder
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
    let (program, library) = (folder.path().join("use"), library());
    let path = format!("-L{}", library.display());
    compile("tests/use.c", &program, &[&path, "-lwharf_c"]);
    let output = Command::new(&program)
        .arg(folder.path().join("data"))
        .env("LD_LIBRARY_PATH", &library)
        .output()
        .unwrap();
    expect_success(&output, "tests/use.c");
    assert_eq!(output.stdout, b"all as expected\n");
}

#[test]
fn the_example_prints_what_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let (program, library) = (folder.path().join("hello"), library());
    let path = format!("-L{}", library.display());
    compile("examples/hello.c", &program, &[&path, "-lwharf_c"]);
    let data = folder.path().join("data");
    let run = |arguments: &[&Path]| {
        let mut command = Command::new(&program);
        command.args(arguments).env("LD_LIBRARY_PATH", &library);
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
    let (program, library) = (folder.path().join("files"), library());
    let path = format!("-L{}", library.display());
    compile("tests/files.c", &program, &[&path, "-lwharf_c"]);
    let output = Command::new(&program)
        .arg(folder.path().join("drive.img"))
        .env("LD_LIBRARY_PATH", &library)
        .output()
        .unwrap();
    expect_success(&output, "tests/files.c");
    assert_eq!(output.stdout, b"all calls on files\n");
}

#[test]
fn the_example_of_files_lists_what_it_made() {
    let folder = tempfile::tempdir().unwrap();
    let (program, library) = (folder.path().join("files"), library());
    let path = format!("-L{}", library.display());
    compile("examples/files.c", &program, &[&path, "-lwharf_c"]);
    let image = folder.path().join("drive.img");
    let run = || {
        let mut command = Command::new(&program);
        command.arg(&image).env("LD_LIBRARY_PATH", &library);
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
