//! One client of `scala`.

use std::rc::Rc;

use wharf_runtime::Op;
use wharf_wire::pin::Unpin;

use crate::design::{Amount, Approach, Client, Gauges, Statistics, Touch};
use crate::error::IoError;
use crate::payload::{From, Into};
use crate::pins::UNPINS_MAX;
use crate::scala::held::Held;
use crate::span::Extent;

/// Pages of a request that are brought near: later ones come into sight while these are served.
const PREFETCH_PAGES_MAX: u64 = 8;

/// See the [module above](crate::scala).
pub struct ScalaClient(Rc<Held>);

impl ScalaClient {
    pub(super) fn new(held: Rc<Held>) -> ScalaClient {
        ScalaClient(held)
    }

    #[inline]
    pub(super) fn held(&self) -> &Held {
        &self.0
    }

    /// Pages that this client can hold.
    pub fn capacity_pages(&self) -> u32 {
        self.0.index.slots()
    }

    /// Checks the index.
    ///
    /// # Panics
    /// If it contradicts itself.
    pub fn verify(&self) {
        self.0.index.verify();
    }

    /// The frame that a page is in and its drive, if this client holds the page.
    pub fn frame_of(&self, page: u64) -> Option<(usize, u32)> {
        let place = self.0.index.find(page)?;
        Some((self.0.map.drive(page), place.frame))
    }

    /// Gives every page back to its drive but those with guards, and those on their way. Gives the
    /// number of pages given back.
    ///
    /// # Errors
    /// The first error of a command.
    pub async fn release_all(&self) -> Result<u64, IoError> {
        let held = self.held();
        let mut unpins = vec![Vec::new(); held.volume.drivers().len()];
        let idle: Vec<u32> = held.index.idle_slots().collect();
        for &slot in &idle {
            let leaving = held
                .cpu
                .work(Op::QueueIndexUpdate, || held.index.vacate(slot));
            let leaving = leaving.expect("an idle slot has a page");
            let home = held.map.home(leaving.page);
            unpins[home.drive].push(Unpin {
                lba: home.lba,
                is_dirty: leaving.is_dirty,
            });
        }
        let mut outcome = Ok(idle.len() as u64);
        for (drive, unpins) in unpins.iter().enumerate() {
            for chunk in unpins.chunks(UNPINS_MAX) {
                if let Err(error) = held.unpin(drive, chunk).await {
                    outcome = outcome.and(Err(error));
                }
            }
        }
        held.notify();
        outcome
    }
}

impl Client for ScalaClient {
    #[inline]
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let held = &*self.0;
        held.counters.reads.add(1);
        held.counters
            .end(held.serve(extent, Into(out)).await, |touch| *touch)
    }

    #[inline]
    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        let held = &*self.0;
        held.counters.writes.add(1);
        held.counters
            .end(held.serve(extent, From(data)).await, |touch| *touch)
    }

    #[inline]
    fn read_now(&self, extent: Extent, out: &mut [u8]) -> bool {
        let held = &*self.0;
        let is_done = held.serve_now(extent, Into(out));
        held.counters.reads.add(u64::from(is_done));
        is_done
    }

    #[inline]
    fn write_now(&self, extent: Extent, data: &[u8]) -> bool {
        let held = &*self.0;
        let is_done = held.serve_now(extent, From(data));
        held.counters.writes.add(u64::from(is_done));
        is_done
    }

    /// The drives write what is dirty back, pinned or not.
    async fn flush(&self) -> Result<(), IoError> {
        let held = &*self.0;
        held.counters.flushes.add(1);
        held.counters.end(held.flush().await, |()| Touch::default())
    }

    async fn release(&self) -> Result<(), IoError> {
        self.release_all().await.map(drop)
    }

    #[inline]
    fn prefetch(&self, extent: Extent, approach: Approach) {
        let held = &*self.0;
        let first = extent.first_page();
        for page in first..first + extent.pages().min(PREFETCH_PAGES_MAX) {
            match approach {
                Approach::Far => held.index.prefetch_line(page),
                Approach::Near => {
                    if let Some(place) = held.index.prefetch_slot(page) {
                        held.frames.prefetch(held.map.drive(page), place.frame);
                    }
                }
            }
        }
    }

    fn statistics(&self) -> Statistics {
        self.0.counters.statistics(&self.0.volume)
    }

    fn gauges(&self) -> Gauges {
        let bytes = self.0.index.bytes() as u64;
        Gauges::none().with_level("index_bytes", Amount::Bytes(bytes))
    }
}
