//! `wharf run`: a program that finds a drive's files at a path of its own.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::keeping::{self, Modes, drive_cache};
use super::recording::Recording;
use super::values::count;
use super::{Failure, fs, input};
use crate::audit::{Audit, Report};
use crate::files::{FileDrive, Keeping, Server, Serving, is_socket};

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
  wharf run --drive drive.img=/drive --cache omni -- sqlite3 /drive/data.db
  wharf run --drive drive.img=/drive --record sqlite.trace -- sqlite3 /drive/data.db

Programs that are linked statically, programs in Go and programs with set-user-id do not see the drive: use `wharf mount`.
`--audit` tells whether there are any.";

#[derive(clap::Args)]
#[command(after_help = NEXT)]
pub(super) struct Args {
    /// The image, or the socket of a running `wharf serve drive`, and the absolute path where the program finds its files.
    #[arg(long, value_name = "IMAGE|SOCKET=PATH")]
    drive: OsString,
    /// Processes that use the drive at a time, where an image is named.
    #[arg(long, value_name = "COUNT", default_value_t = 61, value_parser = count::<u32>(1..=2000))]
    processes_max: u32,
    /// Memory in which each process keeps what it reads of files, until others change it: `64MiB`, or `0` for none. With `omni`, or
    /// `omni:64MiB`, it uses the drive's own cache too (OmniCache): of what it wants a part of a page, only those bytes move.
    #[arg(long, value_name = "SIZE|omni[:SIZE]", default_value = "64MiB", value_parser = keeping::said)]
    cache: Keeping,
    #[command(flatten)]
    modes: Modes,
    /// Memory for the drive's own cache, where an image is named, with `--cache omni`.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = drive_cache)]
    drive_cache: u64,
    /// Watches all calls of the program's that lead to files, and says on standard error when all has ended which ones for the drive
    /// went past it to the kernel, and what was refused. It makes these calls slow.
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    audit: Option<Format>,
    /// Writes what the program, and all that it starts, does with the drive's files to a new file, as a trace of operations on files that
    /// `wharf compare` replays.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The program, and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// Runs the command; gives the program's exit code.
pub(super) fn run(args: &Args) -> Result<u8, Failure> {
    let (source, place) = split(&args.drive)?;
    let keeping = args.modes.of(args.cache)?;
    let object = object()?;
    // Before any thread starts: a signal that comes early is not lost.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGQUIT]).map_err(input)?;
    let is_socket = is_socket(&source);
    if !is_socket && args.cache.is_omni && args.drive_cache == 0 {
        return Err(input(
            "--drive-cache 0: --cache omni uses the drive's cache",
        ));
    }
    let recording = args.record.as_deref().map(Recording::begin).transpose()?;
    let served = match is_socket {
        true => None,
        false => Some(Served::open(&source, args)?),
    };
    let socket = served.as_ref().map_or(&source, |served| &served.socket);
    let socket = std::path::absolute(socket).map_err(input)?;
    if is_socket && args.cache.is_omni {
        // Before the program starts, which would be told by an error of its first call.
        let ended = keeping::attach(keeping, &socket).and_then(FileDrive::end);
        ended.map_err(|error| fs::failure(&socket, &error))?;
    }
    let told = [socket.as_os_str().as_bytes(), b"=", place.as_bytes()].concat();
    let mut command = Command::new(&args.program[0]);
    command
        .args(&args.program[1..])
        .env("LD_PRELOAD", before(&object))
        .env("WHARF_DRIVE", OsStr::from_bytes(&told))
        .env("WHARF_CACHE", keeping.to_string());
    let watched = match args.audit {
        None => None,
        Some(format) => Some(Watched::begin(format, Path::new(&place), &object)?),
    };
    let listed = recording.as_ref().map_or(Ok(()), |recording| {
        command.envs([recording.variable()]);
        recording.list(&socket)
    });
    let ended = listed.and_then(|()| start(command, watched, signals, &args.program[0]));
    if let Some(served) = served {
        served.close(&source)?;
    }
    let ended = ended?;
    recording.map_or(Ok(()), Recording::end)?;
    Ok(code(ended))
}

/// Starts the program, and waits until it has ended; with an audit, until all that it has started has.
fn start(
    mut command: Command,
    mut watched: Option<Watched>,
    signals: Signals,
    program: &OsStr,
) -> Result<ExitStatus, Failure> {
    if let Some(watched) = &mut watched {
        watched.audit.follow(&mut command);
    }
    let child = command.spawn();
    drop(command);
    let ended = match child {
        Ok(child) => wait(child, signals).map_err(input),
        Err(error) => Err(input(format!("{}: {error}", program.display()))),
    };
    // Where its calls could not be watched it was not started.
    watched.map_or(Ok(()), |watched| watched.end(ended.is_ok()))?;
    ended
}

/// An audit, and the directory of its socket.
struct Watched {
    audit: Audit,
    format: Format,
    directory: PathBuf,
}

impl Watched {
    fn begin(format: Format, place: &Path, object: &Path) -> Result<Watched, Failure> {
        let directory = private_directory().map_err(input)?;
        match Audit::begin(place, object, &directory) {
            Ok(audit) => Ok(Watched {
                audit,
                format,
                directory,
            }),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&directory);
                Err(input(error))
            }
        }
    }

    /// Says what was found, if the program was started.
    fn end(self, was_started: bool) -> Result<(), Failure> {
        let report = self.audit.end();
        let _ = std::fs::remove_dir_all(&self.directory);
        let report = report.map_err(input)?;
        if was_started {
            let text = match self.format {
                Format::Table => table(&report),
                Format::Json => serde_json::to_string_pretty(&report).expect("plain data"),
            };
            eprintln!("{}", text.trim_end());
        }
        Ok(())
    }
}

