//! Random operations on two file systems at once, for tests: both must do and answer the same.

use std::collections::BTreeMap;

use wharf_runtime::Rng;

use super::testing::now;
use crate::errno::FileError;
use crate::{
    Allocate, Attributes, By, Caller, Content, Entry, Errno, FileSystem, Kind, LIST_START, New,
    Owner, Place, Remove, Rename, Seek, Seen, SetAttributes, SetXattr, Sync, Write,
};
use crate::{In, Out};

/// What is done.
#[derive(Debug, Clone)]
pub enum Op {
    Create(usize, u8, u8, u16, bool),
    Link(usize, usize, u8),
    Remove(usize, u8, bool),
    Rename((usize, u8), (usize, u8), Rename),
    Write(usize, Option<u64>, usize, u8),
    Truncate(usize, u64),
    Allocate(usize, u64, u64, Allocate),
    SetAttributes(usize, u16, u32),
    SetXattr(usize, u8, usize, u8),
    RemoveXattr(usize, u8),
    Open(usize),
    Close(usize),
    Sync(usize),
}

/// How large things are.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub names: u64,
    pub bytes_max: u64,
    pub write_max: u64,
    pub xattr_max: u64,
}

/// Small, so that a state can be remembered after each operation.
pub const SMALL: Sizes = Sizes {
    names: 5,
    bytes_max: 20_000,
    write_max: 9000,
    xattr_max: 300,
};

/// Large enough for trees.
pub const LARGE: Sizes = Sizes {
    names: 40,
    bytes_max: 400_000,
    write_max: 40_000,
    xattr_max: 900,
};

/// An operation by chance. Numbers are indexes into all that was ever made.
pub fn random(rng: &mut Rng, sizes: Sizes, known: usize) -> Op {
    let mut which = || rng_below_newer(rng, known);
    let (a, b) = (which(), which());
    let mut name = || rng.below(sizes.names) as u8;
    let (x, y) = (name(), name());
    let offset = rng.below(sizes.bytes_max);
    let offset = match rng.below(3) {
        0 => offset / 4096 * 4096,
        _ => offset,
    };
    let fill = rng.next_u32() as u8;
    match rng.below(40) {
        0..5 => Op::Create(a, x, 0, rng.below(0o10000) as u16, rng.chance(1, 4)),
        5..7 => Op::Create(a, x, 1, 0o755, rng.chance(1, 8)),
        7 => Op::Create(a, x, 2 + rng.below(3) as u8, 0o777, false),
        8 => Op::Link(a, b, x),
        9..12 => Op::Remove(a, x, rng.chance(1, 3)),
        12..15 => {
            let how = [Rename::Replace, Rename::NoReplace, Rename::Exchange];
            let how = how[[0, 0, 1, 2][rng.below(4) as usize]];
            Op::Rename((a, x), (b, y), how)
        }
        15..24 => {
            let place = rng.chance(2, 3).then_some(offset);
            Op::Write(a, place, rng.below(sizes.write_max) as usize, fill)
        }
        24..27 => Op::Truncate(a, offset),
        27..30 => {
            let all = [
                Allocate::Extend,
                Allocate::KeepSize,
                Allocate::Punch,
                Allocate::Punch,
                Allocate::Zero,
                Allocate::ZeroKeepSize,
            ];
            let bytes = rng.below(sizes.bytes_max / 2);
            Op::Allocate(a, offset, bytes, all[rng.below(6) as usize])
        }
        30 => Op::SetAttributes(a, rng.below(0o10000) as u16, rng.below(9) as u32),
        31..33 => Op::SetXattr(a, x % 4, rng.below(sizes.xattr_max) as usize, fill),
        33 => Op::RemoveXattr(a, x % 4),
        34 => Op::Open(a),
        35..38 => Op::Close(a),
        _ => Op::Sync(a),
    }
}

