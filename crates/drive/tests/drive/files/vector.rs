//! Functions of bytes of files, in the drive.

use wharf_files::Errno;
use wharf_runtime::{Rng, Seed};
use wharf_wire::admin::Cns;
use wharf_wire::command::Command;
use wharf_wire::file::{
    DeviceCacheLog, FileHandle, OpenMode, PlaceKind, STEPS_MAX, StepOutcome, VECTOR_HEAD_BYTES,
    VectorFunction, VectorHead, VectorPlace, VectorStep,
};
use wharf_wire::identify::{DriveFeature, IdentifyController};
use wharf_wire::log_page::LogPage;
use wharf_wire::status::StatusCode;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::asker::{Asker, Reply, UPDATE};
use super::support::{config, new_rig, run, sound};

const PAGE: usize = 4096;

/// Where the host's bytes begin, at a page so that a test finds them.
pub const HOST: usize = PAGE;

/// Bytes of all buffers of commands here.
pub const BYTES: usize = 200 << 10;

/// Bytes that compress, and in which a word is found.
pub fn text(bytes: usize) -> Vec<u8> {
    let words = ["page ", "frame ", "drive ", "needle ", "flash\n"];
    let mut rng = Seed(3).rng();
    let mut all = Vec::new();
    while all.len() < bytes {
        all.extend_from_slice(words[rng.below(5) as usize].as_bytes());
    }
    all.truncate(bytes);
    all
}

/// Does a test on a drive with so much memory to compute.
pub fn run_with(compute_bytes: u64, test: impl AsyncFnOnce(Asker) + Send + 'static) {
    let mut config = config(2, 2_000);
    config.memory.compute_bytes = compute_bytes;
    let mut rig = new_rig(config);
    run(&mut rig, move |host| test(Asker::new(host)));
}

pub async fn write(asker: &mut Asker, name: &[u8], data: &[u8]) -> FileHandle {
    let handle = asker.file(UPDATE, name).await;
    if !data.is_empty() {
        asker.put(0, data);
        let command = asker.aimed(Command::write_file(1, handle, 0, data.len() as u32));
        assert_eq!(asker.send(command).await.done(), Ok(data.len() as u64));
    }
    handle
}

pub async fn read(asker: &mut Asker, handle: FileHandle) -> Vec<u8> {
    let command = asker.aimed(Command::read_file(1, handle, 0, BYTES as u32));
    let count = asker.send(command).await.done().unwrap();
    asker.got(count as usize)
}

pub fn place(kind: PlaceKind, name: u64, offset: usize, bytes: usize) -> (PlaceKind, VectorPlace) {
    let (offset, bytes) = (offset as u64, bytes as u64);
    let place = VectorPlace {
        name,
        offset,
        bytes,
    };
    (kind, place)
}

pub fn file(handle: FileHandle, offset: usize, bytes: usize) -> (PlaceKind, VectorPlace) {
    place(PlaceKind::File, handle.raw(), offset, bytes)
}

pub const NOTHING: (PlaceKind, VectorPlace) = (
    PlaceKind::Nothing,
    VectorPlace {
        name: 0,
        offset: 0,
        bytes: 0,
    },
);

pub fn step(
    function: VectorFunction,
    from: (PlaceKind, VectorPlace),
    to: (PlaceKind, VectorPlace),
) -> VectorStep {
    VectorStep {
        function: function.raw(),
        from_kind: from.0.raw(),
        to_kind: to.0.raw(),
        from: from.1,
        to: to.1,
        ..VectorStep::default()
    }
}

/// The beginning of a buffer, with the host's bytes behind it.
pub fn buffer(head: VectorHead, steps: &[VectorStep], host: &[u8]) -> Vec<u8> {
    let mut all = [head.as_bytes(), steps.as_bytes()].concat();
    all.resize(HOST, 0);
    all.extend_from_slice(host);
    all
}

async fn send(asker: &mut Asker, buffer: &[u8]) -> Reply {
    asker.put(0, buffer);
    let command = asker.aimed(Command::vector(1, BYTES as u32));
    asker.send(command).await
}

