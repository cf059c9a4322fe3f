//! The keeper: the CPU that has the disk. It does what clients ask of it (`jobs.rs`), and makes room
//! (`evict.rs`).

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_runtime::sync::Ordering;
use wharf_runtime::wake::{Pause, Sleeper};

use super::disk::{Disk, io_error};
use super::jobs::{Given, Job, Want};
use super::label::Label;
#[cfg(doc)]
use super::places::Places;
use super::shared::{Known, Numbers, Shared};
use super::transfer::Mover;
use crate::backing::{BackingError, Sectors, VolumeSectors};
use crate::error::IoError;

/// See the module.
pub(super) struct Keeper<S> {
    pub(super) cpu: Cpu,
    pub(super) shared: Arc<Shared>,
    pub(super) known: Arc<Known>,
    pub(super) mover: Rc<Mover>,
    pub(super) disk: Disk<S>,
    /// The metadata of the cache itself, up to its superblock.
    pub(super) own: VolumeSectors,
    pub(super) label: Cell<Label>,
    pub(super) numbers: Numbers,
    /// A round of eviction is under way.
    pub(super) evicts: Cell<bool>,
    /// Why something could not leave in the last round.
    pub(super) failure: Cell<Option<IoError>>,
    /// Rounds there were.
    pub(super) rounds: Cell<u64>,
    /// The part that a snapshot of heat goes on with.
    pub(super) snapshot_from: Cell<u64>,
    /// Where the last look for dirty sectors that are to be written back ended ([`Places::dirty`]).
    pub(super) drained_to: Cell<u64>,
}

impl<S: Sectors + 'static> Keeper<S> {
    /// Serves for as long as the CPU runs.
    pub(super) async fn run(self: Rc<Self>) {
        let (cpu, shared) = (self.cpu.clone(), self.shared.clone());
        each_job(&cpu, &shared, |job| match job {
            Some(job) => {
                let keeper = self.clone();
                cpu.spawn("job", async move { keeper.serve(job).await });
            }
            None if !self.evicts.get() && self.is_due() => {
                self.evicts.set(true);
                let keeper = self.clone();
                cpu.spawn("eviction", async move { keeper.make_room().await });
            }
            None => {}
        })
        .await;
    }

    async fn serve(self: Rc<Self>, mut job: Job) {
        let (first, nothing) = (job.first, |()| Given::default());
        let done = match &mut job.want {
            Want::Read { pages, neighbours } => {
                let (wanted, most) = (first..first + u64::from(*pages), u64::from(*neighbours));
                self.read(wanted, most).await.map_err(io_error)
            }
            Want::Write(data) => {
                let data = std::mem::take(data);
                let written = self.disk.write(first, &data).await;
                written.map(nothing).map_err(io_error)
            }
            Want::Discard(pages) => {
                let pages = *pages;
                let discarded = self.disk.discard(first, pages).await;
                discarded.map(nothing).map_err(io_error)
            }
            Want::Flush => self.flush_disk().await.map(nothing),
            Want::Learn => self.learn(first..first + 1).await.map(|_| Given::default()),
            Want::Drain => self.drain().await.map(nothing),
            Want::Close => self.close().await.map(nothing),
        };
        self.note_level();
        self.publish();
        let keeper = self.shared.keeper();
        job.end(&self.cpu, &self.shared.mailboxes, keeper, done);
    }

    /// Reads pages, with neighbours that come with them.
    async fn read(&self, wanted: Range<u64>, most: u64) -> Result<Given, BackingError> {
        let all = match most {
            0 => wanted.clone(),
            most => self.disk.with_neighbours(wanted.clone(), most).await?,
        };
        let pages = (all.end - all.start) as usize;
        let mut data = vec![0; pages * self.shared.space.page_bytes()];
        self.disk.read(all.start, &mut data).await?;
        let before = (wanted.start - all.start) as u32;
        Ok(Given { before, data })
    }

    /// Lets others see what the store did.
    pub(super) fn publish(&self) {
        self.shared.published.publish(self.disk.counters());
    }

    /// Notes whether the disk takes more dirty data.
    pub(super) fn note_level(&self) {
        let is_full = self.disk.level().is_nearly_full;
        // Relaxed: whoever is a little late writes a little more.
        self.shared.is_disk_full.store(is_full, Ordering::Relaxed);
    }

    /// Makes durable what the disk was given.
    pub(super) async fn flush_disk(&self) -> Result<(), IoError> {
        self.shared.unsettled.begin_flush(&self.cpu);
        let flushed = self.disk.flush().await;
        self.shared.unsettled.end_flush(&self.cpu, flushed.is_ok());
        flushed.map_err(io_error)
    }
}

/// Serves where there is no store: every job fails with `error`.
pub(super) async fn refuse(cpu: &Cpu, shared: &Shared, error: IoError) {
    each_job(cpu, shared, |job| {
        if let Some(job) = job {
            job.end(cpu, &shared.mailboxes, shared.keeper(), Err(error));
        }
    })
    .await;
}

/// Gives each job to `serve`, and `None` after those that were there, for as long as the CPU runs.
async fn each_job(cpu: &Cpu, shared: &Shared, serve: impl Fn(Option<Job>)) {
    let sleeper = Sleeper {
        client: shared.keeper(),
        task: cpu.current(),
    };
    loop {
        shared.jobs.keeper.join(cpu, sleeper);
        shared
            .jobs
            .take(cpu)
            .into_iter()
            .for_each(|job| serve(Some(job)));
        serve(None);
        Pause::default().await;
    }
}
