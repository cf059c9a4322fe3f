//! A thread's part of the cache of its process: its pages, and what it has open.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use wharf_files::{Errno, Handle};
use wharf_runtime::rw_gate::{Entry, Visitor};
use wharf_runtime::{Cpu, Op};

use super::backing::FilesOfDrive;
use super::compute::Model;
use super::node::Node;
use super::opened::{Open, OpenFile};
use super::process::Process;
use super::table::Table;
use crate::kit::concurrent::Concurrent;
use crate::scale::local::Local;
use crate::stor::StorClient;

/// A thread's part of the cache of its process.
pub(super) struct Cached {
    /// For tasks that go on when a request has ended.
    pub(super) this: Weak<Cached>,
    pub(super) client: StorClient,
    pub(super) process: Arc<Process>,
    pub(super) local: Rc<Local<Concurrent, FilesOfDrive>>,
    /// Which thread it is.
    pub(super) thread: u32,
    /// Which side is to compute.
    pub(super) model: RefCell<Model>,
    /// The same of searches for the nearest, which take another time.
    pub(super) nearest_model: RefCell<Model>,
    /// Pages that it has locked.
    locks: Cell<u64>,
    /// What it has open, by the place of the drive's handle. The drive may have files open that are closed here.
    opened: RefCell<Vec<Option<Open>>>,
}

impl Cached {
    /// The part of thread number `thread`. The first one's CPU writes back in the background.
    pub(super) fn start(client: &StorClient, process: &Arc<Process>, thread: u32) -> Rc<Cached> {
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
        Rc::new_cyclic(|this| Cached {
            this: this.clone(),
            client: client.clone(),
            process: process.clone(),
            local: Local::start(cpu, shared.clone(), backing, thread),
            thread,
            model: RefCell::default(),
            nearest_model: RefCell::default(),
            locks: Cell::new(0),
            opened: RefCell::default(),
        })
    }

    pub(super) fn cpu(&self) -> &Cpu {
        &self.client.inner.cpu
    }

    /// A number that no other lock of pages has.
    pub(super) fn next_lock(&self) -> u64 {
        /// Locks of a thread before its numbers begin anew.
        const LOCKS: u64 = 1 << 40;
        let next = self.locks.get();
        self.locks.set((next + 1) % LOCKS);
        u64::from(self.thread) * LOCKS + next
    }

    fn visitor(&self) -> Visitor<'_> {
        Visitor {
            cpu: self.cpu(),
            mailboxes: &self.process.shared.common.mailboxes,
            client: self.thread,
        }
    }

    pub(super) fn node(&self, slot: u32) -> &Node {
        self.process.node(slot)
    }

    /// Looks at the table of files, or changes it.
    pub(super) fn with_table<R>(&self, f: impl FnOnce(&mut Table) -> R) -> R {
        self.cpu().work(Op::MetadataLookup, || ());
        self.process.table.with(self.cpu(), f)
    }

    /// Goes into a file, and says whether it had to wait.
    pub(super) async fn enter(&self, slot: u32, entry: Entry) {
        let visitor = self.visitor();
        let gate = &self.node(slot).gate;
        let (_, waited) = gate.enter(&visitor, entry, |_| ()).await;
        self.local.counters().waits.add(u64::from(waited));
    }

    pub(super) fn leave(&self, slot: u32, entry: Entry) {
        self.node(slot).gate.leave(&self.visitor(), entry, |_| ());
    }

    /// What a handle stands for.
    #[inline]
    pub(super) fn find(&self, handle: Handle) -> Result<Open, Errno> {
        self.cpu().work(Op::HandleLookup, || {
            let opened = self.opened.borrow();
            let found = opened.get(handle.index as usize).and_then(Option::as_ref);
            let found = found.filter(|open| open.handle() == handle);
            found.cloned().ok_or(Errno::EBADF)
        })
    }

    /// The open file of a handle, if it is of a file of the cache.
    #[inline]
    pub(super) fn find_file(&self, handle: Handle) -> Option<Rc<OpenFile>> {
        match self.find(handle) {
            Ok(Open::File(file)) => Some(file),
            _ => None,
        }
    }

    /// Notes what a handle stands for.
    pub(super) fn note_open(&self, open: Open) {
        let mut all = self.opened.borrow_mut();
        let index = open.handle().index as usize;
        if all.len() <= index {
            all.resize(index + 1, None);
        }
        all[index] = Some(open);
    }

    /// A handle stands for nothing any more.
    pub(super) fn note_closed(&self, handle: Handle) {
        self.opened.borrow_mut()[handle.index as usize] = None;
    }
}
