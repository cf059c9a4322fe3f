//! Pages in place, not compressed: page `n` is sector `n`.

use std::cell::Cell;

use super::media::Sectors;
use super::{Backing, BackingError, Level, SECTOR_BYTES, check_range};

/// Pages that are given to the disk at a time.
const STEP_PAGES: usize = 256;

/// A store of pages in place. A page that is written and not flushed is old or new after a cut.
pub struct PlainStore<S> {
    disk: S,
    page_bytes: usize,
    written_pages: Cell<u64>,
    read_pages: Cell<u64>,
}

impl<S: Sectors> PlainStore<S> {
    /// A store on a disk that holds nothing else, of pages of 4096 bytes, or of 8 for stamps.
    pub fn new(disk: S, page_bytes: usize) -> PlainStore<S> {
        assert!(
            (1..=SECTOR_BYTES).contains(&page_bytes),
            "a page fits a sector"
        );
        PlainStore {
            disk,
            page_bytes,
            written_pages: Cell::new(0),
            read_pages: Cell::new(0),
        }
    }

    /// Pages written, and pages read.
    pub fn counters(&self) -> (u64, u64) {
        (self.written_pages.get(), self.read_pages.get())
    }

    fn count(&self, bytes: usize) -> u64 {
        (bytes / self.page_bytes) as u64
    }
}

impl<S: Sectors> Backing for PlainStore<S> {
    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn pages(&self) -> u64 {
        self.disk.sectors()
    }

    async fn read(&self, first: u64, out: &mut [u8]) -> Result<(), BackingError> {
        check_range(first, self.count(out.len()), self.pages())?;
        self.read_pages
            .set(self.read_pages.get() + self.count(out.len()));
        let mut at = first;
        for piece in out.chunks_mut(STEP_PAGES * self.page_bytes) {
            let mut sectors = vec![0; self.count(piece.len()) as usize * SECTOR_BYTES];
            self.disk.read(at, &mut sectors).await?;
            let held = sectors.chunks(SECTOR_BYTES);
            for (page, sector) in piece.chunks_mut(self.page_bytes).zip(held) {
                page.copy_from_slice(&sector[..self.page_bytes]);
            }
            at += self.count(piece.len());
        }
        Ok(())
    }

    async fn write(&self, first: u64, data: &[u8]) -> Result<(), BackingError> {
        check_range(first, self.count(data.len()), self.pages())?;
        self.written_pages
            .set(self.written_pages.get() + self.count(data.len()));
        let mut at = first;
        for piece in data.chunks(STEP_PAGES * self.page_bytes) {
            let mut sectors = vec![0; self.count(piece.len()) as usize * SECTOR_BYTES];
            let filled = sectors.chunks_mut(SECTOR_BYTES);
            for (sector, page) in filled.zip(piece.chunks(self.page_bytes)) {
                sector[..self.page_bytes].copy_from_slice(page);
            }
            self.disk.write(at, &sectors).await?;
            at += self.count(piece.len());
        }
        Ok(())
    }

    async fn discard(&self, first: u64, pages: u64) -> Result<(), BackingError> {
        check_range(first, pages, self.pages())?;
        if self.disk.zero(first, pages).await? {
            return Ok(());
        }
        let zeros = vec![0; STEP_PAGES * self.page_bytes];
        let mut at = first;
        while at < first + pages {
            let count = (first + pages - at).min(STEP_PAGES as u64);
            self.write(at, &zeros[..count as usize * self.page_bytes])
                .await?;
            at += count;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), BackingError> {
        Ok(self.disk.flush().await?)
    }

    /// Every page has its place: it is never full.
    fn level(&self) -> Level {
        Level::of(0, 1)
    }
}
