//! The store of compressed chunks.

use std::cell::Cell;
use std::ops::Range;

use wharf_runtime::{Cpu, Notify};

use super::chunks::{Row, replace, within};
use super::format::{GRANULE_BYTES, GROUP_SECTORS, granules_of};
use super::log::{Chunk, Kind, Log, WEIGHT};
use super::mapping_cache::{MAPPING_START, MappingCache};
use super::media::{MetadataStore, Zones};
use super::packer::{Packer, ZEROS};
use super::superblock::{self, Names, Opened, SEQS_OF_EPOCH, Shape};
use super::{Backing, BackingError, Level, check_range};

/// Zones that data may not fill: one is open, one takes what collection moves, one more has been emptied and
/// waits for a commit.
pub(super) const RESERVE_ZONES: u32 = 3;

/// Share of the zones beside the reserve that may be mapped: above, collection would hardly free anything.
const FILL_SHARE: f64 = 0.95;

/// How a store of chunks is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkConfig {
    /// Most pages of a chunk, 1 to 256.
    pub chunk_pages_max: u32,
    /// Groups whose mapping is kept in memory.
    pub mapping_groups: usize,
}

impl Default for ChunkConfig {
    fn default() -> Self {
        ChunkConfig {
            chunk_pages_max: GROUP_SECTORS as u32,
            mapping_groups: 16_384,
        }
    }
}

/// What a store of chunks did since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChunkCounters {
    /// Pages read.
    pub read_pages: u64,
    /// Chunks read for them.
    pub read_chunks: u64,
    /// Pages of those chunks.
    pub unpacked_pages: u64,
    /// Pages written.
    pub written_pages: u64,
    /// Chunks that they became.
    pub written_chunks: u64,
    /// Bytes of these with headers and padding.
    pub written_bytes: u64,
    /// Zones that were collected.
    pub collected_zones: u64,
    /// Chunks that collection moved as they were.
    pub moved_chunks: u64,
    /// Chunks that it compressed anew, as a part of them was dead.
    pub repacked_chunks: u64,
    /// Bytes that it wrote, with headers and padding.
    pub moved_bytes: u64,
    /// Commits: chunks durable, then the mapping.
    pub commits: u64,
}

/// See the [module](super).
pub struct ChunkStore<Z, M> {
    pub(super) cpu: Cpu,
    config: ChunkConfig,
    pages: u64,
    pub(super) packer: Packer,
    pub(super) log: Log<Z>,
    pub(super) mapping: MappingCache<M>,
    opened: Opened,
    /// What was held when collection had gained nothing more.
    swept: Cell<u64>,
    /// Somebody writes, or collects.
    is_writing: Cell<bool>,
    written: Notify,
    pub(super) counters: Cell<ChunkCounters>,
}

impl<Z: Zones, M: MetadataStore> ChunkStore<Z, M> {
    /// Makes an empty store of `pages` pages on a disk, with its mapping in `metadata`.
    ///
    /// # Errors
    /// A disk or metadata store that is too small or fails.
    pub async fn create(
        zones: &Z,
        metadata: &M,
        names: Names,
        pages: u64,
        packer: &Packer,
    ) -> Result<(), BackingError> {
        let groups = pages.div_ceil(GROUP_SECTORS);
        if metadata.sectors() < MAPPING_START + groups {
            return Err(BackingError::Config("the metadata store is too small"));
        }
        // The mapping sector of a group without chunks is zeros.
        metadata.clear().await?;
        let shape = Shape {
            pages,
            page_bytes: packer.page_bytes() as u32,
        };
        superblock::create(zones, metadata, names, shape).await
    }

