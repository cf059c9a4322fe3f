//! Mocks of both sides of the command set, for tests: a drive that keeps pages in a map, and a
//! host that sends commands and collects completions.
//!
//! The [`MockDrive`] does what a drive must do and no more, and on demand what it must not:
//! each command's fate (delay, failure, silence, a wrong identifier) is decided by a closure. It
//! also checks its host: the pages of a write must not change while the command is in flight.

mod host;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use wharf_runtime::{Cpu, Notifier};
use zerocopy::IntoBytes;

use crate::admin::Cns;
use crate::command::Command;
use crate::completion::Completion;
use crate::dma::DmaSpace;
use crate::dsm::read_ranges;
use crate::features::{FeatureId, NumberOfQueues};
use crate::identify::{IdentifyController, IdentifyNamespace};
use crate::lba_status::{Completeness, LbaStatusRun, write_answer};
use crate::log_page::{LogPage, SmartHealth};
use crate::opcode::{AdminOpcode, IoOpcode};
use crate::prp::prp_collect;
use crate::queue::DriveQueue;
use crate::space::{SpaceLevel, SpacePage};
use crate::statistics::DriveStatistics;
use crate::status::{Status, StatusCode};

pub use host::MockHost;

/// A delay after which a full completion queue is looked at again.
const FULL_QUEUE_RETRY_NS: u64 = 1_000;

/// I/O queues that the mock allots.
const QUEUES: u32 = 64;

/// What becomes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is done and answered after so many nanoseconds.
    Done(u64),
    /// Nothing is done; it is answered with a status after so many nanoseconds.
    Failed(StatusCode, u64),
    /// It is never answered, and nothing is done.
    Silence,
    /// It is done and answered, and a second answer follows at once.
    Twice(u64),
    /// Nothing is done, and an answer goes to another identifier.
    Misdirected(u16),
}

/// What a mock drive holds and saw; shared with the test.
#[derive(Default)]
pub struct MockStore {
    pages: Mutex<BTreeMap<u64, Vec<u8>>>,
    seen: Mutex<Vec<Command>>,
    unflushed: Mutex<Option<Unflushed>>,
    level: Mutex<Option<SpaceLevel>>,
}

/// What a drive with a volatile write cache may lose.
#[derive(Default)]
struct Unflushed {
    /// The pages as they were at the last flush.
    durable: BTreeMap<u64, Vec<u8>>,
    /// What was written and deallocated since, oldest first.
    changes: Vec<(u64, Option<Vec<u8>>)>,
}

fn apply(pages: &mut BTreeMap<u64, Vec<u8>>, (lba, bytes): (u64, Option<Vec<u8>>)) {
    match bytes {
        Some(bytes) => drop(pages.insert(lba, bytes)),
        None => drop(pages.remove(&lba)),
    }
}

impl MockStore {
    /// The bytes of a page, if it was written.
    pub fn page(&self, lba: u64) -> Option<Vec<u8>> {
        self.pages
            .lock()
            .expect("no holder panics")
            .get(&lba)
            .cloned()
    }

    /// Puts bytes into a page, as if written before.
    pub fn set_page(&self, lba: u64, bytes: &[u8]) {
        self.pages
            .lock()
            .expect("no holder panics")
            .insert(lba, bytes.to_vec());
    }

    /// How full the drive says it is from now on, in every completion.
    pub fn set_space_level(&self, level: SpaceLevel) {
        *self.level.lock().expect("no holder panics") = Some(level);
    }

    /// All pages there are.
    pub fn pages(&self) -> BTreeMap<u64, Vec<u8>> {
        self.pages.lock().expect("no holder panics").clone()
    }

    /// From now on the drive has a volatile write cache: it holds `pages`, durably, and may lose what changes them until
    /// it is flushed.
    pub fn be_volatile(&self, pages: BTreeMap<u64, Vec<u8>>) {
        *self.pages.lock().expect("no holder panics") = pages.clone();
        let unflushed = Unflushed {
            durable: pages,
            changes: Vec::new(),
        };
        *self.unflushed.lock().expect("no holder panics") = Some(unflushed);
    }

