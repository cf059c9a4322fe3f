//! Processes that have connected and have not said yet what they want.
//!
//! Who says nothing holds a descriptor, and keeps nobody out: when there are too many, the one that has been there longest has
//! to go.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;

use zerocopy::{FromZeros, IntoBytes};

use super::handshake::Ask;

/// As many as that: of processes that start together, some have connected and do not run yet.
const WAITING_MAX: usize = 256;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Asks(VecDeque<UnixStream>);

impl Asks {
    /// One more has connected. Its socket does not block.
    pub(super) fn put(&mut self, stream: UnixStream) {
        if self.0.len() == WAITING_MAX {
            self.0.pop_front();
        }
        self.0.push_back(stream);
    }

    /// All of them.
    pub(super) fn streams(&self) -> impl Iterator<Item = &UnixStream> {
        self.0.iter()
    }

    /// Takes out who has said what it wants, with that. Who has gone, or is not understood, is sent away.
    pub(super) fn take_ready(&mut self) -> Vec<(UnixStream, Ask)> {
        let mut ready = Vec::new();
        for stream in std::mem::take(&mut self.0) {
            let mut ask = Ask::new_zeroed();
            match (&stream).read(ask.as_mut_bytes()) {
                // It is written in one go, and so it comes.
                Ok(bytes) if bytes == size_of::<Ask>() && ask.is_understood() => {
                    ready.push((stream, ask));
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
                {
                    self.0.push_back(stream);
                }
                Ok(_) | Err(_) => {}
            }
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn pair() -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (ours, theirs)
    }

    #[test]
    fn who_says_nothing_keeps_nobody_out() {
        let mut asks = Asks::default();
        let silent: Vec<_> = (0..3 * WAITING_MAX)
            .map(|_| {
                let (ours, theirs) = pair();
                asks.put(ours);
                theirs
            })
            .collect();
        let (ours, mut theirs) = pair();
        asks.put(ours);
        assert!(asks.take_ready().is_empty());
        assert_eq!(asks.streams().count(), WAITING_MAX);
        theirs.write_all(Ask::attach().as_bytes()).unwrap();
        let ready = asks.take_ready();
        assert_eq!((ready.len(), asks.streams().count()), (1, WAITING_MAX - 1));
        drop(silent);
        assert!(asks.take_ready().is_empty());
        assert_eq!(asks.streams().count(), 0);
    }

    #[test]
    fn who_is_not_understood_is_sent_away() {
        let mut asks = Asks::default();
        for said in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &[0; 32],
            &[1; 7],
            &[0; 4096],
        ] {
            let (ours, mut theirs) = pair();
            asks.put(ours);
            theirs.write_all(said).unwrap();
            assert!(asks.take_ready().is_empty());
            assert_eq!(asks.streams().count(), 0);
            assert!(matches!(theirs.read(&mut [0]), Ok(0) | Err(_)));
        }
    }
}
