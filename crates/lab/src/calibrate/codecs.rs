//! Compressing pages and expanding them: what a drive without an engine does.
//!
//! The pages are of text with a share of bytes that do not compress, so that they come to about half
//! their size, and are in a region far larger than the processor's caches.

use std::hint::black_box;

use wharf_codec::{Codec, Compressor};
use wharf_runtime::{Op, Rng, Seed};

use super::costs::Costs;
use super::sample::Sampler;

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// Pages of the region: 64 MiB.
const PAGES: usize = 16_384;

/// Pages done at a time.
const BATCH: u64 = 64;

/// Words that pages are made of, besides bytes at random.
const WORDS: [&[u8]; 8] = [
    b"page ", b"frame ", b"struct ", b"return ", b"0x00", b"\n    ", b"drive->", b"(self, ",
];

/// Times the codecs that drives have.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) {
    let region = pages(&mut Seed(8).rng());
    let lz4 = (Op::CompressPage, Op::DecompressPage);
    codec(sampler, costs, Codec::Lz4, &region, lz4);
    codec(
        sampler,
        costs,
        Codec::Zlib,
        &region,
        (Op::DeflatePage, Op::InflatePage),
    );
}

/// A region of pages of which two in five bytes are at random.
pub(super) fn pages(rng: &mut Rng) -> Vec<u8> {
    let mut region = Vec::with_capacity(PAGES * PAGE_BYTES);
    while region.len() < PAGES * PAGE_BYTES {
        match rng.below(8) {
            0..5 => region.extend_from_slice(WORDS[rng.below(8) as usize]),
            _ => region.extend_from_slice(&rng.below(1 << 48).to_le_bytes()[..6]),
        }
    }
    region.truncate(PAGES * PAGE_BYTES);
    region
}

fn codec(
    sampler: Sampler,
    costs: &mut Costs,
    codec: Codec,
    region: &[u8],
    (compress, expand): (Op, Op),
) {
    let level = codec.level_default();
    let mut compressor = Compressor::new(codec, level).expect("every build has it");
    let mut rng = Seed(9).rng();
    let mut out = vec![0; PAGE_BYTES];
    let page = |number: usize| &region[number * PAGE_BYTES..][..PAGE_BYTES];
    let numbers = |rng: &mut Rng| -> Vec<usize> {
        (0..BATCH)
            .map(|_| rng.below(PAGES as u64) as usize)
            .collect()
    };
    let compressing = sampler.time(
        BATCH,
        || numbers(&mut rng),
        |numbers| {
            for number in numbers.iter() {
                black_box(compressor.compress(page(*number), &mut out));
            }
        },
    );
    let mut rng = Seed(10).rng();
    let kept: Vec<Vec<u8>> = (0..PAGES)
        .step_by(8)
        .map(|number| {
            let bytes = compressor.compress(page(number), &mut out);
            out[..bytes.expect("two in five bytes are at random")].to_vec()
        })
        .collect();
    let expanding = sampler.time(
        BATCH,
        || numbers(&mut rng),
        |numbers| {
            for number in numbers.iter() {
                let expanded = compressor.decompress(&kept[number / 8], &mut out);
                expanded.expect("it was compressed so");
                black_box(&out);
            }
        },
    );
    let (into, from) = match codec {
        Codec::Lz4 => (
            "4 KiB, of which two fifths are random bytes, into LZ4",
            "such a page out of LZ4",
        ),
        _ => (
            "4 KiB, of which two fifths are random bytes, into zlib, level 1",
            "such a page out of zlib",
        ),
    };
    costs.set(compress, compressing, into);
    costs.set(expand, expanding, from);
}
