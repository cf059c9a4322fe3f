//! What clients and managers share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::design::WritePolicy;
use crate::error::IoError;
use crate::tri::counters::ManagerAccount;
use crate::tri::message::ITEMS;
use crate::tri::table::{Frames, PageTable, Partition};

/// A client's share of a manager's frames from which on its unpins may wait in an open message.
/// What waits there counts as held, so the private cache is that much smaller.
pub(super) const LINGER_SHARE_MIN: u32 = 16;

/// What belongs to one manager.
pub(super) struct Part {
    pub(super) table: PageTable,
    pub(super) first_frame: u32,
    pub(super) frames: u32,
    /// Pages of this manager that each client may hold.
    pub(super) keeps: u32,
    /// Unpins may wait for a message to be full.
    pub(super) unpins_linger: bool,
}

impl Part {
    pub(super) fn new(first_frame: u32, frames: u32, clients: u32) -> Part {
        let share = frames / clients;
        let unpins_linger = share >= LINGER_SHARE_MIN;
        Part {
            table: PageTable::new(first_frame, frames),
            first_frame,
            frames,
            keeps: share - if unpins_linger { ITEMS as u32 - 1 } else { 0 },
            unpins_linger,
        }
    }
}

/// Why requests failed, by ticket.
pub(super) type Errors = Vec<(u32, IoError)>;

/// What clients and managers share.
pub(super) struct Shared {
    pub(super) partition: Partition,
    pub(super) frames: Frames,
    pub(super) parts: Box<[Part]>,
    pub(super) policy: WritePolicy,
    pub(super) reads_before_overwrite: bool,
    /// For each client: why requests failed.
    pub(super) errors: Box<[Mutex<Errors>]>,
    /// Write-backs that ever failed.
    pub(super) failures: AtomicU64,
    /// What each manager did so far, but for its drivers: whoever runs it has those.
    pub(super) accounts: Box<[Mutex<ManagerAccount>]>,
}

impl Shared {
    pub(super) fn put_error(&self, client: u32, ticket: u32, error: IoError) {
        let mut errors = self.errors[client as usize]
            .lock()
            .expect("no holder panics");
        errors.push((ticket, error));
    }

    pub(super) fn take_error(&self, client: u32, ticket: u32) -> IoError {
        let mut errors = self.errors[client as usize]
            .lock()
            .expect("no holder panics");
        let at = errors.iter().position(|(of, _)| *of == ticket);
        errors
            .swap_remove(at.expect("a failed request has a reason"))
            .1
    }

    pub(super) fn note_failures(&self, pages: u64) {
        // Relaxed: a count; who must hear of it synchronises through the manager's answer.
        self.failures.fetch_add(pages, Ordering::Relaxed);
    }

    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(super) fn account(&self, manager: u32, did: ManagerAccount) {
        let account = &self.accounts[manager as usize];
        *account.lock().expect("no holder panics") = did;
    }
}
