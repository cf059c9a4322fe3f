//! A connection after its handshake: requests from the socket to the seat, replies from there to the socket.
//!
//! The walk of a request:
//!
//! 1. [`Connection::receive`] takes from the socket what is there, many requests at a time.
//! 2. `process` parses them one by one ([`Session`]). The payload of a write goes where the seat wants
//!    it: a small one came with its header and is copied, what has not come yet is received in place.
//! 3. The seat begins the job. What is in memory is lent and answered at once; else it ends later, and
//!    [`Connection::finish`] is told.
//! 4. The reply goes to the [`Output`]; [`Connection::send`] sends all that there are by one call (`replies.rs`).
//!
//! Nothing is read while as many requests are under way, or wait to leave, as the limits say: a
//! client that does not take its replies holds up nobody but itself.

mod replies;

use crate::buffer::{Buffer, BufferPool};
use crate::export::{Data, Job, Lent, Outcome, Seat, Tag};
use crate::limits::Limits;
use crate::metrics::Meter;
use crate::output::Output;
use crate::proto::{Errno, command_flag};
use crate::session::{Broken, Kind, Parsed, Request, Session};
use crate::transport::{Received, Transport};
use wharf_runtime::clock::Clock;

/// Bytes that are received at a time, where requests are small: the more, the fewer calls.
const WINDOW_BYTES: usize = 128 << 10;
/// The same where payloads are large: headers, and the little of a payload that is copied.
const WINDOW_LARGE_BYTES: usize = 1 << 10;
/// A payload of so many bytes is large.
const LARGE_BYTES: u64 = 16 << 10;

/// What a thread that serves has for all its connections.
pub(crate) struct Turn<'a> {
    pub seat: Box<dyn Seat + 'a>,
    pub pool: BufferPool,
    pub meter: &'a Meter,
    pub clock: Clock,
    pub limits: Limits,
    pub runs: Vec<Lent>,
}

/// What the input holds next.
enum Incoming {
    Header,
    /// The payload of the request in a slot, of which so many bytes are there.
    Payload(u32, Place, usize),
    /// So many bytes that are dropped, before a request is refused.
    Skip(Request, Errno, u64, u64),
}

/// Where a payload goes.
enum Place {
    /// Memory of the export.
    Export(*mut u8, usize),
    Buffer(Buffer),
}

impl Place {
    fn pointer(&mut self) -> *mut u8 {
        match self {
            Place::Export(pointer, _) => *pointer,
            Place::Buffer(buffer) => buffer.as_mut_ptr(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Place::Export(_, len) => *len,
            Place::Buffer(buffer) => buffer.len(),
        }
    }

    /// Copies a part of the payload.
    fn copy(&mut self, at: usize, from: &[u8]) {
        match self {
            Place::Export(pointer, len) => {
                assert!(at + from.len() <= *len, "within the payload");
                crate::memory::store(pointer.wrapping_add(at), from);
            }
            Place::Buffer(buffer) => buffer[at..][..from.len()].copy_from_slice(from),
        }
    }

    fn data(self) -> Data {
        match self {
            Place::Export(_, len) => Data::Placed(len),
            Place::Buffer(buffer) => Data::Buffer(buffer),
        }
    }
}

/// A request that is under way.
#[derive(Clone, Copy)]
struct Slot {
    request: Request,
    start_ns: u64,
}

/// See the module.
pub(crate) struct Connection {
    number: u32,
    pub transport: Transport,
    session: Session,
    input: Box<[u8]>,
    /// The bytes of the input that are not parsed yet.
    unparsed: (usize, usize),
    window_bytes: usize,
    incoming: Incoming,
    output: Output,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Requests that are with the seat.
    in_seat: u32,
    /// Requests whose replies have not left, and their bytes.
    requests: u32,
    bytes: u64,
    reading: bool,
    broken: bool,
    why: Option<Broken>,
    now_ns: u64,
    on_end: Option<Box<dyn FnOnce()>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(on_end) = self.on_end.take() {
            on_end();
        }
    }
}

