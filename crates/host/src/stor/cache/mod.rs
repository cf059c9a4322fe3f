//! The cache of a process before the commands for files (StorStack, section 3.3).
//!
//! Problem: every operation that is a command waits for the drive, also one that reads what was read a moment ago.
//!
//! Idea: pages of files are kept in the process's own memory, where no other process can spoil them. It is the page cache of
//! [`scale`](crate::scale) with other storage below: frames, index, replacement, write-back and reading ahead are the same;
//! the pages of a file come and go by commands for that file.
//!
//! 1. A read that finds its pages is an ordinary function: no task, no command, no lock. Otherwise it enters the
//!    file's gate beside others, and reads what is missing, and some pages more if it reads in order.
//! 2. A write copies into pages, which are dirty then. Only a page that the drive has, and of which it writes a part, is read
//!    first. Writes that make the file longer, and what takes pages away, are alone in the file.
//! 3. Dirty pages go to the drive in runs of as many as one command takes: when too many are dirty, when their frame is
//!    needed, and at `fsync`, which then has the drive make them durable. Nothing is lost by closing a file.
//! 4. A write-back that fails leaves its page dirty, and every open file of that file hears of it once, at its next `fsync`.
//!
//! The cache belongs to a *process*: clients that are its threads share it. Nothing keeps it in step with those of other
//! processes: what others write to a file that is in the cache is not seen, as in the paper.
//!
//! Times of a file are those of what reached the drive: a dirty page is a change that the drive has not seen yet, and reading
//! a page that is in the cache is none. Room is looked for when pages are written back, so that `fsync` may say that there is none.
//!
//! | file | idea |
//! |---|---|
//! | `node.rs` | a file: its ends, its gate, the drive's open file by which its pages come and go |
//! | `table.rs` | which files have a place in the cache |
//! | `backing.rs` | pages of a file as commands |
//! | `open.rs` | opening and closing |
//! | `data.rs` | reading and writing |
//! | `change.rs` | sizes, holes, making durable |
//! | `client.rs` | all of it as whoever is given any file client has it |

mod backing;
mod change;
mod client;
mod data;
mod node;
mod open;
mod table;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_files::{Errno, Handle};
use wharf_runtime::rw_gate::{Entry, Visitor};
use wharf_runtime::{Cpu, Lock, Op};
use wharf_wire::dma::{DmaSpace, RegisterError};

use super::{StorClient, StorConfig};
use crate::design::{DesignConfig, DesignError, Reclaim, Replacement};
use crate::dflush::{Balance, SHARE_PAGES};
use crate::kit::concurrent::Concurrent;
use crate::scale::local::Local;
use crate::scale::shared::{Shape, Shared};
use backing::FilesOfDrive;
use node::Node;
use open::OpenFile;
use table::Table;

/// What becomes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMode {
    /// There is no cache.
    #[default]
    None,
    /// It stays in the cache until its page is written back.
    WriteBack,
    /// It goes to the drive, and the cache forgets the pages that it touches.
    WriteAround,
    /// It goes to the cache and to the drive.
    WriteThrough,
}

impl CacheMode {
    /// Whether there is a cache.
    pub fn is_some(self) -> bool {
        self != CacheMode::None
    }
}

/// The cache of a process, which its threads share.
pub(super) struct Process {
    mode: CacheMode,
    shared: Arc<Shared<Concurrent>>,
    nodes: Box<[Node]>,
    table: Lock<Table>,
}

impl Process {
    /// A cache for a process of so many threads, with its share of the memory of all.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn new(
        design: &'static str,
        config: &DesignConfig,
        own: &StorConfig,
        space: &Arc<DmaSpace>,
    ) -> Result<Process, DesignError> {
        let processes = config.clients.div_ceil(own.threads).max(1);
        let share = DesignConfig {
            cache_bytes: config.cache_bytes / u64::from(processes),
            clients: own.threads.min(config.clients),
            guests: 0,
            in_kernel: false,
            ..*config
        };
        let shape = Shape {
            frames: share.frames(design)?,
            files: own.cache_files,
            balance: Balance::Flush,
            replacement: Replacement::Clock,
            reclaim: Reclaim::Eager,
            has_flusher: true,
            has_read_ahead_thread: false,
            window_pages: own.read_ahead_pages.into(),
            share_pages: SHARE_PAGES.into(),
        };
        let memory = |source: RegisterError| DesignError::Memory { design, source };
        Ok(Process {
            mode: own.cache,
            shared: Arc::new(Shared::new(&share, &shape, space).map_err(memory)?),
            nodes: (0..own.cache_files).map(|_| Node::default()).collect(),
            table: Lock::new(Table::new(own.cache_files)),
        })
    }

    fn node(&self, slot: u32) -> &Node {
        &self.nodes[slot as usize]
    }
}

