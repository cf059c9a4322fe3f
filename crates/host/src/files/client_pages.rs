//! The pages below a file system that runs on the host: a block client of the CPU that asks.
//!
//! A file system is one for all clients, and each of their CPUs has a block client of its own. So
//! its pages are not any one's: whoever polls an operation (`wharf_runtime::here`) is asked for
//! theirs, which its thread keeps.
//!
//! Metadata and bytes of files may go by different clients: with direct I/O the former are cached,
//! and the latter are not ([`BlocksBelow`]).

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wharf_files::pages::{PAGE_BYTES, Pages, Run};
use wharf_files::{Fault, In, Out};
use wharf_runtime::with_here;

use crate::design::client::Client;
use crate::design::{Statistics, Touch};
use crate::error::IoError;
use crate::span::Extent;

thread_local! {
    /// Block clients of this thread's CPUs, by file system and CPU.
    static CLIENTS: RefCell<BTreeMap<(u64, u32), Rc<dyn Any>>> = const { RefCell::new(BTreeMap::new()) };
}

/// File systems that have been made, in all threads: each has a number.
static MADE: AtomicU64 = AtomicU64::new(0);

/// What a CPU has below a file system: a block client for metadata, and a way for bytes of files.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait BlocksBelow: 'static {
    /// The client.
    type Metadata: Client;

    /// For metadata, and to flush and forget what either way has written.
    fn metadata(&self) -> &Self::Metadata;

    /// Reads bytes of files.
    ///
    /// # Errors
    /// As [`Client::read`].
    async fn read_data(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError>;

    /// Writes bytes of files.
    ///
    /// # Errors
    /// As [`Client::write`].
    async fn write_data(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError>;

    /// What all of it did.
    fn statistics(&self) -> Statistics;
}

impl<C: Client> BlocksBelow for C {
    type Metadata = C;

    fn metadata(&self) -> &C {
        self
    }

    async fn read_data(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        self.read(extent, out).await
    }

    async fn write_data(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        self.write(extent, data).await
    }

    fn statistics(&self) -> Statistics {
        Client::statistics(self)
    }
}

/// What is read or written.
#[derive(Clone, Copy)]
enum What {
    Metadata,
    Data,
}

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

impl<C: BlocksBelow> ClientPages<C> {
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

    /// Reads the pages of runs as if they were side by side, from byte `skip` on.
    async fn read_as(
        &self,
        what: What,
        runs: &[Run],
        skip: u64,
        out: &mut [u8],
    ) -> Result<(), Fault> {
        let (below, mut skip, mut rest) = (self.below(), skip, out);
        for run in runs {
            let fault = |()| Fault::Read { page: run.first };
            let whole = self.extent(*run).ok_or(()).map_err(fault)?;
            let left_out = skip.min(whole.bytes);
            skip -= left_out;
            let bytes = (whole.bytes - left_out).min(rest.len() as u64);
            if bytes == 0 {
                continue;
            }
            let extent = Extent::new(whole.offset + left_out, bytes);
            let (part, behind) = rest.split_at_mut(bytes as usize);
            let read = match what {
                What::Metadata => below.client.metadata().read(extent, part).await,
                What::Data => below.client.read_data(extent, part).await,
            };
            below.ended(read).map_err(fault)?;
            rest = behind;
        }
        Ok(())
    }

    async fn write_as(&self, what: What, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        let (below, mut rest) = (self.below(), bytes);
        for run in runs {
            let fault = |()| Fault::Write { page: run.first };
            let extent = self.extent(*run).ok_or(()).map_err(fault)?;
            let (data, behind) = rest.split_at(extent.bytes as usize);
            let written = match what {
                What::Metadata => below.client.metadata().write(extent, data).await,
                What::Data => below.client.write_data(extent, data).await,
            };
            below.ended(written).map_err(fault)?;
            rest = behind;
        }
        Ok(())
    }

    fn extent(&self, run: Run) -> Option<Extent> {
        let page = PAGE_BYTES as u64;
        (run.end() <= self.pages).then(|| Extent {
            offset: run.first * page,
            bytes: run.pages * page,
        })
    }
}

impl<C: BlocksBelow> Pages for ClientPages<C> {
    fn pages(&self) -> u64 {
        self.pages
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        self.read_as(What::Metadata, runs, 0, buffer).await
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        self.write_as(What::Metadata, runs, bytes).await
    }

    async fn read_bytes(&self, runs: &[Run], skip: u64, out: Out<'_>) -> Result<(), Fault> {
        self.read_as(What::Data, runs, skip, out.memory()?).await
    }

    async fn write_bytes(&self, runs: &[Run], data: In<'_>) -> Result<(), Fault> {
        self.write_as(What::Data, runs, data.memory()?).await
    }

    async fn flush(&self) -> Result<(), Fault> {
        let below = self.below();
        let flushed = below.client.metadata().flush().await;
        let flushed = below.ended(flushed.map(|()| Touch::default()));
        flushed.map_err(|()| Fault::Flush)
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        let below = self.below();
        for run in runs {
            let fault = |()| Fault::Write { page: run.first };
            let extent = self.extent(*run).ok_or(()).map_err(fault)?;
            let discarded = below.client.metadata().discard(extent).await;
            below
                .ended(discarded.map(|()| Touch::default()))
                .map_err(fault)?;
        }
        Ok(())
    }
}
