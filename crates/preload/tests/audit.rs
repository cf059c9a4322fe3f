//! What passes by the shared object is counted, and nothing else is.

#![allow(missing_docs)]

mod support;

use std::path::Path;
use std::process::{Command, Output};

use support::{Drive, compiled, compiled_with, object, text};
use wharf::audit::{Audit, Report};

/// Where [`Drive`] has it.
const PLACE: &str = "/where";

/// What a program prints, and what there was to say of its calls; nothing where the kernel does not tell of calls.
fn watched(drive: &Drive, command: &mut Command) -> Option<(Output, Report)> {
    let directory = tempfile::tempdir().unwrap();
    let mut audit = match Audit::begin(Path::new(PLACE), &object(), directory.path()) {
        Ok(audit) => audit,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    let mut command = drive.command(command);
    audit.follow(&mut command);
    let told = command.output();
    drop(command);
    match audit.end() {
        Ok(report) => Some((told.unwrap(), report)),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// The calls of a report that passed by, their times, and whether their programs have the shared object.
fn passed_by(report: &Report) -> Vec<(&str, u64, bool)> {
    let rows = report.passed_by.iter();
    rows.map(|row| (row.call.as_str(), row.times, row.has_object))
        .collect()
}

#[test]
fn a_program_that_is_linked_statically_passes_by() {
    let Some(program) = compiled_with("passes_by.c", &["-static"]) else {
        println!("skipped: there is no C library to be linked statically");
        return;
    };
    let drive = Drive::new();
    drive.shell("echo text > /where/file; mkdir /where/directory");
    let script = format!(
        "cd /where/directory && {} /where < /where/file",
        program.path().display()
    );
    let Some((told, report)) = watched(&drive, Command::new("sh").args(["-c", &script])) else {
        return;
    };
    assert_eq!(text(&told.stdout), "0 opened, read: -1 EBADF\n", "{told:?}");
    let passed = passed_by(&report);
    // `stat` is one of these by the C library's choice.
    let stat = ["newfstatat", "stat", "statx"];
    assert!(
        matches!(&passed[..], [(call, 1, false), ("openat", 12, false), ("read", 1, false)] if stat.contains(call))
            || matches!(&passed[..], [("open" | "openat", 12, false), ("read", 1, false), (call, 1, false)] if stat.contains(call)),
        "{report:?}"
    );
    let name = program.path().display().to_string();
    assert!(report.passed_by.iter().all(|row| row.program == name));
    let first = |call: &str| {
        report
            .passed_by
            .iter()
            .find(|row| row.call.contains(call))
            .map(|row| &row.first[..])
    };
    assert_eq!(first("open"), Some("/where/file"));
    assert_eq!(first("read"), Some("descriptor 0"));
    assert_eq!(first("stat"), Some("file from a directory of the drive"));
    drive.check();
}

#[test]
fn a_system_call_of_a_programs_own_passes_by() {
    let drive = Drive::new();
    drive.shell("echo text > /where/file");
    let program = compiled("passes_by.c");
    let mut command = Command::new(program.path());
    let Some((told, report)) = watched(&drive, command.args([PLACE, "alone"])) else {
        return;
    };
    assert_eq!(text(&told.stdout), "1 1\n", "{told:?}");
    let expected: &[_] = match cfg!(target_arch = "x86_64") {
        true => &[("openat", 1, true)],
        false => &[],
    };
    assert_eq!(passed_by(&report), expected);
    drive.check();
}

/// All that the shared object does itself is none of the drive for the kernel.
#[test]
fn nothing_of_ordinary_programs_passes_by() {
    let drive = Drive::new();
    for name in ["calls.c", "walks.c", "aio.c"] {
        let program = compiled(name);
        let own = format!("{} /where", program.path().display());
        let Some((told, report)) = watched(&drive, Command::new("sh").args(["-c", &own])) else {
            return;
        };
        assert!(told.status.success(), "{name}: {told:?}");
        assert_eq!(passed_by(&report), [], "{name}: {report:?}");
        assert!(report.looked_at > 50, "{name}: {report:?}");
        drive.shell("rm -rf /where/*");
    }
    let script = "seq 99 > /where/a; cd /where; mkdir b; cp a b; cat b/a | tail -n 1; (echo c >> a); ls -l b > /where/l; find . | wc -l";
    let Some((told, report)) = watched(&drive, Command::new("sh").args(["-c", script])) else {
        return;
    };
    assert_eq!(text(&told.stdout), "99\n5\n");
    assert_eq!(passed_by(&report), [], "{report:?}");
    assert!(report.refused.is_empty(), "{report:?}");
    drive.check();
}

#[test]
fn what_is_refused_is_told() {
    let drive = Drive::new();
    let program = compiled("refused.c");
    let mut command = Command::new(program.path());
    let Some((_, report)) = watched(&drive, command.arg(PLACE)) else {
        return;
    };
    let refused: Vec<_> = report
        .refused
        .iter()
        .map(|row| (row.call.as_str(), row.times))
        .collect();
    assert_eq!(
        refused,
        [
            ("inotify", 1),
            ("io_uring", 2),
            ("open of a pipe or a device", 1)
        ]
    );
    drive.check();
}

/// A process has one such filter at most.
#[test]
fn where_calls_cannot_be_watched_nothing_is_started() {
    let directory = tempfile::tempdir().unwrap();
    let inner = tempfile::tempdir().unwrap();
    let begin = |at: &Path| Audit::begin(Path::new(PLACE), &object(), at);
    let (Ok(mut first), Ok(mut second)) = (begin(directory.path()), begin(inner.path())) else {
        println!("skipped: the kernel does not tell of calls");
        return;
    };
    let mut command = Command::new("true");
    first.follow(&mut command);
    second.follow(&mut command);
    assert!(command.status().is_err());
    drop(command);
    let ended = first.end();
    let error = second.end().unwrap_err().to_string();
    assert!(error.starts_with("calls cannot be watched here"), "{error}");
    // Where the first one was refused already, the second one was not asked.
    assert!(ended.is_err() || ended.unwrap().passed_by.is_empty());
}
