//! File tasks: each core has some, which run the handlers of commands that speak of files.
//!
//! 1. The controller leaves a command's only share with the core that it is for. A job takes it up, puts it into the
//!    core's line, and is free again.
//! 2. A file task takes it, runs its handler, and answers: at once, within the call of the job, if one is idle and
//!    none is at work further up, so that what has all that it needs in memory ends in one call.
//!
//! File tasks wait for pages, and are no jobs: jobs serve pages, and wait for no file task. The line is as long as
//! the drive has slots for commands.
//!
//! A command that has begun runs to its end, also if its queue is deleted meanwhile: that waits for it, as it does
//! for commands of blocks.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use wharf_files::FileError;
use wharf_runtime::{OnCpu, TaskId};
use wharf_wire::command::Command;

use super::answer::FileAnswer;
use super::compute::{Shares, Turns, least_of};
use super::firmware::Firmware;
use super::lines::FileSystemOfDrive;
use super::locks::{answer_parked, session_of};
use crate::controller::{Controller, Handler};
use crate::core::{Core, Serve, Share, Slot, Step, outcome};

/// File tasks of a core.
const FILE_TASKS: u32 = 32;

/// Commands that take long that a core does for one host at a time.
const LONG_OF_HOST: u64 = 8;

/// Tasks of a core for them, made when they are needed.
const LONG_TASKS: u32 = 64;

/// What runs in a file task.
pub type FileWork<'a> = Pin<Box<dyn Future<Output = FileAnswer> + 'a>>;

/// A command that speaks of files: how it is served.
pub trait FileCommand: Sync {
    /// Serves it, in a file task of its core.
    fn run<'a>(&'a self, at: At<'a>) -> FileWork<'a>;

    /// Whether it may take far longer than others, so that none of them is to wait for it.
    fn is_long(&self) -> bool {
        false
    }
}

/// Where a command runs, and what it is.
#[derive(Clone, Copy)]
pub struct At<'a> {
    /// Its core.
    pub core: &'a Core,
    /// What the cores share.
    pub firmware: &'a Firmware,
    /// Its slot.
    pub slot: u16,
}

impl<'a> At<'a> {
    /// The command.
    pub fn command(&self) -> Command {
        self.with_slot(|slot| slot.command)
    }

    /// Looks at its slot.
    pub fn with_slot<R>(&self, f: impl FnOnce(&Slot) -> R) -> R {
        f(self.core.slots.borrow().get(self.slot))
    }

    /// The file system, once it has been opened.
    ///
    /// # Errors
    /// If there is none, or it could not be opened.
    pub async fn file_system(&self) -> Result<Rc<FileSystemOfDrive>, FileError> {
        self.firmware.file_system().await
    }
}

/// A share that waits for a file task, with what serves it.
#[derive(Clone, Copy)]
struct Waiting {
    share: Share,
    command: &'static dyn FileCommand,
    /// The host that sent it, if it takes long.
    of_host: Option<u32>,
}

/// What a core keeps for files.
#[derive(Default)]
pub(super) struct FileCore {
    line: Line,
    /// Commands that take long, and their tasks.
    long: Line,
    long_tasks: Cell<u32>,
    /// Whose turn it is to compute.
    pub(super) turns: Turns,
    /// One runs within the call of a job.
    runs_within: Cell<bool>,
    /// The core that this is of.
    core: OnceCell<Weak<Core>>,
    /// What the cores share.
    pub(super) firmware: OnceCell<Rc<Firmware>>,
}

/// Commands that wait for a task of a kind.
#[derive(Default)]
struct Line {
    waiting: RefCell<VecDeque<Waiting>>,
    /// Tasks that have nothing to do.
    idle: RefCell<Vec<TaskId>>,
    /// Of commands that take long, how many are at work for each host.
    at_work: Shares,
}

impl Line {
    /// The next to be served: in order, but of those that take long the first one of the host that has the fewest at work.
    fn next(&self) -> Option<Waiting> {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.front()?.of_host.is_none() {
            return waiting.pop_front();
        }
        let at_work = |host| self.at_work.of(host);
        let place = least_of(waiting.iter().map(|one| one.of_host.map_or(0, at_work)))?;
        let host = waiting[place].of_host?;
        if at_work(host) == LONG_OF_HOST {
            return None;
        }
        self.at_work.give(host, 1);
        waiting.remove(place)
    }

    /// One that was [next](Line::next) has been served.
    fn is_over(&self, one: &Waiting) {
        if let Some(host) = one.of_host {
            self.at_work.take(host, 1);
        }
    }

    /// Whether a host has as many as are done at a time, at work or about to be.
    fn is_enough_for(&self, host: u32) -> bool {
        let waiting = self.waiting.borrow();
        let waiting = waiting
            .iter()
            .filter(|one| one.of_host == Some(host))
            .count();
        self.at_work.of(host) + waiting as u64 > LONG_OF_HOST
    }
}

