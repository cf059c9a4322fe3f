//! The file system that a partition's number names: for whoever mounts what is there.

use crate::arguments::{
    Allocate, By, Entry, New, Remove, Seek, SetXattr, StatFs, Sync, Write, Written,
};
use crate::attributes::{Attributes, DirectoryEntry, SetAttributes};
use crate::block::{self, Wfs};
use crate::bytes::{self, PagesAsLines, Wpm};
use crate::errno::{Fault, FileError};
use crate::file_system::FileSystem;
use crate::flags::Rename;
use crate::lines::Lines;
use crate::pages::Pages;
use crate::payload::{In, Out};

/// Which file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// wfs: extents and a journal, on pages.
    Wfs,
    /// wpm: for persistent memory; here on pages.
    Wpm,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 2] = [Format::Wfs, Format::Wpm];

    /// The number by which a partition says that it holds this one (see [`crate::gpt`]).
    pub fn number(self) -> u8 {
        match self {
            Format::Wfs => block::NUMBER,
            Format::Wpm => bytes::NUMBER,
        }
    }

    /// The one of a number.
    pub fn of_number(number: u8) -> Option<Format> {
        Format::ALL
            .into_iter()
            .find(|format| format.number() == number)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Wfs => "wfs",
            Format::Wpm => "wpm",
        }
    }
}

/// wpm has no use for the key of hashes.
impl From<block::Make> for bytes::Make {
    fn from(new: block::Make) -> bytes::Make {
        bytes::Make {
            file_system: new.file_system,
            now_ns: new.now_ns,
            uid: new.uid,
            gid: new.gid,
            mode: new.mode,
        }
    }
}

/// Why no file system was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MakeError {
    /// Of wfs.
    #[error(transparent)]
    Wfs(#[from] block::MakeError),
    /// Of wpm.
    #[error(transparent)]
    Wpm(#[from] bytes::MakeError),
}

/// Makes a file system of a format.
///
/// # Errors
/// If there cannot be one of so many pages; of the media.
pub async fn make<P: Pages>(pages: &P, format: Format, new: block::Make) -> Result<(), MakeError> {
    match format {
        Format::Wfs => {
            block::make(pages, new).await?;
        }
        Format::Wpm => {
            bytes::make(&PagesAsLines::new(pages), new.into()).await?;
        }
    }
    Ok(())
}

/// What was done to bring a file system up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovered {
    /// wfs.
    Wfs(block::Recovered),
    /// wpm.
    Wpm(bytes::Recovered),
}

/// What is on the media, and what is wrong with it, when it was opened and settled.
///
/// # Errors
/// Of the media, if not even a superblock can be read.
pub async fn check<P: Pages>(pages: &P, format: Format) -> Result<block::Checked, Fault> {
    match format {
        Format::Wfs => block::check(pages).await,
        Format::Wpm => Ok(bytes::check(&PagesAsLines::new(pages)).await?.into()),
    }
}

/// Both checks count the same, without a word in common.
impl From<bytes::Checked> for block::Checked {
    fn from(checked: bytes::Checked) -> block::Checked {
        block::Checked {
            findings: checked.findings,
            files: checked.files,
            directories: checked.directories,
            symlinks: checked.symlinks,
            specials: checked.specials,
            pages_used: checked.pages_used,
        }
    }
}

/// A file system of one format or another: on pages, or in persistent memory.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // there is one for each mount
pub enum Volume<P, L = PagesAsLines<P>> {
    /// wfs, on pages.
    Wfs(Wfs<P>),
    /// wpm, in persistent memory.
    Wpm(Wpm<L>),
}

impl<P: Pages> Volume<P> {
    /// What is on the media, brought up to date, with so many bytes of memory for what is kept of
    /// it.
    ///
    /// # Errors
    /// Of the media, and of damage.
    pub async fn open(
        pages: P,
        format: Format,
        cache_bytes: usize,
    ) -> Result<(Volume<P>, Recovered), FileError> {
        match format {
            Format::Wfs => {
                let (wfs, recovered) = Wfs::open(pages, cache_bytes).await?;
                Ok((Volume::Wfs(wfs), Recovered::Wfs(recovered)))
            }
            Format::Wpm => {
                let (wpm, recovered) = Wpm::open(PagesAsLines::new(pages), cache_bytes).await?;
                Ok((Volume::Wpm(wpm), Recovered::Wpm(recovered)))
            }
        }
    }

    /// The pages below.
    pub fn pages(&self) -> &P {
        match self {
            Volume::Wfs(wfs) => wfs.pages(),
            Volume::Wpm(wpm) => wpm.lines().pages(),
        }
    }

    /// The pages below, without the file system: what was not made durable is lost.
    pub fn into_pages(self) -> P {
        match self {
            Volume::Wfs(wfs) => wfs.into_pages(),
            Volume::Wpm(wpm) => wpm.into_lines().into_pages(),
        }
    }
}

impl<P: Pages, L: Lines> Volume<P, L> {
    /// Which it is.
    pub fn format(&self) -> Format {
        match self {
            Volume::Wfs(_) => Format::Wfs,
            Volume::Wpm(_) => Format::Wpm,
        }
    }

