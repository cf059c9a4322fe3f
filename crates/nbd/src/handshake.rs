//! The handshake of a connection on its socket, in the time that it may take.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use wharf_runtime::clock::Clock;

use crate::export::ExportInfo;
use crate::negotiate::{Agreed, Negotiation, Step, Tls};
use crate::transport::{Received, Sent, Transport};
use crate::wait::{Interest, wait};

/// Bytes that are received at a time.
const READ_BYTES: usize = 16 << 10;

/// A connection that may send requests.
pub(crate) struct Shaken {
    pub transport: Transport,
    pub agreed: Agreed,
    /// What came after the last option.
    pub input: Vec<u8>,
}

/// What connections are encrypted with.
#[derive(Clone, Default)]
pub(crate) struct Encryption {
    #[cfg(feature = "tls")]
    pub config: Option<crate::tls::TlsConfig>,
    pub rule: Tls,
}

struct Handshake {
    transport: Transport,
    clock: Clock,
    deadline_ns: u64,
}

/// Shakes hands. An error is one of the socket or of a client that broke the rules; none if the client
/// went by itself.
pub(crate) fn shake_hands(
    socket: Arc<OwnedFd>,
    export: &ExportInfo,
    encryption: &Encryption,
    limit_ms: u32,
) -> io::Result<Option<Shaken>> {
    let clock = Clock::start();
    let mut shake = Handshake {
        transport: Transport::Clear(socket.clone()),
        deadline_ns: clock.now_ns() + u64::from(limit_ms) * 1_000_000,
        clock,
    };
    let mut negotiation = Negotiation::new(export, encryption.rule);
    let (mut input, mut out) = (Vec::new(), Vec::new());
    Negotiation::greeting(&mut out);
    loop {
        shake.send(&mut out)?;
        let (taken, step) = negotiation.advance(&input, &mut out);
        input.drain(..taken);
        match step {
            Step::More => {
                shake.send(&mut out)?;
                if !shake.receive(&mut input)? {
                    return Ok(None);
                }
            }
            Step::StartTls => {
                shake.send(&mut out)?;
                shake.start_tls(&socket, encryption)?;
                negotiation.encrypted();
            }
            Step::Transmission(agreed) => {
                shake.send(&mut out)?;
                return Ok(Some(Shaken {
                    transport: shake.transport,
                    agreed,
                    input,
                }));
            }
            Step::Abort => {
                shake.send(&mut out)?;
                return Ok(None);
            }
            Step::Refused(why) => {
                let _ = shake.send(&mut out);
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
    }
}

impl Handshake {
    /// Waits for the socket; an error if the time is over.
    fn wait(&self, interest: Interest) -> io::Result<()> {
        let now_ns = self.clock.now_ns();
        if now_ns >= self.deadline_ns {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut set = [interest.on(self.transport.descriptor())];
        wait(&mut set, Some(self.deadline_ns - now_ns))
    }

    fn send(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let mut sent = 0;
        while sent < out.len() {
            let list = [libc::iovec {
                iov_base: out[sent..].as_mut_ptr().cast(),
                iov_len: out.len() - sent,
            }];
            // SAFETY: the list is of `out`, which stays as it is meanwhile.
            match unsafe { self.transport.send(&list)? } {
                Sent::Bytes(count) => sent += count,
                Sent::Full => self.wait(Interest::Write)?,
            }
        }
        out.clear();
        loop {
            self.transport.flush()?;
            if !self.transport.wants_to_send() {
                return Ok(());
            }
            self.wait(Interest::Write)?;
        }
    }

    /// Receives something; false if the client has gone.
    fn receive(&mut self, input: &mut Vec<u8>) -> io::Result<bool> {
        let mut buffer = [0u8; READ_BYTES];
        loop {
            let list = [libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            }];
            // SAFETY: the list is of `buffer`.
            match unsafe { self.transport.receive(&list, false)? } {
                Received::Bytes(count) => {
                    input.extend_from_slice(&buffer[..count]);
                    return Ok(true);
                }
                Received::End => return Ok(false),
                Received::Empty => self.wait(Interest::Read)?,
            }
        }
    }

    #[cfg(feature = "tls")]
    fn start_tls(&mut self, socket: &Arc<OwnedFd>, encryption: &Encryption) -> io::Result<()> {
        let config = encryption.config.as_ref().expect("it was offered");
        let mut tls = crate::tls::TlsTransport::new(socket.clone(), config)?;
        while !tls.is_ready() {
            let interest = match tls.wants_to_send() {
                true => Interest::Write,
                false => Interest::Read,
            };
            if !tls.go_on()? {
                self.wait(interest)?;
            }
        }
        self.transport = Transport::Tls(Box::new(tls));
        Ok(())
    }

    #[cfg(not(feature = "tls"))]
    fn start_tls(&mut self, socket: &Arc<OwnedFd>, _: &Encryption) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        unreachable!("no TLS was offered on descriptor {}", socket.as_raw_fd())
    }
}
