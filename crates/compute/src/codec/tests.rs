//! All codecs: what comes back, what is refused, and how much is made at once. `tests/outside.rs` asks other programs.

use wharf_runtime::Seed;

use super::*;
use crate::{Function, Refused, Work, whole};

fn built() -> impl Iterator<Item = Codec> {
    Codec::ALL.into_iter().filter(|codec| codec.is_built())
}

fn text(bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|nth| b"some words, "[nth * nth % 12])
        .collect()
}

/// Words among bytes that repeat nothing, and long runs.
fn mixed(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut out = Vec::new();
    while out.len() < bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let count = (state >> 50) as usize % 300;
        match state >> 62 {
            0 => out.extend(std::iter::repeat_n((state >> 40) as u8, 7 * count)),
            1 => out.extend_from_slice(&state.to_be_bytes()),
            _ => out.extend_from_slice(&text(count)),
        }
    }
    out.truncate(bytes);
    out
}

fn compressed(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    let (value, made) =
        whole(Function::Compress(codec), &[], 0, bytes).expect("it takes all bytes");
    assert_eq!(value, made.len() as u64);
    made
}

fn expanded(codec: Codec, bytes: &[u8]) -> Result<Vec<u8>, Refused> {
    let (value, made) = whole(Function::Decompress(codec), &[], 0, bytes)?;
    assert_eq!(value, made.len() as u64);
    Ok(made)
}

/// Does it in pieces of `cut` bytes, with room for so many.
fn in_pieces(function: Function, bytes: &[u8], cut: usize, room: usize) -> Vec<u8> {
    let mut work = Work::new(function, &[], 0).unwrap();
    let (mut made, mut room) = (Vec::new(), vec![0; room]);
    for piece in bytes.chunks(cut) {
        let mut rest = piece;
        while !rest.is_empty() {
            let step = work.step(rest, &mut room).unwrap();
            assert!(step.taken + step.made > 0, "it gets on");
            rest = &rest[step.taken..];
            made.extend_from_slice(&room[..step.made]);
        }
    }
    loop {
        let step = work.finish(&mut room).unwrap();
        if step.made == 0 {
            break;
        }
        made.extend_from_slice(&room[..step.made]);
    }
    assert_eq!(work.value(), made.len() as u64);
    made
}

#[test]
fn however_bytes_are_cut_the_answer_is_the_same() {
    for codec in built() {
        for bytes in [0, 1, 4096, 8192, 8193, 100_000, 300_000] {
            let data = mixed(bytes);
            let small = compressed(codec, &data);
            for (cut, room) in [(1, 7), (1000, 1), (8192, 8192), (1 << 20, 1 << 20)] {
                let same = in_pieces(Function::Compress(codec), &data, cut, room);
                // zlib looks at what it is given at once: its bytes differ, and what they hold does not.
                assert!(
                    same == small || codec == Codec::Zlib,
                    "{codec:?} {bytes} {cut}"
                );
                let back = in_pieces(Function::Decompress(codec), &same, cut, room);
                assert!(back == data, "{codec:?} {bytes} {cut}");
            }
        }
    }
}

#[test]
fn words_become_less_and_noise_hardly_more() {
    for codec in built() {
        let words = text(100_000);
        let made = compressed(codec, &words).len();
        assert!(made < words.len() / 20, "{codec:?} {made}");
        let mut state = 7u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .take(100_000)
        .collect();
        let made = compressed(codec, &noise).len();
        assert!(made < 106_000, "{codec:?} {made}");
    }
}

#[test]
fn what_is_cut_off_or_longer_is_refused_and_what_is_changed_never_passes() {
    for codec in built() {
        let data = mixed(5000);
        let small = compressed(codec, &data);
        for cut in 0..small.len() {
            assert_eq!(
                expanded(codec, &small[..cut]),
                Err(Refused::Damaged),
                "{codec:?} {cut}"
            );
        }
        let longer = [&small[..], b"x"].concat();
        assert_eq!(expanded(codec, &longer), Err(Refused::Damaged));
        for at in 0..small.len() {
            for bit in 0..8 {
                let mut bad = small.clone();
                bad[at] ^= 1 << bit;
                // The stream has a checksum of its own; some bits of it mean nothing.
                let back = expanded(codec, &bad);
                assert!(
                    back.is_err() || back.unwrap() == data,
                    "{codec:?} {at} {bit}"
                );
            }
        }
    }
}