impl Connection {
    /// A connection that agreed on `session`; `input` has come already.
    pub(crate) fn new(transport: Transport, session: Session, input: &[u8]) -> Connection {
        let mut buffer = vec![0; WINDOW_BYTES.max(input.len())].into_boxed_slice();
        buffer[..input.len()].copy_from_slice(input);
        Connection {
            number: 0,
            transport,
            session,
            input: buffer,
            unparsed: (0, input.len()),
            window_bytes: WINDOW_BYTES,
            incoming: Incoming::Header,
            output: Output::default(),
            slots: Vec::new(),
            free: Vec::new(),
            in_seat: 0,
            requests: 0,
            bytes: 0,
            reading: true,
            broken: false,
            why: None,
            now_ns: 0,
            on_end: None,
        }
    }

    /// Says what is to be done when it has ended.
    pub(crate) fn on_end(&mut self, f: impl FnOnce() + 'static) {
        self.on_end = Some(Box::new(f));
    }

    /// Gives it its number among the connections of its thread.
    pub(crate) fn set_number(&mut self, number: u32) {
        self.number = number;
    }

    /// Whether it may take requests in.
    pub(crate) fn wants_input(&self, limits: &Limits) -> bool {
        // A payload that was begun is taken in: it is counted already.
        let begun = !matches!(self.incoming, Incoming::Header);
        self.reading && !self.broken && (begun || !self.is_full(limits))
    }

    /// Whether replies wait to leave.
    pub(crate) fn wants_to_send(&self) -> bool {
        !self.broken && (!self.output.is_empty() || self.transport.wants_to_send())
    }

    /// Whether it has bytes to look at, of which the socket knows nothing.
    pub(crate) fn has_input(&self, limits: &Limits) -> bool {
        let whole = match self.incoming {
            Incoming::Header => self.session.parse(self.unparsed()).0 > 0,
            _ => self.unparsed.0 < self.unparsed.1,
        };
        self.wants_input(limits) && (whole || self.transport.has_pending())
    }

