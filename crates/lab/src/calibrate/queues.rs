//! Queue pairs and rings: one thread, both ends, warm caches. What a line costs to come from another
//! core is not in these figures (`contention.rs` has it).

use std::hint::black_box;

use wharf_runtime::clock::Clock;
use wharf_runtime::{Cpu, Notifier, Op, ring};
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::dma::DmaSpace;
use wharf_wire::prp::prp_walk;
use wharf_wire::queue::queue_pair;
use wharf_wire::status::Status;

use super::costs::Costs;
use super::sample::Sampler;
use super::{CalibrateError, inline_cpu};

/// Times queue pairs, then rings.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) -> Result<(), CalibrateError> {
    inline_cpu(|cpu| {
        queue_pairs(cpu, sampler, costs)?;
        rings(cpu, sampler, costs);
        Ok(())
    })
}

/// The four ends of a queue pair, one after another over the same commands.
fn queue_pairs(cpu: &Cpu, sampler: Sampler, costs: &mut Costs) -> Result<(), CalibrateError> {
    const BATCH: u64 = 100;
    let space = DmaSpace::new(4096);
    let region = space.register(BATCH as usize)?;
    let notifier = Notifier::new();
    let (mut host, mut drive) = queue_pair(128, &notifier, 0);
    let mut rounds = [const { Vec::new() }; 4];
    for _ in 0..sampler.groups * sampler.rounds * 16 {
        let clock = Clock::start();
        for cid in 0..BATCH as u16 {
            let command = Command::read(1, u64::from(cid), 1).with_cid(cid);
            let command = command.with_prp(region.address(cid.into()), 0);
            host.submit(cpu, black_box(command)).expect("room");
            host.ring_doorbell(cpu);
        }
        let submitted = clock.now_ns();
        for _ in 0..BATCH {
            let command = drive.fetch(cpu).expect("a command");
            black_box(command.check_flags().is_ok() && command.check_lba_range(1 << 30).is_ok());
            let read = |at| space.read_u64(at);
            black_box(prp_walk(command.prp1, command.prp2, command.pages(), read).count());
        }
        let fetched = clock.now_ns();
        for cid in 0..BATCH as u16 {
            drive.complete(cpu, 1, Completion::new(cid, Status::SUCCESS), 0);
        }
        let completed = clock.now_ns();
        for _ in 0..BATCH {
            black_box(host.poll(cpu).expect("a completion"));
        }
        host.release();
        let spans = [
            submitted,
            fetched - submitted,
            completed - fetched,
            clock.now_ns() - completed,
        ];
        for (all, span) in rounds.iter_mut().zip(spans) {
            all.push(span as f64 / BATCH as f64);
        }
    }
    let ops = [
        (Op::DriverSubmit, "submission entry, PRP, doorbell"),
        (Op::CommandFetch, "fetch, checks, PRP walk"),
        (Op::CommandComplete, "completion entry and notifier"),
        (Op::DriverComplete, "completion taken off, slot released"),
    ];
    for ((op, how), all) in ops.into_iter().zip(rounds) {
        costs.set(op, sampler.figure(&all), how);
    }
    Ok(())
}

/// A part goes to a core and an answer back: the two ends of each ring.
fn rings(cpu: &Cpu, sampler: Sampler, costs: &mut Costs) {
    const BATCH: u64 = 1024;
    let notifier = Notifier::new();
    let push = sampler.time(
        BATCH,
        || ring::<[u64; 8]>(2048, &notifier, 0),
        |(sender, _)| (0..BATCH).for_each(|i| sender.push(cpu, black_box([i; 8])).expect("room")),
    );
    let pop = sampler.time(
        BATCH,
        || {
            let (mut sender, receiver) = ring::<[u64; 8]>(2048, &notifier, 0);
            (0..BATCH).for_each(|i| sender.push(cpu, [i; 8]).expect("room"));
            (sender, receiver)
        },
        |(_, receiver)| {
            (0..BATCH).for_each(|_| {
                black_box(receiver.try_pop(cpu));
            })
        },
    );
    costs.set(
        Op::CommandSplit,
        push,
        "one push to a ring of 64-byte entries",
    );
    costs.set(Op::CommandGather, pop, "one pop from such a ring");
    costs.set(Op::CorePart, pop + push, "one pop and one push");
}
