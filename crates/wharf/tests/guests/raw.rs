//! A process that attaches without any of the library: it takes the memory that it is handed, and writes there as it likes.

#![allow(dead_code, clippy::disallowed_methods)] // each test uses a part; it waits as other programs do

use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::fs::fstat;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Where the drive's notifier is, and the completions, before the commands (`wharf_wire::shared_queue`).
pub const NOTIFIER: u64 = 512;
pub const COMPLETIONS: u64 = 768;

/// What a process is told: a head, a line for the one drive, claims with their token and groups (`store/handshake.rs`).
const HEAD: usize = 88;
const DRIVE: usize = 32;
const CLAIMS: usize = 96;
const TOKEN: usize = 16;

/// The DMA address of the first page that the process is handed.
pub const FIRST_PAGE: u64 = 1 << 40;

/// See the module.
pub struct Raw {
    connection: UnixStream,
    start: *mut u8,
    pub bytes: u64,
    pub depth: u64,
    /// The claims that it was told, with the groups behind them.
    pub claims: Vec<u8>,
    pub token: [u8; 16],
    sent: u64,
}

/// How a command ended: the status field without DNR, and the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub status: u16,
    pub result: u64,
}

/// What a process says that wants something: `what`, of which guest or kind, with a token, and a number.
pub fn ask(what: u8, guest: u32, token: [u8; 16], which: u64) -> [u8; 40] {
    let mut ask = [0; 40];
    ask[..8].copy_from_slice(b"WHARFST3");
    ask[8] = what;
    ask[12..16].copy_from_slice(&guest.to_le_bytes());
    ask[16..32].copy_from_slice(&token);
    ask[32..].copy_from_slice(&which.to_le_bytes());
    ask
}

impl Raw {
    /// Takes a slot at the store that is shared at `path`, whose queue pairs have so many entries.
    pub fn attach(path: &str, depth: u64) -> Raw {
        let mut connection = UnixStream::connect(path).unwrap();
        connection.write_all(&ask(1, 0, [0; 16], 0)).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut told = [0; 1024];
        let mut parts = [IoSliceMut::new(&mut told)];
        let received = recvmsg(&connection, &mut parts, &mut ancillary, RecvFlags::empty());
        let told = &told[..received.unwrap().bytes];
        let handed = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let own = handed
            .flatten()
            .last()
            .expect("the slot's memory comes last");
        let bytes = fstat(&own).unwrap().st_size as u64;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the system's choice overlaps nothing.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes as usize,
                access,
                MapFlags::SHARED,
                &own,
                0,
            )
        };
        let (mut claims, mut token) = (Vec::new(), [0; TOKEN]);
        if told.len() > HEAD + DRIVE + CLAIMS {
            let rest = &told[HEAD + DRIVE..];
            claims = [&rest[..CLAIMS], &rest[CLAIMS + TOKEN..]].concat();
            token.copy_from_slice(&rest[CLAIMS..CLAIMS + TOKEN]);
        }
        Raw {
            connection,
            start: start.unwrap().cast(),
            bytes,
            depth,
            claims,
            token,
            sent: 0,
        }
    }

    /// Where the commands begin.
    pub fn commands(&self) -> u64 {
        COMPLETIONS + 16 * self.depth
    }

    /// Where its pages begin.
    pub fn pages(&self) -> u64 {
        self.commands() + 64 * self.depth
    }

    pub fn write<T>(&self, at: u64, value: T) {
        assert!(at + size_of::<T>() as u64 <= self.bytes);
        // SAFETY: inside the mapping, to which there are no references.
        unsafe {
            self.start
                .add(at as usize)
                .cast::<T>()
                .write_unaligned(value)
        };
    }

    pub fn read<T: Copy>(&self, at: u64) -> T {
        assert!(at + size_of::<T>() as u64 <= self.bytes);
        // SAFETY: inside the mapping; the drive writes there meanwhile, so it is read as what may change.
        unsafe { self.start.add(at as usize).cast::<T>().read_volatile() }
    }

    /// Writes bytes to its first page.
    pub fn put(&self, bytes: &[u8]) {
        for (at, byte) in (0..).zip(bytes) {
            self.write(self.first_page() + at, *byte);
        }
    }

    /// Bytes of its first page.
    pub fn got(&self, bytes: usize) -> Vec<u8> {
        (0..bytes as u64)
            .map(|at| self.read(self.first_page() + at))
            .collect()
    }

    fn first_page(&self) -> u64 {
        self.pages().next_multiple_of(4096)
    }

    /// Wakes the drives, if they sleep.
    pub fn wake(&mut self) {
        // If there is no room, so much the better.
        let _ = self.connection.set_nonblocking(true);
        let _ = self.connection.write(&[0; 3]);
    }

    /// Sends a command with its token, and waits for its end.
    pub fn send(&mut self, command: [u8; 64]) -> Ended {
        let mut command = command;
        command[8..24].copy_from_slice(&self.token);
        self.send_as_is(command)
    }

    /// The same, with the token that it has.
    pub fn send_as_is(&mut self, mut command: [u8; 64]) -> Ended {
        let slot = self.sent % self.depth;
        let phase = 1 - (self.sent / self.depth % 2) as u16;
        self.sent += 1;
        command[2..4].copy_from_slice(&(self.sent as u16).to_le_bytes());
        self.write(self.commands() + 64 * slot, command);
        self.write(0, (self.sent % self.depth) as u32);
        self.write(NOTIFIER, 1u64);
        let at = COMPLETIONS + 16 * slot;
        for _ in 0..20_000 {
            let last: u16 = self.read(at + 14);
            if last & 1 == phase {
                // The completion head, so that there is room for more.
                self.write(128, (self.sent % self.depth) as u32);
                return Ended {
                    status: last >> 1 & 0x7ff,
                    result: self.read(at),
                };
            }
            self.wake();
            std::thread::sleep(Duration::from_micros(500));
        }
        panic!("no answer to {command:02x?}");
    }

    /// Shows the drive claims with a token, as authenticate (ADh) does.
    pub fn show(&mut self, claims: &[u8], token: [u8; 16]) -> Ended {
        self.put(claims);
        let mut command = command(0xad);
        command[8..24].copy_from_slice(&token);
        command[56..60].copy_from_slice(&(claims.len() as u32).to_le_bytes());
        self.send_as_is(command)
    }

    /// Shows those that it was told.
    pub fn authenticate(&mut self) {
        let (claims, token) = (self.claims.clone(), self.token);
        let shown = self.show(&claims, token);
        assert_eq!(shown.status, 0, "{shown:?}");
    }
}

/// A command with this opcode, for the first page.
pub fn command(opcode: u8) -> [u8; 64] {
    let mut command = [0; 64];
    (command[0], command[4]) = (opcode, 1);
    command[24..32].copy_from_slice(&FIRST_PAGE.to_le_bytes());
    command
}
