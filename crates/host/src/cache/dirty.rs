//! The set of dirty frames of a shard: a bit for each, and a bit for each 64 of those, so that a
//! flush finds few dirty frames among many without looking at all.

/// A set of frame numbers.
pub struct DirtySet {
    bits: Box<[u64]>,
    summary: Box<[u64]>,
    count: u32,
}

impl DirtySet {
    /// No frame of `frames` is dirty.
    pub fn new(frames: u32) -> DirtySet {
        let words = (frames as usize).div_ceil(64);
        DirtySet {
            bits: vec![0; words].into(),
            summary: vec![0; words.div_ceil(64)].into(),
            count: 0,
        }
    }

    /// Number of dirty frames.
    #[inline]
    pub fn len(&self) -> u32 {
        self.count
    }

    /// True if no frame is dirty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        (self.bits.len() + self.summary.len()) * size_of::<u64>()
    }

    /// Puts a frame in or takes it out; nothing happens if it is so already.
    #[inline]
    pub fn set(&mut self, frame: u32, dirty: bool) {
        let (word, bit) = ((frame / 64) as usize, 1u64 << (frame % 64));
        let was = self.bits[word] & bit != 0;
        if was == dirty {
            return;
        }
        self.bits[word] ^= bit;
        self.count = if dirty {
            self.count + 1
        } else {
            self.count - 1
        };
        let summary = &mut self.summary[word / 64];
        if self.bits[word] == 0 {
            *summary &= !(1 << (word % 64));
        } else {
            *summary |= 1 << (word % 64);
        }
    }

    /// The dirty frames in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let words = ones(&self.summary);
        words.flat_map(|word| {
            ones(&self.bits[word..word + 1]).map(move |bit| (word * 64 + bit) as u32)
        })
    }
}

/// The positions of the bits that are set.
fn ones(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(i, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(i * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use wharf_runtime::Seed;

    #[test]
    fn it_agrees_with_a_set() {
        for seed in 0..50 {
            let mut rng = Seed(seed).child("dirty").rng();
            let frames = 1 + rng.below(10_000) as u32;
            let (mut dirty, mut model) = (DirtySet::new(frames), BTreeSet::new());
            for _ in 0..500 {
                let frame = rng.below(u64::from(frames)) as u32;
                if rng.chance(3, 5) {
                    dirty.set(frame, true);
                    model.insert(frame);
                } else {
                    dirty.set(frame, false);
                    model.remove(&frame);
                }
            }
            assert!(dirty.iter().eq(model.iter().copied()), "seed {seed}");
            assert_eq!(dirty.len() as usize, model.len());
            assert_eq!(dirty.is_empty(), model.is_empty());
        }
    }
}
