//! Entries of directories: a tree in the order of the hashes of names.
//!
//! The key of an entry is 55 bits of the hash of its name and, in the lowest 8 bits, a number from
//! 1 that tells apart names of one hash. It is given to an entry when it is made and stays, so it
//! is also where a listing goes on: whatever is made and removed beside it, an entry that stays is
//! listed once.
//!
//! A record is the number that the name leads to, its kind, and the name.

use wharf_runtime::Op;

use super::hash;
use super::inodes;
use super::node::{self, Inode, Kind};
use super::tree::{Record, Tree};
use super::tx::{Tx, damage};
use crate::cost::work;
use crate::errno::{Errno, FileError};
use crate::limits::check_name;
use crate::pages::Pages;

/// Names of one hash that a directory can have.
const NAMES_PER_HASH: u64 = 255;

/// Bytes of a record before the name.
const FIXED_BYTES: usize = 8 + 1;

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its key in the tree, where a listing goes on behind it.
    pub key: u64,
    /// The number that it leads to.
    pub number: u64,
    /// What that is.
    pub kind: Kind,
    /// The name.
    pub name: Box<[u8]>,
}

impl Found {
    fn of(directory: u64, record: &Record) -> Result<Found, FileError> {
        let (key, value) = record;
        let bad = || damage(directory, "an entry of a directory is none");
        let (number, kind, name) = parts(value).ok_or_else(bad)?;
        // Gates that are no inode's have such numbers.
        if !node::is_number(number) {
            return Err(bad());
        }
        Ok(Found {
            key: *key,
            number,
            kind: Kind::of_raw(kind).ok_or_else(bad)?,
            name: name.into(),
        })
    }
}

/// The number, the kind and the name of a record, if it is an entry.
pub fn parts(value: &[u8]) -> Option<(u64, u16, &[u8])> {
    let (number, rest) = value.split_first_chunk::<8>()?;
    let (kind, name) = rest.split_first()?;
    check_name(name).ok()?;
    Some((u64::from_le_bytes(*number), (*kind).into(), name))
}

fn record(number: u64, kind: Kind, name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FIXED_BYTES + name.len());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.push(kind.raw() as u8);
    bytes.extend_from_slice(name);
    bytes
}

/// The key that all names of a hash have in common.
fn first_key<P: Pages>(tx: &Tx<'_, P>, name: &[u8]) -> u64 {
    work(Op::PathComponent, || {
        hash::hash(tx.geometry().hash_key, name) >> 9 << 8
    })
}

fn tree<P: Pages>(tx: &Tx<'_, P>, directory: &Inode) -> Tree {
    let goal = inodes::goal(tx, directory.number);
    Tree::new(directory.number, directory.tree_root(), goal)
}

/// All entries whose names have the hash of `name`.
async fn same_hash<P: Pages>(
    tx: &mut Tx<'_, P>,
    directory: &Inode,
    name: &[u8],
) -> Result<Vec<Found>, FileError> {
    let tree = tree(tx, directory);
    let first = first_key(tx, name);
    let (mut found, mut from) = (Vec::new(), Some(first));
    while let Some(key) = from {
        let (records, next) = tree.within(tx, key, first + NAMES_PER_HASH).await?;
        for record in &records {
            found.push(Found::of(directory.number, record)?);
        }
        from = next;
    }
    Ok(found)
}

/// The entry of a name.
///
/// # Errors
/// Of the media; damage.
pub async fn find<P: Pages>(
    tx: &mut Tx<'_, P>,
    directory: &Inode,
    name: &[u8],
) -> Result<Option<Found>, FileError> {
    let found = same_hash(tx, directory, name).await?;
    Ok(found.into_iter().find(|entry| *entry.name == *name))
}

/// Makes an entry; there is none of that name. The directory is changed, and has to be stored.
///
/// # Errors
/// `ENOSPC`; of the media; damage.
pub async fn insert<P: Pages>(
    tx: &mut Tx<'_, P>,
    directory: &mut Inode,
    name: &[u8],
    number: u64,
    kind: Kind,
) -> Result<(), FileError> {
    let taken = same_hash(tx, directory, name).await?;
    let first = first_key(tx, name);
    let mut keys = first + 1..=first + NAMES_PER_HASH;
    let key = keys.find(|key| taken.iter().all(|entry| entry.key != *key));
    let key = key.ok_or(Errno::ENOSPC)?;
    let mut tree = tree(tx, directory);
    tree.insert(tx, key, &record(number, kind, name)).await?;
    directory.set_tree_root(tree.root);
    directory.size += 1;
    Ok(())
}

/// Lets an entry lead elsewhere. It stays where it is; the directory need not be stored for this.
///
/// # Errors
/// Of the media; damage.
pub async fn replace<P: Pages>(
    tx: &mut Tx<'_, P>,
    directory: &mut Inode,
    entry: &Found,
    number: u64,
    kind: Kind,
) -> Result<(), FileError> {
    let mut tree = tree(tx, directory);
    let value = record(number, kind, &entry.name);
    tree.insert(tx, entry.key, &value).await?;
    directory.set_tree_root(tree.root);
    Ok(())
}

/// Takes an entry away. The directory is changed, and has to be stored.
///
/// # Errors
/// Of the media; damage.
pub async fn remove<P: Pages>(
    tx: &mut Tx<'_, P>,
    directory: &mut Inode,
    entry: &Found,
) -> Result<(), FileError> {
    let mut tree = tree(tx, directory);
    let is_gone = tree.remove(tx, entry.key).await?;
    directory.set_tree_root(tree.root);
    match directory.size.checked_sub(1).filter(|_| is_gone) {
        Some(size) => directory.size = size,
        None => {
            return Err(damage(
                directory.number,
                "a directory has fewer entries than names",
            ));
        }
    }
    Ok(())
}

/// Some of the entries behind `cookie`, and where the next ones begin, if there are more.
///
/// # Errors
/// Of the media; damage.
pub async fn list<P: Pages>(
    tx: &mut Tx<'_, P>,
    directory: &Inode,
    cookie: u64,
) -> Result<(Vec<Found>, Option<u64>), FileError> {
    let Some(from) = cookie.checked_add(1) else {
        return Ok((Vec::new(), None));
    };
    let (records, next) = tree(tx, directory).within(tx, from, u64::MAX).await?;
    let found = records.iter().map(|r| Found::of(directory.number, r));
    Ok((found.collect::<Result<_, _>>()?, next))
}
