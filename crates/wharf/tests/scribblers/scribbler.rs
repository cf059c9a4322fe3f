//! The hostile guest: attaches as any other, then writes what it likes over all memory that it shares.

use std::io::Write;

use wharf::host::Scala;
use wharf::store::Client;

/// Pages that it uses before.
const PAGES: u64 = 1000;

/// A piece of memory that it shares and can write.
struct Piece {
    start: u64,
    bytes: u64,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }
}

/// All that it shares and can write, as the system tells.
fn pieces() -> Vec<Piece> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let shared = maps
        .lines()
        .filter(|line| line.contains(" rw-s ") && line.contains("memfd:wharf"));
    let piece = |line: &str| {
        let range = line.split(' ').next().unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = (number(start), number(end));
        Piece {
            start,
            bytes: end - start,
        }
    };
    shared.map(piece).collect()
}

/// One stroke: a byte, a word that names somebody, or a run of bytes.
fn stroke(piece: &Piece, random: &mut Random) {
    let at = |random: &mut Random, bytes: u64| {
        let offset = random.below(piece.bytes / bytes) * bytes;
        (piece.start + offset) as *mut u8
    };
    // SAFETY: inside of shared memory, to which nobody here has references. What it does to others is what
    // this program is for.
    unsafe {
        match random.below(8) {
            0..4 => at(random, 1).write_volatile(random.next() as u8),
            4..6 => {
                let word = random.next() as u32;
                let named = (word & !63) | random.below(6) as u32;
                at(random, 4).cast::<u32>().write_volatile(named);
            }
            6 => at(random, 8).cast::<u64>().write_volatile(random.next()),
            _ => {
                let bytes = 1 << random.below(10);
                let value = [0, 0xff, random.next() as u8][random.below(3) as usize];
                at(random, bytes).write_bytes(value, bytes as usize);
            }
        }
    }
}

/// Says so on standard output, behind what the harness may have written.
fn say(word: &str) {
    println!("answer {word}");
    std::io::stdout().flush().unwrap();
}

/// Closes the connection and stays.
fn hang_up() {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    for entry in open.flatten() {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        let number = entry.file_name().to_str().unwrap().parse::<i32>().unwrap();
        if target.to_string_lossy().starts_with("socket:") {
            // SAFETY: a descriptor of this process, which uses it no more and never ends in order.
            unsafe { rustix::io::close(number) };
        }
    }
}

/// Attaches at `path`, scribbles by `seed` and ends: it is the others' calls that are to end while it is there.
pub fn run(path: &str, seed: u64) -> ! {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let client = Client::<Scala>::attach(path).unwrap();
    for _ in 0..50 {
        let page = random.below(PAGES);
        // It may find what the one before has left.
        let _ = client.write_at(page * 4096, &[random.next() as u8; 4096]);
    }
    let mut pieces = pieces();
    assert!(pieces.len() >= 4, "frames, their table, notes and a slot");
    pieces.sort_by_key(|piece| piece.bytes);
    say("begun");
    // All of it, or the smallest alone: words are dense there.
    let used = match random.below(3) {
        0 => &pieces[..1],
        1 => &pieces[..2],
        _ => &pieces[..],
    };
    let strokes = 1 << (8 + random.below(13));
    let how = random.below(3);
    for number in 0..strokes {
        stroke(&used[random.below(used.len() as u64) as usize], &mut random);
        if how == 1 && number == strokes / 2 {
            hang_up();
        }
        if number % 4096 == 0 {
            std::thread::yield_now();
        }
    }
    say("done");
    match how {
        // As a crash.
        2 => std::process::abort(),
        _ => std::process::exit(0),
    }
}
