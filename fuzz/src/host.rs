//! A host that does whatever the input says, and keeps account of what it is owed.

mod commands;

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_drive::DriveHandle;
use wharf_runtime::Cpu;
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::dma::{DmaRegion, DmaSpace};
use wharf_wire::opcode::{AdminOpcode, IoOpcode};
use wharf_wire::pin::{Access, Unpin, split_address};
use wharf_wire::queue::{HostQueue, queue_pair};
use wharf_wire::status::StatusCode;

use crate::input::Input;
use crate::lending::{Lending, is_pin};

/// Polls without a completion after which the drive counts as stuck.
pub const IDLE_POLLS_MAX: u64 = 200_000;

/// I/O queue pairs that the drive is offered.
const IO_QUEUES: u16 = 3;

/// Entries of each: few, so that rings wrap.
const DEPTH: u32 = 5;

const DATA_PAGES: usize = 24;
const WHOLE_PAGES: usize = 4;

/// Where there is no host memory.
const NOWHERE: u64 = 0x7000_0000_0000;

/// One queue pair, and the commands on it that have no completion.
pub struct Queue {
    end: HostQueue,
    /// The drive serves it: commands on it are owed an answer.
    alive: bool,
    owed: BTreeMap<u16, Command>,
    /// Async event requests, which may never be answered.
    standing: BTreeMap<u16, Command>,
}

/// The admin queue and the I/O queues, offered at their addresses.
pub fn queues(handle: &mut DriveHandle, dma: &Arc<DmaSpace>) -> Vec<Queue> {
    let (placeholder, _) = queue_pair(2, &wharf_runtime::Notifier::new(), 0);
    let admin = std::mem::replace(&mut handle.admin, placeholder);
    let queue = |end, alive| Queue {
        end,
        alive,
        owed: BTreeMap::new(),
        standing: BTreeMap::new(),
    };
    let mut queues = vec![queue(admin, true)];
    for qid in 1..=IO_QUEUES {
        let (host_end, drive_end) = handle.new_queue(qid, DEPTH);
        dma.offer(address_of(qid), drive_end);
        queues.push(queue(host_end, false));
    }
    queues
}

fn address_of(qid: u16) -> u64 {
    u64::from(qid) << 12
}

pub struct Host {
    cpu: Cpu,
    dma: Arc<DmaSpace>,
    data: DmaRegion,
    whole: DmaRegion,
    /// By where they are offered: the drive may know a queue by another number.
    queues: Vec<Queue>,
    /// Which of them the drive knows by each number.
    known_as: BTreeMap<u16, usize>,
    next_cid: u16,
    lending: Option<Lending>,
    /// The one pin or unpin under way, if it has been with no other all the time.
    alone: Option<u16>,
    /// What was completed last.
    last: Option<Completion>,
    /// The page that was given back last to make room.
    next_given: u64,
}

impl Host {
    /// A host with these queues; one that has memory to lend also pins.
    pub fn new(cpu: Cpu, dma: Arc<DmaSpace>, queues: Vec<Queue>, lending: Option<Lending>) -> Host {
        let data = dma.register(DATA_PAGES).expect("host memory");
        let whole = dma.register_whole(WHOLE_PAGES).expect("host memory");
        Host {
            cpu,
            dma,
            data,
            whole,
            queues,
            known_as: BTreeMap::from([(0, 0)]),
            next_cid: 0,
            lending,
            alone: None,
            last: None,
            next_given: 0,
        }
    }

    /// Does what the input says, then waits for all that is owed.
    pub async fn play(&mut self, input: &mut Input<'_>) {
        if input.number(1) & 1 == 0 {
            self.create_queues().await;
        }
        while !input.is_empty() {
            match input.number(1) % 16 {
                0 => self.raw_command(input),
                1 => self.admin_command(input),
                2..6 => self.io_command(input),
                6 => self.poke(input),
                7 | 8 => self.wait_for_all().await,
                9 => self.take_completions(),
                10 => self.lend(input),
                11..14 => self.pin(input),
                14 => self.unpin(input),
                _ => self.write_in_place(input),
            }
        }
        self.wait_for_all().await;
        self.give_all_back().await;
    }