/// Does a vector; gives its head, and what each step came to.
pub async fn done(
    asker: &mut Asker,
    buffers: [u32; 4],
    steps: &[VectorStep],
    host: &[u8],
) -> (VectorHead, Vec<StepOutcome>) {
    let mut head = VectorHead::new(steps.len() as u32);
    head.buffer_bytes = buffers;
    let reply = send(asker, &buffer(head, steps, host)).await;
    let told = asker.got(VECTOR_HEAD_BYTES);
    let (head, rest) = VectorHead::read_from_prefix(&told).unwrap();
    assert_eq!(reply.done(), Ok(head.steps.into()));
    let each = rest
        .chunks_exact(size_of::<StepOutcome>())
        .take(steps.len());
    let outcomes = each.map(|one| StepOutcome::read_from_bytes(one).unwrap());
    (head, outcomes.collect())
}

/// The status of a vector that is refused as a whole.
pub async fn refused_as(asker: &mut Asker, steps: &[VectorStep]) -> StatusCode {
    let head = VectorHead::new(steps.len() as u32);
    send(asker, &buffer(head, steps, &[])).await.status
}

/// Bytes that a vector left for the host.
fn given(asker: &Asker, bytes: usize) -> Vec<u8> {
    asker.got(HOST + bytes)[HOST..].to_vec()
}

/// By the definition, a bit at a time.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & 0u32.wrapping_sub(crc & 1))
        })
    })
}

#[test]
fn one_command_reads_checks_writes_and_gives_back() {
    run_with(1 << 20, async |mut asker: Asker| {
        let data = text(150_000);
        let from = write(&mut asker, b"/from", &data).await;
        let to = write(&mut asker, b"/to", b"begins").await;
        let part = data[100..140_100].to_vec();
        let steps = [
            step(VectorFunction::Checksum, file(from, 100, 140_000), NOTHING),
            step(
                VectorFunction::Compress,
                file(from, 100, 140_000),
                place(PlaceKind::Buffer, 2, 5, 100_000),
            ),
            step(
                VectorFunction::Copy,
                file(from, 149_990, 5_000),
                place(PlaceKind::Host, 0, HOST + 3, 5_000),
            ),
            step(
                VectorFunction::Copy,
                file(from, 100, 140_000),
                place(PlaceKind::End, to.raw(), 0, 1 << 40),
            ),
            step(
                VectorFunction::Copy,
                place(PlaceKind::Host, 0, HOST + 9_000, 6),
                file(to, 0, 6),
            ),
        ];
        let host = [vec![0; 9_000], b"starts".to_vec()].concat();
        let (head, outcomes) = done(&mut asker, [0, 0, 120_000, 0], &steps, &host).await;
        assert_eq!(head.steps, 5);
        assert!(outcomes.iter().all(|one| one.errno == 0), "{outcomes:?}");
        assert_eq!(outcomes[0].value, u64::from(crc32c(&part)));
        let compressed = outcomes[1].made;
        assert!(compressed < 70_000 && compressed == outcomes[1].value);
        assert_eq!(
            (outcomes[2].taken, outcomes[2].made),
            (10, 10),
            "as far as the file goes"
        );
        assert_eq!(given(&asker, 13)[3..], data[149_990..]);
        assert_eq!((outcomes[3].offset, outcomes[3].made), (6, 140_000));
        let right = [b"starts".to_vec(), part.clone()].concat();
        assert_eq!(read(&mut asker, to).await, right);
        // What is compressed in one step is expanded in another, from a buffer to a file.
        let made = place(PlaceKind::Buffer, 0, 0, compressed as usize);
        let steps = [
            step(
                VectorFunction::Compress,
                file(from, 100, 140_000),
                place(PlaceKind::Buffer, 0, 0, 100_000),
            ),
            step(VectorFunction::Decompress, made, file(to, 10, 140_000)),
        ];
        let (_, outcomes) = done(&mut asker, [100_000, 0, 0, 0], &steps, &[]).await;
        assert_eq!((outcomes[1].value, outcomes[1].offset), (140_000, 10));
        let right = [b"starts".to_vec(), part[..4].to_vec(), part].concat();
        assert_eq!(read(&mut asker, to).await, right);
        sound(&mut asker.host).await;
    });
}

