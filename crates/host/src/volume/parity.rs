//! RAID-5: writes that keep parity true.
//!
//! Problem: a write of a page changes the parity of its row, which another CPU may change at the same time for
//! another page; and the commands of a transfer can only be sent when what they need was read.
//!
//! Idea: each window of a write (`plan.rs`) is carried out by a task of its own on the CPU that asked for it. To
//! the group of the transfer it is one command more, which ends when the task does. The task
//!
//! 1. locks the window's pages of the row, against the tasks of all CPUs;
//! 2. takes memory for what is to be read and for the new parity, all at once and behind the lock, so that
//!    who waits for memory waits for tasks that have all they need;
//! 3. reads what the plan of each band needs, and computes the parity ([`Op::XorPage`] for each page that goes
//!    in or out);
//! 4. writes data and parity, and unlocks when all drives have answered.
//!
//! A write that failed leaves parity behind that may be of the old data or of the new. Its pages are
//! remembered, and the next write there adds up all columns anew whatever it costs. After a timeout the drives
//! may still use memory and pages: both stay taken until they have answered.
//!
//! Deallocation: windows that are covered whole are deallocated on all drives, parity included, as the sum of zeros
//! is zero; on the others zeros are written.
//!
//! Not here: a journal (after a power cut amid a write parity may be of the old data or the new, as on md without
//! one), and reads without a drive. The arrays of real storage have both.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::sync::{AtomicBool, AtomicU32, Ordering};
use wharf_runtime::{Cpu, Lock, Op, xor_into};
use wharf_wire::dma::{DmaRegion, DmaSpace, RegisterError};
use wharf_wire::dsm::DsmRange;

use super::command::{NAMESPACE, Transfer, issue_run};
use super::layout::Layout;
use super::plan::{Band, Plan, Window, scratch_pages_max, windows};
use crate::buffers::Buffers;
use crate::driver::Driver;
use crate::error::IoError;
use crate::group::{Group, Groups, NO_RESULT, Outcome};
use wharf_runtime::range_lock::{RangeGuard, RangeLocks};
use wharf_runtime::wake::{Mailboxes, Pause};

/// Pages of a CPU's memory for parity, at least: single pages of so many writes, by three.
const SCRATCH_PAGES_MIN: u64 = 384;

/// What all CPUs that use a volume with parity share.
pub struct ParityLocks {
    locks: Arc<RangeLocks>,
    mailboxes: Arc<Mailboxes>,
    users: u32,
    next_user: AtomicU32,
    /// Pages of the drives whose parity a write has left in doubt.
    doubtful: Lock<BTreeSet<u64>>,
    any_doubtful: AtomicBool,
}

impl ParityLocks {
    /// For a volume that `users` CPUs open.
    pub fn new(users: u32) -> Arc<ParityLocks> {
        let mailboxes = Mailboxes::new(users);
        Arc::new(ParityLocks {
            locks: Arc::new(RangeLocks::new(mailboxes.clone())),
            mailboxes,
            users,
            next_user: AtomicU32::new(0),
            doubtful: Lock::new(BTreeSet::new()),
            any_doubtful: AtomicBool::new(false),
        })
    }

    /// Pages of the drives whose parity is in doubt: a write there failed, and none came after.
    pub fn doubtful(&self, cpu: &Cpu) -> Vec<u64> {
        self.doubtful
            .with(cpu, |pages| pages.iter().copied().collect())
    }

    /// Whether parity of any of these pages is in doubt. The caller has locked them: so has who put them in doubt,
    /// before, and the plain loads and stores are ordered by that lock.
    fn is_doubtful(&self, cpu: &Cpu, lbas: Range<u64>) -> bool {
        self.any_doubtful.load(Ordering::Relaxed)
            && self
                .doubtful
                .with(cpu, |pages| pages.range(lbas).next().is_some())
    }

    fn doubt(&self, cpu: &Cpu, lbas: Range<u64>) {
        self.doubtful.with(cpu, |pages| pages.extend(lbas));
        self.any_doubtful.store(true, Ordering::Relaxed);
    }

