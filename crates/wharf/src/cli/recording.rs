//! `wharf run --record`: one trace of what all processes of a run do.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use wharf_files::block_on;

use super::run::private_directory;
use super::{Failure, input, keeping};
use crate::files::{self, Keeping, Recorded, gather};

/// A trace that is being written: what was there at the beginning, and a directory where each process has a part of its own.
pub(super) struct Recording {
    path: PathBuf,
    out: File,
    directory: PathBuf,
    begun_ns: u64,
    /// Whether there is something to be kept.
    has_run: bool,
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
        if !self.has_run {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Recording {
    /// Makes the trace's file.
    pub(super) fn begin(path: &Path) -> Result<Recording, Failure> {
        let failed = |error: io::Error| input(format!("{}: {error}", path.display()));
        let out = File::create_new(path).map_err(failed)?;
        let directory = private_directory().map_err(|error| {
            let _ = std::fs::remove_file(path);
            input(error)
        })?;
        Ok(Recording {
            path: path.into(),
            out,
            directory,
            begun_ns: files::now_ns(),
            has_run: false,
        })
    }

    /// Writes what there is on the drive that is served at a socket.
    pub(super) fn list(&self, socket: &Path) -> Result<(), Failure> {
        let none = Keeping::of_bytes(0);
        let drive =
            keeping::attach(none, socket).map_err(|error| super::fs::failure(socket, &error))?;
        let caller = drive.own_caller();
        let out = self.out.try_clone().map_err(|error| self.failed(&error))?;
        let listed = block_on(Recorded::new(drive, out, self.begun_ns, || 0, &caller));
        let (drive, ended) = listed.map_err(|error| self.failed(&error))?.end();
        ended.map_err(|error| self.failed(&error))?;
        drive
            .end()
            .map_err(|error| super::fs::failure(socket, &error))
    }

    fn failed(&self, error: &io::Error) -> Failure {
        Failure::Run(format!("{}: {error}", self.path.display()))
    }

    /// The variable of the environment that tells processes of it.
    pub(super) fn variable(&self) -> (&'static str, OsString) {
        let mut told = format!("{}:", self.begun_ns).into_bytes();
        told.extend(self.directory.as_os_str().as_encoded_bytes());
        ("WHARF_RECORD", OsString::from_vec(told))
    }

    /// Puts the parts together, and says how much there is.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        self.has_run = true;
        let gathered = gather(&self.directory, &self.out);
        let summary = gathered.map_err(|error| self.failed(&error))?;
        // The program's standard output is its own.
        eprintln!(
            "wharf run: recorded to {}: {} operations; left out, as traces have no word for them: {}",
            self.path.display(),
            summary.operations,
            summary.left_out
        );
        Ok(())
    }
}