    /// Opens a store, and reads all of its mapping that was written, to know how much of each zone is live.
    ///
    /// # Errors
    /// What is no store, is another's, is damaged, or fails.
    pub async fn open(
        cpu: &Cpu,
        zones: Z,
        metadata: M,
        packer: Packer,
        config: ChunkConfig,
    ) -> Result<ChunkStore<Z, M>, BackingError> {
        if !(1..=GROUP_SECTORS as u32).contains(&config.chunk_pages_max) {
            return Err(BackingError::Config("chunks of 1 to 256 pages"));
        }
        let opened = superblock::open(&zones, &metadata).await?;
        if opened.shape.page_bytes as usize != packer.page_bytes() {
            return Err(BackingError::OtherShape);
        }
        let seq = opened.epoch * SEQS_OF_EPOCH;
        let log = Log::new(zones, opened.names.disk_id, seq);
        let store = ChunkStore {
            cpu: cpu.clone(),
            config,
            pages: opened.shape.pages,
            packer,
            mapping: MappingCache::new(metadata, config.mapping_groups, log.granules()),
            log,
            opened,
            swept: Cell::new(u64::MAX),
            is_writing: Cell::new(false),
            written: Notify::new(),
            counters: Cell::default(),
        };
        let chunk_bytes = u64::from(config.chunk_pages_max) * 4096;
        let smallest = chunk_bytes / 512 * 8;
        if store.log.usable_granules() < smallest
            || store.log.zone_count() <= u64::from(RESERVE_ZONES)
        {
            return Err(BackingError::Config(
                "more than three zones, each of eight times the largest chunk",
            ));
        }
        let groups = store.pages.div_ceil(GROUP_SECTORS);
        for (first, sectors) in store.mapping.store().written().await? {
            let until = first + sectors;
            let of_mapping = first.max(MAPPING_START)..until.min(MAPPING_START + groups);
            for sector in of_mapping {
                let rows = store.mapping.rows(sector - MAPPING_START).await?;
                store.log.account(&[], &rows);
            }
        }
        Ok(store)
    }

    /// What it did.
    pub fn counters(&self) -> ChunkCounters {
        self.counters.get()
    }

    /// Which opening of the disk this is.
    pub fn epoch(&self) -> u64 {
        self.opened.epoch
    }

    /// Groups whose mapping is in memory.
    pub fn groups_in_memory(&self) -> usize {
        self.mapping.groups()
    }

