//! A guest that keeps to nothing: it takes the memory that it is handed and writes what it likes to its
//! queue pair, without any of the library.

#[path = "raw.rs"]
pub mod raw;

use raw::{NOTIFIER, Raw};

/// What a hostile guest knows of what it attaches to.
#[derive(Clone, Copy)]
pub struct Target {
    /// Entries of a queue pair.
    pub depth: u64,
    /// Opcodes that are worth trying.
    pub opcodes: &'static [u8],
    /// Whether its commands take a token.
    pub has_tokens: bool,
}

/// See the module.
pub struct Scribbler {
    raw: Raw,
    target: Target,
}

impl Scribbler {
    /// Takes a slot at the store that is shared at `path`; and, where that matters, shows who it is: what it sends is then looked at.
    pub fn attach(path: &str, target: Target) -> Scribbler {
        let mut raw = Raw::attach(path, target.depth);
        if target.has_tokens {
            raw.authenticate();
        }
        Scribbler { raw, target }
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
        let (commands, depth) = (self.raw.commands(), self.target.depth);
        for _ in 0..times {
            match random() % 4 {
                // Not into commands: a guest may write to any page, and its neighbours' data are checked.
                0 => self.raw.write(random() % commands, random() as u8),
                1 if random() % 2 == 0 => {
                    let pages = self.raw.pages();
                    let at = pages + random() % (self.raw.bytes - pages);
                    self.raw.write(at, random() as u8);
                }
                1 => self
                    .raw
                    .write(random() % 4 * 64, (random() % (depth + 3)) as u32),
                _ => {
                    self.write_command(random() % depth, &mut random);
                    self.raw.write(0, (random() % depth) as u32);
                    self.raw.write(NOTIFIER, random());
                }
            }
            if random() % 64 == 0 {
                // Wakes nobody, or the drives: for nothing.
                self.raw.wake();
            }
        }
    }

    /// A command of a kind that there is, for pages beyond those of the others, with pointers that are
    /// the guest's, the owner's, or nonsense.
    fn write_command(&self, slot: u64, random: &mut impl FnMut() -> u64) {
        let raw = &self.raw;
        let at = raw.commands() + 64 * slot;
        let opcodes = self.target.opcodes;
        let opcode = opcodes[random() as usize % opcodes.len()];
        raw.write(at, opcode);
        raw.write(at + 1, 0u8);
        raw.write(at + 2, random() as u16);
        raw.write(at + 4, 1u32);
        let mut token = raw.token;
        if random().is_multiple_of(16) {
            token[random() as usize % 16] ^= 1 << (random() % 8);
        }
        raw.write(at + 8, token);
        for pointer in [24, 32] {
            let region = [0, 1, 1, 1, 2, 5, 9, 4096][random() as usize % 8];
            let address = (region << 40) | (random() % 64 * 4096) | (random() % 2 * 8);
            raw.write(at + pointer, address);
        }
        // Pages from 2000 on, and few of them.
        raw.write(at + 40, 2000 + random() % 1000);
        raw.write(at + 48, random() as u32 & 0x000f_001f);
        raw.write(at + 52, random() as u32 & 3);
        raw.write(at + 56, random() % 3000);
    }
}