/// A report for people.
fn table(report: &Report) -> String {
    let mut rows = Vec::new();
    for passed in &report.passed_by {
        let how = match passed.has_object {
            true => "passed by",
            false => "passed by; the program has no shared object",
        };
        let what = format!("{how}: first {}", passed.first);
        rows.push([
            passed.program.clone(),
            passed.call.clone(),
            passed.times.to_string(),
            what,
        ]);
    }
    for refused in &report.refused {
        let (program, call) = (refused.program.clone(), refused.call.clone());
        rows.push([program, call, refused.times.to_string(), "refused".into()]);
    }
    let mut text = format!("wharf run: {} calls were looked at", report.looked_at);
    if rows.is_empty() {
        return text + "; none for the drive passed by, and none was refused";
    }
    text.push('\n');
    rows.insert(0, ["program", "call", "times", "what"].map(String::from));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = [0, 1, 2].map(|column| width(column).unwrap_or(0));
    for [program, call, times, what] in &rows {
        let [first, second, third] = widths;
        text += &format!("{program:first$}  {call:second$}  {times:>third$}  {what}\n");
    }
    text
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
    fn open(image: &Path, args: &Args) -> Result<Served, Failure> {
        let directory = private_directory().map_err(input)?;
        let socket = directory.join("drive.sock");
        let how = Serving {
            processes: args.processes_max,
            drive_cache_bytes: if args.cache.is_omni {
                args.drive_cache
            } else {
                0
            },
            ..Serving::default()
        };
        match Server::open_as(image, &socket, &how) {
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
pub(super) fn private_directory() -> io::Result<PathBuf> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Passed, Refused};

    #[test]
    fn a_report_is_a_table() {
        let mut report = Report {
            looked_at: 412,
            ..Report::default()
        };
        assert_eq!(
            table(&report),
            "wharf run: 412 calls were looked at; none for the drive passed by, and none was refused"
        );
        report.passed_by.push(Passed {
            program: "/home/static".into(),
            call: "openat".into(),
            times: 12,
            first: "/drive/x".into(),
            has_object: false,
        });
        report.refused.push(Refused {
            program: "/bin/cat".into(),
            call: "mmap".into(),
            times: 1,
        });
        assert_eq!(
            table(&report),
            "wharf run: 412 calls were looked at\n\
             program       call    times  what\n\
             /home/static  openat     12  passed by; the program has no shared object: first /drive/x\n\
             /bin/cat      mmap        1  refused\n"
        );
    }
}
