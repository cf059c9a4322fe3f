//! The design `tri`: TriCache (OSDI 2022), the user-space cache that ScalaCache is compared with.
//!
//! Problem: one cache for many client threads, without locks and without the kernel.
//!
//! Idea: *managers*, CPUs of their own, own the pages: page `p` belongs to manager `p % n`. Clients
//! ask them by messages, and avoid asking in two ways: each holds pages pinned in a *private cache*,
//! and may pin a page that is there by itself, by a compare-and-swap on the page's word.
//!
//! **A hit.** The private cache knows the page's frame: copy. No message, no shared line but the data.
//!
//! **A direct pin.** The page is in the cache, but not held by this client:
//! 1. the private cache makes room: CLOCK chooses a page, whose unpin goes into the next message;
//! 2. the client looks the page up in the manager's page table, which all may read;
//! 3. it adds a pin to the frame's word, if that still names the page, and copies. If nobody else
//!    had the page pinned, a notice of it goes into the next message.
//!
//! **A miss.** The page is not in the cache:
//! 1. the client asks for a pin, up to three requests in a message of one cache line, and goes on with
//!    its other pages and requests;
//! 2. the manager takes all messages that have arrived, looks up their pages, pins those it has;
//! 3. it gives frames to the others and reads them by ordinary commands on its own queue pairs.
//!    Pages dealt out one by one are neighbours of none of their manager's: that is the *request
//!    fragmentation* of section 2.3 (ScalaCache), one command for each page;
//! 4. it answers with the frame, pinned; the client copies, and the page stays in its private cache.
//!
//! **An eviction.** Frames without pins are passed by the manager's CLOCK hand; a dirty page is written
//! before its frame is given away. What clients hold stays: each holds at most its share of each
//! manager's frames, so that there is always a frame for a page that is asked for.
//!
//! Beyond the published code: a page that is written whole is not read first, unless
//! [`TriConfig::reads_before_overwrite`] says so; several
//! requests of a client are in flight; errors reach the request they belong to; a flush writes back
//! pages that clients hold, too. Sections 2.3, 3.1 and 6 of ScalaCache (ATC 2024) describe the design.
//!
//! | file | idea |
//! |---|---|
//! | `message` | three items in a cache line; rings |
//! | `shared` | what clients and managers share |
//! | `page_word` | a page that its manager replaces and clients pin |
//! | `table` | frames, their words and versions; the page table |
//! | `private` | what a client holds, and its CLOCK |
//! | `client`, `copied` | a client's way through a request |
//! | `holder`, `tickets`, `open` | what it holds and has asked for; what a request waits for |
//! | `flush` | flush and write-through |
//! | `counters` | what clients and managers count |
//! | `pool`, `manager` | a manager's frames and CLOCK; what it does with messages |
//! | `under_way` | what it has under way |
//! | `fetch`, `write_back` | commands: misses and evictions; flushes |

mod client;
mod copied;
mod counters;
mod fetch;
mod flush;
mod holder;
mod manager;
mod message;
mod open;
mod page_word;
mod pool;
mod private;
mod shared;
mod table;
mod tickets;
mod under_way;
mod write_back;

use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use wharf_runtime::notifier::{Kind, SOURCES};
use wharf_runtime::{Cpu, Notifier, ring};
use wharf_wire::dma::DmaSpace;

use crate::buffers::Buffers;
use crate::cache::frame::PAGES_MAX;
use crate::design::{
    Amount, Client, Design, DesignConfig, DesignError, Gauges, Needs, Parts, Statistics, Touch,
};
use crate::error::IoError;
use crate::payload::{From, Into};
use crate::span::Extent;
use crate::tri::client::{CacheClient, ClientEnds};
use crate::tri::manager::{Manager, ManagerEnds};
use crate::tri::message::RING_MESSAGES;
use crate::tri::shared::{Part, Shared};
use crate::tri::table::{Frames, Partition};