    fn trust(&self, cpu: &Cpu, lbas: &Range<u64>) {
        self.doubtful
            .with(cpu, |pages| pages.retain(|lba| !lbas.contains(lba)));
    }
}

/// A CPU's side of it. Its tasks share it.
pub(super) struct Parity {
    cpu: Cpu,
    drivers: Vec<Rc<Driver>>,
    groups: Rc<Groups>,
    layout: Layout,
    space: Arc<DmaSpace>,
    shared: Arc<ParityLocks>,
    user: u32,
    scratch: Buffers,
    zeros: DmaRegion,
    next_lock: Cell<u64>,
}

/// What a task does with its window.
enum Change {
    /// Writes the pages of a transfer: its first page in the volume, and where the pages are in memory.
    Store {
        kind: Transfer,
        first: u64,
        addresses: Rc<[u64]>,
    },
    /// Deallocates all of it.
    Forget,
}

/// A band on its way: where in the task's memory its parity is, and the columns that are read.
struct Step<'a> {
    band: &'a Band,
    plan: Plan,
    parity: usize,
    reads: Vec<(u64, usize)>,
}

/// Memory that a task has taken.
#[derive(Default)]
struct Scratch {
    numbers: Vec<u32>,
    addresses: Vec<u64>,
}

impl Parity {
    /// For the drives of a volume, on the CPU of their drivers.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(
        drivers: Vec<Rc<Driver>>,
        layout: Layout,
        space: &Arc<DmaSpace>,
        shared: &Arc<ParityLocks>,
    ) -> Result<Rc<Parity>, RegisterError> {
        // Relaxed: the number alone counts.
        let user = shared.next_user.fetch_add(1, Ordering::Relaxed);
        assert!(user < shared.users, "{} CPUs share parity", shared.users);
        let cpu = drivers[0].cpu().clone();
        shared.mailboxes.serve(&cpu, user);
        let scratch_pages = scratch_pages_max(&layout).max(SCRATCH_PAGES_MIN);
        Ok(Rc::new(Parity {
            cpu,
            groups: drivers[0].groups().clone(),
            drivers,
            layout,
            scratch: Buffers::new(space, scratch_pages as u32)?,
            zeros: space.register(1)?,
            space: space.clone(),
            shared: shared.clone(),
            user,
            next_lock: Cell::new(0),
        }))
    }

    /// Begins a write, as commands of `group`.
    pub fn store(self: &Rc<Self>, group: &Group, kind: Transfer, first: u64, addresses: &[u64]) {
        let addresses: Rc<[u64]> = addresses.into();
        for window in windows(&self.layout, first, addresses.len() as u64) {
            let addresses = addresses.clone();
            let change = Change::Store {
                kind,
                first,
                addresses,
            };
            self.begin(group, window, change);
        }
    }

    /// Begins to deallocate, as commands of `group`.
    pub fn forget(self: &Rc<Self>, group: &Group, first: u64, pages: u64) {
        let zeros: Rc<[u64]> = vec![self.zeros.address(0); pages as usize].into();
        for window in windows(&self.layout, first, pages) {
            let change = match window.is_whole(&self.layout) {
                true => Change::Forget,
                false => Change::Store {
                    kind: Transfer::Write,
                    first,
                    addresses: zeros.clone(),
                },
            };
            self.begin(group, window, change);
        }
    }

    /// Has pages hold zeros, in as many tasks as there are windows.
    pub fn zero(self: &Rc<Self>, group: &Group, first: u64, pages: u64) {
        let zeros: Rc<[u64]> = vec![self.zeros.address(0); pages as usize].into();
        for window in windows(&self.layout, first, pages) {
            let change = Change::Store {
                kind: Transfer::Write,
                first,
                addresses: zeros.clone(),
            };
            self.begin(group, window, change);
        }
    }

    fn begin(self: &Rc<Self>, group: &Group, window: Window, change: Change) {
        let (parity, group) = (self.clone(), group.index());
        self.groups.begin(&self.cpu, group);
        self.cpu.spawn("parity", async move {
            parity.change(group, &window, &change).await;
        });
    }

    /// The life of a task.
    async fn change(&self, group: u32, window: &Window, change: &Change) {
        let (cpu, groups) = (&self.cpu, &self.groups);
        // One that ran ahead must not lock what others want in its past.
        cpu.pace().await;
        let guard = self.lock(window).await;
        let (own, mut scratch) = (groups.open(), Scratch::default());
        let changed = match change {
            Change::Store {
                kind,
                first,
                addresses,
            } => {
                let write = Write {
                    parity: self,
                    window,
                    kind: *kind,
                    first: *first,
                    addresses,
                };
                write.carry_out(&own, &mut scratch).await
            }
            Change::Forget => self.deallocate(&own, window).await,
        };
        let error = changed.err();
        let outcome = Outcome {
            result: if error.is_some() { NO_RESULT } else { 0 },
            error,
        };
        match error {
            Some(error) if !own.is_quiet() => {
                groups.time_out(cpu, group, error);
                while !own.is_quiet() {
                    own.watch(cpu);
                    Pause::default().await;
                }
                self.free(scratch, guard);
                groups.end_late(cpu, group, outcome);
            }
            _ => {
                self.free(scratch, guard);
                groups.end(cpu, group, outcome);
            }
        }
    }

    fn free(&self, mut scratch: Scratch, guard: RangeGuard) {
        self.scratch.give_back(&self.cpu, &mut scratch.numbers);
        drop(guard);
    }

    async fn lock(&self, window: &Window) -> RangeGuard {
        let id = u64::from(self.user) << 40 | self.next_lock.get();
        self.next_lock
            .set((self.next_lock.get() + 1) & ((1 << 40) - 1));
        let lbas = window.hull();
        let locks = &self.shared.locks;
        locks
            .lock(&self.cpu, self.user, id, lbas.start, lbas.end - lbas.start)
            .await
    }

    /// Deallocates a window on all drives.
    async fn deallocate(&self, own: &Group, window: &Window) -> Result<(), IoError> {
        let lbas = window.hull();
        let range = [DsmRange::new(lbas.start, (lbas.end - lbas.start) as u32)];
        for driver in &self.drivers {
            let slot = driver.reserve().await;
            driver.issue_ranges(slot, own, NAMESPACE, &range);
        }
        self.settle(own, window).await
    }

    /// Waits for the commands that change a window, and keeps book of what became of its parity.
    async fn settle(&self, own: &Group, window: &Window) -> Result<(), IoError> {
        self.drivers.iter().for_each(|driver| driver.ring());
        let ended = own.wait(&self.cpu).await.map(drop);
        for band in &window.bands {
            let lbas = band.lbas.clone();
            match ended {
                Err(_) => self.shared.doubt(&self.cpu, lbas),
                Ok(()) if self.shared.is_doubtful(&self.cpu, lbas.clone()) => {
                    self.shared.trust(&self.cpu, &lbas);
                }
                Ok(()) => {}
            }
        }
        ended
    }
}

