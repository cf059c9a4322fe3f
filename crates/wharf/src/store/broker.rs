//! The broker: says who guests are, so that the drive need not believe them.
//!
//! It has a key that only it and the drive know. To each process that attaches it gives claims (who the kernel says that
//! it is, and for which guest's queue pairs) with a token that nobody can make without the key.

use std::io;

use wharf_host::stor::Credentials;
use wharf_wire::file::{ACTS_FOR_OTHERS, CLAIM_GROUPS_MAX, Claims, DriveKey, READS_ONLY};
use zerocopy::transmute;

use super::clock::now_ns;
use super::peer::Peer;
use crate::random;

/// Claims hold from so long before they are made: the drive's clock may be that much behind.
const BEFORE_NS: u64 = 50_000_000;

/// What those get who attach.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How long claims hold, in nanoseconds. New ones are asked for then.
    pub life_ns: u64,
    /// Nobody may change anything.
    pub reads_only: bool,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            life_ns: 3_600_000_000_000,
            reads_only: false,
        }
    }
}

/// See the [module](self).
pub(super) struct Broker {
    key: DriveKey,
    terms: Terms,
    sessions: u64,
    /// What each guest has been given last.
    given: Vec<Option<Credentials>>,
}

impl Broker {
    /// One with a new key, for so many guests.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(super) fn new(guests: usize, terms: Terms) -> io::Result<Broker> {
        Ok(Broker {
            key: random_key(1)?,
            terms,
            sessions: 0,
            given: vec![None; guests],
        })
    }

    /// The key, for the drive.
    pub(super) fn key(&self) -> DriveKey {
        self.key
    }

    /// Makes another key, for the drive. It is not [used](Broker::use_key) before that has taken it.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(super) fn next_key(&self) -> io::Result<DriveKey> {
        random_key(self.key.epoch + 1)
    }

    /// Says who guests are by this key from now on.
    pub(super) fn use_key(&mut self, key: DriveKey) {
        self.key = key;
    }

    /// Says who a guest is.
    ///
    /// # Errors
    /// If it is in more groups than can be said; if the system has no random numbers.
    pub(super) fn admit(&mut self, guest: u32, peer: &Peer) -> io::Result<Credentials> {
        if peer.groups.len() > CLAIM_GROUPS_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let nonce = transmute!(random::bytes::<16>()?);
        let mut rights = 0;
        if peer.owns_this() {
            rights |= ACTS_FOR_OTHERS;
        }
        if self.terms.reads_only {
            rights |= READS_ONLY;
        }
        let now_ns = now_ns();
        self.sessions += 1;
        let claims = Claims {
            session: self.sessions,
            guest: guest + 1,
            uid: peer.uid,
            gid: peer.gid,
            group_count: peer.groups.len() as u32,
            rights,
            epoch: self.key.epoch,
            not_before_ns: now_ns.saturating_sub(BEFORE_NS),
            expires_ns: now_ns.saturating_add(self.terms.life_ns),
            nonce,
            ..Claims::new()
        };
        let token = self.key.token(&claims, &peer.groups);
        let given = Credentials {
            claims,
            groups: peer.groups.clone(),
            token,
        };
        self.given[guest as usize] = Some(given.clone());
        Ok(given)
    }

    /// What a guest has been given last, if it is one.
    pub(super) fn given(&self, guest: u32) -> Option<&Credentials> {
        self.given.get(guest as usize)?.as_ref()
    }

    /// A guest has left.
    pub(super) fn forget(&mut self, guest: u32) {
        self.given[guest as usize] = None;
    }
}

/// A key that nobody can guess.
///
/// # Errors
/// If the system has no random numbers.
pub(crate) fn random_key(epoch: u32) -> io::Result<DriveKey> {
    Ok(DriveKey::new(random::bytes()?, epoch))
}
