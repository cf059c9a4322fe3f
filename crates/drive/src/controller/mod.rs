//! The controller: takes commands off the queues, divides them among the cores, gathers the
//! answers, posts completions.
//!
//! One task. Each turn it takes what the cores answered, posts what the link has carried, and
//! fetches commands round robin over the queues, a burst from each. `io.rs` checks and splits I/O
//! commands, `pin.rs` pins and unpins, `hmb.rs` takes the host's memory, `admin.rs` answers the admin queue, `logs.rs` fills log pages, `slots.rs` remembers
//! what is out.

mod admin;
mod hmb;
mod io;
mod logs;
mod pin;
mod slots;

use std::collections::VecDeque;
use std::sync::Arc;

use wharf_runtime::notifier::SOURCES;
use wharf_runtime::{Cpu, Notifier, Op, Ready, Receiver, Sender};
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::dma::DmaSpace;
use wharf_wire::features::Arbitration;
use wharf_wire::pin::told_address;
use wharf_wire::queue::{DriveQueue, Guest};
use wharf_wire::status::{Status, StatusCode};
use zerocopy::IntoBytes;

use crate::config::{CorePlan, DriveConfig, Platform};
use crate::core::CoreStatus;
use crate::core::hmb::Hmb;
use crate::core::part::{Answer, Part, PartOp, Striping};
use crate::ftl::{MapHint, NONE};
use crate::link::{FromHost, ToHost};
use logs::ErrorLog;
use slots::{After, Slots};

/// Entries of the ring to a core and of the ring back. No more parts than that are ever out, and a
/// command is fetched only when its parts fit.
pub const PARTS_OUT_MAX: u32 = 2048;

/// Parts that one command may need of one core: the ranges of a dataset management command.
const PARTS_PER_COMMAND_MAX: u32 = wharf_wire::dsm::RANGES_MAX as u32;

/// Most pages of one transfer, as a power of two: 256 pages, 1 MiB.
const MDTS: u8 = 8;

/// A delay after which a full completion queue is looked at again.
const FULL_QUEUE_RETRY_NS: u64 = 5_000;

/// Commands that are taken from guests in a turn, all together, before others are looked after.
const GUEST_COMMANDS_MAX: u32 = 256;

/// The controller's connection to one core.
pub struct CoreLink {
    /// Parts to the core.
    pub parts: Sender<Part>,
    /// Its answers.
    pub answers: Receiver<Answer>,
    /// Where its map is.
    pub map: MapHint,
    /// Where it leaves its statistics.
    pub core_status: CoreStatus,
    /// Its share of the host memory buffer.
    pub hmb: Arc<Hmb>,
    /// Parts without an answer.
    pub out: u32,
}

struct Queue {
    queue: DriveQueue,
    /// It is being deleted: nothing more is fetched.
    closing: bool,
}

/// An admin command that waits until I/O commands in flight have ended.
enum Waiting {
    /// A submission queue is to be deleted: for those of that queue.
    DeleteQueue(u16, Command),
    /// The namespace is to be formatted: for all.
    Format(Command),
}

/// How a turn at one queue ended.
enum Fetched {
    /// A burst was taken; there may be more.
    Burst,
    /// The queue is empty.
    All,
    /// No slot, or no room on a core's ring.
    NoRoom,
}

/// A completion that waits for the link or for room.
struct Outgoing {
    due_ns: u64,
    qid: u16,
    completion: Completion,
}

/// The controller of one drive.
pub struct Controller {
    cpu: Cpu,
    config: DriveConfig,
    plan: CorePlan,
    namespace_pages: u64,
    striping: Striping,
    dma: Arc<DmaSpace>,
    notifier: Notifier,
    /// Attached queues, by their number; the admin queue is the first.
    queues: Vec<Option<Queue>>,
    /// Which queue notifies it as which source.
    qid_of_source: [u16; SOURCES],
    /// Source after the one that was served last.
    turn: u32,
    /// Cores and queues that rang and were not emptied since.
    ready: Ready,
    /// Completion queues created but not yet used by a submission queue: qid, entries, address.
    created: Vec<(u16, u32, u64)>,
    cores: Vec<CoreLink>,
    /// Parts without an answer, of all cores.
    parts_out: u32,
    slots: Slots,
    to_host: ToHost,
    from_host: FromHost,
    outgoing: VecDeque<Outgoing>,
    errors: ErrorLog,
    arbitration: Arbitration,
    write_cache: bool,
    formats_under_way: u32,
    waiting: Vec<Waiting>,
    /// An I/O queue has been created since power-on.
    had_io_queues: bool,
    host_commands: logs::HostCommands,
    /// Frames that the host has lent.
    hmb_frames: u32,
    /// Memory is being lent or taken back.
    lending: bool,
    /// Shares that the cores get when they have written back what they cache.
    to_lend: hmb::Shares,
    /// Pins without an answer.
    pins_out: u32,
}