/// An index below `known`, of late ones rather than of early ones; the root often.
fn rng_below_newer(rng: &mut Rng, known: usize) -> usize {
    let known = known as u64;
    let index = match rng.below(4) {
        0 => 0,
        1 => rng.below(known),
        _ => known - 1 - rng.below(known.min(12)),
    };
    index as usize
}

/// The numbers of all that was ever made, in one file system.
#[derive(Debug, Clone)]
pub struct Numbers(pub Vec<u64>);

fn name_of(name: u8) -> Vec<u8> {
    match name % 5 {
        4 => vec![b'n'; 200 + usize::from(name)],
        _ => format!("name{name}").into_bytes(),
    }
}

/// What an operation gave: attributes without the number and what need not be equal.
type Answer = Result<Option<Attributes>, Errno>;

fn comparable(attributes: Attributes) -> Attributes {
    Attributes {
        number: 0,
        accessed_ns: 0,
        ..attributes
    }
}

/// Does an operation at a time.
pub fn apply<F: FileSystem>(fs: &F, numbers: &mut Numbers, op: &Op, now_ns: u64) -> Answer {
    now(apply_async(fs, numbers, op, now_ns))
}

/// The same, where others are under way too.
pub async fn apply_async<F: FileSystem>(
    fs: &F,
    numbers: &mut Numbers,
    op: &Op,
    now_ns: u64,
) -> Answer {
    let caller = Caller::user(7, 7);
    let by = By {
        caller: &caller,
        now_ns,
    };
    let done = apply_to(fs, numbers, op, by).await;
    done.map(|a| a.map(comparable))
        .map_err(|error| error.errno())
}

async fn apply_to<F: FileSystem>(
    fs: &F,
    numbers: &mut Numbers,
    op: &Op,
    by: By<'_>,
) -> Result<Option<Attributes>, FileError> {
    let at = |index: usize| numbers.0[index];
    match *op {
        Op::Create(directory, name, what, mode, is_open) => {
            let name = name_of(name);
            let target = vec![b't'; [0, 0, 9, 180, 4095][usize::from(what)]];
            let new = New {
                content: match what {
                    0 => Content::File,
                    1 => Content::Directory,
                    _ => Content::Symlink(&target),
                },
                mode,
                owner: Owner { uid: 7, gid: 7 },
                is_open,
            };
            let entry = Entry::new(at(directory), &name);
            let made = fs.create(by, entry, new).await?;
            numbers.0.push(made.number);
            return Ok(Some(made));
        }
        Op::Link(number, directory, name) => {
            let name = name_of(name);
            let entry = Entry::new(at(directory), &name);
            return fs.link(by, at(number), entry).await.map(Some);
        }
        Op::Remove(directory, name, is_directory) => {
            let name = name_of(name);
            let what = match is_directory {
                true => Remove::Directory,
                false => Remove::Name,
            };
            fs.remove(by, Entry::new(at(directory), &name), what)
                .await?;
        }
        Op::Rename((from, x), (to, y), how) => {
            let (x, y) = (name_of(x), name_of(y));
            let (from, to) = (Entry::new(at(from), &x), Entry::new(at(to), &y));
            let from = Entry {
                seen: Seen::Any,
                ..from
            };
            fs.rename(by, from, to, how).await?;
        }
        Op::Write(number, place, bytes, fill) => {
            let data: Vec<u8> = (0..bytes).map(|i| fill.wrapping_add(i as u8)).collect();
            let write = Write {
                place: place.map_or(Place::End, Place::At),
                end_max: u64::MAX,
            };
            let written = fs.write(by, at(number), write, In::from(&data)).await?;
            assert_eq!(written.bytes, bytes as u64);
        }
        Op::Truncate(number, bytes) => fs.truncate(by, at(number), bytes).await?,
        Op::Allocate(number, offset, bytes, what) => {
            fs.allocate(by, at(number), offset, bytes, what).await?;
        }
        Op::SetAttributes(number, mode, uid) => {
            let set = SetAttributes {
                mode: (uid % 2 == 0).then_some(mode),
                uid: (uid > 3).then_some(uid),
                modified_ns: (uid == 3).then_some(5),
                ..SetAttributes::default()
            };
            return fs.set_attributes(by, at(number), set).await.map(Some);
        }
        Op::SetXattr(number, name, bytes, fill) => {
            let name = format!("user.{name}");
            let how = [
                SetXattr::Put,
                SetXattr::Put,
                SetXattr::Create,
                SetXattr::Replace,
            ];
            let how = how[usize::from(fill % 4)];
            let value = vec![fill; bytes];
            fs.set_xattr(by, at(number), name.as_bytes(), &value, how)
                .await?;
        }
        Op::RemoveXattr(number, name) => {
            let name = format!("user.{name}");
            fs.remove_xattr(by, at(number), name.as_bytes()).await?;
        }
        Op::Open(number) => fs.open(at(number)).await?,
        Op::Close(number) => fs.close(at(number)).await?,
        Op::Sync(number) => fs.sync(at(number), Sync::All).await?,
    }
    Ok(None)
}

