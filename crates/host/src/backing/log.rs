//! The log: zones of chunks, one behind the other.
//!
//! A chunk is its header and its payload, padded to 512 bytes. Chunks gather in memory and go out in
//! whole sectors; a flush pads the last one, which is never written again. A zone that is full is
//! flushed and then gets its summary, so that a summary speaks of chunks that are there.
//!
//! What of a zone is still mapped is counted twice, in weights. The *live* part is what a collection would
//! gain least from: each sector that is mapped has its share of its chunk's granules. The *held* part is what
//! collection is sure to get along with: a chunk counts whole until none of its sectors is mapped, as what is
//! left of it may compress worse than the whole did. No chunk counts for less than [`WEIGHT_GRANULES_MIN`],
//! so that zones of the smallest chunks do not overflow with their summaries.

use std::cell::{Cell, RefCell};

use zerocopy::{FromBytes, IntoBytes};

use super::BackingError;
use super::chunks::Row;
use super::format::{
    CHUNK_MAGIC, Checked, ChunkHeader, GRANULE_BYTES, SECTOR_BYTES, SUMMARY_MAGIC, SummaryEntry,
    SummaryFooter, ZONE_MAGIC, ZoneHeader, granules_of,
};
use super::media::Zones;

/// The fewest granules that a chunk counts for.
const WEIGHT_GRANULES_MIN: u64 = 4;

/// The weight of a granule.
pub const WEIGHT: u64 = 1 << 16;

/// Bytes that are gathered before they are written.
const TAIL_BYTES: usize = 256 << 10;

/// Bytes that a scan of a zone reads at a time: the largest chunk fits in.
const WINDOW_BYTES: u64 = 2 << 20;

/// Granules of a sector.
const SECTOR_GRANULES: u64 = (SECTOR_BYTES / GRANULE_BYTES) as u64;

/// What a zone is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It holds nothing.
    Free,
    /// It is appended to.
    Open,
    /// It holds chunks.
    Closed,
    /// It holds chunks, and some that are mapped are damaged: it stays until they are written over.
    Damaged,
    /// Nothing of it is mapped any more; it is free when the mapping that says so is durable.
    Emptied,
}

/// A zone as it is known in memory.
#[derive(Debug, Clone, Copy)]
pub struct Zone {
    /// What it is.
    pub kind: Kind,
    /// Weight of the sectors that are mapped of it.
    pub live: u64,
    /// Weight of the chunks of which something is mapped.
    pub held: u64,
    /// Number of the latest chunk.
    pub last_seq: u64,
}

struct Open {
    zone: u32,
    first_seq: u64,
    /// Granules that are used, those gathered with them.
    granules: u64,
    /// Where in the zone the gathered bytes begin.
    tail_at: u64,
    tail: Vec<u8>,
    entries: Vec<SummaryEntry>,
}

/// A chunk with its header, as it was read.
#[derive(Debug)]
pub struct Chunk {
    /// The header.
    pub header: ChunkHeader,
    /// The payload.
    pub payload: Vec<u8>,
}

/// See the [module](self).
pub struct Log<Z> {
    media: Z,
    disk_id: [u8; 16],
    zones: RefCell<Vec<Zone>>,
    /// What all zones hold.
    held: Cell<u64>,
    open: RefCell<Option<Open>>,
    seq: Cell<u64>,
    /// The zone that was opened last.
    latest: Cell<u32>,
    zone_granules: u64,
    entries_max: usize,
    summary_sectors: u32,
}

impl<Z: Zones> Log<Z> {
    /// A log over zones of which nothing is mapped yet; chunks get numbers from `seq` on.
    pub fn new(media: Z, disk_id: [u8; 16], seq: u64) -> Log<Z> {
        let zone_granules = u64::from(media.zone_sectors()) * SECTOR_GRANULES;
        let entries_max =
            (zone_granules.saturating_sub(SECTOR_GRANULES) / WEIGHT_GRANULES_MIN) as usize;
        let summary_bytes = entries_max * size_of::<SummaryEntry>() + size_of::<SummaryFooter>();
        let blank = Zone {
            kind: Kind::Free,
            live: 0,
            held: 0,
            last_seq: 0,
        };
        Log {
            zones: RefCell::new(vec![blank; media.zones() as usize]),
            held: Cell::new(0),
            media,
            disk_id,
            open: RefCell::new(None),
            seq: Cell::new(seq),
            latest: Cell::new(0),
            zone_granules,
            entries_max,
            summary_sectors: summary_bytes.div_ceil(SECTOR_BYTES) as u32,
        }
    }

