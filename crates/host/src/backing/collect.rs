//! Garbage collection of zones: the live chunks of one go to the end of the log.
//!
//! The zone with the largest `age * (1 - u) / (1 + u)` is taken, `u` being its live share (Rosenblum and
//! Ousterhout, 1992). A chunk that is whole is moved as it is; of one that is partly dead what is left is
//! compressed anew, run by run, unless that is larger than the whole. What is moved keeps its number: it is as
//! old as it was, so that a rebuild does not take it for newer than what was written over a part of it.

use super::BackingError;
use super::chunks::Row;
use super::format::{GROUP_SECTORS, SummaryEntry, granules_of};
use super::log::{Kind, Log, WEIGHT};
use super::media::{MetadataStore, Zones};
use super::store::ChunkStore;

impl<Z: Zones, M: MetadataStore> ChunkStore<Z, M> {
    /// Collects the best zone, if there is one that is worth it; it is free after the next commit, which is made
    /// when it is needed.
    pub(super) async fn collect_one(&self) -> Result<bool, BackingError> {
        let emptied = self.log.emptied();
        if !emptied.is_empty() {
            self.commit().await?;
            return Ok(true);
        }
        let Some(zone) = self.victim() else {
            return Ok(false);
        };
        for entry in self.log.entries(zone).await? {
            match self.move_entry(zone, &entry).await {
                // It stays where it is: whoever reads it is told, and nobody else suffers from it.
                Err(BackingError::DamagedChunk { .. }) => {}
                moved => moved?,
            }
        }
        self.log.collected(zone);
        self.count(|c| c.collected_zones += 1);
        self.commit().await?;
        Ok(true)
    }

    fn victim(&self) -> Option<u32> {
        let (zones, usable) = (self.log.zones(), self.log.usable_granules() * WEIGHT);
        let newest = zones.iter().map(|zone| zone.last_seq).max().unwrap_or(0);
        let oldest = zones
            .iter()
            .map(|zone| zone.last_seq)
            .filter(|seq| *seq > 0)
            .min()
            .unwrap_or(0);
        let closed = (0..)
            .zip(&zones)
            .filter(|(_, zone)| zone.kind == Kind::Closed);
        let scored = closed
            .filter(|(_, zone)| zone.live < usable)
            .map(|(number, zone)| {
                let share = zone.live as f64 / usable as f64;
                // Zones from before the disk was opened are as old as the oldest since.
                let age = (newest - zone.last_seq.max(oldest)) as f64 + 1.0;
                (age * (1.0 - share) / (1.0 + share), number)
            });
        let best = scored.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        best.map(|(_, number)| number)
    }

    /// Moves what is mapped of a chunk.
    async fn move_entry(&self, zone: u32, entry: &SummaryEntry) -> Result<(), BackingError> {
        let granule = self.log.granule_of(zone, entry);
        let group = entry.lba.get() / GROUP_SECTORS;
        if entry.lba.get() >= super::Backing::pages(self) {
            return Ok(());
        }
        let rows = self.mapping.rows(group).await?;
        let own: Vec<Row> = rows
            .into_iter()
            .filter(|row| row.granule == granule)
            .collect();
        let Some(row) = own.first() else {
            return Ok(());
        };
        let page = group * GROUP_SECTORS + u64::from(row.chunk_first);
        let damaged = BackingError::DamagedChunk { page };
        if own.len() == 1 && row.count == row.chunk_sectors {
            let chunk = self.read_chunk(group, row).await?.ok_or(damaged)?;
            self.count(|c| c.moved_chunks += 1);
            let packed = (chunk.header.codec, chunk.payload);
            return self
                .put_again(group, row, chunk.header.seq.get(), &packed)
                .await;
        }
        let (seq, pages) = self.pages_of(group, row).await?.ok_or(damaged)?;
        let bytes = self.packer.page_bytes();
        let packed: Vec<_> = own
            .iter()
            .map(|part| {
                let at = (part.first - part.chunk_first) as usize * bytes;
                let live = &pages[at..at + part.count as usize * bytes];
                self.packer.pack_on(&self.cpu, live)
            })
            .collect();
        let weight = |payload: &[u8]| Log::<Z>::weight_of(payload.len() as u32);
        let anew: u64 = packed.iter().map(|(_, payload)| weight(payload)).sum();
        if anew > Log::<Z>::weight_of(row.bytes) {
            return self.move_with_dead_parts(group, &own).await;
        }
        self.count(|c| c.repacked_chunks += 1);
        for (part, packed) in own.iter().zip(&packed) {
            self.put_again(group, part, seq, packed).await?;
        }
        Ok(())
    }

    /// Moves a chunk as it is though parts of it are dead: what is left would be larger.
    async fn move_with_dead_parts(&self, group: u64, own: &[Row]) -> Result<(), BackingError> {
        let first = group * GROUP_SECTORS + u64::from(own[0].chunk_first);
        let chunk = self.read_chunk(group, &own[0]).await?;
        let chunk = chunk.ok_or(BackingError::DamagedChunk { page: first })?;
        let (seq, place) = (chunk.header.seq.get(), (first, own[0].chunk_sectors));
        let append = self
            .log
            .append(seq, place, chunk.header.codec, &chunk.payload);
        let granule = append.await?;
        self.count(|c| {
            c.moved_chunks += 1;
            c.moved_bytes += granules_of(own[0].bytes) * 512;
        });
        for row in own {
            self.map(group, Row { granule, ..*row }).await?;
        }
        Ok(())
    }

    /// Appends a chunk of the sectors of a row, and maps it in its place.
    async fn put_again(
        &self,
        group: u64,
        row: &Row,
        seq: u64,
        (codec, payload): &(u8, Vec<u8>),
    ) -> Result<(), BackingError> {
        let first = group * GROUP_SECTORS + u64::from(row.first);
        let granule = self
            .log
            .append(seq, (first, row.count), *codec, payload)
            .await?;
        self.count(|c| c.moved_bytes += granules_of(payload.len() as u32) * 512);
        let new = Row::whole(row.first, row.count, granule, payload.len() as u32);
        self.map(group, new).await
    }

    /// Weight of a zone's live part as a share of what it may hold, of every zone.
    pub fn live_shares(&self) -> Vec<f64> {
        let usable = (self.log.usable_granules() * WEIGHT) as f64;
        self.log
            .zones()
            .iter()
            .map(|zone| zone.live as f64 / usable)
            .collect()
    }

    /// Zones that are free now.
    pub fn free_zones(&self) -> u32 {
        self.log.free_zones()
    }
}
