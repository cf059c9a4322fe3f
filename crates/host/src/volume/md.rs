//! The array's driver in the operating system, as its users meet it (Linux: md, drivers/md/md.c of 5.4).
//!
//! Problem: an array that the operating system makes has a driver between the block layer and the drives, and all CPUs
//! go through it with every request.
//!
//! Idea: what of it is shared is one cache line, the first 64 bytes of `struct mddev`: what the array is (`private`, `pers`),
//! its `flags`, whether it is `suspended`, and how many requests are in the driver (`active_io`). All CPUs read what hardly ever
//! changes on the line that all of them change with every request. The line is a [`Line`], and a request, and each part that a
//! stripe's end cuts off, does to it what the code does:
//!
//! 1. `md_make_request` reads `pers` and `flags`;
//! 2. when it has cut the request where it must, `md_handle_request` reads `suspended`, and adds to `active_io`. Others may have
//!    changed the line meanwhile. To change it needs more than the copy that the read has fetched;
//! 3. it calls the layout's driver, which reads `private`. These reads follow the change at once: the line is still
//!    there;
//! 4. when drive and place are found and the request is on its way ([`Op::ArrayEntry`]), it takes away from
//!    `active_io`.
//!
//! A CPU that is alone keeps the line and pays for two changes of its own. Of many each has to wait for the line three
//! times, and none of it goes on side by side. Parity and mirrors are those of the other files here.
//!
//! Volumes of programs, and of designs in them, have none.

use wharf_runtime::sync::{AtomicU64, Ordering};
use wharf_runtime::{Cpu, Line, Op};

/// See the module. One for all users of a volume.
#[derive(Debug, Default)]
pub struct ArrayDriver {
    /// The line of the number of requests in the driver.
    active: Line,
    /// Virtual time in which CPUs were here, in nanoseconds.
    spent_ns: AtomicU64,
}

impl ArrayDriver {
    /// A request passes that becomes `parts`, on its way to the drives.
    pub(super) async fn pass(&self, cpu: &Cpu, parts: u64) {
        for _ in 0..parts {
            self.look(cpu).await;
            self.look(cpu).await;
            self.change(cpu).await;
            self.count(cpu, || {
                self.active.read(cpu);
                cpu.work(Op::ArrayEntry, || ());
            });
            self.change(cpu).await;
        }
    }

    /// Reads the line, after those who came before. Who has waited for it has run ahead of them.
    async fn look(&self, cpu: &Cpu) {
        cpu.pace_exactly().await;
        self.count(cpu, || self.active.read(cpu));
    }

    /// Changes the counter, after those who came before.
    async fn change(&self, cpu: &Cpu) {
        cpu.pace_exactly().await;
        self.count(cpu, || self.active.write(cpu));
    }

    /// Counts the time of `f`. Between two such steps other requests of the CPU may have their turn.
    fn count(&self, cpu: &Cpu, f: impl FnOnce()) {
        let began_ns = if cpu.is_virtual() { cpu.now() } else { 0 };
        f();
        if cpu.is_virtual() {
            // Relaxed: a sum to look at, and virtual time is one thread.
            self.spent_ns
                .fetch_add(cpu.now() - began_ns, Ordering::Relaxed);
        }
    }

    /// Virtual time in which all CPUs were here, in nanoseconds.
    pub(super) fn spent_ns(&self) -> u64 {
        self.spent_ns.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{Arc, Mutex};

    use wharf_runtime::{CostTable, Machine, Seed, Side};

    use super::*;

    /// When the last of `cpus` CPUs has sent 50 requests of one part from each of its `tasks`, and what all have spent here.
    fn end_and_spent_ns(cpus: usize, tasks: usize) -> (u64, u64) {
        let mut costs = CostTable::free();
        for (op, cost_ns) in [
            (Op::LineLocal, 5.0),
            (Op::LineRead, 200.0),
            (Op::LineTransfer, 200.0),
            (Op::ArrayEntry, 10.0),
        ] {
            costs.cost_ns.insert(op.key().into(), cost_ns);
        }
        let mut machine = Machine::new(costs, false);
        let (driver, end) = (Arc::new(ArrayDriver::default()), Arc::new(Mutex::new(0)));
        for _ in 0..cpus {
            let cpu = machine.add_cpu("cpu", Side::Host, 1.0);
            for _ in 0..tasks {
                let (driver, end) = (driver.clone(), end.clone());
                machine.spawn_main(cpu, "sender", move |cpu| async move {
                    for _ in 0..50 {
                        driver.pass(&cpu, 1).await;
                    }
                    let mut end = end.lock().unwrap();
                    *end = cpu.now().max(*end);
                });
            }
        }
        machine.run_virtual(Seed(1)).unwrap();
        let end = end.lock().unwrap();
        (*end, driver.spent_ns())
    }

    fn end_ns(cpus: usize) -> u64 {
        end_and_spent_ns(cpus, 1).0
    }

    /// Several requests of a CPU are on their way through the driver by turns: each turn was counted for all of them.
    #[test]
    fn what_cpus_spend_in_the_driver_is_counted_once() {
        assert_eq!(end_and_spent_ns(1, 3), (150 * 20, 150 * 20));
        let (end_ns, spent_ns) = end_and_spent_ns(4, 3);
        assert!(
            spent_ns <= 4 * end_ns && spent_ns > 2 * end_ns,
            "{spent_ns} of {end_ns}"
        );
    }

    #[test]
    fn a_cpu_that_is_alone_keeps_the_line_of_an_array() {
        assert_eq!(end_ns(1), 50 * (5 + 10 + 5));
    }

    /// Only changes were counted: who reads the line between two changes of others waits for it too.
    #[test]
    fn the_line_of_an_array_bounds_the_requests_of_all_cpus_together() {
        for cpus in [16, 64] {
            // Two changes, and of two reads those that come after a change of another CPU: one or two.
            let turns = |times: u64| times * 50 * cpus * 200;
            let (least_ns, most_ns, found_ns) = (turns(2), turns(4), end_ns(cpus as usize));
            assert!(
                (least_ns * 5 / 4..=most_ns).contains(&found_ns),
                "{cpus} CPUs: {found_ns} ns for 50 requests each"
            );
        }
    }
}