    /// Granules of all zones.
    pub fn granules(&self) -> u64 {
        self.zones.borrow().len() as u64 * self.zone_granules
    }

    /// Granules of a zone that chunks may take.
    pub fn usable_granules(&self) -> u64 {
        let beside = SECTOR_GRANULES * (1 + u64::from(self.summary_sectors));
        self.zone_granules.saturating_sub(beside)
    }

    /// The zones.
    pub fn zones(&self) -> Vec<Zone> {
        self.zones.borrow().clone()
    }

    /// How many zones there are.
    pub fn zone_count(&self) -> u64 {
        self.zones.borrow().len() as u64
    }

    /// Puts back what was taken out of the accounts to check them.
    pub fn restore(&self, zones: Vec<Zone>) {
        self.held.set(zones.iter().map(|zone| zone.held).sum());
        self.zones.replace(zones);
    }

    /// How many zones are free.
    pub fn free_zones(&self) -> u32 {
        self.count(Kind::Free)
    }

    /// How many zones are of a kind.
    pub fn count(&self, kind: Kind) -> u32 {
        self.zones
            .borrow()
            .iter()
            .filter(|zone| zone.kind == kind)
            .count() as u32
    }

    /// Weight of all chunks of which something is mapped.
    pub fn held(&self) -> u64 {
        self.held.get()
    }

    /// Weight of a chunk with so many bytes of payload.
    pub fn weight_of(bytes: u32) -> u64 {
        granules_of(bytes).max(WEIGHT_GRANULES_MIN) * WEIGHT
    }

    fn zone_of(&self, granule: u64) -> (u32, u64) {
        (
            (granule / self.zone_granules) as u32,
            granule % self.zone_granules,
        )
    }

    /// A group's rows are others now.
    pub fn account(&self, before: &[Row], after: &[Row]) {
        let mut zones = self.zones.borrow_mut();
        // What is added first, so that nothing is less than zero in between.
        for (rows, adds) in [(after, true), (before, false)] {
            let mut seen = Vec::with_capacity(rows.len());
            for row in rows {
                let zone = &mut zones[self.zone_of(row.granule).0 as usize];
                let whole = Self::weight_of(row.bytes);
                let part = whole / u64::from(row.chunk_sectors) * u64::from(row.count);
                let is_new = !seen.contains(&row.granule);
                let held = if is_new { whole } else { 0 };
                self.held.set(match adds {
                    true => self.held.get() + held,
                    false => self.held.get() - held,
                });
                match adds {
                    true => (zone.live, zone.held) = (zone.live + part, zone.held + held),
                    false => (zone.live, zone.held) = (zone.live - part, zone.held - held),
                }
                if is_new {
                    seen.push(row.granule);
                }
                if zone.kind == Kind::Free {
                    // Found when the mapping is read: it is not written to before it is emptied.
                    zone.kind = Kind::Closed;
                }
            }
        }
    }

    /// A number for what is written next: greater than all before.
    pub fn next_seq(&self) -> u64 {
        self.seq.set(self.seq.get() + 1);
        self.seq.get()
    }

    /// Adds a chunk of data that was written as number `seq`; gives where it begins.
    ///
    /// # Errors
    /// If no zone is free, or the disk fails.
    pub async fn append(
        &self,
        seq: u64,
        (lba, sectors): (u64, u32),
        codec: u8,
        payload: &[u8],
    ) -> Result<u64, BackingError> {
        let granules = granules_of(payload.len() as u32);
        if !self.has_room(granules) {
            self.close().await?;
            self.open_next()?;
        }
        let header = ChunkHeader::new(seq, lba, sectors, codec, payload);
        let (granule, gathered) = {
            let mut open = self.open.borrow_mut();
            let open = open.as_mut().expect("it was opened");
            let within = open.granules;
            open.tail.extend_from_slice(header.as_bytes());
            open.tail.extend_from_slice(payload);
            open.tail
                .resize(open.tail.len().next_multiple_of(GRANULE_BYTES), 0);
            open.granules += granules;
            open.entries.push(SummaryEntry {
                seq: seq.into(),
                lba: lba.into(),
                granule: (within as u32).into(),
                bytes: header.bytes,
                sectors: header.sectors,
                codec,
                reserved: [0; 5],
            });
            let zone = &mut self.zones.borrow_mut()[open.zone as usize];
            zone.last_seq = zone.last_seq.max(seq);
            (
                u64::from(open.zone) * self.zone_granules + within,
                open.tail.len(),
            )
        };
        if gathered >= TAIL_BYTES {
            self.write_tail().await?;
        }
        Ok(granule)
    }

