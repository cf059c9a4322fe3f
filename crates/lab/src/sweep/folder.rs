//! A directory that the processes of a sweep share, on one machine or on several.
//!
//! 1. `sweep.json` says which sweep it is: all points with their identities. Whoever comes first writes it, beside its place, and gives it its
//!    name; others find the same sweep there, or go away.
//! 2. Each process writes a file of its own (`rows-SHARD-HOST-PROCESS.jsonl`): a line of JSON for each point that has ended, written by one call
//!    and brought to the medium before the next.
//! 3. A process that was killed may leave a last line without its end. It is passed over, and its point is run again.
//! 4. Every line names its sweep, the hash of the cost tables and the commit of the program: lines of others are refused. So are
//!    two lines of one point that say different things; two that say the same are one.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Point, Shard, Sweep, SweepError, SweepRow};

/// The format of the directory.
const SCHEMA: &str = "wharf.sweep-folder/1";

/// The file that says which sweep it is.
const MANIFEST: &str = "sweep.json";

/// How the files of rows begin and end.
const ROWS: (&str, &str) = ("rows-", ".jsonl");

/// `sweep.json`.
#[derive(Serialize, Deserialize)]
struct Manifest {
    schema: String,
    #[serde(flatten)]
    sweep: Sweep,
}

/// A line of a file of rows.
#[derive(Serialize, Deserialize)]
struct Line {
    sweep: String,
    costs: String,
    commit: String,
    row: SweepRow,
}

/// What is in a directory.
#[derive(Debug)]
pub struct Found {
    /// The rows by their point's identity.
    pub rows: BTreeMap<String, SweepRow>,
    /// Files whose last line has no end.
    pub torn: Vec<PathBuf>,
}

/// A directory of a sweep.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The sweep that it is of.
    pub sweep: Sweep,
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> SweepError {
    let path = path.to_path_buf();
    move |source| SweepError::Io { path, source }
}

fn foreign(path: &Path, message: impl Into<String>) -> SweepError {
    SweepError::Foreign {
        path: path.into(),
        message: message.into(),
    }
}

impl Folder {
    /// Makes a directory for a sweep, or joins those that are at it.
    ///
    /// # Errors
    /// It is of another sweep, or of another version of the costs or the program; it is no directory of a sweep, and not empty; the
    /// system refuses.
    pub fn join(path: &Path, sweep: &Sweep) -> Result<Folder, SweepError> {
        std::fs::create_dir_all(path).map_err(io(path))?;
        let manifest = path.join(MANIFEST);
        if !manifest.exists() {
            let mut entries = std::fs::read_dir(path).map_err(io(path))?;
            let is_ours = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(MANIFEST);
            if entries.any(|entry| entry.is_ok_and(|entry| !is_ours(&entry.file_name()))) {
                return Err(foreign(
                    path,
                    "no directory of a sweep, and not empty: give --out a new one",
                ));
            }
            write_manifest(&manifest, sweep)?;
        }
        // Another process may have been faster, with another sweep.
        let folder = Folder::open(path)?;
        let at = &folder.sweep;
        let advice = "give --out another directory";
        if at.costs != sweep.costs {
            let message = format!("of another version of the cost table: {advice}");
            return Err(foreign(path, message));
        }
        if at.id != sweep.id {
            return Err(foreign(path, format!("of another sweep: {advice}")));
        }
        if at.commit != sweep.commit {
            let (theirs, ours) = (&at.commit, &sweep.commit);
            return Err(foreign(
                path,
                format!(
                    "begun by commit {theirs} of this program, which is now {ours}: {advice}, or go on with that commit"
                ),
            ));
        }
        Ok(folder)
    }

