//! Random commands for files, most of them wrong somewhere: each gets one completion with a status of the command set,
//! and the file system is sound all the while.

use wharf_drive::config::LinkKind;
use wharf_files::{Caller, Errno};
use wharf_runtime::{Rng, Seed};
use wharf_wire::command::Command;
use wharf_wire::file::{FileHandle, Names, Start, StartKind};
use wharf_wire::status::StatusCode;
use wharf_wire::window::FilePage;

use super::asker::{Asker, head};
use super::support::{config, new_rig, run, sound};

const PATHS: [&[u8]; 9] = [
    b"/", b"/a", b"/b", b"/a/b", b"c", b"", b"/../a/.", b"/a/", b"/loop",
];

/// A number of some magnitude.
fn number(rng: &mut Rng) -> u64 {
    match rng.below(4) {
        0 => rng.below(4),
        1 => rng.below(20_000),
        2 => rng.next_u64(),
        _ => u64::MAX - rng.below(3),
    }
}

fn handle(rng: &mut Rng, known: &[u64]) -> u64 {
    match rng.below(8) {
        0 => number(rng),
        _ if known.is_empty() => 0,
        _ => known[rng.below(known.len() as u64) as usize],
    }
}

/// A request with a few bytes that are anything.
fn request(rng: &mut Rng, known: &[u64]) -> Vec<u8> {
    let mut start = || {
        let kind = StartKind::ALL[rng.below(3) as usize];
        let value = match kind {
            StartKind::Handle => handle(rng, known),
            _ => 1 + rng.below(8),
        };
        Start { kind, value }
    };
    let (first, second) = (start(), start());
    let mut path = || PATHS[rng.below(PATHS.len() as u64) as usize];
    let names = Names {
        path: (first, path()),
        path2: (second, path()),
        value: b"value",
    };
    let caller = match rng.below(3) {
        0 => Caller::user(5, 5),
        _ => Caller::root(),
    };
    let mut head = head(&caller);
    head.mode = 0o755;
    head.size = number(rng);
    head.special = rng.below(9) as u16;
    let mut bytes = head.with_names(&names).expect("it is short");
    if rng.below(3) == 0 {
        for _ in 0..=rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
    }
    bytes
}

fn command(rng: &mut Rng, asker: &Asker, known: &[u64]) -> Command {
    let opcode = match rng.below(18) {
        10 => 0xab,
        11..14 => 0xac,
        14 => 0xb1,
        15 => 0xb2,
        16 => 0xb4,
        17 => 0xbb,
        low => 0xa0 + low as u8,
    };
    let handle = FileHandle::from_raw(handle(rng, known));
    let mut command = Command::close_file(1, handle);
    command.opcode = opcode;
    let offset = number(rng);
    (command.cdw12, command.cdw13) = (offset as u32, (offset >> 32) as u32);
    command.cdw14 = match rng.below(3) {
        0 => 4096,
        1 => 300 + rng.below(20_000) as u32,
        _ => number(rng) as u32,
    };
    command.cdw15 = match rng.below(4) {
        0 => rng.next_u64() as u32,
        // Flags of opening, or an operation.
        _ => rng.below(0x14) as u32 | (rng.below(16) as u32) << 8,
    };
    if opcode == 0xac {
        // Nobody would ever answer one that waits: whoever has the lock waits for the answer.
        command.cdw15 &= !0x100;
    }
    command = match opcode & 3 {
        0 => command.with_prp(number(rng), rng.below(4)),
        _ => asker.aimed(command),
    };
    match rng.below(20) {
        0 => command.prp1 = command.prp1.wrapping_add(number(rng)),
        1 => command.prp2 = number(rng),
        2 => command.nsid = number(rng) as u32,
        3 => command.cdw2 = 1,
        _ => {}
    }
    command
}

/// Stores to a page that may be shown.
fn store(asker: &Asker, rng: &mut Rng) {
    let window = asker.host.dma.window().expect("the drive has one");
    let name = FilePage {
        number: rng.below(40),
        page: number(rng),
    };
    let at = rng.below(4_000) as usize;
    window.store(&asker.host.cpu, name, at, &[rng.next_u64() as u8; 96]);
}

#[test]
fn whatever_is_sent_is_answered_and_leaves_a_sound_file_system() {
    for seed in 0..6 {
        println!("seed {seed}");
        let mut config = config(1 + seed as u32 % 3, 2_000);
        // Its cache is full soon, or never.
        config.memory.near_bytes = [32 << 10, 4 << 20][seed as usize % 2];
        config.memory.protected = seed / 2 == 1;
        config.link.kind = LinkKind::Cxl;
        let mut rig = new_rig(config);
        rig.queues_per_client = 2;
        run(&mut rig, move |host| async move {
            let (mut asker, mut rng) = (Asker::new(host), Seed(seed).rng());
            let mut known = Vec::new();
            let mut done = 0;
            for step in 0..2_000 {
                asker.put(0, &request(&mut rng, &known));
                let command = command(&mut rng, &asker, &known);
                let reply = asker.send(command).await;
                store(&asker, &mut rng);
                if reply.status == StatusCode::FileError {
                    let errno = Errno::of_number(reply.result as i32);
                    assert!(errno.is_some(), "{command:?}: {reply:?}");
                }
                if reply.status == StatusCode::Success {
                    done += 1;
                    if command.opcode == 0xa3 {
                        let answer = asker.got(144);
                        let raw = answer[128..136].try_into().expect("8 bytes");
                        known.push(u64::from_le_bytes(raw));
                    }
                }
                if step % 300 == 0 {
                    sound(&mut asker.host).await;
                }
            }
            sound(&mut asker.host).await;
            assert!(done > 40, "seed {seed}: {done} commands were done");
        });
    }
}
