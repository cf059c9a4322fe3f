//! Whether this machine has room for what is asked, in memory and on a file system: looked at before anything begins,
//! as a machine that has run out of either takes other programs with it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::values::count;
use super::{Failure, input};

/// Of the memory that is available, so much is left to others: an eighth.
const LEFT_SHARE: u64 = 8;

/// Memory that can be had, and who says so.
#[derive(Debug, PartialEq, Eq)]
struct Available {
    bytes: u64,
    by: &'static str,
}

/// An error if `what` needs more memory than is available. `advice` says what to give instead.
pub(super) fn check_memory(what: &str, needed: u64, advice: &str) -> Result<(), Failure> {
    let refuse = |bytes: u64, by: &str| {
        let (needed, bytes) = (size(needed), size(bytes));
        Err(input(format!(
            "{what} needs {needed} of memory, and {bytes} can be had ({by}): {advice}"
        )))
    };
    if let Some(available) = available()
        && needed > available.bytes
    {
        return refuse(available.bytes, available.by);
    }
    // Limits of the address space, and of what the system promises, are of reservations: nothing is touched here.
    let reserved = usize::try_from(needed).is_ok_and(|bytes| {
        let mut memory: Vec<u8> = Vec::new();
        memory.try_reserve_exact(bytes).is_ok()
    });
    match reserved {
        true => Ok(()),
        false => refuse(address_space_left(), "limit of the address space"),
    }
}

/// Memory that what grows by a length that nobody knows yet may take: what is available now. What is reserved and not
/// yet used is no more than half of that in the address space.
pub(super) fn room_bytes() -> u64 {
    let memory = available().map_or(u64::MAX, |available| available.bytes);
    memory.min(address_space_left() / 2)
}

/// How many runs are made side by side.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Jobs {
    /// Most runs that are made at a time, in virtual time. If left out, as many as there are processors and as fit into
    /// memory. The figures are the same.
    #[arg(long, value_name = "N", value_parser = count::<u32>(1..=1024))]
    jobs: Option<u32>,
}

impl Jobs {
    /// What was said, or what fits if each takes `run_bytes`.
    pub(super) fn count(&self, run_bytes: impl FnOnce() -> u64) -> usize {
        self.jobs
            .map_or_else(|| jobs(run_bytes()), |jobs| jobs as usize)
    }

    /// As if nothing was said: the figures do not depend on it.
    pub(super) fn forget(&mut self) {
        self.jobs = None;
    }
}

/// Runs that are made side by side when nobody says how many: as there are processors, but no more than fit into memory if
/// each takes `run_bytes`.
pub(super) fn jobs(run_bytes: u64) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = available().map_or(u64::MAX, |available| available.bytes);
    // What a thread reserves for itself and its allocations is not in the bytes of a run.
    let addresses = address_space_left() / 3 * 2;
    let fit = memory.min(addresses) / run_bytes.max(1);
    processors.min(fit.try_into().unwrap_or(usize::MAX)).max(1)
}

/// An error with `advice` if the file system of `path`, a file that is there or is to be made, has no room for `bytes`.
pub(super) fn check_disk(path: &Path, bytes: u64, advice: &str) -> Result<(), Failure> {
    let Some(space) = Space::of(path) else {
        return Ok(());
    };
    let taken = std::fs::metadata(path).map_or(0, |file| file.blocks() * 512);
    match bytes > space.free_bytes.saturating_add(taken) {
        true => Err(input(format!(
            "{}: {} do not fit, the file system has {} free: {advice}",
            path.display(),
            size(bytes),
            size(space.free_bytes)
        ))),
        false => Ok(()),
    }
}

/// Looks at the room for sparse files that are to be made, with their sizes; those that are there already are left out. They take room as they
/// are written, so it is an error, with `advice`, only if those on one file system are larger than all of it: they could never be filled. If they
/// are larger than what is free now, standard error says so.
pub(super) fn check_sparse<'a>(
    files: impl IntoIterator<Item = (&'a Path, u64)>,
    advice: &str,
) -> Result<(), Failure> {
    let mut systems: Vec<(Space, u64, &Path)> = Vec::new();
    for (path, bytes) in files {
        let Some(space) = Space::of(path).filter(|_| !path.exists()) else {
            continue;
        };
        match systems
            .iter_mut()
            .find(|(known, ..)| known.device == space.device)
        {
            Some((_, sum, _)) => *sum = sum.saturating_add(bytes),
            None => systems.push((space, bytes, path)),
        }
    }
    for (space, bytes, path) in &systems {
        let (shown, free) = (path.display(), size(space.free_bytes));
        if *bytes > space.all_bytes {
            let (bytes, all) = (size(*bytes), size(space.all_bytes));
            return Err(input(format!(
                "{shown}: {bytes} could never be filled, the file system has {all}, of which {free} are free: {advice}"
            )));
        }
        if *bytes > space.free_bytes {
            let bytes = size(*bytes);
            eprintln!(
                "{shown}: {bytes} are sparse, and the file system has {free} free: what is written may not fit"
            );
        }
    }
    Ok(())
}

/// Room of the file system that a file is in, or is to be made in.
struct Space {
    device: u64,
    all_bytes: u64,
    free_bytes: u64,
}

