//! From pages to the payload of a chunk and back.
//!
//! Pages of bytes go through a codec. Of stamps a chunk keeps every one that is not 0, as it is, and is as
//! long as [`Sizes`] says that such pages would be: what is missing is filled up. Chunks of stamps are longer
//! than that only where the stamps themselves are, which is 8 bytes a page and a bit.

use std::cell::RefCell;

use wharf_codec::{Codec, CodecError, Compressor, Sizes};

use wharf_runtime::{Cpu, Op};

use super::format::SECTOR_BYTES;

/// The codec of a chunk of zeros, which has no payload.
pub const ZEROS: u8 = 255;

/// The codec of a chunk of stamps.
pub const STAMPS: u8 = 254;

/// Bytes of a stamp.
const STAMP_BYTES: usize = 8;

/// What a payload does not give back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unpackable;

/// How pages become payloads.
pub enum Packer {
    /// Pages of 4096 bytes, by a codec.
    Bytes(RefCell<Compressor>),
    /// Stamps.
    Stamps(Sizes),
}

impl Packer {
    /// Pages of bytes.
    ///
    /// # Errors
    /// A codec or a level that there is not.
    pub fn bytes(codec: Codec, level: u32) -> Result<Packer, CodecError> {
        Ok(Packer::Bytes(RefCell::new(Compressor::new(codec, level)?)))
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        match self {
            Packer::Bytes(_) => SECTOR_BYTES,
            Packer::Stamps(_) => STAMP_BYTES,
        }
    }

    /// As [`Packer::pack`], which takes a CPU its time. Stamps take that of zlib.
    pub fn pack_on(&self, cpu: &Cpu, pages: &[u8]) -> (u8, Vec<u8>) {
        let count = (pages.len() / self.page_bytes()) as u32;
        let zeros = pages.iter().all(|byte| *byte == 0);
        match self.op(Op::CompressPage, Op::ChunkPack).filter(|_| !zeros) {
            Some(op) => cpu.work_n(op, count, || self.pack(pages)),
            None => self.pack(pages),
        }
    }

    /// As [`Packer::unpack`], which takes a CPU its time.
    ///
    /// # Errors
    /// As [`Packer::unpack`].
    pub fn unpack_on(
        &self,
        cpu: &Cpu,
        codec: u8,
        payload: &[u8],
        pages: &mut [u8],
    ) -> Result<(), Unpackable> {
        let count = (pages.len() / self.page_bytes()) as u32;
        let is_packed = codec != ZEROS && codec != Codec::None.number();
        let op = self.op(Op::DecompressPage, Op::ChunkUnpack);
        match op.filter(|_| is_packed) {
            Some(op) => cpu.work_n(op, count, || self.unpack(codec, payload, pages)),
            None => self.unpack(codec, payload, pages),
        }
    }

    /// Of LZ4, or of the others; `None` if nothing is compressed.
    fn op(&self, lz4: Op, others: Op) -> Option<Op> {
        match self {
            Packer::Stamps(_) => Some(others),
            Packer::Bytes(own) => match own.borrow().codec() {
                Codec::None => None,
                Codec::Lz4 => Some(lz4),
                _ => Some(others),
            },
        }
    }

    /// The payload of pages, with the number of its codec.
    pub fn pack(&self, pages: &[u8]) -> (u8, Vec<u8>) {
        if pages.iter().all(|byte| *byte == 0) {
            return (ZEROS, Vec::new());
        }
        match self {
            Packer::Bytes(compressor) => {
                let mut compressor = compressor.borrow_mut();
                let mut out = vec![0; pages.len()];
                match compressor.compress(pages, &mut out) {
                    Some(bytes) if bytes < pages.len() => {
                        out.truncate(bytes);
                        (compressor.codec().number(), out)
                    }
                    _ => (Codec::None.number(), pages.to_vec()),
                }
            }
            Packer::Stamps(sizes) => (STAMPS, pack_stamps(sizes, pages)),
        }
    }

    /// Fills `pages` from a payload.
    ///
    /// # Errors
    /// If it does not hold so many pages.
    pub fn unpack(&self, codec: u8, payload: &[u8], pages: &mut [u8]) -> Result<(), Unpackable> {
        match (codec, self) {
            (ZEROS, _) => pages.fill(0),
            (STAMPS, Packer::Stamps(_)) => unpack_stamps(payload, pages)?,
            (number, Packer::Bytes(own)) => {
                let codec = Codec::of_number(number).ok_or(Unpackable)?;
                let mut own = own.borrow_mut();
                let done = match codec == own.codec() {
                    true => own.decompress(payload, pages),
                    // The disk was written with another codec once.
                    false => Compressor::new(codec, codec.level_default())
                        .and_then(|mut other| other.decompress(payload, pages)),
                };
                done.map_err(|_| Unpackable)?;
            }
            _ => return Err(Unpackable),
        }
        Ok(())
    }
}

