//! A guest that keeps to nothing: it takes the memory that it is handed and writes what it likes to its
//! queue pair, without any of the library.

use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;

use rustix::fs::fstat;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Where the drive's notifier is, and the completions, before the commands (`wharf_wire::shared_queue`).
const NOTIFIER: u64 = 512;
const COMPLETIONS: u64 = 768;

/// What a hostile guest knows of what it attaches to.
#[derive(Clone, Copy)]
pub struct Target {
    /// Entries of a queue pair.
    pub depth: u64,
    /// Opcodes that are worth trying.
    pub opcodes: &'static [u8],
}

/// See the module.
pub struct Scribbler {
    connection: UnixStream,
    start: *mut u8,
    bytes: u64,
    target: Target,
}

impl Scribbler {
    /// Takes a slot at the store that is shared at `path`.
    pub fn attach(path: &str, target: Target) -> Scribbler {
        let mut connection = UnixStream::connect(path).unwrap();
        // What it wants: to attach (`store/handshake.rs`).
        let mut ask = [0; 40];
        ask[..8].copy_from_slice(b"WHARFST2");
        ask[8] = 1;
        connection.write_all(&ask).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut told = [0; 1024];
        let mut parts = [IoSliceMut::new(&mut told)];
        recvmsg(&connection, &mut parts, &mut ancillary, RecvFlags::empty()).unwrap();
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
        Scribbler {
            connection,
            start: start.unwrap().cast(),
            bytes,
            target,
        }
    }

    /// Where the commands begin.
    fn commands(&self) -> u64 {
        COMPLETIONS + 16 * self.target.depth
    }

    fn write<T>(&self, at: u64, value: T) {
        assert!(at + size_of::<T>() as u64 <= self.bytes);
        // SAFETY: inside the mapping, to which there are no references.
        unsafe {
            self.start
                .add(at as usize)
                .cast::<T>()
                .write_unaligned(value)
        };
    }

    /// Writes at random, so many times: commands that are nearly right, and bytes anywhere.
    pub fn run(mut self, seed: u64, times: u64) {
        let mut state = seed | 1;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let (commands, depth) = (self.commands(), self.target.depth);
        for _ in 0..times {
            match random() % 4 {
                // Not into commands: a guest may write to any page, and its neighbours' data are checked.
                0 => self.write(random() % commands, random() as u8),
                1 if random() % 2 == 0 => {
                    let lists = commands + 64 * depth;
                    self.write(lists + random() % (self.bytes - lists), random() as u8);
                }
                1 => self.write(random() % 4 * 64, (random() % (depth + 3)) as u32),
                _ => {
                    self.write_command(random() % depth, &mut random);
                    self.write(0, (random() % depth) as u32);
                    self.write(NOTIFIER, random());
                }
            }
            if random() % 64 == 0 {
                // Wakes nobody, or the drives: for nothing. If there is no room, so much the better.
                let _ = self.connection.set_nonblocking(true);
                let _ = self.connection.write(&[0; 3]);
            }
        }
    }

    /// A command of a kind that there is, for pages beyond those of the others, with pointers that are
    /// the guest's, the owner's, or nonsense.
    fn write_command(&self, slot: u64, random: &mut impl FnMut() -> u64) {
        let at = self.commands() + 64 * slot;
        let opcodes = self.target.opcodes;
        let opcode = opcodes[random() as usize % opcodes.len()];
        self.write(at, opcode);
        self.write(at + 1, 0u8);
        self.write(at + 2, random() as u16);
        self.write(at + 4, 1u32);
        for pointer in [24, 32] {
            let region = [0, 1, 1, 1, 2, 5, 9, 4096][random() as usize % 8];
            let address = (region << 40) | (random() % 64 * 4096) | (random() % 2 * 8);
            self.write(at + pointer, address);
        }
        // Pages from 2000 on, and few of them.
        self.write(at + 40, 2000 + random() % 1000);
        self.write(at + 48, random() as u32 & 0x000f_001f);
        self.write(at + 52, random() as u32 & 3);
        self.write(at + 56, random() % 3000);
    }
}
