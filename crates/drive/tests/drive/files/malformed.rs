//! Malformed commands for files: each wrong field gets its status, and nothing is changed.

use wharf_files::testing::view::{View, view};
use wharf_files::{Caller, Errno};
use wharf_wire::command::Command;
use wharf_wire::file::{
    AttributeOperation, FileHandle, HandleOperation, LockOperation, LockWords, Names, OpenMode,
    PathChange, PathRequest, RequestHead, Start, StartKind, Token,
};
use wharf_wire::opcode::IoOpcode;
use wharf_wire::status::StatusCode;

use super::asker::{Asker, Reply, UPDATE, head, path};
use super::support::{config, new_rig, run, run_on};

use StatusCode as S;

/// Where there is no host memory; the second would be in the drive's.
const NOWHERE: [u64; 2] = [0x7000_0000_0000, 1 << 63];

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Status(StatusCode),
    Files(Errno),
}

impl Wrong {
    fn of(reply: Reply) -> Option<Wrong> {
        match reply.status {
            S::Success => None,
            S::FileError => Errno::of_number(reply.result as i32).map(Wrong::Files),
            status => Some(Wrong::Status(status)),
        }
    }
}

const READ: OpenMode = OpenMode {
    write: false,
    create: false,
    ..UPDATE
};

fn with(mut command: Command, change: impl FnOnce(&mut Command)) -> Command {
    change(&mut command);
    command
}

fn root() -> RequestHead {
    head(&Caller::root())
}

/// All that can be seen.
async fn seen(asker: &mut Asker) -> View {
    let (sender, receiver) = std::sync::mpsc::channel();
    run_on(&mut asker.host, 0, |at| {
        Box::pin(async move {
            let fs = at.file_system().await.unwrap();
            let _ = sender.send(view(&*fs).await.unwrap());
        })
    })
    .await;
    receiver.recv().expect("it was looked at")
}

struct World {
    asker: Asker,
    file: FileHandle,
    directory: FileHandle,
    closed: FileHandle,
    before: View,
}

impl World {
    /// A file with bytes, a directory, a link to itself.
    async fn new(host: crate::support::host::Host) -> World {
        let mut asker = Asker::new(host);
        let file = asker.file(UPDATE, b"/f").await;
        asker.put(0, &[7; 5000]);
        let write = asker.aimed(Command::write_file(1, file, 0, 5000));
        assert_eq!(asker.send(write).await.done(), Ok(5000));
        let mut head = root();
        head.mode = 0o755;
        let made = Command::path_request(1, PathRequest::MakeDirectory, 8192);
        assert_eq!(asker.ask(made, head, &path(b"/d")).await.done(), Ok(0));
        let link = Command::path_request(1, PathRequest::MakeSymlink, 8192);
        let names = Names {
            path2: (Start::ROOT, b"/loop"),
            ..path(b"/loop")
        };
        assert_eq!(asker.ask(link, head, &names).await.done(), Ok(0));
        let directory = OpenMode {
            directory: true,
            ..READ
        };
        let directory = asker.file(directory, b"/d").await;
        let closed = asker.file(READ, b"/f").await;
        let close = asker.send(Command::close_file(1, closed)).await;
        assert_eq!(close.done(), Ok(0));
        let before = seen(&mut asker).await;
        World {
            asker,
            file,
            directory,
            closed,
            before,
        }
    }