    /// Reads every page of the namespace, writes all of them a few times, reads them again.
    pub async fn read_and_write_everything(&mut self) {
        self.create_queues().await;
        for opcode in [
            IoOpcode::Read,
            IoOpcode::Write,
            IoOpcode::Write,
            IoOpcode::Write,
            IoOpcode::Read,
        ] {
            // Beyond the end of the tiny drive the commands are refused.
            for lba in (0..200).step_by(8) {
                let command = Command {
                    opcode: opcode as u8,
                    ..Command::read(1, lba, 8)
                };
                let command = self.aim(command, 8, 0);
                self.submit(1, command);
                self.wait_for_all().await;
            }
        }
    }

    /// The ordinary start, so that inputs need not find it.
    async fn create_queues(&mut self) {
        for qid in 1..=2 {
            let at = address_of(qid);
            self.submit(0, Command::create_completion_queue(qid, DEPTH, at));
            self.submit(0, Command::create_submission_queue(qid, DEPTH, qid, at));
            self.wait_for_all().await;
            assert!(self.queues[qid as usize].alive, "queue {qid} was refused");
        }
    }

    /// Lends memory, or takes it back.
    fn lend(&mut self, input: &mut Input) {
        if let Some(lending) = &mut self.lending {
            let command = lending.lend_or_take_back(input);
            self.submit(0, command);
        }
    }

    fn pin(&mut self, input: &mut Input) {
        let (Some(queue), Some(lending)) = (self.io_queue(), &self.lending) else {
            return;
        };
        let is_free = |list: u64| {
            let mut owed = self.queues.iter().flat_map(|queue| queue.owed.values());
            owed.all(|command| command.prp1 != list)
        };
        let command = lending.pin(input, is_free);
        self.submit(queue, command);
    }

    fn unpin(&mut self, input: &mut Input) {
        if let (Some(queue), Some(lending)) = (self.io_queue(), &self.lending) {
            let command = lending.unpin(input);
            self.submit(queue, command);
        }
    }

    fn write_in_place(&mut self, input: &mut Input) {
        if let Some(lending) = &mut self.lending {
            lending.write_in_place(input);
        }
    }

    /// An I/O queue that the drive serves.
    fn io_queue(&self) -> Option<usize> {
        let alive = |queue: &usize| self.queues[*queue].alive;
        (1..self.queues.len()).find(alive)
    }

    /// Checks that what is held is where it was, gives it all back, and takes the memory back.
    async fn give_all_back(&mut self) {
        let Some(lending) = &mut self.lending else {
            return;
        };
        lending.leave_frames();
        let (is_lent, known) = (lending.is_lent(), lending.known().unwrap_or_default());
        let Some(queue) = self.io_queue().filter(|_| is_lent) else {
            return;
        };
        for (lba, address) in known {
            let found = self.answer(queue, Command::pin(1, lba, Access::Read)).await;
            assert_eq!(
                found.status().code(),
                Some(StatusCode::Success),
                "{found:?}"
            );
            let (now, _) = split_address(found.wide_result());
            assert_eq!(now, address, "page {lba} has moved");
        }
        for lba in 0..self.lending.as_ref().map_or(0, Lending::pages) {
            self.give_back(queue, lba).await;
        }
        let found = self.answer(0, Command::take_host_memory_back()).await;
        let refused = Some(StatusCode::FramesPinned);
        assert_ne!(found.status().code(), refused, "nothing is pinned any more");
    }

    /// Gives every reference to a page back, and sees that there were as many as is known.
    async fn give_back(&mut self, queue: usize, lba: u64) {
        let lending = self
            .lending
            .as_ref()
            .expect("there was something to pin in");
        let known = lending.known().map(|_| lending.references(lba));
        let mut given = 0;
        loop {
            let unpin = Unpin {
                lba,
                is_dirty: given & 1 == 0,
            };
            let found = self.answer(queue, Command::unpin(1, unpin)).await;
            if found.status().code() != Some(StatusCode::Success) {
                break;
            }
            given += 1;
        }
        assert!(
            known.is_none_or(|known| known == given),
            "page {lba}: {known:?}, {given} found"
        );
    }

    /// Sends a command when nothing else is owed, and waits for its answer.
    async fn answer(&mut self, queue: usize, command: Command) -> Completion {
        let cid = self.next_cid;
        self.submit(queue, command);
        while self.wait_for_some().await.is_some() {}
        let last = self.last.expect("the command was owed");
        assert_eq!(last.cid, cid, "the answer to another command");
        last
    }

