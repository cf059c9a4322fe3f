//! A memory limit for a row that uses the kernel's page cache: a control group, of version 2 or 1, for a process.
//!
//! The process enters the group first, so that the pages that it brings in count there; the limit is set when it
//! has all that it needs for itself, which comes on top, with room for what it and the kernel will need beside the
//! file's pages ([`room_bytes`]). Where that was not enough the kernel kills the process; the bench then runs the row
//! again with twice the room.

use std::path::{Path, PathBuf};

use super::job::Job;

/// What a process may grow by while it runs, in bytes: histograms, page tables of its stacks.
const GROWTH_BYTES: u64 = 2 << 20;
/// For each CPU: pages that the kernel has charged to the group ahead of need (64), and as many in its lists of pages
/// that are on their way to the LRU lists, where reclaim does not see them.
const CPU_BYTES: u64 = 2 * 64 * 4096;
/// For each thread: what one request holds at a time, which cannot be reclaimed meanwhile: a window of read-ahead.
const THREAD_BYTES: u64 = 128 << 10;
/// The most room there is.
pub(super) const ROOM_BYTES_MAX: u64 = 1 << 30;

/// Room that a row needs beside the file's pages: page tables of a mapping are not reclaimed either.
pub(super) fn room_bytes(job: &Job) -> u64 {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
    let requests = u64::from(job.threads) * job.block_bytes;
    let page_tables = job.file_bytes / 512;
    let threads = u64::from(job.threads) * THREAD_BYTES;
    GROWTH_BYTES + cpus * CPU_BYTES + threads + requests + page_tables
}

const NAME: &str = "wharf-bench-";

/// A kind of control groups: where they are, what it calls limit and use.
struct Kind {
    name: &'static str,
    tree: &'static str,
    limit: &'static str,
    used: &'static str,
    /// The file with a line of `oom_kill` and how often it has killed.
    kills: &'static str,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "cgroup v2 (memory.max)",
        tree: "/sys/fs/cgroup",
        limit: "memory.max",
        used: "memory.current",
        kills: "memory.events",
    },
    Kind {
        name: "cgroup v1 (memory.limit_in_bytes)",
        tree: "/sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        used: "memory.usage_in_bytes",
        kills: "memory.oom_control",
    },
];

/// A group for one process after another, gone when this is dropped.
pub(super) struct MemoryGroup {
    kind: &'static Kind,
    path: PathBuf,
}

impl MemoryGroup {
    /// Makes a group, or says why there is none.
    pub(super) fn make() -> Result<MemoryGroup, String> {
        let mut reason = String::new();
        for kind in &KINDS {
            let tree = Path::new(kind.tree);
            sweep(tree);
            let path = tree.join(format!("{NAME}{}", std::process::id()));
            if let Err(error) = std::fs::create_dir(&path) {
                reason = format!("{}: {error}", path.display());
                continue;
            }
            let group = MemoryGroup { kind, path };
            if group.path.join(kind.limit).exists() {
                return Ok(group);
            }
            reason = format!("{}: memory is not limited there", kind.tree);
        }
        Err(reason)
    }

    /// What limits memory, for people.
    pub(super) fn name(&self) -> &'static str {
        self.kind.name
    }

    /// Its folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the calling process in the group of that folder.
    pub(super) fn enter(path: &Path) -> Result<(), String> {
        write(&path.join("cgroup.procs"), &std::process::id().to_string())
    }

    /// How often the kernel has killed a process in it for want of memory.
    pub(super) fn kills(&self) -> u64 {
        let text = std::fs::read_to_string(self.path.join(self.kind.kills)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Limits the group of that folder to `bytes` besides what its process uses now; gives the limit.
    pub(super) fn limit(path: &Path, bytes: u64) -> Result<u64, String> {
        let kind = KINDS.iter().find(|kind| path.join(kind.limit).exists());
        let kind = kind.ok_or_else(|| format!("{}: has no limit", path.display()))?;
        let used = path.join(kind.used);
        let text = std::fs::read_to_string(&used);
        let text = text.map_err(|error| format!("{}: {error}", used.display()))?;
        let used = text.trim().parse::<u64>().map_err(|e| e.to_string())?;
        let limit = used + bytes;
        write(&path.join(kind.limit), &limit.to_string())?;
        Ok(limit)
    }

    /// Takes the limit off, for the next process to start in.
    pub(super) fn lift(&self) {
        // A group that keeps its limit makes the next process say so.
        let unlimited = if self.kind.limit == "memory.max" {
            "max"
        } else {
            "-1"
        };
        let _ = write(&self.path.join(self.kind.limit), unlimited);
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes groups of benches that were killed.
fn sweep(tree: &Path) {
    for entry in std::fs::read_dir(tree).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(NAME));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Another one may be faster.
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // It goes when its last process has gone, which may take a moment after its end.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
    }
}
