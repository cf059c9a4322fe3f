//! The caller's memory, as a list of pieces, beside plain bytes. All of it is called while the I/O
//! that the pieces belong to is under way.

use crc_fast::{CrcAlgorithm, Digest};

use crate::io::Segment;
use wharf_runtime::xor_into;

/// The pieces of `len_bytes` that begin `skip_bytes` after the first.
pub(super) fn cut(segments: &[Segment], mut skip_bytes: u64, len_bytes: u64) -> Vec<Segment> {
    let mut out = Vec::new();
    let mut left = len_bytes;
    for segment in segments {
        let len = segment.len_bytes as u64;
        if skip_bytes >= len {
            skip_bytes -= len;
            continue;
        }
        let part = (len - skip_bytes).min(left);
        if part == 0 {
            break;
        }
        out.push(Segment {
            pointer: segment.pointer.wrapping_add(skip_bytes as usize),
            len_bytes: part as usize,
        });
        left -= part;
        skip_bytes = 0;
    }
    assert_eq!(left, 0, "the list is long enough");
    out
}

/// The bytes of a piece that is being written to the array.
fn bytes_of(segment: &Segment) -> &[u8] {
    // SAFETY: `submit`'s caller promises that the memory is valid, and not changed while it is written.
    unsafe { std::slice::from_raw_parts(segment.pointer, segment.len_bytes) }
}

/// Goes through `bytes` and the pieces side by side.
fn beside<'a>(
    bytes: &'a mut [u8],
    segments: &[Segment],
    mut each: impl FnMut(&mut [u8], &Segment),
) {
    let mut rest: &'a mut [u8] = bytes;
    for segment in segments {
        let (now, later) = rest.split_at_mut(segment.len_bytes);
        each(now, segment);
        rest = later;
    }
    assert!(rest.is_empty(), "both are of one length");
}

/// `into ^= segments`.
pub(super) fn xor_segments(into: &mut [u8], segments: &[Segment]) {
    beside(into, segments, |now, segment| {
        xor_into(now, bytes_of(segment))
    });
}

/// Copies the pieces to `into`.
pub(super) fn copy_in(into: &mut [u8], segments: &[Segment]) {
    beside(into, segments, |now, segment| {
        now.copy_from_slice(bytes_of(segment))
    });
}

/// Copies `from` to the pieces, which are those of a read.
pub(super) fn copy_out(from: &mut [u8], segments: &[Segment]) {
    beside(from, segments, |now, segment| {
        // SAFETY: `submit`'s caller promises that the memory is valid and nobody else's while it is read into.
        unsafe {
            segment
                .pointer
                .copy_from_nonoverlapping(now.as_ptr(), segment.len_bytes);
        }
    });
}

/// CRC32C of the pieces.
pub(super) fn crc_of(segments: &[Segment]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    segments.iter().for_each(|s| digest.update(bytes_of(s)));
    digest.finalize() as u32
}
