//! `wharf array create`, `describe`, `check`, `rebuild`.

use std::fs::File;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wharf_lab::config::parse_bytes;
use wharf_storage::array::{
    self, Array, ArrayError, CreateOptions, Description, Level, MemberState, Shape, Standing,
};
use wharf_storage::{FileOptions, Target};

use super::{Failure, input, print, random, room};

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Makes an array of files or block devices. What they hold is lost, so it refuses members that hold anything.
    Create(CreateArgs),
    /// Says what an array is and how its members stand, from their superblocks. Changes nothing.
    Describe {
        /// The members that are there, in any order.
        #[arg(required = true)]
        members: Vec<PathBuf>,
    },
    /// Compares mirrors, or parity with data, everywhere. Exit code 1 if they do not agree in the end.
    Check {
        /// Makes them agree: parity follows data, the second mirror the first.
        #[arg(long)]
        repair: bool,
        /// All members, in any order.
        #[arg(required = true)]
        members: Vec<PathBuf>,
    },
    /// Fills a new member in the place of one that is missing, stale or failed; goes on with one that is partly filled.
    Rebuild(RebuildArgs),
}

#[derive(clap::Args)]
pub(super) struct CreateArgs {
    /// 0 (striped), 5 (striped, with parity), or 10 (striped over pairs of mirrors).
    #[arg(long)]
    level: u32,
    /// How much lies on one member before the next one follows.
    #[arg(long, default_value = "512KiB")]
    chunk: String,
    /// Journal of RAID-5 on each member: the larger, the rarer everything is flushed.
    #[arg(long, default_value = "64MiB")]
    journal: String,
    /// Makes members that do not exist, as files of this size.
    #[arg(long)]
    size: Option<String>,
    /// Overwrites what the members hold.
    #[arg(long)]
    force: bool,
    /// Files or block devices, in the order in which they are members.
    #[arg(required = true)]
    members: Vec<PathBuf>,
}

#[derive(clap::Args)]
pub(super) struct RebuildArgs {
    /// The new member, a file or block device; a file that does not exist is made. Left out, a rebuild that was
    /// begun goes on.
    #[arg(long, value_name = "NEW")]
    onto: Option<PathBuf>,
    /// Which member it will be, where more than one is out.
    #[arg(long, value_name = "NUMBER")]
    member: Option<u32>,
    /// Overwrites what the new member holds.
    #[arg(long)]
    force: bool,
    /// The members that are there, in any order.
    #[arg(required = true)]
    members: Vec<PathBuf>,
}

/// Runs the command.
pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Create(args) => create(args),
        Command::Describe { members } => {
            let targets = open_all(members, true)?;
            let told = array::describe(&targets).map_err(failure)?;
            print(&text_of(&told));
            Ok(())
        }
        Command::Check { repair, members } => check(members, *repair),
        Command::Rebuild(args) => rebuild(args),
    }
}

/// Whose fault an error is: an I/O that failed is the run's, all else the input's.
fn failure(error: ArrayError) -> Failure {
    match error {
        ArrayError::Io(_) | ArrayError::Storage(wharf_storage::StorageError::Io { .. }) => {
            Failure::Run(error.to_string())
        }
        other => input(other),
    }
}

fn open_all(paths: &[PathBuf], read_only: bool) -> Result<Vec<Arc<dyn Target>>, Failure> {
    let options = FileOptions {
        read_only,
        exclusive: !read_only,
        ..FileOptions::default()
    };
    let open = |path: &PathBuf| wharf_storage::open(path, &options).map_err(input);
    paths.iter().map(open).collect()
}

/// Files that are removed again unless the command succeeds, each with the device and number of its inode.
struct Made(Vec<(PathBuf, (u64, u64))>);

