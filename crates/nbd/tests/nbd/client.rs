//! A client of a few lines, written from the specification alone, and a server for it to talk to.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wharf_nbd::{Export, Limits, Listener, MemoryExport, Server, ServerOptions};

/// How long the client waits for anything before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

pub const OPT_EXPORT_NAME: u32 = 1;
pub const OPT_ABORT: u32 = 2;
pub const OPT_LIST: u32 = 3;
pub const OPT_STARTTLS: u32 = 5;
pub const OPT_INFO: u32 = 6;
pub const OPT_GO: u32 = 7;
pub const OPT_STRUCTURED: u32 = 8;
pub const OPT_LIST_META: u32 = 9;
pub const OPT_SET_META: u32 = 10;
pub const OPT_EXTENDED: u32 = 11;

pub const REP_ACK: u32 = 1;
pub const REP_SERVER: u32 = 2;
pub const REP_INFO: u32 = 3;
pub const REP_META: u32 = 4;
pub const ERR: u32 = 1 << 31;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const ZEROES: u16 = 6;
pub const STATUS: u16 = 7;

pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 2;
pub const DF: u16 = 4;
pub const REQ_ONE: u16 = 8;
pub const FAST_ZERO: u16 = 16;
pub const PAYLOAD_LEN: u16 = 32;

pub const EPERM: u32 = 1;
pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const ENOTSUP: u32 = 95;

/// A server at a socket of its own.
pub struct Place {
    folder: tempfile::TempDir,
    pub server: Option<Server>,
}

impl Place {
    pub fn serving(export: Arc<dyn Export>, limits: Limits) -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = Listener::unix(&folder.path().join("socket")).expect("a socket");
        let mut options = ServerOptions::new(vec![listener], export);
        options.limits = limits;
        let server = Server::start(options).expect("a server");
        Place {
            folder,
            server: Some(server),
        }
    }

    pub fn memory(size_bytes: u64) -> Place {
        let export = MemoryExport::new("", size_bytes, false).expect("memory");
        Place::serving(Arc::new(export), Limits::default())
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub fn connect(&self) -> Client {
        let socket = UnixStream::connect(self.path()).expect("somebody listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time");
        socket.set_write_timeout(Some(PATIENCE)).expect("a time");
        Client {
            socket,
            structured: false,
            extended: false,
        }
    }

    /// A client that has chosen the export, with replies in chunks and a context if so.
    pub fn client(&self, structured: bool, context: bool) -> Client {
        let mut client = self.connect();
        client.greet(3);
        if structured {
            assert_eq!(client.option(OPT_STRUCTURED, b""), [(REP_ACK, vec![])]);
            client.structured = true;
        }
        if context {
            let replies = client.option(OPT_SET_META, &meta("", &["base:allocation"]));
            assert_eq!(replies.len(), 2, "{replies:?}");
        }
        client.go("");
        client
    }

    pub fn stop(mut self) -> Result<(), String> {
        self.server.take().expect("it runs").stop()
    }
}

pub struct Client {
    pub socket: UnixStream,
    pub structured: bool,
    pub extended: bool,
}

/// A reply as a whole.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    /// Pieces of data with their offsets; zeros of holes included.
    pub data: Vec<(u64, Vec<u8>)>,
    /// Of which so many were holes.
    pub holes: usize,
    /// Length and flags.
    pub extents: Vec<(u64, u64)>,
}

impl Reply {
    /// The data of a read of `len` bytes from `offset` on, which must be there whole.
    pub fn bytes(&self, offset: u64, len: usize) -> Vec<u8> {
        assert_eq!(self.error, 0);
        let mut all = vec![None; len];
        for (at, data) in &self.data {
            for (index, byte) in data.iter().enumerate() {
                let place = &mut all[(at - offset) as usize + index];
                assert!(place.is_none(), "a byte comes once");
                *place = Some(*byte);
            }
        }
        all.into_iter()
            .map(|b| b.expect("every byte comes"))
            .collect()
    }
}

pub fn string(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

/// The data of an option about contexts.
pub fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend(string(query)));
    data
}

/// The data of `INFO` and `GO`.
pub fn info(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((kinds.len() as u16).to_be_bytes());
    kinds
        .iter()
        .for_each(|kind| data.extend(kind.to_be_bytes()));
    data
}

