//! Who may speak to the drive for whom: what guests have shown of themselves, and what is checked of each command.
//!
//! Problem: a guest is another process, perhaps another user's and hostile, and names a user in each request.
//!
//! Idea: the host that owns the drive says who each guest is, by claims under a key that it shares with the drive alone
//! (`wharf_wire::file`, *access*). A guest shows them once; here they are checked and kept as its [`Authority`], by the number
//! of the guest. Each command then has the token of that authority, which is compared in constant time.
//!
//! A drive without a key checks nothing: it has one user, as a drive without files has.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use wharf_files::Caller;
use wharf_runtime::Op;
use wharf_wire::file::{
    ACTS_FOR_OTHERS, CLAIM_GROUPS_MAX, Claims, DriveKey, READS_ONLY, Revoke, Token,
};
use wharf_wire::status::StatusCode;
use zerocopy::{FromBytes, IntoBytes};

use crate::config::TokenCheck;

/// Bytes of the longest claims, with their groups.
pub(super) const CLAIMS_BYTES_MAX: usize = size_of::<Claims>() + 4 * CLAIM_GROUPS_MAX;

/// The host that owns the drive, among hosts.
const OWNER: u32 = 0;

/// What a host has shown of itself.
#[derive(Debug)]
pub(super) struct Authority {
    claims: Claims,
    groups: Vec<u32>,
    token: Token,
    is_revoked: Cell<bool>,
}

impl Authority {
    /// Whether it has been taken back.
    pub(super) fn is_revoked(&self) -> bool {
        self.is_revoked.get()
    }

    /// Whether nothing may be changed.
    pub(super) fn reads_only(&self) -> bool {
        self.claims.rights & READS_ONLY != 0
    }

    /// The caller of a request that names `named`.
    ///
    /// # Errors
    /// `AccessDenied` if it names somebody else, and may not.
    pub(super) fn caller(&self, named: Caller) -> Result<Caller, StatusCode> {
        if self.claims.rights & ACTS_FOR_OTHERS != 0 {
            return Ok(named);
        }
        let (uid, gid) = (self.claims.uid, self.claims.gid);
        match (named.uid, named.gid) == (uid, gid) {
            true => Ok(Caller {
                uid,
                gid,
                groups: self.groups.clone(),
            }),
            false => Err(StatusCode::AccessDenied),
        }
    }

    /// Whether the claims hold at a time.
    fn holds_at(&self, now_ns: u64) -> bool {
        (self.claims.not_before_ns..self.claims.expires_ns).contains(&now_ns)
    }
}

/// See the [module](self).
pub struct Access {
    check: TokenCheck,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    key: Option<DriveKey>,
    /// By the number of the host: that of a guest and 1, or [`OWNER`].
    by_host: BTreeMap<u32, Rc<Authority>>,
    /// The least number of a session that a host may show: that of its newest, or the one behind that of whoever was it before.
    least_session: BTreeMap<u32, u64>,
    revoked: Revoked,
}

/// What has been revoked, so that it cannot be shown again.
#[derive(Default)]
struct Revoked {
    /// Sessions, and when their claims expire, as far as that is known.
    sessions: BTreeMap<u64, u64>,
    /// Users, and until when claims that begin to hold then are none.
    users: BTreeMap<u32, u64>,
    /// No key up to this one counts.
    epoch: Option<u32>,
}

impl Revoked {
    fn contains(&self, claims: &Claims) -> bool {
        let until_ns = self.users.get(&claims.uid);
        self.sessions.contains_key(&claims.session)
            || self.epoch.is_some_and(|epoch| claims.epoch <= epoch)
            || until_ns.is_some_and(|until_ns| claims.not_before_ns <= *until_ns)
    }
}

impl Access {
    /// That of a drive without a key.
    pub(super) fn new(check: TokenCheck) -> Access {
        Access {
            check,
            state: RefCell::default(),
        }
    }

    /// Whether there is a key.
    pub(super) fn has_key(&self) -> bool {
        self.state.borrow().key.is_some()
    }

    /// Whether guests have to show who they are.
    pub(super) fn is_on(&self) -> bool {
        self.check != TokenCheck::Off && self.has_key()
    }

    /// Takes a key.
    ///
    /// # Errors
    /// `InvalidField` if there has been one as new.
    pub(super) fn set_key(&self, key: DriveKey) -> Result<(), StatusCode> {
        let mut state = self.state.borrow_mut();
        if state.key.is_some_and(|before| before.epoch >= key.epoch) {
            return Err(StatusCode::InvalidField);
        }
        state.key = Some(key);
        Ok(())
    }

