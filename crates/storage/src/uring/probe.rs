//! What this kernel's io_uring can do, found by trying once.
//!
//! A kernel may lack a feature, and a container may refuse it: both show as an error of the call that
//! asks for it. Nothing is concluded from version numbers.

use std::fmt;
use std::io;
use std::sync::OnceLock;

use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::buffer::AlignedBuffer;
use crate::error::StorageError;

/// What io_uring can do here. Printed as one line for each feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The kernel's release.
    pub kernel: String,
    /// Why there is no io_uring at all.
    pub refused: Option<String>,
    /// Every feature that is tried, in the order in which it is of use.
    pub features: Vec<Feature>,
}

/// One feature of io_uring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// Why it is not used; none if it is.
    pub refused: Option<String>,
}

/// Rings made for one thread, which skip locks.
pub(super) const SINGLE_ISSUER: &str = "single issuer";
/// Completions handled when their thread asks for them.
pub(super) const DEFERRED: &str = "deferred task work";
/// Descriptors looked up once.
pub(super) const FILES: &str = "registered files";
/// Memory pinned once.
pub(super) const BUFFERS: &str = "registered buffers";

impl Capabilities {
    /// Whether there is io_uring.
    pub fn available(&self) -> bool {
        self.refused.is_none()
    }

    /// An error that says why there is no io_uring, if so.
    pub fn require(&self) -> Result<(), StorageError> {
        match &self.refused {
            None => Ok(()),
            Some(reason) => Err(StorageError::Uring(io::Error::other(reason.clone()))),
        }
    }

    /// Whether a feature is used.
    pub(super) fn has(&self, name: &str) -> bool {
        self.features
            .iter()
            .any(|f| f.name == name && f.refused.is_none())
    }

    fn probe() -> Capabilities {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut found = Capabilities {
            kernel: kernel.trim().to_string(),
            refused: None,
            features: Vec::new(),
        };
        let ring = match IoUring::new(2).and_then(|ring| has_operations(&ring).map(|()| ring)) {
            Ok(ring) => ring,
            Err(error) => {
                found.refused = Some(error.to_string());
                return found;
            }
        };
        let mut note = |name, result: io::Result<()>| {
            let refused = result.err().map(|e| e.to_string());
            found.features.push(Feature { name, refused });
        };
        let single = IoUring::<squeue::Entry, cqueue::Entry>::builder()
            .setup_single_issuer()
            .build(2);
        note(SINGLE_ISSUER, single.map(drop));
        let deferred = IoUring::<squeue::Entry, cqueue::Entry>::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(2);
        note(DEFERRED, deferred.map(drop));
        note(FILES, ring.submitter().register_files(&[0]));
        note(BUFFERS, register_a_buffer(&ring));
        found
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "io_uring: ")?;
        match &self.refused {
            Some(reason) => write!(
                f,
                "refused ({reason}), files are read by threads; kernel {}",
                self.kernel
            )?,
            None => write!(f, "yes; kernel {}", self.kernel)?,
        }
        for feature in &self.features {
            match &feature.refused {
                None => write!(f, "\n  {}: yes", feature.name)?,
                Some(reason) => write!(f, "\n  {}: done without ({reason})", feature.name)?,
            }
        }
        Ok(())
    }
}

/// An error if an operation is missing that cannot be done without.
fn has_operations(ring: &IoUring) -> io::Result<()> {
    let mut probe = io_uring::Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::Readv::CODE,
        opcode::Writev::CODE,
        opcode::Fsync::CODE,
    ];
    if needed.iter().all(|code| probe.is_supported(*code)) {
        Ok(())
    } else {
        Err(io::Error::other("the kernel is too old: it needs 5.6"))
    }
}

fn register_a_buffer(ring: &IoUring) -> io::Result<()> {
    let mut buffer = AlignedBuffer::new(4096);
    let vector = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: the buffer lives until it is unregistered below.
    unsafe { ring.submitter().register_buffers(&[vector])? };
    ring.submitter().unregister_buffers()
}

/// What io_uring can do here; tried at the first call.
pub fn capabilities() -> &'static Capabilities {
    static FOUND: OnceLock<Capabilities> = OnceLock::new();
    FOUND.get_or_init(Capabilities::probe)
}
