//! A client: its share of the requests, `depth` in flight, every read checked.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use wharf_host::design::{Client, Design, Gauges, Statistics, Touch};
use wharf_host::gate::Gate;
use wharf_host::span::Extent;
use wharf_runtime::{Cpu, Op, Sender};
use wharf_workload::Op as RequestOp;

use super::connection::Connection;
use super::files::{self, FileAccounts};
use super::request_queue::{RequestQueue, Taken};
use super::{Run, RunError};
use crate::checker::{Snapshot, Ticket};
use crate::progress::UPDATE_EVERY;
use crate::result::{Completed, Latencies, TimelineBuilder};

/// Requests that a client serves between two times that it says so.
pub(super) const TELL_EVERY: u64 = 256;

/// Longest sleep in real time without a look at the stop flag, in nanoseconds.
const SLEEP_NS_MAX: u64 = 100_000_000;

/// What a client did.
pub(crate) struct Account {
    pub(crate) reads: Latencies,
    pub(crate) writes: Latencies,
    pub(crate) flushes: Latencies,
    pub(crate) discards: Latencies,
    /// Operations on files that are none of these.
    pub(crate) names: Latencies,
    pub(crate) file_operations: FileAccounts,
    /// Those that collection may have held up.
    pub(crate) affected: Latencies,
    /// From the start to the last completion, added up over its tasks.
    pub(crate) slots_ns: u128,
    pub(crate) bytes: u64,
    pub(crate) verified: u64,
    pub(crate) drift_sum_ns: u64,
    pub(crate) drift_max_ns: u64,
    pub(crate) timeline: TimelineBuilder,
    pub(crate) statistics: Statistics,
    pub(crate) gauges: Gauges,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

impl Account {
    pub(super) fn new(start_ns: u64, gc_cores: u32) -> Account {
        Account {
            reads: Latencies::default(),
            writes: Latencies::default(),
            flushes: Latencies::default(),
            discards: Latencies::default(),
            names: Latencies::default(),
            file_operations: FileAccounts::default(),
            affected: Latencies::default(),
            slots_ns: 0,
            bytes: 0,
            verified: 0,
            drift_sum_ns: 0,
            drift_max_ns: 0,
            timeline: TimelineBuilder::new(gc_cores),
            statistics: Statistics::default(),
            gauges: Gauges::none(),
            start_ns,
            end_ns: start_ns,
        }
    }
}

/// What the tasks of a client share.
struct State<C> {
    cpu: Cpu,
    run: Arc<Run>,
    client: C,
    request_queues: Vec<RequestQueue>,
    /// When a run ends that a time bounds; what ends later counts for no bytes.
    deadline_ns: u64,
    tasks_left: Cell<u32>,
    account: RefCell<Account>,
    done: RefCell<Sender<u32>>,
    index: u32,
    /// Requests served that the run was not told of yet.
    untold: Cell<u64>,
    /// What the client did before the run began.
    before: (Statistics, Gauges),
}

impl<C: Client> State<C> {
    /// Counts a request that ended at `now_ns`.
    #[inline]
    fn count(&self, now_ns: u64) {
        self.untold.set(self.untold.get() + 1);
        if self.untold.get() == TELL_EVERY {
            self.tell(now_ns);
        }
    }

    /// Tells the run how many requests were served.
    fn tell(&self, now_ns: u64) {
        let served = self.untold.take();
        let before = self.run.done.fetch_add(served, Relaxed);
        if before / UPDATE_EVERY != (before + served) / UPDATE_EVERY {
            self.run.progress.update(before + served, now_ns);
        }
    }
}

/// Waits for the drives, then starts the tasks that replay.
pub(crate) async fn run<D: Design>(
    cpu: Cpu,
    run: Arc<Run>,
    design: Arc<D>,
    connection: Connection,
    mut done: Sender<u32>,
    index: u32,
) {
    let Some(go) = connection.wait(&cpu).await else {
        return;
    };
    let making = Making {
        begin: connection.begin.clone(),
        waiter: connection.waiter,
    };
    let parts = connection.open(&cpu, &go, &run, index);
    let client = parts.and_then(|parts| Ok(design.client(parts)?));
    let client = match client {
        Ok(client) => client,
        Err(error) => return give_up(&run, error, done, (&cpu, index), &making),
    };
    if let Some(shared) = &run.files {
        let parts = shared.parts(&cpu, index, run.key);
        match design.files(client, parts).await {
            Ok(files) => {
                let go_ns = making.wait(&cpu, &mut done, index).await;
                shared.learn();
                files::start(cpu, run.clone(), files, done, (index, go_ns));
            }
            Err(error) => {
                let error = RunError::FileSystem(error);
                give_up(&run, error, done, (&cpu, index), &making);
            }
        }
        return;
    }
    if let Some(file) = &run.one_file {
        match file.open(&design, client, &cpu, (index, run.key)).await {
            Ok(blocks) => {
                let go_ns = making.wait(&cpu, &mut done, index).await;
                start(&cpu, run.clone(), blocks, done, index, (cpu.now(), go_ns));
            }
            Err(error) => {
                let error = RunError::FileSystem(error);
                give_up(&run, error, done, (&cpu, index), &making);
            }
        }
        return;
    }
    start(&cpu, run, client, done, index, (cpu.now(), go.start_ns));
}

/// What clients do before a run of files begins is no part of it.
struct Making {
    begin: Option<Gate<u64>>,
    waiter: u32,
}

impl Making {
    /// The client has its files: waits until all have theirs, and gives when the run begins.
    async fn wait(&self, cpu: &Cpu, done: &mut Sender<u32>, index: u32) -> u64 {
        self.tell(cpu, done, index);
        match &self.begin {
            Some(begin) => begin.pass(cpu, self.waiter).await,
            None => cpu.now(),
        }
    }

