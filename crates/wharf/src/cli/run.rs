//! `wharf run`: a program that finds a drive's files at a path of its own.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use wharf_lab::config::parse_bytes;

use super::{Failure, fs, input};
use crate::files::Server;

/// The shared object that goes before the program's C library.
const OBJECT: &str = "libwharf_preload.so";

/// What people type next; all of it works as it stands.
const NEXT: &str = "\
Examples:

  wharf fs make drive.img --size 1GiB
  wharf run --drive drive.img=/drive -- sh -c 'echo hello > /drive/hello; ls -l /drive'
  wharf run --drive drive.img=/drive -- git clone . /drive/copy
  wharf serve drive drive.img --socket drive.sock &
  wharf run --drive drive.sock=/drive -- sqlite3 /drive/data.db

Programs that are linked statically, programs in Go and programs with set-user-id do not see the drive: use `wharf mount`.";

#[derive(clap::Args)]
#[command(after_help = NEXT)]
pub(super) struct Args {
    /// The image, or the socket of a running `wharf serve drive`, and the absolute path where the program finds its files.
    #[arg(long, value_name = "IMAGE|SOCKET=PATH")]
    drive: OsString,
    /// Processes that use the drive at a time, where an image is named.
    #[arg(long, value_name = "COUNT", default_value_t = 61, value_parser = clap::value_parser!(u32).range(1..=61))]
    processes_max: u32,
    /// Memory in which each process keeps what it reads of files, until others change it: `64MiB`, or `0` for none.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = cache_bytes)]
    cache: u64,
    /// The program, and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Runs the command; gives the program's exit code.
pub(super) fn run(args: &Args) -> Result<u8, Failure> {
    let (source, place) = split(&args.drive)?;
    let object = object()?;
    // Before any thread starts: a signal that comes early is not lost.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT]).map_err(input)?;
    let is_socket = std::fs::metadata(&source).is_ok_and(|found| found.file_type().is_socket());
    let served = match is_socket {
        true => None,
        false => Some(Served::open(&source, args.processes_max)?),
    };
    let socket = served.as_ref().map_or(&source, |served| &served.socket);
    let socket = std::path::absolute(socket).map_err(input)?;
    let told = [socket.as_os_str().as_bytes(), b"=", place.as_bytes()].concat();
    let child = Command::new(&args.program[0])
        .args(&args.program[1..])
        .env("LD_PRELOAD", before(&object))
        .env("WHARF_DRIVE", OsStr::from_bytes(&told))
        .env("WHARF_CACHE", args.cache.to_string())
        .arg0(&args.program[0])
        .spawn();
    let child = child.map_err(|error| input(format!("{}: {error}", args.program[0].display())))?;
    let ended = wait(child, signals).map_err(input)?;
    if let Some(served) = served {
        served.close(&source)?;
    }
    Ok(code(ended))
}

/// A size, as it is said.
fn cache_bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

/// The drive, and where its files are to be.
fn split(text: &OsStr) -> Result<(PathBuf, OsString), Failure> {
    let bytes = text.as_bytes();
    let wrong = || {
        input(format!(
            "--drive {}: give the image or socket, '=' and an absolute path other than /",
            text.display()
        ))
    };
    let middle = bytes
        .iter()
        .rposition(|byte| *byte == b'=')
        .ok_or_else(wrong)?;
    let (source, place) = (&bytes[..middle], &bytes[middle + 1..]);
    let place = Path::new(OsStr::from_bytes(place));
    let is_plain = place.components().all(|part| {
        matches!(
            part,
            std::path::Component::RootDir | std::path::Component::Normal(_)
        )
    });
    match place.is_absolute() && is_plain && place.components().count() > 1 && !source.is_empty() {
        true => Ok((PathBuf::from(OsStr::from_bytes(source)), place.into())),
        false => Err(wrong()),
    }
}

/// The shared object: beside this program, or where it is installed.
fn object() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(input)?;
    let directory = own.parent().unwrap_or(Path::new("/"));
    let places = [
        directory.join(OBJECT),
        directory.join("../lib/wharf").join(OBJECT),
    ];
    let found = places.iter().find(|place| place.is_file());
    found.cloned().ok_or_else(|| {
        input(format!(
            "{OBJECT} is neither beside {} nor in ../lib/wharf: build it with `cargo build --release`",
            own.display()
        ))
    })
}

/// `LD_PRELOAD` with the object first.
fn before(object: &Path) -> OsString {
    let mut all = object.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// An image that this process serves while the program runs.
struct Served {
    server: Server,
    directory: PathBuf,
    socket: PathBuf,
}

impl Served {
    fn open(image: &Path, processes: u32) -> Result<Served, Failure> {
        let directory = private_directory().map_err(input)?;
        let socket = directory.join("drive.sock");
        match Server::open(image, &socket, processes) {
            Ok(server) => Ok(Served {
                server,
                directory,
                socket,
            }),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&directory);
                Err(fs::failure(image, &error))
            }
        }
    }

    fn close(self, image: &Path) -> Result<(), Failure> {
        let closed = self.server.close();
        // What is left of it is an empty directory.
        let _ = std::fs::remove_dir_all(&self.directory);
        closed.map_err(|error| fs::failure(image, &error))
    }
}

/// A new directory that nobody else can look into.
fn private_directory() -> io::Result<PathBuf> {
    let base = std::env::temp_dir();
    for number in 0..1000 {
        let path = base.join(format!("wharf-run-{}-{number}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Waits for the program. A signal to this process alone goes on to it; what comes from a terminal it gets itself.
fn wait(mut child: Child, mut signals: Signals) -> io::Result<ExitStatus> {
    let process = rustix::process::Pid::from_child(&child);
    let handle = signals.handle();
    std::thread::scope(|scope| {
        #[allow(clippy::disallowed_methods)]
        // it waits for signals, which no task of the runtime can
        scope.spawn(|| {
            for signal in signals.forever() {
                let forwarded = match signal {
                    SIGTERM => rustix::process::Signal::TERM,
                    SIGHUP => rustix::process::Signal::HUP,
                    _ => continue,
                };
                let _ = rustix::process::kill_process(process, forwarded);
            }
        });
        let ended = child.wait();
        handle.close();
        ended
    })
}

/// As a shell tells it.
fn code(ended: ExitStatus) -> u8 {
    match (ended.code(), ended.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.saturating_add(signal as u8),
        (None, None) => super::FAILED,
    }
}