#[test]
fn words_and_nearest_vectors_are_found() {
    run_with(1 << 20, async |mut asker: Asker| {
        let data = text(100_001);
        let handle = write(&mut asker, b"/text", &data).await;
        let mut search = step(
            VectorFunction::Search,
            file(handle, 1, 1 << 30),
            place(PlaceKind::Host, 0, HOST + 64, 80),
        );
        (search.argument_offset, search.argument_bytes, search.count) = (HOST as u32, 6, 10);
        let (_, outcomes) = done(&mut asker, [0; 4], &[search], b"needle").await;
        let places = data[1..].windows(6).enumerate();
        let places: Vec<u64> = places
            .filter(|(_, word)| *word == b"needle")
            .map(|(at, _)| at as u64)
            .collect();
        assert_eq!(outcomes[0].value, places.len() as u64);
        assert_eq!(given(&asker, 144)[64..], places[..10].as_bytes()[..]);
        // Vectors of three numbers: the number of each is its distance.
        let far = |n: usize| [n as f32 + 3.0, -1.0, 0.5];
        let order = |n: usize| (n * 7919) % 5_000;
        let all: Vec<u8> = (0..5_000)
            .flat_map(|n| far(order(n)))
            .flat_map(f32::to_le_bytes)
            .collect();
        let handle = write(&mut asker, b"/vectors", &all).await;
        let mut nearest = step(
            VectorFunction::Nearest,
            file(handle, 0, all.len()),
            place(PlaceKind::Host, 0, HOST + 64, 64),
        );
        (
            nearest.argument_offset,
            nearest.argument_bytes,
            nearest.count,
        ) = (HOST as u32, 12, 4);
        let query: Vec<u8> = far(0).into_iter().flat_map(f32::to_le_bytes).collect();
        let (_, outcomes) = done(&mut asker, [0; 4], &[nearest], &query).await;
        assert_eq!((outcomes[0].errno, outcomes[0].value), (0, 4));
        for (nth, found) in given(&asker, 128)[64..].chunks(16).enumerate() {
            let distance = f32::from_le_bytes(found[..4].try_into().unwrap());
            let number = u64::from_le_bytes(found[8..].try_into().unwrap());
            assert_eq!(
                (distance, order(number as usize)),
                ((nth * nth) as f32, nth)
            );
        }
    });
}

#[test]
fn a_step_that_fails_ends_the_vector_and_says_why() {
    run_with(1 << 20, async |mut asker: Asker| {
        let data = text(100_000);
        let from = write(&mut asker, b"/from", &data).await;
        let to = write(&mut asker, b"/to", b"").await;
        let reads = OpenMode {
            write: false,
            create: false,
            ..UPDATE
        };
        let reads = asker.file(reads, b"/to").await;
        let copy = |to| step(VectorFunction::Copy, file(from, 0, 100_000), to);
        let first = step(VectorFunction::Checksum, file(from, 0, 10), NOTHING);
        let never = copy(file(to, 500_000, 100_000));
        let errno = |errno: Errno| errno.number() as u32;
        for (bad, why, made) in [
            // Full where it may make no more; what was made before is there.
            (copy(file(to, 0, 70_000)), Errno::ENOSPC, 65_536),
            (copy(place(PlaceKind::Host, 0, HOST, 10)), Errno::ENOSPC, 0),
            (
                VectorStep {
                    flags: 4,
                    ..step(
                        VectorFunction::Copy,
                        file(from, 90_000, 10_001),
                        file(to, 0, 10_001),
                    )
                },
                Errno::ENODATA,
                0,
            ),
            (copy(file(reads, 0, 100_000)), Errno::EBADF, 0),
            (
                step(VectorFunction::Decompress, file(from, 0, 1_000), NOTHING),
                Errno::EBADMSG,
                0,
            ),
        ] {
            let (head, outcomes) = done(&mut asker, [0; 4], &[first, bad, never], &[]).await;
            assert_eq!(head.steps, 1);
            assert_eq!((outcomes[1].errno, outcomes[1].made), (errno(why), made));
            assert_eq!(outcomes[2], StepOutcome::default(), "it was not begun");
        }
        assert_eq!(read(&mut asker, to).await, data[..65_536]);
        // A vector that is not whole.
        let mut nearest = step(VectorFunction::Nearest, file(from, 0, 10), NOTHING);
        (
            nearest.argument_offset,
            nearest.argument_bytes,
            nearest.count,
        ) = (HOST as u32, 4, 1);
        let (_, outcomes) = done(&mut asker, [0; 4], &[nearest], &[0; 4]).await;
        assert_eq!(outcomes[0].errno, errno(Errno::EINVAL));
    });
}

