//! What a drive does around the operations that it accounts for: the turns of its controller's and its cores' loops.
//!
//! A host without a driver, on the drive's own thread, sends one command after another. Whatever time no operation
//! accounts for is that of the turns: the controller takes one to refuse a command, and two for a command that a core
//! serves, with a turn of the core's between them.

use wharf_drive::{Drive, PowerSwitch};
use wharf_host::admin::offer_queues;
use wharf_host::boot::{PoweredOn, Spread, make_ready};
use wharf_host::driver::DriverConfig;
use wharf_runtime::clock::Clock;
use wharf_runtime::{CostTable, Cpu, Machine, Op, Side};
use wharf_wire::command::Command;
use wharf_wire::dma::{DmaRegion, DmaSpace};
use wharf_wire::queue::HostQueue;

use super::costs::Costs;
use super::sample::{Sample, Sampler};
use super::{CalibrateError, fidelity};
use crate::config::{Sets, load_drive};

/// Commands of a round.
const COMMANDS: u64 = 2_000;

/// A namespace that no drive has.
const NO_NAMESPACE: u32 = 7;

/// Times the turns. The operations of queues and rings must be there.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) -> Result<(), CalibrateError> {
    let (refused, served) = commands(sampler)?;
    let sum = |ops: &[Op]| {
        ops.iter()
            .fold(Sample::default(), |all, op| all + costs.get(*op))
    };
    let ends = sum(&[
        Op::DriverSubmit,
        Op::CommandFetch,
        Op::CommandComplete,
        Op::DriverComplete,
    ]);
    let parts = sum(&[Op::CommandSplit, Op::CorePart, Op::CommandGather]);
    let controller = refused - ends;
    costs.path(
        "command_refused",
        refused,
        "a command that the controller refuses, on one thread",
    );
    costs.path(
        "command_served",
        served,
        "a read of a page that was never written, so",
    );
    costs.set(
        Op::ControllerTurn,
        controller,
        "command_refused - driver_submit - command_fetch - command_complete - driver_complete",
    );
    costs.set(
        Op::CoreTurn,
        served - refused - controller - parts,
        "command_served - command_refused - controller_turn - command_split - core_part - command_gather",
    );
    Ok(())
}

/// The time of a command that is refused, and of one that is served.
fn commands(sampler: Sampler) -> Result<(Sample, Sample), CalibrateError> {
    let sets = [
        "drive.firmware.cores=1",
        "drive.firmware.slowness=1.0",
        "drive.geometry.blocks_per_plane=64",
    ];
    let mut config = load_drive("scala", &Sets::parse(&sets)?)?.0;
    fidelity::without_latency(&mut config);
    let space = DmaSpace::new(config.page_bytes());
    let mut machine = Machine::new(CostTable::free(), false);
    let handle = Drive::new(config)?.power_on(&mut machine, "drive", &space, &PowerSwitch::on())?;
    let queue = offer_queues(&space, 1, 128, |qid, entries| {
        handle.new_queue(qid, entries)
    })?;
    let (mut queue, offer) = queue.into_iter().next().expect("one was asked for");
    let powered = PoweredOn {
        admin: handle.admin,
        offers: vec![offer],
        later: 0,
        features: &[],
        hmb: None,
    };
    let host = machine.add_cpu("host", Side::Host, 1.0);
    machine.inline().block_on(host, async move |cpu: Cpu| {
        let spread = Spread::striped(16);
        let ready = make_ready(&cpu, &space, vec![powered], spread, DriverConfig::default());
        let _admins = ready.await.map_err(crate::replay::RunError::from)?;
        let page = space.register(1)?;
        queue.notifier().attach(&cpu);
        let refused = Command::read(NO_NAMESPACE, 0, 1);
        let served = Command::read(1, 0, 1);
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..sampler.groups * sampler.rounds {
            for (command, rounds) in [refused, served].into_iter().zip(&mut rounds) {
                rounds.push(round(&cpu, &mut queue, command, &page).await);
            }
        }
        Ok((sampler.figure(&rounds[0]), sampler.figure(&rounds[1])))
    })
}

/// Sends a command again and again, one at a time; gives the time of one.
async fn round(cpu: &Cpu, queue: &mut HostQueue, command: Command, page: &DmaRegion) -> f64 {
    let command = command.with_cid(1).with_prp(page.address(0), 0);
    let notifier = queue.notifier().clone();
    let clock = Clock::start();
    for _ in 0..COMMANDS {
        queue.submit(cpu, command).expect("the queue is empty");
        queue.ring_doorbell(cpu);
        while queue.poll(cpu).is_none() {
            let _ = notifier.wait(cpu).await;
        }
        queue.release();
    }
    clock.now_ns() as f64 / COMMANDS as f64
}
