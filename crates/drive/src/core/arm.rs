//! The arm of a disk: one command after the other, in the order that the elevator chooses.

use std::rc::Rc;

use wharf_runtime::Op;
use wharf_wire::status::StatusCode;

use super::commands::Failed;
use super::state::Core;
use crate::disk::{Disk, Run, Work};

impl Core {
    /// The disk that the core is of.
    ///
    /// # Panics
    /// If the drive is no disk.
    pub fn disk(&self) -> &Disk {
        self.disk
            .as_ref()
            .expect("a command of disks is served by a disk")
    }

    /// The arm's life.
    pub(super) async fn move_arm(self: Rc<Self>) {
        let disk = self.disk();
        loop {
            let work = self.cpu.work(Op::MapLookup, || disk.choose(self.cpu.now()));
            match work {
                Work::Nothing(until_ns) => {
                    if until_ns < u64::MAX {
                        disk.work.set(&self.cpu, until_ns);
                    }
                    disk.work.wait(&self.cpu).await;
                }
                Work::Read {
                    number,
                    first,
                    count,
                } => {
                    let end_ns = disk.start_read(self.cpu.now(), first, count);
                    self.cpu.sleep_until(end_ns).await;
                    disk.end_read(number, self.cpu.now());
                }
                Work::Write(run) => {
                    let end_ns = disk.start_write(self.cpu.now(), run);
                    self.cpu.sleep_until(end_ns).await;
                    if !self.write_run(disk, run) {
                        return self.cpu.halt();
                    }
                }
            }
            disk.done.notify_all(&self.cpu);
            if self.cpu.is_virtual() {
                continue;
            }
            // Where reads come from the buffer the arm would never let others have a turn.
            self.cpu.yield_now().await;
        }
    }

    /// The heads have passed over a run: its sectors are on the platter, each unless the power had gone.
    fn write_run(&self, disk: &Disk, run: Run) -> bool {
        let (mut buffer, mut platters) = (disk.buffer.borrow_mut(), disk.platters.borrow_mut());
        let platters = platters.as_mut().expect("the disk has power");
        for sector in run.first..run.first + run.count {
            let Some(data) = buffer.get(sector) else {
                // It was deallocated meanwhile.
                continue;
            };
            if !self.power.allows_change() {
                return false;
            }
            if platters.write(sector, data).is_err() {
                disk.failures.set(disk.failures.get() + 1);
            }
            buffer.remove(sector);
            disk.count(|c| c.media_writes += 1);
        }
        true
    }

    /// Copies a sector of a disk as it is now to `out`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn copy_sector(&self, sector: u32, out: &mut [u8]) -> Result<(), Failed> {
        let disk = self.disk();
        if let Some(data) = disk.buffer.borrow().get(sector) {
            out.copy_from_slice(data);
            return Ok(());
        }
        let platters = disk.platters.borrow();
        let platters = platters.as_ref().expect("the disk has power");
        platters.read(sector, out).map_err(|_| Failed {
            status: StatusCode::UnrecoveredReadError,
            lpn: sector,
        })
    }

    /// Waits until `is_settled`, and has the arm write meanwhile, before it reads if that is nearer.
    ///
    /// # Errors
    /// If a sector could not be written meanwhile.
    pub async fn settle(&self, is_settled: impl Fn(&Disk) -> bool) -> Result<(), StatusCode> {
        let disk = self.disk();
        let failures = disk.failures.get();
        disk.urgent.set(disk.urgent.get() + 1);
        while !is_settled(disk) {
            disk.work.set(&self.cpu, self.cpu.now());
            disk.done.wait(&self.cpu).await;
        }
        disk.urgent.set(disk.urgent.get() - 1);
        match disk.failures.get() > failures {
            true => Err(StatusCode::WriteFault),
            false => Ok(()),
        }
    }

    /// Brings all that a disk has taken onto the platter.
    ///
    /// # Errors
    /// If that fails.
    pub async fn flush_disk(&self) -> Result<(), StatusCode> {
        let seq = self.disk().buffer.borrow().seq();
        self.settle(|disk| disk.buffer.borrow().is_settled(seq))
            .await?;
        self.sync_platters()
    }

    /// Has what is on the platter survive a crash of the machine that keeps it.
    ///
    /// # Errors
    /// If that fails.
    pub fn sync_platters(&self) -> Result<(), StatusCode> {
        let platters = self.disk().platters.borrow();
        let synced = platters.as_ref().expect("the disk has power").sync();
        synced.map_err(|_| StatusCode::WriteFault)
    }

    /// Forgets sectors, at once and durably.
    ///
    /// # Errors
    /// If that fails.
    pub fn forget_sectors(&self, first: u32, count: u32) -> Result<(), StatusCode> {
        let disk = self.disk();
        if !self.power.allows_change() {
            self.cpu.halt();
            return Err(StatusCode::InternalError);
        }
        disk.buffer.borrow_mut().forget(first, count);
        let mut platters = disk.platters.borrow_mut();
        let platters = platters.as_mut().expect("the disk has power");
        let forgotten = platters.forget(first, count);
        disk.done.notify_all(&self.cpu);
        forgotten.map_err(|_| StatusCode::WriteFault)
    }
}
