//! What the controller is; what handles a command, and what a feature of the drive is.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use wharf_runtime::notifier::SOURCES;
use wharf_runtime::{Cpu, Notifier, Ready};
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::dma::DmaSpace;
use wharf_wire::features::{Arbitration, FeatureId};
use wharf_wire::identify::IdentifyController;
use wharf_wire::lane::Lane;
use wharf_wire::log_page::LogPage;
use wharf_wire::queue::{DriveQueue, Guest};
use wharf_wire::status::StatusCode;

use super::accounts::{ErrorLog, HostCommands};
use super::guests::{self, GuestQueues, Line};
use super::told::Events;
use crate::config::{CorePlan, DriveConfig, NewFiles, Striping};
use crate::core::{Core, NextWaiter, Serve, Slots};
use crate::link::{FromHost, ToHost};

/// Arbitration after power-on: bursts of 8 commands.
pub(super) const ARBITRATION_DEFAULT: u32 = 3;

/// The one namespace.
pub const NAMESPACE: u32 = 1;

/// How cores serve a command ([`Serve`]), and how it ends. There is one of each for all drives: what it keeps is
/// in the command's slot, or in the state that its feature has on controller and cores.
pub trait Handler: Serve {
    /// Every share is answered.
    fn end(&self, controller: &mut Controller, slot: u16) {
        controller.complete(slot);
    }
}

/// What an opcode of I/O queues stands for.
pub trait IoCommand: Handler {
    /// Checks the whole command, then gives every core concerned its share. If it fails nothing has changed,
    /// and the host is told why.
    ///
    /// # Errors
    /// What is wrong with the command.
    fn start(
        &'static self,
        controller: &mut Controller,
        qid: u16,
        command: Command,
    ) -> Result<(), StatusCode>;

    /// The result of a command that could not be started.
    fn refused_result(&self) -> u64 {
        0
    }

    /// Whether the command may name all namespaces.
    fn takes_all_namespaces(&self) -> bool {
        false
    }
}

/// What a drive can do beyond fetching commands: the commands that it adds, and what it keeps.
///
/// A feature that is off adds nothing and costs nothing.
pub trait Feature: Sync {
    /// Whether a drive has it.
    fn is_on(&self, config: &DriveConfig) -> bool;

