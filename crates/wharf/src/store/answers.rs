//! What the listener does for who has connected and said what it wants.

use std::io::Write;
use std::os::unix::net::UnixStream;

use wharf_host::guest::SharedDesign;
use wharf_wire::file::{DriveKey, Revoke};
use zerocopy::IntoBytes;

use super::guests::Order;
use super::handshake::{self, ATTACH, Ask, DONE, LIST, NEW_KEY, NOT_DONE, RENEW, REVOKE};
use super::listener::{Door, Taken};
use super::peer::Peer;
use super::sessions::SessionRow;

impl<D: SharedDesign> Door<D> {
    /// Does what somebody wants, if it may.
    pub(super) fn answer(&mut self, stream: UnixStream, ask: &Ask) {
        let Ok(peer) = Peer::of(&stream) else {
            return;
        };
        if self.welcome.broker.is_none() && !peer.owns_this() {
            return;
        }
        match ask.what {
            ATTACH => self.admit(stream, peer),
            RENEW => self.renew(&stream, &peer, ask),
            _ if peer.owns_this() => self.serve_owner(&stream, ask),
            _ => {}
        }
    }

    /// Says once more who a guest is, who has proved that it is that guest: it may be somebody else now.
    fn renew(&mut self, mut stream: &UnixStream, peer: &Peer, ask: &Ask) {
        let Some(broker) = &mut self.welcome.broker else {
            return;
        };
        let guest = ask.guest_or_kind;
        let is_same = matches!(
            self.taken.get(guest as usize),
            Some(Taken::By(_, before)) if before.process == peer.process
        );
        let given = broker.given(guest);
        if !is_same || !given.is_some_and(|given| given.token.is(&ask.token)) {
            return;
        }
        // Its clock is to be right when it looks at the claims.
        let _ = self.orders.give(&self.cpu, Order::Clock);
        if let Ok(given) = broker.admit(guest, peer) {
            // If it is gone already, nobody needs to know.
            let _ = stream.write_all(&handshake::claims_bytes(&given));
        }
    }

    /// What only the owner of this process may want, and root.
    fn serve_owner(&mut self, mut stream: &UnixStream, ask: &Ask) {
        let answer = match ask.what {
            LIST => {
                let rows = self.sessions();
                let count = rows.len() as u32;
                [&count.to_ne_bytes(), rows.as_bytes()].concat()
            }
            REVOKE => {
                let kind = Revoke::from_raw(ask.guest_or_kind);
                outcome(kind.is_some_and(|kind| self.does(Order::Revoke(kind, ask.which))))
            }
            NEW_KEY => {
                let broker = self.welcome.broker.as_ref();
                let key = broker.and_then(|broker| broker.next_key().ok());
                let is_done = key.is_some_and(|key| self.change_key(key));
                outcome(is_done)
            }
            _ => return,
        };
        let _ = stream.write_all(&answer);
    }

    /// Whether an order is carried out.
    fn does(&mut self, order: Order) -> bool {
        self.orders.give(&self.cpu, order).is_ok()
    }

    /// Has the drive take a key. Nobody is told who it is by one that it has not taken.
    fn change_key(&mut self, key: DriveKey) -> bool {
        let is_taken = self.does(Order::Key(key));
        if let Some(broker) = self.welcome.broker.as_mut().filter(|_| is_taken) {
            broker.use_key(key);
        }
        is_taken
    }

    fn sessions(&self) -> Vec<SessionRow> {
        let broker = self.welcome.broker.iter();
        let row = |(guest, taken): (u32, &Taken)| {
            let Taken::By(_, peer) = taken else {
                return None;
            };
            let given = broker.clone().find_map(|broker| broker.given(guest))?;
            let claims = &given.claims;
            Some(SessionRow {
                session: claims.session,
                expires_ns: claims.expires_ns,
                process: peer.process,
                uid: claims.uid,
                gid: claims.gid,
                rights: claims.rights,
            })
        };
        (0..).zip(&self.taken).filter_map(row).collect()
    }
}

/// What is said of what is done, or is not.
fn outcome(is_done: bool) -> Vec<u8> {
    let outcome = if is_done { DONE } else { NOT_DONE };
    outcome.to_ne_bytes().to_vec()
}
