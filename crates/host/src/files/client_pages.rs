//! The pages below a file system that runs on the host: a block client of the CPU that asks.
//!
//! A file system is one for all clients, and each of their CPUs has a block client of its own. So
//! its pages are not any one's: whoever polls an operation (`wharf_runtime::here`) is asked for
//! theirs, which its thread keeps.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wharf_files::Fault;
use wharf_files::pages::{PAGE_BYTES, Pages, Run};
use wharf_runtime::with_here;

use crate::design::Touch;
use crate::design::client::Client;
use crate::error::IoError;
use crate::span::Extent;

thread_local! {
    /// Block clients of this thread's CPUs, by file system and CPU.
    static CLIENTS: RefCell<BTreeMap<(u64, u32), Rc<dyn Any>>> = const { RefCell::new(BTreeMap::new()) };
}

/// File systems that have been made, in all threads: each has a number.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A block client, what it has touched, and why it failed last.
pub struct Below<C> {
    /// The client.
    pub client: C,
    touch: Cell<Touch>,
    failure: Cell<Option<IoError>>,
}

impl<C> Below<C> {
    /// What was touched since this was asked last.
    pub fn take_touch(&self) -> Touch {
        self.touch.take()
    }

    /// Why a request failed, if one did since this was asked last.
    pub fn take_failure(&self) -> Option<IoError> {
        self.failure.take()
    }

    fn ended(&self, result: Result<Touch, IoError>) -> Result<(), ()> {
        match result {
            Ok(more) => {
                let mut touch = self.touch.get();
                touch += more;
                self.touch.set(touch);
                Ok(())
            }
            Err(error) => {
                self.failure.set(Some(error));
                Err(())
            }
        }
    }
}

/// The pages of a volume, by the block client (`C`) of whoever asks.
pub struct ClientPages<C> {
    number: u64,
    pages: u64,
    client: PhantomData<fn() -> C>,
}

/// A CPU's block client is known as long as this is there.
pub struct Known<C> {
    key: (u64, u32),
    /// The client.
    pub below: Rc<Below<C>>,
}

impl<C> Drop for Known<C> {
    fn drop(&mut self) {
        // At the end of a thread what it knew may be gone already.
        let _ = CLIENTS.try_with(|clients| clients.borrow_mut().remove(&self.key));
    }
}

impl<C: Client> ClientPages<C> {
    /// Those of a volume of `pages` pages. Nobody can use them before it is [known](ClientPages::know).
    pub fn new(pages: u64) -> ClientPages<C> {
        ClientPages {
            // Relaxed: numbers are different, whatever their order.
            number: MADE.fetch_add(1, Relaxed),
            pages,
            client: PhantomData,
        }
    }

    /// The CPU number `cpu` of this thread asks `client`.
    pub fn know(&self, cpu: u32, client: C) -> Known<C> {
        let below = Rc::new(Below {
            client,
            touch: Cell::default(),
            failure: Cell::default(),
        });
        let key = (self.number, cpu);
        CLIENTS.with(|clients| clients.borrow_mut().insert(key, below.clone()));
        Known { key, below }
    }

    /// The client of the CPU that polls this.
    ///
    /// # Panics
    /// If that CPU has none, which is a mistake of whoever runs the file system.
    fn below(&self) -> Rc<Below<C>> {
        let cpu = with_here(|cpu| cpu.map(wharf_runtime::Cpu::index));
        let key = (self.number, cpu.expect("a file system runs on a CPU"));
        let found = CLIENTS.with(|clients| clients.borrow().get(&key).cloned());
        let found = found.and_then(|below| below.downcast().ok());
        found.expect("the CPU has a client of this file system")
    }

    fn extent(&self, run: Run) -> Option<Extent> {
        let page = PAGE_BYTES as u64;
        (run.end() <= self.pages).then(|| Extent {
            offset: run.first * page,
            bytes: run.pages * page,
        })
    }
}

impl<C: Client> Pages for ClientPages<C> {
    fn pages(&self) -> u64 {
        self.pages
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        let (below, mut rest) = (self.below(), buffer);
        for run in runs {
            let fault = |()| Fault::Read { page: run.first };
            let extent = self.extent(*run).ok_or(()).map_err(fault)?;
            let (out, behind) = rest.split_at_mut(extent.bytes as usize);
            below
                .ended(below.client.read(extent, out).await)
                .map_err(fault)?;
            rest = behind;
        }
        Ok(())
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        let (below, mut rest) = (self.below(), bytes);
        for run in runs {
            let fault = |()| Fault::Write { page: run.first };
            let extent = self.extent(*run).ok_or(()).map_err(fault)?;
            let (data, behind) = rest.split_at(extent.bytes as usize);
            below
                .ended(below.client.write(extent, data).await)
                .map_err(fault)?;
            rest = behind;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), Fault> {
        let below = self.below();
        let flushed = below.client.flush().await;
        let flushed = below.ended(flushed.map(|()| Touch::default()));
        flushed.map_err(|()| Fault::Flush)
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        let below = self.below();
        for run in runs {
            let fault = |()| Fault::Write { page: run.first };
            let extent = self.extent(*run).ok_or(()).map_err(fault)?;
            let discarded = below.client.discard(extent).await;
            below
                .ended(discarded.map(|()| Touch::default()))
                .map_err(fault)?;
        }
        Ok(())
    }
}
