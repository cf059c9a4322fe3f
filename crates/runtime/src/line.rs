//! A cache line that several CPUs touch, as virtual time sees it.
//!
//! Problem: in virtual time all CPUs share one thread, so the atomics of shared structures never
//! contend; on a real machine they do, and that decides how a design scales.
//!
//! Idea: beside the atomic stands a `Line`, which remembers who has it (its last writer, and who has read
//! it since) and until when it is on its way. Whoever touches the atomic says so first:
//!
//! 1. [`Line::read`] costs nothing where the CPU has the line, a [`Op::LineRead`] where another
//!    CPU wrote it. The first one after a write takes the line from the CPU that changed it, and whoever wants it
//!    meanwhile waits; from then on it is shared, and further CPUs fetch their copies side by side;
//! 2. [`Line::write`] is a [`Op::LineLocal`] where no other CPU has the line, not even a copy to read, else a
//!    [`Op::LineTransfer`], and transfers follow one another, as the hardware serialises them.
//! 3. [`Line::store`] is a plain store. It waits for the line in the processor's store buffer, not the
//!    CPU: it costs nothing now, and whoever reads the line next pays for it.
//!
//! The costs are measured between two real cores. In the real engine both calls are nothing: the
//! atomic beside the line is the real thing.
//!
//! # What has a stand-in in virtual time
//!
//! All CPUs of a virtual run share a thread, so nothing contends by itself. What several CPUs touch
//! therefore has a stand-in beside the real thing, which does nothing in real time; `wharf
//! calibrate` measures what it charges.
//!
//! * `runtime/line.rs`: a cache line: who has it, until when it is on its way; changes follow one
//!   another.
//! * `runtime/notifier.rs`: what a notifier and the rings and queues behind it are: wires within a
//!   device, free; or memory, whose lines move.
//! * `wire/queue_lines.rs`: commands and completions of a drive that is software on a processor of
//!   the host's machine (`firmware.platform`).
//! * `runtime/lock.rs`: a spin lock: who comes while it is held spins until its end and pays the
//!   hand-over.
//! * `runtime/busy.rs`: the latest period of use; who comes before it, by a clock that is behind,
//!   finds the thing free.
//! * `Cpu::pace` and `yield_now` in `runtime/cpu.rs`: whoever ran ahead lets the others catch up
//!   before it touches what is shared; a client does once for each request, when its tasks take
//!   turns.
//!
//! A drive that is a *device* has engines that move commands and data: that is the link's latency
//! and bandwidth. One that is *software* has one CPU for controller and cores, copies with it
//! (`Core::copying`), and shares the lines of its queues with the clients.

use crate::busy::Busy;
use crate::cpu::Cpu;
use crate::holders::Holders;
use crate::op::Op;

/// See the module. Only virtual time, which is one thread, looks at it.
#[derive(Debug)]
pub struct Line {
    /// When the line was on its way from one CPU to another.
    busy: Busy,
    /// Who has the line. The last writer is one of them.
    holders: Holders,
}

impl Default for Line {
    fn default() -> Self {
        Line::new()
    }
}

impl Line {
    /// A line that nobody has touched.
    pub fn new() -> Line {
        Line {
            busy: Busy::default(),
            holders: Holders::none(),
        }
    }

    /// The CPU loads from the line.
    #[inline]
    pub fn read(&self, cpu: &Cpu) {
        if cpu.is_virtual() && !self.holders.contains(cpu.index()) {
            self.fetch(cpu);
        }
    }

    /// The CPU changes the line by an atomic operation or a store.
    #[inline]
    pub fn write(&self, cpu: &Cpu) {
        if cpu.is_virtual() {
            match self.holders.is_none_but(cpu.index()) {
                true => cpu.work(Op::LineLocal, || ()),
                false => self.take_over(cpu),
            }
            self.holders.set_writer(cpu.index());
        }
    }

    /// The CPU stores to the line without waiting until it has it. What is to be seen soon is followed by
    /// an atomic operation on some line (a notifier), which waits for the stores before it: they have
    /// been fetched at the same time.
    #[inline]
    pub fn store(&self, cpu: &Cpu) {
        if cpu.is_virtual() {
            self.holders.set_writer(cpu.index());
        }
    }

    /// A CPU that does not have the line loads from it.
    fn fetch(&self, cpu: &Cpu) {
        if self.holders.any_wrote() {
            let from_ns = self.busy.free_at(cpu.now());
            cpu.spin_until(from_ns);
            cpu.work(Op::LineRead, || ());
            if self.holders.is_one() {
                self.busy.occupy(from_ns, cpu.now());
            }
        }
        self.holders.insert(cpu.index());
    }

