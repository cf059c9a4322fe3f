//! What a cache says of itself, on the first page of its drive's image: whose cache it is, and how
//! it was made.
//!
//! The image has this before the drive runs, as the drive's shape follows from it. There are two
//! copies, written in turn and each within a sector, so that one of them is always whole; of two
//! whole ones the greater number counts. `docs/cache.md` has the format.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use wharf_codec::Codec;
use wharf_host::indexless::Store;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::CacheError;

/// The first bytes of a label.
const MAGIC: [u8; 8] = *b"WHARFFST";
/// The version that this program writes and reads.
const VERSION: u32 = 1;
/// Where the copies lie.
const COPIES_AT: [u64; 2] = [1024, 2048];
/// Bytes of the path of the disk.
const PATH_BYTES: usize = 256;

/// How a cache was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Closed in order: the disk was what the label's digest says.
    Closed,
    /// Open, or its program was killed.
    Open,
    /// Everything was written to the disk and the cache given up.
    Detached,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// How often the label was written.
    pub seq: u64,
    /// How the cache was left.
    pub state: State,
    /// The cache's name.
    pub cache_id: [u8; 16],
    /// The disk's name.
    pub disk_id: [u8; 16],
    /// Bytes of the disk.
    pub disk_bytes: u64,
    /// Bytes that users see.
    pub export_bytes: u64,
    /// Bytes that the cache's drive shows.
    pub shown_bytes: u64,
    /// Bytes that are cached at most.
    pub limit_bytes: u64,
    /// Bytes of a zone of the disk.
    pub zone_bytes: u64,
    /// How the disk holds data.
    pub store: Store,
    /// How the cache's drive compresses.
    pub codec: Codec,
    /// How chunks and units on the disk are compressed.
    pub disk_codec: Codec,
    /// Pages of a unit.
    pub unit_pages: u32,
    /// A digest of what the disk held when the cache was closed.
    pub digest: u64,
    /// A digest of which disk it was.
    pub name_digest: u64,
    /// Where the disk was when it was last used.
    pub disk_path: String,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    magic: [u8; 8],
    version: U32,
    state: U32,
    seq: U64,
    cache_id: [u8; 16],
    disk_id: [u8; 16],
    disk_bytes: U64,
    export_bytes: U64,
    shown_bytes: U64,
    limit_bytes: U64,
    zone_bytes: U64,
    digest: U64,
    name_digest: U64,
    store: u8,
    codec: u8,
    disk_codec: u8,
    unit_pages: u8,
    path_bytes: U32,
    path: [u8; PATH_BYTES],
    reserved: U32,
    crc: U32,
}

const _: () = assert!(size_of::<Raw>() <= 512);

const STATES: [State; 3] = [State::Closed, State::Open, State::Detached];
const STORES: [Store; 3] = [Store::Plain, Store::Chunks, Store::Fixed];
const CODECS: [Codec; 4] = [Codec::None, Codec::Zlib, Codec::Lz4, Codec::Zstd];

/// The number of a choice in its list.
fn number<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let found = all.iter().position(|other| other == one);
    found.expect("every choice is listed") as u8
}

fn crc_of(raw: &Raw) -> u32 {
    let bytes = raw.as_bytes();
    crc_fast::crc32_iscsi(&bytes[..bytes.len() - 4])
}

impl Label {
    /// Sectors of the disk as the cache sees it.
    pub fn sectors(&self) -> u64 {
        self.export_bytes.div_ceil(4096)
    }

    fn encode(&self) -> Raw {
        let mut raw = Raw::new_zeroed();
        raw.magic = MAGIC;
        raw.version = VERSION.into();
        raw.state = u32::from(number(&STATES, &self.state)).into();
        raw.seq = self.seq.into();
        (raw.cache_id, raw.disk_id) = (self.cache_id, self.disk_id);
        raw.disk_bytes = self.disk_bytes.into();
        raw.export_bytes = self.export_bytes.into();
        raw.shown_bytes = self.shown_bytes.into();
        raw.limit_bytes = self.limit_bytes.into();
        raw.zone_bytes = self.zone_bytes.into();
        raw.digest = self.digest.into();
        raw.name_digest = self.name_digest.into();
        raw.store = number(&STORES, &self.store);
        raw.codec = number(&CODECS, &self.codec);
        raw.disk_codec = number(&CODECS, &self.disk_codec);
        raw.unit_pages = self.unit_pages as u8;
        // A path is for people: a long one is cut, between characters.
        let mut end = self.disk_path.len().min(PATH_BYTES);
        while !self.disk_path.is_char_boundary(end) {
            end -= 1;
        }
        raw.path_bytes = (end as u32).into();
        raw.path[..end].copy_from_slice(&self.disk_path.as_bytes()[..end]);
        raw.crc = crc_of(&raw).into();
        raw
    }