impl Space {
    /// None where nobody tells: a folder that is not there is told when the file is made.
    fn of(path: &Path) -> Option<Space> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let device = std::fs::metadata(folder).ok()?.dev();
        let system = rustix::fs::statvfs(folder).ok()?;
        // Some that are made of others say nothing of themselves.
        (system.f_blocks > 0).then(|| Space {
            device,
            all_bytes: system.f_blocks.saturating_mul(system.f_frsize),
            free_bytes: system.f_bavail.saturating_mul(system.f_frsize),
        })
    }
}

/// The least of what the machine and the control groups of this process have; none if nobody tells.
fn available() -> Option<Available> {
    let machine = read("/proc/meminfo").and_then(|text| kib(&text, "MemAvailable:"));
    let machine = machine.map(|bytes| Available {
        bytes: bytes - bytes / LEFT_SHARE,
        by: "available memory of the machine, less an eighth",
    });
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let groups = groups.lines().filter_map(group_available);
    let groups = groups.map(|bytes| Available {
        bytes,
        by: "limit of the control group",
    });
    machine.into_iter().chain(groups).min_by_key(|a| a.bytes)
}

/// The bytes of a line of a file in `/proc`, which has them in KiB.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}

/// What the group of a line of `/proc/self/cgroup`, or one above it, has left. Pages of files that are in use by nobody
/// can be had too.
fn group_available(line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let (tree, limit, used, files) = match controllers {
        "" => (
            "/sys/fs/cgroup",
            "memory.max",
            "memory.current",
            "inactive_file",
        ),
        list if list.split(',').any(|one| one == "memory") => (
            "/sys/fs/cgroup/memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
        _ => return None,
    };
    let number = |folder: &Path, name: &str| -> Option<u64> {
        std::fs::read_to_string(folder.join(name))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let left = |folder: &Path| -> Option<u64> {
        let used = number(folder, used)?;
        let told = std::fs::read_to_string(folder.join("memory.stat")).ok()?;
        let told = told.lines().find_map(|line| line.strip_prefix(files));
        let files = told
            .and_then(|rest| rest.trim().parse::<u64>().ok())
            .unwrap_or(0);
        let free = number(folder, limit)?.saturating_sub(used.saturating_sub(files));
        Some(free)
    };
    let group = Path::new(tree).join(path.trim_start_matches('/'));
    let up = group
        .ancestors()
        .take_while(|folder| folder.starts_with(tree));
    up.filter_map(left).min()
}

/// What is left of the limit of the address space.
fn address_space_left() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
    let status = read("/proc/self/status").unwrap_or_default();
    let used = kib(&status, "VmSize:").unwrap_or(0);
    limit.unwrap_or(u64::MAX).saturating_sub(used)
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Bytes in the unit that they are read best in.
pub(super) fn size(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB")];
    let unit = units.iter().find(|(unit, _)| bytes >= *unit);
    let (unit, name) = unit.unwrap_or(&units[2]);
    format!("{:.1} {name}", bytes as f64 / *unit as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_read() {
        let text = "MemTotal:       24000000 kB\nMemAvailable:    2048 kB\nBuffers: 1 kB\n";
        assert_eq!(kib(text, "MemAvailable:"), Some(2 << 20));
        assert_eq!(kib("MemTotal: 1 kB", "MemAvailable:"), None);
        assert_eq!(group_available("7:blkio:/"), None);
        assert_eq!(group_available("nonsense"), None);
    }

    #[test]
    fn as_many_runs_are_made_at_a_time_as_fit_into_memory() {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        assert_eq!(jobs(0), processors);
        assert_eq!(jobs(4096), processors);
        let most = available().expect("Linux tells").bytes;
        assert_eq!(jobs(most - most / 4), 1);
        assert_eq!(jobs(u64::MAX), 1, "one is made whatever it takes");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_figures() {
        assert!(check_memory("a test", 1 << 20, "give less").is_ok());
        let Err(Failure::Input(line)) = check_memory("a test", 1 << 60, "give less") else {
            panic!("it is more than there is");
        };
        assert!(
            line.starts_with("a test needs 1048576.0 TiB of memory, and "),
            "{line}"
        );
        assert!(line.ends_with("): give less"), "{line}");
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("f");
        assert!(check_disk(&path, 4096, "give less").is_ok());
        assert!(matches!(
            check_disk(&path, 1 << 60, "give less"),
            Err(Failure::Input(_))
        ));
        assert!(!path.exists());
    }

    #[test]
    fn sparse_files_are_refused_together_if_they_could_never_be_filled() {
        let folder = tempfile::tempdir().expect("a directory");
        let (one, other) = (folder.path().join("1"), folder.path().join("2"));
        let all = Space::of(&one).expect("it is told").all_bytes;
        let check = |bytes: u64| check_sparse([(&*one, bytes), (&*other, bytes)], "give less");
        assert!(check(4096).is_ok());
        let Err(Failure::Input(line)) = check(all / 2 + 4096) else {
            panic!("two of them are larger than all of it");
        };
        let named = format!("{}: ", one.display());
        assert!(
            line.starts_with(&named) && line.ends_with(" free: give less"),
            "{line}"
        );
        assert!(!one.exists() && !other.exists());
        // A file that is there has the room that it has.
        std::fs::write(&one, "x").expect("a file");
        assert!(check(all / 2 + 4096).is_ok());
    }
}
