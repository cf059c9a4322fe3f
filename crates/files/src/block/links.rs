//! Targets of symbolic links: in the inode if they are short, else in one or two pages.

use std::sync::Arc;

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::inodes;
use super::node::{AREA_BYTES, Inode, Kind as NodeKind};
use super::page::{self, Header, Kind};
use super::tx::{Tx, damage};
use crate::errno::{Errno, FileError};
use crate::limits::PATH_BYTES_MAX;
use crate::pages::{PAGE_BYTES, Pages};

/// The first bytes of a page of a target; the text is behind them.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LinkHead {
    /// Of the page.
    pub header: Header,
    /// The number of the link.
    pub owner: U64,
    /// Bytes of the target in this page.
    pub bytes: U32,
    /// 0.
    pub reserved: U32,
}

const HEAD_BYTES: usize = size_of::<LinkHead>();

/// Bytes of a target that a page holds.
const TEXT_BYTES: usize = PAGE_BYTES - HEAD_BYTES;

/// Makes the target of a new link, whose inode has to be stored.
///
/// # Errors
/// `ENOSPC`; of the media; damage.
pub async fn put<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &mut Inode,
    target: &[u8],
) -> Result<(), FileError> {
    inode.size = target.len() as u64;
    if target.len() <= AREA_BYTES {
        inode.area[..target.len()].copy_from_slice(target);
        return Ok(());
    }
    for (nth, text) in target.chunks(TEXT_BYTES).enumerate() {
        let goal = inodes::goal(tx, inode.number);
        let number = tx.allocate(goal, 1).await?.first;
        let mut image = tx.fresh(Kind::Link, number);
        let bytes = Arc::make_mut(&mut image);
        let head: &mut LinkHead = page::of_mut(bytes);
        head.owner = inode.number.into();
        head.bytes = (text.len() as u32).into();
        bytes[HEAD_BYTES..HEAD_BYTES + text.len()].copy_from_slice(text);
        tx.put(image);
        inode.area[8 * nth..8 * nth + 8].copy_from_slice(&number.to_le_bytes());
        inode.front = nth as u16 + 1;
    }
    Ok(())
}

/// The pages that hold the target, if it is not in the inode.
fn pages(inode: &Inode) -> Vec<u64> {
    let words = inode.area[..8 * usize::from(inode.front)]
        .as_chunks::<8>()
        .0;
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// Where a link leads.
///
/// # Errors
/// `EINVAL` if it is no link; of the media; damage.
pub async fn get<P: Pages>(tx: &mut Tx<'_, P>, inode: &Inode) -> Result<Vec<u8>, FileError> {
    if inode.kind != NodeKind::Symlink {
        return Err(Errno::EINVAL.into());
    }
    if inode.front == 0 {
        return Ok(inode.area[..inode.front_bytes()].to_vec());
    }
    let mut target = Vec::new();
    for number in pages(inode) {
        let image = tx.page(number, Kind::Link).await?;
        let head: &LinkHead = page::of(&image);
        let text = image.get(HEAD_BYTES..HEAD_BYTES.saturating_add(head.bytes.get() as usize));
        match text.filter(|_| head.owner.get() == inode.number) {
            Some(text) => target.extend_from_slice(text),
            None => return Err(damage(number, "it is no part of this link")),
        }
    }
    match target.len() as u64 == inode.size && target.len() <= PATH_BYTES_MAX {
        true => Ok(target),
        false => Err(damage(
            inode.number,
            "a link has another length than it says",
        )),
    }
}

/// Gives the pages of a target back.
///
/// # Errors
/// Of the media; damage.
pub async fn give_back<P: Pages>(tx: &mut Tx<'_, P>, inode: &Inode) -> Result<(), FileError> {
    if inode.kind == NodeKind::Symlink && inode.front > 0 {
        for number in pages(inode) {
            tx.give_back_page(number).await?;
        }
    }
    Ok(())
}