    /// Opens the directory of a sweep, whatever it is of.
    ///
    /// # Errors
    /// It is none; the system refuses.
    pub fn open(path: &Path) -> Result<Folder, SweepError> {
        let manifest = path.join(MANIFEST);
        let text = match std::fs::read_to_string(&manifest) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let message = format!(
                    "no directory of a sweep: it has no {MANIFEST} (`wharf sweep run` makes one)"
                );
                return Err(foreign(path, message));
            }
            other => other.map_err(io(&manifest))?,
        };
        let read: Manifest = serde_json::from_str(&text)
            .map_err(|error| foreign(&manifest, format!("does not describe a sweep: {error}")))?;
        if read.schema != SCHEMA {
            let message = format!("is {:?}, this program reads {SCHEMA:?}", read.schema);
            return Err(foreign(&manifest, message));
        }
        Ok(Folder {
            path: path.into(),
            sweep: read.sweep,
        })
    }

    /// Makes the file that this process writes the rows of a shard to.
    ///
    /// # Errors
    /// The system refuses.
    pub fn writer(&self, shard: Shard) -> Result<Writer, SweepError> {
        let system = rustix::system::uname();
        let host = system.nodename().to_string_lossy();
        let host = host.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let process = std::process::id();
        let Shard { index, count } = shard;
        // Processes have equal numbers in different containers, and after a restart.
        for more in 0u32.. {
            let name = format!(
                "{}{index}of{count}-{host}-{process}-{more}{}",
                ROWS.0, ROWS.1
            );
            let path = self.path.join(name);
            match OpenOptions::new().append(true).create_new(true).open(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io(&path)(error)),
                Ok(file) => {
                    let sweep = &self.sweep;
                    return Ok(Writer {
                        file,
                        path,
                        rows: 0,
                        is_torn: false,
                        sweep: sweep.id.clone(),
                        costs: sweep.costs.clone(),
                        commit: sweep.commit.clone(),
                    });
                }
            }
        }
        unreachable!("there are fewer files than numbers")
    }

    /// Reads all rows.
    ///
    /// # Errors
    /// A line is of another sweep, cost table or commit, or no row; two lines of a point differ; the system refuses.
    pub fn read(&self) -> Result<Found, SweepError> {
        let mut found = Found {
            rows: BTreeMap::new(),
            torn: Vec::new(),
        };
        let points = self.sweep.points.iter();
        let points: BTreeMap<&str, &Point> =
            points.map(|point| (point.id.as_str(), point)).collect();
        for path in self.files()? {
            self.read_file(&path, &points, &mut found)?;
        }
        Ok(found)
    }

    /// The files of rows, by name.
    fn files(&self) -> Result<Vec<PathBuf>, SweepError> {
        let entries = std::fs::read_dir(&self.path).map_err(io(&self.path))?;
        let mut files = Vec::new();
        for entry in entries {
            let name = entry.map_err(io(&self.path))?.file_name();
            let text = name.to_string_lossy();
            if text.starts_with(ROWS.0) && text.ends_with(ROWS.1) {
                files.push(self.path.join(&name));
            }
        }
        files.sort();
        Ok(files)
    }

    fn read_file(
        &self,
        path: &Path,
        points: &BTreeMap<&str, &Point>,
        found: &mut Found,
    ) -> Result<(), SweepError> {
        let bytes = std::fs::read(path).map_err(io(path))?;
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        // What stands behind the last line feed is a line that was not written whole.
        let is_torn = lines.pop().is_some_and(|rest| !rest.is_empty());
        if is_torn {
            found.torn.push(path.into());
        }
        let last = lines.len();
        for (number, line) in lines.into_iter().enumerate() {
            let wrong = |message: String| foreign(path, format!("line {}: {message}", number + 1));
            let line: Line = match serde_json::from_slice(line) {
                Ok(line) => line,
                // A machine that lost power may have the length of a line and not its bytes.
                Err(_) if number + 1 == last && !is_torn => {
                    found.torn.push(path.into());
                    continue;
                }
                Err(error) => return Err(wrong(format!("no row of a sweep: {error}"))),
            };
            self.check(&line).map_err(&wrong)?;
            let Some(point) = points.get(line.row.point.as_str()) else {
                let id = &line.row.point;
                return Err(wrong(format!(
                    "the sweep has no point {id}: take the line out"
                )));
            };
            match found.rows.get(&line.row.point) {
                None => {
                    found.rows.insert(line.row.point.clone(), line.row);
                }
                Some(other) if *other == line.row => {}
                Some(_) => {
                    let (id, words) = (&point.id, self.sweep.describe(point));
                    return Err(wrong(format!(
                        "another row of point {id} ({words}), which a line before has with other figures: take the wrong one out"
                    )));
                }
            }
        }
        Ok(())
    }

    fn check(&self, line: &Line) -> Result<(), String> {
        let sweep = &self.sweep;
        if line.costs != sweep.costs {
            return Err("of another version of the cost table: take the file out".into());
        }
        if line.sweep != sweep.id {
            return Err("of another sweep: take the file out".into());
        }
        if line.commit != sweep.commit {
            let (theirs, ours) = (&line.commit, &sweep.commit);
            return Err(format!(
                "made by commit {theirs} of this program, and the sweep is by {ours}: take the file out"
            ));
        }
        Ok(())
    }
}

/// Writes the manifest beside its place, and links it there unless another process has done so.
fn write_manifest(path: &Path, sweep: &Sweep) -> Result<(), SweepError> {
    let manifest = Manifest {
        schema: SCHEMA.into(),
        sweep: sweep.clone(),
    };
    let mut text = serde_json::to_string_pretty(&manifest).expect("plain data with string keys");
    text.push('\n');
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy().replace('/', "-");
    let unfinished = path.with_file_name(format!("{MANIFEST}.{host}.{}", std::process::id()));
    let write = || {
        let mut file = File::create(&unfinished)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        match std::fs::hard_link(&unfinished, path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            // Some file systems have no links.
            Err(_) => std::fs::rename(&unfinished, path),
            Ok(()) => Ok(()),
        }
    };
    let written = write();
    // It is gone where it was renamed; the first fault is the one to tell.
    let _ = std::fs::remove_file(&unfinished);
    written.map_err(io(path))
}

/// The file of one process. It is removed if nothing was written to it.
#[derive(Debug)]
pub struct Writer {
    file: File,
    path: PathBuf,
    /// Lines that were written.
    rows: usize,
    /// A line was not written whole: another one behind it would be read as its end.
    is_torn: bool,
    sweep: String,
    costs: String,
    commit: String,
}

impl Writer {
    /// Rows that were written.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Writes the line of a row, whole and to the medium.
    ///
    /// # Errors
    /// The system refuses, or refused an earlier row.
    pub fn write(&mut self, row: &SweepRow) -> Result<(), SweepError> {
        let line = Line {
            sweep: self.sweep.clone(),
            costs: self.costs.clone(),
            commit: self.commit.clone(),
            row: row.clone(),
        };
        let mut text = serde_json::to_string(&line).expect("plain data with string keys");
        text.push('\n');
        if self.is_torn {
            let before = std::io::Error::other("an earlier line could not be written");
            return Err(io(&self.path)(before));
        }
        self.is_torn = true;
        let written = self.file.write_all(text.as_bytes());
        let written = written.and_then(|()| self.file.sync_data());
        written.map_err(io(&self.path))?;
        (self.is_torn, self.rows) = (false, self.rows + 1);
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.rows == 0 {
            // An empty file does no harm.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
