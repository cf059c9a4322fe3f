//! What one thread of a program uses of a store.

use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use wharf_host::boot::Ready;
use wharf_host::design::{Client as DesignClient, Design, Statistics};
use wharf_host::direct::Direct;
use wharf_host::error::IoError;
use wharf_host::guest::SharedDesign;
use wharf_host::span::Extent;
use wharf_host::stor::{Credentials, Stor, StorClient};
use wharf_runtime::clock::Clock;
use wharf_runtime::{CostTable, CpuId, Inline, Machine, Side};
use wharf_wire::dma::{DmaRegion, DmaSpace};
use wharf_wire::file::{DriveKey, FileSystemLog};
use wharf_wire::identify::{DriveFeature, FeatureSet};

use super::attach::{self, Attached};
use super::listener::has_hung_up;
use super::system::{Booted, ClientSlot, System};
use super::turns::{Turns, Waiters, Way};
use super::{Shared, StoreError, StoreOptions};

/// Where the drives run.
enum Drives<D: Design> {
    /// On a thread that all clients share.
    Beside { _shared: Arc<Shared<D>> },
    /// On the client's thread.
    Here(Box<Local>),
    /// In another process, for as long as the connection is open.
    Elsewhere {
        connection: Arc<UnixStream>,
        /// To its first one: what is asked for files goes there.
        way: Box<Way>,
        waiters: Box<Waiters>,
        /// Who its owner says that this process is.
        credentials: Option<Credentials>,
        /// The number of its sharing.
        sharing: u32,
        features: FeatureSet,
    },
}

/// What boots drives on the client's thread, and ends them.
struct Local {
    boot_cpu: CpuId,
    booted: Booted,
}

/// One thread's way into a store. It stays on its thread.
///
/// Dropping it gives back what it holds, and tells of no errors: [`Client::close`] does.
pub struct Client<D: Design> {
    // The order of the fields is the order of their end.
    client: Option<D::Client>,
    drives: Option<Drives<D>>,
    design: Arc<D>,
    inline: Inline,
    cpu: CpuId,
    bytes: u64,
}

impl<D: Design> Client<D> {
    /// Opens a store for this client alone, with the drives on its thread.
    ///
    /// # Errors
    /// If the file cannot be used, memory is short, or the configuration is impossible.
    pub fn open_local(options: &StoreOptions) -> Result<Client<D>, StoreError> {
        let System {
            mut machine,
            design,
            space,
            mut slots,
            boot_cpu,
            boot,
            ..
        } = System::<D>::build(&options.clone().clients(1).guests(0))?;
        let cpu = machine.add_cpu("client", Side::Host, 1.0);
        let inline = machine.inline();
        let booted = inline.block_on(boot_cpu, |cpu| async move { boot.run(&cpu).await });
        let (booted, ready) = booted?;
        let slot = slots.remove(0);
        // On the machine: the client's tasks start there.
        let made = inline.block_on(cpu, |cpu| {
            let (design, space, ready) = (&design, &space, &ready);
            async move { slot.take::<D>(&cpu, design, space, ready) }
        });
        Ok(Client {
            client: Some(made?),
            design,
            drives: Some(Drives::Here(Box::new(Local { boot_cpu, booted }))),
            inline,
            cpu,
            bytes: ready.layout().pages() * 4096,
        })
    }

    /// A client of a store whose drives run beside it.
    pub(super) fn join(shared: Arc<Shared<D>>) -> Result<Client<D>, StoreError> {
        let slot = shared.slots.lock().unwrap_or_else(|p| p.into_inner()).pop();
        let slot = slot.ok_or(StoreError::NoClientLeft {
            clients: shared.clients,
        })?;
        let (design, space, ready) = (&shared.design, &shared.space, &shared.ready);
        let (inline, cpu, client) = take_slot(slot, design, space, ready)?;
        Ok(Client {
            client: Some(client),
            design: design.clone(),
            bytes: ready.layout().pages() * 4096,
            drives: Some(Drives::Beside { _shared: shared }),
            inline,
            cpu,
        })
    }