impl Controller {
    /// A controller whose admin queue is `admin`.
    pub fn new(
        cpu: Cpu,
        config: &DriveConfig,
        dma: Arc<DmaSpace>,
        notifier: Notifier,
        admin: DriveQueue,
        cores: Vec<CoreLink>,
        from_host: FromHost,
    ) -> Controller {
        let mut controller = Controller {
            cpu,
            plan: config.plan().expect("the drive was built from it"),
            namespace_pages: config.namespace_pages(),
            striping: Striping {
                stripe_pages: config.firmware.stripe_pages,
                cores: config.firmware.cores,
            },
            dma,
            notifier,
            queues: (0..=config.firmware.queues_max).map(|_| None).collect(),
            qid_of_source: [0; SOURCES],
            turn: 0,
            ready: Ready::NONE,
            created: Vec::new(),
            cores,
            parts_out: 0,
            slots: Slots::new(config.firmware.commands_max),
            to_host: ToHost::new(&config.link),
            from_host,
            outgoing: VecDeque::with_capacity(config.firmware.commands_max as usize),
            errors: ErrorLog::default(),
            arbitration: Arbitration::from_value(admin::ARBITRATION_DEFAULT),
            write_cache: config.ftl.volatile_write_cache,
            formats_under_way: 0,
            waiting: Vec::new(),
            had_io_queues: false,
            host_commands: logs::HostCommands::default(),
            hmb_frames: 0,
            lending: false,
            to_lend: Vec::new(),
            pins_out: 0,
            config: config.clone(),
        };
        controller.attach(0, admin);
        controller
    }

    /// Serves a queue from now on.
    fn attach(&mut self, qid: u16, queue: DriveQueue) {
        self.qid_of_source[queue.source() as usize] = qid;
        let closing = false;
        self.queues[qid as usize] = Some(Queue { queue, closing });
    }

    /// The queue of this number, if it is attached.
    fn queue_mut(&mut self, qid: u16) -> Option<&mut Queue> {
        self.queues.get_mut(qid as usize)?.as_mut()
    }

    /// Serves the queues for as long as the CPU runs.
    pub async fn run(mut self) {
        let cpu = self.cpu.clone();
        let notifier = self.notifier.clone();
        notifier.attach(&cpu);
        loop {
            let notified = match self.outgoing.front() {
                None => notifier.wait(&cpu).await,
                Some(next) => {
                    let retry_ns = cpu.now() + FULL_QUEUE_RETRY_NS;
                    let due_ns = if next.due_ns > cpu.now() {
                        next.due_ns
                    } else {
                        retry_ns
                    };
                    notifier.wait_until(&cpu, due_ns).await
                }
            };
            self.ready = self.ready.union(notified);
            // Where it is no program it is logic, which looks at everything at once.
            if self.config.firmware.platform == Platform::Software {
                self.cpu.work(Op::ControllerTurn, || ());
            }
            // Answers first: they free what new commands need.
            self.gather();
            if !self.outgoing.is_empty() {
                self.post_outgoing();
            }
            if !self.waiting.is_empty() {
                self.serve_waiting();
            }
            self.fetch();
        }
    }

    /// Takes what the cores answered.
    fn gather(&mut self) {
        let answered = self.ready.below(self.cores.len() as u32);
        self.ready = self.ready.without(answered);
        for core in answered {
            while let Some(answer) = self.cores[core as usize].answers.try_pop(&self.cpu) {
                self.cores[core as usize].out -= 1;
                self.parts_out -= 1;
                let last = self.cpu.work(Op::CommandGather, || {
                    if answer.frame != NONE {
                        let address = self.cores[core as usize].hmb.at(answer.frame).address();
                        let told = told_address(address, answer.is_blank);
                        self.slots.set_result(answer.slot, told);
                    }
                    let page = || self.striping.page_of(core, answer.lpn);
                    self.slots.gather(&answer, page)
                });
                if last {
                    self.complete_slot(answer.slot);
                }
            }
        }
    }

