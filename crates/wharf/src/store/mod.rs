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
//! * [`Store::share`] lets other processes of the same user attach ([`Client::attach`]): they use the
//!   same pages in the same frames.
//!
//! A hit runs no drive code either way. What a flush acknowledged is in the file, whatever happens to
//! the program after that; `docs/durability.md` has the rules.
//!
//! | file | idea |
//! |---|---|
//! | `options.rs` | how large, where, how much cache |
//! | `system.rs` | drives and their boot on a machine |
//! | `client.rs` | what one thread uses |
//! | `turns.rs` | what several threads use in turn, of a drive in another process |
//! | `pages.rs` | pages used in place |
//! | `clock.rs` | what time it is for a drive with files |
//! | `guests.rs`, `descriptors.rs` | slots for clients in other processes, and what their end takes; what they take of the system |
//! | `listener.rs`, `asks.rs` | lets other processes in, and notices when they are gone; who has not said yet what it wants |
//! | `answers.rs`, `sessions.rs` | what is done for who has; for the owner of a drive that is served: who uses it |
//! | `broker.rs`, `peer.rs` | says to a drive with files who they are; what the kernel says of them |
//! | `attach.rs` | the other process's side |
//! | `handshake.rs` | what it is told and handed |

mod answers;
mod asks;
mod attach;
mod broker;
mod client;
mod clock;
mod descriptors;
mod guests;
mod handshake;
mod listener;
mod options;
mod pages;
mod peer;
mod sessions;
mod system;
mod turns;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, channel};
use std::sync::{Arc, Mutex};

use wharf_drive::DriveError;
use wharf_drive::config::ConfigError;
use wharf_host::admin::AdminError;
use wharf_host::boot::Ready;
use wharf_host::design::{Design, DesignConfig, DesignError};
use wharf_host::error::IoError;
use wharf_host::guest::SharedDesign;
use wharf_runtime::{Background, CostTable, Cpu, Machine, Notifier, Sender, Side, ring};
use wharf_wire::dma::{DmaSpace, RegisterError};
use wharf_wire::file::FileSystemLog;
use wharf_wire::memory::MemoryError;

pub(crate) use attach::renew;
use broker::Broker;
pub use broker::Terms;
pub(crate) use broker::random_key;
pub use client::Client;
pub use clock::now_ns;
use guests::{GuestSlots, Ordered};
use handshake::{DriveLine, Head};
use listener::{Listener, Orders, Welcome};
pub use options::StoreOptions;
pub use sessions::{SessionRow, new_key, revoke, sessions};
use system::{Boot, ClientSlot, System};
pub use turns::{Turn, Turns};

/// Permission bits of a socket that only processes of the same user connect to, and root's.
const OWN_USER: u32 = 0o600;

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
    /// Memory to share.
    #[error(transparent)]
    Shared(#[from] MemoryError),
    /// More guests than can be told apart.
    #[error("a store cannot have {guests} guests: {guests_max} at most")]
    TooManyGuests {
        /// Guests asked for.
        guests: u32,
        /// Most that there can be.
        guests_max: u32,
    },
    /// More guests than the system has descriptors for.
    #[error(
        "{guests} guests take {needed} descriptors, and the system lets this process have {most}: raise its limit \
         (`ulimit -Hn`), or let in fewer"
    )]
    TooFewDescriptors {
        /// Guests asked for.
        guests: u32,
        /// Descriptors that they take, with all others.
        needed: u64,
        /// Most that this process may have.
        most: u64,
    },
    /// A store that other processes cannot use.
    #[error(
        "a store of {drives} drives cannot have guests: it needs 32 drives at most, and drives with \
         media.kind Ram or File"
    )]
    NotForGuests {
        /// Drives of the store.
        drives: usize,
    },
    /// A store that nobody can attach to.
    #[error("the store cannot be shared {why}")]
    NotShareable {
        /// Why not, and what to do.
        why: &'static str,
    },
    /// A socket that cannot be made.
    #[error("cannot share a store at {path}: {source}; choose another path")]
    CannotListen {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Nobody answers.
    #[error("no store is shared at {path}: {source}; call Store::share in its owner")]
    Unreachable {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Somebody answers, but not as expected.
    #[error(
        "what is shared at {path} is not understood: use the same version of Wharf in both processes"
    )]
    NotUnderstood {
        /// Where.
        path: PathBuf,
    },
    /// A store of another design.
    #[error("the store at {path} has the design '{found}', not '{design}': attach with that one")]
    OtherDesign {
        /// Where.
        path: PathBuf,
        /// Its design.
        found: String,
        /// The design asked for.
        design: &'static str,
    },
    /// More guests than the owner's options say.
    #[error(
        "all {guests} slots for guests of the store at {path} are taken: open it with \
         StoreOptions::guests({})",
        guests + 1
    )]
    NoSlotLeft {
        /// Where.
        path: PathBuf,
        /// slots that there are.
        guests: u32,
    },
    /// A store that is closed too early.
    #[error("clients of the store are still open: close them first")]
    ClientsLeft,
    /// The drives' thread is gone.
    #[error("the drives of the store have stopped: a panic on their thread, reported there")]
    Stopped,
}

