//! Renaming: one name to another, over another, or two of them exchanged.

use super::directory::{self, Found};
use super::inodes;
use super::names::{
    Ended, LINKS_MAX, add_links, check_is_there, check_seen, directory, drop_name, enter, leave,
    look, named,
};
use super::node::{Inode, Kind, ROOT};
use super::tx::{Tx, damage};
use crate::arguments::Entry;
use crate::errno::{Errno, FileError};
use crate::flags::Rename;
use crate::pages::Pages;

/// No directory is deeper.
const DEPTH_MAX: u32 = 1 << 20;

/// Whether directory `inner` is `outer`, or below it.
async fn is_within<P: Pages>(
    tx: &mut Tx<'_, P>,
    inner: u64,
    outer: u64,
) -> Result<bool, FileError> {
    let mut at = inner;
    for _ in 0..DEPTH_MAX {
        if at == outer {
            return Ok(true);
        }
        if at == ROOT {
            return Ok(false);
        }
        match directory(tx, at).await {
            Ok(inode) => at = inode.parent,
            // The parent of a directory that was removed, which is gone too.
            Err(FileError::Errno(_)) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Err(damage(inner, "directories lie in each other"))
}

/// What a rename moves, and what is in its way.
struct Both {
    source: (Found, Inode),
    target: Option<(Found, Inode)>,
}

impl Both {
    fn is_directory(found: &(Found, Inode)) -> bool {
        found.1.kind == Kind::Directory
    }
}

/// Finds both, with the checks that need no more than the names.
async fn look_at_both<P: Pages>(
    tx: &mut Tx<'_, P>,
    (from, to): (&Entry<'_>, &Entry<'_>),
    how: Rename,
) -> Result<Both, FileError> {
    let (_, source) = look(tx, from).await?;
    let (_, target) = look(tx, to).await?;
    let source = source.ok_or(Errno::ENOENT)?;
    match (how, &target) {
        (Rename::NoReplace, Some(_)) => return Err(Errno::EEXIST.into()),
        (Rename::Exchange, None) => return Err(Errno::ENOENT.into()),
        _ => {}
    }
    check_seen(from, Some(&source))?;
    check_seen(to, target.as_ref())?;
    let inode = named(tx, &source).await?;
    let source = (source, inode);
    let target = match target {
        None => None,
        Some(found) => {
            let inode = named(tx, &found).await?;
            Some((found, inode))
        }
    };
    Ok(Both { source, target })
}

/// Renames, if what is to be replaced is `expected`.
///
/// # Errors
/// Those of the trait; of the media; damage.
pub async fn rename<P: Pages>(
    tx: &mut Tx<'_, P>,
    (from, to): (&Entry<'_>, &Entry<'_>),
    expected: Option<u64>,
    how: Rename,
    now_ns: u64,
) -> Result<Ended, FileError> {
    let both = look_at_both(tx, (from, to), how).await?;
    if both.target.as_ref().map(|(found, _)| found.number) != expected {
        return Ok(Ended::Elsewhere);
    }
    let rest = rename_both(tx, (from, to), both, how, now_ns).await?;
    Ok(Ended::Done(rest))
}

/// Renames; the number of what was replaced, if the rest of it has to be given back now.
async fn rename_both<P: Pages>(
    tx: &mut Tx<'_, P>,
    (from, to): (&Entry<'_>, &Entry<'_>),
    Both { source, target }: Both,
    how: Rename,
    now_ns: u64,
) -> Result<Option<u64>, FileError> {
    let is_exchange = how == Rename::Exchange;
    let is_directory = Both::is_directory(&source);
    if is_directory && is_within(tx, to.directory, source.0.number).await? {
        return Err(Errno::EINVAL.into());
    }
    if let Some(target) = &target
        && Both::is_directory(target)
        && is_within(tx, from.directory, target.0.number).await?
    {
        return Err(match is_exchange {
            true => Errno::EINVAL.into(),
            false => Errno::ENOTEMPTY.into(),
        });
    }
    if target
        .as_ref()
        .is_some_and(|t| t.0.number == source.0.number)
    {
        return Ok(None);
    }
    if let Some(target) = &target
        && !is_exchange
    {
        match (is_directory, Both::is_directory(target)) {
            (true, false) => return Err(Errno::ENOTDIR.into()),
            (false, true) => return Err(Errno::EISDIR.into()),
            _ => {}
        }
    }
    check_is_there(&directory(tx, to.directory).await?)?;
    check_links(tx, (from, to), &source, target.as_ref(), is_exchange).await?;
    match target {
        Some(target) if is_exchange => {
            exchange(tx, (from, to), (&source.0, &target.0), now_ns).await?;
            Ok(None)
        }
        Some(target) => {
            let is_empty = target.1.kind != Kind::Directory || target.1.size == 0;
            match is_empty {
                true => replace(tx, (from, to), (&source.0, &target.0), now_ns).await,
                false => Err(Errno::ENOTEMPTY.into()),
            }
        }
        None => {
            let found = &source.0;
            enter(tx, to, (found.number, found.kind), now_ns).await?;
            leave(tx, from.directory, found, now_ns).await?;
            moved(tx, found, (from, to), now_ns).await?;
            Ok(None)
        }
    }
}

/// Refuses a directory more in one that has as many as there can be.
async fn check_links<P: Pages>(
    tx: &mut Tx<'_, P>,
    (from, to): (&Entry<'_>, &Entry<'_>),
    source: &(Found, Inode),
    target: Option<&(Found, Inode)>,
    is_exchange: bool,
) -> Result<(), FileError> {
    let source = Both::is_directory(source);
    let target = target.is_some_and(Both::is_directory);
    let grows = match (source, target) {
        _ if from.directory == to.directory => None,
        (true, false) => Some(to.directory),
        (false, true) if is_exchange => Some(from.directory),
        _ => None,
    };
    match grows {
        Some(number) if directory(tx, number).await?.links >= LINKS_MAX => {
            Err(Errno::EMLINK.into())
        }
        _ => Ok(()),
    }
}

/// Lets an entry lead to something else.
async fn point<P: Pages>(
    tx: &mut Tx<'_, P>,
    number: u64,
    entry: &Found,
    at: &Found,
    now_ns: u64,
) -> Result<(), FileError> {
    let mut inode = directory(tx, number).await?;
    directory::replace(tx, &mut inode, entry, at.number, at.kind).await?;
    (inode.modified_ns, inode.changed_ns) = (now_ns, now_ns);
    inodes::store(tx, &inode).await
}

async fn exchange<P: Pages>(
    tx: &mut Tx<'_, P>,
    (from, to): (&Entry<'_>, &Entry<'_>),
    (source, target): (&Found, &Found),
    now_ns: u64,
) -> Result<(), FileError> {
    point(tx, from.directory, source, target, now_ns).await?;
    point(tx, to.directory, target, source, now_ns).await?;
    moved(tx, target, (to, from), now_ns).await?;
    moved(tx, source, (from, to), now_ns).await
}

async fn replace<P: Pages>(
    tx: &mut Tx<'_, P>,
    (from, to): (&Entry<'_>, &Entry<'_>),
    (source, target): (&Found, &Found),
    now_ns: u64,
) -> Result<Option<u64>, FileError> {
    point(tx, to.directory, target, source, now_ns).await?;
    leave(tx, from.directory, source, now_ns).await?;
    moved(tx, source, (from, to), now_ns).await?;
    let has_rest = drop_name(tx, target.number, now_ns).await?;
    Ok(has_rest.then_some(target.number))
}

/// Something is in another directory now.
async fn moved<P: Pages>(
    tx: &mut Tx<'_, P>,
    found: &Found,
    (from, to): (&Entry<'_>, &Entry<'_>),
    now_ns: u64,
) -> Result<(), FileError> {
    let mut inode = inodes::load_named(tx, found.number).await?;
    inode.changed_ns = now_ns;
    if inode.kind == Kind::Directory {
        inode.parent = to.directory;
    }
    inodes::store(tx, &inode).await?;
    if inode.kind == Kind::Directory && from.directory != to.directory {
        // More first: none of them may seem to have too few in between.
        add_links(tx, to.directory, 1).await?;
        add_links(tx, from.directory, -1).await?;
    }
    Ok(())
}