    /// All parts of a command are answered.
    fn complete_slot(&mut self, slot: u16) {
        let done = self.slots.release(slot);
        let mut result = done.result;
        let mut status = done.status;
        match done.after {
            After::Nothing => {}
            After::LogPage if status == StatusCode::Success => {
                status = self.write_log_page(&done.command)
            }
            After::IdentifyNamespace if status == StatusCode::Success => {
                let data = self.identify_namespace();
                status = self
                    .write_page(&done.command, data.as_bytes())
                    .err()
                    .unwrap_or(status);
            }
            After::LogPage | After::IdentifyNamespace => {}
            After::WriteCache(on) => {
                self.write_cache = on;
                result = u64::from(on);
            }
            After::Format => self.formats_under_way -= 1,
            After::GiveUp => return,
            After::Pin => self.pins_out -= 1,
            After::WriteBack if status == StatusCode::Success => return self.lend(done.command),
            After::WriteBack | After::Lend => self.end_lending(&done.command, status),
        }
        if status == StatusCode::Success {
            self.host_commands.count(done.qid, &done.command);
        }
        self.host_commands.count_service(done.qid, done.served_ns);
        let (qid, to_host_pages) = (done.qid, done.to_host_pages);
        let mut answer = Status::new(status);
        if qid != 0 && is_drive_failure(status) {
            self.errors
                .record(qid, &done.command, answer, done.failed_page);
            answer = answer.with_more();
        }
        self.finish(qid, &done.command, answer, result, to_host_pages);
    }

    /// Answers a command: after the link has carried what it transfers.
    fn finish(
        &mut self,
        qid: u16,
        command: &Command,
        status: Status,
        result: u64,
        to_host_pages: u32,
    ) {
        let collects = qid != 0 && self.tells_collection() && self.anyone_collects();
        let completion = Completion::new(command.cid, status)
            .with_wide_result(result)
            .with_gc_state(collects);
        self.cpu.work(Op::CommandComplete, || ());
        let due_ns = self.to_host.carry(&self.cpu, to_host_pages);
        self.post(Outgoing {
            due_ns,
            qid,
            completion,
        });
    }

    /// Puts a completion on its queue; in real time not before it is due, in virtual time with the
    /// time at which the host sees it.
    fn post(&mut self, outgoing: Outgoing) {
        let wait = !self.outgoing.is_empty()
            || (!self.cpu.is_virtual() && outgoing.due_ns > 0 && outgoing.due_ns > self.cpu.now());
        if wait || !self.try_post(&outgoing) {
            self.outgoing.push_back(outgoing);
        }
    }

    fn try_post(&mut self, outgoing: &Outgoing) -> bool {
        let Some(queue) = &mut self.queues[outgoing.qid as usize] else {
            return true; // The queue was deleted: nobody waits for the completion.
        };
        if !queue.queue.has_room() {
            // A guest that gives none back keeps nobody else waiting.
            return queue.queue.guest().is_some();
        }
        queue.queue.complete(
            &self.cpu,
            outgoing.qid,
            outgoing.completion,
            outgoing.due_ns,
        );
        true
    }

    fn post_outgoing(&mut self) {
        while let Some(next) = self.outgoing.pop_front() {
            let early = !self.cpu.is_virtual() && next.due_ns > self.cpu.now();
            if early || !self.try_post(&next) {
                self.outgoing.push_front(next);
                return;
            }
        }
    }

    /// Fetches from the queues that rang, round robin, up to a burst from each in turn, until they
    /// are empty or no more commands can be held; then the rest waits for answers.
    fn fetch(&mut self) {
        let burst = self.arbitration.burst().unwrap_or(u32::MAX);
        let mut for_guests = GUEST_COMMANDS_MAX;
        while let Some(source) = self.ready.next_from(self.turn) {
            let qid = self.qid_of_source[source as usize];
            let of_guest = |queue: &Queue| queue.queue.guest().is_some();
            let is_guests = self.queues[qid as usize].as_ref().is_some_and(of_guest);
            let at_once = if is_guests {
                burst.min(for_guests)
            } else {
                burst
            };
            match self.fetch_burst(qid, at_once) {
                Fetched::Burst if is_guests && at_once == for_guests => {
                    // It may move its doorbell for ever. The rest has its turn after all others.
                    self.ready.remove(source);
                    self.notifier.notify(&self.cpu, source, self.cpu.now());
                }
                Fetched::Burst if is_guests => for_guests -= at_once,
                Fetched::Burst => {}
                Fetched::All => self.ready.remove(source),
                Fetched::NoRoom => return,
            }
            self.turn = source + 1;
        }
    }