    /// Whether nothing is under way and all replies have left.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_seat == 0 && (self.broken || !self.wants_to_send())
    }

    /// Whether it has ended.
    pub(crate) fn is_done(&self) -> bool {
        self.is_idle() && (self.broken || !self.reading)
    }

    /// Whether it is of no use to look at its socket.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Why it was closed, if the client's bytes were at fault.
    pub(crate) fn why(&self) -> Option<Broken> {
        self.why
    }

    /// Ends it without further replies: the client is gone.
    pub(crate) fn break_off(&mut self, turn: &mut Turn<'_>) {
        self.broken = true;
        self.stop_reading(turn);
    }

    fn is_full(&self, limits: &Limits) -> bool {
        self.requests >= limits.requests || (self.bytes >= limits.bytes && self.requests > 0)
    }

    fn unparsed(&self) -> &[u8] {
        &self.input[self.unparsed.0..self.unparsed.1]
    }

    fn stop_reading(&mut self, turn: &mut Turn<'_>) {
        self.reading = false;
        self.unparsed = (0, 0);
        // A payload that was cut short is a write that was never acknowledged; what came of it is in place.
        if let Incoming::Payload(slot, place, _) =
            std::mem::replace(&mut self.incoming, Incoming::Header)
        {
            let Slot { request, .. } = self.take_slot(slot);
            self.requests -= 1;
            self.bytes -= request.len;
            match place {
                Place::Buffer(buffer) => turn.pool.give(buffer),
                placed @ Place::Export(..) => {
                    let job = Job::Write {
                        offset: request.offset,
                        data: placed.data(),
                        fua: false,
                    };
                    // Exports that have places end their writes at once.
                    let _ = turn.seat.begin(self.tag(slot), job);
                }
            }
            turn.meter.end(Kind::Write, 0, true, 0);
        }
    }

    /// Takes in what has come; waits for something if `waits`.
    pub(crate) fn receive(&mut self, turn: &mut Turn<'_>, waits: bool) {
        if !self.wants_input(&turn.limits) {
            return;
        }
        if self.unparsed.0 < self.unparsed.1 && !self.needs_more() {
            self.now_ns = turn.clock.now_ns();
            self.process(turn);
            if !self.wants_input(&turn.limits) {
                return;
            }
        }
        // What is left is a part of a header.
        let (start, end) = self.unparsed;
        if start > 0 {
            self.input.copy_within(start..end, 0);
            self.unparsed = (0, end - start);
        }
        let filled = self.unparsed.1;
        let window_end = self
            .window_bytes
            .max(filled + WINDOW_LARGE_BYTES / 2)
            .min(self.input.len());
        let rest = libc::iovec {
            iov_base: self.input[filled..].as_mut_ptr().cast(),
            iov_len: window_end - filled,
        };
        let mut place_left = 0;
        let mut list = [rest, rest];
        let list = match &mut self.incoming {
            // What is decrypted is copied anyway.
            Incoming::Payload(_, place, got) if self.transport.can_wait() => {
                place_left = place.len() - *got;
                list[0] = libc::iovec {
                    iov_base: place.pointer().wrapping_add(*got).cast(),
                    iov_len: place_left,
                };
                &list[..]
            }
            _ => &list[..1],
        };
        // SAFETY: the place is memory that the seat gave for this payload or a buffer of ours, of which
        // `place_left` bytes are missing; the rest is our input buffer.
        let received = unsafe { self.transport.receive(list, waits) };
        self.now_ns = turn.clock.now_ns();
        match received {
            Ok(Received::Bytes(count)) => {
                let placed = count.min(place_left);
                self.unparsed.1 += count - placed;
                if let Incoming::Payload(_, _, got) = &mut self.incoming {
                    *got += placed;
                }
                self.process(turn);
            }
            Ok(Received::Empty) => {}
            Ok(Received::End) => self.stop_reading(turn),
            Err(_) => self.break_off(turn),
        }
    }

    /// Whether what is not parsed is less than a header.
    fn needs_more(&self) -> bool {
        matches!(self.incoming, Incoming::Header) && self.session.parse(self.unparsed()).0 == 0
    }

    /// Goes through what has come, as far as the limits allow.
    fn process(&mut self, turn: &mut Turn<'_>) {
        loop {
            match &mut self.incoming {
                Incoming::Header => {
                    if !self.wants_input(&turn.limits) || !self.header(turn) {
                        return;
                    }
                }
                Incoming::Skip(request, errno, left, dropped) => {
                    let here = (self.unparsed.1 - self.unparsed.0) as u64;
                    let count = here.min(*left);
                    (*left, *dropped) = (*left - count, *dropped + count);
                    self.unparsed.0 += count as usize;
                    if *left > 0 {
                        return;
                    }
                    let (request, errno) = (*request, *errno);
                    self.incoming = Incoming::Header;
                    self.refuse(turn, request, errno);
                }
                Incoming::Payload(_, place, got) => {
                    let (start, end) = self.unparsed;
                    let count = (end - start).min(place.len() - *got);
                    place.copy(*got, &self.input[start..start + count]);
                    *got += count;
                    self.unparsed.0 += count;
                    if *got < place.len() {
                        return;
                    }
                    let whole = std::mem::replace(&mut self.incoming, Incoming::Header);
                    let Incoming::Payload(slot, place, _) = whole else {
                        unreachable!("it was just looked at")
                    };
                    self.write(turn, slot, place.data());
                }
            }
        }
    }

    /// Takes a header; false if there is none, or nothing more is read.
    fn header(&mut self, turn: &mut Turn<'_>) -> bool {
        let (taken, parsed) = self.session.parse(self.unparsed());
        self.unparsed.0 += taken;
        match parsed {
            Parsed::More => return false,
            Parsed::Request(request) => self.begin(turn, request),
            Parsed::Refused(request, errno, 0) => self.refuse(turn, request, errno),
            Parsed::Refused(request, errno, payload) => {
                self.incoming = Incoming::Skip(request, errno, payload, 0);
            }
            Parsed::Disconnect => {
                self.stop_reading(turn);
                return false;
            }
            Parsed::Broken(why) => {
                self.why = Some(why);
                self.break_off(turn);
                return false;
            }
        }
        true
    }

    fn refuse(&mut self, turn: &mut Turn<'_>, request: Request, errno: Errno) {
        turn.meter.begin(request.kind);
        self.requests += 1;
        let start_ns = self.now_ns;
        self.reply(turn, Slot { request, start_ns }, Err(errno), 0);
    }

    fn tag(&self, slot: u32) -> Tag {
        Tag {
            connection: self.number,
            slot,
        }
    }

    fn take_slot(&mut self, number: u32) -> Slot {
        self.free.push(number);
        self.slots[number as usize].take().expect("it is under way")
    }

    fn new_slot(&mut self, request: Request) -> u32 {
        let slot = Some(Slot {
            request,
            start_ns: self.now_ns,
        });
        match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = slot;
                number
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        }
    }

    fn begin(&mut self, turn: &mut Turn<'_>, request: Request) {
        turn.meter.begin(request.kind);
        self.requests += 1;
        let Request { offset, len, .. } = request;
        let fua = request.has(command_flag::FUA);
        let job = match request.kind {
            Kind::Read => {
                turn.runs.clear();
                if turn.seat.lend(offset, len as usize, &mut turn.runs) {
                    let start_ns = self.now_ns;
                    return self.reply_lent(turn, Slot { request, start_ns });
                }
                self.bytes += len;
                let buffer = turn.pool.take(len as usize);
                Job::Read { offset, buffer }
            }
            Kind::Write => {
                self.bytes += len;
                self.window_bytes = match len >= LARGE_BYTES {
                    true => WINDOW_LARGE_BYTES,
                    false => WINDOW_BYTES,
                };
                let place = match turn.seat.place(offset, len as usize) {
                    Some(pointer) => Place::Export(pointer, len as usize),
                    None => Place::Buffer(turn.pool.take(len as usize)),
                };
                let slot = self.new_slot(request);
                self.incoming = Incoming::Payload(slot, place, 0);
                return;
            }
            Kind::Flush => Job::Flush,
            Kind::Trim => Job::Trim { offset, len, fua },
            Kind::Zero => Job::Zero {
                offset,
                len,
                no_hole: request.has(command_flag::NO_HOLE),
                fast: request.has(command_flag::FAST_ZERO),
                fua,
            },
            Kind::Cache => Job::Cache { offset, len },
            Kind::Status => Job::Status {
                offset,
                len,
                extents_max: Session::extents_max(&request),
            },
        };
        let slot = self.new_slot(request);
        self.hand_over(turn, slot, job);
    }

    fn write(&mut self, turn: &mut Turn<'_>, slot: u32, data: Data) {
        let request = self.slots[slot as usize].expect("it is under way").request;
        let job = Job::Write {
            offset: request.offset,
            data,
            fua: request.has(command_flag::FUA),
        };
        self.hand_over(turn, slot, job);
    }

    fn hand_over(&mut self, turn: &mut Turn<'_>, slot: u32, job: Job) {
        self.in_seat += 1;
        if let Some(outcome) = turn.seat.begin(self.tag(slot), job) {
            self.finish(turn, slot, outcome);
        }
    }

    /// Answers a request whose job has ended.
    pub(crate) fn finish(&mut self, turn: &mut Turn<'_>, slot: u32, outcome: Outcome) {
        self.in_seat -= 1;
        let slot = self.take_slot(slot);
        let held = match slot.request.kind {
            Kind::Read | Kind::Write => slot.request.len,
            _ => 0,
        };
        self.reply(turn, slot, outcome, held);
    }
}
