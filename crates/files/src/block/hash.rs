//! SipHash-1-3 of names, keyed, so that nobody can choose names that collide.
//!
//! J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", 2012, with one round for
//! each word and three at the end. It is part of the format, so it is here and not the library's,
//! which may change.

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

/// The hash of bytes under a key.
pub fn hash(key: [u64; 2], bytes: &[u8]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = bytes.len() as u8;
    for word in words.iter().chain([&last]) {
        let word = u64::from_le_bytes(*word);
        v[3] ^= word;
        round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..3).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(deprecated, clippy::disallowed_types)]
    fn it_is_the_hash_that_the_library_has_by_another_name() {
        use std::hash::Hasher;
        // The library's default has the key 0, and one and three rounds.
        for length in 0..40u8 {
            let bytes: Vec<u8> = (0..length).collect();
            let mut hasher = std::hash::DefaultHasher::new();
            hasher.write(&bytes);
            assert_eq!(hash([0, 0], &bytes), hasher.finish(), "{length}");
        }
        assert_ne!(hash([1, 0], b"a"), hash([0, 0], b"a"));
    }
}
