//! Pages of the drive's cache that a host loads and stores without a command, as the model of files has it: all other commands find what
//! was stored, and nothing is stored where that could not be so.

use wharf_drive::PowerSwitch;
use wharf_drive::config::LinkKind;
use wharf_files::testing::beside::assert_alike;
use wharf_files::testing::program::{Fill, Operation, Step};
use wharf_files::vfs::SetTime;
use wharf_files::{Allocate as What, OpenFlags, Rename as How, Seek as Wanted, Sync as Durable};
use wharf_runtime::{Rng, Seed};
use wharf_wire::command::Command;
use wharf_wire::file::{Evict, FileHandle, HandleOperation, NearResult};
use wharf_wire::window::FilePage;

use super::asker::{Asker, UPDATE};
use super::near::{alike, near_pages};
use super::support::{Home, config, new_rig, run};
use super::turns::{Turns, script};

const NAMES: [&[u8]; 2] = [b"/one", b"/two"];

/// Bytes of a file that are used.
const BYTES: u64 = 3 * 4096;

fn flags(rng: &mut Rng) -> OpenFlags {
    let all = OpenFlags::CREATE;
    match rng.below(6) {
        0 => OpenFlags::READ,
        1 => OpenFlags { read: false, ..all },
        2 => OpenFlags {
            append: true,
            ..all
        },
        _ => all,
    }
}

/// One thing that is done with one of two files: most of it reads and writes.
fn operation(rng: &mut Rng, stamp: u32) -> Operation {
    use Operation::*;
    let slot = rng.below(3) as usize;
    let offset = rng.below(BYTES);
    let path = || NAMES[slot % 2].to_vec();
    let other = || NAMES[(slot + 1) % 2].to_vec();
    let bytes = match rng.below(8) {
        0 => 1 + rng.below(5_000),
        _ => 1 + rng.below(600),
    };
    match rng.below(220) {
        0..35 | 100..160 => Read {
            slot,
            offset,
            bytes,
        },
        35..70 | 160.. => Write {
            slot,
            offset,
            fill: Fill { stamp, bytes },
        },
        70..75 => Open {
            slot,
            path: path(),
            flags: flags(rng),
            mode: 0o666,
        },
        75..77 => Close { slot },
        77..79 => TruncateOpen {
            slot,
            bytes: rng.below(BYTES),
        },
        79 => Truncate {
            path: path(),
            bytes: rng.below(BYTES),
        },
        80..84 => Allocate {
            slot,
            offset,
            bytes,
            what: [
                What::Extend,
                What::KeepSize,
                What::Punch,
                What::Zero,
                What::ZeroKeepSize,
            ][rng.below(5) as usize],
        },
        84 => Seek {
            slot,
            offset,
            what: [Wanted::Data, Wanted::Hole][rng.below(2) as usize],
        },
        85..87 => Sync {
            slot,
            what: [Durable::Data, Durable::All][rng.below(2) as usize],
        },
        87 => SyncAll,
        88 => Unlink { path: path() },
        89 => Rename {
            from: path(),
            to: other(),
            how: How::Replace,
        },
        90 => Link {
            from: path(),
            to: other(),
            follow: true,
        },
        91..94 => Stat {
            path: path(),
            follow: true,
        },
        94..96 => StatOpen { slot },
        // Set-id bits, which a write takes away.
        96 => Chmod {
            path: path(),
            mode: [0o666, 0o4777, 0o2775][rng.below(3) as usize],
        },
        97 => Chown {
            path: path(),
            follow: true,
            uid: Some(1001),
            gid: None,
        },
        98..100 => SetTimes {
            path: path(),
            follow: true,
            accessed: SetTime::Now,
            modified: SetTime::Now,
        },
    }
}

