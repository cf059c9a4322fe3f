//! A core's share of the memory that the host lends: where its frames are.
//!
//! The host lends chunks; each core gets a run of frames of equal length over them, so a share is
//! one or more *pieces* of chunks. Frames are numbered from 0 in each core.

use std::sync::Arc;

use wharf_runtime::{Holder, Versioned};
use wharf_wire::dma::{DmaSpace, HostPage, PAGE_BYTES};
use wharf_wire::host_memory::FrameTable;

/// A chunk of the host memory buffer.
pub struct Chunk {
    /// DMA address of the first frame.
    pub badd: u64,
    /// What the host calls it.
    pub vadd: u64,
    /// The chunk's frame table.
    pub table: Arc<FrameTable>,
}

/// A run of frames of one chunk.
struct Piece {
    /// The share's number of its first frame.
    first: u32,
    frames: u32,
    /// The chunk's number of its first frame.
    in_chunk: u32,
    badd: u64,
    vadd: u64,
    table: Arc<FrameTable>,
}

/// A core's frames.
#[derive(Default)]
pub struct Hmb {
    pieces: Vec<Piece>,
    frames: u32,
}

/// Where one frame is.
pub struct FrameAt<'a> {
    piece: &'a Piece,
    index: u32,
}

/// Divides chunks among `cores` cores evenly; a rest stays unused.
pub fn divide(chunks: &[Chunk], cores: u32) -> Vec<Arc<Hmb>> {
    let all: u64 = chunks.iter().map(|c| c.table.frames() as u64).sum();
    let each = all / u64::from(cores);
    let share = |core: u32| {
        let (begin, end) = (u64::from(core) * each, (u64::from(core) + 1) * each);
        let mut hmb = Hmb::default();
        let mut at = 0;
        for chunk in chunks {
            let after = at + chunk.table.frames() as u64;
            let (from, to) = (begin.max(at), end.min(after));
            if from < to {
                hmb.push(chunk, (from - at) as u32, (to - from) as u32);
            }
            at = after;
        }
        Arc::new(hmb)
    };
    (0..cores).map(share).collect()
}

impl Hmb {
    fn push(&mut self, chunk: &Chunk, in_chunk: u32, frames: u32) {
        let offset = u64::from(in_chunk) * PAGE_BYTES as u64;
        self.pieces.push(Piece {
            first: self.frames,
            frames,
            in_chunk,
            badd: chunk.badd + offset,
            vadd: chunk.vadd + offset,
            table: chunk.table.clone(),
        });
        self.frames += frames;
    }

    /// Number of frames.
    #[inline]
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Bytes of the drive's memory that a share takes beside the frames' accounts.
    pub fn bytes(&self) -> usize {
        size_of::<Hmb>() + self.pieces.len() * size_of::<Piece>()
    }

    /// Where a frame is.
    #[inline]
    pub fn at(&self, frame: u32) -> FrameAt<'_> {
        assert!(frame < self.frames, "frame {frame} of {}", self.frames);
        let after = match self.pieces.len() {
            1 => 1,
            _ => self.pieces.partition_point(|piece| piece.first <= frame),
        };
        let piece = &self.pieces[after - 1];
        FrameAt {
            piece,
            index: frame - piece.first,
        }
    }

    /// The dirty frames, up to 64 at a time: the number of the first frame meant, and a bit for each
    /// that is dirty from there on.
    pub fn dirty_words(&self) -> impl Iterator<Item = (u32, u64)> {
        self.pieces.iter().flat_map(|piece| {
            let (low, high) = (piece.in_chunk, piece.in_chunk + piece.frames);
            (low / 64..high.div_ceil(64)).map(move |word| {
                let begin = word * 64;
                let below = u64::MAX << low.saturating_sub(begin).min(63);
                let above = u64::MAX >> (64 - (high - begin).min(64));
                let bits = piece.table.dirty_bits(word as usize) & below & above;
                let shift = low.saturating_sub(begin);
                (piece.first + begin.max(low) - low, bits >> shift)
            })
        })
    }
}

