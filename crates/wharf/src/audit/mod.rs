//! What programs under `wharf run` ask of the kernel about the drive, which the kernel knows nothing of.
//!
//! Problem: a shared object stands before a program's C library. What passes by it (a program that is linked statically, a system
//! call of a program's own) finds the machine's own files at the drive's place, or an error, and nobody is told.
//!
//! Idea: the kernel tells this process of each call of the program's and its children's that names a path or uses a descriptor
//! (seccomp's user notification), and holds the caller until it has been answered. It is looked whether the call is about the
//! drive, counted if so, and always let through. It needs no root; the programs may gain no privileges then.
//!
//! | file | idea |
//! |---|---|
//! | `calls.rs` | which calls those are, and which of their arguments lead to files |
//! | `filter.rs` | has the kernel tell of them: in the child, before it becomes the program |
//! | `look.rs` | whether a call is about the drive |
//! | `watch.rs` | the thread that is told |
//!
//! Calls of the program that the shared object refuses do not reach the kernel. It tells of them itself, by messages to a socket
//! that [`VARIABLE`] names.
//!
//! It counts, and guards nothing: a program that wants to can deceive it.

mod calls;
mod filter;
mod look;
mod watch;

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

use serde::Serialize;

/// The variable of the environment that names the socket where the shared object tells what it refuses.
pub const VARIABLE: &str = "WHARF_AUDIT";

/// What the memory is called that stands for a file of the drive: links of `/proc/self/fd` show it.
pub const MEMORY_NAME: &str = "wharf file";

/// The shared object's own descriptors have this number or a higher one. Those of [`MEMORY_NAME`] stand for working directories.
pub const OWN_LEAST: i32 = 800;

/// Why calls cannot be watched.
#[derive(Debug, thiserror::Error)]
#[error("calls cannot be watched here (seccomp user notification): {0}")]
pub struct AuditError(#[from] io::Error);

/// What was found.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Report {
    /// Calls that were looked at.
    pub looked_at: u64,
    /// Those about the drive that went to the kernel, by program and call.
    pub passed_by: Vec<Passed>,
    /// Those that the shared object refused, by program and call.
    pub refused: Vec<Refused>,
}

/// Calls of a program that went to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Passed {
    /// Its path.
    pub program: String,
    /// The call's name.
    pub call: String,
    /// How many there were.
    pub times: u64,
    /// What the first of them was about: a path, or a descriptor.
    pub first: String,
    /// Whether the program has the shared object at all.
    pub has_object: bool,
}

/// Calls of a program that the shared object refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Its path.
    pub program: String,
    /// What it wanted.
    pub call: String,
    /// How often.
    pub times: u64,
}

/// What the shared object sends when it refuses a call.
pub fn refusal(program: &[u8], call: &str) -> Vec<u8> {
    [program, b"\0", call.as_bytes()].concat()
}

/// Calls of one program, and of all that it starts, are watched until all of them have ended.
pub struct Audit {
    thread: JoinHandle<Result<Report, AuditError>>,
    /// By which the child tells of its filter.
    tells: Option<OwnedFd>,
    socket: PathBuf,
}

impl Audit {
    /// Gets ready, for a drive at a place, whose shared object has a path. A socket is made in a directory.
    ///
    /// # Errors
    /// Where the kernel does not let calls be watched; what keeps the socket from being made.
    pub fn begin(place: &Path, object: &Path, directory: &Path) -> Result<Audit, AuditError> {
        filter::can_be()?;
        let socket = directory.join("refused.sock");
        let refusals = UnixDatagram::bind(&socket)?;
        refusals.set_nonblocking(true)?;
        let (hears, tells) = filter::way()?;
        let look = look::Look::new(place.as_os_str().as_bytes(), object.as_os_str().as_bytes());
        let watch = watch::Watch::new(look, refusals);
        #[allow(clippy::disallowed_methods)]
        // it waits for the kernel, which no task of the runtime can
        let thread = std::thread::Builder::new()
            .name("audit".into())
            .spawn(move || watch.run(&hears))?;
        Ok(Audit {
            thread,
            tells: Some(tells),
            socket,
        })
    }

    /// Has the program that a command starts be watched. The command is to be dropped before [`Audit::end`].
    pub fn follow(&mut self, command: &mut Command) {
        command.env(VARIABLE, &self.socket);
        let Some(tells) = self.tells.take() else {
            return;
        };
        let filter = filter::Filter::new();
        // SAFETY: system calls alone, with memory that was there before.
        unsafe { command.pre_exec(move || filter.install(&tells)) };
    }

    /// Waits until all programs have ended.
    ///
    /// # Errors
    /// Where the kernel did not let the program's calls be watched; it has not been started then.
    ///
    /// # Panics
    /// If the thread that watches did.
    pub fn end(mut self) -> Result<Report, AuditError> {
        drop(self.tells.take());
        self.thread.join().expect("the thread ends")
    }
}

/// Bytes of the kernel's, for a person.
fn text(bytes: &[u8]) -> String {
    OsStr::from_bytes(bytes).display().to_string()
}
