//! The cache lines of a queue pair whose two ends are processors of one machine.
//!
//! Problem: a software drive serves its queues with a processor of the host's machine. Then commands,
//! completions and doorbells are memory that both processors write and read, and most of what a
//! command costs is its lines on their way from one to the other. (A device has an engine for that, and
//! its cost is the link's.)
//!
//! Idea: a [`Line`] for each that is there in memory. What is written is stored and costs its writer nothing,
//! as a notifier is notified behind it, which waits for the stores before it; what is read is fetched. Loads that
//! do not depend on each other are under way at the same time, so of the doorbell and the command behind
//! it only the latter is paid for. (How far the host has taken completions the drive looks up once a round.)

use wharf_runtime::{Cpu, Line};

/// Completions of a line.
const COMPLETIONS_PER_LINE: usize = 4;

/// See the module.
pub(crate) struct QueueLines {
    commands: Box<[Line]>,
    completions: Box<[Line]>,
}

impl QueueLines {
    /// The lines of rings with `depth` entries.
    pub(crate) fn new(depth: u32) -> QueueLines {
        let lines = |count: usize| (0..count).map(|_| Line::new()).collect();
        let depth = depth as usize;
        QueueLines {
            commands: lines(depth),
            completions: lines(depth.div_ceil(COMPLETIONS_PER_LINE)),
        }
    }

    /// The host writes a command.
    pub(crate) fn submit(&self, cpu: &Cpu, index: usize) {
        self.commands[index].store(cpu);
    }

    /// The drive fetches it.
    pub(crate) fn fetch(&self, cpu: &Cpu, index: usize) {
        self.commands[index].read(cpu);
    }

    /// The drive writes a completion.
    pub(crate) fn complete(&self, cpu: &Cpu, index: usize) {
        self.completions[index / COMPLETIONS_PER_LINE].store(cpu);
    }

    /// The host takes it off.
    pub(crate) fn poll(&self, cpu: &Cpu, index: usize) {
        self.completions[index / COMPLETIONS_PER_LINE].read(cpu);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{Arc, Mutex};

    use wharf_runtime::notifier::Kind;
    use wharf_runtime::{CostTable, Machine, Notifier, Op, Seed, Side};

    use crate::command::Command;
    use crate::completion::Completion;
    use crate::queue::{DriveQueue, HostQueue, queue_pair};
    use crate::status::Status;

    use super::*;

    /// Serves a command.
    async fn serve(cpu: Cpu, mut drive: DriveQueue) {
        loop {
            let _ = drive.notifier().clone().wait(&cpu).await;
            while let Some(command) = drive.fetch(&cpu) {
                let completion = Completion::new(command.cid, Status::SUCCESS);
                let now_ns = cpu.now();
                drive.complete(&cpu, 1, completion, now_ns);
            }
        }
    }

    /// How long a command is under way.
    async fn command(cpu: &Cpu, host: &mut HostQueue) -> u64 {
        let (notifier, began_ns) = (host.notifier().clone(), cpu.now());
        host.submit(cpu, Command::flush(1)).expect("room");
        host.ring_doorbell(cpu);
        while host.poll(cpu).is_none() {
            let _ = notifier.wait(cpu).await;
        }
        host.release();
        cpu.now() - began_ns
    }

    /// How long the first commands on a queue pair take where a read of a line takes 10 ns and a change 100.
    fn latencies(kind: Kind) -> Vec<u64> {
        let mut costs = CostTable::free();
        costs.cost_ns.insert(Op::LineRead.key().into(), 10.0);
        costs.cost_ns.insert(Op::LineTransfer.key().into(), 100.0);
        let mut machine = Machine::new(costs, false);
        let (mut host, drive) = queue_pair(4, &Notifier::of_kind(kind), 0);
        let drive_cpu = machine.add_cpu("drive", Side::Drive, 1.0);
        machine.spawn(drive_cpu, "server", move |cpu| serve(cpu, drive));
        let host_cpu = machine.add_cpu("host", Side::Host, 1.0);
        let found = Arc::new(Mutex::new(Vec::new()));
        let result = found.clone();
        machine.spawn_main(host_cpu, "client", move |cpu| async move {
            // The drive waits by then.
            cpu.sleep_until(1_000).await;
            for _ in 0..8 {
                let ns = command(&cpu, &mut host).await;
                result.lock().expect("one user").push(ns);
            }
        });
        machine.run_virtual(Seed(1)).expect("no stall");
        found.lock().expect("one user").clone()
    }

    #[test]
    fn commands_between_processors_pay_for_notifiers_and_entries() {
        // Each way: the notifier is changed, seen and taken, the entry fetched.
        let way_ns = 100 + 10 + 100 + 10;
        assert_eq!(latencies(Kind::Memory)[2..], [2 * way_ns; 6]);
    }

    #[test]
    fn commands_to_a_device_pay_nothing_here() {
        assert_eq!(latencies(Kind::Wire), [0; 8]);
    }
}