impl Made {
    /// Makes a file. Whatever has the name already stays, also a link to nothing.
    fn make(&mut self, path: &Path, size_bytes: u64) -> Result<(), Failure> {
        let shown = path.display();
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => input(format!(
                "{shown}: is a link to what does not exist: give the file itself"
            )),
            _ => input(format!("{shown}: cannot make it: {error}")),
        };
        let file = File::create_new(path).map_err(failed)?;
        let inode = file.metadata().map_err(failed)?;
        self.0
            .push((path.to_path_buf(), (inode.dev(), inode.ino())));
        file.set_len(size_bytes).map_err(failed)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for (path, made) in &self.0 {
            let now = std::fs::symlink_metadata(path);
            if now.is_ok_and(|now| (now.dev(), now.ino()) == *made) {
                // What cannot be removed is as it is.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Opens a member for writing; makes it if it does not exist and there is a size.
fn open_or_make(
    path: &Path,
    size_bytes: Option<u64>,
    force: bool,
    made: &mut Made,
) -> Result<Arc<dyn Target>, Failure> {
    let exists = path.exists();
    match size_bytes {
        _ if exists => {}
        Some(size_bytes) => made.make(path, size_bytes)?,
        None => {
            return Err(input(format!(
                "{}: does not exist: give --size to make it",
                path.display()
            )));
        }
    }
    let options = FileOptions {
        exclusive: true,
        ..FileOptions::default()
    };
    let target = wharf_storage::open(path, &options).map_err(input)?;
    if exists && !force {
        refuse_data(path, &*target)?;
    }
    Ok(target)
}

/// An error if a target holds anything.
fn refuse_data(path: &Path, target: &dyn Target) -> Result<(), Failure> {
    let shown = path.display();
    if let Ok(superblock) = array::superblock_of(target) {
        let uuid = hex(&superblock.uuid);
        return Err(input(format!(
            "{shown}: is member {} of array {uuid}: --force makes it forget that",
            superblock.member
        )));
    }
    if array::holds_data(target).map_err(failure)? {
        return Err(input(format!("{shown}: holds data: --force overwrites it")));
    }
    Ok(())
}

fn create(args: &CreateArgs) -> Result<(), Failure> {
    let level = Level::from_number(args.level)
        .ok_or_else(|| input(format!("--level {}: it is 0, 5 or 10", args.level)))?;
    let bytes = |name: &str, text: &str| {
        parse_bytes(text).map_err(|error| input(format!("{name}: {error}")))
    };
    let chunk_bytes = bytes("--chunk", &args.chunk)?;
    let journal_bytes = bytes("--journal", &args.journal)?;
    let size_bytes = args
        .size
        .as_deref()
        .map(|s| bytes("--size", s))
        .transpose()?;
    let mut options = CreateOptions::new(level, uuid()?);
    options.chunk_bytes = chunk_bytes;
    options.journal_slots = Shape::journal_slots(chunk_bytes, journal_bytes);
    let sizes = args.members.iter().zip(size_bytes.into_iter().cycle());
    room::check_sparse(
        sizes.map(|(path, bytes)| (path.as_path(), bytes)),
        "give a smaller --size",
    )?;
    let mut made = Made(Vec::new());
    let mut targets = Vec::new();
    for path in &args.members {
        targets.push(open_or_make(path, size_bytes, args.force, &mut made)?);
    }
    options.zeroed = made.0.len() == targets.len();
    let mut progress = Progress::new("made redundant");
    let superblock = array::create(&targets, &options, &mut |done, all| {
        progress.show(done, all)
    });
    let superblock = superblock.map_err(failure)?;
    made.0.clear();
    print(&summary(&superblock.shape, &superblock.uuid));
    Ok(())
}

/// 16 bytes that nobody else has.
fn uuid() -> Result<[u8; 16], Failure> {
    random()
}

fn check(members: &[PathBuf], repair: bool) -> Result<(), Failure> {
    let targets = open_all(members, false)?;
    let told = array::describe(&targets).map_err(failure)?;
    if told.superblock.shape.level == Level::Raid0 {
        return Err(input(ArrayError::NoRedundancy));
    }
    // Before it is opened, which writes to it. Opening has a better word for those that are missing or copies.
    let states = &told.superblock.states;
    if let Some(member) = states.iter().position(|s| *s != MemberState::Active) {
        return Err(input(ArrayError::Degraded(member as u32)));
    }
    let array = Array::open(&targets, false).map_err(failure)?;
    let mut progress = Progress::new("checked");
    let report = array.check(repair, &mut |done, all| progress.show(done, all));
    let report = report.map_err(failure)?;
    array.close().map_err(failure)?;
    print(&format!(
        "{} windows of {} KiB checked: {} disagree, {} repaired",
        report.windows,
        told.superblock.shape.window_bytes() >> 10,
        report.mismatches,
        report.repaired
    ));
    if report.mismatches > report.repaired {
        return Err(Failure::Run(
            "redundancy does not agree: --repair makes it".into(),
        ));
    }
    Ok(())
}

fn rebuild(args: &RebuildArgs) -> Result<(), Failure> {
    let targets = open_all(&args.members, false)?;
    let told = array::describe(&targets).map_err(failure)?;
    let shape = told.superblock.shape;
    if shape.level == Level::Raid0 {
        return Err(input(ArrayError::NoRedundancy));
    }
    let mut made = Made(Vec::new());
    let new = match &args.onto {
        Some(path) => {
            let place = place(&told, args.member)?;
            let size_bytes = Some(shape.member_bytes());
            room::check_sparse(
                [(path.as_path(), shape.member_bytes())],
                "give another place",
            )?;
            let target = open_or_make(path, size_bytes, args.force, &mut made)?;
            Array::check_target(&*target, &shape).map_err(failure)?;
            Some((place, target))
        }
        None if told.members.iter().any(|m| m.0 == Standing::Rebuilding) => None,
        None => return Err(input("no rebuild was begun: give --onto NEW to begin one")),
    };
    // Who begins a rebuild has said who is out; a rebuild that goes on leaves nobody else out.
    let array = Array::open(&targets, new.is_some()).map_err(failure)?;
    if let Some((place, target)) = new {
        array.replace(place, target).map_err(failure)?;
    }
    // From here on it is a member, and the rebuild can go on another time.
    made.0.clear();
    let Some(rebuild) = array.rebuild().map_err(failure)? else {
        return Err(input("the member to rebuild is not there"));
    };
    let member = rebuild.member();
    let mut progress = Progress::new("rebuilt");
    let result = rebuild.finish(&mut |done, all| progress.show(done, all));
    result.map_err(failure)?;
    let complete = array.states().iter().all(|s| *s == MemberState::Active);
    array.close().map_err(failure)?;
    let rest = if complete {
        "the array is complete"
    } else {
        "others are still out"
    };
    print(&format!("member {member} is rebuilt: {rest}"));
    Ok(())
}

/// The member to be replaced.
fn place(told: &Description, asked: Option<u32>) -> Result<u32, Failure> {
    let out = |s: Standing| !matches!(s, Standing::Active | Standing::Rebuilding);
    let standings = (0..).zip(&told.members);
    let outs: Vec<u32> = standings
        .filter(|(_, m)| out(m.0))
        .map(|(i, _)| i)
        .collect();
    match (asked, outs.as_slice()) {
        (Some(member), outs) if outs.contains(&member) => Ok(member),
        (Some(member), _) => Err(input(format!("--member {member}: is not out"))),
        (None, [member]) => Ok(*member),
        (None, []) => Err(input("no member is out: there is nothing to rebuild")),
        (None, outs) => Err(input(format!(
            "members {outs:?} are out: say which with --member"
        ))),
    }
}

fn summary(shape: &Shape, uuid: &[u8; 16]) -> String {
    format!(
        "array {}: RAID-{} of {}, {:.1} MiB, chunk {} KiB",
        hex(uuid),
        shape.level.number(),
        shape.members,
        shape.size_bytes() as f64 / (1u64 << 20) as f64,
        shape.chunk_bytes >> 10
    )
}

fn text_of(told: &Description) -> String {
    let superblock = &told.superblock;
    let state = if superblock.clean {
        "closed cleanly"
    } else {
        "in use, or not closed"
    };
    let mut text = summary(&superblock.shape, &superblock.uuid);
    text += &format!("; {state}, event {}", superblock.event);
    for (member, (standing, name)) in told.members.iter().enumerate() {
        let standing = match standing {
            Standing::Active => "active",
            Standing::Rebuilding => "rebuilding",
            Standing::Stale => "stale",
            Standing::Parted => "parted",
            Standing::Failed => "failed",
            Standing::Missing => "missing",
        };
        let name = name.as_deref().unwrap_or("-");
        text += &format!("\n  member {member:<2} {standing:10} {name}");
    }
    text
}

fn hex(uuid: &[u8; 16]) -> String {
    uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Tenths of a long work, for a person who watches.
struct Progress {
    what: &'static str,
    told: u64,
    watched: bool,
}

impl Progress {
    fn new(what: &'static str) -> Progress {
        let watched = std::io::stderr().is_terminal();
        Progress {
            what,
            told: 0,
            watched,
        }
    }

    fn show(&mut self, done: u64, all: u64) {
        let tenths = done * 10 / all.max(1);
        if self.watched && tenths > self.told {
            self.told = tenths;
            eprintln!("{}0 % {}", tenths, self.what);
        }
    }
}
