//! Processes of several threads at a drive: none waits for another's command, and all find what any of them wrote.

#![allow(missing_docs)]

mod support;

use std::process::Command;

use support::{Drive, compiled, text};
use wharf::files::Serving;

/// Bytes that each process keeps: as many as it likes, or nothing; or it uses the drive's cache too; and what becomes of its writes.
const CACHES: [&str; 5] = [
    "67108864",
    "0",
    "omni:1",
    "67108864,write-through",
    "67108864,write-around",
];

/// Processes of so many threads at the same files, some of which are killed.
fn find_what_any_of_them_wrote(processes: u32, threads: u32, rounds: u32, killed: u32) {
    let program = compiled("together.c");
    for (cache, seed) in CACHES.iter().zip(1..) {
        let drive = Drive::served(&Serving {
            processes: 4 * processes,
            drive_cache_bytes: 256 << 10,
            ..Serving::default()
        });
        let numbers = [processes, threads, rounds, seed, killed].map(|number| number.to_string());
        let mut command = Command::new(program.path());
        let mut command = drive.command(command.arg("/where").args(numbers));
        let told = command.env("WHARF_CACHE", cache).output().unwrap();
        let expected = "0 wrong, 0 failed, 0 ill; enough: 1\n";
        assert_eq!(text(&told.stdout), expected, "{cache}: {told:?}");
        drive.check();
    }
}

/// Each finds what others had written before it began to look, and nothing that nobody had begun to write: of bytes, sizes and names. Threads
/// end and others go on, and some fork children.
#[test]
fn eight_processes_of_eight_threads_find_what_any_of_them_wrote() {
    find_what_any_of_them_wrote(8, 8, 60, 0);
}

#[test]
fn threads_of_processes_that_are_killed_amid_commands_hold_nobody_up() {
    find_what_any_of_them_wrote(4, 8, 60, 2);
}

#[test]
fn more_threads_than_a_queue_pair_has_entries_wait_for_one() {
    find_what_any_of_them_wrote(1, 64, 30, 0);
}