    /// Its commands on I/O queues, by their opcodes.
    fn commands(&self) -> Vec<(u8, &'static dyn IoCommand)>;

    /// What it keeps on the controller ([`Controller::state`]).
    fn on_controller(&self) -> Option<Box<dyn Any>> {
        None
    }

    /// What it keeps on each core ([`Core::state`]).
    fn on_core(&self) -> Option<Box<dyn Any>> {
        None
    }

    /// Where its commands wait on a core, if they do.
    fn waiter(&self) -> Option<NextWaiter> {
        None
    }

    /// Starts what it does besides commands, when the drive has power: tasks of its cores, which do not run before
    /// this has been called.
    fn power_on(&self, _cores: &[Rc<Core>], _config: &DriveConfig, _new_files: Option<NewFiles>) {}

    /// Says what the host has to know of it.
    fn identify(&self, _controller: &Controller, _identify: &mut IdentifyController) {}

    /// The value of a feature of NVM Express that is this one's.
    fn value(&self, _controller: &Controller, _feature: FeatureId) -> Option<u32> {
        None
    }

    /// Sets the value of such a feature: the result of the command if it is there at once. `None` if the
    /// feature is not this one's.
    fn set_value(&self, _controller: &mut Controller, _command: &Command) -> Option<SetOutcome> {
        None
    }

    /// Its value where that is more than a dword, to be written to the host's memory.
    fn long_value(&self, _controller: &Controller, _feature: FeatureId) -> Option<Vec<u8>> {
        None
    }

    /// What a log page says that is this one's.
    fn log_page(&self, _controller: &Controller, _page: LogPage) -> Option<Vec<u8>> {
        None
    }

    /// Does an admin command, if it is this one's: its result if that is there at once.
    fn admin_command(&self, _: &mut Controller, _: &Command) -> Option<SetOutcome> {
        None
    }

    /// Refuses a command of a host in another process.
    ///
    /// # Errors
    /// Why.
    fn check_guest(&self, _controller: &Controller, _command: &Command) -> Result<(), StatusCode> {
        Ok(())
    }

    /// Refuses to have the namespace formatted now.
    ///
    /// # Errors
    /// Why.
    fn check_format(&self, _controller: &Controller) -> Result<(), StatusCode> {
        Ok(())
    }

    /// A queue takes no more commands: those of it that would wait for others are to end.
    fn queue_closes(&self, _controller: &mut Controller, _qid: u16, _command: &Command) {}

    /// The queue of a host in another process is deleted by `command`. True if the feature takes back what that host
    /// holds, and completes the command then.
    fn guest_leaves(
        &self,
        _controller: &mut Controller,
        _guest: Guest,
        _command: &Command,
    ) -> bool {
        false
    }
}

/// What becomes of an admin command that a feature does.
pub type SetOutcome = Result<Option<u32>, StatusCode>;

/// A queue that is attached.
pub(super) struct Queue {
    pub(super) queue: DriveQueue,
    /// It is being deleted: nothing more is fetched.
    pub(super) closing: bool,
    /// The core that serves its commands for files, if it is one.
    pub(super) core: Option<u32>,
}

/// An admin command that waits until I/O commands in flight have ended.
pub(super) enum Waiting {
    /// A submission queue is to be deleted: for those of that queue.
    DeleteQueue(u16, Command),
    /// The namespace is to be formatted: for all.
    Format(Command),
}

/// A completion that waits for the link or for room.
pub(super) struct Outgoing {
    pub(super) due_ns: u64,
    pub(super) qid: u16,
    pub(super) completion: Completion,
}

/// What a controller is made of and connected to.
pub struct ControllerParts {
    /// The CPU that it is.
    pub cpu: Cpu,
    /// The drive's configuration.
    pub config: DriveConfig,
    /// The plan of a core.
    pub plan: CorePlan,
    /// Host memory.
    pub dma: Arc<DmaSpace>,
    /// What queues and cores tell it by.
    pub notifier: Notifier,
    /// The admin queue.
    pub admin: DriveQueue,
    /// What it has for hosts in other processes.
    pub guests: GuestQueues,
    /// The drive's commands.
    pub slots: Rc<RefCell<Slots>>,
    /// The cores.
    pub cores: Vec<Rc<Core>>,
    /// How many of them are collecting garbage.
    pub cores_collecting: Rc<Cell<u32>>,
    /// The link to the host.
    pub to_host: Lane,
    /// And from it.
    pub from_host: FromHost,
    /// The features that the drive has.
    pub features: Vec<&'static dyn Feature>,
}

/// The controller of one drive.
pub struct Controller {
    pub(super) cpu: Cpu,
    pub(super) config: DriveConfig,
    pub(super) plan: CorePlan,
    pub(super) namespace_pages: u64,
    pub(super) striping: Striping,
    pub(super) dma: Arc<DmaSpace>,
    pub(super) notifier: Notifier,
    /// Attached queues, by their number; the admin queue is the first, those of guests are behind all others.
    pub(super) queues: Vec<Option<Queue>>,
    /// Which queue notifies as which source.
    pub(super) qid_of_source: [u16; SOURCES],
    /// Those of guests that have notified by their common source.
    pub(super) guests_line: Line,
    /// Source after the one that was served last.
    pub(super) turn: u32,
    /// Cores and queues that have notified and were not emptied since.
    pub(super) ready: Ready,
    /// When it had done with its latest turn, by its clock in virtual time.
    pub(super) turn_end_ns: u64,
    /// Completion queues created but not yet used by a submission queue: qid, entries, address.
    pub(super) created: Vec<(u16, u32, u64)>,
    pub(super) cores: Vec<Rc<Core>>,
    /// Cores that may have shares to begin with, or answers to give.
    pub(super) touched: Ready,
    pub(super) cores_collecting: Rc<Cell<u32>>,
    pub(super) slots: Rc<RefCell<Slots>>,
    /// What handles the command of each slot.
    pub(super) handlers: Vec<Option<&'static dyn Handler>>,
    pub(super) to_host: ToHost,
    pub(super) from_host: FromHost,
    pub(super) outgoing: VecDeque<Outgoing>,
    pub(super) errors: ErrorLog,
    pub(super) events: Events,
    pub(super) arbitration: Arbitration,
    pub(super) write_cache: bool,
    pub(super) formats_under_way: u32,
    pub(super) waiting: Vec<Waiting>,
    /// An I/O queue has been created since power-on.
    pub(super) had_io_queues: bool,
    pub(super) host_commands: HostCommands,
    pub(super) features: Vec<&'static dyn Feature>,
    /// What an opcode of I/O queues stands for.
    pub(super) table: Box<[Option<&'static dyn IoCommand>; 256]>,
    states: Vec<Box<dyn Any>>,
}

impl Controller {
    /// A controller whose admin queue is attached.
    pub fn new(parts: ControllerParts) -> Controller {
        let config = &parts.config;
        let mut table: Box<[Option<&'static dyn IoCommand>; 256]> = Box::new([None; 256]);
        for (opcode, handler) in parts.features.iter().flat_map(|f| f.commands()) {
            let before = table[opcode as usize].replace(handler);
            assert!(before.is_none(), "two features have opcode {opcode:#x}");
        }
        let queues = (config.firmware.queues_max + parts.guests.count + 1) as usize;
        let states = parts.features.iter().filter_map(|f| f.on_controller());
        let mut controller = Controller {
            cpu: parts.cpu,
            plan: parts.plan,
            namespace_pages: config.namespace_pages(),
            striping: config.striping(),
            dma: parts.dma,
            notifier: parts.notifier,
            queues: (0..queues).map(|_| None).collect(),
            qid_of_source: [0; SOURCES],
            guests_line: Line::new(parts.guests.bells, queues),
            turn: 0,
            ready: Ready::NONE,
            turn_end_ns: 0,
            created: Vec::new(),
            cores: parts.cores,
            touched: Ready::NONE,
            cores_collecting: parts.cores_collecting,
            slots: parts.slots,
            handlers: vec![None; config.firmware.commands_max as usize],
            to_host: ToHost::new(&config.link, parts.to_host),
            from_host: parts.from_host,
            outgoing: VecDeque::with_capacity(config.firmware.commands_max as usize),
            errors: ErrorLog::default(),
            events: Events::default(),
            arbitration: Arbitration::from_value(ARBITRATION_DEFAULT),
            write_cache: config.volatile_write_cache(),
            formats_under_way: 0,
            waiting: Vec::new(),
            had_io_queues: false,
            host_commands: HostCommands::default(),
            states: states.collect(),
            features: parts.features,
            table,
            config: parts.config,
        };
        if parts.guests.count > 0 {
            controller.qid_of_source[guests::SOURCE as usize] = guests::ALL;
        }
        controller.attach(0, parts.admin);
        controller
    }

    /// Serves a queue from now on.
    pub(super) fn attach(&mut self, qid: u16, queue: DriveQueue) {
        if u32::from(qid) <= self.config.firmware.queues_max {
            self.qid_of_source[queue.source() as usize] = qid;
        }
        self.queues[qid as usize] = Some(Queue {
            queue,
            closing: false,
            core: None,
        });
    }

    /// The core that serves a queue's commands for files, if the host has named one.
    pub fn core_of(&self, qid: u16) -> Option<u32> {
        self.queues[qid as usize].as_ref()?.core
    }

    /// The queue of this number, if it is attached.
    pub(super) fn queue_mut(&mut self, qid: u16) -> Option<&mut Queue> {
        self.queues.get_mut(qid as usize)?.as_mut()
    }

    /// Who a queue belongs to, if that is a host in another process.
    #[inline]
    pub fn guest_of(&self, qid: u16) -> Option<Guest> {
        self.queues[qid as usize].as_ref()?.queue.guest()
    }

    /// What a feature keeps on the controller.
    ///
    /// # Panics
    /// If no feature of the drive keeps such a thing.
    pub fn state<T: Any>(&self) -> &T {
        let mut states = self.states.iter();
        let state = states.find_map(|state| state.downcast_ref());
        state.expect("the drive has the feature that asks")
    }

    /// The drive's configuration.
    pub fn config(&self) -> &DriveConfig {
        &self.config
    }

    /// The plan of a core.
    pub fn plan(&self) -> &CorePlan {
        &self.plan
    }

    /// Pages of the namespace.
    pub fn namespace_pages(&self) -> u64 {
        self.namespace_pages
    }

    /// How pages are divided among the cores.
    pub fn striping(&self) -> Striping {
        self.striping
    }

    /// The cores.
    pub fn cores(&self) -> impl ExactSizeIterator<Item = &Rc<Core>> {
        self.cores.iter()
    }

    /// Host memory.
    pub fn dma(&self) -> &DmaSpace {
        &self.dma
    }

    /// The drive's commands.
    pub fn slots(&self) -> &RefCell<Slots> {
        &self.slots
    }

    /// The namespace is being formatted, or waits for that.
    pub fn is_formatting(&self) -> bool {
        self.formats_under_way > 0
    }

    /// True if a core takes no more writes: then the namespace takes none.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.cores.iter().any(|core| core.is_read_only())
    }

    /// Refuses a change of what the drive holds.
    ///
    /// # Errors
    /// If the drive takes no more writes.
    #[inline]
    pub fn check_write_protection(&self) -> Result<(), StatusCode> {
        match self.is_read_only() {
            true => Err(StatusCode::NamespaceWriteProtected),
            false => Ok(()),
        }
    }

    /// True if completions carry the state of collection.
    #[inline]
    pub(super) fn tells_collection(&self) -> bool {
        self.config.host_memory.enabled
    }

    /// True if a core moves pages or erases blocks.
    #[inline]
    pub(super) fn anyone_collects(&self) -> bool {
        self.cores_collecting.get() > 0
    }
}
