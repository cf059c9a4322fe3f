//! `wharf run --record`: what this process does with files of the drive, in a file of its own beside those of the others.

use std::ffi::{CStr, OsStr, c_int};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{Mode, OFlags};
use wharf::files::{FileDrive, Part, Recorded};

use crate::drive::{complain, variable};
use crate::errno::{Errno, Outcome};
use crate::place::BYTES_MAX;

/// The variable of the environment that says when a recording began, and in which directory its parts are: `NANOSECONDS:DIRECTORY`.
const VARIABLE: &CStr = c"WHARF_RECORD";

/// The descriptor of this process's part; -1 if there is none.
static PART: AtomicI32 = AtomicI32::new(-1);

/// What the variable says, in one piece ([`crate::place::Place`] says why).
pub(crate) struct Recording {
    begun_ns: u64,
    directory: [u8; BYTES_MAX],
    directory_bytes: usize,
}

impl Recording {
    /// Asks for no memory.
    pub(crate) fn of_environment() -> Option<Recording> {
        let bytes = variable(VARIABLE)?;
        let middle = bytes.iter().position(|byte| *byte == b':')?;
        let (begun_ns, said) = (&bytes[..middle], &bytes[middle + 1..]);
        let mut directory = [0; BYTES_MAX];
        directory.get_mut(..said.len())?.copy_from_slice(said);
        Some(Recording {
            begun_ns: std::str::from_utf8(begun_ns).ok()?.parse().ok()?,
            directory,
            directory_bytes: said.len(),
        })
    }

    /// A new file for this process, which has it by a high number.
    fn file(&self) -> Outcome<OwnedFd> {
        let directory = Path::new(OsStr::from_bytes(&self.directory[..self.directory_bytes]));
        let process = std::process::id();
        let how = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::APPEND | OFlags::CLOEXEC;
        for number in 0_u32.. {
            let path = directory.join(format!("{process}-{number}"));
            match rustix::fs::open(path, how, Mode::from_raw_mode(0o600)) {
                // This process before it became another program.
                Err(rustix::io::Errno::EXIST) => {}
                made => return crate::find::high(made?, true),
            }
        }
        Err(Errno(libc::EEXIST))
    }

    /// This process's part.
    fn begin(&self) -> io::Result<Part> {
        let file = self.file();
        let file = file.map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        let descriptor = file.as_raw_fd();
        let part = Part::new(File::from(file), self.begun_ns)?;
        PART.store(descriptor, Ordering::Relaxed);
        Ok(part)
    }
}

/// The drive, recorded if that is wanted.
pub(crate) fn recorded(drive: FileDrive, recording: Option<&Recording>) -> Recorded<FileDrive> {
    match recording.map(Recording::begin) {
        None => Recorded::nothing(drive),
        Some(Ok(part)) => Recorded::part(drive, part, thread),
        Some(Err(error)) => {
            let process = std::process::id();
            complain(&format!("process {process} is not recorded: {error}"));
            Recorded::nothing(drive)
        }
    }
}

fn thread() -> u32 {
    rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
}

/// The descriptor of this process's part, if it is recorded.
pub(crate) fn descriptor() -> Option<c_int> {
    let part = PART.load(Ordering::Relaxed);
    (part >= 0).then_some(part)
}

/// The part is another process's, or is to be closed.
pub(crate) fn forget() {
    PART.store(-1, Ordering::Relaxed);
}
