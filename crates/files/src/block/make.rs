//! Makes a file system on empty pages.

use std::sync::Arc;

use super::groups::Bitmap;
use super::journal::Tail;
use super::layout::{Geometry, STATE_PAGE, SUPERBLOCK_PAGE};
use super::node::{self, Inode, Kind as NodeKind};
use super::page::{self, Image, Kind};
use crate::errno::Fault;
use crate::pages::{PAGE_BYTES, Pages, Run};

/// Pages that are cleared at once.
const CLEAR_PAGES: u64 = 256;

/// What a new file system is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Make {
    /// Which one it is: a number that no other had on this medium.
    pub file_system: u64,
    /// Key of the hash of names: a secret, so that nobody can find names that collide.
    pub hash_key: [u64; 2],
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
    #[error(
        "a file system has {} to {} pages",
        super::layout::PAGES_MIN,
        super::layout::PAGES_MAX
    )]
    Size,
    /// Of the media.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Makes a file system with an empty root directory. A power cut before this is done leaves none.
///
/// # Errors
/// If the number of pages is none that a file system can have; of the media.
pub async fn make<P: Pages>(pages: &P, make: Make) -> Result<Geometry, MakeError> {
    let geometry =
        Geometry::new(pages.pages(), make.file_system, make.hash_key).ok_or(MakeError::Size)?;
    let superblocks = [SUPERBLOCK_PAGE, geometry.superblock_copy()];
    for number in superblocks {
        clear(pages, Run::one(number)).await?;
    }
    pages.flush().await?;
    clear(pages, geometry.journal).await?;
    for serial in 0..2 {
        let tail = Tail {
            serial,
            group: 1,
            at: 0,
            transaction: 0,
        };
        let (number, image) = tail.to_page(&geometry);
        pages.write(&[Run::one(number)], &image[..]).await?;
    }
    let state = page::fresh(Kind::State, STATE_PAGE, make.file_system);
    put(pages, STATE_PAGE, state).await?;
    for number in 0..geometry.groups {
        put_group(pages, &geometry, number).await?;
    }
    let (number, table) = root_table(&geometry, make);
    put(pages, number, table).await?;
    pages.flush().await?;
    for number in superblocks.into_iter().rev() {
        put(pages, number, geometry.superblock(number, make.now_ns)).await?;
        pages.flush().await?;
    }
    Ok(geometry)
}

async fn clear<P: Pages>(pages: &P, run: Run) -> Result<(), Fault> {
    let zeros = vec![0; (run.pages.min(CLEAR_PAGES) as usize) * PAGE_BYTES];
    for first in (run.first..run.end()).step_by(CLEAR_PAGES as usize) {
        let part = Run::new(first, CLEAR_PAGES.min(run.end() - first));
        let bytes = &zeros[..part.pages as usize * PAGE_BYTES];
        pages.write(&[part], bytes).await?;
    }
    Ok(())
}

async fn put<P: Pages>(pages: &P, number: u64, mut image: Image) -> Result<(), Fault> {
    page::seal(Arc::make_mut(&mut image), 0);
    pages.write(&[Run::one(number)], &image[..]).await
}

async fn put_group<P: Pages>(pages: &P, geometry: &Geometry, number: u64) -> Result<(), Fault> {
    let group = geometry.group(number);
    let mut image = page::fresh(Kind::Bitmap, group.first, geometry.file_system);
    let bitmap: &mut Bitmap = page::of_mut(Arc::make_mut(&mut image));
    bitmap.init(&group);
    if number == 0 {
        bitmap.take_inode(&group);
        bitmap.tables_ready = 1.into();
    }
    put(pages, group.first, image).await
}

/// The table of inodes with the root directory.
fn root_table(geometry: &Geometry, make: Make) -> (u64, Image) {
    let number = geometry.group(0).first + 1;
    let mut image = page::fresh(Kind::Table, number, geometry.file_system);
    let table: &mut node::Table = page::of_mut(Arc::make_mut(&mut image));
    let mut root = Inode::new(node::ROOT, NodeKind::Directory, make.mode, make.now_ns);
    (root.uid, root.gid) = (make.uid, make.gid);
    root.parent = node::ROOT;
    table.inodes[0] = root.to_raw();
    (number, image)
}