    /// One command of each opcode, good but for what a case changes.
    fn each(&self) -> Vec<Command> {
        let lock = LockWords {
            handle: self.file,
            operation: LockOperation::LockShared,
            first: 0,
            last: 9,
            owner: 1,
            whole_file: false,
        };
        let all = vec![
            Command::close_file(1, self.file),
            Command::write_file(1, self.file, 100, 5000),
            Command::read_file(1, self.file, 100, 5000),
            Command::open_file(1, UPDATE, 8192),
            Command::sync_file(1, self.file, 0, u64::MAX, true),
            Command::path_change(1, PathChange::Remove, 8192),
            Command::read_directory(1, self.directory, 0, 5000),
            Command::path_request(1, PathRequest::MakeDirectory, 8192),
            Command::handle_operation(1, self.file, HandleOperation::Truncate, 3, 0),
            Command::set_file_attributes(1, AttributeOperation::Mode, 8192),
            Command::lease_file(1, self.file, self.asker.host.whole.address(39), 5000),
            Command::test_lock(1, self.file, false, 5000),
            Command::lock_file(1, lock),
            Command::authenticate(1, 8192),
            Command::vector(1, 5000),
        ];
        all.into_iter()
            .map(|command| match command.io_opcode() {
                Some(
                    IoOpcode::CloseFile
                    | IoOpcode::SyncFile
                    | IoOpcode::HandleOperation
                    | IoOpcode::LockFile,
                ) => command,
                _ => self.asker.aimed(command),
            })
            .collect()
    }

    async fn refused(&mut self, what: &str, command: Command, wrong: Wrong) {
        let reply = self.asker.send(command).await;
        assert_eq!(Wrong::of(reply), Some(wrong), "{what}: {command:?}");
        let after = seen(&mut self.asker).await;
        let unlike = after.0 != self.before.0;
        assert!(!unlike, "{what} has changed something: {after:?}");
    }

    /// Sends a request whose bytes were changed.
    async fn request(
        &mut self,
        what: &str,
        command: Command,
        (at, bytes): (usize, &[u8]),
        wrong: Wrong,
    ) {
        let mut head = root();
        head.mode = 0o600;
        let names = Names {
            path2: (Start::ROOT, b"/g"),
            ..path(b"/f")
        };
        let mut request = head.with_names(&names).unwrap();
        request[at..at + bytes.len()].copy_from_slice(bytes);
        self.asker.put(0, &request);
        self.refused(what, command, wrong).await;
    }
}

/// Runs a script on a drive with a world.
fn in_world<F: Future<Output = ()> + 'static>(script: impl FnOnce(World) -> F + Send + 'static) {
    let mut rig = new_rig(config(2, 2_000));
    run(&mut rig, |host| async move {
        script(World::new(host).await).await;
    });
}

#[test]
fn fields_that_all_have_are_checked() {
    in_world(|mut world| async move {
        let status = Wrong::Status;
        for good in world.each() {
            for token in [0, 3, 4, 7, 8, 15] {
                let mut bytes = [0; 16];
                bytes[token] = 1;
                let command = good.with_token(Token(bytes));
                world
                    .refused("a token", command, status(S::TokenInvalid))
                    .await;
            }
            let other = with(good, |c| c.nsid = 2);
            let wrong = status(S::InvalidNamespace);
            world.refused("namespace 2", other, wrong).await;
            let fused = with(good, |c| c.flags = 1);
            world.refused("fused", fused, status(S::InvalidField)).await;
        }
        // It has no cache, so those for that are none.
        let kept = (0xae..=0xbf).filter(|opcode| *opcode != IoOpcode::Vector.raw());
        for opcode in kept.chain([0x9f]) {
            let command = with(Command::sync_files(1), |c| c.opcode = opcode);
            let wrong = status(S::InvalidOpcode);
            world
                .refused("an opcode that is kept", command, wrong)
                .await;
        }
    });
}

