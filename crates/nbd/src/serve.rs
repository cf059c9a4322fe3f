//! The loop of a thread that serves: connections on one side, a seat on the other.
//!
//! Each turn takes in what has come, lets the seat go on, sends what has ended, and waits. A thread with one
//! connection and nothing under way waits in the call that receives: a request then costs two
//! system calls, one in and one out.

use std::sync::{Mutex, PoisonError};

use crate::connection::{Connection, Turn};
use crate::export::Waiting;
use crate::wait::{Bell, Interest, wait};

/// Connections on their way to a thread that serves many.
#[derive(Debug)]
pub(crate) struct Mailbox {
    bell: Bell,
    state: Mutex<Arrivals>,
}

#[derive(Default)]
struct Arrivals {
    connections: Vec<Box<dyn FnOnce() -> Connection + Send>>,
    closed: bool,
}

impl std::fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} arrivals", self.connections.len())
    }
}

impl Mailbox {
    pub(crate) fn new() -> std::io::Result<Mailbox> {
        Ok(Mailbox {
            bell: Bell::new()?,
            state: Mutex::default(),
        })
    }

    /// Sends a connection, which is made by the thread that gets it.
    pub(crate) fn send(&self, make: Box<dyn FnOnce() -> Connection + Send>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.connections.push(make);
        drop(state);
        self.bell.ring();
    }

    /// Says that there will be no more.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        drop(state);
        self.bell.ring();
    }

    /// What has come, and whether that was all.
    fn take(&self) -> (Vec<Box<dyn FnOnce() -> Connection + Send>>, bool) {
        self.bell.silence();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut state.connections), state.closed)
    }
}

/// Serves until all connections have ended, and the mailbox was closed if there is one. `ended` hears of each.
pub(crate) fn serve(
    turn: &mut Turn<'_>,
    first: Option<Connection>,
    mailbox: Option<&Mailbox>,
    ended: &mut dyn FnMut(&Connection),
) {
    let mut connections: Vec<Option<Connection>> = Vec::new();
    connections.extend(first.map(Some));
    let mut set = Vec::new();
    let mut ready = vec![true; connections.len()];
    let mut is_open = mailbox.is_some();
    let mut has_mail = is_open;
    loop {
        if let Some(mailbox) = mailbox.filter(|_| has_mail) {
            let (arrived, closed) = mailbox.take();
            arrived
                .into_iter()
                .for_each(|make| admit(make(), &mut connections, &mut ready));
            is_open = !closed;
        }
        take_in(turn, &mut connections, &ready, mailbox.is_none());
        let mut outcomes = Vec::new();
        turn.seat
            .poll(&mut |tag, outcome| outcomes.push((tag, outcome)));
        for (tag, outcome) in outcomes {
            let connection = connections[tag.connection as usize].as_mut();
            connection
                .expect("a connection stays while its requests are under way")
                .finish(turn, tag.slot, outcome);
        }
        for place in &mut connections {
            let Some(connection) = place else { continue };
            if connection.wants_to_send() {
                connection.send(turn);
            }
            if connection.is_done() {
                ended(connection);
                *place = None;
            }
        }
        if !is_open && connections.iter().all(Option::is_none) {
            return;
        }
        has_mail = rest(turn, &mut connections, mailbox, &mut set, &mut ready);
    }
}

fn admit(mut connection: Connection, all: &mut Vec<Option<Connection>>, ready: &mut Vec<bool>) {
    let place = all.iter().position(Option::is_none).unwrap_or(all.len());
    connection.set_number(place as u32);
    if place == all.len() {
        all.push(None);
        ready.push(true);
    }
    all[place] = Some(connection);
    ready[place] = true;
}

/// Takes in what has come. A connection that is alone on its thread, with nothing under way, waits for it there.
fn take_in(
    turn: &mut Turn<'_>,
    connections: &mut [Option<Connection>],
    ready: &[bool],
    alone: bool,
) {
    for (place, ready) in connections.iter_mut().zip(ready) {
        let Some(connection) = place else { continue };
        if *ready || connection.has_input(&turn.limits) {
            let waits = alone && may_wait(turn, connection);
            connection.receive(turn, waits);
        }
    }
}

/// Whether a connection that is alone may sleep until something comes from its client.
fn may_wait(turn: &Turn<'_>, connection: &Connection) -> bool {
    connection.is_idle()
        && connection.transport.can_wait()
        && !connection.has_input(&turn.limits)
        && turn.seat.waiting() == Waiting::Nothing
}

/// Waits until there is something to do, and notes which connections have input. True if there is mail.
fn rest(
    turn: &mut Turn<'_>,
    connections: &mut [Option<Connection>],
    mailbox: Option<&Mailbox>,
    set: &mut Vec<libc::pollfd>,
    ready: &mut [bool],
) -> bool {
    if let ([Some(connection)], None) = (&*connections, mailbox)
        && connection.wants_input(&turn.limits)
        && may_wait(turn, connection)
    {
        ready[0] = true;
        return false;
    }
    set.clear();
    for connection in connections.iter() {
        // A descriptor of -1 is passed over.
        set.push(match connection {
            Some(c) if !c.is_broken() => {
                let interest = match (c.wants_input(&turn.limits), c.wants_to_send()) {
                    (true, true) => Interest::Both,
                    (true, false) => Interest::Read,
                    (false, true) => Interest::Write,
                    (false, false) => Interest::Neither,
                };
                interest.on(c.transport.descriptor())
            }
            _ => Interest::Neither.on(-1),
        });
    }
    let has_input = |c: &Connection| c.has_input(&turn.limits);
    let mut limit_ns = match connections.iter().flatten().any(has_input) {
        true => Some(0),
        false => None,
    };
    match turn.seat.waiting() {
        Waiting::Nothing => {}
        Waiting::For(descriptors, limit_us) => {
            let descriptors = descriptors.into_iter().flatten();
            set.extend(descriptors.map(|fd| Interest::Read.on(fd)));
            limit_ns = limit_ns.or(limit_us.map(|us| u64::from(us) * 1000));
        }
        Waiting::Busy => limit_ns = Some(0),
    }
    let mail = set.len();
    set.extend(mailbox.map(|mailbox| Interest::Read.on(mailbox.bell.descriptor())));
    wait(set, limit_ns).expect("descriptors that are open can be waited for");
    for ((place, entry), ready) in connections.iter_mut().zip(&*set).zip(&mut *ready) {
        let gone = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
        *ready = entry.revents & (libc::POLLIN | gone) != 0;
        if let Some(connection) = place
            && entry.revents & gone != 0
            && !connection.wants_input(&turn.limits)
        {
            connection.break_off(turn);
        }
    }
    set.get(mail).is_some_and(|entry| entry.revents != 0)
}
