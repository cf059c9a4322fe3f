//! What an inode is: what its log says, record by record.
//!
//! The same function makes it of a log that is read and changes it when a record is added to the
//! log, so what is in memory and what is on the media are one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::extents::Extents;
use super::layout::{Geometry, PAGE};
use super::record::{Inode, Name, Record, Value};
use crate::attributes::{Attributes, Kind, Owner};
use crate::pages::Run;

/// Bytes of records in a page of a log, about: the last ones may not fit.
const PAGE_RECORDS: u64 = PAGE - 320;

/// Bytes of memory of an inode, a name besides its bytes, an extent: about.
const NODE_MEMORY: usize = 320;
const NAME_MEMORY: usize = 160;
const EXTENT_MEMORY: usize = 64;

/// Bytes of records: of attributes, an extent, and a name besides its bytes.
const INODE_BYTES: u64 = 80;
const EXTENT_BYTES: u64 = 40;
const NAME_BYTES: u64 = 36;

/// Where a log is.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// The address behind its last record.
    pub end: u64,
    /// Its pages, in order.
    pub pages: Vec<u64>,
}

/// An inode. Of these parts only those that its kind has are ever there.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its number.
    pub number: u64,
    /// Its attributes; none until the first record.
    inode: Option<Inode>,
    /// The pages of a file.
    pub extents: Extents,
    /// The entries of a directory, by cookie.
    names: BTreeMap<u64, Name>,
    by_name: BTreeMap<Arc<[u8]>, u64>,
    names_bytes: u64,
    subdirectories: u32,
    /// Extended attributes.
    pub xattrs: BTreeMap<Arc<[u8]>, Value>,
    /// Where a symbolic link leads.
    pub target: Option<Value>,
    /// Its log.
    pub log: Log,
}

impl Node {
    /// One of which nothing is known so far.
    pub fn new(number: u64) -> Node {
        Node {
            number,
            inode: None,
            extents: Extents::default(),
            names: BTreeMap::new(),
            by_name: BTreeMap::new(),
            names_bytes: 0,
            subdirectories: 0,
            xattrs: BTreeMap::new(),
            target: None,
            log: Log::default(),
        }
    }

    /// Its attributes.
    ///
    /// # Panics
    /// If it has none: every log begins with them, which was looked at when it was read.
    pub fn inode(&self) -> Inode {
        self.inode.expect("a log begins with attributes")
    }

    /// Whether there are attributes.
    pub fn is_whole(&self) -> bool {
        self.inode.is_some()
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.inode().kind == Kind::Directory
    }

    /// Names that lead to it; 2 and its subdirectories of a directory.
    pub fn links(&self) -> u32 {
        let inode = self.inode();
        match inode.kind {
            Kind::Directory if inode.links > 0 => 2 + self.subdirectories,
            _ => inode.links,
        }
    }

    /// The entry of a name.
    pub fn name(&self, name: &[u8]) -> Option<&Name> {
        self.names.get(self.by_name.get(name)?)
    }

    /// The entries behind a cookie.
    pub fn names_behind(&self, cookie: u64) -> impl Iterator<Item = &Name> {
        self.names
            .range(cookie.saturating_add(1)..)
            .map(|(_, name)| name)
    }

    /// How many entries a directory has.
    pub fn names_count(&self) -> usize {
        self.names.len()
    }

    /// Its attributes as all file systems give them.
    pub fn attributes(&self) -> Attributes {
        let inode = self.inode();
        Attributes {
            number: self.number,
            kind: inode.kind,
            mode: inode.mode,
            owner: Owner {
                uid: inode.uid,
                gid: inode.gid,
            },
            links: self.links(),
            bytes: match inode.kind {
                Kind::Directory => self.names.len() as u64,
                Kind::Symlink => self.target.as_ref().map_or(0, |target| target.bytes.into()),
                _ => inode.size,
            },
            device: inode.device,
            stored_bytes: self.extents.pages() * PAGE,
            accessed_ns: inode.accessed_ns,
            modified_ns: inode.modified_ns,
            changed_ns: inode.changed_ns,
        }
    }

    /// All that has pages of its own besides the log.
    pub fn runs(&self) -> Vec<Run> {
        let values = self.xattrs.values().chain(&self.target);
        let pages = values
            .flat_map(|value| value.pages())
            .map(|page| Run::one(*page));
        self.extents
            .iter()
            .map(|extent| extent.run())
            .chain(pages)
            .collect()
    }

