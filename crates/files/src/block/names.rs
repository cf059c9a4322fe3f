//! What is done to names: lookup, create, link, remove, list. `rename.rs` has the rest.
//!
//! The checks of each operation stand in the order of its errors. What goes on with an inode loads
//! it, changes it and stores it in one go, as two of the directories of an operation may be one.

use super::directory::{self, Found};
use super::inodes;
use super::links;
use super::node::{Inode, Kind as NodeKind};
use super::orphans;
use super::tx::{Tx, damage};
use crate::arguments::{Content, Entry, New, Remove, Seen};
use crate::attributes::{Attributes, DirectoryEntry, Kind, MODE_BITS, Owner, Special};
use crate::errno::{Errno, FileError};
use crate::limits::{PATH_BYTES_MAX, check_name};
use crate::pages::{PAGE_BYTES, Pages};

/// Most names of a file, and most subdirectories of a directory with 2 more.
pub const LINKS_MAX: u32 = 65_000;

/// What an inode is, in the words of all file systems.
pub fn kind_of(kind: NodeKind) -> Kind {
    match kind {
        NodeKind::File => Kind::File,
        NodeKind::Directory => Kind::Directory,
        NodeKind::Symlink => Kind::Symlink,
        NodeKind::Fifo => Kind::Special(Special::Fifo),
        NodeKind::Socket => Kind::Special(Special::Socket),
        NodeKind::CharDevice => Kind::Special(Special::CharDevice),
        NodeKind::BlockDevice => Kind::Special(Special::BlockDevice),
    }
}

fn of_special(special: Special) -> NodeKind {
    match special {
        Special::Fifo => NodeKind::Fifo,
        Special::Socket => NodeKind::Socket,
        Special::CharDevice => NodeKind::CharDevice,
        Special::BlockDevice => NodeKind::BlockDevice,
    }
}

/// The attributes of an inode.
pub fn attributes_of(inode: &Inode) -> Attributes {
    Attributes {
        number: inode.number,
        kind: kind_of(inode.kind),
        mode: inode.mode,
        owner: Owner {
            uid: inode.uid,
            gid: inode.gid,
        },
        links: inode.links,
        bytes: inode.size,
        device: inode.device,
        stored_bytes: inode.pages.saturating_mul(PAGE_BYTES as u64),
        accessed_ns: inode.accessed_ns,
        modified_ns: inode.modified_ns,
        changed_ns: inode.changed_ns,
    }
}

/// The inode of a directory.
///
/// # Errors
/// `ESTALE`, `ENOTDIR`; of the media; damage.
pub async fn directory<P: Pages>(tx: &mut Tx<'_, P>, number: u64) -> Result<Inode, FileError> {
    let inode = inodes::load(tx, number).await?;
    match inode.kind {
        NodeKind::Directory => Ok(inode),
        _ => Err(Errno::ENOTDIR.into()),
    }
}

/// The directory of an entry, and what is there.
///
/// # Errors
/// `ESTALE`, `ENOTDIR`, `EINVAL`, `ENAMETOOLONG`; of the media; damage.
pub async fn look<P: Pages>(
    tx: &mut Tx<'_, P>,
    entry: &Entry<'_>,
) -> Result<(Inode, Option<Found>), FileError> {
    let inode = directory(tx, entry.directory).await?;
    check_name(entry.name)?;
    let found = directory::find(tx, &inode, entry.name).await?;
    Ok((inode, found))
}

/// Refuses an entry that leads to something else than it did.
///
/// # Errors
/// `ESTALE`.
pub fn check_seen(entry: &Entry<'_>, found: Option<&Found>) -> Result<(), FileError> {
    let is_same = match entry.seen {
        Seen::Any => true,
        Seen::Nothing => found.is_none(),
        Seen::Number(number) => found.is_some_and(|found| found.number == number),
    };
    match is_same {
        true => Ok(()),
        false => Err(Errno::ESTALE.into()),
    }
}

/// Refuses a directory that was removed.
///
/// # Errors
/// `ENOENT`.
pub fn check_is_there(directory: &Inode) -> Result<(), FileError> {
    match directory.links {
        0 => Err(Errno::ENOENT.into()),
        _ => Ok(()),
    }
}

