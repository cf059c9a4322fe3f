//! What tasks may rely on, in both engines.

mod order;
mod threads;
mod waits;
mod wakers;

use wharf_runtime::{CostTable, Cpu, Machine, Seed, Side};

/// The costs that ship.
pub(crate) fn costs() -> CostTable {
    CostTable::parse(include_str!("../../../../configs/costs/default.toml")).expect("it is valid")
}

pub(crate) fn machine() -> Machine {
    Machine::new(costs(), false)
}

/// Runs `script` on one CPU in virtual time and gives the time of its end.
pub(crate) fn virtually<F: Future<Output = ()> + 'static>(
    script: impl FnOnce(Cpu) -> F + Send + 'static,
) -> u64 {
    let mut machine = machine();
    let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
    machine.spawn_main(cpu, "script", script);
    machine.run_virtual(Seed(1)).expect("it ends").elapsed_ns
}

/// Runs `script` on one CPU inline, in real time.
pub(crate) fn inline<T: 'static, F: Future<Output = T> + 'static>(
    script: impl FnOnce(Cpu) -> F,
) -> T {
    let mut machine = machine();
    let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
    machine.inline().block_on(cpu, script)
}
