//! Files that the user names for results: found to be unwritable, or there already, before a long run and not after it; written whole or
//! not at all.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::{Failure, input, print};

/// Standard output, in the place of a file.
const STDOUT: &str = "-";

/// Leave to overwrite.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Force {
    /// Overwrites files that exist.
    #[arg(long)]
    pub(super) force: bool,
}

/// The reports of a run.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Reports {
    /// Writes the figures as JSON (`docs/report-schema.md`); `-`: to standard output, in place of the table.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,

    /// Writes a page to look at; `-`: to standard output, in place of the table.
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

impl Reports {
    /// See [`check`].
    pub(super) fn check(&self, force: bool) -> Result<(), Failure> {
        let named = [("--json", &self.json), ("--html", &self.html)];
        let named = named
            .into_iter()
            .filter_map(|(option, path)| Some((option, path.as_deref()?)));
        check(&named.collect::<Vec<_>>(), force)
    }

    /// Writes what was asked for; prints `table` unless something else goes to standard output.
    pub(super) fn write(
        &self,
        table: impl FnOnce() -> String,
        json: impl FnOnce() -> String,
        html: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if !self
            .json
            .iter()
            .chain(&self.html)
            .any(|path| is_stdout(path))
        {
            print(&table());
        }
        if let Some(path) = &self.json {
            write(path, json().as_bytes())?;
        }
        match &self.html {
            Some(path) => write(path, html().as_bytes()),
            None => Ok(()),
        }
    }
}

/// Whether a path is that of standard output.
pub(super) fn is_stdout(path: &Path) -> bool {
    path == Path::new(STDOUT)
}

/// An error if one of these files, behind their options (empty if they have none), cannot be written, is there and may not be overwritten, or is named twice.
/// Nothing is changed.
pub(super) fn check(named: &[(&str, &Path)], force: bool) -> Result<(), Failure> {
    for (nth, (option, path)) in named.iter().enumerate() {
        let shown = path.display();
        if let Some((other, _)) = named[..nth].iter().find(|(_, other)| other == path) {
            return Err(input(format!(
                "{other} and {option} are both {shown}: give two paths"
            )));
        }
        if is_stdout(path) {
            continue;
        }
        if !force {
            refuse_existing(path)?;
        }
        let said = format!("{option} {shown}");
        try_to_write(path).map_err(|error| {
            let said = said.trim_start();
            input(format!("cannot write {said}: {error}: give another path"))
        })?;
    }
    Ok(())
}

/// An error if a file is there, which is not a device or a pipe.
pub(super) fn refuse_existing(path: &Path) -> Result<(), Failure> {
    let is_file = std::fs::metadata(path).is_ok_and(|there| there.is_file());
    match is_file && !is_stream(path) {
        true => Err(input(format!(
            "{} exists: give another name, or --force overwrites it",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// Whether a path is a name of an open file, such as /dev/stdout: where that leads the user has said already.
fn is_stream(path: &Path) -> bool {
    path.starts_with("/dev") || path.starts_with("/proc")
}

/// Opens a file for writing as the result will, but changes nothing.
fn try_to_write(path: &Path) -> std::io::Result<()> {
    match std::fs::OpenOptions::new().write(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(path)?;
            std::fs::remove_file(path)
        }
        other => other.map(drop),
    }
}

/// Writes bytes to a file, or to standard output, whose reader may have gone.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_by(path, |out| {
        out.write_all(bytes)
            .map_err(|error| unwritable(path, &error))
    })
}

/// Has `fill` write a file, or standard output. It is written beside its place and moved there, so that a failure leaves an older one as
/// it was; in place if it is a link, a device or a pipe.
pub(super) fn write_by<T>(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if is_stdout(path) {
        let mut out = Forgiving(std::io::stdout().lock());
        let value = fill(&mut out)?;
        let flushed = out.flush().map(|()| value);
        return flushed.map_err(|error| unwritable(path, &error));
    }
    let failed = |error: std::io::Error| unwritable(path, &error);
    let there = std::fs::symlink_metadata(path);
    if there.is_ok_and(|there| !there.is_file()) || is_stream(path) {
        let mut file = std::fs::File::create(path).map_err(failed)?;
        return fill(&mut file);
    }
    let beside = beside(path);
    let mut file = std::fs::File::create_new(&beside).map_err(failed)?;
    let done = fill(&mut file).and_then(|value| {
        let moved = file.flush().and_then(|()| std::fs::rename(&beside, path));
        moved.map(|()| value).map_err(failed)
    });
    if done.is_err() {
        // The first fault is the one to tell.
        let _ = std::fs::remove_file(&beside);
    }
    done
}

/// A name beside a file for what is not finished, which no other process uses.
pub(super) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.unfinished", std::process::id()));
    name.into()
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    input(format!("cannot write {}: {error}", path.display()))
}

/// Standard output whose reader may go away, which is no error.
struct Forgiving<W>(W);

impl<W: Write> Write for Forgiving<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(bytes.len()),
            other => other,
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_whole_or_left_alone() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("f");
        assert!(refuse_existing(&path).is_ok());
        assert!(write(&path, b"one").is_ok());
        let Err(Failure::Input(line)) = refuse_existing(&path) else {
            panic!("it is there");
        };
        assert!(
            line.ends_with("f exists: give another name, or --force overwrites it"),
            "{line}"
        );
        let failed = write_by(&path, |out| {
            out.write_all(b"half").expect("room");
            Err::<(), _>(input("amid it"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).expect("it is there"), b"one");
        assert_eq!(
            std::fs::read_dir(folder.path())
                .expect("a directory")
                .count(),
            1
        );
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().expect("a directory");
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        std::fs::write(&target, "older and longer").expect("a file");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        assert!(write(&link, b"new").is_ok());
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&target).expect("it is there"), b"new");
    }

    #[test]
    fn devices_and_open_files_are_written_without_force() {
        for path in ["/dev/null", "/dev/stderr", "/proc/self/fd/1"] {
            assert!(refuse_existing(Path::new(path)).is_ok(), "{path}");
        }
    }
}
