//! A socket with TLS, by rustls.
//!
//! Encryption copies every byte, so nothing is received in place here, and what is lent is copied out as the
//! atomics that it is.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;

use rustix::net::{RecvFlags, SendFlags};
use rustls::{ServerConfig, ServerConnection};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::memory::load;
use crate::transport::{Received, Sent};

/// Bytes that are encrypted at a time.
const PIECE_BYTES: usize = 16 << 10;

/// A server's certificate and key.
#[derive(Clone)]
pub struct TlsConfig(Arc<ServerConfig>);

impl TlsConfig {
    /// Reads `server-cert.pem` and `server-key.pem` of a directory, the names that other NBD programs
    /// use.
    ///
    /// # Errors
    /// If they are not there or do not fit each other, in a line for people.
    pub fn load(directory: &Path) -> Result<TlsConfig, String> {
        let cert_path = directory.join("server-cert.pem");
        let key_path = directory.join("server-key.pem");
        let of = |path: &Path| {
            let shown = path.display().to_string();
            move |error: rustls_pki_types::pem::Error| format!("{shown}: {error}")
        };
        let certificates = CertificateDer::pem_file_iter(&cert_path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(of(&cert_path))?;
        if certificates.is_empty() {
            return Err(format!("{}: holds no certificate", cert_path.display()));
        }
        let key = PrivateKeyDer::from_pem_file(&key_path).map_err(of(&key_path))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(certificates, key)
            })
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        Ok(TlsConfig(Arc::new(config)))
    }
}

/// The socket as what rustls reads from and writes to, without waiting.
struct Bare<'a>(&'a OwnedFd);

impl Read for Bare<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(self.0, out, RecvFlags::DONTWAIT)?;
        Ok(count)
    }
}

impl Write for Bare<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::send(self.0, data, flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// See the module.
pub(crate) struct TlsTransport {
    socket: Arc<OwnedFd>,
    connection: ServerConnection,
    /// Decrypted bytes that wait to be taken.
    plain_bytes: usize,
    scratch: Box<[u8]>,
}

impl TlsTransport {
    pub(crate) fn new(socket: Arc<OwnedFd>, config: &TlsConfig) -> io::Result<TlsTransport> {
        let connection = ServerConnection::new(config.0.clone()).map_err(io::Error::other)?;
        Ok(TlsTransport {
            socket,
            connection,
            plain_bytes: 0,
            scratch: vec![0; PIECE_BYTES].into_boxed_slice(),
        })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.plain_bytes > 0
    }

    pub(crate) fn wants_to_send(&self) -> bool {
        self.connection.wants_write()
    }

    /// Whether hands are shaken.
    pub(crate) fn is_ready(&self) -> bool {
        !self.connection.is_handshaking() && !self.connection.wants_write()
    }

    /// Goes on with the handshake of TLS; false if the socket has to be waited for.
    pub(crate) fn go_on(&mut self) -> io::Result<bool> {
        if self.connection.wants_write() {
            self.flush()?;
            return Ok(!self.connection.wants_write());
        }
        match self.take_in()? {
            Received::Bytes(_) => Ok(true),
            Received::End => Err(io::ErrorKind::UnexpectedEof.into()),
            Received::Empty => Ok(false),
        }
    }

    /// Takes encrypted bytes from the socket and decrypts them.
    fn take_in(&mut self) -> io::Result<Received> {
        let count = match self.connection.read_tls(&mut Bare(&self.socket)) {
            Ok(0) => return Ok(Received::End),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::Empty),
            Err(error) => return Err(error),
        };
        match self.connection.process_new_packets() {
            Ok(state) => self.plain_bytes = state.plaintext_bytes_to_read(),
            Err(error) => {
                // The client is told, if it can be.
                let _ = self.flush();
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        Ok(Received::Bytes(count))
    }

    /// Receives into the last piece of the list, which is ordinary memory.
    ///
    /// # Safety
    /// The memory of that piece may be written, and nobody else has a reference to it.
    pub(crate) unsafe fn receive(&mut self, list: &[libc::iovec]) -> io::Result<Received> {
        let piece = list.last().expect("somewhere to put it");
        // SAFETY: the caller's promise.
        let out = unsafe { std::slice::from_raw_parts_mut(piece.iov_base.cast(), piece.iov_len) };
        while self.plain_bytes == 0 {
            match self.take_in()? {
                Received::Bytes(_) => {}
                nothing => return Ok(nothing),
            }
        }
        match self.connection.reader().read(out) {
            Ok(count) => {
                self.plain_bytes -= count.min(self.plain_bytes);
                Ok(Received::Bytes(count))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Received::Empty),
            Err(error) => Err(error),
        }
    }

    /// Encrypts from the list and sends, as long as the socket takes it.
    ///
    /// # Safety
    /// The memory of the list may be read, as atomics.
    pub(crate) unsafe fn send(&mut self, list: &[libc::iovec]) -> io::Result<Sent> {
        let mut sent = 0;
        for piece in list {
            let (start, len) = (piece.iov_base.cast::<u8>().cast_const(), piece.iov_len);
            let mut at = 0;
            while at < len {
                self.flush()?;
                if self.connection.wants_write() {
                    return Ok(if sent == 0 {
                        Sent::Full
                    } else {
                        Sent::Bytes(sent)
                    });
                }
                let part = (len - at).min(PIECE_BYTES);
                load(start.wrapping_add(at), &mut self.scratch[..part]);
                let taken = self.connection.writer().write(&self.scratch[..part])?;
                (at, sent) = (at + taken, sent + taken);
            }
        }
        self.flush()?;
        Ok(Sent::Bytes(sent))
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Bare(&self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for TlsTransport {
    fn drop(&mut self) {
        // A client that is still there learns that nothing was cut off.
        self.connection.send_close_notify();
        let _ = self.flush();
    }
}
