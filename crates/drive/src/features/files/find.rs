//! The partition of a drive that has a file system, and a new one.

use wharf_files::gpt::{Gpt, GptError, Guid, Partition};
use wharf_files::pages::{PAGE_BYTES, Pages, Run};
use wharf_files::partitions::{self, TableError};
use wharf_files::volume::{self, Format, MakeError};
use wharf_files::{Fault, FileError};

use super::pages::FilePages;
use crate::config::NewFiles;
use crate::memory::Exceeded;

/// Partitions begin at multiples of so many pages, as those of other tools do: 1 MiB; or at the first page that
/// they can, of drives as small as that.
const ALIGNMENT_PAGES: u64 = 256;

/// Why a drive has no file system to serve.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The table of partitions.
    #[error(transparent)]
    Table(#[from] GptError),
    /// No partition has a file system that is known.
    #[error("no partition says that it holds a file system of the drive's")]
    None,
    /// There can be no file system of that size.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// It needs more memory than it has.
    #[error(transparent)]
    Memory(#[from] Exceeded),
    /// The file system is damaged.
    #[error(transparent)]
    Files(#[from] FileError),
}

impl From<TableError> for OpenError {
    fn from(error: TableError) -> OpenError {
        match error {
            TableError::Table(error) => error.into(),
            TableError::Fault(fault) => fault.into(),
        }
    }
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> OpenError {
        FileError::Io(fault).into()
    }
}

/// The first partition that holds a file system of one of these formats: which, and its pages.
pub(super) async fn find(
    pages: &FilePages,
    formats: &[Format],
) -> Result<(Format, Run), OpenError> {
    let found = partitions::find(pages, formats).await?;
    found.ok_or(OpenError::None)
}

/// Makes a file system over all pages; gives where it is.
pub(super) async fn make(
    pages: &FilePages,
    format: Format,
    new: NewFiles,
) -> Result<Run, OpenError> {
    let mut gpt = Gpt::new(new.disk, PAGE_BYTES as u32, pages.pages())?;
    let (first, last) = gpt.usable();
    let aligned = first.next_multiple_of(ALIGNMENT_PAGES);
    let first = match pages.pages() > 4 * ALIGNMENT_PAGES {
        true => aligned,
        false => first,
    };
    let mut partition = Partition {
        kind: Guid::FILES,
        guid: new.partition,
        first_block: first,
        last_block: last,
        attributes: 0,
        name: format.name().into(),
    };
    partition.set_file_system(format.number());
    gpt.add(partition)?;
    let part = Run::new(first, (last + 1).saturating_sub(first));
    volume::make(&pages.part(part), format, new.make).await?;
    // Who finds the partition finds a file system in it.
    partitions::write(pages, &gpt).await?;
    Ok(part)
}