#[test]
fn a_bomb_makes_no_more_than_its_place_has_room_for() {
    run_with(1 << 20, async |mut asker: Asker| {
        let from = write(&mut asker, b"/zeros", &[0; 190_000]).await;
        let bomb = write(&mut asker, b"/bomb", b"").await;
        // A gigabyte of zeros would be a file of holes: 100 MB of them are enough.
        let grow = Command::handle_operation(
            1,
            from,
            wharf_wire::file::HandleOperation::Truncate,
            100_000_000,
            0,
        );
        assert_eq!(asker.send(grow).await.done(), Ok(0));
        let compress = step(
            VectorFunction::Compress,
            file(from, 0, 100_000_000),
            place(PlaceKind::End, bomb.raw(), 0, 1 << 20),
        );
        let (_, outcomes) = done(&mut asker, [0; 4], &[compress], &[]).await;
        assert_eq!(outcomes[0].errno, 0);
        assert!(outcomes[0].made < 1 << 20);
        let expand = step(
            VectorFunction::Decompress,
            file(bomb, 0, 1 << 20),
            place(PlaceKind::Buffer, 0, 0, 50_000),
        );
        let (head, outcomes) = done(&mut asker, [50_000, 0, 0, 0], &[expand], &[]).await;
        assert_eq!(head.steps, 0);
        assert_eq!(outcomes[0].errno, Errno::ENOSPC.number() as u32);
        assert!(outcomes[0].made <= 50_000);
    });
}

#[test]
fn what_the_cache_has_is_computed_on_there() {
    let mut config = config(2, 2_000);
    config.memory.near_bytes = 64 << 10;
    let mut rig = new_rig(config);
    run(&mut rig, async |host| {
        let mut asker = Asker::new(host);
        let mut data = text(100_000);
        let handle = write(&mut asker, b"/file", &data).await;
        for at in [3usize, 40_000, 99_990] {
            asker.put(0, b"near");
            let write = asker.aimed(Command::write_near(1, handle, at as u64, 4));
            assert!(asker.send(write).await.done().is_ok());
            data[at..at + 4].copy_from_slice(b"near");
        }
        let brought = async |asker: &mut Asker| {
            let log: DeviceCacheLog = asker.host.log(LogPage::DeviceCache).await;
            (log.dirty_pages, log.used_pages, log.brought_pages)
        };
        assert_eq!(brought(&mut asker).await, (3, 3, 3));
        let sum = step(VectorFunction::Checksum, file(handle, 0, 100_000), NOTHING);
        let (_, outcomes) = done(&mut asker, [0; 4], &[sum], &[]).await;
        assert_eq!(outcomes[0].value, u64::from(crc32c(&data)));
        // Nothing was written, and nothing came.
        assert_eq!(brought(&mut asker).await, (3, 3, 3));
        let mut keeps = step(
            VectorFunction::Checksum,
            file(handle, 50_000, 10_000),
            NOTHING,
        );
        keeps.flags = 2;
        for _ in 0..2 {
            let (_, outcomes) = done(&mut asker, [0; 4], &[keeps], &[]).await;
            assert_eq!(outcomes[0].value, u64::from(crc32c(&data[50_000..60_000])));
            assert_eq!(brought(&mut asker).await, (3, 6, 6));
        }
    });
}

#[test]
fn processing_buffers_are_clear_at_first() {
    run_with(400 << 10, async |mut asker: Asker| {
        let secret = write(&mut asker, b"/secret", &text(100_000)).await;
        let other = write(&mut asker, b"/other", b"").await;
        let all = |name| place(PlaceKind::Buffer, name, 0, 100_000);
        for name in 0..2 {
            let fill = step(VectorFunction::Copy, file(secret, 0, 100_000), all(name));
            done(&mut asker, [100_000, 100_000, 0, 0], &[fill], &[]).await;
        }
        for name in 0..2 {
            let look = step(VectorFunction::Copy, all(name), file(other, 0, 100_000));
            done(&mut asker, [100_000, 100_000, 0, 0], &[look], &[]).await;
            let seen = read(&mut asker, other).await;
            assert!(seen.len() == 100_000 && seen.iter().all(|byte| *byte == 0));
        }
    });
}