crate::settings! {
    /// What the design `tri` is told.
    pub struct TriConfig {
        /// CPUs that manage the cache, besides the clients' own.
        pub managers: u32 = 2, in 1..=64;
        /// `true`: a page is read from the drive also where a write is to replace all of it, as
        /// TriCache's published code does.
        pub reads_before_overwrite: bool = false;
    }
}

/// What the clients share: the cache and the ways to its managers.
pub struct Tri {
    shared: Arc<Shared>,
    space: Arc<DmaSpace>,
    client_ends: Mutex<Vec<Option<ClientEnds>>>,
    manager_ends: Mutex<Vec<Option<ManagerEnds>>>,
}

impl Design for Tri {
    const NAME: &'static str = "tri";

    const SUMMARY: &'static str =
        "TriCache: managers that own pages, messages, private caches, direct pins";

    type Config = TriConfig;

    type Client = TriClient;

    fn needs(_: &DesignConfig, own: &TriConfig) -> Needs {
        Needs {
            services: own.managers,
            bytes_per_page: 96,
            ..Needs::default()
        }
    }

    fn new(
        config: &DesignConfig,
        own: &TriConfig,
        space: &Arc<DmaSpace>,
    ) -> Result<Tri, DesignError> {
        let design = Self::NAME;
        let frames = config.frames(design)?;
        if own.managers == 0 {
            return Err(DesignError::NoManagers { design });
        }
        // A manager without a frame could serve nobody.
        let managers = own.managers.min(frames).min(SOURCES as u32);
        let (each, more) = (frames / managers, frames % managers);
        let part = |index: u32| {
            let first = index * each + index.min(more);
            Part::new(first, each + u32::from(index < more), config.clients)
        };
        let shared = Shared {
            partition: Partition::new(managers),
            frames: Frames::new(space, frames)
                .map_err(|source| DesignError::Memory { design, source })?,
            parts: (0..managers).map(part).collect(),
            policy: config.write_policy,
            reads_before_overwrite: own.reads_before_overwrite,
            errors: (0..config.clients).map(|_| Mutex::default()).collect(),
            failures: AtomicU64::new(0),
            accounts: (0..managers).map(|_| Mutex::default()).collect(),
        };
        let (clients, managers) = connect(config.clients, managers);
        Ok(Tri {
            shared: Arc::new(shared),
            space: space.clone(),
            client_ends: Mutex::new(clients.into_iter().map(Some).collect()),
            manager_ends: Mutex::new(managers.into_iter().map(Some).collect()),
        })
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<TriClient, DesignError> {
        let (volume, index) = (parts.cache(), parts.index);
        let (design, pages) = (Self::NAME, volume.pages());
        if pages > PAGES_MAX {
            let pages_max = PAGES_MAX;
            return Err(DesignError::VolumeTooLarge {
                design,
                pages,
                pages_max,
            });
        }
        let ends = self.client_ends.lock().expect("no holder panics")[index as usize].take();
        let ends = ends.expect("a client is made once");
        let client = CacheClient::start(&parts.cpu, &self.shared, volume, index, ends);
        Ok(TriClient(client))
    }

    fn serve(self: &Arc<Self>, parts: Parts) -> Result<(), DesignError> {
        let (volume, index) = (parts.cache(), parts.index);
        let ends = self
            .manager_ends
            .lock()
            .expect("no holder panics")
            .get_mut(index as usize)
            .map(|ends| ends.take().expect("a manager is started once"));
        // With fewer frames than managers some have nothing to do.
        let Some(ends) = ends else { return Ok(()) };
        let design = Self::NAME;
        let copies = Buffers::new(&self.space, write_back::COPIES)
            .map_err(|source| DesignError::Memory { design, source })?;
        Manager::start(&parts.cpu, &self.shared, volume, index, ends, copies);
        Ok(())
    }
}

/// Rings between every client and every manager.
fn connect(clients: u32, managers: u32) -> (Vec<ClientEnds>, Vec<ManagerEnds>) {
    let mut client_ends: Vec<ClientEnds> = (0..clients)
        .map(|_| ClientEnds {
            notifier: Notifier::of_kind(Kind::Polled),
            requests: Vec::new(),
            answers: Vec::new(),
        })
        .collect();
    let mut manager_ends = Vec::new();
    for manager in 0..managers {
        let mut ends = ManagerEnds {
            notifier: Notifier::of_kind(Kind::Polled),
            requests: Vec::new(),
            answers: Vec::new(),
        };
        for (client, theirs) in client_ends.iter_mut().enumerate() {
            let source = (client % SOURCES) as u32;
            let (sender, receiver) = ring(RING_MESSAGES, &ends.notifier, source);
            theirs.requests.push(sender);
            ends.requests.push(receiver);
            let (sender, receiver) = ring(RING_MESSAGES, &theirs.notifier, manager);
            ends.answers.push(sender);
            theirs.answers.push(receiver);
        }
        manager_ends.push(ends);
    }
    (client_ends, manager_ends)
}

impl Tri {
    /// Bytes that it takes to keep book of the frames, besides the clients' private caches.
    pub fn bookkeeping_bytes(&self) -> usize {
        let tables = self.shared.parts.iter().map(|part| part.table.bytes());
        self.shared.frames.bookkeeping_bytes() + tables.sum::<usize>()
    }

