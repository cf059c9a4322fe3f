//! Values: extended attributes, and where symbolic links lead. Short ones are in records, longer
//! ones in pages of their own.

use super::layout::{PAGE, crc32c, damaged};
use super::node::Node;
use super::record::{INLINE_BYTES_MAX, Place, Record, Value};
use super::store::Store;
use super::tx::Tx;
use crate::arguments::{By, SetXattr};
use crate::errno::{Errno, FileError};
use crate::limits::{XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
use crate::lines::Lines;

/// The bytes of a value.
///
/// # Errors
/// Of the media; damage.
pub async fn get<L: Lines>(store: &Store<L>, value: &Value) -> Result<Vec<u8>, FileError> {
    let pages = match &value.place {
        Place::Here(bytes) => return Ok(bytes.to_vec()),
        Place::Pages(pages) => pages,
    };
    let mut bytes = vec![0; value.bytes as usize];
    for (page, part) in pages.iter().zip(bytes.chunks_mut(PAGE as usize)) {
        store.lines.load(page * PAGE, part).await?;
    }
    let first = pages.first().map_or(0, |page| page * PAGE);
    match crc32c(&[&bytes]) == value.crc {
        true => Ok(bytes),
        false => Err(damaged(first, "a value does not match its checksum").into()),
    }
}

/// A value of these bytes, in pages if it is long.
///
/// # Errors
/// `ENOSPC`; of the media.
pub async fn put<L: Lines>(tx: &mut Tx<'_, L>, bytes: &[u8]) -> Result<Value, FileError> {
    if bytes.len() <= INLINE_BYTES_MAX {
        return Ok(Value::here(bytes));
    }
    let mut pages = Vec::new();
    for part in bytes.chunks(PAGE as usize) {
        let page = tx.take_one()?;
        tx.store().store(page * PAGE, part).await?;
        pages.push(page);
    }
    Ok(Value::in_pages(bytes, &pages))
}

fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name.len() {
        1..=XATTR_NAME_BYTES_MAX => Ok(()),
        _ => Err(Errno::ERANGE),
    }
}

/// The value of an extended attribute.
///
/// # Errors
/// `ERANGE`, `ENODATA`; of the media; damage.
pub async fn xattr<L: Lines>(
    store: &Store<L>,
    node: &Node,
    name: &[u8],
) -> Result<Vec<u8>, FileError> {
    check_name(name)?;
    let value = node.xattrs.get(name).ok_or(Errno::ENODATA)?;
    get(store, value).await
}

/// Sets an extended attribute.
///
/// # Errors
/// `ERANGE`, `E2BIG`, `EEXIST`, `ENODATA`, `ENOSPC`; of the media; damage.
pub async fn set<L: Lines>(
    store: &Store<L>,
    by: By<'_>,
    number: u64,
    (name, value): (&[u8], &[u8]),
    how: SetXattr,
) -> Result<(), FileError> {
    let mut tx = store.begin(&[number]).await?;
    tx.load(number).await?;
    check_name(name)?;
    if value.len() > XATTR_VALUE_BYTES_MAX {
        return Err(Errno::E2BIG.into());
    }
    match (how, tx.node(number).xattrs.contains_key(name)) {
        (SetXattr::Create, true) => return Err(Errno::EEXIST.into()),
        (SetXattr::Replace, false) => return Err(Errno::ENODATA.into()),
        _ => {}
    }
    let value = put(&mut tx, value).await?;
    tx.push(number, &Record::Xattr(name.into(), value))?;
    changed(&mut tx, number, by.now_ns)?;
    tx.commit().await
}

/// Takes an extended attribute away.
///
/// # Errors
/// `ERANGE`, `ENODATA`; of the media; damage.
pub async fn remove<L: Lines>(
    store: &Store<L>,
    by: By<'_>,
    number: u64,
    name: &[u8],
) -> Result<(), FileError> {
    let mut tx = store.begin(&[number]).await?;
    tx.load(number).await?;
    check_name(name)?;
    if !tx.node(number).xattrs.contains_key(name) {
        return Err(Errno::ENODATA.into());
    }
    tx.gives_back();
    tx.push(number, &Record::XattrGone(name.into()))?;
    changed(&mut tx, number, by.now_ns)?;
    tx.commit().await
}

/// The attributes of an inode have changed.
fn changed<L: Lines>(tx: &mut Tx<'_, L>, number: u64, now_ns: u64) -> Result<(), FileError> {
    let mut inode = tx.node(number).inode();
    inode.changed_ns = now_ns;
    tx.push(number, &Record::Inode(inode))
}