#[test]
fn a_drive_without_memory_for_it_does_not_compute() {
    for bytes in [0, 1 << 20] {
        run_with(bytes, async move |mut asker: Asker| {
            let identify: IdentifyController = asker.host.identify(0, Cns::Controller).await;
            let has = identify.drive.features.contains(DriveFeature::Compute);
            assert_eq!(has, bytes > 0);
            let handle = write(&mut asker, b"/file", b"bytes").await;
            let step = step(VectorFunction::Checksum, file(handle, 0, 5), NOTHING);
            let buffer = buffer(VectorHead::new(1), &[step], &[]);
            let right = match has {
                true => StatusCode::Success,
                false => StatusCode::InvalidOpcode,
            };
            assert_eq!(send(&mut asker, &buffer).await.status, right);
        });
    }
}

#[test]
fn what_has_no_meaning_is_refused_before_anything_is_done() {
    run_with(400 << 10, async |mut asker: Asker| {
        let handle = write(&mut asker, b"/file", &text(5_000)).await;
        let target = write(&mut asker, b"/target", b"").await;
        let good = step(
            VectorFunction::Copy,
            file(handle, 0, 5_000),
            file(target, 0, 5_000),
        );
        let mut search = step(VectorFunction::Search, file(handle, 0, 5_000), NOTHING);
        (search.argument_offset, search.argument_bytes, search.count) = (HOST as u32, 4, 4);
        let nearest = VectorStep {
            function: VectorFunction::Nearest.raw(),
            ..search
        };
        let with = |of: VectorStep, change: fn(&mut VectorStep)| {
            let mut changed = of;
            change(&mut changed);
            changed
        };
        let bad: Vec<VectorStep> = vec![
            with(good, |one| one.function = 7),
            with(good, |one| one.from_kind = 5),
            with(good, |one| one.from_kind = PlaceKind::End.raw()),
            with(good, |one| one.to_kind = 255),
            with(good, |one| one.flags = 8),
            // It has no cache.
            with(good, |one| one.flags = 2),
            with(good, |one| one.count = 1),
            with(good, |one| one.argument_bytes = 1),
            with(good, |one| one.to_kind = PlaceKind::Nothing.raw()),
            with(good, |one| one.to_kind = PlaceKind::Host.raw()),
            with(good, |one| one.to_kind = PlaceKind::Buffer.raw()),
            step(
                VectorFunction::Copy,
                place(PlaceKind::Host, 0, VECTOR_HEAD_BYTES - 1, 4),
                NOTHING,
            ),
            step(
                VectorFunction::Copy,
                place(PlaceKind::Host, 0, BYTES - 3, 4),
                NOTHING,
            ),
            step(
                VectorFunction::Copy,
                place(PlaceKind::Host, 0, usize::MAX - 1, 4),
                NOTHING,
            ),
            step(
                VectorFunction::Copy,
                place(PlaceKind::Host, 1, HOST, 4),
                NOTHING,
            ),
            step(
                VectorFunction::Copy,
                place(PlaceKind::Buffer, 0, 1, 1_000),
                NOTHING,
            ),
            step(
                VectorFunction::Copy,
                place(PlaceKind::Buffer, 4, 0, 0),
                NOTHING,
            ),
            step(
                VectorFunction::Copy,
                place(PlaceKind::Buffer, 1 << 32, 0, 0),
                NOTHING,
            ),
            step(
                VectorFunction::Copy,
                place(PlaceKind::Buffer, 0, usize::MAX, 2),
                NOTHING,
            ),
            step(
                VectorFunction::Copy,
                file(handle, 0, 10),
                (
                    PlaceKind::Buffer,
                    VectorPlace {
                        name: 1,
                        offset: 0,
                        bytes: 1,
                    },
                ),
            ),
            VectorStep {
                flags: 1,
                ..step(VectorFunction::Checksum, file(handle, 0, 10), NOTHING)
            },
            with(search, |one| one.argument_bytes = 0),
            with(search, |one| one.argument_bytes = 65_537),
            with(search, |one| one.argument_offset = 0),
            with(search, |one| one.argument_offset = u32::MAX),
            with(search, |one| one.count = u32::MAX),
            with(nearest, |one| one.count = 0),
            with(nearest, |one| one.argument_bytes = 3),
            with(nearest, |one| one.argument_bytes = u32::MAX),
        ];
        for bad in bad {
            let mut head = VectorHead::new(2);
            head.buffer_bytes[0] = 1_000;
            let reply = send(&mut asker, &buffer(head, &[good, bad], &[0; 64])).await;
            assert_eq!(reply.status, StatusCode::InvalidField, "{bad:?}");
        }
        let mut heads = [VectorHead::new(2); 5];
        heads[0].version = 2;
        heads[1].steps = 0;
        heads[2].steps = 1 + STEPS_MAX as u32;
        heads[3].buffer_bytes = [u32::MAX; 4];
        heads[4].buffer_bytes[3] = 400 << 10;
        for head in heads {
            let reply = send(&mut asker, &buffer(head, &[good, good], &[])).await;
            assert_eq!(reply.status, StatusCode::InvalidField, "{head:?}");
        }
        let stale = FileHandle::from_raw(handle.raw() + (1 << 32));
        for gone in [file(stale, 0, 1), place(PlaceKind::End, stale.raw(), 0, 1)] {
            let bad = step(VectorFunction::Copy, file(handle, 0, 1), gone);
            let reply = send(&mut asker, &buffer(VectorHead::new(2), &[good, bad], &[])).await;
            assert_eq!(reply.status, StatusCode::HandleInvalid);
        }
        let short = asker.aimed(Command::vector(1, VECTOR_HEAD_BYTES as u32 - 1));
        assert_eq!(asker.send(short).await.status, StatusCode::InvalidField);
        assert_eq!(read(&mut asker, target).await, b"", "no step was done");
    });
}

