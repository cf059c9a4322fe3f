//! The loop of virtual time: the earliest event decides which CPU runs next.
//!
//! 1. An event whose task's CPU is ahead of it queues the task, and has the CPU *resume* when its clock is
//!    reached.
//! 2. Otherwise the CPU runs, at the time of the event, until its queue is empty or another CPU's event
//!    comes before its clock.

use super::{Ended, Executor, RESUME_CPU, Stall, Task, TaskId};
use crate::cpu::Cpu;

impl Executor {
    /// True if something happens more than `slack_ns` before `cpu`'s clock.
    #[inline]
    pub(crate) fn others_are_behind(&self, cpu: &Cpu, slack_ns: u64) -> bool {
        let before_ns = cpu.inner().clock_ns.get().saturating_sub(slack_ns);
        self.events.borrow_mut().any_before(before_ns)
    }

    /// True if something happens before `at_ns`.
    #[inline]
    pub(crate) fn any_before(&self, at_ns: u64) -> bool {
        self.events.borrow_mut().any_before(at_ns)
    }

    /// Runs until every main task is done, a task halts the run, or nothing can go on.
    pub(crate) fn run_virtual(&self) -> Result<Ended, Stall> {
        while self.mains_left.get() > 0 {
            let event = self.events.borrow_mut().pop();
            let Some((at_ns, target)) = event else {
                return Err(Stall::Deadlock {
                    now_ns: self.latest_ns(),
                    tasks: self.waiting(),
                });
            };
            if target & RESUME_CPU != 0 {
                let cpu = self.cpus.borrow()[(target & !RESUME_CPU) as usize].clone();
                cpu.inner().resume_armed.set(false);
                self.run_cpu(&cpu, at_ns, None);
            } else {
                self.wake_at(TaskId(target), at_ns);
            }
            if self.halted.get() {
                return Ok(Ended::Halted);
            }
            if self.polls_since_progress() > self.idle_polls_max.get() {
                return Err(self.livelock());
            }
        }
        Ok(Ended::Done)
    }

    #[inline]
    fn wake_at(&self, id: TaskId, at_ns: u64) {
        let Some(task) = self.task(id).filter(|task| !task.ended.get()) else {
            return;
        };
        task.note_event(at_ns);
        let inner = task.cpu.inner();
        if inner.resume_armed.get() {
            self.enqueue(id, &task);
        } else if inner.clock_ns.get() > at_ns {
            self.enqueue(id, &task);
            self.arm_resume(&task.cpu);
        } else {
            // An armed CPU has a queue and one that is not has none: this task is the first.
            self.run_cpu(&task.cpu, at_ns, Some((id, &task)));
        }
    }

    #[inline]
    pub(super) fn arm_resume(&self, cpu: &Cpu) {
        if !cpu.inner().resume_armed.replace(true) {
            let at_ns = cpu.inner().clock_ns.get();
            self.events
                .borrow_mut()
                .push(at_ns, cpu.inner().index | RESUME_CPU);
        }
    }

    /// Runs `cpu`, first the task given, until its queue is empty or another CPU's event comes
    /// before its clock.
    #[inline]
    fn run_cpu(&self, cpu: &Cpu, at_ns: u64, first: Option<(TaskId, &Task)>) {
        let inner = cpu.inner();
        cpu.idle_until(at_ns);
        inner.running.set(true);
        if let Some((id, task)) = first {
            self.poll(id, task);
        } else if let Some((id, task)) = self.dequeue(cpu) {
            self.poll(id, &task);
        }
        while !inner.run.borrow().is_empty() && !self.halted.get() {
            let stuck = self.polls_since_progress() > self.idle_polls_max.get();
            if stuck || self.events.borrow_mut().any_before(inner.clock_ns.get()) {
                self.arm_resume(cpu);
                break;
            }
            if let Some((id, task)) = self.dequeue(cpu) {
                self.poll(id, &task);
            }
        }
        inner.running.set(false);
    }
}