    /// What the drive holds after a loss of power: of each page that was changed since the last flush, in the order of the
    /// changes, what `keeps` says.
    ///
    /// # Panics
    /// If the drive has no volatile write cache.
    pub fn after_loss(&self, mut keeps: impl FnMut() -> bool) -> BTreeMap<u64, Vec<u8>> {
        let unflushed = self.unflushed.lock().expect("no holder panics");
        let unflushed = unflushed.as_ref().expect("it has a volatile write cache");
        let mut pages = unflushed.durable.clone();
        let kept = unflushed.changes.iter().filter(|_| keeps());
        kept.for_each(|change| apply(&mut pages, change.clone()));
        pages
    }

    fn note(&self, lba: u64, bytes: Option<&[u8]>) {
        if let Some(unflushed) = &mut *self.unflushed.lock().expect("no holder panics") {
            unflushed.changes.push((lba, bytes.map(<[u8]>::to_vec)));
        }
    }

    fn flush(&self) {
        if let Some(unflushed) = &mut *self.unflushed.lock().expect("no holder panics") {
            let changes = std::mem::take(&mut unflushed.changes);
            let durable = &mut unflushed.durable;
            changes
                .into_iter()
                .for_each(|change| apply(durable, change));
        }
    }

    /// The I/O commands fetched so far, in order.
    pub fn seen(&self) -> Vec<Command> {
        self.seen.lock().expect("no holder panics").clone()
    }

    /// How many I/O commands of a kind were fetched so far.
    pub fn count(&self, opcode: IoOpcode) -> usize {
        let seen = self.seen.lock().expect("no holder panics");
        seen.iter().filter(|c| c.opcode == opcode.raw()).count()
    }
}

type Decide = Box<dyn FnMut(u64, &Command) -> Fate + Send>;

struct Pending {
    queue: usize,
    command: Command,
    fate: Fate,
    /// A write's pages as they were when the command was fetched.
    snapshot: Vec<u8>,
}

/// A drive of one namespace, with no flash behind it. Make it, then spawn [`MockDrive::run`].
pub struct MockDrive {
    dma: Arc<DmaSpace>,
    notifier: Notifier,
    pages: u64,
    /// Base-2 logarithm of the most pages of a transfer; 0 for no limit.
    pub mdts: u8,
    store: Arc<MockStore>,
    queues: Vec<(u16, DriveQueue)>,
    completion_queues: Vec<u16>,
    decide: Decide,
    fetched: u64,
    pending: BTreeMap<(u64, u64), Pending>,
}

impl MockDrive {
    /// A drive of `pages` pages whose queues notify `notifier`. `decide` is called with the number of
    /// each command, from 0, and the command.
    pub fn new(
        dma: &Arc<DmaSpace>,
        notifier: &Notifier,
        pages: u64,
        decide: impl FnMut(u64, &Command) -> Fate + Send + 'static,
    ) -> MockDrive {
        MockDrive {
            dma: dma.clone(),
            notifier: notifier.clone(),
            pages,
            mdts: 8,
            store: Arc::default(),
            queues: Vec::new(),
            completion_queues: Vec::new(),
            decide: Box::new(decide),
            fetched: 0,
            pending: BTreeMap::new(),
        }
    }

    /// The drive's pages, and what it saw.
    pub fn store(&self) -> Arc<MockStore> {
        self.store.clone()
    }

    /// Attaches a queue as number `qid`; 0 is the admin queue.
    pub fn attach(&mut self, qid: u16, queue: DriveQueue) {
        self.queues.push((qid, queue));
    }

    /// Serves its queues for as long as the machine runs.
    pub async fn run(mut self, cpu: Cpu) {
        let notifier = self.notifier.clone();
        notifier.attach(&cpu);
        loop {
            while self.fetch(&cpu) {}
            let full = !self.answer_due(&cpu);
            match self.pending.first_key_value() {
                None => drop(notifier.wait(&cpu).await),
                Some((&(due_ns, _), _)) => {
                    let at_ns = if full {
                        cpu.now() + FULL_QUEUE_RETRY_NS
                    } else {
                        due_ns
                    };
                    let _ = notifier.wait_until(&cpu, at_ns).await;
                }
            }
        }
    }