    /// Bytes of memory that those take.
    pub fn mapping_bytes(&self) -> u64 {
        self.mapping.memory_bytes() as u64
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut ChunkCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// Weight that may be mapped.
    fn capacity(&self) -> u64 {
        let zones = self.log.zone_count() - u64::from(RESERVE_ZONES);
        // The end of a zone may be too short for the next chunk.
        let chunk = u64::from(self.config.chunk_pages_max) * 8 + 1;
        let granules = zones * (self.log.usable_granules() - chunk);
        (granules as f64 * FILL_SHARE * WEIGHT as f64) as u64
    }

    /// Waits for its turn to write.
    async fn begin_writing(&self) {
        while self.is_writing.replace(true) {
            self.written.wait(&self.cpu).await;
        }
    }

    fn end_writing(&self) {
        self.is_writing.set(false);
        self.written.notify_one(&self.cpu);
    }

    /// Writes a piece that is within a group, as one chunk.
    async fn write_piece(&self, first: u64, data: &[u8]) -> Result<(), BackingError> {
        let (codec, payload) = self.packer.pack_on(&self.cpu, data);
        let count = (data.len() / self.packer.page_bytes()) as u32;
        self.put_chunk(first, count, codec, &payload).await
    }

    /// Appends a chunk and maps it. Nothing is changed if it does not fit.
    async fn put_chunk(
        &self,
        first: u64,
        count: u32,
        codec: u8,
        payload: &[u8],
    ) -> Result<(), BackingError> {
        let group = first / GROUP_SECTORS;
        let from = (first % GROUP_SECTORS) as u32;
        let new = Row::whole(from, count, 1, payload.len() as u32);
        let rows = self.mapping.rows(group).await?;
        let freed: u64 = within(&rows, from, from + count)
            .filter(|row| row.count == row.chunk_sectors)
            .map(|row| Log::<Z>::weight_of(row.bytes))
            .sum();
        let added = Log::<Z>::weight_of(new.bytes);
        if added > freed && !self.has_capacity(added - freed).await? {
            return Err(BackingError::Full);
        }
        self.make_room(payload.len() as u32).await?;
        let granule = self
            .log
            .append(self.log.next_seq(), (first, count), codec, payload)
            .await?;
        self.count(|c| {
            c.written_chunks += 1;
            c.written_bytes += granules_of(new.bytes) * GRANULE_BYTES as u64;
        });
        self.map(group, Row { granule, ..new }).await
    }

    /// Whether so much more may be held. Chunks that are partly dead are compressed anew before it is denied.
    async fn has_capacity(&self, more: u64) -> Result<bool, BackingError> {
        let fits = || self.log.held() + more <= self.capacity();
        if fits() || self.swept.get() == self.log.held() {
            return Ok(fits());
        }
        for _ in 0..self.log.zone_count() {
            if fits() || !self.has_dead_parts() || !self.collect_one().await? {
                break;
            }
        }
        if !fits() {
            // Nothing more is to be had until something else is held.
            self.swept.set(self.log.held());
        }
        Ok(fits())
    }

    /// Whether chunks of closed zones are partly dead to a tenth of a zone or more.
    fn has_dead_parts(&self) -> bool {
        let zones = self.log.zones();
        let closed = zones.iter().filter(|zone| zone.kind == Kind::Closed);
        let dead: u64 = closed.map(|zone| zone.held - zone.live).sum();
        dead > self.log.usable_granules() * WEIGHT / 10
    }

    /// Has a group name a chunk for the sectors that it holds.
    pub(super) async fn map(&self, group: u64, new: Row) -> Result<(), BackingError> {
        let before = self.mapping.rows(group).await?;
        let mut rows = before.clone();
        replace(&mut rows, new.first, new.end(), new);
        self.log.account(&before, &rows);
        self.mapping.set(group, rows);
        Ok(())
    }

    /// Collects where the next chunk begins a zone and too few are free, and commits where the mapping in memory
    /// is full of changes.
    async fn make_room(&self, bytes: u32) -> Result<(), BackingError> {
        if self.mapping.is_pressing() {
            self.commit().await?;
        }
        if self.log.has_room(granules_of(bytes)) {
            return Ok(());
        }
        // Each round frees something, or the next chunk is refused where no zone is free.
        for _ in 0..self.log.zone_count() {
            if self.log.free_zones() >= RESERVE_ZONES || !self.collect_one().await? {
                break;
            }
        }
        Ok(())
    }

    /// The order that all depends on: chunks are durable, then the mapping that names them, and then zones that
    /// it names no more are given up.
    pub(super) async fn commit(&self) -> Result<(), BackingError> {
        superblock::check_owner(self.mapping.store(), &self.opened).await?;
        let emptied = self.log.emptied();
        self.log.flush().await?;
        self.mapping.write_back().await?;
        self.log.release(&emptied).await?;
        self.count(|c| c.commits += 1);
        Ok(())
    }

    /// Reads the chunk of a row. `None` if the row is out of date.
    pub(super) async fn read_chunk(
        &self,
        group: u64,
        row: &Row,
    ) -> Result<Option<Chunk>, BackingError> {
        let chunk = self.log.read(row.granule, row.bytes).await?;
        let first = group * GROUP_SECTORS + u64::from(row.chunk_first);
        Ok(chunk.filter(|chunk| {
            let header = &chunk.header;
            header.lba.get() == first && u32::from(header.sectors.get()) == row.chunk_sectors
        }))
    }

    /// The number and the pages of the chunk of a row.
    pub(super) async fn pages_of(
        &self,
        group: u64,
        row: &Row,
    ) -> Result<Option<(u64, Vec<u8>)>, BackingError> {
        let bytes = row.chunk_sectors as usize * self.packer.page_bytes();
        let Some(chunk) = self.read_chunk(group, row).await? else {
            return Ok(None);
        };
        let mut pages = vec![0; bytes];
        let (codec, payload) = (chunk.header.codec, &chunk.payload);
        let unpacked = self.packer.unpack_on(&self.cpu, codec, payload, &mut pages);
        Ok(unpacked.is_ok().then(|| (chunk.header.seq.get(), pages)))
    }

    /// The sectors around one that lie in its chunk beside it: that one alone if it is in none.
    ///
    /// # Errors
    /// If its mapping cannot be read.
    pub async fn in_one_chunk(&self, sector: u64) -> Result<Range<u64>, BackingError> {
        let (group, at) = (sector / GROUP_SECTORS, (sector % GROUP_SECTORS) as u32);
        let rows = self.mapping.rows(group).await?;
        let row = rows.iter().find(|row| (row.first..row.end()).contains(&at));
        let begin = group * GROUP_SECTORS;
        Ok(match row.filter(|row| row.bytes > 0) {
            Some(row) => begin + u64::from(row.first)..begin + u64::from(row.end()),
            None => sector..sector + 1,
        })
    }

    /// Reads sectors from `from` on of a group; false if a chunk was not where its row said.
    async fn read_rows(
        &self,
        group: u64,
        from: u32,
        rows: &[Row],
        out: &mut [u8],
    ) -> Result<Result<(), u64>, BackingError> {
        let page = self.packer.page_bytes();
        let mut held: Option<(u64, Vec<u8>)> = None;
        out.fill(0);
        for row in within(rows, from, from + (out.len() / page) as u32) {
            if row.bytes == 0 {
                // A chunk of zeros.
                continue;
            }
            if held
                .as_ref()
                .is_none_or(|(granule, _)| *granule != row.granule)
            {
                let Some((_, pages)) = self.pages_of(group, &row).await? else {
                    return Ok(Err(group * GROUP_SECTORS + u64::from(row.chunk_first)));
                };
                self.count(|c| {
                    c.read_chunks += 1;
                    c.unpacked_pages += u64::from(row.chunk_sectors);
                });
                held = Some((row.granule, pages));
            }
            let (_, pages) = held.as_ref().expect("it was read");
            let at = (row.first - row.chunk_first) as usize * page;
            let to = (row.first - from) as usize * page;
            let bytes = row.count as usize * page;
            out[to..to + bytes].copy_from_slice(&pages[at..at + bytes]);
        }
        Ok(Ok(()))
    }

    /// Checks that zones, mapping and disk agree, as far as the mapping is in memory or can be read.
    ///
    /// # Errors
    /// If something cannot be read.
    ///
    /// # Panics
    /// If they do not agree.
    pub async fn verify(&self) -> Result<(), BackingError> {
        let before = self.log.zones();
        for group in 0..self.pages.div_ceil(GROUP_SECTORS) {
            let rows = self.mapping.rows(group).await?;
            assert!(super::chunks::are_sound(&rows), "group {group}");
            self.log.account(&rows, &[]);
            for row in &rows {
                let chunk = self.read_chunk(group, row).await?;
                assert!(chunk.is_some(), "group {group}: no chunk of {row:?}");
            }
        }
        let left = self.log.zones();
        assert!(
            left.iter().all(|zone| (zone.live, zone.held) == (0, 0)),
            "zones and mapping"
        );
        self.log.restore(before);
        Ok(())
    }
}

impl<Z: Zones, M: MetadataStore> Backing for ChunkStore<Z, M> {
    fn page_bytes(&self) -> usize {
        self.packer.page_bytes()
    }