impl Client {
    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the server takes it");
    }

    pub fn receive(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.socket
            .read_exact(&mut bytes)
            .expect("the server sends it");
        bytes
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.receive(2).try_into().expect("2 bytes"))
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.receive(4).try_into().expect("4 bytes"))
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.receive(8).try_into().expect("8 bytes"))
    }

    /// Whether the server has closed the connection; what it sent before is dropped.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.socket.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    pub fn greet(&mut self, flags: u32) {
        assert_eq!(self.receive(16), b"NBDMAGICIHAVEOPT");
        assert_eq!(self.u16(), 3);
        self.send(&flags.to_be_bytes());
    }

    pub fn send_option(&mut self, option: u32, data: &[u8]) {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.send(&bytes);
    }

    pub fn option_reply(&mut self, option: u32) -> (u32, Vec<u8>) {
        assert_eq!(self.u64(), 0x3e889045565a9);
        assert_eq!(self.u32(), option);
        let kind = self.u32();
        let len = self.u32();
        (kind, self.receive(len as usize))
    }

    /// Sends an option; gives all its replies.
    pub fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(option, data);
        let mut replies = Vec::new();
        loop {
            let reply = self.option_reply(option);
            let is_last = reply.0 == REP_ACK || reply.0 & ERR != 0;
            replies.push(reply);
            if is_last {
                return replies;
            }
        }
    }

    /// The error that an option is answered with.
    pub fn option_error(&mut self, option: u32, data: &[u8]) -> u32 {
        let replies = self.option(option, data);
        let (kind, text) = replies.last().expect("one");
        assert!(kind & ERR != 0, "{replies:?}");
        assert!(!text.is_empty(), "an error says what it is about");
        kind & !ERR
    }

    /// Chooses an export; gives its size and flags.
    pub fn go(&mut self, name: &str) -> (u64, u16) {
        let replies = self.option(OPT_GO, &info(name, &[]));
        let is_export = |r: &&(u32, Vec<u8>)| r.0 == REP_INFO && r.1[..2] == [0, 0];
        let fact = &replies.iter().find(is_export).expect("a size").1;
        let size = u64::from_be_bytes(fact[2..10].try_into().expect("8 bytes"));
        (
            size,
            u16::from_be_bytes(fact[10..].try_into().expect("2 bytes")),
        )
    }

    pub fn request(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, len: u64) {
        let mut bytes = Vec::new();
        if self.extended {
            bytes.extend(0x21e41c71u32.to_be_bytes());
        } else {
            bytes.extend(0x25609513u32.to_be_bytes());
        }
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        if self.extended {
            bytes.extend(len.to_be_bytes());
        } else {
            bytes.extend((len as u32).to_be_bytes());
        }
        self.send(&bytes);
    }

    /// Receives a reply, in one piece or in chunks.
    pub fn reply(&mut self) -> Reply {
        self.reply_to(None)
    }

    /// As [`Client::reply`]; a simple reply to a read of so many bytes has them behind it.
    pub fn reply_to(&mut self, read_len: Option<usize>) -> Reply {
        let mut reply = Reply::default();
        loop {
            match self.u32() {
                0x67446698 => {
                    assert!(!self.extended, "with extended headers all is in chunks");
                    reply.error = self.u32();
                    reply.cookie = self.u64();
                    if let (Some(len), 0) = (read_len, reply.error) {
                        assert!(!self.structured, "reads are in chunks");
                        reply.data.push((0, self.receive(len)));
                    }
                    return reply;
                }
                magic => {
                    let expected = if self.extended {
                        0x6e8a278c
                    } else {
                        0x668e33ef
                    };
                    assert_eq!(magic, expected);
                    if self.chunk(&mut reply) {
                        return reply;
                    }
                }
            }
        }
    }

    fn chunk(&mut self, reply: &mut Reply) -> bool {
        let (flags, kind) = (self.u16(), self.u16());
        reply.cookie = self.u64();
        let len = if self.extended {
            self.u64();
            self.u64() as usize
        } else {
            self.u32() as usize
        };
        let payload = self.receive(len);
        let u32_at = |at: usize| u32::from_be_bytes(payload[at..][..4].try_into().expect("4"));
        let u64_at = |at: usize| u64::from_be_bytes(payload[at..][..8].try_into().expect("8"));
        match kind {
            0 => assert!(payload.is_empty() && flags == 1),
            1 => reply.data.push((u64_at(0), payload[8..].to_vec())),
            2 => {
                reply.holes += 1;
                reply.data.push((u64_at(0), vec![0; u32_at(8) as usize]));
            }
            5 => {
                assert_eq!(u32_at(0), 1);
                assert!(!self.extended);
                let entries = payload[4..].chunks_exact(8);
                let of = |e: &[u8], at: usize| {
                    u64::from(u32::from_be_bytes(e[at..][..4].try_into().expect("4")))
                };
                reply.extents.extend(entries.map(|e| (of(e, 0), of(e, 4))));
            }
            6 => {
                assert!(self.extended);
                assert_eq!(u32_at(0), 1);
                assert_eq!(u32_at(4) as usize * 16 + 8, payload.len());
                let entries = payload[8..].chunks_exact(16);
                let of =
                    |e: &[u8], at: usize| u64::from_be_bytes(e[at..][..8].try_into().expect("8"));
                reply.extents.extend(entries.map(|e| (of(e, 0), of(e, 8))));
            }
            0x8001 | 0x8002 => {
                reply.error = u32_at(0);
                let text = u16::from_be_bytes([payload[4], payload[5]]) as usize;
                let rest = if kind == 0x8002 { 8 } else { 0 };
                assert_eq!(payload.len(), 6 + text + rest);
            }
            other => panic!("a chunk of type {other}"),
        }
        assert!(flags <= 1);
        flags == 1
    }

    /// A request and its reply.
    pub fn ask(&mut self, command: u16, flags: u16, offset: u64, len: u64) -> Reply {
        self.request(command, flags, 42, offset, len);
        let reply = self.reply_to((command == READ).then_some(len as usize));
        assert_eq!(reply.cookie, 42);
        reply
    }

    pub fn write(&mut self, offset: u64, data: &[u8], flags: u16) -> u32 {
        let flags = if self.extended {
            flags | PAYLOAD_LEN
        } else {
            flags
        };
        self.request(WRITE, flags, 43, offset, data.len() as u64);
        self.send(data);
        let reply = self.reply();
        assert_eq!(reply.cookie, 43);
        reply.error
    }

    pub fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        let mut reply = self.ask(READ, 0, offset, len as u64);
        if !self.structured {
            reply.data[0].0 = offset;
        }
        reply.bytes(offset, len)
    }
}

/// Numbers from a seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}