    fn fetch(&mut self, cpu: &Cpu) -> bool {
        let mut any = false;
        for queue in 0..self.queues.len() {
            if let Some(command) = self.queues[queue].1.fetch(cpu) {
                any = true;
                self.start(cpu, queue, command);
            }
        }
        any
    }

    fn start(&mut self, cpu: &Cpu, queue: usize, command: Command) {
        let number = self.fetched;
        self.fetched += 1;
        let is_io = self.queues[queue].0 != 0;
        if is_io {
            self.store
                .seen
                .lock()
                .expect("no holder panics")
                .push(command);
        }
        let fate = (self.decide)(number, &command);
        let after_ns = match fate {
            Fate::Done(after_ns) | Fate::Failed(_, after_ns) | Fate::Twice(after_ns) => after_ns,
            Fate::Misdirected(_) => 0,
            Fate::Silence => return,
        };
        let snapshot = if is_io {
            self.written_bytes(&command)
        } else {
            Vec::new()
        };
        let pending = Pending {
            queue,
            command,
            fate,
            snapshot,
        };
        self.pending.insert((cpu.now() + after_ns, number), pending);
    }

    /// Answers what is due; false if a completion queue was full.
    fn answer_due(&mut self, cpu: &Cpu) -> bool {
        while let Some(entry) = self.pending.first_entry() {
            if entry.key().0 > cpu.now() {
                return true;
            }
            if !self.queues[entry.get().queue].1.has_room() {
                return false;
            }
            let pending = entry.remove();
            self.answer(cpu, pending);
        }
        true
    }

    fn answer(&mut self, cpu: &Cpu, pending: Pending) {
        let Pending {
            queue,
            command,
            fate,
            snapshot,
        } = pending;
        let (cid, outcome) = match fate {
            Fate::Failed(status, _) => (command.cid, Err(status)),
            Fate::Misdirected(cid) => (cid, Ok(0)),
            _ if self.queues[queue].0 == 0 => (command.cid, self.admin(&command)),
            _ => (command.cid, self.io(&command, &snapshot)),
        };
        let completion = match outcome {
            Ok(result) => Completion::new(cid, Status::SUCCESS).with_result(result),
            Err(code) => Completion::new(cid, Status::new(code)),
        };
        let level = *self.store.level.lock().expect("no holder panics");
        let completion = match level {
            Some(level) => completion.with_space_level(level),
            None => completion,
        };
        for _ in 0..1 + u32::from(matches!(fate, Fate::Twice(_))) {
            let (qid, queue) = &mut self.queues[queue];
            queue.complete(cpu, *qid, completion, cpu.now());
        }
    }

    fn addresses(&self, command: &Command) -> Result<Vec<u64>, StatusCode> {
        let mut addresses = Vec::new();
        let read = |at| self.dma.read_u64(at);
        prp_collect(
            command.prp1,
            command.prp2,
            command.pages(),
            read,
            &mut addresses,
        )
        .map_err(|error| error.status())?;
        Ok(addresses)
    }

    fn page_bytes_at(&self, address: u64) -> Result<Vec<u8>, StatusCode> {
        let page = self.dma.page(address);
        let page = page.map_err(|_| StatusCode::DataTransferError)?;
        let mut bytes = vec![0; page.bytes()];
        // SAFETY: a command in flight names the page as its source.
        unsafe { page.copy_out(&mut bytes) };
        Ok(bytes)
    }

    /// What the host's pages of a write hold now; nothing for other commands.
    fn written_bytes(&self, command: &Command) -> Vec<u8> {
        if command.io_opcode() != Some(IoOpcode::Write) {
            return Vec::new();
        }
        let addresses = self.addresses(command).unwrap_or_default();
        addresses
            .iter()
            .flat_map(|&at| self.page_bytes_at(at).unwrap_or_default())
            .collect()
    }

