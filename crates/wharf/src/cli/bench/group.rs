//! A memory limit for a row that uses the kernel's page cache: a control group, of version 2 or 1, for a process.
//!
//! The process enters the group first, so that the pages that it brings in count there; the limit is set when it
//! has all that it needs for itself, which comes on top.

use std::path::{Path, PathBuf};

/// What a process may grow by while it runs, in bytes: histograms, page tables of its stacks.
const GROWTH_BYTES: u64 = 2 << 20;

const NAME: &str = "wharf-bench-";

/// A kind of control groups: where they are, what it calls limit and use.
struct Kind {
    name: &'static str,
    tree: &'static str,
    limit: &'static str,
    used: &'static str,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "cgroup v2 (memory.max)",
        tree: "/sys/fs/cgroup",
        limit: "memory.max",
        used: "memory.current",
    },
    Kind {
        name: "cgroup v1 (memory.limit_in_bytes)",
        tree: "/sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        used: "memory.usage_in_bytes",
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

    /// Limits the group of that folder to `bytes` besides what its process uses now; gives the limit.
    pub(super) fn limit(path: &Path, bytes: u64) -> Result<u64, String> {
        let kind = KINDS.iter().find(|kind| path.join(kind.limit).exists());
        let kind = kind.ok_or_else(|| format!("{}: has no limit", path.display()))?;
        let used = path.join(kind.used);
        let text = std::fs::read_to_string(&used);
        let text = text.map_err(|error| format!("{}: {error}", used.display()))?;
        let used = text.trim().parse::<u64>().map_err(|e| e.to_string())?;
        let limit = used + GROWTH_BYTES + bytes;
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
