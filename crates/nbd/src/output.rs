//! Replies on their way to a client: heads, and the data behind each where it lies.
//!
//! Many replies leave by one system call, a list of pieces, and no data is copied on its way there. What the
//! client does not take stays, and the caller sees to it that this is not too much.

use std::collections::VecDeque;

use crate::buffer::{Buffer, BufferPool};
use crate::export::Lent;
use crate::session::Kind;
use crate::transport::{Sent, Transport};

/// Pieces that one system call takes at most.
const PIECES_MAX: usize = 256;
/// Heads that have left are dropped when they are so many bytes.
const HEADS_BYTES_MAX: usize = 64 << 10;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

enum Piece {
    /// So many bytes of the heads.
    Head(usize),
    /// What is left of a buffer.
    Buffer(Buffer, usize),
    Lent(*const u8, usize),
    Zeros(usize),
}

impl Piece {
    fn left(&self) -> usize {
        match self {
            Piece::Head(len) | Piece::Lent(_, len) | Piece::Zeros(len) => *len,
            Piece::Buffer(buffer, from) => buffer.len() - from,
        }
    }
}

/// A reply that waits to leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reply {
    pub kind: Kind,
    /// Bytes of data that it holds in memory.
    pub held_bytes: u64,
    /// Bytes that the request was about.
    pub bytes: u64,
    pub is_error: bool,
    /// When the request came.
    pub start_ns: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Output {
    heads: Vec<u8>,
    /// Bytes of the heads that have left.
    heads_sent: usize,
    pieces: VecDeque<Piece>,
    /// Where each reply ends, counted in bytes from the first ever.
    ends: VecDeque<(u64, Reply)>,
    queued_bytes: u64,
    sent_bytes: u64,
}

impl Output {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds a head.
    pub(crate) fn head(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.heads.len();
        write(&mut self.heads);
        let len = self.heads.len() - before;
        if let Some(Piece::Head(last)) = self.pieces.back_mut() {
            *last += len;
        } else if len > 0 {
            self.pieces.push_back(Piece::Head(len));
        }
        self.queued_bytes += len as u64;
    }

    pub(crate) fn buffer(&mut self, buffer: Buffer) {
        self.queued_bytes += buffer.len() as u64;
        self.pieces.push_back(Piece::Buffer(buffer, 0));
    }

    /// Adds bytes that are valid until they have left: as long as the export lives.
    pub(crate) fn lent(&mut self, lent: Lent) {
        let piece = match lent {
            Lent::Bytes(pointer, len) => Piece::Lent(pointer, len),
            Lent::Zeros(len) => Piece::Zeros(len),
        };
        self.queued_bytes += piece.left() as u64;
        self.pieces.push_back(piece);
    }

    /// Says that a reply is complete.
    pub(crate) fn end_reply(&mut self, reply: Reply) {
        self.ends.push_back((self.queued_bytes, reply));
    }

    /// Sends as much as the client takes, and tells of replies that have left whole.
    pub(crate) fn send(
        &mut self,
        transport: &mut Transport,
        pool: &mut BufferPool,
        mut left: impl FnMut(Reply),
    ) -> std::io::Result<()> {
        while !self.pieces.is_empty() {
            let mut list = [EMPTY; PIECES_MAX];
            let (count, whole) = self.list(&mut list);
            // SAFETY: heads, buffers and zeros stay where they are while `self` is borrowed; what is
            // lent lives as long as the export, which outlives its connections.
            match unsafe { transport.send(&list[..count])? } {
                Sent::Bytes(sent) => {
                    self.advance(sent, pool);
                    if sent < whole {
                        // The client has no room for more: the next call would say so.
                        break;
                    }
                }
                Sent::Full => break,
            }
        }
        while self
            .ends
            .front()
            .is_some_and(|(at, _)| *at <= self.sent_bytes)
        {
            let (_, reply) = self.ends.pop_front().expect("there is one");
            left(reply);
        }
        Ok(())
    }

    /// Lists the first pieces; gives how many there are, and their bytes.
    fn list(&self, list: &mut [libc::iovec; PIECES_MAX]) -> (usize, usize) {
        let (mut count, mut whole, mut head_at) = (0, 0, self.heads_sent);
        for piece in &self.pieces {
            let (mut pointer, len) = match piece {
                Piece::Head(len) => (self.heads[head_at..].as_ptr(), *len),
                Piece::Buffer(buffer, from) => (buffer[*from..].as_ptr(), buffer.len() - from),
                Piece::Lent(pointer, len) => (*pointer, *len),
                Piece::Zeros(len) => (ZEROS.as_ptr(), *len),
            };
            let zeros = matches!(piece, Piece::Zeros(_));
            if let Piece::Head(len) = piece {
                head_at += len;
            }
            let mut left = len;
            while left > 0 {
                if count == PIECES_MAX {
                    return (count, whole);
                }
                let part = if zeros { left.min(ZEROS.len()) } else { left };
                list[count] = libc::iovec {
                    iov_base: pointer.cast_mut().cast(),
                    iov_len: part,
                };
                count += 1;
                whole += part;
                left -= part;
                if !zeros {
                    pointer = pointer.wrapping_add(part);
                }
            }
        }
        (count, whole)
    }

    fn advance(&mut self, mut sent: usize, pool: &mut BufferPool) {
        self.sent_bytes += sent as u64;
        while let Some(piece) = self.pieces.front_mut() {
            let part = sent.min(piece.left());
            sent -= part;
            match piece {
                Piece::Head(len) => {
                    *len -= part;
                    self.heads_sent += part;
                }
                Piece::Buffer(_, from) => *from += part,
                Piece::Lent(pointer, len) => {
                    *pointer = pointer.wrapping_add(part);
                    *len -= part;
                }
                Piece::Zeros(len) => *len -= part,
            }
            if piece.left() > 0 {
                break;
            }
            if let Some(Piece::Buffer(buffer, _)) = self.pieces.pop_front() {
                pool.give(buffer);
            }
        }
        if self.pieces.is_empty() {
            self.heads.clear();
            self.heads_sent = 0;
        } else if self.heads_sent > HEADS_BYTES_MAX {
            self.heads.drain(..self.heads_sent);
            self.heads_sent = 0;
        }
    }
}

const EMPTY: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};