    /// Whether so many granules fit into the open zone.
    pub fn has_room(&self, granules: u64) -> bool {
        let end = SECTOR_GRANULES + self.usable_granules();
        let open = self.open.borrow();
        open.as_ref().is_some_and(|open| {
            open.granules + granules <= end && open.entries.len() < self.entries_max
        })
    }

    /// Writes the whole sectors that are gathered.
    async fn write_tail(&self) -> Result<(), BackingError> {
        let (zone, at, data) = {
            let open = self.open.borrow();
            let Some(open) = open.as_ref() else {
                return Ok(());
            };
            let whole = open.tail.len() / SECTOR_BYTES * SECTOR_BYTES;
            (open.zone, open.tail_at, open.tail[..whole].to_vec())
        };
        if data.is_empty() {
            return Ok(());
        }
        let sector = (at / SECTOR_BYTES as u64) as u32;
        self.media.append(zone, sector, &data).await?;
        // Until now reads found it in memory.
        if let Some(open) = self.open.borrow_mut().as_mut() {
            open.tail.drain(..data.len());
            open.tail_at += data.len() as u64;
        }
        Ok(())
    }

    /// Has all chunks written, and made durable.
    ///
    /// # Errors
    /// If the disk fails.
    pub async fn flush(&self) -> Result<(), BackingError> {
        if let Some(open) = self.open.borrow_mut().as_mut() {
            let padded = open.tail.len().next_multiple_of(SECTOR_BYTES);
            open.granules += ((padded - open.tail.len()) / GRANULE_BYTES) as u64;
            open.tail.resize(padded, 0);
        }
        self.write_tail().await?;
        Ok(self.media.flush().await?)
    }

    /// Closes the open zone: its chunks become durable, then its summary is written.
    async fn close(&self) -> Result<(), BackingError> {
        if self.open.borrow().is_none() {
            return Ok(());
        }
        self.flush().await?;
        let (zone, summary) = {
            let open = self.open.borrow();
            let open = open.as_ref().expect("only this closes it");
            (open.zone, self.summary(open))
        };
        let at = self.media.zone_sectors() - (summary.len() / SECTOR_BYTES) as u32;
        self.media.append(zone, at, &summary).await?;
        self.open.replace(None);
        self.zones.borrow_mut()[zone as usize].kind = Kind::Closed;
        Ok(())
    }

    /// Entries, padding, footer, in whole sectors.
    fn summary(&self, open: &Open) -> Vec<u8> {
        let mut bytes = open.entries.as_bytes().to_vec();
        let all = (bytes.len() + size_of::<SummaryFooter>()).next_multiple_of(SECTOR_BYTES);
        bytes.resize(all - size_of::<SummaryFooter>(), 0);
        let mut footer = SummaryFooter {
            magic: SUMMARY_MAGIC,
            zone: open.zone.into(),
            first_seq: open.first_seq.into(),
            entries: (open.entries.len() as u32).into(),
            reserved: 0.into(),
            crc: 0.into(),
        };
        bytes.extend_from_slice(&footer.as_bytes()[..size_of::<SummaryFooter>() - 4]);
        footer.crc = crc_fast::crc32_iscsi(&bytes).into();
        bytes.extend_from_slice(footer.crc.as_bytes());
        bytes
    }

