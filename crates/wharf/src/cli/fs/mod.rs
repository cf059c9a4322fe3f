//! `wharf fs make`, `check`, `info`, `ls`, `cp`, `sessions`.

mod copy;
mod list;
mod sessions;

use std::path::{Path, PathBuf};

use serde_json::json;
use wharf_lab::config::parse_bytes;

use super::{Failure, input, print, room};
use crate::files::{self, Format, ImageError, Mount, NewImage};
use crate::store::StoreError;

/// What people type next; all of it works as it stands.
const NEXT: &str = "\
A drive of 1 GiB with a file system, used as a directory:

  wharf fs make drive.img --size 1GiB
  mkdir here
  wharf mount drive.img here --background
  git -C here init project
  umount here        (as another user than root: fusermount3 -u here)
  wharf fs check drive.img

docs/files.md says what survives what.";

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Makes a drive in a new file, with a table of partitions and one file system.
    #[command(after_help = NEXT)]
    Make {
        /// The image to make; it must not exist.
        image: PathBuf,
        /// How much the drive is to hold, at least. The file grows as it is filled.
        #[arg(long, value_name = "SIZE")]
        size: String,
        /// Which file system: wfs, with extents and a journal, or wpm, which is made for persistent memory and has a log for
        /// each file. All other commands see which it is.
        #[arg(long, value_name = "NAME", default_value = "wfs", value_parser = ["wfs", "wpm"])]
        format: String,
    },
    /// Brings a file system up to date, as mounting it does, and checks all of it. Exit code 1 if
    /// anything is wrong.
    Check {
        /// The image; nobody else may have it open.
        image: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Says how large a file system is, and how much of it is free.
    Info {
        /// The image, which nobody else has open; or the socket of `wharf serve drive`.
        image: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Lists a directory of an image.
    Ls(list::Args),
    /// Copies files into an image, out of one, or within one, without mounting it.
    Cp(copy::Args),
    /// Says which processes use an image that `wharf serve drive` serves, and sends them away.
    Sessions(sessions::Args),
}

/// Runs the command.
pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Make {
            image,
            size,
            format,
        } => make(image, size, format),
        Command::Check { image, json } => check(image, *json),
        Command::Info { image, json } => info(image, *json),
        Command::Ls(args) => list::run(args),
        Command::Cp(args) => copy::run(args),
        Command::Sessions(args) => sessions::run(args),
    }
}

/// Whose fault an error is: of drives and file systems that fail, the run's; all else the input's.
pub(super) fn failure(image: &Path, error: &ImageError) -> Failure {
    let (name, mut line) = (image.display().to_string(), error.to_string());
    // Errors of drives have the name of the image.
    if !line.contains(&name) {
        line = format!("{name}: {line}");
    }
    match error {
        ImageError::Files(_)
        | ImageError::Damaged(_)
        | ImageError::Drive(StoreError::Io(_) | StoreError::Admin(_)) => Failure::Run(line),
        _ => Failure::Input(line),
    }
}

pub(super) fn open(image: &Path) -> Result<Mount, Failure> {
    Mount::open(image).map_err(|error| failure(image, &error))
}

pub(super) fn close(image: &Path, mount: Mount) -> Result<(), Failure> {
    mount.close().map_err(|error| failure(image, &error))
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn make(image: &Path, size: &str, format: &str) -> Result<(), Failure> {
    let bytes = parse_bytes(size).map_err(|error| input(format!("--size: {error}")))?;
    let mut known = Format::ALL.into_iter();
    let new = NewImage {
        format: known
            .find(|known| known.name() == format)
            .expect("only names of formats are taken"),
        ..NewImage::of_bytes(bytes)
    };
    room::check_sparse([(image, bytes)], "give a smaller --size")?;
    files::make(image, &new).map_err(|error| failure(image, &error))?;
    let mount = open(image)?;
    let space = mount.space();
    close(image, mount)?;
    let space = space.map_err(|error| Failure::Run(format!("{}: {error}", image.display())))?;
    print(&format!(
        "{}: {} for files",
        image.display(),
        mib(space.pages_free * 4096)
    ));
    Ok(())
}

fn check(image: &Path, json: bool) -> Result<(), Failure> {
    let checked = files::check(image).map_err(|error| failure(image, &error))?;
    let found = &checked.found;
    if json {
        let line = json!({
            "recovery_error": checked.recovered.as_ref().err(),
            "files": found.files,
            "directories": found.directories,
            "symbolic_links": found.symlinks,
            "special_files": found.specials,
            "used_bytes": found.pages_used * 4096,
            "findings": found.findings,
        });
        print(&serde_json::to_string_pretty(&line).expect("plain data"));
    } else {
        if let Err(error) = &checked.recovered {
            print(&format!("it cannot be brought up to date: {error}"));
        }
        for finding in &found.findings {
            print(finding);
        }
        print(&format!(
            "{} files, {} directories, {} symbolic links, {} special files, {} in use: {} findings",
            found.files,
            found.directories,
            found.symlinks,
            found.specials,
            mib(found.pages_used * 4096),
            found.findings.len()
        ));
    }
    match checked.is_sound() {
        true => Ok(()),
        false => Err(Failure::Run(format!(
            "{}: the file system is damaged",
            image.display()
        ))),
    }
}

fn info(image: &Path, json: bool) -> Result<(), Failure> {
    let mount = open(image)?;
    let space = mount.space();
    let replayed = mount.recovered().replayed.groups;
    let format = mount.format().map(Format::name);
    close(image, mount)?;
    let space = space.map_err(|error| Failure::Run(format!("{}: {error}", image.display())))?;
    if json {
        let line = json!({
            "file_system": format,
            "bytes": space.pages * 4096,
            "free_bytes": space.pages_free * 4096,
            "files_max": space.files,
            "files_free": space.files_free,
            "file_bytes_max": space.file_bytes_max,
            "journal_groups_replayed": replayed,
        });
        print(&serde_json::to_string_pretty(&line).expect("plain data"));
        return Ok(());
    }
    print(&format!(
        "file system  {}",
        format.unwrap_or("served by another process")
    ));
    print(&format!(
        "space        {} of {} free",
        mib(space.pages_free * 4096),
        mib(space.pages * 4096)
    ));
    match space.files {
        0 => print("files        as many as there is space for"),
        files => print(&format!(
            "files        {} of {files} can still be made",
            space.files_free
        )),
    }
    if replayed > 0 {
        print(&format!(
            "journal      {replayed} groups of changes were replayed: it had not been unmounted"
        ));
    }
    Ok(())
}