/// A program of root and another user, which opens its files, and fills them.
fn program(seed: u64) -> Vec<Step> {
    let mut rng = Seed(seed).child("program").rng();
    let open = |slot: usize| Operation::Open {
        slot,
        path: NAMES[slot % 2].to_vec(),
        flags: OpenFlags::CREATE,
        mode: 0o666,
    };
    let fill = |slot: usize| Operation::Write {
        slot,
        offset: 0,
        fill: Fill {
            stamp: 1_000 + slot as u32,
            bytes: BYTES - 1_000,
        },
    };
    let begin = (0..3).map(open).chain((0..2).map(fill));
    let begin = begin.map(Step::of_root);
    // Whose writes take set-id bits away.
    let user = (0..3)
        .map(open)
        .map(|operation| Step { user: 1, operation });
    let then = (0..400).map(|stamp| Step {
        user: rng.below(2) as usize,
        operation: operation(&mut rng, stamp),
    });
    begin.chain(user).chain(then).collect()
}

#[test]
fn random_programs_find_what_was_stored_without_a_command() {
    for seed in 0..36 {
        // In `alike`, half of nine seeds have no window.
        let seed = seed + seed / 9 * 9;
        let home = Home::ALL[seed as usize / 3 % 3];
        let pages = [3, 40, 8][seed as usize % 3];
        println!("{home:?}, {pages} pages");
        assert_alike(seed, &program(seed), |program| {
            alike(program, home, pages, seed)
        });
    }
}

/// A file of one page that is shown to be stored to, by a drive with a window.
fn with_shown<F: Future<Output = ()> + 'static>(
    test: impl FnOnce(Asker, FileHandle, FilePage) -> F + Send + 'static,
) {
    let mut config = config(2, 2_000);
    config.memory.near_bytes = 8 * 4096;
    config.link.kind = LinkKind::Cxl;
    let mut rig = new_rig(config);
    run(&mut rig, move |host| async move {
        let mut asker = Asker::new(host);
        let opened = asker.open(UPDATE, b"/shown").await;
        let handle = FileHandle::from_raw(opened.handle);
        asker.put(0, &[1; 4096]);
        let write = asker.aimed(Command::write_file(1, handle, 0, 4096));
        assert_eq!(asker.send(write).await.done(), Ok(4096));
        show(&mut asker, handle).await;
        let name = FilePage {
            number: opened.attributes.number,
            page: 0,
        };
        test(asker, handle, name).await;
    });
}

async fn show(asker: &mut Asker, handle: FileHandle) {
    asker.put(0, &[2; 4]);
    let write = Command::write_near(1, handle, 0, 4).showing();
    let write = asker.aimed(write);
    assert!(asker.send(write).await.done().is_ok());
}

fn store(asker: &Asker, name: FilePage, value: u8) -> bool {
    let window = asker.host.dma.window().expect("it has one");
    window.store(&asker.host.cpu, name, 100, &[value; 8])
}

#[test]
fn what_is_stored_is_what_other_commands_find_and_what_a_sync_makes_durable() {
    with_shown(|mut asker, handle, name| async move {
        for value in 3..9 {
            assert!(store(&asker, name, value), "it stays shown");
            let command = match value % 2 {
                0 => Command::read_file(1, handle, 98, 12),
                _ => Command::read_near(1, handle, 98, 12),
            };
            let command = asker.aimed(command);
            assert!(asker.send(command).await.done().is_ok());
            let right = [vec![1; 2], vec![value; 8], vec![1; 2]].concat();
            assert_eq!(asker.got(12), right);
        }
        assert!(store(&asker, name, 20));
        let sync = Command::sync_file(1, handle, 0, u64::MAX, false);
        assert_eq!(asker.send(sync).await.done(), Ok(0));
        assert_eq!(
            near_pages(&mut asker).await,
            (1, 0),
            "it is clean, and there"
        );
        assert!(store(&asker, name, 21));
        assert_eq!(near_pages(&mut asker).await, (1, 1));
    });
}

