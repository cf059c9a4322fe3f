//! Extended attributes: at the back of the inode's area if all of them fit there, else in a page.
//!
//! In both places each is a byte, the length of its name, two bytes, the length of its value, and
//! then both. All of them together have at most as many bytes as a page holds.

use std::sync::Arc;

use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::inodes;
use super::node::{AREA_BYTES, Inode, TREE_ROOT_BYTES};
use super::page::{self, Header, Kind};
use super::tx::{Tx, damage};
use crate::arguments::SetXattr;
use crate::errno::{Errno, FileError};
use crate::limits::{XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
use crate::pages::{PAGE_BYTES, Pages};

/// The first bytes of a page of extended attributes; they are behind it.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct XattrHead {
    /// Of the page.
    pub header: Header,
    /// The number of what they belong to.
    pub owner: U64,
    /// Their bytes.
    pub bytes: U32,
    /// 0.
    pub reserved: U32,
}

const HEAD_BYTES: usize = size_of::<XattrHead>();

/// Bytes of all extended attributes of something.
const BYTES_MAX: usize = PAGE_BYTES - HEAD_BYTES;

/// A name and a value.
type Xattr = (Vec<u8>, Vec<u8>);

fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name.len() {
        1..=XATTR_NAME_BYTES_MAX => Ok(()),
        _ => Err(Errno::ERANGE),
    }
}

fn encode(all: &[Xattr]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in all {
        bytes.push(name.len() as u8);
        bytes.extend_from_slice(&(value.len() as u16).to_le_bytes());
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(value);
    }
    bytes
}

fn decode(mut bytes: &[u8], page: u64) -> Result<Vec<Xattr>, FileError> {
    let mut all = Vec::new();
    while let Some(([name, low, high], rest)) = bytes.split_first_chunk::<3>() {
        let (name, value) = (
            usize::from(*name),
            usize::from(u16::from_le_bytes([*low, *high])),
        );
        if name == 0 || rest.len() < name + value {
            return Err(damage(page, "an extended attribute is none"));
        }
        let (this, behind) = rest.split_at(name + value);
        all.push((this[..name].to_vec(), this[name..].to_vec()));
        bytes = behind;
    }
    match bytes.is_empty() {
        true => Ok(all),
        false => Err(damage(page, "extended attributes end in the middle")),
    }
}

async fn load<P: Pages>(tx: &mut Tx<'_, P>, inode: &Inode) -> Result<Vec<Xattr>, FileError> {
    if inode.xattr_page == 0 {
        return decode(inode.back_bytes(), inode.number);
    }
    let page = inode.xattr_page;
    let image = tx.page(page, Kind::Xattrs).await?;
    let head: &XattrHead = page::of(&image);
    let bytes = image.get(HEAD_BYTES..HEAD_BYTES.saturating_add(head.bytes.get() as usize));
    match bytes.filter(|_| head.owner.get() == inode.number) {
        Some(bytes) => decode(bytes, page),
        None => Err(damage(
            page,
            "these are extended attributes of something else",
        )),
    }
}

async fn put<P: Pages>(
    tx: &mut Tx<'_, P>,
    inode: &mut Inode,
    all: &[Xattr],
) -> Result<(), FileError> {
    let bytes = encode(all);
    if bytes.len() > BYTES_MAX {
        return Err(Errno::ENOSPC.into());
    }
    // The root of a tree must always have its place in front.
    let room = AREA_BYTES - inode.front_bytes().max(TREE_ROOT_BYTES);
    if bytes.len() <= room {
        give_back(tx, inode).await?;
        inode.xattr_page = 0;
        inode.back = bytes.len() as u16;
        inode.area[AREA_BYTES - bytes.len()..].copy_from_slice(&bytes);
        return Ok(());
    }
    if inode.xattr_page == 0 {
        let goal = inodes::goal(tx, inode.number);
        inode.xattr_page = tx.allocate(goal, 1).await?.first;
        inode.back = 0;
        tx.put(tx.fresh(Kind::Xattrs, inode.xattr_page));
    }
    let mut image = tx.page(inode.xattr_page, Kind::Xattrs).await?;
    let page = Arc::make_mut(&mut image);
    let head: &mut XattrHead = page::of_mut(page);
    head.owner = inode.number.into();
    head.bytes = (bytes.len() as u32).into();
    page[HEAD_BYTES..].fill(0);
    page[HEAD_BYTES..HEAD_BYTES + bytes.len()].copy_from_slice(&bytes);
    tx.put(image);
    Ok(())
}

