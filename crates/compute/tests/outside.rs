//! Other programs read what is compressed here, and what they compress is read here: `lz4`, `zstd`, and zlib as Python has it.

use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use wharf_compute::{Codec, Function, Refused, Work, whole};
use wharf_runtime::{Rng, Seed};

/// A program of another one, with what it is given.
type Arguments = &'static [&'static str];

/// What a program makes of bytes; nothing if it is not there.
fn run(program: &str, arguments: &[&str], input: Vec<u8>) -> Option<Vec<u8>> {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = match child {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: there is no {program}");
            return None;
        }
        child => child.expect("it starts"),
    };
    let mut pipe = child.stdin.take().expect("it is a pipe");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || pipe.write_all(&input).expect("it reads all"));
        child.wait_with_output().expect("it ends")
    });
    assert!(output.status.success(), "{program} {arguments:?}");
    Some(output.stdout)
}

const EXPAND: &str =
    "import sys, zlib; sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read()))";
const PACK: &str =
    "import sys, zlib; sys.stdout.buffer.write(zlib.compress(sys.stdin.buffer.read(), 9))";

/// How another program expands, and ways in which it compresses.
fn others(codec: Codec) -> (&'static str, Arguments, &'static [Arguments]) {
    match codec {
        Codec::Zlib => ("python3", &["-c", EXPAND], &[&["-c", PACK]]),
        Codec::Lz4 => (
            "lz4",
            &["-dcq"],
            &[
                &["-cq1"],
                &["-cq9", "-B4", "-BD", "-BX"],
                &["-cq", "-B5", "--no-frame-crc"],
                &["-cq12", "-BD"],
            ],
        ),
        Codec::Zstd => (
            "zstd",
            &["-dcq"],
            &[
                &["-cq1"],
                &["-cq19"],
                &["-cq3", "--no-check"],
                &["-cq", "--fast=5"],
                &["-cq5", "-B1", "-T2"],
            ],
        ),
    }
}

/// Bytes that repeat others from near and far, and some that do not.
fn bytes(rng: &mut Rng, count: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < count {
        let more = 1 + rng.below(400) as usize;
        match rng.below(4) {
            0 => all.extend((0..more).map(|_| rng.below(256) as u8)),
            1 => all.extend(std::iter::repeat_n(rng.below(4) as u8, 9 * more)),
            _ => {
                let from = rng.below(all.len() as u64 + 1) as usize;
                let end = all.len().min(from + more);
                all.extend_from_within(from..end);
            }
        }
    }
    all.truncate(count);
    all
}

/// Does it in pieces and rooms of many lengths.
fn in_pieces(rng: &mut Rng, function: Function, input: &[u8]) -> Vec<u8> {
    let mut work = Work::new(function, &[], 0).expect("it is built in");
    let (mut made, mut rest) = (Vec::new(), input);
    loop {
        let piece = &rest[..rest.len().min(rng.below(20_000) as usize + 1)];
        let mut room = vec![0; rng.below(10_000) as usize + 1];
        let step = match rest.is_empty() {
            false => work.step(piece, &mut room),
            true => work.finish(&mut room),
        };
        let step = step.expect("the bytes have a meaning");
        if rest.is_empty() && step.made == 0 {
            return made;
        }
        rest = &rest[step.taken..];
        made.extend_from_slice(&room[..step.made]);
    }
}

#[test]
fn other_programs_read_what_is_made_here_and_the_other_way_round() {
    let seed = 1_108;
    println!("seed {seed}");
    for codec in Codec::ALL.into_iter().filter(|codec| codec.is_built()) {
        let mut rng = Seed(seed).child(codec.name()).rng();
        let (program, expand, packs) = others(codec);
        for nth in 0..10 {
            let count = rng.below([1, 20, 5_000, 70_000, 900_000][nth % 5]) as usize;
            let data = bytes(&mut rng, count);
            let made = in_pieces(&mut rng, Function::Compress(codec), &data);
            let Some(back) = run(program, expand, made) else {
                break;
            };
            assert!(back == data, "{program} {count}");
            let pack = packs[nth % packs.len()];
            let made = run(program, pack, data.clone()).expect("it was there before");
            let back = in_pieces(&mut rng, Function::Decompress(codec), &made);
            assert!(back == data, "{program} {pack:?} {count}");
        }
    }
}

/// `zstd -3` uses a window of 2 MiB for as much data, and half of the memory for it is not enough.
#[test]
fn a_window_of_another_program_that_is_too_large_is_refused_by_name() {
    if !Codec::Zstd.is_built() {
        return println!("skipped: zstd is not built in");
    }
    let data = bytes(&mut Seed(2).rng(), 5 << 20);
    let Some(made) = run("zstd", &["-cq3"], data.clone()) else {
        return;
    };
    let function = Function::Decompress(Codec::Zstd);
    let all = whole(function, &[], 0, &made).expect("it is right").1;
    assert!(all == data);
    let mut work = Work::within(function, &[], 0, 2 << 20).expect("it is built in");
    let refused = work.step(&made, &mut [0; 4096]);
    assert_eq!(refused, Err(Refused::Memory));
}