    /// Fetches up to `burst` commands from one queue.
    fn fetch_burst(&mut self, qid: u16, burst: u32) -> Fetched {
        for _ in 0..burst {
            if !self.has_room_for_a_command() {
                return Fetched::NoRoom;
            }
            let open = self.queues[qid as usize].as_mut().filter(|q| !q.closing);
            let Some(command) = open.and_then(|q| q.queue.fetch(&self.cpu)) else {
                return Fetched::All;
            };
            self.cpu.work(Op::CommandFetch, || ());
            match qid {
                0 => self.admin_command(command),
                qid => self.io_command(qid, command),
            }
        }
        Fetched::Burst
    }

    #[inline]
    fn has_room_for_a_command(&self) -> bool {
        let fits = |out: u32| out + PARTS_PER_COMMAND_MAX <= PARTS_OUT_MAX;
        // Rarely are all parts together too many for one core: then each is looked at.
        self.slots.has_free() && (fits(self.parts_out) || self.cores.iter().all(|c| fits(c.out)))
    }

    /// Begins what waited for commands in flight, as far as they have ended.
    fn serve_waiting(&mut self) {
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::DeleteQueue(qid, command) if self.is_quiet(qid) => {
                    let queue = self.queues[qid as usize].take();
                    match queue.and_then(|queue| queue.queue.guest()) {
                        None => self.finish(0, &command, Status::SUCCESS, 0, 0),
                        Some(Guest { number, .. }) => {
                            self.broadcast(0, command, PartOp::Release, number, After::Nothing)
                        }
                    }
                }
                Waiting::Format(command) if !self.slots.has_io() => {
                    let erase = u32::from(admin::erases(&command));
                    self.broadcast(0, command, PartOp::Format, erase, After::Format);
                }
                later => self.waiting.push(later),
            }
        }
    }

    /// True if every command fetched from a queue has been answered.
    fn is_quiet(&self, qid: u16) -> bool {
        !self.slots.has_commands_of(qid) && self.outgoing.iter().all(|o| o.qid != qid)
    }

    /// True if a core takes no more writes: then the namespace takes none.
    #[inline]
    fn is_read_only(&self) -> bool {
        self.cores
            .iter()
            .any(|core| core.core_status.is_read_only())
    }

    /// True if completions carry the state of collection.
    #[inline]
    fn tells_collection(&self) -> bool {
        self.config.host_memory.enabled
    }

    /// True if a core moves pages or erases blocks.
    #[inline]
    fn anyone_collects(&self) -> bool {
        // One count for all cores.
        self.cores[0].core_status.anyone_collects()
    }

    /// Sends a part to a core.
    #[inline]
    fn send(&mut self, core: u32, part: Part) {
        let link = &mut self.cores[core as usize];
        link.out += 1;
        self.parts_out += 1;
        let sent = self
            .cpu
            .work(Op::CommandSplit, || link.parts.push(&self.cpu, part));
        assert!(sent.is_ok(), "the ring to core {core} overflowed");
    }

    /// Sends one part to every core, on behalf of a whole command.
    fn broadcast(&mut self, qid: u16, command: Command, op: PartOp, value: u32, after: After) {
        let cores = self.cores.len() as u32;
        let slot = self.slots.take(qid, command, cores, 0, after);
        for core in 0..cores {
            self.send(core, whole_part(op, slot, value));
        }
    }
}

/// True for failures that are the drive's or the media's, not the command's.
fn is_drive_failure(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::InternalError | StatusCode::WriteFault | StatusCode::UnrecoveredReadError
    )
}

/// A part that concerns a whole core.
fn whole_part(op: PartOp, slot: u16, value: u32) -> Part {
    Part {
        prp1: 0,
        prp2: 0,
        data_ready_ns: 0,
        taken_ns: 0,
        first: 0,
        count: value,
        transfer_pages: 0,
        transfer_first: 0,
        slot,
        qid: 0,
        op,
        fua: false,
    }
}