    fn io(&mut self, command: &Command, snapshot: &[u8]) -> Result<u32, StatusCode> {
        let opcode = command.io_opcode().ok_or(StatusCode::InvalidOpcode)?;
        match opcode {
            IoOpcode::Flush => {
                self.store.flush();
                return Ok(0);
            }
            IoOpcode::DatasetManagement => return self.deallocate(command),
            IoOpcode::GetLbaStatus => return self.lba_status(command),
            _ => command.check_lba_range(self.pages)?,
        }
        if self.mdts > 0 && command.pages() > 1 << self.mdts {
            return Err(StatusCode::InvalidField);
        }
        let store = self.store.clone();
        let mut pages = store.pages.lock().expect("no holder panics");
        let range = command.slba()..command.slba() + u64::from(command.pages());
        match opcode {
            IoOpcode::Read => {
                for (lba, address) in range.zip(self.addresses(command)?) {
                    let page = self.dma.page(address);
                    let page = page.map_err(|_| StatusCode::DataTransferError)?;
                    // SAFETY: a command in flight names the page as its target, and the mock is one task.
                    unsafe {
                        match pages.get(&lba) {
                            Some(bytes) => page.copy_in(bytes),
                            None => page.clear(),
                        }
                    }
                }
            }
            IoOpcode::Write => {
                let addresses = self.addresses(command)?;
                let mut before = snapshot.chunks(self.dma.page_bytes());
                for (lba, address) in range.zip(addresses) {
                    let bytes = self.page_bytes_at(address)?;
                    let was = before.next().unwrap_or_default();
                    assert!(
                        was == bytes,
                        "the host changed page {lba} of a write in flight"
                    );
                    store.note(lba, Some(&bytes));
                    pages.insert(lba, bytes);
                }
            }
            IoOpcode::WriteZeroes if command.may_deallocate() => {
                for lba in range {
                    store.note(lba, None);
                    pages.remove(&lba);
                }
            }
            IoOpcode::WriteZeroes => {
                let zeros = vec![0; self.dma.page_bytes()];
                for lba in range {
                    store.note(lba, Some(&zeros));
                    pages.insert(lba, zeros.clone());
                }
            }
            _ => {}
        }
        Ok(0)
    }

    fn deallocate(&mut self, command: &Command) -> Result<u32, StatusCode> {
        let count = command.range_count();
        let mut list = vec![0; count as usize * 16];
        // SAFETY: the page is named by a command in flight, and the mock is one task.
        unsafe { self.dma.read_bytes(command.prp1, &mut list) }
            .map_err(|_| StatusCode::DataTransferError)?;
        let ranges = read_ranges(&list, count).map_err(|_| StatusCode::InvalidField)?;
        let mut pages = self.store.pages.lock().expect("no holder panics");
        for range in ranges {
            range.check(self.pages)?;
            let all = range.slba..range.slba + u64::from(range.pages);
            // Long ranges are mostly empty.
            let held: Vec<u64> = pages.range(all).map(|(lba, _)| *lba).collect();
            for lba in held {
                self.store.note(lba, None);
                pages.remove(&lba);
            }
        }
        Ok(0)
    }

    /// Tells which pages there are, each a run of its own where the next is not its neighbour.
    fn lba_status(&self, command: &Command) -> Result<u32, StatusCode> {
        let (first, end) = command.status_range(self.pages)?;
        let room = (command.status_bytes().saturating_sub(8) / 16) as usize;
        let pages = self.store.pages.lock().expect("no holder panics");
        let (mut runs, mut is_whole) = (Vec::<LbaStatusRun>::new(), true);
        for (lba, _) in pages.range(first..end) {
            let is_full = runs.len() == room;
            match runs.last_mut() {
                Some(run) if run.dslba + u64::from(run.nlb) == *lba => run.nlb += 1,
                _ if is_full => {
                    is_whole = false;
                    break;
                }
                _ => runs.push(LbaStatusRun::new(*lba, 1)),
            }
        }
        let completeness = match is_whole {
            true => Completeness::Whole,
            false => Completeness::Partly,
        };
        self.write_page(command, &write_answer(&runs, completeness))
    }