    /// Takes the claims of a host, in the place of those that it had.
    ///
    /// # Errors
    /// Why they are none.
    pub(super) fn authenticate(
        &self,
        host: u32,
        bytes: &[u8],
        token: Token,
        now_ns: u64,
    ) -> Result<(), StatusCode> {
        let new = parse(bytes, token)?;
        let mut state = self.state.borrow_mut();
        let key = state.key.ok_or(StatusCode::TokenInvalid)?;
        let claims = &new.claims;
        // The code comes first: who cannot make one learns nothing of what else is wrong.
        if !key.token(claims, &new.groups).is(&token) || claims.guest != host {
            return Err(StatusCode::TokenInvalid);
        }
        let least = state.least_session.get(&host).copied().unwrap_or(0);
        // Nobody goes back to who it was, or is who was here before.
        if state.revoked.contains(claims) || claims.session < least {
            return Err(StatusCode::TokenRevoked);
        }
        if claims.epoch != key.epoch {
            return Err(StatusCode::TokenInvalid);
        }
        if !new.holds_at(now_ns) {
            return Err(StatusCode::TokenExpired);
        }
        if claims.rights & !(ACTS_FOR_OTHERS | READS_ONLY) != 0 {
            return Err(StatusCode::InvalidField);
        }
        state.least_session.insert(host, claims.session);
        state.by_host.insert(host, Rc::new(new));
        Ok(())
    }

    /// What looking at a token of this host's takes; nothing where nothing is looked at.
    pub(super) fn work(&self, host: u32) -> Option<Op> {
        let state = self.state.borrow();
        state.by_host.get(&host)?;
        match self.check {
            TokenCheck::Off => None,
            TokenCheck::Cached => Some(Op::TokenCompare),
            TokenCheck::Every => Some(Op::TokenCode),
        }
    }

    /// Who sends a command with this token; nobody in particular, if that is not to be checked.
    ///
    /// # Errors
    /// Why it is not to be done.
    pub(super) fn check(
        &self,
        host: u32,
        token: Token,
        now_ns: u64,
    ) -> Result<Option<Rc<Authority>>, StatusCode> {
        if self.check == TokenCheck::Off {
            return Ok(None);
        }
        let state = self.state.borrow();
        let own = state.by_host.get(&host);
        let (Some(key), Some(own)) = (&state.key, own) else {
            // Without a key everybody is believed; with one, its owner, who has made it.
            let is_believed = state.key.is_none() || host == OWNER;
            return match is_believed && token.is(&Token::NONE) {
                true => Ok(None),
                false => Err(StatusCode::TokenInvalid),
            };
        };
        if !own.token.is(&token) {
            return Err(StatusCode::TokenInvalid);
        }
        if own.is_revoked() {
            return Err(StatusCode::TokenRevoked);
        }
        if !own.holds_at(now_ns) {
            return Err(StatusCode::TokenExpired);
        }
        // What was made with another key cannot be computed anew: it is to be renewed.
        if self.check == TokenCheck::Every {
            match own.claims.epoch == key.epoch {
                true if key.token(&own.claims, &own.groups).is(&token) => {}
                true => return Err(StatusCode::TokenInvalid),
                false => return Err(StatusCode::TokenExpired),
            }
        }
        Ok(Some(own.clone()))
    }

    /// Takes sessions back; gives whose they were.
    pub(super) fn revoke(&self, kind: Revoke, which: u64, now_ns: u64) -> Vec<u32> {
        let mut state = self.state.borrow_mut();
        let State {
            by_host, revoked, ..
        } = &mut *state;
        let is_meant = |claims: &Claims| match kind {
            Revoke::Session => claims.session == which,
            Revoke::User => u64::from(claims.uid) == which,
            Revoke::Epoch => u64::from(claims.epoch) <= which,
        };
        revoked
            .sessions
            .retain(|_, expires_ns| *expires_ns > now_ns);
        match kind {
            Revoke::Session => drop(revoked.sessions.insert(which, u64::MAX)),
            Revoke::User => drop(revoked.users.insert(which as u32, now_ns)),
            Revoke::Epoch => revoked.epoch = revoked.epoch.max(Some(which as u32)),
        }
        let mut hosts = Vec::new();
        for (host, own) in by_host {
            if is_meant(&own.claims) && !own.is_revoked.replace(true) {
                revoked
                    .sessions
                    .insert(own.claims.session, own.claims.expires_ns);
                hosts.push(*host);
            }
        }
        hosts
    }

    /// A host is gone: nobody else is who it was.
    pub(super) fn forget(&self, host: u32) {
        let mut state = self.state.borrow_mut();
        state.by_host.remove(&host);
        if let Some(least) = state.least_session.get_mut(&host) {
            *least = least.saturating_add(1);
        }
    }
}

/// Understands claims, with the groups behind them.
fn parse(bytes: &[u8], token: Token) -> Result<Authority, StatusCode> {
    let (claims, rest) = Claims::read_from_prefix(bytes).map_err(|_| StatusCode::InvalidField)?;
    let count = claims.group_count as usize;
    if count > CLAIM_GROUPS_MAX || rest.len() != 4 * count {
        return Err(StatusCode::InvalidField);
    }
    let mut groups = vec![0_u32; count];
    groups.as_mut_bytes().copy_from_slice(rest);
    Ok(Authority {
        claims,
        groups,
        token,
        is_revoked: Cell::new(false),
    })
}