#[test]
fn handles_of_nobody_are_refused() {
    in_world(|mut world| async move {
        let file = world.file;
        let stale = FileHandle {
            generation: file.generation.wrapping_add(1),
            ..file
        };
        let other = FileHandle {
            index: file.index + 77,
            ..file
        };
        let last = FileHandle {
            index: u32::MAX,
            generation: u32::MAX,
        };
        for handle in [stale, other, last, world.closed, FileHandle::default()] {
            let wrong = Wrong::Status(S::HandleInvalid);
            for good in world.each() {
                let on_handle = matches!(
                    good.io_opcode(),
                    Some(
                        IoOpcode::CloseFile
                            | IoOpcode::ReadFile
                            | IoOpcode::WriteFile
                            | IoOpcode::SyncFile
                            | IoOpcode::ReadDirectory
                            | IoOpcode::HandleOperation
                            | IoOpcode::LeaseFile
                            | IoOpcode::TestLock
                            | IoOpcode::LockFile
                    )
                );
                if on_handle {
                    let command = with(good, |c| {
                        (c.cdw10, c.cdw11) = (handle.index, handle.generation);
                    });
                    world.refused("a handle of nobody", command, wrong).await;
                }
            }
            let stat = Command::path_request(1, PathRequest::Stat, 8192).by_handle(handle);
            let stat = world.asker.aimed(stat);
            world.request("by handle", stat, (0, &[]), wrong).await;
            let mode = Command::set_file_attributes(1, AttributeOperation::Mode, 8192);
            let mode = world.asker.aimed(mode.by_handle(handle));
            world.request("mode by handle", mode, (0, &[]), wrong).await;
            let raw = handle.raw().to_le_bytes();
            let made = Command::path_request(1, PathRequest::MakeDirectory, 8192);
            let made = world.asker.aimed(made);
            let start = [&raw[..], &[0; 8], &[StartKind::Handle.raw()]].concat();
            world
                .request("begins at it", made, (16, &start), wrong)
                .await;
        }
    });
}

#[test]
fn buffers_are_checked() {
    in_world(|mut world| async move {
        let moving: Vec<Command> = world
            .each()
            .into_iter()
            .filter(|c| c.opcode & 3 != 0)
            .collect();
        for good in moving {
            for prp1 in [good.prp1 + 1, good.prp1 + 2] {
                let command = with(good, |c| c.prp1 = prp1);
                let wrong = Wrong::Status(S::PrpOffsetInvalid);
                world.refused("an odd address", command, wrong).await;
            }
            let command = with(good, |c| c.prp2 += 4);
            let wrong = Wrong::Status(S::PrpOffsetInvalid);
            world
                .refused("a second page within one", command, wrong)
                .await;
            for nowhere in NOWHERE {
                let wrong = Wrong::Status(S::DataTransferError);
                let command = with(good, |c| c.prp1 = nowhere);
                world.refused("a first page nowhere", command, wrong).await;
                let command = with(good, |c| c.prp2 = nowhere);
                world.refused("a second page nowhere", command, wrong).await;
                let command = with(good, |c| (c.cdw14, c.prp2) = (20_000, nowhere));
                world.refused("a list nowhere", command, wrong).await;
            }
            for bytes in [(1 << 20) + 1, 1 << 30, u32::MAX] {
                let command = with(good, |c| c.cdw14 = bytes);
                let wrong = Wrong::Status(S::InvalidField);
                world.refused("too many bytes", command, wrong).await;
            }
            // Of 1 MiB from within a page there are 257.
            let command = with(good, |c| (c.cdw14, c.prp1) = (1 << 20, c.prp1 + 4));
            let wrong = Wrong::Status(S::InvalidField);
            world.refused("a page too many", command, wrong).await;
        }
        for good in world.each() {
            let has_request = matches!(good.opcode, 0xa3 | 0xa5 | 0xa7 | 0xa9);
            for bytes in [0, 1, 255] {
                if has_request {
                    let command = with(good, |c| c.cdw14 = bytes);
                    let wrong = Wrong::Status(S::InvalidField);
                    world.refused("no room for a head", command, wrong).await;
                }
            }
        }
    });
}