    /// A client of a store that another process owns and shares at `path`.
    ///
    /// Its share of the cache, its frames and their pages are those of the owner's store: a page that both
    /// use is in one frame. When this process ends, however it does, what it held goes back.
    ///
    /// # Errors
    /// If nobody shares a store there, or one of another design or version; if all slots for guests are
    /// taken.
    pub fn attach(path: impl AsRef<Path>) -> Result<Client<D>, StoreError>
    where
        D: SharedDesign,
    {
        let Attached {
            connection,
            design,
            space,
            ready,
            slot,
            queues,
            credentials,
            sharing,
            features,
        } = attach::attach::<D>(path.as_ref())?;
        let (inline, cpu, client) = take_slot(slot, &design, &space, &ready)?;
        Ok(Client {
            client: Some(client),
            design,
            bytes: ready.layout().pages() * 4096,
            drives: Some(Drives::Elsewhere {
                way: Box::new(Way {
                    queue: queues.into_iter().next().expect("there is a drive"),
                    connection: connection.clone(),
                    clock: Clock::start(),
                }),
                waiters: Box::default(),
                connection,
                credentials,
                sharing,
                features,
            }),
            inline,
            cpu,
        })
    }

    /// Bytes of the store.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Starts a task, which runs in [`Client::pass`] and while anybody waits.
    pub(crate) fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + 'static) {
        self.inline.cpu(self.cpu).spawn(name, future);
    }

    /// Lets everything that is ready run once; gives whether anything did.
    pub(crate) fn pass(&self) -> bool {
        self.inline.pass()
    }

    #[inline(always)]
    pub(crate) fn client(&self) -> &D::Client {
        self.client.as_ref().expect("it is there until the end")
    }

    /// Runs everything on this thread until `future` is done.
    #[inline]
    pub(crate) fn wait<F: Future>(&self, future: F) -> F::Output {
        self.inline.block_on(self.cpu, |_| future)
    }

    /// Fills `out` with what the store holds from byte `offset` on.
    ///
    /// # Errors
    /// Beyond the end; an error of the drive.
    #[inline]
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), IoError> {
        let (client, extent) = (self.client(), Extent::new(offset, out.len() as u64));
        if client.read_now(extent, out) {
            return Ok(());
        }
        self.wait(client.read(extent, out)).map(drop)
    }

    /// Writes `data` from byte `offset` on. Durable after the next flush.
    ///
    /// # Errors
    /// Beyond the end; an error of the drive.
    #[inline]
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        let (client, extent) = (self.client(), Extent::new(offset, data.len() as u64));
        if client.write_now(extent, data) {
            return Ok(());
        }
        self.wait(client.write(extent, data)).map(drop)
    }

    /// Makes durable what any client has written so far.
    ///
    /// # Errors
    /// If a page could not be written.
    pub fn flush(&self) -> Result<(), IoError> {
        self.wait(self.client().flush())
    }

    /// What this client did so far.
    pub fn statistics(&self) -> Statistics {
        self.client().statistics()
    }

    /// Ends the client: what was written is durable then. The last client of all ends the store.
    ///
    /// # Errors
    /// If a page could not be written.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.end()
    }

    fn end(&mut self) -> Result<(), StoreError> {
        let Some(client) = self.client.take() else {
            return Ok(());
        };
        let released = self.wait(client.release());
        drop(client);
        match self.drives.take() {
            Some(Drives::Here(local)) => {
                let taken = local.booted.take_memory_back();
                let taken = self.inline.block_on(local.boot_cpu, |_| taken);
                released?;
                Ok(taken?)
            }
            Some(Drives::Beside { .. } | Drives::Elsewhere { .. }) | None => Ok(released?),
        }
    }
}

impl Client<Direct> {
    /// Deallocates ranges of pages, each its first page and their number: they read as zeros then.
    pub(crate) fn deallocate(&self, ranges: &[(u64, u64)]) -> Result<(), IoError> {
        self.wait(self.client().deallocate(ranges))
    }
}

impl Client<Stor> {
    /// The files of the drive's file system, by commands to the drive.
    pub(crate) fn files(&self) -> Result<StorClient, StoreError> {
        Ok(self.inline.block_on(self.cpu, |cpu| {
            let opened = self.design.open_files(&cpu, self.client());
            async move { opened }
        })?)
    }

    /// Memory for leases.
    pub(crate) fn lease_pages(&self) -> Result<DmaRegion, StoreError> {
        Ok(self.design.lease_pages()?)
    }

    /// What has become of the file system at power-on, of a drive on this thread.
    pub(crate) fn log(&self) -> Option<FileSystemLog> {
        match &self.drives {
            Some(Drives::Here(local)) => local.booted.log(),
            _ => None,
        }
    }

