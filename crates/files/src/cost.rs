//! What file systems cost whoever runs them.
//!
//! The same code runs on a drive's cores, on a host's CPUs and in tools. Where a CPU of the runtime
//! polls it, that is charged for each step that costs something, as everything is there; elsewhere
//! a step is a plain call.

use wharf_runtime::{Op, with_here};

/// Runs `f` under the name of an operation.
#[inline]
pub fn work<R>(op: Op, f: impl FnOnce() -> R) -> R {
    work_n(op, 1, f)
}

/// Runs `f`, which does `n` of the operation.
#[inline]
pub fn work_n<R>(op: Op, n: u32, f: impl FnOnce() -> R) -> R {
    with_here(|cpu| match cpu {
        Some(cpu) => cpu.work_n(op, n, f),
        None => f(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf_runtime::{CostTable, Machine, OnCpu, Seed, Side};

    #[test]
    fn a_step_is_charged_to_the_cpu_that_is_here_and_to_nobody_else() {
        assert_eq!(work(Op::InodeLookup, || 7), 7);
        let mut costs = CostTable::free();
        costs.cost_ns.insert(Op::InodeLookup.key().into(), 50.0);
        let mut machine = Machine::new(costs, false);
        let id = machine.add_cpu("core", Side::Drive, 2.0);
        machine.spawn_main(id, "task", async move |own| {
            let before = own.now();
            OnCpu::new(&own, async { work_n(Op::InodeLookup, 3, || ()) }).await;
            assert_eq!(own.now() - before, 300);
            work(Op::InodeLookup, || ());
            assert_eq!(own.now() - before, 300);
        });
        machine.run_virtual(Seed(1)).unwrap();
    }
}