#[test]
fn requests_are_checked() {
    in_world(|mut world| async move {
        let field = Wrong::Status(S::InvalidField);
        let with_names: Vec<Command> = world
            .each()
            .into_iter()
            .filter(|c| matches!(c.opcode, 0xa3 | 0xa5 | 0xa7 | 0xa9))
            .collect();
        for good in with_names {
            let cases: [(&str, usize, &[u8], Wrong); 11] = [
                ("version 0", 0, &[0, 0], field),
                ("version 2", 0, &[2, 0], field),
                ("33 groups", 2, &[33, 0], field),
                ("65535 groups", 2, &[255, 255], field),
                ("a start of no kind", 32, &[3], field),
                ("a second start of no kind", 33, &[255], field),
                (
                    "a long path",
                    34,
                    &4096_u16.to_le_bytes(),
                    Wrong::Files(Errno::ENAMETOOLONG),
                ),
                (
                    "a longer path",
                    36,
                    &4097_u16.to_le_bytes(),
                    Wrong::Files(Errno::ENAMETOOLONG),
                ),
                (
                    "a long value",
                    40,
                    &65_537_u32.to_le_bytes(),
                    Wrong::Files(Errno::E2BIG),
                ),
                (
                    "the longest value",
                    40,
                    &[255; 4],
                    Wrong::Files(Errno::E2BIG),
                ),
                (
                    "a value that is not there",
                    40,
                    &8_192_u32.to_le_bytes(),
                    field,
                ),
            ];
            for (what, at, bytes, wrong) in cases {
                world.request(what, good, (at, bytes), wrong).await;
            }
            // A path of 2 bytes, 4 names of it behind the head: with a zero in it.
            let wrong = Wrong::Files(Errno::EINVAL);
            world.request("a zero", good, (257, &[0]), wrong).await;
            let none = Wrong::Files(Errno::ENOENT);
            world
                .request("an empty path", good, (34, &[0, 0]), none)
                .await;
            let start = [&[7; 8][..], &[0; 8], &[StartKind::Number.raw()]].concat();
            if good.opcode != 0xa3 {
                // A path that begins with a slash begins at the root: here it begins with `d`.
                let mut head = root();
                head.mode = 0o600;
                let mut request = head.with_names(&path(b"dd")).unwrap();
                request[16..16 + start.len()].copy_from_slice(&start);
                world.asker.put(0, &request);
                let wrong = Wrong::Files(Errno::ESTALE);
                world.refused("a number of nothing", good, wrong).await;
            }
            let mut request = root().with_names(&path(b"/loop/x")).unwrap();
            request[12..14].copy_from_slice(&[0, 0]);
            world.asker.put(0, &request);
            let wrong = Wrong::Files(Errno::ELOOP);
            world.refused("a link to itself", good, wrong).await;
        }
    });
}

#[test]
fn operations_without_a_meaning_are_refused() {
    in_world(|mut world| async move {
        let field = Wrong::Status(S::InvalidField);
        let aim = |world: &World, command| world.asker.aimed(command);
        let request = aim(&world, Command::path_request(1, PathRequest::Stat, 8192));
        let change = aim(&world, Command::path_change(1, PathChange::Rename, 8192));
        let set = AttributeOperation::SetXattr;
        let set = aim(&world, Command::set_file_attributes(1, set, 8192));
        for (good, known) in [
            (
                request,
                [0, 1, 2, 3, 4, 5, 0x10, 0x11, 0x12, 0x13].as_slice(),
            ),
            (change, &[0, 1, 2, 3]),
            (set, &[0, 1, 2, 3, 4]),
            (
                Command::handle_operation(1, world.file, HandleOperation::SeekHole, 0, 0),
                &[0, 1, 2, 3, 4, 5, 6, 7],
            ),
        ] {
            for operation in (0..=255).filter(|operation| !known.contains(operation)) {
                let command = with(good, |c| c.cdw15 = c.cdw15 & !255 | operation);
                let reply = world.asker.send(command).await;
                assert_eq!(Wrong::of(reply), Some(field), "{command:?}");
            }
        }
        for good in [change, set] {
            let command = with(good, |c| c.cdw15 |= 3 << 10);
            world.refused("mode 3", command, field).await;
        }
        for kind in [
            PathRequest::ReadLink,
            PathRequest::MakeDirectory,
            PathRequest::Link,
        ] {
            let command = Command::path_request(1, kind, 8192).by_handle(world.file);
            let command = aim(&world, command);
            world.request("by handle", command, (0, &[]), field).await;
        }
        let special = aim(
            &world,
            Command::path_request(1, PathRequest::MakeSpecial, 8192),
        );
        for kind in [0_u16, 1, 2, 3, 8, u16::MAX] {
            let raw = kind.to_le_bytes();
            world.request("special", special, (14, &raw), field).await;
        }
        let mode = Command::set_file_attributes(1, AttributeOperation::Mode, 8192);
        let mode = aim(&world, mode);
        world
            .request("no mode", mode, (12, &[255, 255]), field)
            .await;
    });
}

