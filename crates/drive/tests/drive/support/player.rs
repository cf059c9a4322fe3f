//! Plays operations, several in flight, against drive and model at once.

mod pinned;

use std::sync::{Arc, Mutex};

use wharf_drive::config::DriveConfig;
use wharf_wire::admin::SecureErase;
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::features::FeatureId;
use wharf_wire::lba_status::read_answer;
use wharf_wire::pin::Unpin;
use wharf_wire::status::StatusCode;

use super::host::{Host, code};
use super::model::{HELD_ZEROS, Handle, Model, Moment};
use super::ops::{Op, PAGES_MAX};
use super::pins::Lending;
use super::rig::Script;

/// What all clients of a drive share: the model, and what they saw.
pub struct World {
    pub model: Model,
    next_value: u64,
    /// The drive may answer that it is full.
    thin: bool,
    /// Its blocks wear out.
    mortal: bool,
    /// Sizes of the chunks that are lent at the start of each run.
    pub to_lend: Vec<usize>,
    /// The memory that is lent in this run.
    pub lending: Option<Lending>,
    /// Clients of this run that have not ended.
    pub playing: u32,
    /// A hash over every completion, what it said and when it came.
    pub trace: u64,
    /// A hash over what reads returned and how commands ended, but not when.
    pub data: u64,
    /// Commands that ended with success, and otherwise.
    pub succeeded: u64,
    pub failed: u64,
}

/// The world, held by several clients on one thread.
pub type Shared = Arc<Mutex<World>>;

impl World {
    /// An empty drive of this configuration.
    pub fn new(config: &DriveConfig) -> Shared {
        let cached = config.volatile_write_cache();
        Arc::new(Mutex::new(World {
            model: Model::new(config.namespace_pages(), cached),
            mortal: config.ftl.endurance_cycles > 0,
            thin: config.ftl.capacity_share < 1.0 || config.ftl.shown_bytes > 0,
            next_value: 1,
            to_lend: Vec::new(),
            lending: None,
            playing: 0,
            trace: 0,
            data: 0,
            succeeded: 0,
            failed: 0,
        }))
    }

    fn new_value(&mut self, lba: u64) -> u64 {
        self.next_value += 1;
        self.next_value << 16 | lba
    }
}

/// One step of FNV-1a over a word.
fn fold(hash: u64, word: u64) -> u64 {
    (hash ^ word)
        .wrapping_mul(0x0000_0100_0000_01b3)
        .rotate_left(23)
}

struct Flight {
    cid: u16,
    op: Op,
    slot: usize,
    begun: Moment,
    changes: Vec<Handle>,
    has_list: bool,
    /// What its completion gave.
    result: u64,
}

struct Player {
    host: Host,
    world: Shared,
    flights: Vec<Flight>,
    slots: Vec<usize>,
    /// Pinned pages that are no longer used.
    to_unpin: Vec<Unpin>,
}

/// A script that plays `ops` with up to `depth` commands in flight.
pub fn play(world: &Shared, ops: Vec<Op>, depth: usize) -> Script {
    let world = world.clone();
    world.lock().expect("no holder panics").playing += 1;
    Box::new(move |host| {
        Box::pin(async move {
            let mut player = Player {
                host,
                world,
                flights: Vec::new(),
                slots: (0..depth).collect(),
                to_unpin: Vec::new(),
            };
            player.lend().await;
            for op in ops {
                player.step(op).await;
            }
            player.drain().await;
            player.leave().await;
        })
    })
}

impl Player {
    async fn step(&mut self, op: Op) {
        match op {
            Op::Drain => self.drain().await,
            Op::SetWriteCache(on) => self.set_write_cache(on).await,
            Op::Format { erase } => self.format(erase).await,
            // Memory is lent a little after the start.
            Op::Pin { .. } if self.world().lending.is_none() => {}
            op => {
                while self.slots.is_empty() {
                    self.complete_one().await;
                }
                self.send(op);
            }
        }
    }

    async fn drain(&mut self) {
        while !self.flights.is_empty() {
            self.complete_one().await;
        }
        self.unpin_rest();
        while !self.flights.is_empty() {
            self.complete_one().await;
        }
    }

