//! Power cuts at every single write and flush of a member, also with a member lost afterwards.

use std::collections::BTreeMap;

use wharf_runtime::{Rng, Seed};
use wharf_storage::array::{Array, Level, MemberState};
use wharf_storage::faulty::{Faulty, Loss, Power, Rates};
use wharf_storage::{AlignedBuffer, Io, Segment, Target};

use crate::model::contents;
use crate::support::{Bench, CHUNK_BYTES, flush, write};

const STRIPES: u64 = 3;
const BLOCK: usize = 512;

/// What each block is full of, with its number.
fn values(bytes: &[u8], story: &str) -> impl Iterator<Item = (usize, u8)> {
    let blocks = bytes.chunks(BLOCK).enumerate();
    blocks.map(move |(number, block)| {
        let whole = block.iter().all(|b| *b == block[0]);
        assert!(whole, "{story}: block {number} is torn");
        (number, block[0])
    })
}

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
        for (number, value) in values(bytes, story) {
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

/// Writes of single blocks, parts of chunks and whole stripes, some over each other, with flushes; whether all of it
/// was done.
fn work(array: &Array, expected: &mut Expected, rng: &mut Rng) -> bool {
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
        let begin = (rng.below(STRIPES) * stripe + at * BLOCK as u64) % array.size_bytes();
        let len = (blocks * BLOCK).min((array.size_bytes() - begin) as usize);
        let data = vec![value; len];
        expected.note(begin, &data);
        if !write(array, begin, &data) {
            return false;
        }
        if rng.chance(1, 3) {
            if !flush(array) {
                return false;
            }
            expected.flushed();
        }
    }
    true
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
        let done = work(&array, &mut expected, &mut Seed(9).rng());
        let complete = bench.power.is_on();
        assert!(done || !complete, "{story}: the cut alone stops it");
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

/// What each block was, in order, with many writes under way at a time.
struct History {
    versions: Vec<Vec<u8>>,
    /// The last version whose write has ended, by block.
    ended: Vec<usize>,
    /// The oldest version that may still be found, by block.
    oldest: Vec<usize>,
}

/// An I/O under way: the blocks and memory of a write, or what had ended when a flush was begun.
enum Under {
    Write(std::ops::Range<usize>, AlignedBuffer),
    Flush(Vec<usize>),
}

impl History {
    fn new(blocks: usize) -> History {
        History {
            versions: vec![vec![0]; blocks],
            ended: vec![0; blocks],
            oldest: vec![0; blocks],
        }
    }

    fn end(&mut self, under: Under) {
        match under {
            Under::Write(blocks, buffer) => {
                for block in blocks {
                    self.ended[block] = self.versions[block].len() - 1;
                    assert_eq!(self.versions[block].last(), buffer.first(), "left alone");
                }
            }
            Under::Flush(ended) => {
                for (oldest, ended) in self.oldest.iter_mut().zip(ended) {
                    *oldest = (*oldest).max(ended);
                }
            }
        }
    }

    /// Random writes and flushes, up to 12 at a time, until the power is gone; before one of them a member may die.
    fn work(&mut self, array: &Array, power: &Power, rng: &mut Rng, death: Option<(u64, &Faulty)>) {
        // Dropped after the channel, whose I/Os use its memory until then.
        let mut under: BTreeMap<u64, Under> = BTreeMap::new();
        let mut channel = array.channel(12).expect("a channel");
        for tag in 0..120u64 {
            if let Some((_, member)) = death.filter(|(at, _)| *at == tag) {
                member.die();
            }
            let first = rng.below(self.versions.len() as u64) as usize;
            let longest = [1, 4, 40, 200][rng.below(4) as usize];
            let blocks = first..(first + 1 + rng.below(longest) as usize).min(self.versions.len());
            let apart = |u: &Under| match u {
                Under::Write(other, _) => other.end <= blocks.start || blocks.end <= other.start,
                Under::Flush(_) => true,
            };
            if channel.in_flight() < 12 && under.values().all(apart) {
                let mut buffer = AlignedBuffer::new(blocks.len() * BLOCK);
                let value = (tag % 250) as u8 + 1;
                buffer.fill(value);
                let segments = [Segment::of(&mut buffer)];
                let flushes = rng.chance(1, 6);
                let io = match flushes {
                    true => Io::flush(tag),
                    false => Io::write((blocks.start * BLOCK) as u64, &segments, tag),
                };
                // SAFETY: the buffer is kept in `under`, untouched, until the I/O is reported.
                unsafe { channel.submit(io) }.expect("there is room");
                let begun = if flushes {
                    Under::Flush(self.ended.clone())
                } else {
                    blocks.clone().for_each(|b| self.versions[b].push(value));
                    Under::Write(blocks, buffer)
                };
                under.insert(tag, begun);
            }
            let min = if power.is_on() {
                usize::from(rng.chance(1, 3))
            } else {
                12
            };
            channel.wait(min, &mut |completion| {
                let begun = under
                    .remove(&completion.tag)
                    .expect("it was submitted once");
                if completion.result.is_ok() {
                    self.end(begun);
                }
            });
        }
    }

    fn check(&self, bytes: &[u8], story: &str) {
        for (number, value) in values(bytes, story) {
            let may = &self.versions[number][self.oldest[number]..];
            assert!(
                may.contains(&value),
                "{story}: block {number} is {value}, not of {may:?}"
            );
        }
    }
}

/// A cut at a random point with many I/Os under way, perhaps a member lost with it; or, if one `dies`, it fails all
/// I/Os from some time before the cut, and answers again after it.
fn deep_case(level: Level, members: u32, seed: u64, dies: bool) {
    let mut rng = Seed(seed).child("deep").rng();
    let bench = Bench::new(level, members, STRIPES, 3 + rng.below(30) as u32, seed);
    let rates = Rates {
        delay_polls_max: rng.below(6) as u32,
        ..Rates::default()
    };
    bench.members.iter().for_each(|m| m.set_rates(rates));
    let array = bench.open();
    let mut history = History::new(array.size_bytes() as usize / BLOCK);
    bench.power.cut_at(rng.below(900));
    let mut fate = Seed(seed).child("death").rng();
    let victim = fate.below(u64::from(members)) as usize;
    let death = dies.then(|| (fate.below(120), &*bench.members[victim]));
    history.work(&array, &bench.power, &mut rng, death);
    bench.power.cut();
    drop(array);
    bench.power.come_back();
    let loss = [Loss::All, Loss::Nothing, Loss::Some][rng.below(3) as usize];
    for member in &bench.members {
        member.live();
        member.settle(loss).expect("memory");
    }
    let lost = (!dies && rng.chance(2, 3)).then(|| rng.below(u64::from(members)) as usize);
    let out: Vec<usize> = lost.into_iter().collect();
    let array = bench.open_without(&out);
    let story = format!(
        "{level:?} of {members}, seed {seed}, {loss:?}, without {lost:?}, {victim} dies: {dies}"
    );
    history.check(&contents(&array), &story);
    if array.states().iter().all(|s| *s == MemberState::Active) {
        let report = array.check(false, &mut |_, _| {}).expect("a check");
        assert_eq!(report.mismatches, 0, "{story}");
    }
}

#[test]
fn raid5_cuts_amid_many_ios_leave_what_was_flushed() {
    for (level, members) in [(Level::Raid5, 3), (Level::Raid5, 5)] {
        for seed in 0..300 {
            deep_case(level, members, seed, false);
            deep_case(level, members, seed, true);
        }
    }
}

/// A member that had failed only in memory was taken for left out: after a cut amid a flush, the first I/O that failed
/// said so, the flush that found it failed counted as done, and with the power back it was as good as its mirror again.
#[test]
fn raid10_cuts_amid_many_ios_leave_what_was_flushed() {
    for (level, members) in [(Level::Raid10, 2), (Level::Raid10, 4)] {
        for seed in 0..500 {
            deep_case(level, members, seed, false);
            deep_case(level, members, seed, true);
        }
    }
}
