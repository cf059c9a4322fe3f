//! Parity: exclusive or of memory.

/// Bytes that one step of the loop takes: 8 words of 64 bits, which the compiler keeps in vectors.
const LANES_BYTES: usize = 64;

/// `into ^= from`, byte by byte. Both have the same length.
pub fn xor_into(into: &mut [u8], from: &[u8]) {
    assert_eq!(into.len(), from.len(), "parity is of equal lengths");
    let (into_blocks, into_rest) = into.as_chunks_mut::<LANES_BYTES>();
    let (from_blocks, from_rest) = from.as_chunks::<LANES_BYTES>();
    for (a, b) in into_blocks.iter_mut().zip(from_blocks) {
        let mut words = [0u64; 8];
        for (i, word) in words.iter_mut().enumerate() {
            *word = word_at(a, i) ^ word_at(b, i);
        }
        for (i, word) in words.iter().enumerate() {
            a[i * 8..i * 8 + 8].copy_from_slice(&word.to_ne_bytes());
        }
    }
    for (a, b) in into_rest.iter_mut().zip(from_rest) {
        *a ^= b;
    }
}

fn word_at(block: &[u8; LANES_BYTES], index: usize) -> u64 {
    let bytes = block[index * 8..index * 8 + 8].try_into();
    u64::from_ne_bytes(bytes.expect("8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    #[test]
    fn it_is_the_same_as_byte_by_byte_for_every_length() {
        let mut rng = Seed(1).child("xor").rng();
        for len in (0..300).chain([4096, 65536 + 7]) {
            let a: Vec<u8> = (0..len).map(|_| rng.next_u32() as u8).collect();
            let b: Vec<u8> = (0..len).map(|_| rng.next_u32() as u8).collect();
            let mut parity = a.clone();
            xor_into(&mut parity, &b);
            let slow: Vec<u8> = a.iter().zip(&b).map(|(x, y)| x ^ y).collect();
            assert_eq!(parity, slow);
            xor_into(&mut parity, &b);
            assert_eq!(parity, a, "twice is nothing");
        }
    }
}
