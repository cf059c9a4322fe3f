//! What is done to names: lookup, create, link, remove, list. `rename.rs` has the rest.
//!
//! The checks of each operation stand in the order of its errors. What an entry leads to is not
//! known before one has looked, and its gate cannot be entered behind that of the directory: so one
//! looks first, goes through all gates, and looks again.

use std::sync::Arc;

use wharf_runtime::Op;

use super::layout::damaged;
use super::node::Node;
use super::record::{Inode, Name, Record};
use super::store::Store;
use super::tx::Tx;
use super::values;
use crate::arguments::{By, Content, Entry, New, Remove, Seen};
use crate::attributes::{Attributes, DirectoryEntry, Kind, MODE_BITS};
use crate::cost::work;
use crate::errno::{Errno, FileError};
use crate::limits::{PATH_BYTES_MAX, check_name};
use crate::lines::Lines;

/// Most names of a file, and most subdirectories of a directory with 2 more.
pub const LINKS_MAX: u32 = 65_000;

/// What is under a name in a directory.
///
/// # Errors
/// `ENOTDIR`, `EINVAL`, `ENAMETOOLONG`.
pub fn find<'a>(node: &'a Node, entry: &Entry<'_>) -> Result<Option<&'a Name>, Errno> {
    if !node.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    check_name(entry.name)?;
    Ok(work(Op::PathComponent, || node.name(entry.name)))
}

/// Refuses an entry that leads to something else than it did.
///
/// # Errors
/// `ESTALE`.
pub fn check_seen(entry: &Entry<'_>, found: Option<u64>) -> Result<(), Errno> {
    let is_same = match entry.seen {
        Seen::Any => true,
        Seen::Nothing => found.is_none(),
        Seen::Number(number) => found == Some(number),
    };
    match is_same {
        true => Ok(()),
        false => Err(Errno::ESTALE),
    }
}

/// Refuses a directory that was removed.
///
/// # Errors
/// `ENOENT`.
pub fn check_is_there(node: &Node) -> Result<(), Errno> {
    match node.links() {
        0 => Err(Errno::ENOENT),
        _ => Ok(()),
    }
}

/// What an entry leads to right now.
///
/// # Errors
/// `ESTALE`, and those of [`find`]; of the media; damage.
pub async fn look<L: Lines>(store: &Store<L>, entry: &Entry<'_>) -> Result<Option<u64>, FileError> {
    let (node, _inside) = store.look(entry.directory).await?;
    Ok(find(&node, entry)?.map(|name| name.number))
}

