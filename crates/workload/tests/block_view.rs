//! The block view of file operations: the requests that every personality makes are those that it made before operations
//! on files were there, in the same order. Their digests were recorded from that code; those of the web personalities, of jobs, and of
//! stores of sorted tables, which came later, when they were made.

#![allow(missing_docs)]

use wharf_workload::Request;
use wharf_workload::files::{FileGenerator, FileJob, FileSpec, Personality};

/// FNV-1a over all fields of requests.
#[derive(Clone, Copy)]
struct Digest(u64);

impl Digest {
    fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    fn word(&mut self, word: u64) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn request(&mut self, request: &Request) {
        for word in [
            request.time_ns,
            request.offset,
            request.bytes.into(),
            request.stream.into(),
            request.process.into(),
            request.op as u64,
        ] {
            self.word(word);
        }
    }
}

fn spec(personality: Personality, seed: u64) -> FileSpec {
    let (files, request_bytes) = match personality.is_lsm() {
        true => (8 * 48, 512),
        false => (24, 8192),
    };
    FileSpec {
        personality,
        requests: 50_000,
        files,
        threads: 8,
        footprint_bytes: Some(24 << 20),
        request_bytes,
        stride_bytes: None,
        job: FileJob::default(),
        seed,
    }
}

/// Files of 6 GiB, whose discards and flushes are several requests.
fn large(personality: Personality) -> FileSpec {
    FileSpec {
        requests: 200_000,
        footprint_bytes: Some(24 * (6 << 30)),
        request_bytes: 1 << 20,
        ..spec(personality, 5)
    }
}

fn of_stream(spec: &FileSpec) -> u64 {
    let mut digest = Digest::new();
    let generator = spec.generator().unwrap();
    for &(first, end) in generator.initial() {
        digest.word(first);
        digest.word(end);
    }
    generator.for_each(|request| digest.request(&request));
    digest.0
}

/// When threads ask for their requests, one more often than others.
fn of_asking(spec: &FileSpec) -> u64 {
    let mut digest = Digest::new();
    let mut generator: FileGenerator = spec.generator().unwrap();
    for asker in [0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 7].iter().cycle() {
        let Some((request, due_ns)) = generator.request_of(*asker) else {
            return digest.0;
        };
        digest.request(&request);
        digest.word(due_ns);
    }
    unreachable!("it asks until there are no more")
}

fn digests(personality: Personality) -> Vec<u64> {
    let seeds = [1, 7, 1_000_003];
    let mut all: Vec<u64> = seeds
        .iter()
        .map(|seed| of_stream(&spec(personality, *seed)))
        .collect();
    all.push(of_stream(
        &spec(personality, 7).on_volume((100 << 20) + 4096),
    ));
    if !personality.is_lsm() {
        all.push(of_stream(&large(personality)));
    }
    if !matches!(
        personality,
        Personality::YcsbA | Personality::YcsbF | Personality::Webserver
    ) {
        all.extend(
            seeds
                .iter()
                .map(|seed| of_asking(&spec(personality, *seed))),
        );
    }
    all
}

#[test]
fn the_block_view_of_every_personality_is_what_it_was() {
    let mut found = String::new();
    for (name, personality) in Personality::ALL {
        let digests = digests(personality);
        let digests: Vec<String> = digests.iter().map(|d| format!("{d:016x}")).collect();
        found += &format!("{name} {}\n", digests.join(" "));
    }
    let recorded = include_str!("data/block_view.txt");
    assert!(found == recorded, "found:\n{found}recorded:\n{recorded}");
}