/// What was made until the end or the refusal, in pieces and rooms of such lengths.
fn until_refused(codec: Codec, bytes: &[u8], cut: usize, room: usize) -> (Vec<u8>, bool) {
    let mut work = Work::new(Function::Decompress(codec), &[], 0).unwrap();
    let (mut made, mut room) = (Vec::new(), vec![0; room]);
    let mut rest = bytes;
    loop {
        let piece = &rest[..rest.len().min(cut)];
        let step = match piece.is_empty() {
            false => work.step(piece, &mut room),
            true => work.finish(&mut room),
        };
        let Ok(step) = step else {
            return (made, false);
        };
        assert!(step.taken <= piece.len() && step.made <= room.len());
        if piece.is_empty() && step.made == 0 {
            return (made, true);
        }
        rest = &rest[step.taken..];
        made.extend_from_slice(&room[..step.made]);
        assert!(made.len() < 64 << 20, "it comes to an end");
    }
}

#[test]
fn streams_with_random_damage_are_refused_however_they_are_cut() {
    let mut rng = Seed(4).rng();
    for codec in built() {
        for nth in 0..300 {
            let mut bad = compressed(codec, &mixed(1 + rng.below(40_000) as usize));
            for _ in 0..rng.below(4) {
                let at = rng.below(bad.len() as u64) as usize;
                bad[at] = [0, 255, rng.below(256) as u8][rng.below(3) as usize];
            }
            if rng.below(3) == 0 {
                bad.truncate(rng.below(bad.len() as u64) as usize);
            }
            let cut = 1 + rng.below(5_000) as usize;
            let (some, is_right) = until_refused(codec, &bad, cut, 1 + rng.below(5_000) as usize);
            let (all, same) = until_refused(codec, &bad, 1 << 20, 1 << 20);
            assert_eq!(is_right, same, "{codec:?} {nth}");
            // Pieces may have been given before the damage was seen.
            assert!(some.starts_with(&all), "{codec:?} {nth}");
            assert!(!is_right || some == all, "{codec:?} {nth}");
        }
    }
}

#[test]
fn streams_of_another_codec_are_refused() {
    for (one, other) in built().flat_map(|one| built().map(move |other| (one, other))) {
        let back = expanded(other, &compressed(one, &text(5000)));
        assert_eq!(back.is_ok(), one == other, "{one:?} {other:?}");
    }
}

#[test]
fn lz4_and_zstandard_frames_may_follow_each_other() {
    for codec in built().filter(|codec| *codec != Codec::Zlib) {
        let skipped = [
            &0x184d_2a53u32.to_le_bytes()[..],
            &3u32.to_le_bytes(),
            b"abc",
        ]
        .concat();
        let none = [0x184d_2a50u32.to_le_bytes(), [0; 4]].concat();
        let frames = [
            skipped.clone(),
            compressed(codec, b"one "),
            none,
            compressed(codec, &[]),
            compressed(codec, b"other"),
            skipped,
        ];
        for cut in [1, 3, 1 << 20] {
            let all = frames.concat();
            let made = in_pieces(Function::Decompress(codec), &all, cut, 4);
            assert_eq!(made, b"one other");
        }
        let unfinished = &frames.concat()[..frames.concat().len() - 1];
        assert_eq!(expanded(codec, unfinished), Err(Refused::Damaged));
    }
}

#[test]
fn a_bomb_never_makes_more_than_there_is_room_for() {
    for codec in built() {
        let small = compressed(codec, &vec![0; 10 << 20]);
        assert!(small.len() < 200_000, "{codec:?} {}", small.len());
        let mut work = Work::new(Function::Decompress(codec), &[], 0).unwrap();
        let (mut rest, mut room, mut all) = (&small[..], [0; 4096], 0);
        while !rest.is_empty() {
            let step = work.step(rest, &mut room).unwrap();
            assert!(step.made <= 4096);
            rest = &rest[step.taken..];
            all += step.made;
        }
        assert!(all > 9 << 20, "{codec:?} {all}");
    }
}

