//! The controller: takes commands off the queues, divides them among the cores, gathers the
//! answers, posts completions.
//!
//! One task. Each turn it takes what the cores answered, posts what the link has carried, and
//! fetches commands round robin over the queues, a burst from each. `io.rs` checks and splits I/O
//! commands, `admin.rs` answers the admin queue, `logs.rs` fills log pages, `slots.rs` remembers
//! what is out.

mod admin;
mod io;
mod link;
mod logs;
mod slots;

use std::collections::VecDeque;
use std::sync::Arc;

use wharf_runtime::{Bell, Cpu, Op, Receiver, Sender};
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::dma::DmaSpace;
use wharf_wire::features::Arbitration;
use wharf_wire::queue::DriveQueue;
use wharf_wire::status::{Status, StatusCode};

use crate::config::DriveConfig;
use crate::core::Shelf;
use crate::core::part::{Answer, Part, PartOp, Striping};
use link::HostLink;
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

/// The controller's connection to one core.
pub struct CoreLink {
    /// Parts to the core.
    pub parts: Sender<Part>,
    /// Its answers.
    pub answers: Receiver<Answer>,
    /// Where it leaves its statistics.
    pub shelf: Shelf,
    /// Parts without an answer.
    pub out: u32,
}

struct Queue {
    qid: u16,
    queue: DriveQueue,
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
    namespace_pages: u64,
    striping: Striping,
    dma: Arc<DmaSpace>,
    bell: Bell,
    /// Attached queues; the admin queue is the first.
    queues: Vec<Queue>,
    /// Queue after the one that was served last.
    turn: usize,
    /// Completion queues created but not yet used by a submission queue: qid, entries, address.
    created: Vec<(u16, u32, u64)>,
    cores: Vec<CoreLink>,
    slots: Slots,
    link: HostLink,
    outgoing: VecDeque<Outgoing>,
    errors: ErrorLog,
    arbitration: Arbitration,
    write_cache: bool,
    formats_under_way: u32,
    host_commands: logs::HostCommands,
}

impl Controller {
    /// A controller whose admin queue is `admin`.
    pub fn new(
        cpu: Cpu,
        config: &DriveConfig,
        dma: Arc<DmaSpace>,
        bell: Bell,
        admin: DriveQueue,
        cores: Vec<CoreLink>,
    ) -> Controller {
        Controller {
            cpu,
            namespace_pages: config.namespace_pages(),
            striping: Striping {
                stripe_pages: config.firmware.stripe_pages,
                cores: config.firmware.cores,
            },
            dma,
            bell,
            queues: vec![Queue {
                qid: 0,
                queue: admin,
            }],
            turn: 0,
            created: Vec::new(),
            cores,
            slots: Slots::new(config.firmware.commands_max),
            link: HostLink::new(&config.link),
            outgoing: VecDeque::with_capacity(config.firmware.commands_max as usize),
            errors: ErrorLog::default(),
            arbitration: Arbitration::from_value(admin::ARBITRATION_DEFAULT),
            write_cache: config.ftl.volatile_write_cache,
            formats_under_way: 0,
            host_commands: logs::HostCommands::default(),
            config: config.clone(),
        }
    }

    /// Serves the queues for as long as the CPU runs.
    pub async fn run(mut self) {
        let cpu = self.cpu.clone();
        let bell = self.bell.clone();
        bell.attach(&cpu);
        loop {
            // Answers first: they free what new commands need.
            while self.gather() | self.post_outgoing() | self.fetch_round() {}
            match self.outgoing.front() {
                None => bell.wait(&cpu).await,
                Some(next) => {
                    let retry_ns = cpu.now() + FULL_QUEUE_RETRY_NS;
                    let due_ns = if next.due_ns > cpu.now() {
                        next.due_ns
                    } else {
                        retry_ns
                    };
                    bell.wait_until(&cpu, due_ns).await;
                }
            }
        }
    }

