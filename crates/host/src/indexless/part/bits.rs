//! Numbers of a few bits in a string of bytes.

/// Writes numbers one after another, lowest bit first.
#[derive(Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that the last byte has; 0 if it is full or there is none.
    used: u32,
}

impl BitWriter {
    /// Goes on behind `bytes`.
    pub(super) fn after(bytes: Vec<u8>) -> BitWriter {
        BitWriter { bytes, used: 0 }
    }

    /// Appends the low `count` bits of `value`.
    pub(super) fn push(&mut self, value: u32, count: u32) {
        for bit in 0..count {
            if self.used == 0 {
                self.bytes.push(0);
            }
            let last = self.bytes.last_mut().expect("a byte was pushed");
            *last |= ((value >> bit & 1) as u8) << self.used;
            self.used = (self.used + 1) % 8;
        }
    }

    /// What was written, up to whole bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The `count` bits (at most 16) from bit `at` on.
#[inline]
pub(super) fn bits_at(bytes: &[u8], at: usize, count: u32) -> u32 {
    let byte = |i: usize| u32::from(bytes.get(i).copied().unwrap_or(0));
    let first = at / 8;
    let word = byte(first) | byte(first + 1) << 8 | byte(first + 2) << 16;
    word >> (at % 8) & ((1 << count) - 1)
}

/// Puts `count` bits (at most 8) at bit `at`.
pub(super) fn set_bits(bytes: &mut [u8], at: usize, count: u32, value: u32) {
    for bit in 0..count as usize {
        let (byte, shift) = ((at + bit) / 8, (at + bit) % 8);
        bytes[byte] = bytes[byte] & !(1 << shift) | ((value >> bit & 1) as u8) << shift;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_can_be_changed() {
        let numbers = [
            (5, 3),
            (0x1fff, 13),
            (0, 1),
            (1, 1),
            (77, 7),
            (0xffff, 16),
            (2, 2),
        ];
        let mut writer = BitWriter::after(vec![0xaa]);
        numbers
            .iter()
            .for_each(|(value, count)| writer.push(*value, *count));
        let mut bytes = writer.into_bytes();
        let mut at = 8;
        for (value, count) in numbers {
            assert_eq!(bits_at(&bytes, at, count), value);
            at += count as usize;
        }
        set_bits(&mut bytes, 8, 3, 2);
        assert_eq!(
            (bits_at(&bytes, 8, 3), bits_at(&bytes, 11, 13)),
            (2, 0x1fff)
        );
        assert_eq!(bytes[0], 0xaa);
    }
}