#[test]
fn ranges_beyond_every_file_are_refused() {
    in_world(|mut world| async move {
        let files = Wrong::Files;
        let (file, directory) = (world.file, world.directory);
        for (offset, bytes) in [(1 << 63, 1), (u64::MAX, 5000), ((1 << 63) - 5, 5000)] {
            let write = world
                .asker
                .aimed(Command::write_file(1, file, offset, bytes));
            world.refused("a write", write, files(Errno::EINVAL)).await;
            let read = world
                .asker
                .aimed(Command::read_file(1, file, offset, bytes));
            world.refused("a read", read, files(Errno::EINVAL)).await;
        }
        let operate =
            |operation, offset, bytes| Command::handle_operation(1, file, operation, offset, bytes);
        use HandleOperation::*;
        for (operation, offset, bytes, errno) in [
            (Truncate, 1 << 63, 0, Errno::EINVAL),
            (Truncate, u64::MAX, 0, Errno::EINVAL),
            (Allocate, u64::MAX, u64::MAX, Errno::EINVAL),
            (Allocate, 0, 0, Errno::EINVAL),
            (Allocate, (1 << 63) - 1, 1, Errno::EFBIG),
            (Punch, (1 << 63) - 1, (1 << 63) - 1, Errno::EFBIG),
            (SeekData, 5000, 0, Errno::ENXIO),
            (SeekHole, u64::MAX, 0, Errno::ENXIO),
        ] {
            let command = operate(operation, offset, bytes);
            world.refused("a range", command, files(errno)).await;
        }
        let read = world.asker.aimed(Command::read_file(1, directory, 0, 100));
        world
            .refused("a directory", read, files(Errno::EISDIR))
            .await;
        let write = world.asker.aimed(Command::write_file(1, directory, 0, 100));
        world
            .refused("a directory", write, files(Errno::EBADF))
            .await;
        let list = world.asker.aimed(Command::read_directory(1, file, 0, 4096));
        world.refused("a file", list, files(Errno::ENOTDIR)).await;
        for bytes in [0, 1, 15] {
            let list = Command::read_directory(1, directory, 0, bytes);
            let list = world.asker.aimed(list);
            world.refused("no room", list, files(Errno::EINVAL)).await;
        }
        // At the end of the range of offsets there is nothing to append to.
        let long = world.asker.file(UPDATE, b"/long").await;
        let cut = Command::handle_operation(1, long, Truncate, (1 << 63) - 1, 0);
        assert_eq!(world.asker.send(cut).await.done(), Ok(0));
        let append = world.asker.aimed(Command::append_file(1, long, 10));
        let reply = world.asker.send(append).await;
        assert_eq!(Wrong::of(reply), Some(files(Errno::EFBIG)));
    });
}

#[test]
fn paths_do_not_lead_out_of_the_root() {
    in_world(|mut world| async move {
        for name in [&b"/../../../f"[..], b"../f", b"/d/../../f", b"//f"] {
            let stat = Command::path_request(1, PathRequest::Stat, 8192);
            let reply = world.asker.ask(stat, root(), &path(name)).await;
            assert_eq!(reply.done(), Ok(0), "{name:?}");
        }
    });
}

#[test]
fn a_queue_names_a_core_that_is_there() {
    let mut rig = new_rig(config(2, 2_000));
    rig.spare_queues = 3;
    run(&mut rig, |mut host| async move {
        for (qid, core, status) in [
            (2, 0, S::Success),
            (3, 1, S::Success),
            (4, 2, S::InvalidField),
            (4, 65_534, S::InvalidField),
        ] {
            let at = crate::support::host::queue_address(qid);
            let completions = Command::create_completion_queue(qid, 64, at);
            let found = host.admin_status(completions).await;
            assert!(found == S::Success || found == S::InvalidQueueId);
            let create = Command::create_submission_queue(qid, 64, qid, at).with_core(core);
            assert_eq!(host.admin_status(create).await, status, "core {core}");
        }
        host.queues.truncate(3);
        let mut asker = Asker::new(host);
        // The queues of both cores serve files.
        let file = asker.file(UPDATE, b"/f").await;
        for round in 0..6 {
            let write = asker.aimed(Command::append_file(1, file, 100));
            assert_eq!(asker.send(write).await.done(), Ok(round * 100));
        }
    });
}