    /// Tells the boot task, which waits for all.
    fn tell(&self, cpu: &Cpu, done: &mut Sender<u32>, index: u32) {
        if self.begin.is_some() {
            let told = done.push(cpu, index);
            assert!(told.is_ok(), "two messages fit");
        }
    }
}

/// Client `index` does not even begin.
fn give_up(
    run: &Run,
    error: RunError,
    mut done: Sender<u32>,
    (cpu, index): (&Cpu, u32),
    making: &Making,
) {
    run.fail(error);
    making.tell(cpu, &mut done, index);
    let _ = done.push(cpu, index);
}

/// Starts the tasks of a client that replay, at the first of two times; an open loop counts from the second.
fn start<C: Client>(
    cpu: &Cpu,
    run: Arc<Run>,
    client: C,
    done: Sender<u32>,
    index: u32,
    (start_ns, open_start_ns): (u64, u64),
) {
    let state = Rc::new(State {
        before: (client.statistics(), client.gauges()),
        request_queues: RequestQueue::all(&run, index),
        deadline_ns: run.deadline_ns(open_start_ns),
        tasks_left: Cell::new(run.tasks),
        account: RefCell::new(Account::new(start_ns, run.cores)),
        done: RefCell::new(done),
        index,
        untold: Cell::new(0),
        cpu: cpu.clone(),
        client,
        run,
    });
    for task in 0..state.run.tasks as usize {
        let request_queue = task % state.request_queues.len();
        cpu.spawn_main(
            "request",
            replay(state.clone(), request_queue, (start_ns, open_start_ns)),
        );
    }
}

/// One of a client's tasks: takes the next request, and the next, until there are none. It starts at the first of
/// two times, and an open loop counts from the second.
///
/// In a closed loop a request begins when the one before it has ended, and not when the task has the CPU: however a
/// design shares the CPU among its tasks, the latencies of a task fill its time. Every task gives the CPU up once
/// for each request, so that hits wait for their turn in one design as in another; in virtual time the CPUs that
/// are behind catch up meanwhile.
///
/// A request that may not be made yet begins when it may: what a thread pauses of itself is in no latency.
///
/// A task has one slot; or all of them, if requests are served in turn. Then it goes through them over and over, and a
/// request begins when the one before it in its slot has ended: as many requests ago as there are slots.
async fn replay<C: Client>(
    state: Rc<State<C>>,
    request_queue: usize,
    (start_ns, open_start_ns): (u64, u64),
) {
    let (request_queue, mut scratch) = (&state.request_queues[request_queue], Scratch::default());
    let mut slots = vec![start_ns; (state.run.depth / state.run.tasks) as usize];
    let (mut turn, mut paused_ns) = (0, 0);
    loop {
        state.cpu.yield_now().await;
        if state.run.is_ending() || state.cpu.now() >= state.deadline_ns {
            break;
        }
        let Some(taken) = request_queue.take(&state.cpu, &state.run, &state.client) else {
            break;
        };
        let (request, due_ns) = (&taken.request, open_start_ns + taken.due_ns);
        let mut began_ns = slots[turn];
        if began_ns < due_ns {
            if due_ns >= state.deadline_ns || !sleep_until(&state, due_ns).await {
                break;
            }
            began_ns = state.cpu.now();
            paused_ns += u128::from(began_ns - slots[turn]);
        }
        if let Some(speed) = state.run.speed {
            let due_ns = open_start_ns + (request.time_ns as f64 / speed) as u64;
            if !sleep_until(&state, due_ns).await {
                break;
            }
            began_ns = state.cpu.now();
            let late_ns = began_ns.saturating_sub(due_ns);
            let mut account = state.account.borrow_mut();
            account.drift_sum_ns += late_ns;
            account.drift_max_ns = account.drift_max_ns.max(late_ns);
        }
        match serve(&state, &taken, began_ns, &mut scratch).await {
            Ok(ended_ns) => slots[turn] = ended_ns,
            Err(error) => {
                state.run.fail(error);
                state.cpu.halt();
                break;
            }
        }
        turn = (turn + 1) % slots.len();
    }
    let used_ns = slots.iter().map(|end_ns| u128::from(end_ns - start_ns));
    state.account.borrow_mut().slots_ns += used_ns.sum::<u128>() - paused_ns;
    finish(&state).await;
}

/// Waits until a request is due; false if the run was stopped meanwhile.
async fn sleep_until<C: Client>(state: &State<C>, due_ns: u64) -> bool {
    loop {
        if state.run.is_ending() {
            return false;
        }
        let now_ns = state.cpu.now();
        if now_ns >= due_ns {
            return true;
        }
        // Virtual time passes in no time.
        let slice_ns = if state.cpu.is_virtual() {
            u64::MAX
        } else {
            SLEEP_NS_MAX
        };
        state
            .cpu
            .sleep_until(due_ns.min(now_ns.saturating_add(slice_ns)))
            .await;
    }
}

/// Buffers of a task, reused.
#[derive(Default)]
struct Scratch {
    data: Vec<u8>,
    snapshot: Snapshot,
    ticket: Ticket,
}

/// Serves a request that began at `began_ns`; gives when it ended.
async fn serve<C: Client>(
    state: &State<C>,
    taken: &Taken,
    began_ns: u64,
    scratch: &mut Scratch,
) -> Result<u64, RunError> {
    let (run, cpu, request) = (&*state.run, &state.cpu, &taken.request);
    let (offset, bytes) = (request.offset, u64::from(request.bytes));
    if request.op.moves_data() {
        let data_bytes = run.checker.buffer_bytes(offset, bytes);
        scratch.data.resize(data_bytes, 0);
    }
    cpu.work(Op::ClientRequest, || ());
    let extent = Extent::new(offset, bytes);
    let failed = |source| RunError::Io {
        design: run.design.clone(),
        request: taken.number,
        source,
    };
    let touch = match request.op {
        RequestOp::Read => {
            if run.plan.checked {
                run.checker.begin_read(offset, bytes, &mut scratch.snapshot);
            }
            let touch = state
                .client
                .read(extent, &mut scratch.data)
                .await
                .map_err(failed)?;
            if run.plan.checked {
                let checked = run
                    .checker
                    .end_read(offset, bytes, &scratch.data, &scratch.snapshot);
                checked.map_err(|source| RunError::WrongRead {
                    design: run.design.clone(),
                    request: taken.number,
                    source,
                })?;
            }
            touch
        }
        RequestOp::Write => {
            if run.plan.checked {
                run.checker
                    .begin_write(offset, bytes, &mut scratch.data, &mut scratch.ticket);
            }
            let touch = state
                .client
                .write(extent, &scratch.data)
                .await
                .map_err(failed)?;
            if run.plan.checked {
                run.checker.end_write(offset, bytes, &scratch.ticket);
            }
            touch
        }
        RequestOp::Flush => {
            state.client.flush_extent(extent).await.map_err(failed)?;
            Touch::default()
        }
        RequestOp::Discard => {
            if run.plan.checked {
                run.checker
                    .begin_discard(offset, bytes, &mut scratch.ticket);
            }
            state.client.discard(extent).await.map_err(failed)?;
            if run.plan.checked {
                run.checker.end_discard(offset, bytes, &scratch.ticket);
            }
            Touch::default()
        }
    };
    let now_ns = cpu.now();
    let latency_ns = now_ns - began_ns;
    let account = &mut *state.account.borrow_mut();
    match request.op {
        RequestOp::Read => {
            account.verified += u64::from(run.plan.checked);
            account.reads.record(latency_ns);
        }
        RequestOp::Write => account.writes.record(latency_ns),
        RequestOp::Flush => account.flushes.record(latency_ns),
        RequestOp::Discard => account.discards.record(latency_ns),
    }
    if touch.hits < touch.pages && run.collection.any_since(began_ns) {
        account.affected.record(latency_ns);
    }
    let counts = request.op.moves_data() && now_ns <= state.deadline_ns;
    let moved_bytes = if counts { bytes } else { 0 };
    account.bytes += moved_bytes;
    account.timeline.record(
        now_ns.saturating_sub(account.start_ns),
        Completed {
            latency_ns,
            bytes: moved_bytes,
            touches: touch.pages,
            hits: touch.hits,
        },
    );
    account.end_ns = account.end_ns.max(now_ns.min(state.deadline_ns));
    cpu.progress();
    state.count(now_ns);
    Ok(now_ns)
}

/// The last task of a client hands in the account; the last client writes back what is dirty, which
/// counts for nothing any more.
async fn finish<C: Client>(state: &State<C>) {
    state.tasks_left.set(state.tasks_left.get() - 1);
    if state.tasks_left.get() > 0 {
        return;
    }
    state.tell(state.cpu.now());
    let mut account = state.account.replace(Account::new(0, state.run.cores));
    let (statistics, gauges) = &state.before;
    account.statistics = state.client.statistics().since(statistics);
    account.gauges = state.client.gauges().since(gauges);
    state
        .run
        .accounts
        .lock()
        .unwrap_or_else(|p| p.into_inner())
        .push(account);
    let sent = state.done.borrow_mut().push(&state.cpu, state.index);
    assert!(sent.is_ok(), "one message fits");
}
