//! `wharf mount`: the file system of an image as a directory.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wharf_files::block_on;
use wharf_fuse::{MountOptions, asking, mount, unmount};

use super::keeping::{self, Modes};
use super::{Failure, fs, input, print};
use crate::files::{self, FileDrive, Keeping, Recorded};

/// What a mount in the background says on its standard output when the directory shows it.
const READY: &str = "ready";

#[derive(clap::Args)]
pub(super) struct Args {
    /// The image, made by `wharf fs make`, which nobody else has open; or the socket of `wharf serve drive`.
    image: PathBuf,
    /// The directory to mount it on.
    directory: PathBuf,
    /// Lets other users use it too, each with its own rights (where /etc/fuse.conf allows that).
    #[arg(long)]
    allow_other: bool,
    /// Changes nothing but what bringing it up to date changes.
    #[arg(long)]
    read_only: bool,
    /// Memory in which it keeps pages of what another process serves, until others change them: `64MiB`, or `0` for none. With `omni`, or
    /// `omni:64MiB`, it uses the drive's own cache too. Of an image that it has open itself, the system keeps pages.
    #[arg(long, value_name = "SIZE|omni[:SIZE]", default_value = "64MiB", value_parser = keeping::said)]
    cache: Keeping,
    #[command(flatten)]
    modes: Modes,
    /// Writes what the file system is asked to a new file, as a trace of operations on files that `wharf compare` replays.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Returns when it is mounted, and serves it in the background until it is unmounted.
    #[arg(long)]
    background: bool,
    /// Serves it for another process, which is told when it is mounted.
    #[arg(long, hide = true, conflicts_with = "background")]
    told: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let keeping = args.modes.of(args.cache)?;
    if !args.directory.is_dir() {
        return Err(input(format!(
            "{}: is no directory: make it first",
            args.directory.display()
        )));
    }
    if !Path::new("/dev/fuse").exists() {
        return Err(input(
            "/dev/fuse is not there: the system's module `fuse` is needed",
        ));
    }
    match args.background {
        true => in_background(args),
        false => serve(args, keeping),
    }
}

/// What is mounted, unless it is recorded.
type Served = FileDrive;

/// What the thread of the file system ended with, which the system's errors cannot tell.
type Failed = Arc<Mutex<Option<Failure>>>;

fn serve(args: &Args, keeping: Keeping) -> Result<(), Failure> {
    let options = MountOptions {
        source: args.image.display().to_string(),
        allows_other: args.allow_other,
        is_read_only: args.read_only,
    };
    // Before any thread starts: a signal that comes early is not lost.
    let signals = Signals::new([SIGTERM, SIGINT]).map_err(input)?;
    let failed = Failed::default();
    let (image, tell, record) = (args.image.clone(), failed.clone(), args.record.clone());
    let opened = move |image: &Path| match files::is_socket(image) {
        true => keeping::attach(keeping, image),
        false => files::open(image),
    };
    let open = move || match opened(&image) {
        Ok(drive) => {
            let recorded = recorded(drive, record.as_deref());
            recorded.map_err(|failure| told(&tell, failure))
        }
        Err(error) => Err(told(&tell, fs::failure(&image, &error))),
    };
    let (image, tell, record) = (args.image.clone(), failed.clone(), args.record.clone());
    let served = mount(
        &args.directory,
        &options,
        open,
        || mounted(args, signals),
        move |recorded| {
            let (drive, ended) = recorded.end();
            drive
                .end()
                .map_err(|error| told(&tell, fs::failure(&image, &error)))?;
            match (ended, record) {
                (Ok(summary), Some(file)) => print(&format!(
                    "recorded to {}: {} operations; left out, as traces have no word for them: {}",
                    file.display(),
                    summary.operations,
                    summary.left_out
                )),
                (Err(error), Some(file)) => {
                    return Err(told(
                        &tell,
                        Failure::Run(format!("{}: {error}", file.display())),
                    ));
                }
                (_, None) => {}
            }
            Ok(())
        },
    );
    served.map_err(|error| {
        let line = format!("{}: {error}", args.directory.display());
        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.take().unwrap_or(Failure::Run(line))
    })
}

/// The drive, recorded if that is wanted.
fn recorded(drive: Served, record: Option<&Path>) -> Result<Recorded<Served>, Failure> {
    let Some(path) = record else {
        return Ok(Recorded::nothing(drive));
    };
    let failed = |error: io::Error| input(format!("{}: {error}", path.display()));
    let out = std::fs::File::create_new(path).map_err(failed)?;
    let caller = drive.own_caller();
    let recorded = Recorded::new(drive, out, files::now_ns(), asking, &caller);
    block_on(recorded).map_err(failed)
}

/// Keeps what is to be told, and gives what stands for it.
fn told(failed: &Failed, failure: Failure) -> io::Error {
    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
    failed.get_or_insert(failure);
    io::Error::other("the file system failed")
}

/// It is mounted: says so, and unmounts it when a signal asks for that.
#[allow(clippy::disallowed_methods)] // a thread that waits for signals
fn mounted(args: &Args, mut signals: Signals) {
    match args.told {
        true => {
            print(READY);
            be_silent();
        }
        false => {
            let (image, directory) = (args.image.display(), args.directory.display());
            let helper = match rustix::process::geteuid().is_root() {
                true => "umount",
                false => "fusermount3 -u",
            };
            print(&format!(
                "{image} is at {directory}: unmount it with `{helper} {directory}`, or press Ctrl-C"
            ));
        }
    }
    let directory = args.directory.clone();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if let Err(error) = unmount(&directory) {
                let _ = writeln!(
                    io::stderr(),
                    "wharf: {}: {error}: end what uses it, and try again",
                    directory.display()
                );
            }
        }
    });
}

/// Nobody listens to a process in the background: what it says from now on goes nowhere.
fn be_silent() {
    if let Ok(nowhere) = std::fs::File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nowhere);
        let _ = rustix::stdio::dup2_stderr(&nowhere);
    }
}

/// Starts this program again, and waits until it has mounted the image or has failed.
fn in_background(args: &Args) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(input)?;
    let mut command = Command::new(program);
    command
        .args(["mount", "--told"])
        .args(args.allow_other.then_some("--allow-other"))
        .args(args.read_only.then_some("--read-only"))
        .args(["--cache", &args.cache.to_string()])
        .args(args.modes.words())
        .args(
            args.record
                .iter()
                .flat_map(|file| [Path::new("--record"), file]),
        )
        .arg("--")
        .args([&args.image, &args.directory])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A signal to the terminal's processes is not for it.
        .process_group(0);
    let mut child = command.spawn().map_err(input)?;
    let (mut said, mut line) = (String::new(), String::new());
    let mut stdout = child.stdout.take().expect("it is a pipe");
    let _ = stdout.read_to_string(&mut said);
    if said.trim() == READY {
        return Ok(());
    }
    let mut stderr = child.stderr.take().expect("it is a pipe");
    let _ = stderr.read_to_string(&mut line);
    let line = line.trim().trim_start_matches("wharf: ").to_string();
    let status = child.wait().map_err(input)?;
    Err(match status.code() {
        Some(2) => Failure::Input(line),
        _ => Failure::Run(line),
    })
}
