//! wfs in a plain file, mounted: where other people's suites judge it, without a drive.
//!
//!     cargo run --release -p wharf-fuse --example wfs -- make FILE BYTES
//!     cargo run --release -p wharf-fuse --example wfs -- mount FILE DIRECTORY [--allow-other]
//!     cargo run --release -p wharf-fuse --example wfs -- check FILE

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::FallocateFlags;
use wharf_files::block::{Make, Wfs, check, make};
use wharf_files::pages::{PAGE_BYTES, Pages, Run};
use wharf_files::{Fault, block_on};
use wharf_fuse::{MountOptions, mount};

/// Bytes of pages with metadata that are kept in memory.
const CACHE_BYTES: usize = 64 << 20;

/// Pages that are those of a file.
struct FilePages {
    file: File,
    pages: u64,
}

impl FilePages {
    fn open(path: &Path) -> io::Result<FilePages> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let pages = file.metadata()?.len() / PAGE_BYTES as u64;
        Ok(FilePages { file, pages })
    }

    /// Runs and where each begins in the file and in the buffer; `fault` if one is not there.
    fn each(
        &self,
        runs: &[Run],
        fault: fn(u64) -> Fault,
        mut each: impl FnMut(u64, std::ops::Range<usize>) -> io::Result<()>,
    ) -> Result<(), Fault> {
        let mut at = 0;
        for run in runs {
            let bytes = run.pages as usize * PAGE_BYTES;
            if run.end() > self.pages {
                return Err(fault(run.first.max(self.pages)));
            }
            each(run.first * PAGE_BYTES as u64, at..at + bytes).map_err(|_| fault(run.first))?;
            at += bytes;
        }
        Ok(())
    }
}

impl Pages for FilePages {
    fn pages(&self) -> u64 {
        self.pages
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        let fault = |page| Fault::Read { page };
        self.each(runs, fault, |at, range| {
            self.file.read_exact_at(&mut buffer[range], at)
        })
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        let fault = |page| Fault::Write { page };
        self.each(runs, fault, |at, range| {
            self.file.write_all_at(&bytes[range], at)
        })
    }

    async fn flush(&self) -> Result<(), Fault> {
        self.file.sync_data().map_err(|_| Fault::Flush)
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        let fault = |page| Fault::Write { page };
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.each(runs, fault, |at, range| {
            Ok(rustix::fs::fallocate(
                &self.file,
                punch,
                at,
                range.len() as u64,
            )?)
        })
    }
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

#[allow(clippy::disallowed_methods)] // it is made at a time of the clock on the wall
fn make_file(path: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.set_len(bytes / PAGE_BYTES as u64 * PAGE_BYTES as u64)?;
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(failed)?;
    let now_ns = since.as_nanos() as u64;
    let new = Make {
        file_system: now_ns,
        // A bench has no secrets.
        hash_key: [now_ns, !now_ns],
        now_ns,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        mode: 0o755,
    };
    block_on(make(&FilePages::open(path)?, new)).map_err(failed)?;
    Ok(())
}

fn mount_file(path: &Path, directory: &Path, allows_other: bool) -> io::Result<()> {
    let options = MountOptions {
        source: path.display().to_string(),
        allows_other,
        is_read_only: false,
    };
    let path = path.to_owned();
    let open = move || {
        let pages = FilePages::open(&path)?;
        let (fs, recovered) = block_on(Wfs::open(pages, CACHE_BYTES)).map_err(failed)?;
        eprintln!("mounted: {recovered:?}");
        Ok(fs)
    };
    mount(directory, &options, open, |fs| {
        block_on(fs.settle()).map_err(failed)
    })
}

fn check_file(path: &Path) -> io::Result<()> {
    let checked = block_on(check(&FilePages::open(path)?)).map_err(failed)?;
    println!("{checked:#?}");
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["make", path, bytes] => match bytes.parse() {
            Ok(bytes) => make_file(Path::new(path), bytes),
            Err(error) => Err(failed(error)),
        },
        ["mount", path, directory, other @ ..] => mount_file(
            Path::new(path),
            Path::new(directory),
            *other == ["--allow-other"],
        ),
        ["check", path] => check_file(Path::new(path)),
        _ => Err(failed(
            "make FILE BYTES | mount FILE DIRECTORY [--allow-other] | check FILE",
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wfs: {error}");
            ExitCode::from(2)
        }
    }
}