    /// A CPU changes a line that others have.
    fn take_over(&self, cpu: &Cpu) {
        let from_ns = self.busy.free_at(cpu.now());
        cpu.spin_until(from_ns);
        cpu.work(Op::LineTransfer, || ());
        self.busy.occupy(from_ns, cpu.now());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::machine::Machine;
    use crate::op::{CostTable, Side};
    use crate::rng::Seed;

    fn costs() -> CostTable {
        let mut costs = CostTable::free();
        for (op, cost_ns) in [
            (Op::LineLocal, 5.0),
            (Op::LineRead, 40.0),
            (Op::LineTransfer, 100.0),
        ] {
            costs.cost_ns.insert(op.key().into(), cost_ns);
        }
        costs
    }

    /// Runs `f` on `cpus` CPUs that share a line, the first at 0 ns and the others from 10 ns on;
    /// gives the clocks at their ends.
    fn ends(cpus: usize, f: fn(&Line, &Cpu)) -> Vec<u64> {
        let mut machine = Machine::new(costs(), false);
        let line = Arc::new(Line::new());
        let clocks = Arc::new(Mutex::new(vec![0; cpus]));
        for index in 0..cpus {
            let id = machine.add_cpu("cpu", Side::Host, 1.0);
            let (line, clocks) = (line.clone(), clocks.clone());
            machine.spawn_main(id, "toucher", move |cpu| async move {
                cpu.sleep_until(if index == 0 { 0 } else { 10 }).await;
                f(&line, &cpu);
                clocks.lock().unwrap()[index] = cpu.now();
            });
        }
        machine.run_virtual(Seed(1)).unwrap();
        let clocks = clocks.lock().unwrap();
        clocks.clone()
    }

    #[test]
    fn one_cpu_pays_for_local_changes_alone() {
        let clocks = ends(1, |line, cpu| {
            line.read(cpu);
            line.write(cpu);
            line.read(cpu);
            line.write(cpu);
        });
        assert_eq!(clocks, [10]);
    }

    #[test]
    fn changes_by_several_cpus_follow_one_another() {
        let mut clocks = ends(4, |line, cpu| line.write(cpu));
        clocks.sort_unstable();
        assert_eq!(clocks, [5, 110, 210, 310]);
    }

    #[test]
    fn a_store_costs_its_reader_alone() {
        let clocks = ends(2, |line, cpu| match cpu.index() {
            0 => (0..3).for_each(|_| line.store(cpu)),
            _ => line.read(cpu),
        });
        assert_eq!(clocks, [0, 50]);
    }

    /// CPUs were told apart by their numbers modulo 64: number 64 had the line as soon as number 0 had it,
    /// and looked at what that one wrote for nothing.
    #[test]
    fn a_cpu_beyond_the_64th_read_what_another_one_wrote_for_nothing() {
        let clocks = ends(130, |line, cpu| match cpu.index() {
            0 => line.write(cpu),
            _ => line.read(cpu),
        });
        assert_eq!(clocks[0], 5);
        assert!(clocks[1..].iter().all(|&end_ns| end_ns >= 50), "{clocks:?}");
    }

    #[test]
    fn a_cpu_beyond_the_64th_waits_for_its_turn_to_write() {
        let mut clocks = ends(130, |line, cpu| line.write(cpu));
        clocks.sort_unstable();
        let turns: Vec<u64> = (1..130).map(|turn| 10 + turn * 100).collect();
        assert_eq!((clocks[0], &clocks[1..]), (5, &turns[..]));
    }

    /// A reader left no trace: who wanted to change the line while it was on its way to one had it at once.
    #[test]
    fn a_writer_had_a_line_that_was_on_its_way_to_a_reader() {
        let clocks = ends(3, |line, cpu| match cpu.index() {
            0 => line.write(cpu),
            1 => line.read(cpu),
            _ => {
                cpu.spin_until(20);
                line.write(cpu);
            }
        });
        assert_eq!(clocks, [5, 50, 150]);
    }

    #[test]
    fn who_reads_and_changes_what_others_read_and_change_pays_for_two_transfers() {
        let clocks = ends(2, |line, cpu| match cpu.index() {
            0 => line.write(cpu),
            _ => {
                line.read(cpu);
                line.write(cpu);
                line.read(cpu);
            }
        });
        assert_eq!(clocks, [5, 10 + 40 + 100]);
    }

    #[test]
    fn readers_of_a_copy_do_not_wait_for_each_other() {
        let mut clocks = ends(4, |line, cpu| match cpu.index() {
            0 => line.write(cpu),
            _ => {
                line.read(cpu);
                line.read(cpu);
            }
        });
        clocks.sort_unstable();
        assert_eq!(clocks, [5, 50, 90, 90]);
    }
}
