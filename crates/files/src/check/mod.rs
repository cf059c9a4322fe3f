//! Whether what is on the media fits together, from outside.
//!
//! Nothing here is used by what writes the media, and nothing of that is used here: it has been
//! written from `docs/file-format.md` alone, with numbers, checksum and hash of its own, so that a
//! mistake of the writer is not believed because the reader makes it too. A test holds that.
//!
//! What is in the journal has to be at home: open and settle a file system before it is checked.
//!
//! 1. `media.rs`: superblock and copy; from there on every page is looked at as what it should be.
//! 2. `journal.rs`: headers, and whether groups are left in the ring.
//! 3. `walk.rs`: inodes group by group are noted; then each is followed to all that it leads to.
//!    `files.rs`: extents; `names.rs`: entries and targets; `xattrs.rs`; `tree.rs`: records of trees.
//! 4. `counts.rs`: what was found is held against bitmaps, summaries, links, and the list of
//!    orphans.
//!
//! Memory: 2 bits for each page and 40 bytes for each inode.

mod counts;
mod files;
mod found;
mod hash;
mod journal;
mod media;
mod names;
mod tree;
mod walk;
mod xattrs;

#[cfg(test)]
mod imports_test;

use crate::errno::Fault;
use crate::pages::Pages;
pub use found::Checked;
use media::Media;
use walk::Walk;

/// Checks what is on the media.
///
/// # Errors
/// Of the media, if not even a superblock can be read.
pub async fn check<P: Pages>(pages: &P) -> Result<Checked, Fault> {
    let media = Media::open(pages).await?;
    let mut walk = Walk::new(media);
    walk.fixed().await;
    walk.journal().await;
    walk.note_inodes().await;
    walk.follow_inodes().await;
    walk.orphans().await;
    walk.compare_groups().await;
    walk.compare_links();
    walk.compare_places();
    Ok(walk.into_checked())
}