    /// The connection to the process that has the drive, if that is another one.
    pub(crate) fn connection(&self) -> Option<RawFd> {
        match &self.drives {
            Some(Drives::Elsewhere { connection, .. }) => Some(connection.as_raw_fd()),
            _ => None,
        }
    }

    /// In the child of a fork: closes its end of the connection to the process that has the drive, and says nothing there.
    pub(crate) fn abandon(&self) {
        if let Some(Drives::Elsewhere { connection, .. }) = &self.drives {
            // SAFETY: the connection is never used again: whoever abandons a client forgets it.
            unsafe { rustix::io::close(connection.as_raw_fd()) };
        }
    }

    /// Gives a drive on this thread a key: from then on it checks who sends commands for files.
    pub(crate) fn give_key(&self, key: DriveKey) -> Result<(), StoreError> {
        if let Some(Drives::Here(local)) = &self.drives {
            let given = local.booted.give_key(key);
            self.inline.block_on(local.boot_cpu, |_| given)?;
        }
        Ok(())
    }

    /// Who the process that has the drive says that this one is, if that is another one.
    pub(crate) fn credentials(&self) -> Option<&Credentials> {
        match &self.drives {
            Some(Drives::Elsewhere { credentials, .. }) => credentials.as_ref(),
            _ => None,
        }
    }

    /// The number of the sharing, if the drive is in another process: who shares it anew has another one.
    pub(crate) fn sharing(&self) -> Option<u32> {
        match &self.drives {
            Some(Drives::Elsewhere { sharing, .. }) => Some(*sharing),
            _ => None,
        }
    }

    /// Whether the drive is in another process, and can do something.
    pub(crate) fn has_elsewhere(&self, feature: DriveFeature) -> bool {
        matches!(&self.drives, Some(Drives::Elsewhere { features, .. }) if features.contains(feature))
    }

    /// Whether the drive is in another process.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self.drives, Some(Drives::Elsewhere { .. }))
    }

    /// Lets other threads use a drive in another process while one waits for it.
    pub(crate) fn share_among_threads(&self, turns: &'static Turns) {
        if let Some(Drives::Elsewhere { waiters, .. }) = &self.drives {
            waiters.share(turns);
        }
    }

    /// Runs everything on this thread until `future` is done; none if the drive is in another process, which is gone.
    pub(crate) fn wait_while_served<F: Future>(&self, future: F) -> Option<F::Output> {
        let Some(Drives::Elsewhere { way, waiters, .. }) = &self.drives else {
            return Some(self.wait(future));
        };
        let wait = |task| waiters.wait(&self.inline, task, way);
        self.inline.block_on_by(self.cpu, |_| future, wait)
    }

    /// Whether the drive is in another process that is gone.
    pub(crate) fn is_cut_off(&self) -> bool {
        match &self.drives {
            Some(Drives::Elsewhere { connection, .. }) => has_hung_up(connection),
            _ => false,
        }
    }

    /// Tells a drive on this thread what time it is, if it does not know when it is `now_ns`.
    pub(crate) fn follow_clock(&self, now_ns: u64) {
        let Some(Drives::Here(local)) = &self.drives else {
            // Its owner does.
            return;
        };
        if !local
            .booted
            .is_clock_right(self.inline.cpu(self.cpu), now_ns)
        {
            let told = |cpu| async move { local.booted.follow_clock(&cpu).await };
            // Who cannot be told keeps the time that it has.
            let _ = self.inline.block_on(local.boot_cpu, told);
        }
    }
}

/// Takes a slot, on a machine for this thread alone.
fn take_slot<D: Design>(
    slot: ClientSlot,
    design: &Arc<D>,
    space: &Arc<DmaSpace>,
    ready: &Ready,
) -> Result<(Inline, CpuId, D::Client), StoreError> {
    let mut machine = Machine::new(CostTable::free(), false);
    let cpu = machine.add_cpu("client", Side::Host, 1.0);
    let inline = machine.inline();
    let made = inline.block_on(cpu, |cpu| async move {
        slot.take::<D>(&cpu, design, space, ready)
    });
    Ok((inline, cpu, made?))
}

impl<D: Design> Drop for Client<D> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Who wants to know calls `close`.
            let _ = self.end();
        }
    }
}