/// All that can be seen of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thing {
    pub attributes: Attributes,
    pub target: Vec<u8>,
    pub xattrs: BTreeMap<Box<[u8]>, Vec<u8>>,
    /// Of a file: where its data and its holes begin, in turn.
    pub edges: Vec<u64>,
    pub bytes: Vec<u8>,
}

/// All that can be seen, by path.
pub type Dump = BTreeMap<Vec<u8>, Thing>;

/// Looks at everything below the root, and at how all numbers stand.
pub fn dump<F: FileSystem>(fs: &F) -> Result<Dump, FileError> {
    let mut all = Dump::new();
    let mut todo = vec![(b"/".to_vec(), fs.root())];
    while let Some((path, number)) = todo.pop() {
        let thing = now(look(fs, number))?;
        if thing.attributes.kind == Kind::Directory {
            let mut cookie = LIST_START;
            loop {
                let mut entries = Vec::new();
                let is_end = now(fs.list(number, cookie, 3, &mut entries))?;
                for entry in entries {
                    let mut path = path.clone();
                    path.extend_from_slice(&entry.name);
                    path.push(b'/');
                    todo.push((path, entry.number));
                    cookie = entry.cookie;
                }
                if is_end {
                    break;
                }
            }
            if let Ok(parent) = now(fs.lookup(number, b"..")) {
                assert_eq!(parent.kind, Kind::Directory);
            }
        }
        assert!(all.insert(path, thing).is_none(), "a path is listed twice");
    }
    Ok(all)
}

/// Looks at one thing.
pub async fn look<F: FileSystem>(fs: &F, number: u64) -> Result<Thing, FileError> {
    let attributes = fs.attributes(number).await?;
    let mut thing = Thing {
        attributes: comparable(attributes),
        target: Vec::new(),
        xattrs: BTreeMap::new(),
        edges: Vec::new(),
        bytes: Vec::new(),
    };
    for name in fs.xattrs(number).await? {
        let value = fs.xattr(number, &name).await?;
        thing.xattrs.insert(name, value);
    }
    match attributes.kind {
        Kind::Symlink => thing.target = fs.read_link(number).await?,
        Kind::Directory | Kind::Special(_) => {}
        Kind::File => {
            thing.bytes = vec![0xee; attributes.bytes as usize];
            let read = fs.read(number, 0, Out::from(&mut thing.bytes), 0).await?;
            assert_eq!(read, attributes.bytes);
            let (mut at, mut what) = (0, Seek::Hole);
            while let Ok(edge) = fs.seek(number, at, what).await {
                thing.edges.push(edge);
                at = edge;
                what = match what {
                    Seek::Hole => Seek::Data,
                    Seek::Data => Seek::Hole,
                };
            }
        }
    }
    Ok(thing)
}
