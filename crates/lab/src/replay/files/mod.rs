//! A client of files: its threads' operations, each thread's in order, every read and every answer checked.
//!
//! | file | idea |
//! |---|---|
//! | `serve.rs` | one operation: what it may answer, what it asks of the file client |
//! | `names.rs` | operations on names |
//! | `account.rs` | counts and latencies by kind |
//!
//! What serves the files is what the design says ([`Design::files`](wharf_host::Design::files)).

mod account;
mod names;
mod serve;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock};

use wharf_host::design::{FileParts, Gauges, Statistics};
use wharf_host::files::{Errno, FileClient, FileError, FileTable, Handle, Initially};
use wharf_runtime::{Cpu, Op, Sender};
use wharf_wire::dma::STAMP_BYTES;
use wharf_wire::file::DriveKey;
use wharf_workload::files::{Existing, FileOp};

use super::client::{Account, TELL_EVERY};
use super::{Run, RunError, Setup};
use crate::checker::WrongRead;
use crate::checker::names::{NameChecker, State as NameState, WrongAnswer};
use crate::checker::objects::{Object, Objects};
use crate::input::{FilePlan, Plan};
use crate::progress::UPDATE_EVERY;
use crate::result::Completed;

pub(crate) use account::FileAccounts;

/// What was wrong with an operation on a file.
#[derive(Debug, thiserror::Error)]
pub enum FileFault {
    /// It failed, of something that is no right answer.
    #[error("{0}")]
    Failed(#[from] FileError),
    /// Bytes or sizes are not what was written.
    #[error("{0}")]
    Read(#[from] WrongRead),
    /// Its answer cannot be.
    #[error("{0}; this is a fault in the design, not in your input")]
    Answer(#[from] WrongAnswer),
}

impl From<Errno> for FileFault {
    fn from(errno: Errno) -> FileFault {
        FileFault::Failed(errno.into())
    }
}

/// What the clients of a run share.
pub(crate) struct Shared {
    plan: Arc<FilePlan>,
    table: Arc<FileTable>,
    page_bytes: usize,
    objects: Objects,
    /// What is there at the beginning.
    initially: Arc<[Initially]>,
    /// Its numbers in the file system of a design that has one, once they are known.
    numbers: Arc<OnceLock<Vec<u64>>>,
    /// When what there is has those numbers.
    learnt: Once,
    /// Files by their numbers.
    by_number: Mutex<BTreeMap<u64, Arc<Object>>>,
    names: Mutex<NameChecker>,
}

impl Shared {
    /// What a plan of operations on files needs, if it is one.
    ///
    /// # Errors
    /// What is to be there at the beginning cannot be made.
    pub(crate) fn new(
        plan: &Plan,
        volume_bytes: u64,
        setup: &Setup,
    ) -> Result<Option<Shared>, RunError> {
        let Some(plan) = &plan.files else {
            return Ok(None);
        };
        let page_bytes = setup.cache().drive.page_bytes();
        let mut table = FileTable::new(plan.regions, volume_bytes / 4096, setup.clients);
        let initially: Arc<[Initially]> = initially(plan).collect();
        let mut numbers = Vec::with_capacity(initially.len());
        for (path, bytes) in initially.iter() {
            let made = match bytes {
                None => table.make_directory(path).map(|()| 0),
                Some(bytes) => table.make_file(path, *bytes),
            };
            numbers.push(made.map_err(|errno| {
                let path = String::from_utf8_lossy(path);
                RunError::Memory(format!("{path} cannot be there at the beginning: {errno}"))
            })?);
        }
        let shared = Shared {
            names: Mutex::new(NameChecker::new(&[], Vec::new())),
            plan: plan.clone(),
            table: Arc::new(table),
            page_bytes,
            objects: Objects::new(page_bytes == STAMP_BYTES),
            initially,
            numbers: Arc::default(),
            learnt: Once::new(),
            by_number: Mutex::default(),
        };
        shared.begin_with(&numbers);
        Ok(Some(shared))
    }

    /// What client `index` of files is made of, on a drive with this key.
    pub(crate) fn parts(&self, cpu: &Cpu, index: u32, key: Option<DriveKey>) -> FileParts {
        FileParts {
            cpu: cpu.clone(),
            index,
            page_bytes: self.page_bytes,
            table: self.table.clone(),
            initially: self.initially.clone(),
            numbers: self.numbers.clone(),
            key,
        }
    }

    /// Has it known what there is at the beginning, where the design has a file system, before a client's first operation. In
    /// real time that client is any of them: the one that made the files may come last.
    pub(crate) fn learn(&self) {
        if let Some(numbers) = self.numbers.get() {
            self.learnt.call_once(|| self.begin_with(numbers));
        }
    }

    /// Nothing is there but what there is at the beginning, with these numbers.
    fn begin_with(&self, numbers: &[u64]) {
        let plan = &self.plan;
        let mut states = vec![NameState::Absent; plan.names.paths.len()];
        let mut by_number = self.by_number.lock().unwrap_or_else(|p| p.into_inner());
        by_number.clear();
        for (&(name, existing), &number) in plan.names.existing.iter().zip(numbers) {
            states[name as usize] = match existing {
                Existing::Directory => NameState::Something,
                Existing::File(_) => NameState::File(number),
            };
            if let Existing::File(bytes) = existing {
                let path = &plan.names.paths[name as usize];
                by_number.insert(number, self.objects.object(path, bytes));
            }
        }
        for (state, is_unforeseen) in states.iter_mut().zip(&plan.unforeseen) {
            if *is_unforeseen {
                *state = NameState::Unknown;
            }
        }
        *self.names() = NameChecker::new(&plan.names.paths, states);
    }

    fn names(&self) -> MutexGuard<'_, NameChecker> {
        self.names
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The file of a number; one that was not seen yet has no bytes.
    fn object(&self, number: u64, name: u32) -> Arc<Object> {
        let mut all = self.by_number.lock().unwrap_or_else(|p| p.into_inner());
        let path = &self.plan.names.paths[name as usize];
        let object = all.entry(number);
        object
            .or_insert_with(|| self.objects.object(path, 0))
            .clone()
    }

    /// A file that nobody can come by any more is forgotten.
    fn forget(&self, number: u64) {
        let mut all = self.by_number.lock().unwrap_or_else(|p| p.into_inner());
        all.remove(&number);
    }
}

/// What is there at the beginning of a plan.
fn initially(plan: &FilePlan) -> impl Iterator<Item = Initially> {
    plan.names.existing.iter().map(|&(name, existing)| {
        let path = plan.names.paths[name as usize].as_bytes();
        let bytes = match existing {
            Existing::Directory => None,
            Existing::File(bytes) => Some(bytes),
        };
        (path.into(), bytes)
    })
}

/// A file that a thread has open.
#[derive(Clone)]
struct Open {
    handle: Handle,
    object: Arc<Object>,
}

/// What the tasks of a client share.
struct State<F> {
    cpu: Cpu,
    run: Arc<Run>,
    files: F,
    /// Operations of each task, by their indices.
    queues: Vec<Vec<u32>>,
    /// By thread and name.
    open: RefCell<BTreeMap<(u32, u32), Open>>,
    tasks_left: Cell<u32>,
    account: RefCell<Account>,
    done: RefCell<Sender<u32>>,
    index: u32,
    /// Operations served that the run was not told of yet.
    untold: Cell<u64>,
    start_ns: u64,
    /// What was done before.
    before: (Statistics, Gauges),
}

impl<F> State<F> {
    fn shared(&self) -> &Shared {
        self.run.files.as_ref().expect("a run of files")
    }

    fn tell(&self, now_ns: u64) {
        let served = self.untold.take();
        let before = self.run.done.fetch_add(served, Relaxed);
        if before / UPDATE_EVERY != (before + served) / UPDATE_EVERY {
            self.run.progress.update(before + served, now_ns);
        }
    }
}

/// Starts the tasks that replay the operations of client `index`.
pub(super) fn start<F: FileClient>(
    cpu: Cpu,
    run: Arc<Run>,
    files: F,
    done: Sender<u32>,
    (index, go_ns): (u32, u64),
) {
    let plan = run.files.as_ref().expect("a run of files").plan.clone();
    let (clients, tasks) = (plan.by_client.len() as u32, run.tasks);
    let mut queues = vec![Vec::new(); tasks as usize];
    for &op in &plan.by_client[index as usize] {
        let thread = plan.ops[op as usize].thread;
        queues[(thread / clients % tasks) as usize].push(op);
    }
    let start_ns = cpu.now();
    let state = Rc::new(State {
        queues,
        open: RefCell::default(),
        tasks_left: Cell::new(tasks),
        account: RefCell::new(Account::new(start_ns, run.cores)),
        done: RefCell::new(done),
        index,
        untold: Cell::new(0),
        start_ns,
        before: (files.statistics().blocks, files.gauges()),
        cpu: cpu.clone(),
        files,
        run,
    });
    for task in 0..tasks as usize {
        cpu.spawn_main("operation", replay(state.clone(), task, go_ns));
    }
}

/// One of a client's tasks, with as many slots as the client has operations in flight for each: as for requests for blocks.
async fn replay<F: FileClient>(state: Rc<State<F>>, task: usize, go_ns: u64) {
    let plan = state.shared().plan.clone();
    let mut slots = vec![state.start_ns; (state.run.depth / state.run.tasks) as usize];
    let (mut turn, mut data) = (0, Vec::new());
    for &number in &state.queues[task] {
        state.cpu.yield_now().await;
        if state.run.is_ending() {
            break;
        }
        let op = &plan.ops[number as usize];
        let mut began_ns = slots[turn];
        if let (Some(speed), Some(time_ns)) = (state.run.speed, op.time()) {
            let due_ns = go_ns + (time_ns as f64 / speed) as u64;
            if !sleep_until(&state, due_ns).await {
                break;
            }
            began_ns = state.cpu.now();
            let late_ns = began_ns.saturating_sub(due_ns);
            let account = &mut *state.account.borrow_mut();
            account.drift_sum_ns += late_ns;
            account.drift_max_ns = account.drift_max_ns.max(late_ns);
        }
        state.cpu.work(Op::ClientRequest, || ());
        match state.serve(op, &mut data).await {
            Ok(served) => slots[turn] = state.account_for(op, began_ns, &served),
            Err(source) => {
                let path = &plan.names.paths[op.file as usize];
                state.run.fail(RunError::File {
                    design: state.run.design.clone(),
                    operation: number.into(),
                    what: format!("{} of {path}", op.kind),
                    source: Box::new(source),
                });
                state.cpu.halt();
                break;
            }
        }
        turn = (turn + 1) % slots.len();
    }
    let used_ns = slots
        .iter()
        .map(|end_ns| u128::from(end_ns - state.start_ns));
    state.account.borrow_mut().slots_ns += used_ns.sum::<u128>();
    finish(&state);
}

/// Waits until an operation is due; false if the run was stopped meanwhile.
async fn sleep_until<F>(state: &State<F>, due_ns: u64) -> bool {
    /// Longest sleep in real time without a look at the stop flag.
    const SLICE_NS: u64 = 100_000_000;
    loop {
        if state.run.is_ending() {
            return false;
        }
        let now_ns = state.cpu.now();
        if now_ns >= due_ns {
            return true;
        }
        let slice_ns = if state.cpu.is_virtual() {
            u64::MAX
        } else {
            SLICE_NS
        };
        let until_ns = due_ns.min(now_ns.saturating_add(slice_ns));
        state.cpu.sleep_until(until_ns).await;
    }
}

/// The last task of a client hands in the account.
fn finish<F: FileClient>(state: &State<F>) {
    state.tasks_left.set(state.tasks_left.get() - 1);
    if state.tasks_left.get() > 0 {
        return;
    }
    state.tell(state.cpu.now());
    let gc_cores = state.run.cores;
    let mut account = state.account.replace(Account::new(0, gc_cores));
    let (statistics, gauges) = &state.before;
    account.statistics = state.files.statistics().blocks.since(statistics);
    account.gauges = state.files.gauges().since(gauges);
    let mut accounts = state.run.accounts.lock().unwrap_or_else(|p| p.into_inner());
    accounts.push(account);
    drop(accounts);
    let sent = state.done.borrow_mut().push(&state.cpu, state.index);
    assert!(sent.is_ok(), "one message fits");
}

impl<F: FileClient> State<F> {
    /// Accounts an operation that began at `began_ns` and ends now; gives when that is.
    fn account_for(&self, op: &FileOp, began_ns: u64, served: &serve::Served) -> u64 {
        let now_ns = self.cpu.now();
        let latency_ns = now_ns - began_ns;
        let account = &mut *self.account.borrow_mut();
        account.record_file(op.kind, latency_ns, served.is_failed);
        account.verified += u64::from(op.kind.is_read());
        let touch = served.touch;
        if touch.hits < touch.pages && self.run.collection.any_since(began_ns) {
            account.affected.record(latency_ns);
        }
        account.bytes += served.bytes;
        account.timeline.record(
            now_ns.saturating_sub(account.start_ns),
            Completed {
                latency_ns,
                bytes: served.bytes,
                touches: touch.pages,
                hits: touch.hits,
            },
        );
        account.end_ns = account.end_ns.max(now_ns);
        self.cpu.progress();
        self.untold.set(self.untold.get() + 1);
        if self.untold.get() == TELL_EVERY {
            self.tell(now_ns);
        }
        now_ns
    }
}