/// What a name leads to.
///
/// # Errors
/// `ESTALE`, and those of [`find`]; `ENOENT`; of the media; damage.
pub async fn lookup<L: Lines>(
    store: &Store<L>,
    directory: u64,
    name: &[u8],
) -> Result<Attributes, FileError> {
    if name == b".." {
        let parent = {
            let (node, _inside) = store.look(directory).await?;
            match node.is_directory() {
                true => node.inode().parent,
                false => return Err(Errno::ENOTDIR.into()),
            }
        };
        let gone = |error| match error {
            FileError::Errno(Errno::ESTALE) => Errno::ENOENT.into(),
            other => other,
        };
        let (node, _inside) = store.look(parent).await.map_err(gone)?;
        return Ok(node.attributes());
    }
    let entry = Entry::new(directory, name);
    loop {
        let number = look(store, &entry).await?.ok_or(Errno::ENOENT)?;
        match store.look(number).await {
            Ok((node, _inside)) => return Ok(node.attributes()),
            // It may have gone meanwhile: then its name has, too.
            Err(FileError::Errno(Errno::ESTALE)) => {
                if look(store, &entry).await? == Some(number) {
                    return store.named(number, Err(Errno::ESTALE.into()));
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Makes an entry.
///
/// # Errors
/// Damage.
pub fn enter<L: Lines>(
    tx: &mut Tx<'_, L>,
    entry: &Entry<'_>,
    (number, kind): (u64, Kind),
    now_ns: u64,
) -> Result<(), FileError> {
    let node = tx.node(entry.directory);
    let (mut inode, end) = (node.inode(), node.log.end);
    let cookie = inode.latest_cookie.checked_add(1);
    inode.latest_cookie = cookie.ok_or(damaged(end, "no directory ever had so many entries"))?;
    (inode.modified_ns, inode.changed_ns) = (now_ns, now_ns);
    let name = Name {
        cookie: inode.latest_cookie,
        number,
        kind,
        name: entry.name.into(),
    };
    tx.push(entry.directory, &Record::Name(name))?;
    tx.push(entry.directory, &Record::Inode(inode))
}

/// Takes an entry away.
///
/// # Errors
/// `ENOENT`; damage.
pub fn leave<L: Lines>(
    tx: &mut Tx<'_, L>,
    entry: &Entry<'_>,
    now_ns: u64,
) -> Result<(), FileError> {
    let node = tx.node(entry.directory);
    let cookie = node.name(entry.name).ok_or(Errno::ENOENT)?.cookie;
    let mut inode = node.inode();
    (inode.modified_ns, inode.changed_ns) = (now_ns, now_ns);
    tx.push(entry.directory, &Record::NameGone(cookie))?;
    tx.push(entry.directory, &Record::Inode(inode))
}

/// What an entry led to has one name less.
///
/// # Errors
/// Damage.
pub fn drop_name<L: Lines>(tx: &mut Tx<'_, L>, number: u64, now_ns: u64) -> Result<(), FileError> {
    let mut inode = tx.node(number).inode();
    inode.changed_ns = now_ns;
    inode.links = inode.links.saturating_sub(1);
    if inode.links == 0 && !tx.is_open(number) {
        tx.remove(number);
        return Ok(());
    }
    tx.push(number, &Record::Inode(inode))
}

/// Makes something under a name.
///
/// # Errors
/// Those of [`look`]; `EEXIST`, `ENOENT`, `EMLINK`, `EINVAL`, `ENAMETOOLONG`, `ENOSPC`; of the
/// media; damage.
pub async fn create<L: Lines>(
    store: &Store<L>,
    by: By<'_>,
    entry: &Entry<'_>,
    new: &New<'_>,
) -> Result<Attributes, FileError> {
    let mut tx = store.begin(&[entry.directory]).await?;
    tx.load(entry.directory).await?;
    let parent = tx.node(entry.directory);
    if find(parent, entry)?.is_some() {
        return Err(Errno::EEXIST.into());
    }
    check_is_there(parent)?;
    let (kind, device) = match new.content {
        Content::File => (Kind::File, 0),
        Content::Directory if parent.links() >= LINKS_MAX => return Err(Errno::EMLINK.into()),
        Content::Directory => (Kind::Directory, 0),
        Content::Symlink([]) => return Err(Errno::EINVAL.into()),
        Content::Symlink(target) if target.len() > PATH_BYTES_MAX => {
            return Err(Errno::ENAMETOOLONG.into());
        }
        Content::Symlink(_) => (Kind::Symlink, 0),
        Content::Special(special, device) => (Kind::Special(special), device),
    };
    let inode = Inode {
        kind,
        mode: match kind {
            Kind::Symlink => 0o777,
            _ => new.mode & MODE_BITS,
        },
        links: 1,
        uid: new.owner.uid,
        gid: new.owner.gid,
        device,
        size: 0,
        accessed_ns: by.now_ns,
        modified_ns: by.now_ns,
        changed_ns: by.now_ns,
        parent: entry.directory,
        latest_cookie: 0,
    };
    let number = tx.create().await?;
    tx.push(number, &Record::Inode(inode))?;
    if let Content::Symlink(target) = new.content {
        let target = values::put(&mut tx, target).await?;
        tx.push(number, &Record::Target(target))?;
    }
    enter(&mut tx, entry, (number, kind), by.now_ns)?;
    let attributes = tx.node(number).attributes();
    if new.is_open {
        tx.open_when_done(number);
    }
    tx.commit().await?;
    Ok(attributes)
}

/// Gives something one more name.
///
/// # Errors
/// Those of [`look`]; `ESTALE`, `EEXIST`, `ENOENT`, `EPERM`, `EMLINK`, `ENOSPC`; of the media;
/// damage.
pub async fn link<L: Lines>(
    store: &Store<L>,
    by: By<'_>,
    number: u64,
    entry: &Entry<'_>,
) -> Result<Attributes, FileError> {
    let mut tx = store.begin(&[number, entry.directory]).await?;
    tx.load(entry.directory).await?;
    let parent = tx.node(entry.directory);
    let (is_taken, is_there) = (find(parent, entry)?.is_some(), check_is_there(parent));
    tx.load(number).await?;
    let node = tx.node(number);
    if is_taken {
        return Err(Errno::EEXIST.into());
    }
    is_there?;
    let mut inode = node.inode();
    match inode.links {
        _ if node.is_directory() => return Err(Errno::EPERM.into()),
        0 => return Err(Errno::ENOENT.into()),
        LINKS_MAX.. => return Err(Errno::EMLINK.into()),
        _ => inode.links += 1,
    }
    inode.changed_ns = by.now_ns;
    tx.push(number, &Record::Inode(inode))?;
    enter(&mut tx, entry, (number, inode.kind), by.now_ns)?;
    let attributes = tx.node(number).attributes();
    tx.commit().await?;
    Ok(attributes)
}

/// Takes a name away.
///
/// # Errors
/// Those of [`look`]; `ENOENT`, `ESTALE`, `EISDIR`, `ENOTDIR`, `ENOTEMPTY`; of the media; damage.
pub async fn remove<L: Lines>(
    store: &Store<L>,
    by: By<'_>,
    entry: &Entry<'_>,
    what: Remove,
) -> Result<(), FileError> {
    store.check_is_writable()?;
    loop {
        let number = look(store, entry).await?.ok_or(Errno::ENOENT)?;
        check_seen(entry, Some(number))?;
        let begun = store.begin(&[entry.directory, number]).await;
        let mut tx = store.named(number, begun)?;
        tx.load(entry.directory).await?;
        let found = find(tx.node(entry.directory), entry)?;
        if found.map(|name| name.number) != Some(number) {
            continue;
        }
        let loaded = tx.load(number).await;
        store.named(number, loaded)?;
        let node = tx.node(number);
        match (what, node.is_directory()) {
            (Remove::Name, true) => return Err(Errno::EISDIR.into()),
            (Remove::Directory, false) => return Err(Errno::ENOTDIR.into()),
            (Remove::Directory, true) if node.names_count() > 0 => {
                return Err(Errno::ENOTEMPTY.into());
            }
            _ => {}
        }
        tx.gives_back();
        leave(&mut tx, entry, by.now_ns)?;
        drop_name(&mut tx, number, by.now_ns)?;
        return tx.commit().await;
    }
}

/// Up to `most` entries behind a cookie, and whether these are all.
///
/// # Errors
/// `ENOTDIR`.
pub fn list(
    node: &Arc<Node>,
    cookie: u64,
    most: usize,
    entries: &mut Vec<DirectoryEntry>,
) -> Result<bool, Errno> {
    if !node.is_directory() {
        return Err(Errno::ENOTDIR);
    }
    let mut names = node.names_behind(cookie);
    entries.extend(names.by_ref().take(most).map(|name| DirectoryEntry {
        cookie: name.cookie,
        number: name.number,
        kind: name.kind,
        name: (*name.name).into(),
    }));
    Ok(names.next().is_none())
}