/// What a name leads to.
///
/// # Errors
/// Those of [`look`]; `ENOENT`.
pub async fn lookup<P: Pages>(
    tx: &mut Tx<'_, P>,
    number: u64,
    name: &[u8],
) -> Result<Attributes, FileError> {
    if name == b".." {
        let parent = directory(tx, number).await?.parent;
        let gone = |error| match error {
            FileError::Errno(Errno::ESTALE) => Errno::ENOENT.into(),
            other => other,
        };
        let parent = inodes::load(tx, parent).await.map_err(gone)?;
        return Ok(attributes_of(&parent));
    }
    let (_, found) = look(tx, &Entry::new(number, name)).await?;
    let found = found.ok_or(Errno::ENOENT)?;
    Ok(attributes_of(&named(tx, &found).await?))
}

/// What an entry leads to.
///
/// # Errors
/// Of the media; damage.
pub async fn named<P: Pages>(tx: &mut Tx<'_, P>, found: &Found) -> Result<Inode, FileError> {
    let inode = inodes::load_named(tx, found.number).await?;
    match inode.kind == found.kind && inode.links > 0 {
        true => Ok(inode),
        false => Err(damage(
            found.number,
            "an entry leads to something of another kind",
        )),
    }
}

/// Makes an entry.
///
/// # Errors
/// `ENOSPC`; of the media; damage.
pub async fn enter<P: Pages>(
    tx: &mut Tx<'_, P>,
    entry: &Entry<'_>,
    (number, kind): (u64, NodeKind),
    now_ns: u64,
) -> Result<(), FileError> {
    let mut inode = directory(tx, entry.directory).await?;
    directory::insert(tx, &mut inode, entry.name, number, kind).await?;
    (inode.modified_ns, inode.changed_ns) = (now_ns, now_ns);
    inodes::store(tx, &inode).await
}

/// Takes an entry away.
///
/// # Errors
/// Of the media; damage.
pub async fn leave<P: Pages>(
    tx: &mut Tx<'_, P>,
    number: u64,
    found: &Found,
    now_ns: u64,
) -> Result<(), FileError> {
    let mut inode = directory(tx, number).await?;
    directory::remove(tx, &mut inode, found).await?;
    (inode.modified_ns, inode.changed_ns) = (now_ns, now_ns);
    inodes::store(tx, &inode).await
}

/// A directory has so many subdirectories more.
///
/// # Errors
/// Of the media; damage.
pub async fn add_links<P: Pages>(
    tx: &mut Tx<'_, P>,
    number: u64,
    more: i32,
) -> Result<(), FileError> {
    let mut inode = inodes::load_named(tx, number).await?;
    let links = inode.links.checked_add_signed(more);
    let links = links.filter(|links| *links >= 2);
    inode.links = links.ok_or_else(|| damage(number, "a directory has too few links"))?;
    inodes::store(tx, &inode).await
}

/// What an entry led to has one name less; true if the rest of it has to be given back now.
///
/// # Errors
/// Of the media; damage.
pub async fn drop_name<P: Pages>(
    tx: &mut Tx<'_, P>,
    number: u64,
    now_ns: u64,
) -> Result<bool, FileError> {
    let mut inode = inodes::load_named(tx, number).await?;
    inode.changed_ns = now_ns;
    if inode.kind == NodeKind::Directory {
        inode.links = 0;
        add_links(tx, inode.parent, -1).await?;
    } else {
        let links = inode.links.checked_sub(1);
        inode.links = links.ok_or_else(|| damage(number, "something has more names than links"))?;
    }
    match inode.links {
        0 => orphans::drop_nameless(tx, &mut inode).await,
        _ => inodes::store(tx, &inode).await.map(|()| false),
    }
}

/// Makes something under a name.
///
/// # Errors
/// Those of [`look`]; `EEXIST`, `ENOENT`, `EMLINK`, `EINVAL`, `ENAMETOOLONG`, `ENOSPC`; of the
/// media; damage.
pub async fn create<P: Pages>(
    tx: &mut Tx<'_, P>,
    entry: &Entry<'_>,
    new: &New<'_>,
    now_ns: u64,
) -> Result<Attributes, FileError> {
    let (parent, found) = look(tx, entry).await?;
    if found.is_some() {
        return Err(Errno::EEXIST.into());
    }
    check_is_there(&parent)?;
    let (kind, mode) = match new.content {
        Content::File => (NodeKind::File, new.mode),
        Content::Directory if parent.links >= LINKS_MAX => return Err(Errno::EMLINK.into()),
        Content::Directory => (NodeKind::Directory, new.mode),
        Content::Symlink([]) => return Err(Errno::EINVAL.into()),
        Content::Symlink(target) if target.len() > PATH_BYTES_MAX => {
            return Err(Errno::ENAMETOOLONG.into());
        }
        Content::Symlink(_) => (NodeKind::Symlink, 0o777),
        Content::Special(special, _) => (of_special(special), new.mode),
    };
    let number = inodes::allocate(tx, entry.directory).await?;
    let mut inode = Inode::new(number, kind, mode & MODE_BITS, now_ns);
    (inode.uid, inode.gid) = (new.owner.uid, new.owner.gid);
    if let Content::Special(_, device) = new.content {
        inode.device = device;
    }
    if let Content::Symlink(target) = new.content {
        links::put(tx, &mut inode, target).await?;
    }
    if kind == NodeKind::Directory {
        inode.parent = entry.directory;
        add_links(tx, entry.directory, 1).await?;
    }
    inodes::store(tx, &inode).await?;
    enter(tx, entry, (number, kind), now_ns).await?;
    Ok(attributes_of(&inode))
}

