//! A place for a command of the program to run in.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A directory of a test's own, in which `wharf COMMAND` runs.
pub struct Place {
    folder: tempfile::TempDir,
    command: &'static str,
}

impl Place {
    pub fn of(command: &'static str) -> Place {
        let folder = tempfile::tempdir().expect("a directory");
        Place { folder, command }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn wharf(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_wharf"))
            .arg(self.command)
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("the program runs")
    }

    /// Runs the program, which must succeed in silence; gives standard output.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.wharf(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), &*errors),
            (Some(0), ""),
            "{arguments:?}"
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Runs the program, which must fail with `code` and one line that has `part` in it.
    pub fn fails(&self, code: i32, part: &str, arguments: &[&str]) {
        let output = self.wharf(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.contains(part), "{errors}");
    }
}
