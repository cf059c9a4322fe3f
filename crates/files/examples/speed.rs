//! How fast operations on files are: wfs in this process on pages in memory, beside directories of this machine.
//!
//! ```text
//! cargo run --release -p wharf-files --example speed -- /dev/shm/here /mnt/ext4
//! ```
//!
//! Rounds take turns over the columns. Figures are nanoseconds of one operation, the median of the rounds. Directories are
//! used by system calls, wfs by calls of its session: its column has no system call in it.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use wharf_files::block::{Make, Wfs, make};
use wharf_files::pages::RamPages;
use wharf_files::vfs::{At, Session, SessionLimits, Target};
use wharf_files::{Caller, Handle, OpenFlags, Place, Rename, Sync, block_on};
use wharf_runtime::clock::Clock;
use wharf_runtime::{Rng, Seed};

const ROUNDS: usize = 7;

/// Pages of the file that is read and written: 16 MiB.
const PAGES: u64 = 4096;

/// What is timed, in this order, and how many of it in a round.
const OPERATIONS: [(&str, u64); 8] = [
    ("create+close", 2000),
    ("open+close", 2000),
    ("stat", 2000),
    ("rename", 2000),
    ("unlink", 2000),
    ("read 4 KiB", 20_000),
    ("write 4 KiB", 10_000),
    ("append 4 KiB + fsync", 40),
];

type Done = Result<(), Box<dyn std::error::Error>>;

/// One operation: which, the file's name and its name after a rename, an offset, and bytes.
struct Step<'a> {
    which: usize,
    names: (&'a str, &'a str),
    offset: u64,
    bytes: &'a mut [u8],
}

trait Column {
    fn name(&self) -> String;
    fn run(&mut self, step: Step<'_>) -> Done;
}

struct Directory {
    path: PathBuf,
    file: File,
    log: File,
}

impl Column for Directory {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn run(&mut self, step: Step<'_>) -> Done {
        let (one, two) = (self.path.join(step.names.0), self.path.join(step.names.1));
        match step.which {
            0 => drop(File::create_new(one)?),
            1 => drop(File::open(one)?),
            2 => _ = fs::metadata(one)?,
            3 => fs::rename(one, two)?,
            4 => fs::remove_file(two)?,
            5 => self.file.read_exact_at(step.bytes, step.offset)?,
            6 => self.file.write_all_at(step.bytes, step.offset)?,
            _ => {
                self.log.write_all(step.bytes)?;
                self.log.sync_all()?;
            }
        }
        Ok(())
    }
}

struct InProcess<'a> {
    session: Session<&'a Wfs<RamPages>>,
    file: Handle,
    log: Handle,
}

impl InProcess<'_> {
    async fn step(&self, step: Step<'_>) -> Result<(), wharf_files::FileError> {
        let session = &self.session;
        let one = At::from(step.names.0.as_bytes());
        let two = At::from(step.names.1.as_bytes());
        match step.which {
            0 | 1 => {
                let flags = [OpenFlags::CREATE, OpenFlags::READ][step.which];
                let opened = session.open(1, one, flags, 0o644).await?;
                session.close(opened.handle).await?;
            }
            2 => _ = session.stat(Target::Path(one, true)).await?,
            3 => session.rename(1, one, two, Rename::Replace).await?,
            4 => session.unlink(1, two).await?,
            5 => {
                let read = session.read(1, self.file, step.offset, step.bytes).await?;
                assert_eq!(read, 4096);
            }
            6 => {
                let place = Place::At(step.offset);
                session.write(1, self.file, place, &*step.bytes).await?;
            }
            _ => {
                session.write(1, self.log, Place::End, &*step.bytes).await?;
                session.sync(self.log, Sync::All).await?;
            }
        }
        Ok(())
    }
}

impl Column for InProcess<'_> {
    fn name(&self) -> String {
        "wfs in process".into()
    }

    fn run(&mut self, step: Step<'_>) -> Done {
        Ok(block_on(self.step(step))?)
    }
}

/// What each operation took in a round, in nanoseconds of one.
fn round(column: &mut dyn Column, rng: &mut Rng) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let (clock, mut bytes) = (Clock::start(), vec![1; 4096]);
    let name = |prefix: &str, nth: u64| format!("{prefix}-{nth}");
    let names: Vec<_> = (0..2000)
        .map(|n| (name("speed", n), name("fast", n)))
        .collect();
    let mut taken = Vec::new();
    for (which, (_, count)) in OPERATIONS.into_iter().enumerate() {
        let begun_ns = clock.now_ns();
        for nth in 0..count as usize {
            let (one, two) = &names[nth % names.len()];
            column.run(Step {
                which,
                names: (one, two),
                offset: rng.below(PAGES) * 4096,
                bytes: &mut bytes,
            })?;
        }
        taken.push((clock.now_ns() - begun_ns) as f64 / count as f64);
    }
    Ok(taken)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Done {
    let pages = RamPages::new(1 << 17);
    let new = Make {
        file_system: 1,
        hash_key: [2, 3],
        now_ns: 1,
        uid: 0,
        gid: 0,
        mode: 0o755,
    };
    block_on(make(&pages, new))?;
    let (wfs, _) = block_on(Wfs::open(pages, 64 << 20))?;
    let session = Session::new(&wfs, Caller::root(), SessionLimits::default());
    let open =
        |name: &'static [u8]| block_on(session.open(1, name.into(), OpenFlags::CREATE, 0o644));
    let (file, log) = (open(b"/file")?.handle, open(b"/log")?.handle);
    let mut columns: Vec<Box<dyn Column + '_>> = vec![Box::new(InProcess { session, file, log })];
    let mut left = Vec::new();
    for path in std::env::args_os().skip(1).map(PathBuf::from) {
        let made = |name: &str| {
            File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(path.join(name))
        };
        let (file, log) = (made("speed-file")?, made("speed-log")?);
        left.extend(["speed-file", "speed-log"].map(|name| path.join(name)));
        columns.push(Box::new(Directory { path, file, log }));
    }
    let mut bytes = vec![1; 4096];
    for column in &mut columns {
        for page in 0..PAGES {
            let (offset, bytes) = (page * 4096, &mut bytes[..]);
            column.run(Step {
                which: 6,
                names: ("", ""),
                offset,
                bytes,
            })?;
        }
    }
    let mut rng = Seed(1).rng();
    let mut taken = vec![vec![Vec::new(); OPERATIONS.len()]; columns.len()];
    for _ in 0..ROUNDS {
        for (column, taken) in columns.iter_mut().zip(&mut taken) {
            let this = round(&mut **column, &mut rng)?;
            taken
                .iter_mut()
                .zip(this)
                .for_each(|(all, one)| all.push(one));
        }
    }
    print!("{:22}", "ns");
    columns
        .iter()
        .for_each(|column| print!("{:>24}", column.name()));
    for (nth, (name, _)) in OPERATIONS.iter().enumerate() {
        print!("\n{name:22}");
        taken
            .iter()
            .for_each(|taken| print!("{:>24.0}", median(taken[nth].clone())));
    }
    println!();
    left.iter()
        .for_each(|path: &PathBuf| drop(fs::remove_file(Path::new(path))));
    Ok(())
}