    fn open_next(&self) -> Result<(), BackingError> {
        let mut zones = self.zones.borrow_mut();
        let count = zones.len() as u32;
        let after = (0..count).map(|step| (self.latest.get() + 1 + step) % count);
        let is_free = |zone: &u32| zones[*zone as usize].kind == Kind::Free;
        let zone = after.into_iter().find(is_free).ok_or(BackingError::Full)?;
        self.latest.set(zone);
        zones[zone as usize] = Zone {
            kind: Kind::Open,
            last_seq: 0,
            ..zones[zone as usize]
        };
        let first_seq = self.next_seq();
        let header = ZoneHeader {
            magic: ZONE_MAGIC,
            zone: zone.into(),
            first_seq: first_seq.into(),
            disk_id: self.disk_id,
            reserved: 0.into(),
            crc: 0.into(),
        };
        self.open.replace(Some(Open {
            zone,
            first_seq,
            granules: SECTOR_GRANULES,
            tail_at: 0,
            tail: header.sector(),
            entries: Vec::new(),
        }));
        Ok(())
    }

    /// Reads the chunk at a granule with so many bytes of payload; `None` if there is no such chunk.
    ///
    /// # Errors
    /// If the disk fails.
    pub async fn read(&self, granule: u64, bytes: u32) -> Result<Option<Chunk>, BackingError> {
        let (zone, within) = self.zone_of(granule);
        let (at, length) = (
            within * GRANULE_BYTES as u64,
            size_of::<ChunkHeader>() + bytes as usize,
        );
        if zone >= self.media.zones() || within + granules_of(bytes) > self.zone_granules {
            return Ok(None);
        }
        let mut data = vec![0; length];
        let from_disk = self.read_gathered(zone, at, &mut data);
        if from_disk > 0 {
            self.media.read(zone, at, &mut data[..from_disk]).await?;
        }
        Ok(parse(&data, bytes))
    }

    /// Copies what of a part of a zone is gathered in memory, which is its end; gives how much is on the
    /// disk.
    fn read_gathered(&self, zone: u32, at: u64, data: &mut [u8]) -> usize {
        let open = self.open.borrow();
        let Some(open) = open.as_ref().filter(|open| open.zone == zone) else {
            return data.len();
        };
        let on_disk = open.tail_at.saturating_sub(at).min(data.len() as u64) as usize;
        if on_disk < data.len() {
            let from = (at + on_disk as u64 - open.tail_at) as usize;
            let end = (from + data.len() - on_disk).min(open.tail.len());
            if from < end {
                data[on_disk..on_disk + end - from].copy_from_slice(&open.tail[from..end]);
            }
        }
        on_disk
    }

    /// The chunks of a zone that is not open, in their order: by its summary, else by looking at every place.
    ///
    /// # Errors
    /// If the disk fails.
    pub async fn entries(&self, zone: u32) -> Result<Vec<SummaryEntry>, BackingError> {
        let mut sector = vec![0; SECTOR_BYTES];
        self.media.read(zone, 0, &mut sector).await?;
        let Some(header) = ZoneHeader::opened(&sector) else {
            return Ok(Vec::new());
        };
        let is_own = header.magic == ZONE_MAGIC
            && header.zone.get() == zone
            && header.disk_id == self.disk_id;
        if !is_own {
            return Ok(Vec::new());
        }
        let first_seq = header.first_seq.get();
        match self.read_summary(zone, first_seq).await? {
            Some(entries) => Ok(entries),
            None => self.scan(zone).await,
        }
    }

    async fn read_summary(
        &self,
        zone: u32,
        first_seq: u64,
    ) -> Result<Option<Vec<SummaryEntry>>, BackingError> {
        let zone_bytes = self.zone_granules * GRANULE_BYTES as u64;
        let footer_bytes = size_of::<SummaryFooter>();
        let mut last = vec![0; footer_bytes];
        self.media
            .read(zone, zone_bytes - footer_bytes as u64, &mut last)
            .await?;
        let Ok(footer) = SummaryFooter::read_from_bytes(&last) else {
            return Ok(None);
        };
        let count = footer.entries.get() as usize;
        let is_own = footer.magic == SUMMARY_MAGIC
            && footer.zone.get() == zone
            && footer.first_seq.get() == first_seq
            && count <= self.entries_max;
        if !is_own {
            return Ok(None);
        }
        let bytes = count * size_of::<SummaryEntry>();
        let all = (bytes + footer_bytes).next_multiple_of(SECTOR_BYTES);
        let mut data = vec![0; all];
        self.media
            .read(zone, zone_bytes - all as u64, &mut data)
            .await?;
        if crc_fast::crc32_iscsi(&data[..all - 4]) != footer.crc.get() {
            return Ok(None);
        }
        let entries = <[SummaryEntry]>::ref_from_bytes(&data[..bytes]);
        Ok(entries.ok().map(<[SummaryEntry]>::to_vec))
    }

