//! The table of partitions on pages: reading and writing it, and whose partition it is.

use crate::errno::Fault;
use crate::gpt::{Gpt, GptError, head_bytes, tail_bytes};
use crate::pages::{PAGE_BYTES, Pages, Run};
use crate::volume::Format;

/// Why there is no table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It is damaged, or was never there.
    #[error(transparent)]
    Table(#[from] GptError),
    /// Of the media.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The first partition that says that it holds a file system of one of these formats, if one does: which, and its pages.
///
/// # Errors
/// If there is no table; of the media.
pub async fn find<P: Pages>(
    pages: &P,
    formats: &[Format],
) -> Result<Option<(Format, Run)>, TableError> {
    let mut head = vec![0; head_bytes(PAGE_BYTES as u32)];
    let mut tail = vec![0; tail_bytes(PAGE_BYTES as u32)];
    let (at_start, at_end) = (first(&head), last(&tail, pages));
    pages.read(&[at_start], &mut head).await?;
    pages.read(&[at_end], &mut tail).await?;
    let found = Gpt::decode(PAGE_BYTES as u32, pages.pages(), &head, &tail)?;
    let mut partitions = found.gpt.partitions().iter().flatten();
    Ok(partitions.find_map(|partition| {
        let format = Format::of_number(partition.file_system())?;
        let run = Run::new(partition.first_block, partition.blocks());
        formats.contains(&format).then_some((format, run))
    }))
}

/// Writes a table, durably.
///
/// # Errors
/// Of the media.
pub async fn write<P: Pages>(pages: &P, gpt: &Gpt) -> Result<(), Fault> {
    let (head, tail) = gpt.encode();
    pages.write(&[first(&head)], &head).await?;
    pages.write(&[last(&tail, pages)], &tail).await?;
    pages.flush().await
}

/// Where the bytes lie that all pages begin with.
fn first(head: &[u8]) -> Run {
    Run::new(0, (head.len() / PAGE_BYTES) as u64)
}

/// Where the bytes lie that they end with.
fn last<P: Pages>(tail: &[u8], pages: &P) -> Run {
    let count = (tail.len() / PAGE_BYTES) as u64;
    Run::new(pages.pages().saturating_sub(count), count)
}