impl StoreError {
    /// Whether attaching may go better a little later: all slots are taken, or the owner has so many to let in that it has sent
    /// this process away before it said what it wants.
    pub(crate) fn may_pass(&self) -> bool {
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof, WouldBlock};
        match self {
            StoreError::NoSlotLeft { .. } => true,
            StoreError::Unreachable { source, .. } => matches!(
                source.kind(),
                BrokenPipe | ConnectionReset | UnexpectedEof | WouldBlock
            ),
            _ => false,
        }
    }
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
    /// What has become of the drive's file system at power-on, if it has one.
    log: Option<FileSystemLog>,
    slots: Mutex<Vec<ClientSlot>>,
    clients: u32,
    sharing: Mutex<Sharing>,
    drives: Mutex<Option<Running>>,
}

/// What it takes to share a store, and who does.
struct Sharing {
    config: DesignConfig,
    depth: u32,
    stripe_pages: u64,
    slots: Arc<GuestSlots>,
    /// Gone while an listener has it.
    orders: Option<Orders>,
    listener: Option<Listener>,
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
        let notifier = Notifier::new();
        let (order, ordered) = ring(2, &notifier, 0);
        let (orders, guest_orders) = ring(2, &notifier, 1);
        let (tell_done, done) = channel();
        let obeying = Ordered {
            orders: guest_orders,
            done: tell_done,
        };
        let slots = system.boot.slots.clone();
        let (tell_ready, readied) = channel();
        let (tell_ended, ended) = channel();
        let boot = system.boot;
        system.machine.spawn(system.boot_cpu, "boot", move |cpu| {
            serve(
                cpu, boot, notifier, ordered, obeying, tell_ready, tell_ended,
            )
        });
        let background = system
            .machine
            .run_in_background(vec![system.cpus], options.idle);
        let (ready, log) = readied.recv().map_err(|_| StoreError::Stopped)??;
        Ok(Store {
            shared: Arc::new(Shared {
                design: system.design,
                space: system.space,
                ready,
                log,
                slots: Mutex::new(system.slots),
                clients: options.clients,
                sharing: Mutex::new(Sharing {
                    config: system.config,
                    depth: options.queue_depth,
                    stripe_pages: options.stripe_bytes / 4096,
                    slots,
                    orders: Some(Orders { orders, done }),
                    listener: None,
                }),
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

    /// What has become of the drive's file system at power-on, if it has one.
    pub(crate) fn log(&self) -> Option<&FileSystemLog> {
        self.shared.log.as_ref()
    }

    /// Bytes of the store.
    pub fn bytes(&self) -> u64 {
        self.shared.ready.layout().pages() * 4096
    }

    /// Ends the store, after its clients: what they closed with is durable.
    ///
    /// # Errors
    /// If clients are still there; if a page could not be written. Guests that are still there are cut
    /// off: what they wrote is kept, and they are told of by [`StoreError::ClientsLeft`] too.
    pub fn close(self) -> Result<(), StoreError> {
        match Arc::try_unwrap(self.shared) {
            Ok(shared) => {
                let guests_left = shared.send_guests_away();
                shared.stop()?;
                match guests_left {
                    0 => Ok(()),
                    _ => Err(StoreError::ClientsLeft),
                }
            }
            Err(_) => Err(StoreError::ClientsLeft),
        }
    }
}

impl<D: SharedDesign> Store<D> {
    /// Lets processes of the same user attach, as many as [`StoreOptions::guests`] says, through a
    /// socket at `path` that is there until the store is closed.
    ///
    /// Who attaches is trusted with the data, as whoever maps a file is: it can change any page, and
    /// keep pages busy. It cannot reach other memory of this process, nor keep calls from coming to their
    /// end, nor the store from working when it is gone.
    ///
    /// # Errors
    /// If the store has no slots for guests or is shared already; if there can be no socket.
    pub fn share(&self, path: impl AsRef<Path>) -> Result<(), StoreError> {
        self.share_on(path, OWN_USER, Terms::default())
    }

    /// The same, at a socket with these permission bits, on these terms: for a drive with files, which checks who comes. Any
    /// other store has no processes but those of the same user and root's.
    ///
    /// # Errors
    /// As [`Store::share`].
    pub fn share_on(
        &self,
        path: impl AsRef<Path>,
        socket_mode: u32,
        terms: Terms,
    ) -> Result<(), StoreError> {
        let path = path.as_ref();
        let mut sharing = self
            .shared
            .sharing
            .lock()
            .unwrap_or_else(|p| p.into_inner());
        if sharing.config.guests == 0 {
            let why = "as it has no slots for guests: open it with StoreOptions::guests(1)";
            return Err(StoreError::NotShareable { why });
        }
        descriptors::make_room(sharing.config.guests)?;
        let cannot_listen = |source| StoreError::CannotListen {
            path: path.to_path_buf(),
            source,
        };
        let broker = match self.shared.log {
            Some(_) => {
                let guests = sharing.config.guests as usize;
                Some(Broker::new(guests, terms).map_err(cannot_listen)?)
            }
            None => None,
        };
        let orders = sharing.orders.take().ok_or(StoreError::NotShareable {
            why: "twice: attach by the path that it is shared at",
        })?;
        let number = u32::from_ne_bytes(crate::random::bytes().map_err(cannot_listen)?);
        let (ready, design) = (&self.shared.ready, &self.shared.design);
        let parts = D::shared_parts(&sharing.config).into_iter();
        let writers = parts.map(|(_, writers)| writers);
        let welcome = Welcome {
            design: design.clone(),
            head: Head::new(
                D::NAME,
                &sharing.config,
                sharing.depth,
                sharing.stripe_pages,
                number,
            ),
            drives: ready.drives().iter().map(DriveLine::from).collect(),
            memories: design.shared_memory().into_iter().zip(writers).collect(),
            cores: ready.drives()[0].cores,
            broker,
            socket_mode,
            own_clients: self.shared.clients,
        };
        match Listener::start(path, orders, welcome, sharing.slots.clone()) {
            Ok(listener) => sharing.listener = Some(listener),
            Err((source, orders)) => {
                sharing.orders = Some(orders);
                return Err(cannot_listen(source));
            }
        }
        Ok(())
    }
}

impl<D: Design> Store<D> {
    /// Lets nobody attach any more, and sends away who has.
    pub(crate) fn end_sharing(&self) {
        self.shared.send_guests_away();
    }
}

impl<D> Shared<D> {
    /// Lets nobody in any more, and takes back what guests hold; gives how many there were.
    fn send_guests_away(&self) -> usize {
        let mut sharing = self.sharing.lock().unwrap_or_else(|p| p.into_inner());
        sharing.listener.take().map_or(0, Listener::end)
    }

    fn stop(&self) -> Result<(), StoreError> {
        self.send_guests_away();
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
    notifier: Notifier,
    mut ordered: wharf_runtime::Receiver<()>,
    mut obeying: Ordered,
    tell_ready: mpsc::Sender<Result<(Ready, Option<FileSystemLog>), AdminError>>,
    tell_ended: mpsc::Sender<Result<(), AdminError>>,
) {
    let booted = match boot.run(&cpu).await {
        Ok((booted, ready)) => {
            let _ = tell_ready.send(Ok((ready, booted.log())));
            booted
        }
        Err(error) => {
            let _ = tell_ready.send(Err(error));
            return;
        }
    };
    notifier.attach(&cpu);
    while ordered.try_pop(&cpu).is_none() {
        if let Some(order) = obeying.orders.try_pop(&cpu) {
            // Nobody waits for it if the store is being dropped.
            let _ = obeying.done.send(booted.obey(&cpu, order).await);
            continue;
        }
        let _ = notifier.wait(&cpu).await;
    }
    let _ = tell_ended.send(booted.take_memory_back().await);
}