/// A write of one window.
struct Write<'a> {
    parity: &'a Parity,
    window: &'a Window,
    kind: Transfer,
    first: u64,
    addresses: &'a [u64],
}

impl Write<'_> {
    async fn carry_out(&self, own: &Group, scratch: &mut Scratch) -> Result<(), IoError> {
        let parity = self.parity;
        let (steps, pages) = self.steps();
        let (numbers, addresses) = (&mut scratch.numbers, &mut scratch.addresses);
        parity
            .scratch
            .take(&parity.cpu, pages, numbers, addresses)
            .await;
        if self.read(own, &steps, &scratch.addresses).await {
            own.wait(&parity.cpu).await?;
        }
        steps.iter().for_each(|step| self.add_up(step, scratch));
        self.write(own, &steps, &scratch.addresses).await;
        parity.settle(own, self.window).await
    }

    /// How each band gets its parity, and the pages of memory that takes.
    fn steps(&self) -> (Vec<Step<'_>>, usize) {
        let (parity, columns) = (self.parity, self.parity.layout.columns);
        let mut taken = 0;
        let mut take = |band: &Band| {
            let at = taken;
            taken += band.pages() as usize;
            at
        };
        let step = |band| {
            let is_doubtful = |band: &Band| {
                let lbas = band.lbas.clone();
                parity.shared.is_doubtful(&parity.cpu, lbas)
            };
            let plan = match is_doubtful(band) {
                true => Plan::Reconstruct,
                false => band.plan(columns),
            };
            let reads = band.reads(plan, columns).into_iter();
            Step {
                band,
                plan,
                parity: take(band),
                reads: reads.map(|column| (column, take(band))).collect(),
            }
        };
        let steps = self.window.bands.iter().map(step).collect();
        (steps, taken)
    }

    /// Sends the reads; false if there are none.
    async fn read(&self, own: &Group, steps: &[Step<'_>], scratch: &[u64]) -> bool {
        let (parity, row) = (self.parity, self.window.row);
        let mut any = false;
        for step in steps {
            let (lba, pages) = (step.band.lbas.start, step.band.pages() as usize);
            let old_parity = (parity.layout.parity_drive(row), step.parity);
            let columns = step.reads.iter();
            let data = columns.map(|(column, at)| (parity.layout.data_drive(row, *column), *at));
            let is_modified = step.plan == Plan::Modify;
            for (drive, at) in is_modified.then_some(old_parity).into_iter().chain(data) {
                let (driver, to) = (&parity.drivers[drive], &scratch[at..at + pages]);
                issue_run(driver, own, Transfer::Read, lba, to).await;
                any = true;
            }
        }
        parity.drivers.iter().for_each(|driver| driver.ring());
        any
    }

    /// Makes the new parity of a band.
    fn add_up(&self, step: &Step<'_>, scratch: &Scratch) {
        let buffers = &self.parity.scratch;
        let terms = step.reads.len() as u64 + step.band.columns.end - step.band.columns.start;
        for (at, lba) in step.band.lbas.clone().enumerate() {
            // SAFETY: the page is this task's, and its reads have ended.
            let sum = unsafe { buffers.page_mut(scratch.numbers[step.parity + at]) };
            self.parity.cpu.work_n(Op::XorPage, terms as u32, || {
                if step.plan == Plan::Reconstruct {
                    sum.fill(0);
                }
                for (_, read) in &step.reads {
                    // SAFETY: as above, and it is another page.
                    let page = unsafe { buffers.page_mut(scratch.numbers[read + at]) };
                    xor_into(sum, page);
                }
                for column in step.band.columns.clone() {
                    xor_into(sum, self.data(column, lba));
                }
            });
        }
    }

    /// Where in memory a page of the write is.
    fn address(&self, column: u64, lba: u64) -> u64 {
        let Layout {
            columns,
            stripe_pages,
            ..
        } = self.parity.layout;
        let stripe = self.window.row * columns + column;
        let page = stripe * stripe_pages + lba % stripe_pages;
        self.addresses[(page - self.first) as usize]
    }

    /// A page of the write.
    fn data(&self, column: u64, lba: u64) -> &[u8] {
        let space = &self.parity.space;
        let page = space.page(self.address(column, lba));
        let page = page.expect("who writes names its own memory");
        // SAFETY: a page of memory that is lent for the transfer: nobody changes it until that has ended.
        unsafe { std::slice::from_raw_parts(page.pointer(), page.bytes()) }
    }

    /// Sends data and parity.
    async fn write(&self, own: &Group, steps: &[Step<'_>], scratch: &[u64]) {
        let (parity, row) = (self.parity, self.window.row);
        for (column, lbas) in self.window.data_runs() {
            let driver = &parity.drivers[parity.layout.data_drive(row, column)];
            let pages = lbas.clone().map(|lba| self.address(column, lba));
            let pages: Vec<u64> = pages.collect();
            issue_run(driver, own, self.kind, lbas.start, &pages).await;
        }
        let driver = &parity.drivers[parity.layout.parity_drive(row)];
        let all = steps.iter().flat_map(|step| {
            let pages = step.band.pages() as usize;
            &scratch[step.parity..step.parity + pages]
        });
        let all: Vec<u64> = all.copied().collect();
        let mut rest = &all[..];
        for lbas in self.window.parity_runs() {
            let (run, others) = rest.split_at((lbas.end - lbas.start) as usize);
            issue_run(driver, own, self.kind, lbas.start, run).await;
            rest = others;
        }
    }
}