fn pack_stamps(sizes: &Sizes, pages: &[u8]) -> Vec<u8> {
    let stamps = pages.as_chunks::<STAMP_BYTES>().0;
    let modelled = sizes.chunk_bytes(stamps.iter().map(|stamp| u64::from_le_bytes(*stamp)));
    let mut payload = vec![0; stamps.len().div_ceil(8)];
    for (index, stamp) in stamps.iter().enumerate() {
        if *stamp != [0; STAMP_BYTES] {
            payload[index / 8] |= 1 << (index % 8);
            payload.extend_from_slice(stamp);
        }
    }
    payload.resize(payload.len().max(modelled as usize), 0);
    payload
}

fn unpack_stamps(payload: &[u8], pages: &mut [u8]) -> Result<(), Unpackable> {
    let stamps = pages.as_chunks_mut::<STAMP_BYTES>().0;
    let bitmap = stamps.len().div_ceil(8);
    let (bits, kept) = payload.split_at_checked(bitmap).ok_or(Unpackable)?;
    let mut kept = kept.as_chunks::<STAMP_BYTES>().0.iter();
    for (index, stamp) in stamps.iter_mut().enumerate() {
        *stamp = match bits[index / 8] >> (index % 8) & 1 {
            1 => *kept.next().ok_or(Unpackable)?,
            _ => [0; STAMP_BYTES],
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use wharf_codec::TableName;
    use wharf_runtime::Seed;

    use super::*;

    fn sizes(name: &str) -> Sizes {
        let table = name.parse::<TableName>().unwrap().load().unwrap();
        Sizes::new(&table, 3)
    }

    #[test]
    fn every_stamp_comes_back_and_takes_what_the_model_says() {
        let mut rng = Seed(8).rng();
        for name in ["system", "ratio=1.0", "ratio=60.0"] {
            let packer = Packer::Stamps(sizes(name));
            for pages in [1usize, 7, 8, 9, 100, 256] {
                for zeros in [0, 2, 100] {
                    let mut data = Vec::new();
                    for _ in 0..pages {
                        let stamp = if rng.below(100) < zeros {
                            0
                        } else {
                            rng.next_u64()
                        };
                        data.extend_from_slice(&stamp.to_le_bytes());
                    }
                    let (codec, payload) = packer.pack(&data);
                    let stamps = data
                        .as_chunks::<8>()
                        .0
                        .iter()
                        .map(|s| u64::from_le_bytes(*s));
                    let modelled = sizes(name).chunk_bytes(stamps.clone()) as usize;
                    let exact = pages.div_ceil(8) + 8 * stamps.filter(|s| *s != 0).count();
                    match codec {
                        ZEROS => assert!(payload.is_empty() && modelled == 0),
                        _ => assert_eq!(payload.len(), modelled.max(exact)),
                    }
                    let mut back = vec![9; data.len()];
                    packer.unpack(codec, &payload, &mut back).unwrap();
                    assert_eq!(back, data);
                }
            }
        }
    }

    #[test]
    fn bytes_come_back_from_any_codec_and_never_grow() {
        let mut rng = Seed(9).rng();
        let random: Vec<u8> = (0..8192).map(|_| rng.next_u64() as u8).collect();
        let text = b"a line of text, again and again. ".repeat(500)[..8192].to_vec();
        let zlib = Packer::bytes(Codec::Zlib, 6).unwrap();
        for codec in [Codec::None, Codec::Lz4, Codec::Zlib] {
            let packer = Packer::bytes(codec, codec.level_default()).unwrap();
            for data in [&random, &text, &vec![0; 8192]] {
                let (number, payload) = packer.pack(data);
                assert!(payload.len() <= data.len());
                for reader in [&packer, &zlib] {
                    let mut back = vec![1; data.len()];
                    reader.unpack(number, &payload, &mut back).unwrap();
                    assert_eq!(&back, data);
                }
            }
        }
        let mut out = vec![0; 4096];
        assert_eq!(zlib.unpack(77, &[], &mut out), Err(Unpackable));
        assert_eq!(zlib.unpack(1, &[1, 2, 3], &mut out), Err(Unpackable));
    }
}
