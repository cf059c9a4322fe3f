//! The array's driver in the operating system, as its users meet it (Linux: md, drivers/md/md.c of 5.4).
//!
//! Problem: an array that the operating system makes has a driver between the block layer and the drives, and all CPUs
//! go through it with every request.
//!
//! Idea: what of it is shared is one counter, of the requests that are in the driver (`mddev->active_io`): each
//! request, and each part that a stripe's end cuts off, adds to it and takes away from it. Its cache line has a
//! [`Line`]; what the driver does in between is [`Op::ArrayEntry`]. Parity and mirrors are those of the other files here.
//!
//! What all look at before they enter (`suspended`) and when they are sent on (`private`) is on the same line. Each look is
//! next to a change, and is taken to come with the line that the change fetches: the least that it can cost.
//!
//! Volumes of programs, and of designs in them, have none.

use wharf_runtime::{Cpu, Line, Op};

/// See the module. One for all users of a volume.
#[derive(Debug, Default)]
pub struct ArrayDriver {
    /// The line of the number of requests in the driver.
    active: Line,
}

impl ArrayDriver {
    /// A request passes that becomes `parts`, on its way to the drives.
    pub(super) async fn pass(&self, cpu: &Cpu, parts: u64) {
        for _ in 0..parts {
            cpu.pace().await;
            self.active.write(cpu);
            cpu.work(Op::ArrayEntry, || ());
            // Who has waited for the line has run ahead: those who came meanwhile have it before the second change.
            cpu.pace().await;
            self.active.write(cpu);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{Arc, Mutex};

    use wharf_runtime::{CostTable, Machine, Seed, Side};

    use super::*;

    /// When the last of `cpus` CPUs has sent 50 requests of one part.
    fn end_ns(cpus: usize) -> u64 {
        let mut costs = CostTable::free();
        for (op, cost_ns) in [
            (Op::LineLocal, 5.0),
            (Op::LineTransfer, 200.0),
            (Op::ArrayEntry, 10.0),
        ] {
            costs.cost_ns.insert(op.key().into(), cost_ns);
        }
        let mut machine = Machine::new(costs, false);
        let (driver, end) = (Arc::new(ArrayDriver::default()), Arc::new(Mutex::new(0)));
        for _ in 0..cpus {
            let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
            let (driver, end) = (driver.clone(), end.clone());
            machine.spawn_main(cpu, "sender", move |cpu| async move {
                for _ in 0..50 {
                    driver.pass(&cpu, 1).await;
                }
                let mut end = end.lock().unwrap();
                *end = cpu.now().max(*end);
            });
        }
        machine.run_virtual(Seed(1)).unwrap();
        let end = end.lock().unwrap();
        *end
    }

    #[test]
    fn the_counter_of_an_array_bounds_the_requests_of_all_cpus_together() {
        assert_eq!(end_ns(1), 50 * (5 + 10 + 5));
        // Two changes of a line for each request, one after the other, but for the few that find it theirs.
        for cpus in [16, 32] {
            let (least_ns, found_ns) = (2 * 50 * cpus * 200, end_ns(cpus as usize));
            assert!(
                (least_ns * 3 / 4..=least_ns * 5 / 4).contains(&found_ns),
                "{cpus} CPUs: {found_ns} ns, not {least_ns}"
            );
        }
    }
}
