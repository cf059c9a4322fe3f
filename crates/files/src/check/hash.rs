//! The checksum of pages and the hash of names, written from their definitions.

/// The polynomial of CRC32C, lowest bit first.
const CASTAGNOLI: u32 = 0x82f6_3b78;

/// What a byte does to the checksum, with so many zeros behind it.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ (CASTAGNOLI * (crc & 1));
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[zeros - 1][byte];
            tables[zeros][byte] = tables[0][(before & 0xff) as usize] ^ (before >> 8);
            byte += 1;
        }
        zeros += 1;
    }
    tables
};

/// CRC32C.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut crc = !0u32;
    for word in words {
        let mixed = u64::from_le_bytes(*word) ^ u64::from(crc);
        let part = |nth: usize| TABLES[7 - nth][(mixed >> (8 * nth) & 0xff) as usize];
        crc = (0..8).fold(0, |all, nth| all ^ part(nth));
    }
    let step =
        |crc: u32, byte: &u8| TABLES[0][((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8);
    !rest.iter().fold(crc, step)
}

/// SipHash with one round for each word and three at the end.
pub fn sip13((key0, key1): (u64, u64), bytes: &[u8]) -> u64 {
    let mut a = key0 ^ u64::from_be_bytes(*b"somepseu");
    let mut b = key1 ^ u64::from_be_bytes(*b"dorandom");
    let mut c = key0 ^ u64::from_be_bytes(*b"lygenera");
    let mut d = key1 ^ u64::from_be_bytes(*b"tedbytes");
    let mut rounds = |word: u64, rounds: u32, last: u64| {
        d ^= word;
        c ^= last;
        for _ in 0..rounds {
            a = a.wrapping_add(b);
            b = a ^ b.rotate_left(13);
            a = a.rotate_left(32);
            c = c.wrapping_add(d);
            d = c ^ d.rotate_left(16);
            a = a.wrapping_add(d);
            d = a ^ d.rotate_left(21);
            c = c.wrapping_add(b);
            b = c ^ b.rotate_left(17);
            c = c.rotate_left(32);
        }
        a ^= word;
        a ^ b ^ c ^ d
    };
    for start in (0..=bytes.len()).step_by(8) {
        let rest = &bytes[start..bytes.len().min(start + 8)];
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        if rest.len() < 8 {
            word[7] = bytes.len() as u8;
        }
        rounds(u64::from_le_bytes(word), 1, 0);
    }
    rounds(0, 3, 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        // RFC 3720, B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&rising), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    #[allow(deprecated, clippy::disallowed_types)]
    fn the_hash_is_that_of_the_library() {
        use std::hash::Hasher;
        for length in 0..40u8 {
            let bytes: Vec<u8> = (0..length).collect();
            let mut hasher = std::hash::DefaultHasher::new();
            hasher.write(&bytes);
            assert_eq!(sip13((0, 0), &bytes), hasher.finish(), "{length}");
        }
        assert_ne!(sip13((1, 0), b"a"), sip13((0, 1), b"a"));
    }
}
