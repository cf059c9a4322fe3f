//! Codecs of vectors: the drive makes what a host makes, whichever pieces either is given, and refuses what is none.

use wharf_compute::{Codec, Function, whole};
use wharf_files::Errno;
use wharf_wire::command::Command;
use wharf_wire::file::{PlaceKind, STEP_DURABLE, VectorCodec, VectorFunction, VectorStep};
use wharf_wire::status::StatusCode;

use super::asker::Asker;
use super::vector::{NOTHING, done, file, place, read, refused_as, run_with, step, text, write};

const CODECS: [(VectorCodec, Codec); 3] = [
    (VectorCodec::Zlib, Codec::Zlib),
    (VectorCodec::Lz4, Codec::Lz4),
    (VectorCodec::Zstd, Codec::Zstd),
];

fn by(codec: VectorCodec, step: VectorStep) -> VectorStep {
    VectorStep {
        count: codec.raw().into(),
        ..step
    }
}

#[test]
fn the_drive_makes_what_a_host_makes_and_reads_it_back() {
    run_with(2 << 20, async |mut asker: Asker| {
        let data = text(150_001);
        let from = write(&mut asker, b"/from", &data).await;
        for (codec, own) in CODECS {
            let name = format!("/small-{codec:?}");
            let small = write(&mut asker, name.as_bytes(), b"").await;
            let back = write(&mut asker, format!("{name}-back").as_bytes(), b"").await;
            let durable = VectorStep {
                flags: STEP_DURABLE,
                ..step(
                    VectorFunction::Compress,
                    file(from, 0, 1 << 30),
                    file(small, 0, 200_000),
                )
            };
            let steps = [
                by(codec, durable),
                by(
                    codec,
                    step(
                        VectorFunction::Decompress,
                        file(small, 0, 1 << 30),
                        place(PlaceKind::End, back.raw(), 0, 1 << 30),
                    ),
                ),
            ];
            let (head, outcomes) = done(&mut asker, [0; 4], &steps, &[]).await;
            assert_eq!(head.steps, 2, "{codec:?} {outcomes:?}");
            assert_eq!(outcomes[1].value, data.len() as u64);
            assert!(read(&mut asker, back).await == data, "{codec:?}");
            let made = read(&mut asker, small).await;
            assert_eq!(outcomes[0].value, made.len() as u64);
            let (_, host_back) = whole(Function::Decompress(own), &[], 0, &made).unwrap();
            assert!(host_back == data, "{codec:?}");
            // zlib looks at what it is given at once: its bytes differ, and what they hold does not.
            let (_, host_made) = whole(Function::Compress(own), &[], 0, &data).unwrap();
            assert!(host_made == made || own == Codec::Zlib, "{codec:?}");
        }
    });
}

#[test]
fn streams_that_are_cut_off_changed_or_of_another_codec_are_refused() {
    run_with(2 << 20, async |mut asker: Asker| {
        let data = text(30_000);
        for (codec, own) in CODECS {
            let (_, small) = whole(Function::Compress(own), &[], 0, &data).unwrap();
            let mut changed = small.clone();
            changed[small.len() / 2] ^= 8;
            let expand = |handle| {
                let to = place(PlaceKind::Buffer, 0, 0, 50_000);
                step(VectorFunction::Decompress, file(handle, 0, 1 << 30), to)
            };
            let files = [
                ("cut", &small[..small.len() - 1]),
                ("changed", &changed),
                ("none", &[]),
            ];
            for (name, bytes) in files {
                let name = format!("/{name}-{codec:?}");
                let handle = write(&mut asker, name.as_bytes(), bytes).await;
                let step = by(codec, expand(handle));
                let (_, outcomes) = done(&mut asker, [50_000, 0, 0, 0], &[step], &[]).await;
                let why = Errno::EBADMSG.number() as u32;
                assert_eq!(outcomes[0].errno, why, "{name}");
            }
            let handle = write(&mut asker, format!("/{codec:?}").as_bytes(), &small).await;
            for (other, _) in CODECS {
                let step = by(other, expand(handle));
                let (head, _) = done(&mut asker, [50_000, 0, 0, 0], &[step], &[]).await;
                assert_eq!(head.steps == 1, other == codec, "{codec:?} {other:?}");
            }
            // A bomb makes no more than there is room for.
            let (_, bomb) = whole(Function::Compress(own), &[], 0, &vec![0; 1 << 20]).unwrap();
            let handle = write(&mut asker, format!("/bomb-{codec:?}").as_bytes(), &bomb).await;
            let step = by(codec, expand(handle));
            let (_, outcomes) = done(&mut asker, [50_000, 0, 0, 0], &[step], &[]).await;
            assert_eq!(outcomes[0].errno, Errno::ENOSPC.number() as u32);
            assert!(outcomes[0].made <= 50_000);
        }
    });
}

#[test]
fn a_codec_that_is_none_is_refused_before_anything_is_done() {
    run_with(2 << 20, async |mut asker: Asker| {
        let from = write(&mut asker, b"/from", b"some bytes").await;
        let to = write(&mut asker, b"/to", b"").await;
        let copy = step(VectorFunction::Copy, file(from, 0, 10), file(to, 0, 10));
        for function in [VectorFunction::Compress, VectorFunction::Decompress] {
            for count in [3, 255, 256, 257, u32::MAX] {
                let bad = VectorStep {
                    count,
                    ..step(function, file(from, 0, 10), NOTHING)
                };
                let status = refused_as(&mut asker, &[copy, bad]).await;
                assert_eq!(status, StatusCode::InvalidField, "{function:?} {count}");
            }
        }
        for function in [VectorFunction::Copy, VectorFunction::Checksum] {
            let bad = by(VectorCodec::Lz4, step(function, file(from, 0, 10), NOTHING));
            assert_eq!(
                refused_as(&mut asker, &[bad]).await,
                StatusCode::InvalidField
            );
        }
        assert!(read(&mut asker, to).await.is_empty());
    });
}

/// A frame that says that it has a window of 2 MiB: a drive has it if its memory is enough.
#[test]
fn a_window_takes_no_more_memory_than_there_is() {
    const FRAME: [u8; 9] = [0x28, 0xb5, 0x2f, 0xfd, 0, 11 << 3, 1, 0, 0];
    for (memory, why) in [(2 << 20, Some(Errno::ENOMEM)), (4 << 20, None)] {
        run_with(memory, async move |mut asker: Asker| {
            let handle = write(&mut asker, b"/frame", &FRAME).await;
            let expand = step(VectorFunction::Decompress, file(handle, 0, 9), NOTHING);
            let step = by(VectorCodec::Zstd, expand);
            let (_, outcomes) = done(&mut asker, [0; 4], &[step], &[]).await;
            let why = why.map_or(0, |why: Errno| why.number() as u32);
            assert_eq!(outcomes[0].errno, why);
        });
    }
    // Where there is less than any stream needs, none is begun.
    run_with(512 << 10, async |mut asker: Asker| {
        let handle = write(&mut asker, b"/frame", &FRAME).await;
        let expand = step(VectorFunction::Decompress, file(handle, 0, 9), NOTHING);
        let step = by(VectorCodec::Zstd, expand);
        assert_eq!(
            refused_as(&mut asker, &[step]).await,
            StatusCode::InvalidField
        );
        let read = asker.aimed(Command::read_file(1, handle, 0, 9));
        assert_eq!(asker.send(read).await.done(), Ok(9));
    });
}
