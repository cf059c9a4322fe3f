//! A place for the program to run in, and what it says there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) const SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../traces/sqlite-bank.trace.gz"
);

/// Reference traces, if they are here.
pub(crate) fn traces() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("WHARF_TRACES").map_or_else(beside, PathBuf::from);
    if !folder.is_dir() {
        println!("without reference traces (set WHARF_TRACES)");
        return None;
    }
    Some(folder)
}

/// Runs a program of Python that has libCacheSim, and gives what it writes; nothing where it is absent.
pub(crate) fn libcachesim() -> Option<impl Fn(&[&str]) -> String> {
    let python = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.args(arguments).stdin(Stdio::null()).output()
    };
    let is_there = python(&["-c", "import libcachesim"]);
    if !is_there.is_ok_and(|output| output.status.success()) {
        println!("skipped: Python has no libcachesim (pip install libcachesim)");
        return None;
    }
    Some(move |arguments: &[&str]| {
        let told = python(arguments).expect("Python runs");
        let said = String::from_utf8_lossy(&told.stderr);
        assert!(told.status.success(), "{said}");
        String::from_utf8(told.stdout).expect("text")
    })
}

/// A comparison that takes no time.
pub(crate) const QUICK: [&str; 9] = [
    "compare",
    "uniform",
    "--requests",
    "300",
    "--footprint",
    "1m",
    "--clients",
    "2",
    "--depth=4",
];

/// A directory of a test's own, in which the program runs.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Place {
        Place(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    }

    pub(crate) fn wharf(&self, arguments: &[&str]) -> Output {
        self.wharf_reading(arguments, Stdio::null())
    }

    /// Runs the program with this as its standard input.
    pub(crate) fn wharf_reading(&self, arguments: &[&str], stdin: Stdio) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wharf"));
        command
            .args(arguments)
            .current_dir(self.path())
            .stdin(stdin);
        command.output().expect("the program runs")
    }

    /// What lies in the directory.
    pub(crate) fn files(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.path()).expect("a directory");
        entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect()
    }

    /// Runs the program, which must succeed with nothing on standard error; gives standard output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.wharf(arguments);
        assert_eq!(
            code_and_stderr(&output),
            (Some(0), String::new()),
            "{arguments:?}"
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Runs the program, which must refuse its input in one line, print nothing and leave the
    /// directory as it is; gives the line.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        self.refused_by(arguments, || self.wharf(arguments))
    }

    /// The same in an address space of so many bytes.
    pub(crate) fn refused_within(&self, bytes: u64, arguments: &[&str]) -> String {
        self.refused_by(arguments, || self.within(bytes, arguments))
    }

    /// The same with a file of the directory as standard input.
    pub(crate) fn refused_within_reading(
        &self,
        bytes: u64,
        name: &str,
        arguments: &[&str],
    ) -> String {
        let file = || std::fs::File::open(self.path().join(name)).expect("it is there");
        self.refused_by(arguments, || {
            self.within_reading(bytes, arguments, file().into())
        })
    }

    /// Runs the program in an address space of so many bytes.
    pub(crate) fn within(&self, bytes: u64, arguments: &[&str]) -> Output {
        self.within_reading(bytes, arguments, Stdio::null())
    }

    fn within_reading(&self, bytes: u64, arguments: &[&str], stdin: Stdio) -> Output {
        let limited = format!("ulimit -v {}; exec \"$@\"", bytes >> 10);
        let mut command = Command::new("sh");
        command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_wharf")]);
        command.args(arguments).current_dir(self.path());
        command.stdin(stdin).output().expect("it runs")
    }

    fn refused_by(&self, arguments: &[&str], run: impl FnOnce() -> Output) -> String {
        let before = self.files();
        let output = run();
        let (code, stderr) = code_and_stderr(&output);
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?} printed something");
        assert_eq!(self.files(), before, "{arguments:?} left something behind");
        let line = stderr
            .strip_prefix("wharf: ")
            .and_then(|rest| rest.strip_suffix('\n'));
        let line = line.unwrap_or_else(|| panic!("{arguments:?}: {stderr:?}"));
        assert!(
            !line.contains('\n'),
            "{arguments:?}: more than a line: {line}"
        );
        line.to_string()
    }
}

pub(crate) fn code_and_stderr(output: &Output) -> (Option<i32>, String) {
    (
        output.status.code(),
        String::from_utf8(output.stderr.clone()).expect("UTF-8"),
    )
}

pub(crate) fn with<'a>(base: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [base, more].concat()
}

/// A JSON file.
pub(crate) fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("a report");
    serde_json::from_str(&text).expect("JSON")
}