#[test]
fn a_page_is_hidden_before_it_leaves_or_changes_and_when_a_handle_is_closed() {
    with_shown(|mut asker, handle, name| async move {
        let other = asker.file(UPDATE, b"/shown").await;
        asker.put(0, &[7; 4096]);
        for command in [
            Command::close_file(1, other),
            Command::evict_near(1, handle, Evict::WriteBack, 0, u64::MAX),
            Command::evict_near(1, handle, Evict::Drop, 0, u64::MAX),
            asker.aimed(Command::write_file(1, handle, 50, 10)),
            asker.aimed(Command::read_near(1, handle, 0, 4096).taking()),
            Command::handle_operation(1, handle, HandleOperation::Truncate, 4_000, 0),
            Command::leave_files(1),
        ] {
            assert!(store(&asker, name, 5), "it is shown");
            assert!(asker.send(command).await.done().is_ok(), "{command:?}");
            assert!(!store(&asker, name, 6), "{command:?}");
            if command != Command::leave_files(1) {
                show(&mut asker, handle).await;
            }
        }
    });
}

/// A host in another process has not the drive's memory: what it asks to be shown would be shown to the drive's own process, and to nobody who has
/// opened the file. What it writes to a page that is shown is found there, and its leave hides no page of another host.
#[test]
fn nothing_is_shown_that_a_host_in_another_process_asks_for() {
    let mut config = config(2, 2_000);
    config.memory.near_bytes = 8 * 4096;
    config.link.kind = LinkKind::Cxl;
    let mut rig = new_rig(config);
    rig.has_guests = true;
    let turns = Turns::default();
    let its_turns = turns.clone();
    let owner = script(move |mut asker| async move {
        let opened = asker.open(UPDATE, b"/shown").await;
        let (handle, number) = (
            FileHandle::from_raw(opened.handle),
            opened.attributes.number,
        );
        let name = |page| FilePage { number, page };
        asker.put(0, &[1; 4096]);
        for page in 0..2 {
            let write = asker.aimed(Command::write_file(1, handle, page * 4096, 4096));
            assert_eq!(asker.send(write).await.done(), Ok(4096));
        }
        turns.pass(1);
        turns.wait(&asker.host.cpu, 2).await;
        // The guest has it in the drive's cache, and has asked for it to be shown, to load and to store.
        assert!(!store(&asker, name(1), 5));
        let window = asker.host.dma.window().expect("it has one");
        assert!(!window.load(&asker.host.cpu, name(1), 0, &mut [0; 8]));
        show(&mut asker, handle).await;
        assert!(store(&asker, name(0), 6));
        turns.pass(3);
        turns.wait(&asker.host.cpu, 4).await;
        let mut found = [0; 8];
        let is_shown = window.load(&asker.host.cpu, name(0), 100, &mut found);
        if !is_shown {
            let read = asker.aimed(Command::read_near(1, handle, 100, 8));
            assert!(asker.send(read).await.done().is_ok());
            found.copy_from_slice(&asker.got(8));
        }
        assert_eq!(found, [9, 6, 6, 6, 6, 6, 6, 6], "what both have stored");
    });
    let guest = script(move |mut asker| async move {
        its_turns.wait(&asker.host.cpu, 1).await;
        assert!(asker.host.dma.window().is_none(), "it has not that memory");
        let opened = asker.open(UPDATE, b"/shown").await;
        let handle = FileHandle::from_raw(opened.handle);
        asker.put(0, &[3; 4]);
        for command in [
            Command::write_near(1, handle, 4096, 4),
            Command::read_near(1, handle, 4096, 4).keeping(0),
        ] {
            let command = asker.aimed(command.showing());
            let done = asker.send(command).await.done();
            let found = NearResult::from_raw(done.expect("it may read and write"));
            assert_eq!((found.bytes, found.kept), (4, 1), "it is in the cache");
        }
        its_turns.pass(2);
        its_turns.wait(&asker.host.cpu, 3).await;
        asker.put(0, &[9]);
        let write = asker.aimed(Command::write_near(1, handle, 100, 1));
        assert!(asker.send(write).await.done().is_ok());
        assert!(asker.send(Command::leave_files(1)).await.done().is_ok());
        its_turns.pass(4);
    });
    rig.run_clients(&PowerSwitch::on(), vec![owner, guest]);
}
