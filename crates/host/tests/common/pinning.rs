//! A drive that pins pages in memory that the host lends, for tests: what the command set says of
//! pins and no more, with faults on demand, and with checks of its host.
//!
//! Commands are served whole, in the order of their random delays. A command that fails does a
//! part first. A pin that would have to wait for a frame, or an unpin of a page that is not
//! pinned, is a fault of the host: the drive panics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use wharf_host::hmb::HmbMemory;
use wharf_runtime::{Cpu, Notifier};
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::dma::{DmaSpace, PAGE_BYTES};
use wharf_wire::host_memory::{FrameTable, HostMemoryDescriptor};
use wharf_wire::mock::{Fate, MockStore};
use wharf_wire::opcode::IoOpcode;
use wharf_wire::pin::{Access, Unpin, address_offset, told_address, unpin_offset};
use wharf_wire::queue::DriveQueue;
use wharf_wire::status::{Status, StatusCode};
use zerocopy::FromBytes;

/// Time after which a flush looks again at a page that somebody is writing.
const LOOK_AGAIN_NS: u64 = 700;

#[derive(Clone, Copy, Default)]
struct Frame {
    page: Option<u64>,
    references: u32,
    /// It holds zeros until the host has written it.
    is_blank: bool,
}

struct Hmb {
    first: u64,
    table: FrameTable,
    frames: Vec<Frame>,
    of_page: BTreeMap<u64, usize>,
    hands: Vec<usize>,
}

/// What the test sees of a drive.
#[derive(Default)]
pub struct PinState {
    pub store: Arc<MockStore>,
    /// What completions say of collection.
    pub collects: AtomicBool,
    /// Cores by which the drive is wrong about whose a page is.
    pub rotate_cores: AtomicU64,
    hmb: Mutex<Option<Hmb>>,
    seen: Mutex<Vec<Command>>,
}

impl PinState {
    /// Lends the drive memory.
    pub fn lend(&self, space: &DmaSpace, memory: HmbMemory, cores: u32) {
        let mut bytes = [0; size_of::<HostMemoryDescriptor>()];
        // SAFETY: the list is its lender's, who is not looking at it.
        unsafe { space.read_bytes(memory.list, &mut bytes) }.unwrap();
        let chunk = HostMemoryDescriptor::read_from_bytes(&bytes).unwrap();
        assert_eq!((memory.entries, chunk.bsize), (1, memory.frames));
        let frames = memory.frames as usize;
        *self.hmb.lock().unwrap() = Some(Hmb {
            first: chunk.badd,
            table: space.frame_table(chunk.table, frames).unwrap(),
            frames: vec![Frame::default(); frames],
            of_page: BTreeMap::new(),
            hands: vec![0; cores as usize],
        });
    }

    /// References that the host has not given back.
    pub fn references(&self) -> u32 {
        let hmb = self.hmb.lock().unwrap();
        let frames = &hmb.as_ref().expect("memory is hmb").frames;
        frames.iter().map(|frame| frame.references).sum()
    }

    /// The commands fetched so far.
    pub fn seen(&self) -> Vec<Command> {
        self.seen.lock().unwrap().clone()
    }
}

/// The drive. Make it, then spawn [`PinDrive::run`].
pub struct PinDrive<F> {
    pub dma: Arc<DmaSpace>,
    pub notifier: Notifier,
    pub pages: u64,
    pub cores: u32,
    pub core_stripe_pages: u32,
    pub state: Arc<PinState>,
    pub queues: Vec<(u16, DriveQueue)>,
    pub decide: F,
    pub fetched: u64,
    pub pending: BTreeMap<(u64, u64), (usize, Command, Fate)>,
}

impl<F: FnMut(u64, &Command) -> Fate> PinDrive<F> {
    pub async fn run(mut self, cpu: Cpu) {
        let notifier = self.notifier.clone();
        notifier.attach(&cpu);
        loop {
            for queue in 0..self.queues.len() {
                while let Some(command) = self.queues[queue].1.fetch(&cpu) {
                    self.state.seen.lock().unwrap().push(command);
                    let fate = (self.decide)(self.fetched, &command);
                    let (Fate::Done(after_ns) | Fate::Failed(_, after_ns)) = fate else {
                        panic!("this drive answers everything once");
                    };
                    let key = (cpu.now() + after_ns, self.fetched);
                    self.pending.insert(key, (queue, command, fate));
                    self.fetched += 1;
                }
            }
            let Some((&(due_ns, number), _)) = self.pending.first_key_value() else {
                let _ = notifier.wait(&cpu).await;
                continue;
            };
            if cpu.now() < due_ns {
                let _ = notifier.wait_until(&cpu, due_ns).await;
                continue;
            }
            let (queue, command, fate) = self.pending.remove(&(due_ns, number)).unwrap();
            match self.serve(&command, fate) {
                Some(completion) => {
                    let gc = self.state.collects.load(Ordering::Relaxed);
                    let (qid, queue) = &mut self.queues[queue];
                    assert!(queue.has_room());
                    queue.complete(&cpu, *qid, completion.with_gc_state(gc), cpu.now());
                }
                None => {
                    let key = (cpu.now() + LOOK_AGAIN_NS, number);
                    self.pending.insert(key, (queue, command, fate));
                }
            }
        }
    }

