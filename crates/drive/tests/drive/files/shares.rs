//! Hosts that compute much beside one that computes little.

use wharf_drive::PowerSwitch;
use wharf_runtime::CostTable;
use wharf_wire::command::Command;
use wharf_wire::file::{HandleOperation, VectorFunction, VectorHead, VectorStep};

use super::asker::{Asker, UPDATE};
use super::support::{config, new_rig};
use super::turns::{Turns, script};
use super::vector::{HOST, NOTHING, buffer, file, step};

/// Bytes of a vector's buffer: the steps, and what is looked for.
const BUFFER_BYTES: u32 = 2 * HOST as u32;

/// Vectors that the host that computes much has sent, and never waits for.
const FLOOD: u32 = 24;

/// What a vector of the other host looks through.
const SMALL: usize = 1 << 20;

/// What each of the flood does.
const LARGE: usize = 8 << 20;

/// A vector that looks for three bytes among so many zeros.
async fn vector(asker: &mut Asker, name: &[u8], bytes: usize, buffers: [u32; 4]) -> Vec<u8> {
    let zeros = asker.file(UPDATE, name).await;
    let grow = HandleOperation::Truncate;
    let grow = Command::handle_operation(1, zeros, grow, bytes as u64, 0);
    assert_eq!(asker.send(grow).await.done(), Ok(0));
    let step = VectorStep {
        argument_bytes: 3,
        argument_offset: HOST as u32,
        ..step(VectorFunction::Search, file(zeros, 0, bytes), NOTHING)
    };
    let mut head = VectorHead::new(1);
    head.buffer_bytes = buffers;
    buffer(head, &[step], b"abc")
}

/// How long a small vector of one host takes, alone and beside the flood of another, in nanoseconds of virtual time.
fn alone_and_beside_ns(buffers: [u32; 4]) -> (u64, u64) {
    let mut rig = new_rig(config(1, 2_000));
    rig.has_guests = true;
    let costs = include_str!("../../../../../configs/costs/default.toml");
    rig.costs = CostTable::parse(costs).expect("it is valid");
    let turns = Turns::default();
    let its_turns = turns.clone();
    let (told, heard) = std::sync::mpsc::channel();
    let owner = script(move |mut asker| async move {
        let small = vector(&mut asker, b"/small", SMALL, buffers).await;
        for turn in [0, 2] {
            turns.wait(&asker.host.cpu, turn).await;
            asker.put(0, &small);
            let command = asker.aimed(Command::vector(1, BUFFER_BYTES));
            let begun_ns = asker.host.cpu.now();
            assert_eq!(asker.send(command).await.done(), Ok(1));
            told.send(asker.host.cpu.now() - begun_ns).unwrap();
            turns.pass(turn + 1);
        }
    });
    let guest = script(move |mut asker| async move {
        its_turns.wait(&asker.host.cpu, 1).await;
        let large = vector(&mut asker, b"/large", LARGE, buffers).await;
        asker.put(0, &large);
        for _ in 0..FLOOD {
            let command = asker.aimed(Command::vector(1, BUFFER_BYTES));
            asker.host.send(0, command);
        }
        its_turns.pass(2);
        for _ in 0..FLOOD {
            asker.host.next(0).await;
        }
    });
    rig.run_clients(&PowerSwitch::on(), vec![owner, guest]);
    let both: Vec<u64> = heard.iter().collect();
    (both[0], both[1])
}

/// Each second turn of the core is its own, although the other has eight vectors under way there, and more that wait.
#[test]
fn a_host_that_computes_much_takes_half_of_anothers_turns_and_not_more() {
    let (alone_ns, beside_ns) = alone_and_beside_ns([0; 4]);
    let times = beside_ns as f64 / alone_ns as f64;
    println!("{alone_ns} ns, beside others {beside_ns} ns: {times:.2} times");
    assert!((1.5..2.5).contains(&times), "{times:.2} times");
}

/// Where a vector takes nearly all memory, it waits for the one that is under way, and for no other.
#[test]
fn a_host_that_computes_much_keeps_memory_from_another_for_one_vector() {
    let (alone_ns, beside_ns) = alone_and_beside_ns([1 << 20, 800 << 10, 0, 0]);
    let one_ns = alone_ns * (LARGE / SMALL) as u64;
    println!("{alone_ns} ns, beside others {beside_ns} ns, of whom one takes {one_ns} ns");
    assert!(beside_ns > alone_ns * 3 / 2, "nobody was in the way");
    assert!(beside_ns < one_ns + 2 * alone_ns);
}
