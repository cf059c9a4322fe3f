//! Power cuts at every single write and flush of a member, also with a member lost afterwards.

use std::collections::BTreeMap;

use wharf_runtime::{Rng, Seed};
use wharf_storage::Target;
use wharf_storage::array::{Array, Level};
use wharf_storage::faulty::Loss;

use crate::model::contents;
use crate::support::{Bench, CHUNK_BYTES, flush, write};

const STRIPES: u64 = 3;
const BLOCK: usize = 512;

/// What each block may be after a cut.
struct Expected {
    /// Durable for sure.
    sure: Vec<u8>,
    /// Written since, or under way, by block.
    since: BTreeMap<usize, Vec<u8>>,
}

impl Expected {
    fn note(&mut self, offset: u64, data: &[u8]) {
        for (index, block) in data.chunks(BLOCK).enumerate() {
            let number = offset as usize / BLOCK + index;
            self.since.entry(number).or_default().push(block[0]);
        }
    }

    fn flushed(&mut self) {
        for (number, values) in std::mem::take(&mut self.since) {
            self.sure[number] = *values.last().expect("one was noted");
        }
    }

    fn check(&self, bytes: &[u8], story: &str) {
        for (number, block) in bytes.chunks(BLOCK).enumerate() {
            let value = block[0];
            assert!(
                block.iter().all(|b| *b == value),
                "{story}: block {number} is torn"
            );
            let since = self.since.get(&number);
            let may = value == self.sure[number] || since.is_some_and(|s| s.contains(&value));
            assert!(
                may,
                "{story}: block {number} is {value}, was {}, {since:?}",
                self.sure[number]
            );
        }
    }
}

/// Writes of single blocks, parts of chunks and whole stripes, some over each other, with flushes.
fn work(array: &Array, expected: &mut Expected, rng: &mut Rng) {
    let stripe = array.size_bytes() / STRIPES;
    let writes = [
        (1, 0),
        (3, 5),
        (40, 3),
        (1, 0),
        (16, 16),
        (2, 30),
        (64, 0),
        (1, 1),
        (5, 60),
    ];
    for (value, (blocks, at)) in (1..).zip(writes) {
        let begin = rng.below(STRIPES) * stripe + at * BLOCK as u64;
        let len = (blocks * BLOCK).min((array.size_bytes() - begin) as usize);
        let mut data = vec![value; len];
        expected.note(begin, &data);
        if !write(array, begin, &mut data) {
            return;
        }
        if rng.chance(1, 3) {
            if !flush(array) {
                return;
            }
            expected.flushed();
        }
    }
}

struct Sweep {
    level: Level,
    members: u32,
    loss: Loss,
    /// A member that is out from the start.
    degraded: Option<usize>,
    /// A member lost after the cut.
    lost: Option<usize>,
}

impl Sweep {
    /// Cuts at the `cut`-th event; whether the work came to its end before.
    fn case(&self, cut: u64) -> bool {
        let Sweep {
            level,
            members,
            loss,
            degraded,
            lost,
        } = *self;
        let story = format!(
            "{level:?} of {members}, {loss:?}, without {degraded:?}, then {lost:?}, cut {cut}"
        );
        let bench = Bench::new(level, members, STRIPES, 3, cut);
        let out: Vec<usize> = degraded.into_iter().collect();
        let array = bench.open_without(&out);
        let mut expected = Expected {
            sure: vec![0; (array.size_bytes() as usize) / BLOCK],
            since: BTreeMap::new(),
        };
        bench.power.cut_at(cut);
        work(&array, &mut expected, &mut Seed(9).rng());
        let complete = bench.power.is_on();
        bench.power.cut();
        drop(array);
        bench.power.come_back();
        for member in &bench.members {
            member.settle(loss).expect("memory");
        }
        let out: Vec<usize> = degraded.or(lost).into_iter().collect();
        if loss == Loss::Some {
            // Once more, while it is being mended.
            bench.power.cut_at(cut % 13);
            let _ = bench.try_open_without(&out);
            bench.power.come_back();
            bench
                .members
                .iter()
                .for_each(|m| m.settle(loss).expect("memory"));
        }
        let array = bench.open_without(&out);
        let first = contents(&array);
        expected.check(&first, &story);
        if out.is_empty() {
            let report = array.check(false, &mut |_, _| {}).expect("a check");
            assert_eq!(report.mismatches, 0, "{story}: redundancy agrees");
            // Whichever member is gone, the same is there.
            drop(array);
            let gone = (cut % u64::from(members)) as usize;
            assert!(
                contents(&bench.open_without(&[gone])) == first,
                "{story}: then without {gone}"
            );
        }
        complete
    }

    fn run(&self) -> u64 {
        let mut cut = 0;
        while !self.case(cut) {
            cut += 1;
        }
        cut
    }
}

fn sweep(level: Level, members: u32) {
    let mut cuts = 0;
    for loss in [Loss::All, Loss::Nothing, Loss::Some] {
        let none = Sweep {
            level,
            members,
            loss,
            degraded: None,
            lost: None,
        };
        cuts += none.run();
        for member in 0..members as usize {
            cuts += Sweep {
                lost: Some(member),
                ..none
            }
            .run();
            if loss == Loss::Some {
                cuts += Sweep {
                    degraded: Some(member),
                    ..none
                }
                .run();
            }
        }
    }
    assert!(cuts > 200, "the sweep has cut {cuts} times");
}

#[test]
fn raid5_survives_a_cut_at_every_write_and_the_loss_of_a_member() {
    assert_eq!(CHUNK_BYTES % BLOCK as u64, 0);
    sweep(Level::Raid5, 3);
    sweep(Level::Raid5, 5);
}

#[test]
fn raid10_survives_a_cut_at_every_write_and_the_loss_of_a_member() {
    sweep(Level::Raid10, 2);
    sweep(Level::Raid10, 4);
}