    /// Serves a command; `None` if it must be served later.
    fn serve(&self, command: &Command, fate: Fate) -> Option<Completion> {
        let mut hmb = self.state.hmb.lock().unwrap();
        let hmb = hmb.as_mut().expect("memory is hmb");
        let failure = match fate {
            Fate::Failed(status, _) => Some(status),
            _ => None,
        };
        let mut result = match command.io_opcode() {
            // No address: see the command set, section 6.6.
            Some(IoOpcode::Pin) => u64::MAX >> 1,
            _ => 0,
        };
        match command.io_opcode().unwrap() {
            IoOpcode::Flush if failure.is_none() => {
                let is_locked = |frame| hmb.table.word(frame).is_locked();
                let mut dirty = (0..hmb.frames.len()).filter(|&f| hmb.table.is_dirty(f));
                if dirty.any(is_locked) {
                    return None;
                }
                (0..hmb.frames.len()).for_each(|frame| self.write_back(hmb, frame));
            }
            IoOpcode::Flush => {}
            IoOpcode::Unpin => self.unpin_all(hmb, command),
            IoOpcode::Pin => {
                self.unpin_all(hmb, command);
                let wanted = self.wanted(command);
                let count = match failure {
                    // A victim could not be written back: that keeps no page from its frame.
                    Some(StatusCode::WriteFault) | None => wanted.len(),
                    Some(_) => wanted.len() / 2,
                };
                for (index, &page) in (0..).zip(&wanted[..count]) {
                    let access = command.access().unwrap();
                    let frame = self.pin(hmb, page, access);
                    let is_blank = hmb.frames[frame].is_blank && !hmb.table.is_dirty(frame);
                    let address = frame as u64 * PAGE_BYTES as u64;
                    result = told_address(address, is_blank && access != Access::Overwrite);
                    if command.has_list() {
                        let at = command.prp1 + address_offset(index);
                        // SAFETY: the list of a command in flight; the drive is one task.
                        unsafe { self.dma.write_u64(at, result) }.unwrap();
                    }
                }
            }
            other => panic!("{other:?} was not expected"),
        }
        let status = failure.map_or(Status::SUCCESS, Status::new);
        Some(Completion::new(command.cid, status).with_wide_result(result))
    }

    fn wanted(&self, command: &Command) -> Vec<u64> {
        command.check_lba_range(self.pages).unwrap();
        let first = command.slba();
        if !command.has_list() {
            return vec![first];
        }
        let is_wanted = |at: &u64| {
            let word = self.dma.read_u64(command.prp1 + at / 64 * 8).unwrap();
            word >> (at % 64) & 1 == 1
        };
        let window = 0..u64::from(command.pages());
        window.filter(is_wanted).map(|at| first + at).collect()
    }

    fn unpin_all(&self, hmb: &mut Hmb, command: &Command) {
        for index in 0..command.unpin_count() {
            let unpin = if command.has_list() {
                let at = command.prp1 + unpin_offset(index);
                Unpin::from_entry(self.dma.read_u64(at).unwrap())
            } else {
                command.inline_unpin()
            };
            let frame = *hmb
                .of_page
                .get(&unpin.lba)
                .expect("an unpinned page is in a frame");
            assert!(
                hmb.frames[frame].references > 0,
                "page {} is not pinned",
                unpin.lba
            );
            hmb.frames[frame].references -= 1;
            assert!(!hmb.table.word(frame).is_locked() || hmb.frames[frame].references > 0);
        }
    }

    #[allow(clippy::mut_from_ref)] // one frame at a time is looked at
    fn page_at(&self, hmb: &Hmb, frame: usize) -> &mut [u8] {
        let at = hmb.first + (frame * PAGE_BYTES) as u64;
        // SAFETY: a frame of the host memory buffer; in virtual time nobody else is at it now.
        unsafe { self.dma.page(at).unwrap().bytes_mut() }
    }

    fn write_back(&self, hmb: &mut Hmb, frame: usize) {
        if hmb.table.clear_dirty(frame) {
            hmb.frames[frame].is_blank = false;
            let page = hmb.frames[frame].page.expect("what is dirty has a page");
            self.state.store.set_page(page, self.page_at(hmb, frame));
        }
    }

    fn pin(&self, hmb: &mut Hmb, page: u64, access: Access) -> usize {
        if let Some(&frame) = hmb.of_page.get(&page) {
            hmb.frames[frame].references += 1;
            return frame;
        }
        let wrong_by = self.state.rotate_cores.load(Ordering::Relaxed);
        let stripe = page / u64::from(self.core_stripe_pages);
        let core = (stripe + wrong_by) % u64::from(self.cores);
        let (frames, cores) = (hmb.frames.len() as u64, u64::from(self.cores));
        let each = frames / cores;
        let (from, to) = (core * each, (core + 1) * each);
        let hand = &mut hmb.hands[core as usize];
        let free = (from..to).map(|_| {
            *hand = (*hand + 1) % (to - from) as usize;
            from as usize + *hand
        });
        let frame = { free }.find(|&frame| hmb.frames[frame].references == 0);
        let frame = frame.expect("no pin has to wait for a frame");
        self.write_back(hmb, frame);
        if let Some(old) = hmb.frames[frame].page.replace(page) {
            hmb.of_page.remove(&old);
        }
        hmb.of_page.insert(page, frame);
        hmb.frames[frame].references = 1;
        hmb.frames[frame].is_blank = access == Access::Overwrite;
        let bytes = self.page_at(hmb, frame);
        match self.state.store.page(page) {
            Some(flash) if access != Access::Overwrite => bytes.copy_from_slice(&flash),
            _ => bytes.fill(0),
        }
        frame
    }
}
