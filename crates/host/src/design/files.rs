//! What a client of files is made of.

use std::sync::{Arc, OnceLock};

use wharf_runtime::Cpu;
use wharf_wire::file::DriveKey;

use super::client::Client;
use super::statistics::Statistics;
use super::touch::Touch;
use crate::error::IoError;
use crate::files::{Errno, FileTable, FilesOnBlocks, Initially};
use crate::span::Extent;

/// What a client of files is made of. All clients of a run share what is behind the pointers.
#[derive(Clone)]
pub struct FileParts {
    /// The CPU that it has to itself.
    pub cpu: Cpu,
    /// Its number, below that of all clients.
    pub index: u32,
    /// Bytes of a page as stored.
    pub page_bytes: usize,
    /// Names and regions, for designs without a file system of their own: what is to be there at the beginning is.
    pub table: Arc<FileTable>,
    /// What is to be there at the beginning, for the others: each path behind that of its directory.
    pub initially: Arc<[Initially]>,
    /// The numbers that these have.
    pub numbers: Arc<OnceLock<Vec<u64>>>,
    /// The key of the drive that has the files, if it has one: its clients show who they are.
    pub key: Option<DriveKey>,
}

impl FileParts {
    /// Files over blocks.
    pub fn on_blocks<C: Client>(&self, client: C) -> FilesOnBlocks<C> {
        FilesOnBlocks::new(&self.table, &self.cpu, client, self.index, self.page_bytes)
    }

    /// Says which numbers the files and directories of the beginning have, in their order.
    pub fn tell(&self, numbers: Vec<u64>) {
        let told = self.numbers.set(numbers);
        assert!(
            told.is_ok(),
            "one client makes what is there at the beginning"
        );
    }
}

/// A client of a design that serves files alone, before it has files: nobody asks it for blocks.
pub struct NoBlocks<T>(pub T);

impl<T> NoBlocks<T> {
    fn refused() -> IoError {
        IoError::System {
            doing: "a request for blocks of a design that serves files alone",
            offset: 0,
            errno: Errno::EOPNOTSUPP.number(),
        }
    }
}

impl<T: 'static> Client for NoBlocks<T> {
    async fn read(&self, _: Extent, _: &mut [u8]) -> Result<Touch, IoError> {
        Err(Self::refused())
    }

    async fn write(&self, _: Extent, _: &[u8]) -> Result<Touch, IoError> {
        Err(Self::refused())
    }

    async fn flush(&self) -> Result<(), IoError> {
        Err(Self::refused())
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}