    /// Every chunk of a zone that is whole, also those from before the zone was begun anew: what they hold was
    /// written again with a greater number, or moved with the same, before the zone was given up.
    async fn scan(&self, zone: u32) -> Result<Vec<SummaryEntry>, BackingError> {
        let zone_bytes = self.zone_granules * GRANULE_BYTES as u64;
        let (mut at, mut entries) = (SECTOR_BYTES as u64, Vec::new());
        let (mut window, mut window_at) = (Vec::new(), 0);
        while at + GRANULE_BYTES as u64 <= zone_bytes {
            let ends = window_at + window.len() as u64;
            if at + WINDOW_BYTES / 2 > ends && ends < zone_bytes {
                window_at = at / SECTOR_BYTES as u64 * SECTOR_BYTES as u64;
                window = vec![0; WINDOW_BYTES.min(zone_bytes - window_at) as usize];
                self.media.read(zone, window_at, &mut window).await?;
            }
            let data = &window[(at - window_at) as usize..];
            let header = ChunkHeader::read_from_prefix(data).map(|(header, _)| header);
            let chunk = header
                .ok()
                .filter(ChunkHeader::is_plausible)
                .and_then(|header| parse(data, header.bytes.get()));
            let Some(chunk) = chunk else {
                // After a flush, or a torn chunk, chunks go on with a sector.
                at = (at + 1).next_multiple_of(SECTOR_BYTES as u64);
                continue;
            };
            let header = chunk.header;
            entries.push(SummaryEntry {
                seq: header.seq,
                lba: header.lba,
                granule: ((at / GRANULE_BYTES as u64) as u32).into(),
                bytes: header.bytes,
                sectors: header.sectors,
                codec: header.codec,
                reserved: [0; 5],
            });
            at += granules_of(header.bytes.get()) * GRANULE_BYTES as u64;
        }
        Ok(entries)
    }

    /// The granule of the disk at which an entry of a zone begins.
    pub fn granule_of(&self, zone: u32, entry: &SummaryEntry) -> u64 {
        u64::from(zone) * self.zone_granules + u64::from(entry.granule.get())
    }

    /// A closed zone has been collected: it is free after the next commit, unless chunks of it that are mapped
    /// could not be read.
    pub fn collected(&self, zone: u32) {
        let zone = &mut self.zones.borrow_mut()[zone as usize];
        assert!(zone.kind == Kind::Closed, "{zone:?}");
        zone.kind = match zone.held {
            0 => Kind::Emptied,
            _ => Kind::Damaged,
        };
    }

    /// Zones of which nothing is mapped become emptied; gives all emptied ones.
    pub fn emptied(&self) -> Vec<u32> {
        let mut found = Vec::new();
        for (number, zone) in (0..).zip(self.zones.borrow_mut().iter_mut()) {
            if matches!(zone.kind, Kind::Closed | Kind::Damaged) && zone.held == 0 {
                zone.kind = Kind::Emptied;
            }
            if zone.kind == Kind::Emptied {
                found.push(number);
            }
        }
        found
    }

    /// The durable mapping names no chunk of these zones: they may be written anew.
    ///
    /// # Errors
    /// If the disk fails.
    pub async fn release(&self, emptied: &[u32]) -> Result<(), BackingError> {
        for zone in emptied {
            self.media.delete(*zone).await?;
            self.zones.borrow_mut()[*zone as usize].kind = Kind::Free;
        }
        Ok(())
    }
}

/// The chunk at the beginning of `data`, if it is whole and has so many bytes.
fn parse(data: &[u8], bytes: u32) -> Option<Chunk> {
    let (header, rest) = ChunkHeader::read_from_prefix(data).ok()?;
    let payload = rest.get(..bytes as usize)?;
    let fits = header.magic == CHUNK_MAGIC
        && header.bytes.get() == bytes
        && header.is_plausible()
        && header.is_whole(payload);
    fits.then(|| Chunk {
        header,
        payload: payload.to_vec(),
    })
}
