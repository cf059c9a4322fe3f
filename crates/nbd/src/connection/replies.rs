//! Replies: from what the seat has answered to the socket.

use super::{Connection, Slot, Turn};
use crate::export::{Answer, Extent, Lent, Outcome};
use crate::output::Reply;
use crate::session::{Kind, Request};

impl Connection {
    /// Puts the reply to a request behind those that wait to leave.
    pub(super) fn reply(
        &mut self,
        turn: &mut Turn<'_>,
        slot: Slot,
        outcome: Outcome,
        held_bytes: u64,
    ) {
        let Slot { request, start_ns } = slot;
        let reply = Reply {
            kind: request.kind,
            held_bytes,
            bytes: request.len,
            is_error: outcome.is_err(),
            start_ns,
        };
        if self.broken {
            if let Ok(Answer::Buffer(buffer)) = outcome {
                turn.pool.give(buffer);
            }
            return self.note(turn, reply);
        }
        let session = &self.session;
        match outcome {
            Err(errno) => self
                .output
                .head(|out| session.reply_error(out, &request, errno)),
            Ok(Answer::Buffer(buffer)) => {
                let Request { offset, len, .. } = request;
                self.output
                    .head(|out| session.reply_data(out, &request, offset, len, true));
                self.output.buffer(buffer);
            }
            Ok(Answer::Extents(extents)) => {
                let extents = within(extents, request.len);
                self.output
                    .head(|out| session.reply_extents(out, &request, &extents));
            }
            Ok(Answer::Nothing) => self.output.head(|out| session.reply_done(out, &request)),
        }
        self.output.end_reply(reply);
    }

    /// Answers a read from memory of the export.
    pub(super) fn reply_lent(&mut self, turn: &mut Turn<'_>, slot: Slot) {
        let Slot { request, start_ns } = slot;
        let (session, output) = (&self.session, &mut self.output);
        let len = request.len;
        if session.may_divide(&request) && !turn.runs.is_empty() {
            let mut offset = request.offset;
            for (index, run) in turn.runs.iter().enumerate() {
                let last = index + 1 == turn.runs.len();
                match *run {
                    Lent::Bytes(_, count) => {
                        let count = count as u64;
                        output.head(|out| session.reply_data(out, &request, offset, count, last));
                        output.lent(*run);
                        offset += count;
                    }
                    Lent::Zeros(count) => {
                        let count = count as u32;
                        output.head(|out| session.reply_hole(out, &request, offset, count, last));
                        offset += u64::from(count);
                    }
                }
            }
        } else {
            output.head(|out| session.reply_data(out, &request, request.offset, len, true));
            turn.runs.iter().for_each(|run| output.lent(*run));
        }
        output.end_reply(Reply {
            kind: Kind::Read,
            held_bytes: 0,
            bytes: len,
            is_error: false,
            start_ns,
        });
    }

    fn note(&mut self, turn: &Turn<'_>, reply: Reply) {
        self.requests -= 1;
        self.bytes -= reply.held_bytes;
        let latency_ns = turn.clock.now_ns().saturating_sub(reply.start_ns);
        turn.meter
            .end(reply.kind, reply.bytes, reply.is_error, latency_ns);
    }

    /// Sends what the client takes.
    pub(crate) fn send(&mut self, turn: &mut Turn<'_>) {
        if self.broken {
            return;
        }
        let (mut requests, mut bytes) = (0, 0);
        let mut now_ns = None;
        let meter = turn.meter;
        let clock = turn.clock;
        let sent = self
            .output
            .send(&mut self.transport, &mut turn.pool, |reply| {
                requests += 1;
                bytes += reply.held_bytes;
                let now_ns = *now_ns.get_or_insert_with(|| clock.now_ns());
                let latency_ns = now_ns.saturating_sub(reply.start_ns);
                meter.end(reply.kind, reply.bytes, reply.is_error, latency_ns);
            });
        self.requests -= requests;
        self.bytes -= bytes;
        if sent.and_then(|()| self.transport.flush()).is_err() {
            self.break_off(turn);
        }
    }
}

/// Extents that lie within `len` bytes, and are there.
fn within(mut extents: Vec<Extent>, len: u64) -> Vec<Extent> {
    let mut left = len;
    for extent in &mut extents {
        extent.len = extent.len.min(left);
        left -= extent.len;
    }
    extents.retain(|extent| extent.len > 0);
    if extents.is_empty() {
        extents.push(Extent::data(len));
    }
    extents
}