    fn pages(&self) -> u64 {
        self.pages
    }

    async fn read(&self, first: u64, out: &mut [u8]) -> Result<(), BackingError> {
        let page = self.packer.page_bytes();
        check_range(first, (out.len() / page) as u64, self.pages)?;
        self.count(|c| c.read_pages += (out.len() / page) as u64);
        let (mut at, mut rest) = (first, out);
        while !rest.is_empty() {
            let (group, from) = (at / GROUP_SECTORS, (at % GROUP_SECTORS) as usize);
            let count = (GROUP_SECTORS as usize - from).min(rest.len() / page);
            let (piece, more) = rest.split_at_mut(count * page);
            loop {
                let rows = self.mapping.rows(group).await?;
                match self.read_rows(group, from as u32, &rows, piece).await? {
                    Ok(()) => break,
                    // Moved or overwritten meanwhile, or else damaged.
                    Err(page) if self.mapping.rows(group).await? == rows => {
                        return Err(BackingError::DamagedChunk { page });
                    }
                    Err(_) => {}
                }
            }
            (at, rest) = (at + count as u64, more);
        }
        Ok(())
    }

    async fn write(&self, first: u64, data: &[u8]) -> Result<(), BackingError> {
        let page = self.packer.page_bytes();
        check_range(first, (data.len() / page) as u64, self.pages)?;
        let (mut at, mut rest) = (first, data);
        while !rest.is_empty() {
            let to_group = GROUP_SECTORS - at % GROUP_SECTORS;
            let most = u64::from(self.config.chunk_pages_max).min(to_group) as usize;
            let (piece, more) = rest.split_at((most * page).min(rest.len()));
            self.begin_writing().await;
            let written = self.write_piece(at, piece).await;
            self.end_writing();
            written?;
            let count = (piece.len() / page) as u64;
            self.count(|c| c.written_pages += count);
            (at, rest) = (at + count, more);
        }
        Ok(())
    }

    async fn discard(&self, first: u64, pages: u64) -> Result<(), BackingError> {
        check_range(first, pages, self.pages)?;
        let (mut at, end) = (first, first + pages);
        while at < end {
            let (group, count) = (
                at / GROUP_SECTORS,
                (GROUP_SECTORS - at % GROUP_SECTORS).min(end - at),
            );
            let from = (at % GROUP_SECTORS) as u32;
            self.begin_writing().await;
            let rows = self.mapping.rows(group).await;
            let is_mapped =
                rows.map(|rows| within(&rows, from, from + count as u32).any(|row| row.bytes > 0));
            let discarded = match is_mapped {
                Ok(true) => self.put_chunk(at, count as u32, ZEROS, &[]).await,
                other => other.map(|_| ()),
            };
            self.end_writing();
            discarded?;
            at += count;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), BackingError> {
        self.begin_writing().await;
        let done = self.commit().await;
        self.end_writing();
        done
    }

    fn level(&self) -> Level {
        Level::of(self.log.held(), self.capacity())
    }
}