    /// Bytes of memory that it takes, about.
    pub fn memory(&self) -> usize {
        let values = self.xattrs.iter();
        let values = values.map(|(name, value)| 96 + name.len() + value.bytes.min(1024) as usize);
        NODE_MEMORY
            + self.names.len() * NAME_MEMORY
            + self.names_bytes as usize
            + self.extents.count() * EXTENT_MEMORY
            + self.log.pages.len() * 8
            + values.sum::<usize>()
    }

    /// Pages that its log needs if it says everything once, about.
    pub fn log_pages_needed(&self) -> u64 {
        let values = self.xattrs.iter();
        let values =
            values.map(|(name, value)| 40 + (name.len() as u64) + u64::from(value.bytes.min(1024)));
        let bytes = INODE_BYTES
            + self.names.len() as u64 * NAME_BYTES
            + self.names_bytes
            + self.extents.count() as u64 * EXTENT_BYTES
            + self
                .target
                .as_ref()
                .map_or(0, |target| 32 + u64::from(target.bytes.min(1024)))
            + values.sum::<u64>();
        1 + bytes / PAGE_RECORDS
    }

    /// The records that say everything once.
    pub fn snapshot(&self) -> impl Iterator<Item = Record> {
        let xattrs = self.xattrs.iter();
        let xattrs = xattrs.map(|(name, value)| Record::Xattr(name.clone(), value.clone()));
        std::iter::once(Record::Inode(self.inode()))
            .chain(self.target.iter().cloned().map(Record::Target))
            .chain(self.names.values().cloned().map(Record::Name))
            .chain(self.extents.iter().copied().map(Record::Extent))
            .chain(xattrs)
    }

    /// What a record says is so from now on. Storage that is not in use any more is added to
    /// `freed`.
    ///
    /// # Errors
    /// What is wrong with it, and then nothing is changed: such a record is damage.
    pub fn apply(
        &mut self,
        geometry: &Geometry,
        record: &Record,
        freed: &mut Vec<Run>,
    ) -> Result<(), &'static str> {
        let kind = match (self.inode, record) {
            (None, Record::Inode(_)) => None,
            (None, _) => return Err("a log does not begin with attributes"),
            (Some(inode), _) => Some(inode.kind),
        };
        match record {
            Record::Inode(inode) => {
                if kind.is_some_and(|kind| kind != inode.kind) {
                    return Err("an inode becomes another kind");
                }
                self.inode = Some(*inode);
            }
            Record::Extent(extent) => {
                let is_place = extent.first == 0 || geometry.has(extent.first, extent.pages);
                if kind != Some(Kind::File)
                    || !is_place
                    || extent.at.checked_add(extent.pages).is_none()
                {
                    return Err("an extent is where none can be");
                }
                self.extents.replace(*extent, freed);
            }
            Record::Name(name) => self.enter(kind, name)?,
            Record::NameGone(cookie) => {
                let gone = self
                    .names
                    .remove(cookie)
                    .ok_or("an entry goes that is not there")?;
                self.by_name.remove(&gone.name);
                self.names_bytes -= gone.name.len() as u64;
                self.subdirectories -= u32::from(gone.kind == Kind::Directory);
            }
            Record::Xattr(name, value) => {
                check_pages(geometry, value)?;
                if let Some(old) = self.xattrs.insert(name.clone(), value.clone()) {
                    freed.extend(old.pages().iter().map(|page| Run::one(*page)));
                }
            }
            Record::XattrGone(name) => {
                let gone = self.xattrs.remove(name);
                let gone = gone.ok_or("an extended attribute goes that is not there")?;
                freed.extend(gone.pages().iter().map(|page| Run::one(*page)));
            }
            Record::Target(target) => {
                check_pages(geometry, target)?;
                if kind != Some(Kind::Symlink) || self.target.is_some() {
                    return Err("a target is where none can be");
                }
                self.target = Some(target.clone());
            }
        }
        Ok(())
    }

    fn enter(&mut self, kind: Option<Kind>, name: &Name) -> Result<(), &'static str> {
        let is_new =
            !self.names.contains_key(&name.cookie) && !self.by_name.contains_key(&name.name);
        if kind != Some(Kind::Directory) || !is_new {
            return Err("an entry is where none can be");
        }
        self.subdirectories += u32::from(name.kind == Kind::Directory);
        self.names_bytes += name.name.len() as u64;
        self.by_name.insert(name.name.clone(), name.cookie);
        self.names.insert(name.cookie, name.clone());
        Ok(())
    }
}

fn check_pages(geometry: &Geometry, value: &Value) -> Result<(), &'static str> {
    match value.pages().iter().all(|page| geometry.has(*page, 1)) {
        true => Ok(()),
        false => Err("a value is where none can be"),
    }
}
