//! The mapping sector (LBA-PBA sector): the rows of a group in 4096 bytes.
//!
//! 256 rows of 16 bytes fill it to the last, so a group always fits; a row that begins with zeros ends it.
//! Each row has 24 bits of the CRC of all rows and of the group's number: a sector that was torn, or that is
//! another group's, does not pass for one.

use zerocopy::{FromBytes, IntoBytes};

use super::chunks::{Row, are_sound};
use super::format::{GROUP_SECTORS, RowBytes, SECTOR_BYTES};

/// What is no mapping sector of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

fn check_of(group: u64, rows: &[RowBytes]) -> [u8; 3] {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&group.to_le_bytes());
    digest.update(&(rows.len() as u64).to_le_bytes());
    for row in rows {
        digest.update(&row.as_bytes()[..size_of::<RowBytes>() - 3]);
    }
    let [a, b, c, ..] = (digest.finalize() as u32).to_le_bytes();
    [a, b, c]
}

/// The sector of a group with these rows; of none it is zeros.
pub fn encode(group: u64, rows: &[Row]) -> Vec<u8> {
    assert!(rows.len() <= GROUP_SECTORS as usize, "{} rows", rows.len());
    let mut encoded: Vec<RowBytes> = rows
        .iter()
        .map(|row| RowBytes {
            first: row.first as u8,
            count_less_1: (row.count - 1) as u8,
            chunk_first: row.chunk_first as u8,
            chunk_sectors_less_1: (row.chunk_sectors - 1) as u8,
            granule: low(row.granule),
            bytes: low(row.bytes.into()),
            check: [0; 3],
        })
        .collect();
    let check = check_of(group, &encoded);
    encoded.iter_mut().for_each(|row| row.check = check);
    let mut sector = vec![0; SECTOR_BYTES];
    let bytes = encoded.as_bytes();
    sector[..bytes.len()].copy_from_slice(bytes);
    sector
}

/// The rows in the sector of a group.
///
/// # Errors
/// If it is not what was written for this group.
pub fn decode(group: u64, sector: &[u8]) -> Result<Vec<Row>, Damaged> {
    let all = <[RowBytes]>::ref_from_bytes(sector).map_err(|_| Damaged)?;
    let used = all.iter().take_while(|row| row.granule != [0; 6]).count();
    let (encoded, rest) = all.split_at(used);
    if rest
        .iter()
        .any(|row| row.as_bytes().iter().any(|byte| *byte != 0))
    {
        return Err(Damaged);
    }
    let check = check_of(group, encoded);
    if encoded.iter().any(|row| row.check != check) {
        return Err(Damaged);
    }
    let rows: Vec<Row> = encoded
        .iter()
        .map(|row| Row {
            first: row.first.into(),
            count: u32::from(row.count_less_1) + 1,
            chunk_first: row.chunk_first.into(),
            chunk_sectors: u32::from(row.chunk_sectors_less_1) + 1,
            granule: number(&row.granule),
            bytes: number(&row.bytes) as u32,
        })
        .collect();
    are_sound(&rows).then_some(rows).ok_or(Damaged)
}

fn low<const N: usize>(number: u64) -> [u8; N] {
    let bytes = number.to_le_bytes();
    assert!(
        bytes[N..].iter().all(|byte| *byte == 0),
        "{number} in {N} bytes"
    );
    bytes[..N].try_into().expect("N bytes")
}

fn number(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

#[cfg(test)]
mod tests {
    use wharf_runtime::Seed;

    use super::*;

    fn worst() -> Vec<Row> {
        (0..256)
            .map(|first| Row::whole(first, 1, (1 << 48) - 1 - u64::from(first), (1 << 24) - 1))
            .collect()
    }

    #[test]
    fn the_worst_case_fills_the_sector_to_the_last_byte() {
        let sector = encode(7, &worst());
        assert_eq!(sector.len(), 4096);
        assert!(sector[4080..].iter().any(|byte| *byte != 0));
        assert_eq!(decode(7, &sector), Ok(worst()));
        assert_eq!(decode(8, &sector), Err(Damaged));
        assert_eq!(encode(7, &[]), vec![0; 4096]);
        assert_eq!(decode(7, &[0; 4096]), Ok(Vec::new()));
    }

    #[test]
    fn a_torn_sector_is_found_wherever_it_is_torn() {
        let old = encode(3, &worst());
        let mut rows = worst();
        rows.iter_mut().for_each(|row| row.granule -= 1000);
        for new in [encode(3, &rows), encode(3, &rows[..100]), encode(3, &[])] {
            for at in (16..4096).step_by(16) {
                for (head, tail) in [(&old, &new), (&new, &old)] {
                    let torn = [&head[..at], &tail[at..]].concat();
                    assert!(
                        torn == old || torn == new || decode(3, &torn) == Err(Damaged),
                        "{at}"
                    );
                }
            }
        }
    }

    /// Whatever the bytes are, there is an answer, and what passes is sound.
    #[test]
    fn any_bytes_are_answered() {
        let mut rng = Seed(5).rng();
        for _ in 0..2_000 {
            let mut sector = encode(1, &worst()[..rng.below(257) as usize]);
            for _ in 0..rng.below(4) {
                sector[rng.below(4096) as usize] ^= 1 << rng.below(8);
            }
            if let Ok(rows) = decode(1, &sector) {
                assert!(are_sound(&rows));
            }
        }
    }
}
