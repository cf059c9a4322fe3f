//! The loop of real time: one pass after another over timers, run queues and notified notifiers.

use std::time::Duration;

use super::{Executor, TaskId, TimeSource};

impl Executor {
    /// One pass over timers, run queues and notified notifiers; returns whether anything ran.
    pub(crate) fn pass(&self) -> bool {
        let mut ran = self.fire_timers();
        ran |= self.drain_run_queues();
        let mut next = 0;
        while let Some(id) = self.next_rung(&mut next) {
            if let Some(task) = self.task(id) {
                self.poll(id, &task);
                ran = true;
            }
        }
        ran | self.drain_run_queues()
    }

    /// The task of the first notified notifier from `next` on, which is left after that one.
    #[inline]
    fn next_rung(&self, next: &mut usize) -> Option<TaskId> {
        let notifiers = self.notifiers.borrow();
        let (ahead, (_, task)) = notifiers
            .get(*next..)?
            .iter()
            .enumerate()
            .find(|(_, (notifier, _))| notifier.is_rung())?;
        *next += ahead + 1;
        Some(*task)
    }

    #[inline]
    fn fire_timers(&self) -> bool {
        let TimeSource::Real(clock) = self.time else {
            return false;
        };
        if self.events.borrow().is_empty() {
            return false;
        }
        let after_ns = clock.now_ns() + 1;
        let mut fired = false;
        loop {
            let mut events = self.events.borrow_mut();
            if !events.any_before(after_ns) {
                return fired;
            }
            let due = events.pop();
            drop(events);
            if let Some((at_ns, task)) = due {
                let id = TaskId(task);
                if let Some(task) = self.task(id) {
                    task.note_event(at_ns);
                }
                self.wake_local(id);
                fired = true;
            }
        }
    }

    #[inline]
    fn drain_run_queues(&self) -> bool {
        if self.queued.get() == 0 {
            return false;
        }
        let cpus = self.cpus.borrow().len();
        for i in 0..cpus {
            let cpu = self.cpus.borrow()[i].clone();
            // Bounded by what is queued now, so that no CPU keeps the others waiting.
            let queued = cpu.inner().run.borrow().len();
            for _ in 0..queued {
                if let Some((id, task)) = self.dequeue(&cpu) {
                    self.poll(id, &task);
                }
            }
        }
        true
    }

    /// Whether a task other than the one that is running could run now.
    pub(crate) fn has_ready(&self) -> bool {
        if self.queued.get() > 0 || self.any_rung() {
            return true;
        }
        let TimeSource::Real(clock) = self.time else {
            return false;
        };
        let mut events = self.events.borrow_mut();
        !events.is_empty() && events.any_before(clock.now_ns() + 1)
    }

    /// Nanoseconds until the next timer, if there is one.
    pub(crate) fn next_timer_ns(&self) -> Option<u64> {
        let TimeSource::Real(clock) = self.time else {
            return None;
        };
        let at_ns = self.events.borrow_mut().next_ns()?;
        Some(at_ns.saturating_sub(clock.now_ns()))
    }

    /// Has the thread sleep until a notifier is notified or the next timer is due, but for `most` at most; not at all if a task can
    /// run. May return early.
    pub(crate) fn park(&self, most: Option<Duration>) {
        let timer = self.next_timer_ns().map(Duration::from_nanos);
        self.set_parked(true);
        if !self.has_ready() {
            match [timer, most].into_iter().flatten().min() {
                Some(time) => std::thread::park_timeout(time),
                None => std::thread::park(),
            }
        }
        self.set_parked(false);
    }

    /// Tells every notifier of this executor that its thread parks (or is awake again).
    fn set_parked(&self, parked: bool) {
        for (notifier, _) in self.notifiers.borrow().iter() {
            notifier.set_parked(parked);
        }
    }

    pub(crate) fn any_rung(&self) -> bool {
        self.notifiers
            .borrow()
            .iter()
            .any(|(notifier, _)| notifier.is_rung())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use crate::machine::Machine;
    use crate::op::{CostTable, Side};

    /// Who sleeps in the system when there is nothing else to do has to know that there is not.
    #[test]
    fn a_task_is_alone_when_no_other_could_run() {
        let mut machine = Machine::new(CostTable::free(), false);
        let id = machine.add_cpu("cpu", Side::Host, 1.0);
        let inline = machine.inline();
        inline.block_on(id, |cpu| async move {
            assert!(cpu.is_alone());
            cpu.spawn("starts", async {});
            assert!(!cpu.is_alone(), "a task that has not begun");
            let (other_cpu, far_ns) = (cpu.clone(), cpu.now() + 3_600_000_000_000);
            let sleeper = cpu.spawn("sleeps", async move { other_cpu.sleep_until(far_ns).await });
            // Both begin in the next passes.
            for _ in 0..5 {
                cpu.yield_now().await;
            }
            assert!(cpu.is_alone(), "it sleeps for an hour");
            cpu.wake(sleeper);
            assert!(!cpu.is_alone(), "it is to run");
        });
    }

    /// Threads of a program have taken turns: one waits, and others begin and end meanwhile.
    #[test]
    fn callers_that_wait_at_the_same_time_leave_their_tasks_to_others() {
        let mut machine = Machine::new(CostTable::free(), false);
        let id = machine.add_cpu("cpu", Side::Host, 1.0);
        let inline = machine.inline();
        for round in 0..1_000 {
            let (mut others, mut passes) = (0, 0);
            let done = inline.block_on_by(
                id,
                |cpu| async move {
                    while cpu.now() > 0 {
                        cpu.yield_now().await;
                    }
                },
                |task| {
                    assert!(task.0 < 10, "task {} in round {round}", task.0);
                    let yields = |cpu: crate::cpu::Cpu| async move { cpu.yield_now().await };
                    inline.block_on(id, yields);
                    others += 1;
                    passes += u32::from(inline.pass());
                    assert!(!inline.is_done(task));
                    others < 3
                },
            );
            assert_eq!((done, others, passes), (None, 3, 3), "it was given up");
            let done = inline.block_on(id, |cpu| async move {
                cpu.yield_now().await;
                7
            });
            assert_eq!(done, 7);
        }
    }

    /// A program that links a cache starts a task for every transfer, for as long as it runs.
    #[test]
    fn tasks_that_have_ended_make_room_for_others() {
        let mut machine = Machine::new(CostTable::free(), false);
        let id = machine.add_cpu("cpu", Side::Host, 1.0);
        let inline = machine.inline();
        let done = Rc::new(Cell::new(0));
        for round in 0..1_000 {
            inline.block_on(id, |cpu| {
                let done = done.clone();
                async move {
                    for _ in 0..3 {
                        let (task_cpu, done) = (cpu.clone(), done.clone());
                        let task = cpu.spawn("short", async move {
                            task_cpu.yield_now().await;
                            done.set(done.get() + 1);
                        });
                        assert!(task.0 < 10, "task {} in round {round}", task.0);
                    }
                    while done.get() < 3 * (round + 1) {
                        cpu.yield_now().await;
                    }
                }
            });
        }
    }
}
