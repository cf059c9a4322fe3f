//! A client of NBD that does one thing after the other.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const ZEROES: u16 = 6;
/// Bytes of a request.
const STEP_BYTES: usize = 1 << 20;

pub struct Client {
    stream: UnixStream,
    cookie: u64,
    pub size_bytes: u64,
}

impl Client {
    /// Connects, and takes the export without a name.
    pub fn new(socket: &Path) -> Client {
        let mut stream = UnixStream::connect(socket).expect("a server");
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        // Fixed newstyle, no zeros; then the option EXPORT_NAME with an empty name.
        stream.write_all(&3u32.to_be_bytes()).unwrap();
        stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        let mut told = [0; 10];
        stream.read_exact(&mut told).unwrap();
        Client {
            stream,
            cookie: 0,
            size_bytes: u64::from_be_bytes(told[..8].try_into().unwrap()),
        }
    }

    fn ask(&mut self, kind: u16, offset: u64, len: u32, data: &[u8], out: &mut [u8]) {
        let error = self.try_ask(kind, offset, len, data, out);
        assert_eq!(error, 0, "an error of request {kind} at {offset}");
    }

    /// Sends a request, and gives the error of its reply, or 0.
    fn try_ask(&mut self, kind: u16, offset: u64, len: u32, data: &[u8], out: &mut [u8]) -> u32 {
        self.cookie += 1;
        let mut request = Vec::with_capacity(28 + data.len());
        request.extend(0x2560_9513u32.to_be_bytes());
        request.extend(0u16.to_be_bytes());
        request.extend(kind.to_be_bytes());
        request.extend(self.cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(len.to_be_bytes());
        request.extend(data);
        self.stream.write_all(&request).unwrap();
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply[..4], &0x6744_6698u32.to_be_bytes());
        assert_eq!(&reply[8..], &self.cookie.to_be_bytes());
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        if error == 0 {
            self.stream.read_exact(out).unwrap();
        }
        error
    }

    /// Reads a little; false if that is an error.
    pub fn try_read(&mut self, offset: u64, out: &mut [u8]) -> bool {
        self.try_ask(READ, offset, out.len() as u32, &[], out) == 0
    }

    pub fn read(&mut self, offset: u64, out: &mut [u8]) {
        let mut at = offset;
        for piece in out.chunks_mut(STEP_BYTES) {
            self.ask(READ, at, piece.len() as u32, &[], piece);
            at += piece.len() as u64;
        }
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut at = offset;
        for piece in data.chunks(STEP_BYTES) {
            self.ask(WRITE, at, piece.len() as u32, piece, &mut []);
            at += piece.len() as u64;
        }
    }

    pub fn flush(&mut self) {
        self.ask(FLUSH, 0, 0, &[], &mut []);
    }

    pub fn trim(&mut self, offset: u64, len: u32) {
        self.ask(TRIM, offset, len, &[], &mut []);
    }

    pub fn zero(&mut self, offset: u64, len: u32) {
        self.ask(ZEROES, offset, len, &[], &mut []);
    }
}