    fn decode(raw: &Raw) -> Option<Label> {
        if raw.magic != MAGIC || raw.crc.get() != crc_of(raw) {
            return None;
        }
        let path = raw.path.get(..raw.path_bytes.get() as usize)?;
        Some(Label {
            seq: raw.seq.get(),
            state: *STATES.get(raw.state.get() as usize)?,
            cache_id: raw.cache_id,
            disk_id: raw.disk_id,
            disk_bytes: raw.disk_bytes.get(),
            export_bytes: raw.export_bytes.get(),
            shown_bytes: raw.shown_bytes.get(),
            limit_bytes: raw.limit_bytes.get(),
            zone_bytes: raw.zone_bytes.get(),
            store: *STORES.get(usize::from(raw.store))?,
            codec: *CODECS.get(usize::from(raw.codec))?,
            disk_codec: *CODECS.get(usize::from(raw.disk_codec))?,
            unit_pages: raw.unit_pages.into(),
            digest: raw.digest.get(),
            name_digest: raw.name_digest.get(),
            disk_path: String::from_utf8_lossy(path).into_owned(),
        })
    }

    /// Reads the newest label of an image. Nothing is written.
    ///
    /// # Errors
    /// If the file cannot be read, or has none.
    pub fn read(path: &Path) -> Result<Label, CacheError> {
        let file = File::open(path).map_err(|error| CacheError::system(path, "open", error))?;
        let mut newest: Option<Label> = None;
        for at in COPIES_AT {
            let mut raw = Raw::new_zeroed();
            if file.read_exact_at(raw.as_mut_bytes(), at).is_err() {
                break;
            }
            if raw.magic == MAGIC && raw.crc.get() == crc_of(&raw) && raw.version != VERSION {
                return Err(CacheError::Version {
                    path: path.into(),
                    found: raw.version.get(),
                    known: VERSION,
                });
            }
            let found = Label::decode(&raw);
            if let Some(found) = found
                && newest.as_ref().is_none_or(|held| held.seq < found.seq)
            {
                newest = Some(found);
            }
        }
        newest.ok_or_else(|| CacheError::NoCache(path.into()))
    }

    /// Writes the next label, durably.
    ///
    /// # Errors
    /// If the image cannot be written.
    pub fn write(&mut self, path: &Path) -> Result<(), CacheError> {
        self.seq += 1;
        let at = COPIES_AT[(self.seq % 2) as usize];
        let written = OpenOptions::new().write(true).open(path).and_then(|file| {
            file.write_all_at(self.encode().as_bytes(), at)?;
            file.sync_all()
        });
        written.map_err(|error| CacheError::system(path, "write the label of", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label() -> Label {
        Label {
            seq: 0,
            state: State::Open,
            cache_id: [1; 16],
            disk_id: [2; 16],
            disk_bytes: 1 << 40,
            export_bytes: (1 << 40) - 4096,
            shown_bytes: 1 << 42,
            limit_bytes: 1 << 36,
            zone_bytes: 1 << 28,
            store: Store::Fixed,
            codec: Codec::Lz4,
            disk_codec: Codec::Zlib,
            unit_pages: 8,
            digest: 77,
            name_digest: 78,
            disk_path: "/dev/disk/ä".into(),
        }
    }

    #[test]
    fn a_label_that_is_torn_leaves_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, vec![0; 8192]).unwrap();
        assert!(matches!(Label::read(&path), Err(CacheError::NoCache(_))));
        let mut label = label();
        label.write(&path).unwrap();
        assert_eq!(Label::read(&path).unwrap(), label);
        let before = label.clone();
        label.state = State::Closed;
        label.write(&path).unwrap();
        assert_eq!(Label::read(&path).unwrap(), label);
        // The later copy is damaged: the earlier counts.
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"x", COPIES_AT[(label.seq % 2) as usize] + 20)
            .unwrap();
        assert_eq!(Label::read(&path).unwrap(), before);
    }

    #[test]
    fn a_long_path_is_cut_between_characters() {
        let mut label = label();
        label.disk_path = "ä".repeat(200);
        let found = Label::decode(&label.encode()).unwrap();
        assert_eq!(found.disk_path, "ä".repeat(PATH_BYTES / 2));
    }
}
