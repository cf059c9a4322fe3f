//! The machine's ext4, on a loop device over memory: what the model of a file system on the host is
//! put beside.
//!
//! All is gone when the directory is closed, and also if the program is killed: the image has no
//! name, and the file system none either, once they are in use.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{AtFlags, Mode, OFlags, fdatasync, fsync, openat, statat, unlinkat};
use wharf_runtime::clock::Clock;

use super::file_steps::{APPENDED, FILE_BYTES, NAMES, PAGE, Steps, name};

/// Where memory can be had as files.
const MEMORY: &str = "/dev/shm";

/// Bytes of the file system.
const IMAGE_BYTES: u64 = 512 << 20;

/// A directory in a new ext4.
pub(super) struct RealExt4 {
    root: File,
}

/// A folder that goes, with what is in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What is mounted goes when nobody has it open any more; both may have gone already.
        let _ = run("umount", &["-l", &self.mount()]);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn mount(&self) -> String {
        self.path("mount")
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let done = Command::new(program).args(arguments).output();
    let done = done.map_err(|error| format!("{program}: {error}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{program}: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        )),
    }
}

impl RealExt4 {
    /// Makes it. An error says why this machine cannot.
    pub(super) fn new() -> Result<RealExt4, String> {
        let folder = format!("wharf-ext4-{}", std::process::id());
        let folder = Path::new(MEMORY).join(folder);
        let said = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir(&folder).map_err(said)?;
        let folder = Folder(folder.clone());
        let (image, mount) = (folder.path("image"), folder.mount());
        let made = || -> std::io::Result<()> {
            std::fs::create_dir(&mount)?;
            File::create_new(&image)?.set_len(IMAGE_BYTES)
        };
        made().map_err(|error| format!("{image}: {error}"))?;
        run("mkfs.ext4", &["-q", "-F", &image])?;
        run("mount", &["-o", "loop", &image, &mount])?;
        let root = File::open(&mount).map_err(|error| format!("{mount}: {error}"))?;
        Ok(RealExt4 { root })
    }

    fn open(&self, name: &str, flags: OFlags) -> std::io::Result<File> {
        let mode = Mode::from_raw_mode(0o644);
        Ok(openat(&self.root, name, flags | OFlags::CLOEXEC, mode)?.into())
    }

    /// What each step takes, in nanoseconds, in the order of [`STEPS`](super::file_steps::STEPS).
    pub(super) fn time(&self, steps: &Steps) -> std::io::Result<[f64; 6]> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let (data, log) = (self.open("data", flags)?, self.open("log", flags)?);
        let mut page = vec![0x5a; PAGE as usize];
        for at in (0..FILE_BYTES).step_by(PAGE as usize) {
            data.write_all_at(&page, at)?;
        }
        data.sync_all()?;
        let read = each(&steps.reads, |at| data.read_exact_at(&mut page, *at))?;
        let write = each(&steps.writes, |at| data.write_all_at(&page, *at))?;
        let names: Vec<String> = (0..NAMES).map(name).collect();
        let new = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let create = each(&names, |name| self.open(&name[1..], new).map(drop))?;
        let stat = each(&names, |name| {
            statat(&self.root, &name[1..], AtFlags::empty())?;
            Ok(())
        })?;
        let unlink = each(&names, |name| {
            Ok(unlinkat(&self.root, &name[1..], AtFlags::empty())?)
        })?;
        // All that is older is durable before: it is no part of what is timed.
        fdatasync(&data)?;
        fsync(&log)?;
        let ends: Vec<u64> = (0..APPENDED).map(|index| index * PAGE).collect();
        let append = each(&ends, |at| {
            log.write_all_at(&page, *at)?;
            Ok(fsync(&log)?)
        })?;
        Ok([read, write, create, stat, unlink, append])
    }
}

/// The mean time of `step` for each of `all`.
fn each<T>(all: &[T], mut step: impl FnMut(&T) -> std::io::Result<()>) -> std::io::Result<f64> {
    let clock = Clock::start();
    for one in all {
        step(one)?;
    }
    Ok(clock.now_ns() as f64 / all.len() as f64)
}
