//! What a design outside this crate is built from: frames, volumes, waits. `docs/new-design.md`
//! uses all of it.
//!
//! | thing | for |
//! |---|---|
//! | [`Frame`] | a page of memory that drives reach, owned by who may touch it |
//! | [`Waits`] | tasks of all clients that wait for something to change |
//! | [`Volume`], through [`Parts`](crate::Parts) | drives as one address space |
//! | [`spans`] | the pages of a request, and where their bytes are in its buffer |
//! | [`check_request`] | what every request is checked for |
//! | [`Counters`] | what every client counts |
//! | [`Lock`], [`Op`] | what is shared, and what takes time, with what it costs in virtual time |

use std::sync::Arc;

use wharf_wire::dma::{DmaRegion, DmaSpace, RegisterError};

use crate::volume::Transfer;
use wharf_runtime::waits::Waiters;
use wharf_runtime::wake::{Mailboxes, Pause, Sleeper};

pub use crate::design::{Counters, check_request};
pub use crate::error::IoError;
pub use crate::span::{Extent, Span, spans};
pub use crate::volume::Volume;
pub use wharf_runtime::{Cpu, Lock, Op};

/// A page of memory that drives can read and write. Who owns it alone touches it.
///
/// While a command is under way the frame is the command's. After an error nobody can tell when a
/// drive is done with it, so that it does not come back: the cache has a frame less.
pub struct Frame {
    region: Arc<DmaRegion>,
    number: usize,
}

impl Frame {
    /// `count` frames of zeros.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn all(space: &Arc<DmaSpace>, count: u32) -> Result<Vec<Frame>, RegisterError> {
        let region = Arc::new(space.register(count as usize)?);
        let frame = |number| Frame {
            region: region.clone(),
            number,
        };
        Ok((0..count as usize).map(frame).collect())
    }

    /// Its bytes: 4096, or 8 where pages are stamps.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: each frame is made once and cannot be copied, and a command takes it away: so no command names the page,
        // and all references to it are borrowed from `self`.
        unsafe { self.region.page_ref(self.number) }
    }

    /// Its bytes, to change them.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `self` is borrowed alone.
        unsafe { self.region.page_mut(self.number) }
    }

    /// Reads `page` of a volume into it.
    ///
    /// # Errors
    /// Of the drive.
    pub async fn read(self, cpu: &Cpu, volume: &Volume, page: u64) -> Result<Frame, IoError> {
        self.transfer(cpu, volume, Transfer::Read, page).await
    }

    /// Writes it to `page` of a volume; durable after a flush.
    ///
    /// # Errors
    /// Of the drive.
    pub async fn write(self, cpu: &Cpu, volume: &Volume, page: u64) -> Result<Frame, IoError> {
        self.transfer(cpu, volume, Transfer::Write, page).await
    }

    async fn transfer(
        self,
        cpu: &Cpu,
        volume: &Volume,
        kind: Transfer,
        page: u64,
    ) -> Result<Frame, IoError> {
        let address = [self.region.address(self.number)];
        volume.check(page, 1)?;
        let group = volume.open_group();
        volume.issue(&group, kind, page, &address).await;
        volume.ring();
        group.wait(cpu).await.map(|_| self)
    }
}

/// Tasks of any clients that wait for something to change.
///
/// Who waits joins, looks again at what it waits for, and then awaits what it was given; who
/// changes it wakes all. No wake is lost then; some come for nothing.
pub struct Waits {
    mailboxes: Arc<Mailboxes>,
    waiters: Waiters,
}

impl Waits {
    /// Nobody of `clients` clients waits.
    pub fn new(clients: u32) -> Waits {
        let mailboxes = Mailboxes::new(clients);
        Waits {
            waiters: Waiters::new(mailboxes.clone()),
            mailboxes,
        }
    }

    /// Takes wakes for client `client`, on its CPU; once.
    pub fn serve(&self, cpu: &Cpu, client: u32) {
        self.mailboxes.serve(cpu, client);
    }

    /// Enters the running task of client `client`.
    pub fn join(&self, cpu: &Cpu, client: u32) -> Pause {
        let task = cpu.current();
        self.waiters.join(cpu, Sleeper { client, task });
        Pause::default()
    }

    /// Wakes all who have joined, as client `waker`.
    pub fn wake_all(&self, cpu: &Cpu, waker: u32) {
        self.waiters.wake_all(cpu, waker);
    }
}
