//! Requests for blocks through a design that serves files alone: they go to one large file.
//!
//! The file is as long as the requests reach, and every page of it has been written when the run begins, by zeros. A
//! flush is an `fdatasync` of it.

use std::sync::{Arc, OnceLock};

use wharf_host::Design;
use wharf_host::design::FileParts;
use wharf_host::files::{BlockOnFile, FileClient, FileError, FileTable, Initially, OpenFlags};
use wharf_runtime::Cpu;
use wharf_wire::file::DriveKey;

use super::Setup;
use crate::input::Plan;

/// Its name.
const PATH: &[u8] = b"/volume";

/// See the module.
pub(crate) struct OneFile {
    bytes: u64,
    page_bytes: usize,
    table: Arc<FileTable>,
    initially: Arc<[Initially]>,
    numbers: Arc<OnceLock<Vec<u64>>>,
}

impl OneFile {
    /// The file of a plan of requests for blocks.
    pub(crate) fn of(plan: &Plan, setup: &Setup) -> OneFile {
        let end = plan.touched.iter().map(|(_, end)| *end).max();
        let bytes = end.unwrap_or(1) * 4096;
        OneFile {
            bytes,
            page_bytes: setup.cache().drive.page_bytes(),
            table: Arc::new(FileTable::new(1, 0, setup.clients)),
            initially: Arc::new([(PATH.into(), Some(bytes))]),
            numbers: Arc::default(),
        }
    }

    /// The file as client `index` of a design has it, on a drive with this key.
    ///
    /// # Errors
    /// Of the design: `ENOSPC` if the drives have no room for the file and its file system.
    pub(crate) async fn open<D: Design>(
        &self,
        design: &Arc<D>,
        client: D::Client,
        cpu: &Cpu,
        (index, key): (u32, Option<DriveKey>),
    ) -> Result<BlockOnFile<impl FileClient>, FileError> {
        let parts = FileParts {
            cpu: cpu.clone(),
            index,
            page_bytes: self.page_bytes,
            table: self.table.clone(),
            initially: self.initially.clone(),
            numbers: self.numbers.clone(),
            key,
        };
        let files = design.files(client, parts).await?;
        let opened = files.open(PATH, OpenFlags::UPDATE, 0).await?;
        BlockOnFile::new(files, opened.handle, self.bytes).await
    }
}