/// Gives the page back, if there is one.
///
/// # Errors
/// Of the media; damage.
pub async fn give_back<P: Pages>(tx: &mut Tx<'_, P>, inode: &Inode) -> Result<(), FileError> {
    match inode.xattr_page {
        0 => Ok(()),
        page => tx.give_back_page(page).await,
    }
}

/// The value of an attribute.
///
/// # Errors
/// `ERANGE`, `ENODATA`; of the media; damage.
pub async fn get<P: Pages>(
    tx: &mut Tx<'_, P>,
    number: u64,
    name: &[u8],
) -> Result<Vec<u8>, FileError> {
    let inode = inodes::load(tx, number).await?;
    check_name(name)?;
    let all = load(tx, &inode).await?;
    let found = all.into_iter().find(|(other, _)| other == name);
    found.map(|(_, value)| value).ok_or(Errno::ENODATA.into())
}

/// Sets an attribute.
///
/// # Errors
/// `ERANGE`, `E2BIG`, `EEXIST`, `ENODATA`, `ENOSPC`; of the media; damage.
pub async fn set<P: Pages>(
    tx: &mut Tx<'_, P>,
    number: u64,
    (name, value): (&[u8], &[u8]),
    how: SetXattr,
    now_ns: u64,
) -> Result<(), FileError> {
    let mut inode = inodes::load(tx, number).await?;
    check_name(name)?;
    if value.len() > XATTR_VALUE_BYTES_MAX {
        return Err(Errno::E2BIG.into());
    }
    let mut all = load(tx, &inode).await?;
    let found = all.iter().position(|(other, _)| other == name);
    match (how, found) {
        (SetXattr::Create, Some(_)) => return Err(Errno::EEXIST.into()),
        (SetXattr::Replace, None) => return Err(Errno::ENODATA.into()),
        _ if value.len() > BYTES_MAX => return Err(Errno::ENOSPC.into()),
        (_, Some(at)) => all[at].1 = value.to_vec(),
        (_, None) => all.push((name.to_vec(), value.to_vec())),
    }
    put(tx, &mut inode, &all).await?;
    inode.changed_ns = now_ns;
    inodes::store(tx, &inode).await
}

/// Takes an attribute away.
///
/// # Errors
/// `ERANGE`, `ENODATA`; of the media; damage.
pub async fn remove<P: Pages>(
    tx: &mut Tx<'_, P>,
    number: u64,
    name: &[u8],
    now_ns: u64,
) -> Result<(), FileError> {
    let mut inode = inodes::load(tx, number).await?;
    check_name(name)?;
    let mut all = load(tx, &inode).await?;
    let before = all.len();
    all.retain(|(other, _)| other != name);
    if all.len() == before {
        return Err(Errno::ENODATA.into());
    }
    put(tx, &mut inode, &all).await?;
    inode.changed_ns = now_ns;
    inodes::store(tx, &inode).await
}

/// The names of all attributes.
///
/// # Errors
/// Of the media; damage.
pub async fn names<P: Pages>(tx: &mut Tx<'_, P>, number: u64) -> Result<Vec<Box<[u8]>>, FileError> {
    let inode = inodes::load(tx, number).await?;
    let all = load(tx, &inode).await?;
    Ok(all.into_iter().map(|(name, _)| name.into()).collect())
}
