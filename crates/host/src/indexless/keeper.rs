//! The keeper: the CPU that has the disk. It does what clients ask of it (`jobs.rs`), and makes room
//! (`evict.rs`).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::Cpu;
use wharf_runtime::wake::{Pause, Sleeper};

use super::disk::Disk;
use super::jobs::{Job, Want};
use super::settings::PIECE_SECTORS;
use super::shared::{Known, Numbers, Shared};
use super::transfer::Mover;
use crate::backing::BackingError;
use crate::error::{DiskFault, IoError};

/// See the module.
pub(super) struct Keeper {
    pub(super) cpu: Cpu,
    pub(super) shared: Arc<Shared>,
    pub(super) known: Arc<Known>,
    pub(super) mover: Rc<Mover>,
    pub(super) disk: Disk,
    pub(super) numbers: Numbers,
    /// A round of eviction is under way.
    pub(super) evicts: Cell<bool>,
}

impl Keeper {
    /// Serves for as long as the CPU runs.
    pub(super) async fn run(self: Rc<Self>) {
        let sleeper = Sleeper {
            client: self.shared.keeper(),
            task: self.cpu.current(),
        };
        loop {
            self.shared.jobs.keeper.join(&self.cpu, sleeper);
            for job in self.shared.jobs.take(&self.cpu) {
                let keeper = self.clone();
                self.cpu
                    .spawn("job", async move { keeper.serve(job).await });
            }
            if !self.evicts.get() && self.shared.is_round_due(&self.known.bitmap) {
                self.evicts.set(true);
                let keeper = self.clone();
                self.cpu
                    .spawn("eviction", async move { keeper.make_room().await });
            }
            Pause::default().await;
        }
    }

    async fn serve(&self, mut job: Job) {
        let page_bytes = self.shared.space.page_bytes();
        let done = match &mut job.want {
            Want::Read(pages) => {
                let mut data = vec![0; *pages as usize * page_bytes];
                self.disk.read(job.first, &mut data).await.map(|()| data)
            }
            Want::Discard(pages) => {
                let pages = *pages;
                self.disk
                    .discard(job.first, pages)
                    .await
                    .map(|()| Vec::new())
            }
            Want::Learn => {
                self.learn(job.first);
                Ok(Vec::new())
            }
        };
        let done = done.map_err(io_error);
        self.publish();
        let keeper = self.shared.keeper();
        job.end(&self.cpu, &self.shared.mailboxes, keeper, done);
    }

    /// Lets others see what the store did.
    pub(super) fn publish(&self) {
        self.shared.published.publish(self.disk.counters());
    }

    /// Asks the drive of the cache what it holds of a part.
    fn learn(&self, part: u64) {
        self.known.bitmap.learn(&self.cpu, part, &[]);
    }
}

/// Serves where there is no store: every job fails with `error`.
pub(super) async fn refuse(cpu: &Cpu, shared: &Shared, error: IoError) {
    let keeper = shared.keeper();
    let sleeper = Sleeper {
        client: keeper,
        task: cpu.current(),
    };
    loop {
        shared.jobs.keeper.join(cpu, sleeper);
        for job in shared.jobs.take(cpu) {
            job.end(cpu, &shared.mailboxes, keeper, Err(error));
        }
        Pause::default().await;
    }
}

/// An error of the store as one of a request.
pub(super) fn io_error(error: BackingError) -> IoError {
    match error {
        BackingError::Io(error) => error,
        BackingError::Full => DiskFault::Full.into(),
        BackingError::OutOfRange { first, end, pages } => IoError::OutOfRange {
            first,
            pages: end - first,
            volume_pages: pages,
        },
        BackingError::DamagedChunk { page } => DiskFault::Damaged { page }.into(),
        BackingError::DamagedMapping { group } => {
            let page = group * PIECE_SECTORS;
            DiskFault::Damaged { page }.into()
        }
        BackingError::Fenced => DiskFault::Fenced.into(),
        _ => DiskFault::Foreign.into(),
    }
}
