//! What it costs that a drive checks the token of each command for files.
//!
//!     cargo bench -p wharf --bench tokens
//!
//! Four drives on this thread, in memory, which take turns: one without a key, one that compares 16 bytes with each command
//! (`firmware.token_check = "cached"`), one that computes the code of the claims anew each time (`every`), and one that
//! has a key and looks at nothing (`off`). Each reads 4 KiB at random places of a file of 16 MiB. A row is the median of
//! its rounds with the lowest and the highest, and what it is beside the drive without a key.

use wharf::files::{Mount, NewImage, OpenFlags, TokenCheck};
use wharf::runtime::Seed;
use wharf::runtime::clock::Clock;

const BYTES: u64 = 16 << 20;
const READS: u64 = 20_000;
const ROUNDS: usize = 15;

fn main() {
    let new = NewImage::of_bytes(64 << 20);
    let checking = |check| Mount::in_memory_checking(&new, check).unwrap();
    let drives = [
        ("no key", Mount::in_memory(&new).unwrap()),
        ("off", checking(TokenCheck::Off)),
        ("cached", checking(TokenCheck::Cached)),
        ("every", checking(TokenCheck::Every)),
    ];
    let files = drives.each_ref().map(|(_, drive)| {
        let file = drive.open_file("/file", OpenFlags::CREATE, 0o600).unwrap();
        file.write_at(0, &vec![7; BYTES as usize]).unwrap();
        file
    });
    let (clock, mut random) = (Clock::start(), Seed(1).rng());
    let mut times = drives.each_ref().map(|_| Vec::new());
    for round in 0..=ROUNDS {
        for (file, times) in files.iter().zip(&mut times) {
            let mut page = [0; 4096];
            let begin_ns = clock.now_ns();
            for _ in 0..READS {
                let at = random.below(BYTES / 4096) * 4096;
                assert_eq!(file.read_at(at, &mut page).unwrap(), 4096);
            }
            let took_ns = (clock.now_ns() - begin_ns) as f64 / READS as f64;
            // The first round warms caches.
            if round > 0 {
                times.push(took_ns);
            }
        }
    }
    let mut first_ns = None;
    for ((name, _), times) in drives.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let median_ns = times[ROUNDS / 2];
        let beside = median_ns / *first_ns.get_or_insert(median_ns);
        println!(
            "{name:8} {median_ns:8.0} ns a read ({:.0} to {:.0}), {:+.1} %",
            times[0],
            times[ROUNDS - 1],
            (beside - 1.0) * 100.0
        );
    }
}