    /// Takes what the cores answered.
    fn gather(&mut self) -> bool {
        let mut any = false;
        for core in 0..self.cores.len() {
            while let Some(answer) = self.cores[core].answers.try_pop(&self.cpu) {
                any = true;
                self.cores[core].out -= 1;
                let last = self.cpu.work(Op::CommandGather, || {
                    self.slots.gather(answer.slot, answer.status)
                });
                if last {
                    self.complete_slot(answer.slot);
                }
            }
        }
        any
    }

    /// All parts of a command are answered.
    fn complete_slot(&mut self, slot: u16) {
        let done = self.slots.release(slot);
        let mut result = 0;
        let mut status = done.status;
        match done.after {
            After::Nothing => {}
            After::LogPage if status == StatusCode::Success => {
                status = self.write_log_page(&done.command)
            }
            After::LogPage => {}
            After::WriteCache(on) => {
                self.write_cache = on;
                result = u32::from(on);
            }
            After::Format => self.formats_under_way -= 1,
        }
        if status == StatusCode::Success {
            self.host_commands.count(done.qid, &done.command);
        }
        self.finish(done.qid, &done.command, status, result, done.to_host_pages);
    }

    /// Answers a command: after the link has carried what it transfers.
    fn finish(
        &mut self,
        qid: u16,
        command: &Command,
        code: StatusCode,
        result: u32,
        to_host_pages: u32,
    ) {
        let mut status = Status::new(code);
        if code != StatusCode::Success {
            self.errors.record(qid, command, status);
            status = status.with_more();
        }
        let completion = Completion::new(command.cid, status).with_result(result);
        self.cpu.work(Op::CommandComplete, || ());
        let due_ns = self.link.to_host(&self.cpu, to_host_pages);
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
        let Some(queue) = self.queues.iter_mut().find(|q| q.qid == outgoing.qid) else {
            return true; // The queue was deleted: nobody waits for the completion.
        };
        if !queue.queue.has_room() {
            return false;
        }
        queue.queue.complete(
            &self.cpu,
            outgoing.qid,
            outgoing.completion,
            outgoing.due_ns,
        );
        true
    }

    fn post_outgoing(&mut self) -> bool {
        let mut any = false;
        while let Some(next) = self.outgoing.pop_front() {
            let early = !self.cpu.is_virtual() && next.due_ns > self.cpu.now();
            if early || !self.try_post(&next) {
                self.outgoing.push_front(next);
                break;
            }
            any = true;
        }
        any
    }

    /// One turn over all queues: up to a burst of commands from each.
    fn fetch_round(&mut self) -> bool {
        let mut any = false;
        let burst = self.arbitration.burst().unwrap_or(u32::MAX);
        for _ in 0..self.queues.len() {
            if self.turn >= self.queues.len() {
                self.turn = 0;
            }
            for _ in 0..burst {
                if !self.has_room_for_a_command() {
                    return any;
                }
                let Some(command) = self.queues[self.turn].queue.fetch(&self.cpu) else {
                    break;
                };
                any = true;
                self.cpu.work(Op::CommandFetch, || ());
                match self.queues[self.turn].qid {
                    0 => self.admin_command(command),
                    qid => self.io_command(qid, command),
                }
            }
            self.turn += 1;
        }
        any
    }

    fn has_room_for_a_command(&self) -> bool {
        self.slots.has_free()
            && self
                .cores
                .iter()
                .all(|c| c.out + PARTS_PER_COMMAND_MAX <= PARTS_OUT_MAX)
    }

    /// Sends a part to a core.
    #[inline]
    fn send(&mut self, core: u32, part: Part) {
        let link = &mut self.cores[core as usize];
        link.out += 1;
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

/// A part that concerns a whole core.
fn whole_part(op: PartOp, slot: u16, value: u32) -> Part {
    Part {
        prp1: 0,
        prp2: 0,
        data_ready_ns: 0,
        first: 0,
        count: value,
        transfer_pages: 0,
        transfer_first: 0,
        slot,
        op,
        fua: false,
    }
}