    /// Puts a command on a queue and rings, unless the ring is full. Pins may wait for an unpin: they
    /// leave it a place.
    fn submit(&mut self, queue: usize, command: Command) {
        let owed = self.queues[queue].owed.values();
        let waiting = owed.filter(|command| may_wait(command)).count();
        if queue > 0 && may_wait(&command) && waiting + 2 >= DEPTH as usize {
            return;
        }
        let cid = self.next_cid;
        let command = command.with_cid(cid);
        let is_io = queue > 0;
        let others = self.has_pins_under_way();
        let queue = &mut self.queues[queue];
        if queue.end.submit(&self.cpu, command).is_ok() {
            if is_io && is_pin(&command) {
                self.alone = (!others).then_some(cid);
            }
            self.next_cid = cid.wrapping_add(1);
            queue.end.ring_doorbell(&self.cpu);
            match !is_io && command.admin_opcode() == Some(AdminOpcode::AsyncEventRequest) {
                // It is answered when something happens.
                true => queue.standing.insert(cid, command),
                false => queue.owed.insert(cid, command),
            };
        }
    }

    /// Whether an answer to a pin or unpin is owed.
    fn has_pins_under_way(&self) -> bool {
        let mut queues = self.queues[1..].iter();
        queues.any(|queue| queue.owed.values().any(is_pin))
    }

    /// Takes what has been completed, and follows what it says of queues.
    fn take_completions(&mut self) {
        for index in 0..self.queues.len() {
            while let Some(found) = self.queues[index].end.poll(&self.cpu) {
                self.queues[index].end.release();
                self.cpu.progress();
                if self.queues[index].standing.remove(&found.cid).is_some() {
                    continue;
                }
                let owed = self.queues[index].owed.remove(&found.cid);
                let command = owed.unwrap_or_else(|| panic!("nobody asked for {found:?}"));
                let status = found.status().code();
                let status =
                    status.unwrap_or_else(|| panic!("a status that there is not: {found:?}"));
                self.last = Some(found);
                let alone = match index {
                    0 => !self.has_pins_under_way(),
                    _ => self.alone == Some(found.cid),
                };
                if let Some(lending) = &mut self.lending {
                    lending.completed(index == 0, &command, &found, alone);
                }
                if index == 0 && status == StatusCode::Success {
                    self.follow(&command);
                }
            }
        }
    }

    /// A queue was created or deleted.
    fn follow(&mut self, command: &Command) {
        let qid = command.queue_id();
        match command.admin_opcode() {
            Some(AdminOpcode::CreateSubmissionQueue) => {
                let index = (command.prp1 >> 12) as usize;
                self.queues[index].alive = true;
                self.known_as.insert(qid, index);
            }
            Some(AdminOpcode::DeleteSubmissionQueue) => {
                let index = self
                    .known_as
                    .remove(&qid)
                    .expect("the drive deleted what there is");
                // What it had not fetched it never will.
                self.queues[index].alive = false;
                if let Some(lending) = &mut self.lending {
                    self.queues[index]
                        .owed
                        .values()
                        .for_each(|c| lending.doubt(c));
                }
            }
            _ => {}
        }
    }

    /// Waits until nothing is owed; the machine's bound on idle polls ends a wait for ever.
    async fn wait_for_all(&mut self) {
        while let Some(queue) = self.wait_for_some().await {
            if self.queues[queue].owed.values().any(may_wait) {
                self.make_room();
            }
        }
    }

    /// Waits for a queue that owes something, and says which; `None` if nothing is owed.
    async fn wait_for_some(&mut self) -> Option<usize> {
        self.take_completions();
        let owing = |queue: &Queue| queue.alive && !queue.owed.is_empty();
        let index = self.queues.iter().position(owing)?;
        let notifier = self.queues[index].end.notifier().clone();
        // A queue may be deleted while it owes: look again even if its notifier stays silent.
        notifier.wait_until(&self.cpu, self.cpu.now() + 1_000_000).await;
        self.take_completions();
        Some(index)
    }
}

impl Host {
    /// A pin may wait for frames that this host holds: gives back a page, the next time another one.
    fn make_room(&mut self) {
        let (Some(queue), Some(lending)) = (self.io_queue(), &mut self.lending) else {
            return;
        };
        lending.leave_frames();
        self.next_given = (self.next_given + 1) % lending.pages();
        let unpin = Unpin {
            lba: self.next_given,
            is_dirty: true,
        };
        self.submit(queue, Command::unpin(1, unpin));
    }
}

/// Whether a command for an I/O queue may wait for what this host does.
fn may_wait(command: &Command) -> bool {
    command.io_opcode() == Some(IoOpcode::Pin)
}
