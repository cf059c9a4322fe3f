//! Renaming: at most four inodes change, together.

use super::gates::{Inside, RENAMES};
use super::layout::ROOT;
use super::names::{LINKS_MAX, check_is_there, check_seen, drop_name, enter, find, leave, look};
use super::record::Record;
use super::store::Store;
use super::tx::Tx;
use crate::arguments::{By, Entry};
use crate::errno::{Errno, FileError};
use crate::flags::Rename;
use crate::lines::Lines;

/// What is at both ends of a rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ends {
    source: u64,
    target: Option<u64>,
}

/// Whether a rename would put a directory below itself.
#[derive(Debug, Clone, Copy)]
struct Loops {
    /// The directory of `to` is the source, or below it.
    source: bool,
    /// The directory of `from` is the target, or below it.
    target: bool,
}

/// Gives what is at `from` the name `to`.
///
/// # Errors
/// As the trait says of it; of the media; damage.
pub async fn rename<L: Lines>(
    store: &Store<L>,
    by: By<'_>,
    (from, to): (&Entry<'_>, &Entry<'_>),
    how: Rename,
) -> Result<(), FileError> {
    store.check_is_writable()?;
    loop {
        let _inside = alone_if_far(store, from, to).await;
        let (source, target) = (look(store, from).await?, look(store, to).await?);
        let ends = Ends {
            source: source.ok_or(Errno::ENOENT)?,
            target,
        };
        check_how(ends, how)?;
        check_seen(from, source)?;
        check_seen(to, target)?;
        let loops = loops(store, (from, to), ends).await?;
        let numbers = [from.directory, to.directory, ends.source];
        let numbers: Vec<u64> = numbers.into_iter().chain(target).collect();
        let begun = store.begin(&numbers).await;
        let mut tx = store.named(ends.source, begun)?;
        tx.load(from.directory).await?;
        tx.load(to.directory).await?;
        let number_at = |tx: &Tx<'_, L>, entry: &Entry<'_>| -> Result<Option<u64>, Errno> {
            Ok(find(tx.node(entry.directory), entry)?.map(|name| name.number))
        };
        let is_same = number_at(&tx, from)? == source && number_at(&tx, to)? == target;
        if !is_same {
            continue;
        }
        for number in &numbers[2..] {
            let loaded = tx.load(*number).await;
            store.named(*number, loaded)?;
        }
        check(&tx, (from, to), ends, how, loops)?;
        if target == source {
            return Ok(());
        }
        change(&mut tx, by.now_ns, (from, to), ends, how)?;
        return tx.commit().await;
    }
}

/// The gate of renames from one directory to another.
async fn alone_if_far<'a, L: Lines>(
    store: &'a Store<L>,
    from: &Entry<'_>,
    to: &Entry<'_>,
) -> Option<Inside<'a>> {
    match from.directory == to.directory {
        true => None,
        false => Some(store.gates.alone(RENAMES).await),
    }
}

fn check_how(ends: Ends, how: Rename) -> Result<(), Errno> {
    match (how, ends.target) {
        (Rename::NoReplace, Some(_)) => Err(Errno::EEXIST),
        (Rename::Exchange, None) => Err(Errno::ENOENT),
        _ => Ok(()),
    }
}

/// Whether a directory would be below itself. No directory gets another parent meanwhile: whoever
/// asks is behind the gate of renames, or stays in one directory, where there is no such loop.
async fn loops<L: Lines>(
    store: &Store<L>,
    (from, to): (&Entry<'_>, &Entry<'_>),
    ends: Ends,
) -> Result<Loops, FileError> {
    Ok(Loops {
        source: is_within(store, to.directory, ends.source).await?,
        target: match ends.target {
            Some(target) => is_within(store, from.directory, target).await?,
            None => false,
        },
    })
}

/// Whether directory `inner` is `outer`, or below it.
async fn is_within<L: Lines>(store: &Store<L>, inner: u64, outer: u64) -> Result<bool, FileError> {
    let (mut at, mut steps) = (inner, 0);
    while at != outer {
        if at == ROOT || steps > store.geometry.slots() {
            return Ok(false);
        }
        steps += 1;
        at = match store.look(at).await {
            Ok((node, _inside)) => node.inode().parent,
            // The parent of a directory that was removed, which is gone too.
            Err(FileError::Errno(Errno::ESTALE)) => return Ok(false),
            Err(error) => return Err(error),
        };
    }
    Ok(true)
}

fn check<L: Lines>(
    tx: &Tx<'_, L>,
    (from, to): (&Entry<'_>, &Entry<'_>),
    ends: Ends,
    how: Rename,
    loops: Loops,
) -> Result<(), Errno> {
    let is_exchange = how == Rename::Exchange;
    if loops.source {
        return Err(Errno::EINVAL);
    }
    if loops.target {
        return Err(match is_exchange {
            true => Errno::EINVAL,
            false => Errno::ENOTEMPTY,
        });
    }
    if ends.target == Some(ends.source) {
        return Ok(());
    }
    let is_directory = |number: u64| tx.node(number).is_directory();
    let source_is_directory = is_directory(ends.source);
    let target_is_directory = ends.target.is_some_and(is_directory);
    if ends.target.is_some() && !is_exchange {
        match (source_is_directory, target_is_directory) {
            (true, false) => return Err(Errno::ENOTDIR),
            (false, true) => return Err(Errno::EISDIR),
            _ => {}
        }
    }
    check_is_there(tx.node(to.directory))?;
    let is_other = from.directory != to.directory;
    let moves_in = source_is_directory && !target_is_directory;
    let moves_out = is_exchange && target_is_directory && !source_is_directory;
    let is_full = |number: u64| tx.node(number).links() >= LINKS_MAX;
    if is_other && (moves_in && is_full(to.directory) || moves_out && is_full(from.directory)) {
        return Err(Errno::EMLINK);
    }
    match ends.target {
        Some(target) if !is_exchange && tx.node(target).names_count() > 0 => Err(Errno::ENOTEMPTY),
        _ => Ok(()),
    }
}

fn change<L: Lines>(
    tx: &mut Tx<'_, L>,
    now_ns: u64,
    (from, to): (&Entry<'_>, &Entry<'_>),
    ends: Ends,
    how: Rename,
) -> Result<(), FileError> {
    let source_kind = tx.node(ends.source).inode().kind;
    leave(tx, from, now_ns)?;
    if let Some(target) = ends.target {
        leave(tx, to, now_ns)?;
        if how == Rename::Exchange {
            let kind = tx.node(target).inode().kind;
            enter(tx, from, (target, kind), now_ns)?;
            moved(tx, target, from.directory, now_ns)?;
        } else {
            drop_name(tx, target, now_ns)?;
        }
    }
    enter(tx, to, (ends.source, source_kind), now_ns)?;
    moved(tx, ends.source, to.directory, now_ns)
}

/// Something is in another directory now.
fn moved<L: Lines>(tx: &mut Tx<'_, L>, number: u64, to: u64, now_ns: u64) -> Result<(), FileError> {
    let mut inode = tx.node(number).inode();
    inode.changed_ns = now_ns;
    inode.parent = to;
    tx.push(number, &Record::Inode(inode))
}
