//! What a thread has of a page cache: a CPU of its own to run the cache's tasks on, free frames, channels to
//! files.
//!
//! A thread takes a *context* when it first uses a cache and leaves it when it ends. Its tasks run only while it
//! waits within a call, and **no transfer outlives the call that began it**: so nobody ever waits for a thread
//! that is doing something else. What is to go on meanwhile is left to the cache's own thread (`background.rs`), which
//! has the last context.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wharf_host::design::Touch;
use wharf_host::error::IoError;
use wharf_host::kit::concurrent::Concurrent;
use wharf_host::scale::local::Local;
use wharf_host::scale::shared::Shared;
use wharf_runtime::clock::Clock;
use wharf_runtime::sync::{AtomicBool, AtomicU64, Ordering};
use wharf_runtime::{CostTable, CpuId, Inline, Machine, Side};

use crate::channels::Channels;
use crate::error::PageCacheError;
use crate::table::FileTable;

/// How often a thread waits for a context, and how long each time: a second in all.
const WAITS_MAX: u32 = 5_000;
const WAIT: Duration = Duration::from_micros(200);

thread_local! {
    static CONTEXTS: RefCell<Vec<Rc<ThreadContext>>> = const { RefCell::new(Vec::new()) };
}

/// A page cache, as all threads and files share it.
pub(super) struct Core {
    pub shared: Arc<Shared<Concurrent>>,
    pub table: Arc<FileTable>,
    /// Nobody has a handle of it any more.
    pub closed: AtomicBool,
    pub depth: u32,
    /// What time it is for all contexts.
    clock: Clock,
    free: Mutex<Vec<u32>>,
    /// One for each thread, and the service's.
    pub counters: Box<[Counters]>,
}

impl Core {
    pub fn new(shared: Shared<Concurrent>, files: u32, threads: u32, depth: u32) -> Core {
        Core {
            shared: Arc::new(shared),
            table: Arc::new(FileTable::new(files)),
            closed: AtomicBool::new(false),
            depth,
            clock: Clock::start(),
            free: Mutex::new((0..threads).rev().collect()),
            counters: (0..=threads).map(|_| Counters::default()).collect(),
        }
    }

    /// Threads that may use the cache at a time.
    fn threads_max(&self) -> u32 {
        self.counters.len() as u32 - 1
    }

    /// A free context. Threads that have ended, and been joined, may take a moment to leave theirs.
    fn context(&self) -> Result<u32, PageCacheError> {
        for _ in 0..WAITS_MAX {
            if let Some(number) = self.free().pop() {
                return Ok(number);
            }
            std::thread::park_timeout(WAIT);
        }
        Err(PageCacheError::NoThreadLeft {
            threads_max: self.threads_max(),
        })
    }

    fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one context did, written by its thread alone and read by all.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Counters {
    pub reads: Count,
    pub writes: Count,
    pub syncs: Count,
    pub pages: Count,
    pub hits: Count,
    pub read_ahead_hits: Count,
    pub evictions: Count,
    pub write_backs: Count,
}

/// A number that one thread adds to.
#[derive(Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    #[inline(always)]
    pub fn add(&self, n: u64) {
        // Relaxed, and no read-modify-write: nobody else writes it.
        self.0
            .store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// See the module.
pub(super) struct ThreadContext {
    // The order of the fields is the order of their end.
    pub local: Rc<Local<Concurrent, Channels>>,
    pub channels: Rc<Channels>,
    inline: Inline,
    cpu: CpuId,
    core: Arc<Core>,
    number: u32,
    /// Evictions and write-backs that the counters have.
    told: Cell<(u64, u64)>,
}

impl ThreadContext {
    /// The context of the cache's own thread.
    pub fn of_service(core: &Arc<Core>) -> ThreadContext {
        ThreadContext::with_number(core, core.threads_max())
    }

    fn with_number(core: &Arc<Core>, number: u32) -> ThreadContext {
        let mut machine = Machine::new(CostTable::free(), false);
        let cpu = machine.add_cpu("thread", Side::Host, 1.0);
        let inline = machine.inline_by(core.clock);
        inline.may_park();
        let (channels, local) = inline.block_on(cpu, |cpu| async move {
            let channels = Channels::start(&cpu, core.table.clone(), core.depth);
            let local = Local::start(&cpu, core.shared.clone(), channels.clone(), number);
            (channels, local)
        });
        ThreadContext {
            local,
            channels,
            inline,
            cpu,
            core: core.clone(),
            number,
            told: Cell::default(),
        }
    }

    #[inline(always)]
    pub fn counters(&self) -> &Counters {
        &self.core.counters[self.number as usize]
    }

    /// Notes a request that was served.
    #[inline]
    pub fn note(&self, touch: Touch) {
        let counters = self.counters();
        counters.pages.add(touch.pages);
        counters.hits.add(touch.hits);
        if touch.read_ahead_hits > 0 {
            counters.read_ahead_hits.add(touch.read_ahead_hits);
        }
    }

    /// Runs this thread's tasks until `future` is done, and with it every transfer that it began.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.run(async {
            let value = future.await;
            self.local.land().await;
            value
        })
    }

    /// Runs this thread's tasks until `future` is done. What it began goes on only while the thread runs tasks.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.channels.begin_turn();
        let value = self.inline.block_on(self.cpu, |_| future);
        self.tell();
        value
    }

    /// Counts what was done, for all to see.
    pub fn tell(&self) {
        let statistics = self.local.statistics();
        let now = (statistics.evictions, statistics.write_backs);
        let told = self.told.replace(now);
        self.counters().evictions.add(now.0 - told.0);
        self.counters().write_backs.add(now.1 - told.1);
    }

    /// As [`ThreadContext::wait`], for a request on the file `name`.
    pub fn serve<T>(
        &self,
        name: &str,
        future: impl Future<Output = Result<T, IoError>>,
    ) -> Result<T, PageCacheError> {
        self.wait(future).map_err(|source| PageCacheError::Io {
            name: name.into(),
            source,
        })
    }
}

impl Drop for ThreadContext {
    fn drop(&mut self) {
        self.local.retire();
        if self.number < self.core.threads_max() {
            self.core.free().push(self.number);
        }
    }
}

/// Does `f` with the calling thread's context.
#[inline]
pub(super) fn with_context<R>(
    core: &Arc<Core>,
    f: impl FnOnce(&Rc<ThreadContext>) -> R,
) -> Result<R, PageCacheError> {
    let is_ours = |context: &&Rc<ThreadContext>| Arc::ptr_eq(&context.core, core);
    let found = CONTEXTS.try_with(|contexts| contexts.borrow().iter().find(is_ours).cloned());
    match found {
        Ok(Some(context)) => Ok(f(&context)),
        _ => Ok(f(&attach(core, core.context()?))),
    }
}

/// As [`with_context`], without a wait: nothing if the thread has no context, and none is free.
#[cfg(feature = "tokio")]
pub(super) fn with_context_now<R>(
    core: &Arc<Core>,
    f: impl FnOnce(&Rc<ThreadContext>) -> R,
) -> Option<R> {
    let is_ours = |context: &&Rc<ThreadContext>| Arc::ptr_eq(&context.core, core);
    let found = CONTEXTS.try_with(|contexts| contexts.borrow().iter().find(is_ours).cloned());
    match found {
        Ok(Some(context)) => Some(f(&context)),
        _ => {
            let number = core.free().pop()?;
            Some(f(&attach(core, number)))
        }
    }
}

/// Gives the thread a context, and leaves those of caches that are gone. A thread that is ending has it for this once.
#[cold]
fn attach(core: &Arc<Core>, number: u32) -> Rc<ThreadContext> {
    let context = Rc::new(ThreadContext::with_number(core, number));
    let _ = CONTEXTS.try_with(|contexts| {
        let mut contexts = contexts.borrow_mut();
        contexts.retain(|context| !context.core.closed.load(Ordering::Relaxed));
        contexts.push(context.clone());
    });
    context
}

/// Leaves the calling thread's contexts of caches that are gone.
pub(super) fn detach() {
    let _ = CONTEXTS.try_with(|contexts| {
        if let Ok(mut contexts) = contexts.try_borrow_mut() {
            contexts.retain(|context| !context.core.closed.load(Ordering::Relaxed));
        }
    });
}
