//! CRC-32C.

use crc_fast::{CrcAlgorithm, Digest};

use super::{Refused, Step};

pub(super) struct Checksum(Digest);

impl Checksum {
    pub(super) fn new() -> Checksum {
        Checksum(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    pub(super) fn step(&mut self, input: &[u8], _: &mut [u8]) -> Result<Step, Refused> {
        self.0.update(input);
        Ok(Step::of(input.len(), 0))
    }

    pub(super) fn finish(&mut self, _: &mut [u8]) -> Result<Step, Refused> {
        Ok(Step::default())
    }

    pub(super) fn value(&self) -> u64 {
        self.0.finalize()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Function, whole};

    #[test]
    fn the_vectors_of_rfc_3720_come_out() {
        // Appendix B.4.
        let rising: Vec<u8> = (0..32).collect();
        for (bytes, right) in [
            (vec![0; 32], 0x8a91_36aa),
            (vec![0xff; 32], 0x62a8_ab43),
            (rising, 0x46dd_794e),
            (b"123456789".to_vec(), 0xe306_9283),
            (Vec::new(), 0),
        ] {
            let (value, made) = whole(Function::Checksum, &[], 0, &bytes).unwrap();
            assert_eq!((value, made), (right, Vec::new()));
        }
    }
}
