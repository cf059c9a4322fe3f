//! The lines of a file that have a word in them, for `wharf compute run`; the value is how many there are.
//!
//!     rustc --target wasm32-unknown-unknown --crate-type cdylib -C opt-level=2 -C panic=abort -C link-arg=-zstack-size=16384 lines.rs
//!     wharf compute load drive.img lines.wasm /lines.wasm
//!     wharf compute run drive.img /lines.wasm /words.txt --argument needle --out lines.txt
//!
//! A line is at most 4,096 bytes long here; what is longer counts as several.

#![no_std]
#![allow(non_upper_case_globals)]

use core::ptr::addr_of_mut;

/// Bytes that are given at once, and made at once, at most.
const PIECE: usize = 8192;

/// The longest line.
const LINE: usize = 4096;

/// Where the drive puts what it gives.
#[unsafe(no_mangle)]
pub static mut wharf_input: [u8; PIECE] = [0; PIECE];

/// Where it finds what is made.
#[unsafe(no_mangle)]
pub static mut wharf_output: [u8; PIECE] = [0; PIECE];

struct State {
    word: [u8; 256],
    word_bytes: usize,
    /// The line that has begun.
    line: [u8; LINE],
    line_bytes: usize,
    found: u64,
}

static mut STATE: State = State {
    word: [0; 256],
    word_bytes: 0,
    line: [0; LINE],
    line_bytes: 0,
    found: 0,
};

/// All there is: a program has one thread, and the drive calls one function at a time.
fn all() -> (&'static mut [u8; PIECE], &'static mut [u8; PIECE], &'static mut State) {
    // SAFETY: each function below asks once, and nothing else has them meanwhile.
    unsafe {
        (
            &mut *addr_of_mut!(wharf_input),
            &mut *addr_of_mut!(wharf_output),
            &mut *addr_of_mut!(STATE),
        )
    }
}

/// The argument is the word.
#[unsafe(no_mangle)]
pub extern "C" fn wharf_begin(argument_bytes: u32, _count: u32) -> i64 {
    let (input, _, state) = all();
    let bytes = argument_bytes as usize;
    if bytes == 0 || bytes > state.word.len() {
        return 1;
    }
    state.word[..bytes].copy_from_slice(&input[..bytes]);
    state.word_bytes = bytes;
    0
}

impl State {
    /// The line has ended: it is put into the room, if it has the word; gives its bytes.
    fn end(&mut self, room: &mut [u8]) -> usize {
        let bytes = core::mem::take(&mut self.line_bytes);
        let (line, word) = (&self.line[..bytes], &self.word[..self.word_bytes]);
        if !line.windows(word.len()).any(|part| part == word) {
            return 0;
        }
        self.found += 1;
        room[..bytes].copy_from_slice(line);
        bytes
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn wharf_step(input_bytes: u32, room_bytes: u32) -> i64 {
    let (input, output, state) = all();
    let room = &mut output[..room_bytes as usize];
    let (mut taken, mut made) = (0, 0);
    for byte in &input[..input_bytes as usize] {
        // It stops while the longest line would still fit.
        if room.len() - made < LINE {
            break;
        }
        state.line[state.line_bytes] = *byte;
        state.line_bytes += 1;
        taken += 1;
        if *byte == b'\n' || state.line_bytes == LINE {
            made += state.end(&mut room[made..]);
        }
    }
    (made as i64) << 32 | taken
}

/// The last line may have no end.
#[unsafe(no_mangle)]
pub extern "C" fn wharf_finish(room_bytes: u32) -> i64 {
    let (_, output, state) = all();
    state.end(&mut output[..room_bytes as usize]) as i64
}

#[unsafe(no_mangle)]
pub extern "C" fn wharf_value() -> i64 {
    all().2.found as i64
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}