    /// Checks the cache, when no request is under way: that the page tables and the frames' words
    /// agree, and nothing is busy.
    ///
    /// # Panics
    /// If something is in disorder.
    pub fn verify(&self, cpu: &Cpu) {
        let shared = &self.shared;
        let mut seen = std::collections::BTreeSet::new();
        for (index, part) in (0..).zip(&shared.parts) {
            for frame in part.first_frame..part.first_frame + part.frames {
                let state = shared.frames.word_to_read(cpu, frame).state();
                let Some(page) = state.page() else { continue };
                assert!(!state.is_busy(), "frame {frame} is busy at rest");
                assert!(seen.insert(page), "page {page} is in two frames");
                let (manager, block) = shared.partition.locate(page);
                assert_eq!(manager, index, "page {page} is with another manager");
                let found = part.table.find(cpu, block, |found| found == frame);
                assert_eq!(found, Some(frame), "page {page} is not in the page table");
            }
        }
    }
}

/// One client.
pub struct TriClient(Rc<CacheClient>);

impl TriClient {
    /// Bytes that the client's private caches take.
    pub fn bookkeeping_bytes(&self) -> usize {
        self.0.holder.bookkeeping_bytes()
    }

    /// Requests to managers that are not done with: none when no request is under way.
    pub fn open_tickets(&self) -> usize {
        self.0.holder.open_tickets()
    }
}

impl Client for TriClient {
    #[inline]
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        let client = &*self.0;
        client.holder.counters.reads.add(1);
        client
            .holder
            .counters
            .end(client.serve(extent, Into(out)).await, |touch| *touch)
    }

    #[inline]
    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        let client = &*self.0;
        client.holder.counters.writes.add(1);
        client
            .holder
            .counters
            .end(client.serve(extent, From(data)).await, |touch| *touch)
    }

    async fn flush(&self) -> Result<(), IoError> {
        let client = &*self.0;
        client.holder.counters.flushes.add(1);
        client
            .holder
            .counters
            .end(client.flush().await, |()| Touch::default())
    }

    /// What this client did. What the managers did for all clients is client 0's, but for their commands.
    fn statistics(&self) -> Statistics {
        let client = &*self.0;
        let mut statistics = client.holder.counters.statistics(&client.volume);
        if client.holder.index == 0 {
            for account in &client.holder.shared.accounts {
                statistics.merge(&account.lock().expect("no holder panics").statistics);
            }
        }
        statistics
    }

    fn gauges(&self) -> Gauges {
        let holder = &self.0.holder;
        let own = holder.counters.gauges();
        if holder.index > 0 {
            return own;
        }
        let accounts = holder.shared.accounts.iter();
        let polled_ns = accounts.map(|a| a.lock().expect("no holder panics").polled_ns);
        own.with("manager_poll", Amount::OfServicesNs(polled_ns.sum()))
    }
}