impl FrameAt<'_> {
    /// What the host calls the frame.
    #[inline]
    pub fn address(&self) -> u64 {
        self.piece.vadd + u64::from(self.index) * PAGE_BYTES as u64
    }

    #[inline]
    fn in_table(&self) -> usize {
        (self.piece.in_chunk + self.index) as usize
    }

    /// The frame itself. Who writes to it has locked it, or nobody has its address.
    #[inline]
    pub fn page<'a>(&self, dma: &'a DmaSpace) -> HostPage<'a> {
        let at = self.piece.badd + u64::from(self.index) * PAGE_BYTES as u64;
        dma.page(at).expect("checked when it was hmb")
    }

    #[inline]
    fn word(&self) -> &Versioned {
        self.piece.table.word(self.in_table())
    }

    /// True if the host has written the frame since it was copied last.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        self.piece.table.is_dirty(self.in_table())
    }

    /// Marks the frame as written.
    #[inline]
    pub fn set_dirty(&self) {
        self.piece.table.set_dirty(self.in_table());
    }

    /// Marks the frame as not written; to be called before it is copied. True if it was marked.
    #[inline]
    pub fn clear_dirty(&self) -> bool {
        self.is_dirty() && self.piece.table.clear_dirty(self.in_table())
    }

    /// Copies the frame out; false if the host is writing to it.
    #[inline]
    pub fn copy_out(&self, dma: &DmaSpace, out: &mut [u8]) -> bool {
        let word = self.word();
        let Some(version) = word.begin_read() else {
            self.mend();
            return false;
        };
        // SAFETY: whoever writes to it meanwhile has taken the word, and the copy is thrown away.
        unsafe { self.page(dma).copy_out(out) };
        word.end_read(version)
    }

    /// Takes the frame for writing; false if the host is writing to it. The core has locked no frame that
    /// it asks for again, and locks none over a wait.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.word().try_lock_as(Holder::DRIVE) || {
            self.mend();
            false
        }
    }

    /// Frees the word if it names the drive: it is the core that asks, and it does not have it.
    #[cold]
    pub fn mend(&self) {
        self.unlock_of(Holder::DRIVE);
    }

    /// Frees the word, whoever it names. Nobody can have it: the frame is about to get a page, say.
    #[inline]
    pub fn free_word(&self) {
        self.word().free_unless(|_| false);
    }

    /// True while the word names `holder`.
    pub fn is_held_by(&self, holder: Holder) -> bool {
        self.word().is_held_by(holder)
    }

    /// Gives the frame back on behalf of somebody, if the word names that one.
    pub fn unlock_of(&self, holder: Holder) {
        self.word().unlock_of(holder);
    }

    /// Gives the frame back after [`FrameAt::try_lock`].
    #[inline]
    pub fn unlock(&self) {
        self.word().unlock();
    }
}

#[cfg(test)]
mod tests {
    use wharf_wire::dma::STAMP_BYTES;
    use wharf_wire::host_memory::frame_table_pages;

    use super::*;

    fn chunks(space: &Arc<DmaSpace>, sizes: &[usize]) -> Vec<Chunk> {
        let chunk = |(index, frames): (usize, &usize)| {
            let table = space.register_whole(frame_table_pages(*frames)).unwrap();
            let frames = space.register(*frames).unwrap();
            let table = space.frame_table(table.address(0), frames.pages()).unwrap();
            Chunk {
                badd: frames.address(0),
                vadd: (index as u64 + 1) << 32,
                table: Arc::new(table),
            }
        };
        sizes.iter().enumerate().map(chunk).collect()
    }

    #[test]
    fn every_frame_belongs_to_one_core() {
        let space = DmaSpace::new(STAMP_BYTES);
        for (sizes, cores) in [(&[100][..], 3), (&[1, 70, 5, 130][..], 4), (&[2][..], 3)] {
            let chunks = chunks(&space, sizes);
            let shares = divide(&chunks, cores);
            let mut addresses = Vec::new();
            for share in &shares {
                assert_eq!(
                    share.frames() as usize,
                    sizes.iter().sum::<usize>() / cores as usize
                );
                addresses.extend((0..share.frames()).map(|frame| share.at(frame).address()));
            }
            assert!(
                addresses.is_sorted_by(|a, b| a < b),
                "in the order of the chunks"
            );
        }
    }

    #[test]
    fn dirty_frames_are_found_by_their_own_core_alone() {
        let space = DmaSpace::new(STAMP_BYTES);
        let chunks = chunks(&space, &[1, 70, 5, 130]);
        let shares = divide(&chunks, 3);
        for dirty in 0..shares[0].frames() {
            for (core, share) in shares.iter().enumerate() {
                share.at(dirty).set_dirty();
                for (other, looked_at) in shares.iter().enumerate() {
                    let found: Vec<u32> = looked_at
                        .dirty_words()
                        .flat_map(|(first, bits)| {
                            (0..64)
                                .filter(move |i| bits >> i & 1 == 1)
                                .map(move |i| first + i)
                        })
                        .collect();
                    let expected = if other == core {
                        vec![dirty]
                    } else {
                        Vec::new()
                    };
                    assert_eq!(found, expected, "frame {dirty} of core {core}");
                }
                assert!(share.at(dirty).clear_dirty() && !share.at(dirty).clear_dirty());
            }
        }
    }
}
