//! A row in a process of its own, so that nothing of one row is left for the next, and a memory limit is its alone.
//!
//! The bench starts its own program with a hidden command, gives it an [`Order`] as a line of JSON, and takes an
//! [`Answer`] from it. Ctrl-C on a terminal reaches both.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::group::MemoryGroup;
use super::job::{Design, Job};
use super::stamp::{Stamps, Versions};
use super::test_file::TestFile;
use super::threads::{Done, Fault, Run};
use super::way::Opened;
use crate::cli::{Failure, print};

/// What the process is to do.
#[derive(Serialize, Deserialize)]
struct Order {
    design: Design,
    job: Job,
    round: u32,
    path: PathBuf,
    /// The file's own number.
    stamps: u32,
    /// Where the versions of the pages are.
    versions: PathBuf,
    /// The control group to be in, and the room that it has beside the file's pages.
    group: Option<(PathBuf, u64)>,
}

/// What it did.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Ran {
    pub(super) done: Done,
    /// Pages touched and found in the cache, where the cache tells.
    pub(super) hits: Option<Touched>,
    /// The limit of the control group.
    pub(super) limit_bytes: Option<u64>,
    /// The most memory that the process had.
    pub(super) peak_bytes: u64,
}

/// Pages that a cache was asked for, as [`PageCacheStatistics`](crate::page_cache::PageCacheStatistics) has them.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Touched {
    pub(super) pages: u64,
    pub(super) hits: u64,
    pub(super) read_ahead_hits: u64,
}

/// How a row's process ended.
pub(super) enum Ended {
    Ran(Ran),
    /// The kernel killed it, as its group had no more memory.
    Killed,
}

#[derive(Serialize, Deserialize)]
enum Answer {
    Ran(Box<Ran>),
    Failed(String),
}

/// Runs a row in a process of its own, in a group with so much room.
pub(super) fn run(
    design: Design,
    job: &Job,
    round: u32,
    test_file: &TestFile,
    group: Option<(&MemoryGroup, u64)>,
) -> Result<Ended, Failure> {
    let kills_before = group.map(|(group, _)| group.kills());
    let failed = |what: String| Failure::Run(format!("row {}: {what}", design.name()));
    let order = Order {
        design,
        job: job.clone(),
        round,
        path: test_file.path.clone(),
        stamps: test_file.stamps.file,
        versions: PathBuf::from(format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            test_file.versions.file.as_raw_fd()
        )),
        group: group.map(|(group, room_bytes)| (group.path().to_path_buf(), room_bytes)),
    };
    let order = serde_json::to_vec(&order).expect("plain data");
    let program = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
    let mut child = Command::new(program)
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| failed(e.to_string()))?;
    // A process that has ended already says why below.
    let _ = child.stdin.take().expect("a pipe").write_all(&order);
    let output = child
        .wait_with_output()
        .map_err(|e| failed(e.to_string()))?;
    match serde_json::from_slice(&output.stdout) {
        Ok(Answer::Ran(ran)) => Ok(Ended::Ran(*ran)),
        Ok(Answer::Failed(what)) => Err(failed(what)),
        Err(_) if group.map(|(group, _)| group.kills()) > kills_before => Ok(Ended::Killed),
        Err(_) => Err(failed(format!(
            "its process ended early: {}",
            output.status
        ))),
    }
}

/// The first argument of a row's process.
pub(in crate::cli) const COMMAND: &str = "bench-row";

/// What a row's process does: carries out the order on standard input.
pub(in crate::cli) fn serve() -> Result<(), Failure> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    let order = read.map_err(crate::cli::input)?;
    let order: Order = match order {
        0 => {
            return Err(crate::cli::input(format!(
                "{COMMAND} is for `wharf bench` alone"
            )));
        }
        _ => serde_json::from_str(&text).map_err(crate::cli::input)?,
    };
    let stop = crate::cli::compare::interrupt_flag()?;
    let answer = match carry_out(&order, &stop) {
        Ok(ran) => Answer::Ran(Box::new(ran)),
        Err(Fault::Data(mismatch)) => {
            Answer::Failed(format!("{}: {mismatch}", order.path.display()))
        }
        Err(Fault::Io(what)) => Answer::Failed(what),
    };
    print(&serde_json::to_string(&answer).expect("plain data"));
    Ok(())
}

fn carry_out(order: &Order, stop: &AtomicBool) -> Result<Ran, Fault> {
    if let Some((group, _)) = &order.group {
        MemoryGroup::enter(group).map_err(Fault::Io)?;
    }
    let versions = File::options().read(true).write(true).open(&order.versions);
    let versions = versions.and_then(Versions::map);
    let versions = versions.map_err(|error| Fault::Io(format!("versions: {error}")))?;
    let run = Run {
        job: &order.job,
        round: order.round,
        depth: match order.design {
            Design::Direct => order.job.depth,
            _ => 1,
        },
        stamps: Stamps { file: order.stamps },
        versions: &versions,
        stop,
    };
    let opened = Opened::open(order.design, &order.path, &order.job).map_err(Fault::Io)?;
    let mut ran = Ran::default();
    let (way, limit_bytes) = (|| opened.way(run.depth), &mut ran.limit_bytes);
    ran.done = run.all(way, || {
        if let Some((group, room_bytes)) = &order.group {
            let bytes = order.job.memory_bytes + room_bytes;
            *limit_bytes = Some(MemoryGroup::limit(group, bytes)?);
        }
        Ok(())
    })?;
    ran.hits = opened.hits();
    ran.peak_bytes = peak_bytes();
    Ok(ran)
}

/// The most memory that this process had in use, without pages of the kernel's cache that it has not mapped.
fn peak_bytes() -> u64 {
    let text = std::fs::read_to_string(Path::new("/proc/self/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
