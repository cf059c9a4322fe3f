//! Programs of hosts' own, in vectors.

use wharf_compute::{PROGRAM_BYTES_MAX, PROGRAM_PIECE_BYTES};
use wharf_files::Errno;
use wharf_runtime::CostTable;
use wharf_wire::command::Command;
use wharf_wire::file::{
    FileHandle, HandleOperation, OpenMode, StepOutcome, VECTOR_HEAD_BYTES, VectorCodec,
    VectorFunction, VectorHead, VectorStep,
};
use wharf_wire::status::StatusCode;
use zerocopy::FromBytes;

use super::asker::{Asker, UPDATE};
use super::support::{config, new_rig, run};
use super::vector::{BYTES, HOST, NOTHING, buffer, done, file, step, write};

const ENDLESS: &str = "(loop $on (br $on)) unreachable";

/// A program whose step is `body`.
fn program(body: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
            (memory (export "memory") 1)
            (global (export "wharf_input") i32 (i32.const 1024))
            (global (export "wharf_output") i32 (i32.const 16384))
            (func (export "wharf_step") (param i32 i32) (result i64) {body}))"#
    );
    wat::parse_str(&text).expect("the text has a meaning")
}

/// Does one step of a program, on the first `bytes` bytes of a file.
async fn run_program(
    asker: &mut Asker,
    program: FileHandle,
    (from, bytes): (FileHandle, usize),
) -> Result<StepOutcome, StatusCode> {
    let step = step(VectorFunction::Program, file(from, 0, bytes), NOTHING);
    asker.put(0, &buffer(VectorHead::new(1), &[step], &[]));
    let command = asker.aimed(Command::vector_with(1, program, BYTES as u32));
    let reply = asker.send(command).await;
    if reply.status != StatusCode::Success {
        return Err(reply.status);
    }
    let told = asker.got(VECTOR_HEAD_BYTES);
    let rest = &told[size_of::<VectorHead>()..];
    Ok(StepOutcome::read_from_prefix(rest).unwrap().0)
}

#[test]
fn whatever_a_program_is_the_drive_says_why_not_and_goes_on() {
    let mut rig = new_rig(config(2, 2_000));
    run(&mut rig, async |host| {
        let mut asker = Asker::new(host);
        let data = write(&mut asker, b"/data", &[3; 20_000]).await;
        let good = program("(i64.extend_i32_u (local.get 0))");
        let long = [&good[..], &vec![0; PROGRAM_BYTES_MAX]].concat();
        let cases = [
            (&b""[..], Errno::ENOEXEC),
            (&[7; 100], Errno::ENOEXEC),
            (&good[..good.len() - 1], Errno::ENOEXEC),
            (&long, Errno::ENOEXEC),
            (&program(ENDLESS), Errno::ETIMEDOUT),
            (&program("unreachable"), Errno::EFAULT),
            (&program("(i64.load (i32.const -8))"), Errno::EFAULT),
            (&program("(i64.const 0)"), Errno::EPROTO),
            (&program("(i64.const 9000)"), Errno::EPROTO),
            (&program("(i64.const 0x7fff00000001)"), Errno::EPROTO),
            (&program("(i64.const -1)"), Errno::EBADMSG),
        ];
        for (nth, (bytes, errno)) in cases.into_iter().enumerate() {
            let name = format!("/program-{nth}");
            let handle = write(&mut asker, name.as_bytes(), bytes).await;
            let outcome = run_program(&mut asker, handle, (data, 20_000)).await;
            let said = outcome.expect("the vector began").errno;
            assert_eq!(said, errno.number() as u32, "{name}");
        }
        // Handles that are no program's.
        for raw in [0, u64::MAX] {
            let refused = run_program(&mut asker, FileHandle::from_raw(raw), (data, 1)).await;
            assert_eq!(refused.err(), Some(StatusCode::HandleInvalid));
        }
        let writes = OpenMode {
            read: false,
            ..UPDATE
        };
        let handle = write(&mut asker, b"/good", &good).await;
        let unread = asker.file(writes, b"/good").await;
        let outcome = run_program(&mut asker, unread, (data, 1)).await;
        assert_eq!(outcome.unwrap().errno, Errno::EBADF.number() as u32);
        // An argument that is too long, or that lies in the steps.
        for (offset, bytes) in [
            (HOST as u32, PROGRAM_PIECE_BYTES as u32 + 1),
            (8, 8),
            (8, 0),
        ] {
            let one = VectorStep {
                argument_offset: offset,
                argument_bytes: bytes,
                ..step(VectorFunction::Program, file(data, 0, 1), NOTHING)
            };
            asker.put(0, &buffer(VectorHead::new(1), &[one], &[0; 10_000]));
            let command = asker.aimed(Command::vector_with(1, handle, BYTES as u32));
            assert_eq!(asker.send(command).await.status, StatusCode::InvalidField);
        }
        // All memory is back: as much as the largest vector needs.
        for _ in 0..3 {
            let outcome = run_program(&mut asker, handle, (data, 20_000))
                .await
                .unwrap();
            assert_eq!((outcome.errno, outcome.taken), (0, 20_000));
        }
        let sum = step(VectorFunction::Checksum, file(data, 0, 20_000), NOTHING);
        let buffers = [1 << 20, 800 << 10, 0, 0];
        assert_eq!(done(&mut asker, buffers, &[sum], &[]).await.1[0].errno, 0);
    });
}