/// Starts the file tasks of a core.
pub(super) fn start_tasks(core: &Rc<Core>, firmware: &Rc<Firmware>) {
    let is_first = core.state::<FileCore>().firmware.set(firmware.clone());
    assert!(is_first.is_ok(), "a core is started once");
    let _ = core.state::<FileCore>().core.set(Rc::downgrade(core));
    for _ in 0..FILE_TASKS {
        let own = core.clone();
        let task = async move { serve(&own, |files| &files.line).await };
        core.cpu.spawn("file task", OnCpu::new(&core.cpu, task));
    }
    let (own, firmware) = (core.clone(), firmware.clone());
    let task = async move { answer_parked(&own, firmware.locks()).await };
    core.cpu.spawn("parked locks", OnCpu::new(&core.cpu, task));
}

/// The life of a file task.
async fn serve(core: &Core, line: fn(&FileCore) -> &Line) {
    let own = core.state::<FileCore>();
    let line = line(own);
    let firmware = own.firmware.get().expect("it is set before any task runs");
    loop {
        let Some(next) = line.next() else {
            Idle {
                line,
                core,
                is_noted: false,
            }
            .await;
            continue;
        };
        let (taken_ns, share) = (core.cpu.account_now(), next.share);
        let at = At {
            core,
            firmware,
            slot: share.slot,
        };
        let answer = next.command.run(at).await;
        line.is_over(&next);
        if answer.is_parked {
            continue;
        }
        {
            let mut slots = core.slots.borrow_mut();
            let slot = slots.get_mut(share.slot);
            (slot.result, slot.to_host_bytes) = (answer.result, answer.to_host_bytes);
        }
        core.answer_from_task(taken_ns, share, outcome(answer.status, 0));
    }
}

impl FileCore {
    /// Has a share wait for a file task.
    fn put(&self, core: &Core, share: Share, command: &'static dyn FileCommand) {
        if command.is_long() {
            return self.put_long(share, command);
        }
        self.line.waiting.borrow_mut().push_back(Waiting {
            share,
            command,
            of_host: None,
        });
        let Some(task) = self.line.idle.borrow_mut().pop() else {
            // The next that has done with its own looks here.
            return;
        };
        if self.runs_within.replace(true) {
            return core.cpu.wake(task);
        }
        core.cpu.run_within(task);
        self.runs_within.set(false);
    }
}

impl FileCore {
    /// The same of one that takes long.
    fn put_long(&self, share: Share, command: &'static dyn FileCommand) {
        let core = self.core.get().and_then(Weak::upgrade);
        let core = core.expect("it serves commands while it is there");
        let host = session_of(core.slots.borrow().get(share.slot).guest);
        self.long.waiting.borrow_mut().push_back(Waiting {
            share,
            command,
            of_host: Some(host),
        });
        if let Some(task) = self.long.idle.borrow_mut().pop() {
            return core.cpu.wake(task);
        }
        let tasks = self.long_tasks.get();
        if tasks < LONG_TASKS && !self.long.is_enough_for(host) {
            self.long_tasks.set(tasks + 1);
            let own = core.clone();
            let task = async move { serve(&own, |files| &files.long).await };
            core.cpu
                .spawn("long file task", OnCpu::new(&core.cpu, task));
        }
    }
}

/// Waits for something to do, last come first served: what that task uses is still near.
struct Idle<'a> {
    line: &'a Line,
    core: &'a Core,
    is_noted: bool,
}

impl Future for Idle<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let task = self.core.cpu.current();
        if !std::mem::replace(&mut self.is_noted, true) {
            self.line.idle.borrow_mut().push(task);
            return Poll::Pending;
        }
        match self.line.idle.borrow().contains(&task) {
            // Woken for something else.
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }
}

/// What cores are given for a command that speaks of files: there is one for each command.
pub struct FileHandler(pub &'static dyn FileCommand);

impl Serve for FileHandler {
    fn serve(&self, core: &Core, job: u32) -> Step {
        let share = core.job(job).share.get();
        core.state::<FileCore>().put(core, share, self.0);
        Step::Kept
    }
}

impl Handler for FileHandler {}

/// Has a command, which has been checked, be served on `core`. The host pages that were walked last are its.
pub fn start(
    controller: &mut Controller,
    handler: &'static FileHandler,
    qid: u16,
    command: Command,
    core: u32,
) {
    let slot = controller.take_slot(handler, qid, command, 1);
    controller.slots().borrow_mut().keep_walked(slot);
    let share = Share {
        slot,
        ..Share::default()
    };
    controller.send(core, share, handler);
}