#[test]
fn a_request_that_is_rewritten_is_one_of_both() {
    let mut rig = new_rig(config(2, 2_000));
    run(&mut rig, |host| async move {
        let mut asker = Asker::new(host);
        let mut head = root();
        head.mode = 0o644;
        for round in 0..40_u64 {
            let (one, two) = (format!("/one{round:03}"), format!("/other{round:05}"));
            let make = |name: &str| head.with_names(&path(name.as_bytes())).unwrap();
            let (first, second) = (make(&one), make(&two));
            asker.put(0, &first);
            let command = asker.aimed(Command::open_file(1, UPDATE, 4096));
            let queue = 0;
            asker.host.send(queue, command);
            let cpu = asker.host.cpu.clone();
            let mut turn = 0;
            let found = loop {
                if let Some(found) = asker.host.queues[queue].poll(&cpu) {
                    asker.host.queues[queue].release();
                    break found;
                }
                asker.put(0, if turn % 2 == 0 { &second } else { &first });
                turn += 1;
                cpu.sleep_until(cpu.now() + 1 + round * 7).await;
            };
            assert!(found.status().is_success(), "{found:?}");
            let tree = seen(&mut asker).await;
            let is_there = |name: &str| tree.0.contains_key(name.as_bytes());
            assert!(is_there(&one) != is_there(&two), "round {round}: {tree:?}");
            assert_eq!(tree.0.len() as u64, 2 + round);
        }
    });
}

#[test]
fn handles_have_an_end() {
    let mut rig = new_rig(config(1, 2_000));
    run(&mut rig, |host| async move {
        let mut asker = Asker::new(host);
        let first = asker.file(UPDATE, b"/f").await;
        let command = Command::open_file(1, READ, 4096);
        for _ in 1..1 << 16 {
            let reply = asker.ask(command, root(), &path(b"/f")).await;
            assert_eq!(reply.done(), Ok(0));
        }
        for _ in 0..2 {
            let reply = asker.ask(command, root(), &path(b"/f")).await;
            assert_eq!(Wrong::of(reply), Some(Wrong::Files(Errno::ENFILE)));
        }
        let closed = asker.send(Command::close_file(1, first)).await;
        assert_eq!(closed.done(), Ok(0));
        asker.file(READ, b"/f").await;
    });
}

#[test]
fn a_queue_goes_with_commands_in_flight() {
    let mut rig = new_rig(config(2, 2_000));
    rig.queues_per_client = 2;
    run(&mut rig, |host| async move {
        let mut asker = Asker::new(host);
        let file = asker.file(UPDATE, b"/f").await;
        for _ in 0..10 {
            let append = asker.aimed(Command::append_file(1, file, 9000));
            asker.host.send(0, append);
        }
        let deleted = asker.host.admin_status(Command::delete_submission_queue(1));
        assert_eq!(deleted.await, S::Success);
        asker.host.queues.remove(0);
        // What had begun ran to its end, whole, and the other queue is served.
        let mut other = Asker::new(asker.host);
        let stat = Command::path_request(1, PathRequest::Stat, 4096);
        assert_eq!(other.ask(stat, root(), &path(b"/f")).await.done(), Ok(0));
        let bytes = u64::from_le_bytes(other.got(16)[8..].try_into().unwrap());
        assert!(bytes.is_multiple_of(9000) && bytes <= 90_000, "{bytes}");
        let close = other.send(Command::close_file(1, file)).await;
        assert_eq!(close.done(), Ok(0));
    });
}
