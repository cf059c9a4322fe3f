//! A store that programs link: an emulated drive, in memory or in a file, behind a page cache.
//!
//! The drive's caching half and the host's work as they do in `wharf compare`, in real time and with
//! real bytes:
//!
//! * [`Store::open`] runs the drives on a thread of their own; each thread of the program has a
//!   [`Client`], up to the number that the options say.
//! * [`Client::open_local`] is for a program with one thread: the drive runs on it, while the
//!   client waits. Nothing crosses a thread.
//!
//! A hit runs no drive code either way. What a flush acknowledged is in the file, whatever happens to
//! the program after that; `docs/durability.md` has the rules.
//!
//! | file | idea |
//! |---|---|
//! | `options.rs` | how large, where, how much cache |
//! | `system.rs` | drives and their boot on a machine |
//! | `client.rs` | what one thread uses |
//! | `pages.rs` | pages used in place |

mod client;
mod options;
mod pages;
mod system;

use std::sync::mpsc::{self, Receiver, channel};
use std::sync::{Arc, Mutex};

use wharf_drive::DriveError;
use wharf_drive::config::ConfigError;
use wharf_host::admin::AdminError;
use wharf_host::boot::Ready;
use wharf_host::design::{Design, DesignError};
use wharf_host::error::IoError;
use wharf_runtime::{Background, Bell, CostTable, Cpu, Machine, Sender, Side, ring};
use wharf_wire::dma::{DmaSpace, RegisterError};

pub use client::Client;
pub use options::StoreOptions;
use system::{Boot, Seat, System};

/// A store that cannot be opened, used or closed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A preset that does not load: a broken installation.
    #[error(transparent)]
    Preset(#[from] wharf_lab::config::ConfigError),
    /// A drive that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Larger than a store can be.
    #[error("a store of {bytes} bytes is larger than a drive can be")]
    TooLarge {
        /// Bytes asked for.
        bytes: u64,
    },
    /// The file or the memory.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The cache.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// Memory for queues.
    #[error(transparent)]
    Memory(#[from] RegisterError),
    /// The drive does not start, or does not take its memory back.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// A request.
    #[error(transparent)]
    Io(#[from] IoError),
    /// More clients than the options say.
    #[error(
        "all {clients} clients of the store are in use: open it with StoreOptions::clients({})",
        clients + 1
    )]
    NoClientLeft {
        /// Clients that there are.
        clients: u32,
    },
    /// A store that is closed too early.
    #[error("clients of the store are still open: close them first")]
    ClientsLeft,
    /// The drives' thread is gone.
    #[error("the drives of the store have stopped: a panic on their thread, reported there")]
    Stopped,
}

/// A store whose drives run on a thread of their own. Shared by the program's threads.
pub struct Store<D: Design> {
    shared: Arc<Shared<D>>,
}

/// What store and clients share. The drives stop when the last of them goes.
struct Shared<D> {
    design: Arc<D>,
    space: Arc<DmaSpace>,
    ready: Ready,
    seats: Mutex<Vec<Seat>>,
    clients: u32,
    drives: Mutex<Option<Running>>,
}

/// The drives' thread, and how it is told to end.
struct Running {
    order: Sender<()>,
    ended: Receiver<Result<(), AdminError>>,
    background: Background,
}

impl<D: Design> Store<D> {
    /// Opens a store.
    ///
    /// # Errors
    /// If the file cannot be used, memory is short, or the configuration is impossible.
    pub fn open(options: &StoreOptions) -> Result<Store<D>, StoreError> {
        let mut system = System::<D>::build(options)?;
        let bell = Bell::new();
        let (order, ordered) = ring(2, &bell, 0);
        let (tell_ready, readied) = channel();
        let (tell_ended, ended) = channel();
        let boot = system.boot;
        system.machine.spawn(system.boot_cpu, "boot", move |cpu| {
            serve(cpu, boot, bell, ordered, tell_ready, tell_ended)
        });
        let background = system
            .machine
            .run_in_background(vec![system.cpus], options.idle);
        let ready = readied.recv().map_err(|_| StoreError::Stopped)??;
        Ok(Store {
            shared: Arc::new(Shared {
                design: system.design,
                space: system.space,
                ready,
                seats: Mutex::new(system.seats),
                clients: options.clients,
                drives: Mutex::new(Some(Running {
                    order,
                    ended,
                    background,
                })),
            }),
        })
    }

    /// Makes a client for this thread.
    ///
    /// # Errors
    /// If the options allow no more; if memory is short.
    pub fn client(&self) -> Result<Client<D>, StoreError> {
        Client::join(self.shared.clone())
    }

    /// Bytes of the store.
    pub fn bytes(&self) -> u64 {
        self.shared.ready.layout().pages() * 4096
    }

    /// Ends the store, after its clients: what they closed with is durable.
    ///
    /// # Errors
    /// If clients are still there; if a page could not be written.
    pub fn close(self) -> Result<(), StoreError> {
        match Arc::try_unwrap(self.shared) {
            Ok(shared) => shared.stop(),
            Err(_) => Err(StoreError::ClientsLeft),
        }
    }
}

impl<D> Shared<D> {
    fn stop(&self) -> Result<(), StoreError> {
        let running = self.drives.lock().unwrap_or_else(|p| p.into_inner()).take();
        let Some(mut running) = running else {
            return Ok(());
        };
        let mut machine = Machine::new(CostTable::free(), false);
        let cpu = machine.add_cpu("closer", Side::Host, 1.0);
        let ordered = running.order.push(machine.inline().cpu(cpu), ());
        assert!(ordered.is_ok(), "there is one order");
        let ended = running.ended.recv().map_err(|_| StoreError::Stopped)?;
        running.background.stop();
        Ok(ended?)
    }
}

impl<D> Drop for Shared<D> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Who wants to know calls `Store::close`.
            let _ = self.stop();
        }
    }
}

/// Boots the drives, waits for the order to end, takes the drives' memory back.
async fn serve(
    cpu: Cpu,
    boot: Boot,
    bell: Bell,
    mut ordered: wharf_runtime::Receiver<()>,
    tell_ready: mpsc::Sender<Result<Ready, AdminError>>,
    tell_ended: mpsc::Sender<Result<(), AdminError>>,
) {
    let booted = match boot.run(&cpu).await {
        Ok((booted, ready)) => {
            let _ = tell_ready.send(Ok(ready));
            booted
        }
        Err(error) => {
            let _ = tell_ready.send(Err(error));
            return;
        }
    };
    bell.attach(&cpu);
    while ordered.try_pop(&cpu).is_none() {
        let _ = bell.wait(&cpu).await;
    }
    let _ = tell_ended.send(booted.take_memory_back().await);
}
