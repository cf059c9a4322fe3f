//! The vectors that are nearest to one: those with the least squares of Euclidean distances, the first of equals before others.
//!
//! A distance is summed in the same order wherever and however the bytes are cut, so parts that were looked at in different places can be
//! put together ([`merge`]), and the answer is that of one look at all.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{ARGUMENT_BYTES_MAX, COUNT_MAX, Refused, Step, give};

/// Bytes of a neighbour as a result: its distance as `f32`, four zeros, its number as `u64`, little-endian.
pub const NEIGHBOUR_BYTES: usize = 16;

/// A vector that is near.
#[derive(Debug, Clone, Copy)]
pub struct Neighbour {
    /// The square of its distance.
    pub distance: f32,
    /// Which of the vectors it is.
    pub number: u64,
}

impl PartialEq for Neighbour {
    fn eq(&self, other: &Neighbour) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Neighbour {}

impl PartialOrd for Neighbour {
    fn partial_cmp(&self, other: &Neighbour) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Neighbour {
    /// Nearer first; what is no number is farther than all.
    fn cmp(&self, other: &Neighbour) -> Ordering {
        let farness = |own: &Neighbour| match own.distance.is_nan() {
            true => f32::INFINITY,
            false => own.distance,
        };
        farness(self)
            .total_cmp(&farness(other))
            .then(self.number.cmp(&other.number))
    }
}

impl Neighbour {
    /// As a result.
    pub fn to_bytes(self) -> [u8; NEIGHBOUR_BYTES] {
        let mut bytes = [0; NEIGHBOUR_BYTES];
        bytes[..4].copy_from_slice(&self.distance.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// Of results.
    pub fn all_of(bytes: &[u8]) -> Vec<Neighbour> {
        let all = bytes.as_chunks::<NEIGHBOUR_BYTES>().0.iter();
        let one = |bytes: &[u8; NEIGHBOUR_BYTES]| Neighbour {
            distance: f32::from_le_bytes(bytes[..4].try_into().expect("four of them")),
            number: u64::from_le_bytes(bytes[8..].try_into().expect("eight of them")),
        };
        all.map(one).collect()
    }
}

/// Of the nearest of two parts, the `count` nearest.
pub fn merge(one: &[Neighbour], other: &[Neighbour], count: usize) -> Vec<Neighbour> {
    let mut all = [one, other].concat();
    all.sort_unstable();
    all.truncate(count);
    all
}

pub(super) struct Nearest {
    query: Vec<f32>,
    count: usize,
    /// The farthest on top.
    nearest: BinaryHeap<Neighbour>,
    /// The beginning of a vector.
    begun: Vec<u8>,
    next: u64,
    results: Option<Vec<u8>>,
    given: usize,
}

impl Nearest {
    pub(super) fn new(argument: &[u8], count: u32) -> Result<Nearest, Refused> {
        let bytes = argument.len();
        if bytes == 0 || !bytes.is_multiple_of(4) || bytes > ARGUMENT_BYTES_MAX {
            let rule = "a vector is 1 to 16384 numbers of 4 bytes";
            return Err(Refused::Argument { bytes, rule });
        }
        if !(1..=COUNT_MAX).contains(&count) {
            return Err(Refused::Count(count));
        }
        Ok(Nearest {
            query: numbers(argument).collect(),
            count: count as usize,
            nearest: BinaryHeap::new(),
            begun: Vec::new(),
            next: 0,
            results: None,
            given: 0,
        })
    }

    fn vector_bytes(&self) -> usize {
        4 * self.query.len()
    }

    fn look(&mut self, vector: &[u8]) {
        let found = Neighbour {
            distance: distance(&self.query, vector),
            number: self.next,
        };
        self.next += 1;
        if self.nearest.len() < self.count {
            self.nearest.push(found);
        } else if let Some(mut farthest) = self.nearest.peek_mut()
            && found < *farthest
        {
            *farthest = found;
        }
    }

    pub(super) fn step(&mut self, input: &[u8], _: &mut [u8]) -> Result<Step, Refused> {
        let bytes = self.vector_bytes();
        let mut rest = input;
        if !self.begun.is_empty() {
            let (head, more) = rest.split_at(rest.len().min(bytes - self.begun.len()));
            self.begun.extend_from_slice(head);
            rest = more;
            if self.begun.len() == bytes {
                let mut vector = std::mem::take(&mut self.begun);
                self.look(&vector);
                vector.clear();
                self.begun = vector;
            }
        }
        let whole = rest.chunks_exact(bytes);
        let tail = whole.remainder();
        whole.for_each(|vector| self.look(vector));
        self.begun.extend_from_slice(tail);
        Ok(Step::of(input.len(), 0))
    }

    pub(super) fn finish(&mut self, room: &mut [u8]) -> Result<Step, Refused> {
        if !self.begun.is_empty() {
            return Err(Refused::Partial(self.vector_bytes()));
        }
        let nearest = &mut self.nearest;
        let results = self.results.get_or_insert_with(|| {
            let all = std::mem::take(nearest).into_sorted_vec();
            all.into_iter().flat_map(Neighbour::to_bytes).collect()
        });
        Ok(Step::of(0, give(results, &mut self.given, room)))
    }

    pub(super) fn value(&self) -> u64 {
        let bytes = self.results.as_ref().map_or(0, Vec::len);
        (bytes / NEIGHBOUR_BYTES) as u64
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    let all = bytes.as_chunks::<4>().0.iter();
    all.map(|number| f32::from_le_bytes(*number))
}

/// Sums that go on beside each other, so that a processor does several at once.
const SUMS: usize = 16;

/// The square of the distance of two vectors of the same length.
fn distance(query: &[f32], vector: &[u8]) -> f32 {
    let (queries, query_rest) = query.as_chunks::<SUMS>();
    let (vectors, vector_rest) = vector.as_chunks::<{ 4 * SUMS }>();
    let mut sums = [0f32; SUMS];
    for (query, vector) in queries.iter().zip(vectors) {
        for (nth, number) in vector.as_chunks::<4>().0.iter().enumerate() {
            let difference = query[nth] - f32::from_le_bytes(*number);
            sums[nth] += difference * difference;
        }
    }
    for (query, number) in query_rest.iter().zip(numbers(vector_rest)) {
        sums[0] += (query - number) * (query - number);
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Function, Work, whole};

    fn bytes_of(numbers: impl IntoIterator<Item = f32>) -> Vec<u8> {
        numbers.into_iter().flat_map(f32::to_le_bytes).collect()
    }

    /// Numbers at random, of which many are equal.
    fn random(count: usize, mut seed: u32) -> Vec<f32> {
        let next = move || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((seed >> 24) % 7) as f32 - 3.0
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    /// By sorting all distances, which are whole numbers here and so are exact.
    fn right(all: &[f32], query: &[f32], count: usize) -> Vec<(f32, u64)> {
        let each = all.chunks(query.len()).zip(0..);
        let mut found: Vec<(f32, u64)> = each
            .map(|(vector, number)| {
                let squares = vector.iter().zip(query).map(|(a, b)| (a - b) * (a - b));
                (squares.sum(), number)
            })
            .collect();
        found.sort_by(|a, b| a.partial_cmp(b).expect("they are numbers"));
        found.truncate(count);
        found
    }

    #[test]
    fn all_cuts_of_the_bytes_give_what_sorting_all_gives() {
        for (dims, vectors, count) in [(1, 50, 3), (7, 40, 40), (16, 33, 5), (100, 20, 64)] {
            let (all, query) = (random(dims * vectors, 1), random(dims, 2));
            let (bytes, argument) = (bytes_of(all.clone()), bytes_of(query.clone()));
            for cut in [1, 3, 4, 63, 64, 400, 10_000] {
                let mut work = Work::new(Function::Nearest, &argument, count).unwrap();
                for piece in bytes.chunks(cut) {
                    assert_eq!(work.step(piece, &mut []).unwrap().taken, piece.len());
                }
                let (mut out, mut room) = (Vec::new(), [0; 24]);
                loop {
                    let made = work.finish(&mut room).unwrap().made;
                    out.extend_from_slice(&room[..made]);
                    if made == 0 {
                        break;
                    }
                }
                let found = Neighbour::all_of(&out);
                let found: Vec<_> = found.iter().map(|one| (one.distance, one.number)).collect();
                assert_eq!(found, right(&all, &query, count as usize), "{dims} {cut}");
                assert_eq!(work.value(), found.len() as u64);
            }
        }
    }

    /// The ten nearest of 2,000 vectors by faiss 1.15.1 (PyPI, `IndexFlatL2`), and the square of the first one's distance. The numbers are those of
    /// the generator of [`random`], its upper 24 bits as numbers from -1 to 1, begun with as many as there are dimensions, and one more.
    #[test]
    fn the_nearest_are_those_of_faiss() {
        let numbers = |count: usize, mut seed: u32| -> Vec<u8> {
            let next = move || {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 8) as f32 / 8_388_608.0 - 1.0
            };
            bytes_of(std::iter::repeat_with(next).take(count))
        };
        for (dims, first, expected) in [
            (
                3,
                0.001_738_08,
                [882, 1924, 344, 1646, 1074, 1194, 677, 667, 1253, 1495],
            ),
            (
                64,
                20.840_618,
                [1102, 1874, 1804, 1549, 1196, 1896, 1954, 326, 587, 1493],
            ),
            (
                128,
                60.184_31,
                [224, 1383, 1024, 766, 1490, 948, 1182, 83, 779, 1097],
            ),
            (
                500,
                296.653_35,
                [1139, 3, 1845, 417, 1877, 163, 1342, 1344, 208, 289],
            ),
        ] {
            let all = numbers(2_000 * dims, dims as u32);
            let query = numbers(dims, dims as u32 + 1);
            let (_, made) = whole(Function::Nearest, &query, 10, &all).unwrap();
            let found = Neighbour::all_of(&made);
            let places: Vec<u64> = found.iter().map(|one| one.number).collect();
            assert_eq!(places, expected, "{dims} dimensions");
            assert!(
                (found[0].distance / first - 1.0).abs() < 1e-5,
                "{dims} dimensions"
            );
        }
    }

    #[test]
    fn parts_that_are_put_together_are_the_whole() {
        let (all, query) = (bytes_of(random(8 * 100, 3)), bytes_of(random(8, 4)));
        let nearest = |bytes: &[u8]| {
            Neighbour::all_of(&whole(Function::Nearest, &query, 9, bytes).unwrap().1)
        };
        for cut in [0, 1, 37, 100] {
            let (one, other) = all.split_at(cut * 32);
            let mut other = nearest(other);
            other
                .iter_mut()
                .for_each(|found| found.number += cut as u64);
            assert_eq!(merge(&nearest(one), &other, 9), nearest(&all));
        }
    }

    #[test]
    fn what_is_no_number_is_farthest_and_what_has_no_meaning_is_refused() {
        let query = bytes_of([0.0]);
        let all = bytes_of([f32::NAN, 5.0, f32::INFINITY, 1.0]);
        let (count, made) = whole(Function::Nearest, &query, 4, &all).unwrap();
        let numbers: Vec<u64> = Neighbour::all_of(&made).iter().map(|n| n.number).collect();
        assert_eq!((count, numbers), (4, vec![3, 1, 0, 2]));
        let refused = |argument: &[u8], count| Work::new(Function::Nearest, argument, count).err();
        assert_eq!(refused(&query, 0), Some(Refused::Count(0)));
        assert_eq!(refused(&query, u32::MAX), Some(Refused::Count(u32::MAX)));
        for bytes in [0, 3, ARGUMENT_BYTES_MAX + 4] {
            assert!(matches!(
                refused(&vec![0; bytes], 1),
                Some(Refused::Argument { .. })
            ));
        }
        let partial = whole(Function::Nearest, &query, 1, &all[..7]);
        assert_eq!(partial, Err(Refused::Partial(4)));
    }
}