    /// Ends the client's part. When all have ended, no frame is held, and none reserved.
    async fn leave(&mut self) {
        assert!(self.to_unpin.is_empty());
        self.world().playing -= 1;
        if self.host.admin.is_none() {
            return;
        }
        while self.world().playing > 0 {
            let cpu = &self.host.cpu;
            cpu.sleep_until(cpu.now() + 1_000).await;
        }
        assert_eq!(self.host.statistics().await.frames_held, 0, "a leak");
    }

    fn send(&mut self, op: Op) {
        let slot = self.slots.pop().expect("checked by the caller");
        let begun = self.world().model.tick();
        let (command, changes) = match op {
            Op::Pin { .. } => (self.pin_command(&op, slot), Vec::new()),
            _ => self.prepare(&op, slot),
        };
        let cid = self.host.send(0, command);
        self.flights.push(Flight {
            cid,
            op,
            slot,
            begun,
            changes,
            has_list: command.has_list(),
            result: 0,
        });
    }

    fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.world.lock().expect("no holder panics")
    }

    /// The command of an operation, and what it will change.
    fn prepare(&self, op: &Op, slot: usize) -> (Command, Vec<Handle>) {
        let first = slot * PAGES_MAX as usize;
        let zero = |lba: u64, pages: u32, value: u64| -> Vec<Handle> {
            let mut world = self.world();
            (lba..lba + u64::from(pages))
                .map(|page| world.model.begin(page, value))
                .collect()
        };
        match *op {
            Op::Write { lba, pages, fua } => {
                let changes = (0..u64::from(pages)).map(|i| {
                    let value = self.world().new_value(lba + i);
                    self.host.fill(first + i as usize, value);
                    self.world().model.begin(lba + i, value)
                });
                let changes = changes.collect();
                let command = forced(Command::write(1, lba, pages), fua);
                (self.host.aim(command, pages, first, slot), changes)
            }
            Op::Read { lba, pages, fua } => {
                (0..pages as usize).for_each(|i| self.host.fill(first + i, u64::MAX));
                let command = forced(Command::read(1, lba, pages), fua);
                (self.host.aim(command, pages, first, slot), Vec::new())
            }
            Op::Verify { lba, pages } => (Command::verify(1, lba, pages), Vec::new()),
            Op::WriteZeroes {
                lba,
                pages,
                fua,
                deac,
            } => {
                let command = forced(Command::write_zeroes(1, lba, pages), fua);
                match deac {
                    true => (command.with_deallocate(), zero(lba, pages, 0)),
                    false => (command, zero(lba, pages, HELD_ZEROS)),
                }
            }
            Op::WriteBlank { lba, pages, fua } => {
                (0..pages as usize).for_each(|i| self.host.fill(first + i, 0));
                let command = forced(Command::write(1, lba, pages), fua);
                let command = self.host.aim(command, pages, first, slot);
                (command, zero(lba, pages, HELD_ZEROS))
            }
            Op::Allocated { lba, pages } => {
                // Room for two runs, so that some answers end before the range does.
                let command = Command::get_lba_status_by_io(1, lba, pages, 40);
                (
                    command.with_prp(self.host.whole.address(slot), 0),
                    Vec::new(),
                )
            }
            Op::Deallocate(ref ranges) => {
                let mut pages: Vec<u64> = ranges
                    .iter()
                    .flat_map(|(lba, n)| *lba..*lba + u64::from(*n))
                    .collect();
                pages.sort_unstable();
                pages.dedup();
                let changes = pages
                    .into_iter()
                    .flat_map(|page| zero(page, 1, 0))
                    .collect();
                (self.host.deallocate_command(ranges, slot), changes)
            }
            Op::Flush => (Command::flush(1), Vec::new()),
            Op::Drain | Op::SetWriteCache(_) | Op::Format { .. } | Op::Pin { .. } => {
                unreachable!("no I/O command: {op:?}")
            }
        }
    }

    async fn complete_one(&mut self) {
        let found = self.host.next(0).await;
        let index = self
            .flights
            .iter()
            .position(|flight| flight.cid == found.cid);
        let mut flight = self
            .flights
            .swap_remove(index.expect("a completion of a command in flight"));
        flight.result = found.wide_result();
        let status = self.account(&found);
        self.finish(&flight, status);
        self.use_pinned(&flight).await;
        self.slots.push(flight.slot);
        let pins = |flight: &Flight| matches!(flight.op, Op::Pin { .. });
        if self.flights.iter().any(pins) {
            // They may wait for these.
            self.unpin_rest();
        }
    }

    /// Takes a completion into the hashes; only failures that a sound drive may have are let pass.
    fn account(&self, found: &Completion) -> StatusCode {
        let status = code(found);
        let now_ns = self.host.cpu.now();
        let mut world = self.world();
        world.trace = fold(
            fold(world.trace, now_ns),
            u64::from(found.cid) << 16 | u64::from(status.raw()),
        );
        match status {
            StatusCode::Success => world.succeeded += 1,
            StatusCode::CapacityExceeded if world.thin => world.failed += 1,
            StatusCode::NamespaceWriteProtected if world.mortal => world.failed += 1,
            StatusCode::FormatInProgress => world.failed += 1,
            StatusCode::FramesPinned | StatusCode::NoFreeFrame if world.lending.is_some() => {
                world.failed += 1
            }
            other => panic!("a command ended with {other:?}"),
        }
        status
    }

    fn finish(&self, flight: &Flight, status: StatusCode) {
        let success = status == StatusCode::Success;
        let mut world = self.world();
        let fua = match flight.op {
            Op::Write { fua, .. } | Op::WriteBlank { fua, .. } | Op::WriteZeroes { fua, .. } => fua,
            _ => false,
        };
        for change in &flight.changes {
            world.model.end(*change, success, fua);
        }
        match flight.op {
            Op::Read { lba, pages, fua } if success => {
                for offset in 0..u64::from(pages) {
                    let page = flight.slot * PAGES_MAX as usize + offset as usize;
                    let value = self
                        .host
                        .value(page)
                        .unwrap_or_else(|torn| panic!("{torn}"));
                    world.data = fold(world.data, value);
                    let checked = world.model.check_read(lba + offset, flight.begun, value);
                    checked.unwrap_or_else(|wrong| panic!("{wrong}"));
                    if fua {
                        world.model.made_durable(lba + offset, flight.begun);
                    }
                }
            }
            // A page that was written in its frame is not allocated before it is written back.
            Op::Allocated { lba, pages } if success && world.lending.is_none() => {
                let answer = self.host.whole_page(flight.slot);
                let (runs, is_whole) = read_answer(answer).expect("an answer");
                let runs = runs
                    .iter()
                    .map(|run| run.dslba..run.dslba + u64::from(run.nlb));
                let runs: Vec<_> = runs.collect();
                let told_to = match is_whole {
                    true => lba + u64::from(pages),
                    false => runs.last().expect("a run").end,
                };
                for page in lba..told_to {
                    let told = runs.iter().any(|run| run.contains(&page));
                    let checked = world.model.check_allocated(page, flight.begun, told);
                    checked.unwrap_or_else(|wrong| panic!("{wrong}"));
                }
            }
            Op::Flush if success => world.model.flushed(flight.begun),
            _ => {}
        }
    }

    async fn set_write_cache(&mut self, on: bool) {
        let begun = self.world().model.begin_set_write_cache();
        let command = Command::set_feature(FeatureId::VolatileWriteCache, u32::from(on));
        let found = self.host.admin(command).await;
        // A full drive may have no room for what was written in place.
        if self.account(&found) == StatusCode::Success {
            self.world().model.end_set_write_cache(begun, on);
        }
    }

    async fn format(&mut self, erase: bool) {
        let changes: Vec<Handle> = {
            let mut world = self.world();
            (0..world.model.pages())
                .map(|page| world.model.begin(page, 0))
                .collect()
        };
        let erase = if erase {
            SecureErase::UserData
        } else {
            SecureErase::None
        };
        let found = self.host.admin(Command::format(1, erase)).await;
        let success = self.account(&found) == StatusCode::Success;
        let mut world = self.world();
        changes
            .into_iter()
            .for_each(|change| world.model.end(change, success, true));
    }
}

fn forced(command: Command, fua: bool) -> Command {
    if fua { command.with_fua() } else { command }
}
