//! Pages in memory, as many as there is room for: the least wanted one makes room for a new one, by CLOCK (Corbató 1968).

use rustc_hash::FxHashMap;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

/// Frames of memory that are asked for at once: a program that reads little takes little.
const CHUNK_FRAMES: usize = 16;

/// Which page: of which version of a file, and which one there. What is of a version that nobody looks for any more is never
/// found again, and leaves by the clock.
pub(super) type Key = (u64, u64);

/// What is in a frame without a page: of no version.
const NOTHING: Key = (0, 0);

type Page = [u8; PAGE];

/// A page that begins where one of memory does: what lies in one line of a file's page lies in one line of the processor's.
#[derive(Clone)]
#[repr(align(4096))]
struct Frame(Page);

/// See the [module](self).
pub(super) struct Frames {
    chunks: Vec<Box<[Frame]>>,
    places: FxHashMap<Key, u32>,
    /// What is in each frame, and whether it was wanted since the hand was there.
    held: Vec<(Key, bool)>,
    hand: usize,
    most: usize,
}

impl Frames {
    /// None yet, at most so many.
    pub(super) fn new(most: usize) -> Frames {
        Frames {
            chunks: Vec::new(),
            places: FxHashMap::default(),
            held: Vec::new(),
            hand: 0,
            most,
        }
    }

    /// A page, if it is here.
    #[inline]
    pub(super) fn get(&mut self, key: Key) -> Option<&mut Page> {
        let frame = *self.places.get(&key)? as usize;
        self.held[frame].1 = true;
        Some(self.page(frame))
    }

    /// Whether one more page pushes out no other.
    pub(super) fn has_room(&self) -> bool {
        self.held.len() < self.most
    }

    /// Whether a page is here.
    pub(super) fn has(&self, key: Key) -> bool {
        self.places.contains_key(&key)
    }

    /// A page that is to be filled: what is there before is of no meaning.
    pub(super) fn put(&mut self, key: Key) -> &mut Page {
        let known = self.places.get(&key).map(|frame| *frame as usize);
        let frame = known.unwrap_or_else(|| {
            let frame = self.free();
            self.places.insert(key, frame as u32);
            self.held[frame].0 = key;
            frame
        });
        self.held[frame].1 = true;
        self.page(frame)
    }

    /// Drops a page, if it is here; its frame is taken when the hand comes there.
    pub(super) fn remove(&mut self, key: Key) {
        if let Some(frame) = self.places.remove(&key) {
            self.held[frame as usize] = (NOTHING, false);
        }
    }

    #[inline]
    fn page(&mut self, frame: usize) -> &mut Page {
        &mut self.chunks[frame / CHUNK_FRAMES][frame % CHUNK_FRAMES].0
    }

    /// A frame that nobody needs.
    fn free(&mut self) -> usize {
        if self.held.len() < self.most {
            let frame = self.held.len();
            if frame == self.chunks.len() * CHUNK_FRAMES {
                let zeros = vec![Frame([0; PAGE]); CHUNK_FRAMES];
                self.chunks.push(zeros.into_boxed_slice());
            }
            self.held.push((NOTHING, false));
            return frame;
        }
        loop {
            let frame = self.hand;
            self.hand = (self.hand + 1) % self.held.len();
            let (key, is_wanted) = &mut self.held[frame];
            if !std::mem::take(is_wanted) {
                self.places.remove(key);
                return frame;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_wanted_stay_and_others_make_room() {
        let mut frames = Frames::new(300);
        for page in 0..300 {
            frames.put((1, page))[7] = page as u8;
        }
        // Once around, all are wanted; then page 0 went.
        frames.put((1, 300))[7] = 44;
        assert!(!frames.has((1, 0)));
        assert_eq!(frames.get((1, 1)).unwrap()[7], 1);
        for page in 301..400 {
            frames.put((2, page))[7] = page as u8;
            assert_eq!(frames.get((1, 1)).unwrap()[7], 1, "it is wanted");
        }
        assert_eq!(frames.get((1, 300)).unwrap()[7], 44);
        assert_eq!(frames.get((2, 399)).unwrap()[7], 399_u64 as u8);
        assert_eq!(frames.get((2, 1)), None);
        assert_eq!(frames.places.len(), 300);
        // The same page again takes no frame of another.
        frames.put((2, 399))[7] = 9;
        assert_eq!(frames.places.len(), 300);
        // One that was dropped and came again elsewhere stays when the hand comes to where it was.
        for round in 0..3_u64 {
            frames.remove((2, 399));
            assert_eq!(frames.get((2, 399)), None);
            frames.put((2, 399))[7] = 10;
            for page in 0..299 {
                frames.put((3 + round, page))[7] = 11;
                assert_eq!(frames.get((2, 399)).unwrap()[7], 10);
            }
        }
        frames.remove((9, 9));
        assert!(frames.places.len() <= 300);
    }
}