#[test]
fn windows_are_what_memory_is_left_for() {
    assert_eq!(zstd_window_bytes(u64::MAX), 8 << 20);
    assert_eq!(zstd_window_bytes(2 << 20), 1 << 20);
    assert_eq!(zstd_window_bytes(0), 1 << 10);
    for most in [1 << 20, 2 << 20, 5 << 20] {
        assert!(Codec::Zstd.expand_bytes(most) <= most);
    }
}

#[test]
fn a_codec_that_is_not_built_in_is_refused() {
    for codec in Codec::ALL {
        for function in [Function::Compress(codec), Function::Decompress(codec)] {
            let refused = Work::new(function, &[], 0).err();
            assert_eq!(refused, (!codec.is_built()).then_some(Refused::NoCodec));
        }
    }
}

/// A frame of LZ4 with one block, which says of itself that it is so long.
fn lz4_frame(flags: u8, block: &[u8]) -> Vec<u8> {
    let said = [flags, 0x40];
    let checksum = (twox_hash::XxHash32::oneshot(0, &said) >> 8) as u8;
    [
        &0x184d_2204u32.to_le_bytes()[..],
        &said,
        &[checksum],
        &(block.len() as u32).to_le_bytes(),
        block,
        &[0; 4],
    ]
    .concat()
}

#[test]
fn blocks_of_lz4_that_lie_are_refused() {
    let right = [0x32, b'a', b'b', b'c', 3, 0, 0x10, b'd'];
    assert_eq!(
        expanded(Codec::Lz4, &lz4_frame(0x60, &right)).as_deref(),
        Ok(&b"abcabcabcd"[..])
    );
    let refused = |flags: u8, block: &[u8]| {
        let made = expanded(Codec::Lz4, &lz4_frame(flags, block));
        assert_eq!(made, Err(Refused::Damaged), "{flags} {block:?}");
    };
    // Flags without a meaning, another version, a dictionary.
    for flags in [0x62, 0xa0, 0x61] {
        refused(flags, &right);
    }
    // What is repeated was not there: before all, none ago.
    refused(0x60, &[0x32, b'a', b'b', b'c', 4, 0, 0x10, b'd']);
    refused(0x60, &[0x32, b'a', b'b', b'c', 0, 0, 0x10, b'd']);
    // It ends within a length, an offset, behind a repetition.
    refused(0x60, &[0xf0, 255, 255]);
    refused(0x60, &[0x32, b'a', b'b', b'c', 3]);
    refused(0x60, &[0x32, b'a', b'b', b'c', 3, 0]);
    // More than a block of 64 KiB, by lengths that never end.
    let long = [&[0x1f, b'a', 1, 0][..], &[255; 1000], &[0, 0x10, b'b']].concat();
    refused(0x60, &long);
    // A length of the content, or a checksum, that is another one's.
    let mut frame = lz4_frame(0x60, &right);
    frame[9] ^= 0x40;
    assert_eq!(expanded(Codec::Lz4, &frame), Err(Refused::Damaged));
}

#[cfg(feature = "zstd")]
#[test]
fn zstandard_takes_no_more_memory_than_it_says() {
    // A frame without content that says that it has a window of 2 MiB, and one of 2^41 bytes.
    let frame = |window: u8| [0x28, 0xb5, 0x2f, 0xfd, 0, window, 1, 0, 0];
    let function = Function::Decompress(Codec::Zstd);
    let within = |bytes: u64, window: u8| {
        let work = Work::within(function, &[], 0, bytes).unwrap();
        crate::all_of(work, &frame(window)).map(|(_, made)| made)
    };
    assert_eq!(within(2 << 20, 11 << 3), Err(Refused::Memory));
    assert_eq!(within(3 << 20, 11 << 3), Ok(Vec::new()));
    assert_eq!(within(u64::MAX, 31 << 3), Err(Refused::Memory));
}