/// Gives something one more name.
///
/// # Errors
/// Those of [`look`]; `ESTALE`, `EEXIST`, `ENOENT`, `EPERM`, `EMLINK`, `ENOSPC`; of the media;
/// damage.
pub async fn link<P: Pages>(
    tx: &mut Tx<'_, P>,
    number: u64,
    entry: &Entry<'_>,
    now_ns: u64,
) -> Result<Attributes, FileError> {
    let (parent, found) = look(tx, entry).await?;
    let mut inode = inodes::load(tx, number).await?;
    if found.is_some() {
        return Err(Errno::EEXIST.into());
    }
    check_is_there(&parent)?;
    match inode.links {
        _ if inode.kind == NodeKind::Directory => return Err(Errno::EPERM.into()),
        0 => return Err(Errno::ENOENT.into()),
        LINKS_MAX.. => return Err(Errno::EMLINK.into()),
        _ => inode.links += 1,
    }
    inode.changed_ns = now_ns;
    inodes::store(tx, &inode).await?;
    enter(tx, entry, (number, inode.kind), now_ns).await?;
    Ok(attributes_of(&inode))
}

/// How an operation ended whose gates depend on where a name leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It is done. The number of what has to be given back now, if there is any.
    Done(Option<u64>),
    /// Nothing is done: the name leads to something else than it did.
    Elsewhere,
}

/// Takes a name away that should lead to `expected`.
///
/// # Errors
/// Those of [`look`]; `ENOENT`, `ESTALE`, `EISDIR`, `ENOTDIR`, `ENOTEMPTY`; of the media; damage.
pub async fn remove<P: Pages>(
    tx: &mut Tx<'_, P>,
    (entry, expected): (&Entry<'_>, Option<u64>),
    what: Remove,
    now_ns: u64,
) -> Result<Ended, FileError> {
    let (_, found) = look(tx, entry).await?;
    let found = found.ok_or(Errno::ENOENT)?;
    check_seen(entry, Some(&found))?;
    if expected != Some(found.number) {
        return Ok(Ended::Elsewhere);
    }
    let inode = named(tx, &found).await?;
    match (what, inode.kind) {
        (Remove::Name, NodeKind::Directory) => return Err(Errno::EISDIR.into()),
        (Remove::Directory, NodeKind::Directory) if inode.size > 0 => {
            return Err(Errno::ENOTEMPTY.into());
        }
        (Remove::Directory, NodeKind::Directory) => {}
        (Remove::Directory, _) => return Err(Errno::ENOTDIR.into()),
        _ => {}
    }
    leave(tx, entry.directory, &found, now_ns).await?;
    let has_rest = drop_name(tx, found.number, now_ns).await?;
    Ok(Ended::Done(has_rest.then_some(found.number)))
}

/// Some entries behind a cookie; true if there are no more.
///
/// # Errors
/// `ESTALE`, `ENOTDIR`; of the media; damage.
pub async fn list<P: Pages>(
    tx: &mut Tx<'_, P>,
    number: u64,
    mut cookie: u64,
    most: usize,
) -> Result<(Vec<DirectoryEntry>, bool), FileError> {
    let inode = directory(tx, number).await?;
    let mut entries = Vec::new();
    loop {
        let (found, next) = directory::list(tx, &inode, cookie).await?;
        for found in found {
            if entries.len() == most {
                return Ok((entries, false));
            }
            entries.push(DirectoryEntry {
                cookie: found.key,
                number: found.number,
                kind: kind_of(found.kind),
                name: found.name,
            });
        }
        match next {
            None => return Ok((entries, true)),
            Some(next) => cookie = next - 1,
        }
    }
}
