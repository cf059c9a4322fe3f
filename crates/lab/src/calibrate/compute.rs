//! Functions of bytes of files: 4 KiB at a time out of a region far larger than the processor's caches.

use std::hint::black_box;

use wharf_compute::{Function, PROGRAM_PIECE_BYTES, Work};
use wharf_runtime::{Op, Seed};

use super::codecs::pages;
use super::costs::Costs;
use super::sample::{Sample, Sampler};
use crate::config::load_costs;

/// A loop over bytes: `program.wat`, in binary.
const PROGRAM: &[u8] = include_bytes!("program.wasm");

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// Pages done at a time, one behind the other.
const BATCH: u64 = 256;

/// Numbers of a vector: 512 bytes.
const DIMENSIONS: usize = 128;

/// Neighbours that are kept.
const NEIGHBOURS: u32 = 10;

/// Times the functions that have no codec.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) {
    let mut rng = Seed(11).rng();
    let region = pages(&mut rng);
    let query: Vec<u8> = (0..DIMENSIONS)
        .flat_map(|_| (rng.below(1 << 20) as f32).to_le_bytes())
        .collect();
    let numbers: Vec<u8> = (0..region.len() / 4)
        .flat_map(|_| (rng.below(1 << 20) as f32).to_le_bytes())
        .collect();
    let each = [
        Timed {
            op: Op::ChecksumPage,
            function: Function::Checksum,
            region: &region,
            argument: &[],
            what: "CRC-32C of 4 KiB",
        },
        Timed {
            op: Op::DistancePage,
            function: Function::Nearest,
            region: &numbers,
            argument: &query,
            what: "eight vectors of 128 numbers, of all of which the nearest ten are kept",
        },
        Timed {
            op: Op::SearchPage,
            function: Function::Search,
            region: &region,
            argument: b"needle",
            what: "a word that is not there looked for in 4 KiB of text",
        },
    ];
    for timed in each {
        timed.time(sampler, costs);
    }
    program(sampler, costs);
}

/// Times a program, where this build has them.
fn program(sampler: Sampler, costs: &mut Costs) {
    let Ok(mut work) = Work::of_program(PROGRAM, &[], 0) else {
        let known = load_costs("default").expect("it is built in").0;
        let key = Op::ProgramFuel.key();
        let sample = Sample {
            ns: known.cost_ns[key],
            spread_ns: known.spread_ns[key],
        };
        costs.set(
            Op::ProgramFuel,
            sample,
            "of table default: this build has no programs",
        );
        let line = "program_fuel, as this build has no programs (feature programs)";
        return costs.skipped.push(line.to_owned());
    };
    let (input, mut room) = ([1; PROGRAM_PIECE_BYTES], [0; PROGRAM_PIECE_BYTES]);
    let mut piece = || {
        while (work.step(&input, &mut room).expect("it takes all")).is_pending {}
        work.take_fuel()
    };
    piece();
    let units = piece() / 1_000;
    let what = "1,000 of the instructions of a loop over bytes";
    let timed = sampler.time(
        units,
        || (),
        |()| {
            black_box(piece());
        },
    );
    costs.set(Op::ProgramFuel, timed, what);
}

/// What is timed.
struct Timed<'a> {
    op: Op,
    function: Function,
    region: &'a [u8],
    argument: &'a [u8],
    what: &'static str,
}

impl Timed<'_> {
    fn time(&self, sampler: Sampler, costs: &mut Costs) {
        let count = match self.function {
            Function::Nearest => NEIGHBOURS,
            _ => 0,
        };
        let mut at = Seed(12).rng();
        let starts = (self.region.len() / PAGE_BYTES) as u64 - BATCH;
        let timed = sampler.time(
            BATCH,
            || at.below(starts) as usize,
            |first| {
                let work = Work::new(self.function, self.argument, count);
                let mut work = work.expect("it has a meaning");
                let bytes = &self.region[*first * PAGE_BYTES..][..BATCH as usize * PAGE_BYTES];
                for page in bytes.chunks_exact(PAGE_BYTES) {
                    let step = work.step(page, &mut []);
                    black_box(step.expect("all bytes have a meaning"));
                }
                black_box(work.value());
            },
        );
        costs.set(self.op, timed, self.what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_that_is_timed_is_the_one_that_can_be_read() {
        let text = wat::parse_str(include_str!("program.wat")).expect("it has a meaning");
        assert_eq!(text, PROGRAM);
    }
}
