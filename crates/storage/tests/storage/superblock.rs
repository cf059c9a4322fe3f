//! The superblock's reader: whatever bytes it is given, it answers.

use wharf_runtime::Seed;
use wharf_storage::array::{Level, MemberState, Shape, Superblock, SuperblockError};

fn sample(level: Level, members: u32) -> Superblock {
    Superblock {
        uuid: [9; 16],
        member: members - 1,
        shape: Shape::new(level, members, 512 << 10, 1 << 30, 64, 4096).expect("a shape"),
        event: 77,
        session: 11,
        settled_event: 76,
        settled_session: 10,
        joined: 40,
        epoch: 5,
        clean: false,
        states: vec![MemberState::Active; members as usize],
        rebuilt_windows: 3,
    }
}

#[test]
fn what_is_written_is_read() {
    for (level, members) in [(Level::Raid0, 2), (Level::Raid5, 64), (Level::Raid10, 6)] {
        let superblock = sample(level, members);
        assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
    }
}

#[test]
fn a_changed_bit_is_never_believed() {
    let bytes = sample(Level::Raid5, 4).encode();
    for bit in 0..212 * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let error = Superblock::decode(&changed).expect_err("a changed bit");
        let expected = if bit < 64 {
            SuperblockError::None
        } else {
            SuperblockError::Damaged
        };
        assert_eq!(error, expected, "bit {bit}");
    }
}

#[test]
fn another_version_is_named() {
    let mut bytes = sample(Level::Raid5, 4).encode();
    for (version, with) in [
        (1, "the program that made the array"),
        (3, "a newer program"),
    ] {
        bytes[8] = version as u8;
        seal(&mut bytes);
        let error = Superblock::decode(&bytes).expect_err("another version");
        assert_eq!(error, SuperblockError::Version(version));
        assert!(error.to_string().ends_with(with), "{error}");
    }
}

/// Gives bytes a checksum that is right.
fn seal(bytes: &mut [u8]) {
    let crc = crc_fast::crc32_iscsi(&bytes[..208]);
    bytes[208..212].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn any_bytes_with_a_good_checksum_are_an_answer() {
    let mut rng = Seed(1).child("superblocks").rng();
    let (mut good, mut bad) = (0, 0);
    for _ in 0..200_000 {
        let mut bytes = sample(Level::Raid5, 4).encode();
        for _ in 0..1 + rng.below(4) {
            let at = 12 + rng.below(196) as usize;
            let values = [0, 1, 2, 4, 63, 64, 65, 255, rng.next_u32() as u8];
            bytes[at] = values[rng.below(values.len() as u64) as usize];
        }
        seal(&mut bytes);
        match Superblock::decode(&bytes) {
            Ok(read) => {
                // What is believed can be computed with.
                let shape = read.shape;
                assert!(shape.windows() > 0 && shape.size_bytes() > 0);
                assert!(shape.parity_member(shape.windows() - 1) < shape.members);
                good += 1;
            }
            Err(_) => bad += 1,
        }
    }
    assert!(good > 1000 && bad > 1000, "{good} good, {bad} bad");
    for len in 0..212 {
        let bytes = sample(Level::Raid5, 4).encode();
        assert!(Superblock::decode(&bytes[..len]).is_err());
    }
}