    fn write_page(&self, command: &Command, bytes: &[u8]) -> Result<u32, StatusCode> {
        // SAFETY: the page is named by a command in flight, and the mock is one task.
        unsafe { self.dma.write_bytes(command.prp1, bytes) }
            .map(|()| 0)
            .map_err(|_| StatusCode::DataTransferError)
    }

    fn admin(&mut self, command: &Command) -> Result<u32, StatusCode> {
        match command.admin_opcode().ok_or(StatusCode::InvalidOpcode)? {
            AdminOpcode::Identify => match command.cns() {
                Some(Cns::Controller) => {
                    let mut controller = IdentifyController::new("Mock", "M0", "0");
                    controller.mdts = self.mdts;
                    self.write_page(command, controller.as_bytes())
                }
                Some(Cns::Namespace) => {
                    self.write_page(command, IdentifyNamespace::new(self.pages).as_bytes())
                }
                _ => Err(StatusCode::InvalidField),
            },
            AdminOpcode::CreateCompletionQueue => {
                self.completion_queues.push(command.queue_id());
                Ok(0)
            }
            AdminOpcode::CreateSubmissionQueue => {
                let qid = command.queue_id();
                if !self
                    .completion_queues
                    .contains(&command.queue_completion_id())
                {
                    return Err(StatusCode::CompletionQueueInvalid);
                }
                let queue = self.dma.take_offer(command.prp1);
                self.queues
                    .push((qid, queue.ok_or(StatusCode::DataTransferError)?));
                Ok(0)
            }
            // The queue stays where it is, since its number in `queues` is in use; it is silent.
            AdminOpcode::DeleteSubmissionQueue => Ok(0),
            AdminOpcode::DeleteCompletionQueue => {
                self.completion_queues
                    .retain(|&qid| qid != command.queue_id());
                Ok(0)
            }
            AdminOpcode::GetFeatures | AdminOpcode::SetFeatures => match command.feature() {
                Some(FeatureId::NumberOfQueues) => Ok(NumberOfQueues {
                    submission: QUEUES,
                    completion: QUEUES,
                }
                .to_value()),
                _ => Ok(command.feature_value()),
            },
            AdminOpcode::GetLogPage => self.log_page(command),
            AdminOpcode::GetLbaStatus => self.lba_status(command),
            // There is no event: it is answered at once with nothing.
            AdminOpcode::AsyncEventRequest => Ok(0),
            AdminOpcode::SetKey | AdminOpcode::Revoke => Err(StatusCode::InvalidOpcode),
            AdminOpcode::FormatNvm => {
                self.store.pages.lock().expect("no holder panics").clear();
                Ok(0)
            }
        }
    }

    fn log_page(&self, command: &Command) -> Result<u32, StatusCode> {
        let page = match command.log_page().ok_or(StatusCode::InvalidLogPage)? {
            LogPage::SmartHealth => SmartHealth::default().as_bytes().to_vec(),
            LogPage::ErrorInformation => vec![0; 64 * 64],
            LogPage::Space => {
                let mut space = SpacePage::new(64);
                space.capacity = self.pages * 64;
                let pages = self.store.pages.lock().expect("no holder panics").len();
                (space.used, space.allocated_pages) = (pages as u64 * 64, pages as u64);
                space.as_bytes().to_vec()
            }
            LogPage::DriveStatistics => {
                let mut whole = DriveStatistics::new(DriveStatistics::WHOLE_DRIVE);
                whole.mapped_pages =
                    self.store.pages.lock().expect("no holder panics").len() as u64;
                whole.as_bytes().to_vec()
            }
            LogPage::CoreStatistics => (0..2)
                .flat_map(|core| DriveStatistics::new(core).as_bytes().to_vec())
                .collect(),
            LogPage::FileSystem | LogPage::DeviceCache => {
                return Err(StatusCode::InvalidLogPage);
            }
        };
        let from = (command.log_page_offset() as usize).min(page.len());
        let to = (from + command.log_page_bytes() as usize).min(page.len());
        self.write_page(command, &page[from..to])
    }
}
