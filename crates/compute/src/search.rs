//! Where a word is: places that do not overlap, from the first on, as most programs count them.

use memchr::memmem::Finder;

use super::{ARGUMENT_BYTES_MAX, COUNT_MAX, Refused, Step, give};

pub(super) struct Search {
    word: Finder<'static>,
    /// Places that are kept at most.
    keep: usize,
    places: Vec<u8>,
    found: u64,
    /// The end of what was taken, of which a word may begin, and where it lies.
    begun: Vec<u8>,
    begun_at: u64,
    given: usize,
}

impl Search {
    pub(super) fn new(argument: &[u8], count: u32) -> Result<Search, Refused> {
        let bytes = argument.len();
        if bytes == 0 || bytes > ARGUMENT_BYTES_MAX {
            let rule = "a word is 1 to 65536 bytes";
            return Err(Refused::Argument { bytes, rule });
        }
        if count > COUNT_MAX {
            return Err(Refused::Count(count));
        }
        Ok(Search {
            word: Finder::new(argument).into_owned(),
            keep: count as usize,
            places: Vec::new(),
            found: 0,
            begun: Vec::new(),
            begun_at: 0,
            given: 0,
        })
    }

    fn note(&mut self, place: u64) {
        self.found += 1;
        if self.places.len() < 8 * self.keep {
            self.places.extend_from_slice(&place.to_le_bytes());
        }
    }

    /// Looks through bytes that begin at byte `at`; gives where what may begin a word, and is no part of one, begins.
    fn look(&mut self, bytes: &[u8], at: u64) -> usize {
        let word = self.word.clone();
        let mut from = 0;
        while let Some(place) = word.find(&bytes[from..]) {
            self.note(at + (from + place) as u64);
            from += place + word.needle().len();
        }
        from.max((bytes.len() + 1).saturating_sub(word.needle().len()))
    }

    pub(super) fn step(&mut self, input: &[u8], _: &mut [u8]) -> Result<Step, Refused> {
        let step = Step::of(input.len(), 0);
        let (mut rest, length) = (input, self.word.needle().len());
        if !self.begun.is_empty() {
            // As much as a word that has begun can reach.
            let (head, _) = rest.split_at(rest.len().min(length - 1));
            let old = self.begun.len();
            let (mut both, at) = (std::mem::take(&mut self.begun), self.begun_at);
            both.extend_from_slice(head);
            let from = self.look(&both, at);
            if head.len() == rest.len() {
                both.drain(..from);
                (self.begun, self.begun_at) = (both, at + from as u64);
                return Ok(step);
            }
            // What lies behind is looked for in the input itself; what was found reaches into it.
            let used = from.max(old) - old;
            rest = &rest[used..];
            self.begun_at = at + (old + used) as u64;
        }
        let from = self.look(rest, self.begun_at);
        self.begun = rest[from..].to_vec();
        self.begun_at += from as u64;
        Ok(step)
    }

    pub(super) fn finish(&mut self, room: &mut [u8]) -> Result<Step, Refused> {
        // A place is given whole.
        let whole = room.len() / 8 * 8;
        let made = give(&self.places, &mut self.given, &mut room[..whole]);
        Ok(Step::of(0, made))
    }

    pub(super) fn value(&self) -> u64 {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Function, Work};

    /// By comparing at every byte.
    fn right(text: &[u8], word: &[u8]) -> Vec<u64> {
        let (mut found, mut at) = (Vec::new(), 0);
        while at + word.len() <= text.len() {
            match &text[at..at + word.len()] == word {
                true => {
                    found.push(at as u64);
                    at += word.len();
                }
                false => at += 1,
            }
        }
        found
    }

    fn found(text: &[u8], word: &[u8], cuts: impl Fn(usize) -> usize) -> (u64, Vec<u64>) {
        let mut work = Work::new(Function::Search, word, COUNT_MAX).unwrap();
        let (mut rest, mut nth) = (text, 0);
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(cuts(nth).min(rest.len()));
            work.step(piece, &mut []).unwrap();
            (rest, nth) = (more, nth + 1);
        }
        let (mut out, mut room) = (Vec::new(), [0; 20]);
        loop {
            let made = work.finish(&mut room).unwrap().made;
            if made == 0 {
                break;
            }
            out.extend_from_slice(&room[..made]);
        }
        let places = out.as_chunks::<8>().0.iter();
        (
            work.value(),
            places.map(|at| u64::from_le_bytes(*at)).collect(),
        )
    }

    #[test]
    fn all_cuts_find_what_comparing_at_every_byte_finds() {
        // Few letters, so that words begin everywhere and overlap themselves.
        let mut state = 5u32;
        let letter = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b"ab"[(state >> 30) as usize % 2]
        };
        let text: Vec<u8> = (0..600).map(letter).collect();
        for word in [&b"a"[..], b"ab", b"aa", b"abab", b"aabaa", b"bbbb"] {
            let right = right(&text, word);
            assert!(!right.is_empty(), "the test looks for something");
            for cut in 1..=20 {
                let (count, places) = found(&text, word, |_| cut);
                assert_eq!((count, &places), (right.len() as u64, &right), "{cut}");
            }
            for seed in 0..50 {
                let cut = |nth: usize| 1 + (nth * 7 + seed * 13) % 11;
                assert_eq!(found(&text, word, cut).1, right, "{seed}");
            }
            assert_eq!(found(&text, word, |_| 600).1, right);
        }
    }

    #[test]
    fn more_places_than_are_wanted_are_counted_and_not_kept() {
        let mut work = Work::new(Function::Search, b"x", 3).unwrap();
        work.step(&[b'x'; 100], &mut []).unwrap();
        let mut room = [0; 100];
        assert_eq!(work.finish(&mut room), Ok(Step::of(0, 24)));
        assert_eq!(work.value(), 100);
        assert!(Work::new(Function::Search, b"", 3).is_err());
        assert!(Work::new(Function::Search, b"x", COUNT_MAX + 1).is_err());
    }
}