/// What a handle stands for.
#[derive(Clone)]
enum Open {
    /// A file of the cache.
    File(Rc<OpenFile>),
    /// What the cache keeps nothing of.
    Other(Handle),
}

impl Open {
    fn handle(&self) -> Handle {
        match self {
            Open::File(file) => file.handle,
            Open::Other(handle) => *handle,
        }
    }
}

/// A thread's part of the cache of its process.
pub(super) struct Cached {
    client: StorClient,
    process: Arc<Process>,
    local: Rc<Local<Concurrent, FilesOfDrive>>,
    /// Which thread it is.
    thread: u32,
    /// What it has open, by the place of the drive's handle. The drive may have files open that are closed here.
    opened: RefCell<Vec<Option<Open>>>,
}

impl Cached {
    /// The part of thread number `thread`. The first one's CPU writes back in the background.
    fn start(client: &StorClient, process: &Arc<Process>, thread: u32) -> Cached {
        let (cpu, shared) = (&client.inner.cpu, &process.shared);
        let backing = FilesOfDrive {
            client: client.clone(),
            process: process.clone(),
        };
        let backing = Rc::new(backing);
        if thread == 0 {
            let service = shared.common.clients;
            let service = Local::start(cpu, shared.clone(), backing.clone(), service);
            cpu.spawn("stor flusher", service.flush_in_background());
        }
        Cached {
            client: client.clone(),
            process: process.clone(),
            local: Local::start(cpu, shared.clone(), backing, thread),
            thread,
            opened: RefCell::default(),
        }
    }

    fn cpu(&self) -> &Cpu {
        &self.client.inner.cpu
    }

    fn visitor(&self) -> Visitor<'_> {
        Visitor {
            cpu: self.cpu(),
            mailboxes: &self.process.shared.common.mailboxes,
            client: self.thread,
        }
    }

    fn node(&self, slot: u32) -> &Node {
        self.process.node(slot)
    }

    /// Looks at the table of files, or changes it.
    fn with_table<R>(&self, f: impl FnOnce(&mut Table) -> R) -> R {
        self.cpu().work(Op::MetadataLookup, || ());
        self.process.table.with(self.cpu(), f)
    }

    /// Goes into a file, and says whether it had to wait.
    async fn enter(&self, slot: u32, entry: Entry) {
        let visitor = self.visitor();
        let gate = &self.node(slot).gate;
        let (_, waited) = gate.enter(&visitor, entry, |_| ()).await;
        self.local.counters().waits.add(u64::from(waited));
    }

    fn leave(&self, slot: u32, entry: Entry) {
        self.node(slot).gate.leave(&self.visitor(), entry, |_| ());
    }

    /// What a handle stands for.
    #[inline]
    fn find(&self, handle: Handle) -> Result<Open, Errno> {
        self.cpu().work(Op::HandleLookup, || {
            let opened = self.opened.borrow();
            let found = opened.get(handle.index as usize).and_then(Option::as_ref);
            let found = found.filter(|open| open.handle() == handle);
            found.cloned().ok_or(Errno::EBADF)
        })
    }

    /// The open file of a handle, if it is of a file of the cache.
    #[inline]
    fn find_file(&self, handle: Handle) -> Option<Rc<OpenFile>> {
        match self.find(handle) {
            Ok(Open::File(file)) => Some(file),
            _ => None,
        }
    }

    /// Notes what a handle stands for.
    fn note_open(&self, open: Open) {
        let mut all = self.opened.borrow_mut();
        let index = open.handle().index as usize;
        if all.len() <= index {
            all.resize(index + 1, None);
        }
        all[index] = Some(open);
    }

    /// A handle stands for nothing any more.
    fn note_closed(&self, handle: Handle) {
        self.opened.borrow_mut()[handle.index as usize] = None;
    }
}

/// Files of a file system in the drive, with a cache before them or none.
pub struct StorFiles {
    client: StorClient,
    cached: Option<Cached>,
}

impl StorFiles {
    /// Files without a cache.
    pub fn uncached(client: StorClient) -> StorFiles {
        StorFiles {
            client,
            cached: None,
        }
    }

    /// Files with the cache of a process, for its thread number `thread`.
    pub(super) fn cached(client: StorClient, process: &Arc<Process>, thread: u32) -> StorFiles {
        let cached = Cached::start(&client, process, thread);
        StorFiles {
            client,
            cached: Some(cached),
        }
    }

    /// The client that sends the commands.
    pub fn client(&self) -> &StorClient {
        &self.client
    }
}
