//! Makes a file system in persistent memory.

use zerocopy::IntoBytes;

use super::journal::store_word;
use super::layout::{Geometry, JOURNAL_PAGE, PAGE, PAGES_MAX, PAGES_MIN, ROOT};
use super::log::{HEAD_BYTES, LogHead};
use super::record::{Inode, Record, Whose};
use crate::attributes::Kind;
use crate::errno::Fault;
use crate::lines::Lines;
use crate::pages::PAGE_BYTES;

/// Pages that are cleared at once.
const CLEAR_PAGES: u64 = 64;

/// What a new file system is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Make {
    /// Which one it is: a number that no other had on this medium.
    pub file_system: u64,
    /// When, in nanoseconds.
    pub now_ns: u64,
    /// The user of the root directory.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its permission bits.
    pub mode: u16,
}

/// Why none was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MakeError {
    /// There are too few pages, or too many.
    #[error("a file system has {PAGES_MIN} to {PAGES_MAX} pages")]
    Size,
    /// Of the media.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Makes a file system with an empty root directory. A power cut before this is done leaves none.
///
/// # Errors
/// If the number of pages is none that a file system can have; of the media.
pub async fn make<L: Lines>(lines: &L, make: Make) -> Result<Geometry, MakeError> {
    let pages = lines.bytes() / PAGE;
    let geometry = Geometry::new(pages, make.file_system).ok_or(MakeError::Size)?;
    let superblocks = [0, geometry.data_end() * PAGE];
    for at in superblocks {
        clear(lines, at / PAGE, 1).await?;
    }
    lines.fence().await?;
    clear(lines, JOURNAL_PAGE, 1 + geometry.table_pages).await?;
    put_root(lines, &geometry, make).await?;
    lines.fence().await?;
    for at in superblocks.into_iter().rev() {
        let superblock = geometry.superblock(make.now_ns);
        put(lines, at, superblock.as_bytes()).await?;
        lines.fence().await?;
    }
    Ok(geometry)
}

async fn put<L: Lines>(lines: &L, at: u64, bytes: &[u8]) -> Result<(), Fault> {
    lines.store(at, bytes).await?;
    lines.persist(at, bytes.len() as u64).await
}

async fn clear<L: Lines>(lines: &L, first: u64, pages: u64) -> Result<(), Fault> {
    let zeros = vec![0; CLEAR_PAGES.min(pages) as usize * PAGE_BYTES];
    for page in (first..first + pages).step_by(CLEAR_PAGES as usize) {
        let part = CLEAR_PAGES.min(first + pages - page);
        put(lines, page * PAGE, &zeros[..part as usize * PAGE_BYTES]).await?;
    }
    Ok(())
}

/// The log and the slot of the root directory.
async fn put_root<L: Lines>(lines: &L, geometry: &Geometry, make: Make) -> Result<(), Fault> {
    let whose = Whose {
        number: ROOT,
        file_system: geometry.file_system,
    };
    let page = geometry.data_first();
    let inode = Inode {
        kind: Kind::Directory,
        mode: make.mode,
        links: 1,
        uid: make.uid,
        gid: make.gid,
        device: 0,
        size: 0,
        accessed_ns: make.now_ns,
        modified_ns: make.now_ns,
        changed_ns: make.now_ns,
        parent: ROOT,
        latest_cookie: 0,
    };
    let at = page * PAGE + HEAD_BYTES;
    let mut record = Record::Inode(inode).encode();
    whose.seal(at, &mut record);
    let head = LogHead::new(whose, page, 0);
    put(lines, page * PAGE, &[head.as_bytes(), &record].concat()).await?;
    let slot = geometry.slot_at(0);
    store_word(lines, slot, geometry.word(slot, 1)).await?;
    let end = geometry.log_end_at(0);
    store_word(lines, end, geometry.word(end, at + record.len() as u64)).await
}