/// A place of a kind at random, of which some are wrong.
fn any_place(rng: &mut Rng, kind: u8, handles: &[FileHandle]) -> VectorPlace {
    let number = |rng: &mut Rng, from: u64| match rng.below(20) {
        0 => rng.next_u64(),
        1 => u64::MAX - rng.below(3),
        _ => from + rng.below(3_000),
    };
    let handle = handles[rng.below(handles.len() as u64) as usize].raw();
    let (name, from) = match (rng.below(20), kind) {
        (0, _) => (rng.next_u64(), 0),
        (1, _) | (_, 0) => (0, 0),
        (_, 1 | 2) => (handle, 0),
        (_, 3) => (rng.below(4), 0),
        _ => (0, HOST as u64),
    };
    match kind {
        0 if rng.below(9) > 0 => VectorPlace::default(),
        2 if rng.below(9) > 0 => VectorPlace {
            name,
            offset: 0,
            bytes: number(rng, 0),
        },
        _ => VectorPlace {
            name,
            offset: number(rng, from),
            bytes: number(rng, 0),
        },
    }
}

#[test]
fn whatever_a_vector_says_it_is_answered_and_the_file_system_is_sound() {
    for seed in 0..4 {
        println!("seed {seed}");
        run_with(1 << 20, async move |mut asker: Asker| {
            let mut rng = Seed(seed).rng();
            let mut handles = Vec::new();
            for name in [&b"/one"[..], b"/two", b"/three"] {
                handles.push(write(&mut asker, name, &text(9_000)).await);
            }
            let mut all_done = 0;
            for _ in 0..1_500 {
                let count = 1 + rng.below(3);
                let mut head = VectorHead::new(count as u32);
                head.buffer_bytes = [6_000, 100, 0, rng.below(20_000) as u32];
                let step = |_| {
                    let mut step = VectorStep::new_zeroed();
                    let own = rng.below(6) as u8;
                    (step.function, step.from_kind, step.to_kind) =
                        (own, rng.below(5) as u8, rng.below(5) as u8);
                    step.from = any_place(&mut rng, step.from_kind, &handles);
                    step.to = any_place(&mut rng, step.to_kind, &handles);
                    if own == 2 || own == 3 {
                        // Hardly any codec is none.
                        step.count = match rng.below(16) {
                            0 => 3,
                            number => number as u32 % 3,
                        };
                    }
                    if own >= 4 {
                        step.count = 1 + rng.below(40) as u32;
                        step.argument_bytes = 4 * rng.below(4) as u32;
                        step.argument_offset = HOST as u32;
                    }
                    step
                };
                let steps: Vec<VectorStep> = (0..count).map(step).collect();
                let reply = send(&mut asker, &buffer(head, &steps, &text(3_000))).await;
                let known = [StatusCode::InvalidField, StatusCode::HandleInvalid];
                match reply.status {
                    StatusCode::Success => all_done += reply.result,
                    StatusCode::FileError => {
                        assert!(Errno::of_number(reply.result as i32).is_some());
                    }
                    status => assert!(known.contains(&status), "{status:?}"),
                }
            }
            assert!(all_done > 200, "{all_done} steps were done");
            sound(&mut asker.host).await;
        });
    }
}