    /// Makes everything durable, and leaves nothing to be done at the next opening.
    ///
    /// # Errors
    /// Of the media.
    pub async fn settle(&self) -> Result<(), FileError> {
        match self {
            Volume::Wfs(wfs) => wfs.settle().await,
            Volume::Wpm(wpm) => wpm.settle().await,
        }
    }
}

/// The same call of whichever it is.
macro_rules! either {
    ($volume:expr, $fs:ident => $call:expr) => {
        match $volume {
            Volume::Wfs($fs) => $call,
            Volume::Wpm($fs) => $call,
        }
    };
}

/// The same, awaited. What wpm does lies in memory of its own: what wfs does, which is most, moves no more bytes than it
/// needs then.
macro_rules! awaited {
    ($volume:expr, $fs:ident => $call:expr) => {
        match $volume {
            Volume::Wfs($fs) => $call.await,
            Volume::Wpm($fs) => Box::pin($call).await,
        }
    };
}

impl<P: Pages, L: Lines> FileSystem for Volume<P, L> {
    fn is_durable(&self) -> bool {
        either!(self, fs => fs.is_durable())
    }

    fn root(&self) -> u64 {
        either!(self, fs => fs.root())
    }

    async fn lookup(&self, directory: u64, name: &[u8]) -> Result<Attributes, FileError> {
        awaited!(self, fs => fs.lookup(directory, name))
    }

    async fn attributes(&self, number: u64) -> Result<Attributes, FileError> {
        awaited!(self, fs => fs.attributes(number))
    }

    async fn set_attributes(
        &self,
        by: By<'_>,
        number: u64,
        set: SetAttributes,
    ) -> Result<Attributes, FileError> {
        awaited!(self, fs => fs.set_attributes(by, number, set))
    }

    async fn create(
        &self,
        by: By<'_>,
        entry: Entry<'_>,
        new: New<'_>,
    ) -> Result<Attributes, FileError> {
        awaited!(self, fs => fs.create(by, entry, new))
    }

    async fn link(
        &self,
        by: By<'_>,
        number: u64,
        entry: Entry<'_>,
    ) -> Result<Attributes, FileError> {
        awaited!(self, fs => fs.link(by, number, entry))
    }

    async fn remove(&self, by: By<'_>, entry: Entry<'_>, what: Remove) -> Result<(), FileError> {
        awaited!(self, fs => fs.remove(by, entry, what))
    }

    async fn rename(
        &self,
        by: By<'_>,
        from: Entry<'_>,
        to: Entry<'_>,
        how: Rename,
    ) -> Result<(), FileError> {
        awaited!(self, fs => fs.rename(by, from, to, how))
    }

    async fn read_link(&self, number: u64) -> Result<Vec<u8>, FileError> {
        awaited!(self, fs => fs.read_link(number))
    }

    async fn list(
        &self,
        directory: u64,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        awaited!(self, fs => fs.list(directory, cookie, most, entries))
    }

    async fn open(&self, number: u64) -> Result<(), FileError> {
        awaited!(self, fs => fs.open(number))
    }

    async fn close(&self, number: u64) -> Result<(), FileError> {
        awaited!(self, fs => fs.close(number))
    }

    async fn read(
        &self,
        number: u64,
        offset: u64,
        out: Out<'_>,
        now_ns: u64,
    ) -> Result<u64, FileError> {
        awaited!(self, fs => fs.read(number, offset, out, now_ns))
    }

    async fn write(
        &self,
        by: By<'_>,
        number: u64,
        write: Write,
        data: In<'_>,
    ) -> Result<Written, FileError> {
        awaited!(self, fs => fs.write(by, number, write, data))
    }

    async fn truncate(&self, by: By<'_>, number: u64, bytes: u64) -> Result<(), FileError> {
        awaited!(self, fs => fs.truncate(by, number, bytes))
    }

    async fn allocate(
        &self,
        by: By<'_>,
        number: u64,
        offset: u64,
        bytes: u64,
        what: Allocate,
    ) -> Result<(), FileError> {
        awaited!(self, fs => fs.allocate(by, number, offset, bytes, what))
    }

    async fn seek(&self, number: u64, offset: u64, what: Seek) -> Result<u64, FileError> {
        awaited!(self, fs => fs.seek(number, offset, what))
    }

    async fn sync(&self, number: u64, what: Sync) -> Result<(), FileError> {
        awaited!(self, fs => fs.sync(number, what))
    }

    async fn sync_all(&self) -> Result<(), FileError> {
        awaited!(self, fs => fs.sync_all())
    }

    async fn xattr(&self, number: u64, name: &[u8]) -> Result<Vec<u8>, FileError> {
        awaited!(self, fs => fs.xattr(number, name))
    }

    async fn set_xattr(
        &self,
        by: By<'_>,
        number: u64,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FileError> {
        awaited!(self, fs => fs.set_xattr(by, number, name, value, how))
    }

    async fn remove_xattr(&self, by: By<'_>, number: u64, name: &[u8]) -> Result<(), FileError> {
        awaited!(self, fs => fs.remove_xattr(by, number, name))
    }

    async fn xattrs(&self, number: u64) -> Result<Vec<Box<[u8]>>, FileError> {
        awaited!(self, fs => fs.xattrs(number))
    }

    async fn stat_fs(&self) -> Result<StatFs, FileError> {
        awaited!(self, fs => fs.stat_fs())
    }
}