#[test]
fn programs_of_one_host_are_not_seen_by_the_next_one() {
    // It counts how often it was called, in its memory: each vector begins anew.
    let text = r#"(module
        (memory (export "memory") 1)
        (global (export "wharf_input") i32 (i32.const 1024))
        (global (export "wharf_output") i32 (i32.const 16384))
        (func (export "wharf_step") (param i32 i32) (result i64)
            (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
            (i64.extend_i32_u (local.get 0)))
        (func (export "wharf_value") (result i64) (i64.load (i32.const 0))))"#;
    let bytes = wat::parse_str(text).unwrap();
    let mut rig = new_rig(config(2, 2_000));
    run(&mut rig, async move |host| {
        let mut asker = Asker::new(host);
        let data = write(&mut asker, b"/data", &[3; 20_000]).await;
        let handle = write(&mut asker, b"/counts", &bytes).await;
        for _ in 0..3 {
            let outcome = run_program(&mut asker, handle, (data, 20_000))
                .await
                .unwrap();
            assert_eq!((outcome.errno, outcome.value), (0, 3));
        }
    });
}

/// What reads have beside them on the one core.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    Nothing,
    /// A program that never ends, until it is stopped.
    Program,
    /// Much to compress.
    Compress(VectorCodec),
    /// Much to look through.
    Search,
    /// The same as often as a core does vectors of a host at a time.
    Searches,
}

impl Beside {
    /// Vectors of it at once.
    fn vectors(self) -> u32 {
        match self {
            Beside::Nothing => 0,
            Beside::Searches => 8,
            _ => 1,
        }
    }

    /// A vector of it, on a file with many zeros.
    async fn buffer(self, asker: &mut Asker) -> Vec<u8> {
        let zeros = write(asker, b"/zeros", b"").await;
        let grow = HandleOperation::Truncate;
        let grow = Command::handle_operation(1, zeros, grow, 100_000_000, 0);
        assert_eq!(asker.send(grow).await.done(), Ok(0));
        let (function, argument_bytes) = match self {
            Beside::Nothing | Beside::Program => (VectorFunction::Program, 0),
            Beside::Compress(_) => (VectorFunction::Compress, 0),
            Beside::Search | Beside::Searches => (VectorFunction::Search, 3),
        };
        let step = VectorStep {
            argument_bytes,
            count: match self {
                Beside::Compress(codec) => codec.raw().into(),
                _ => 0,
            },
            argument_offset: if argument_bytes > 0 { HOST as u32 } else { 0 },
            ..step(function, file(zeros, 0, 100_000_000), NOTHING)
        };
        buffer(VectorHead::new(1), &[step], b"abc")
    }
}

/// How long each of many reads of a page takes, in nanoseconds of virtual time.
fn read_latencies_ns(beside: Beside) -> Vec<u64> {
    let mut config = config(1, 2_000);
    config.timing.read_ns = 60_000;
    let mut rig = new_rig(config);
    rig.queues_per_client = 2;
    let costs = include_str!("../../../../../configs/costs/default.toml");
    rig.costs = CostTable::parse(costs).expect("it is valid");
    let (told, heard) = std::sync::mpsc::channel();
    run(&mut rig, async move |host| {
        let mut asker = Asker::new(host);
        let data = write(&mut asker, b"/data", &[3; 150_000]).await;
        let endless = write(&mut asker, b"/endless", &program(ENDLESS)).await;
        let vector = beside.buffer(&mut asker).await;
        let sync = asker.aimed(Command::sync_files(1));
        assert_eq!(asker.send(sync).await.done(), Ok(0));
        // The vector's buffer is not to be written meanwhile, and what is read is not looked at.
        asker.put(0, &vector);
        let last_page = BYTES / 4096 + 1;
        for _ in 0..beside.vectors() {
            let command = asker.aimed(Command::vector_with(1, endless, BYTES as u32));
            asker.host.send(0, command);
        }
        for nth in 0..200 {
            let read = Command::read_file(1, data, nth % 30 * 4096, 4096);
            let command = asker.host.aim(read, 1, last_page, 0);
            let begun_ns = asker.host.cpu.now();
            asker.host.send(1, command);
            assert_eq!(asker.host.next(1).await.wide_result(), 4096);
            told.send(asker.host.cpu.now() - begun_ns).unwrap();
        }
        for _ in 0..beside.vectors() {
            asker.host.next(0).await;
        }
    });
    heard.iter().collect()
}

/// What shares the one core with a long vector waits for some turns of it, and not for its end.
#[test]
fn reads_go_on_beside_what_takes_long() {
    let p99_ns = |beside| {
        let mut all = read_latencies_ns(beside);
        assert_eq!(all.len(), 200);
        all.sort_unstable();
        all[all.len() * 99 / 100]
    };
    let alone_ns = p99_ns(Beside::Nothing);
    for beside in [
        Beside::Program,
        Beside::Compress(VectorCodec::Zlib),
        Beside::Compress(VectorCodec::Lz4),
        Beside::Compress(VectorCodec::Zstd),
        Beside::Search,
        Beside::Searches,
    ] {
        let beside_ns = p99_ns(beside);
        let times = beside_ns as f64 / alone_ns as f64;
        println!("{beside:?}: p99 of reads {beside_ns} ns, {alone_ns} ns alone: {times:.2} times");
        assert!(times > 1.0, "{beside:?} was never in the way");
        assert!(times <= 2.0, "{beside:?}: {times:.3} times");
    }
}
