//! Workers: parts of commands come, are served, and are answered.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use wharf_runtime::{Op, TaskId};
use wharf_wire::status::StatusCode;

use super::Core;
use super::part::{Answer, Failed, Part, PartOp};
use super::pin::Wanted;
use crate::ftl::NONE;

/// One of the tasks that serve parts, and what it keeps from part to part.
#[derive(Default)]
pub(super) struct Worker {
    /// A part that was handed over.
    part: Cell<Option<Part>>,
    task: Cell<Option<TaskId>>,
    /// Pages of the part whose programs have not ended.
    pub outstanding: Cell<u32>,
    /// One of these programs has failed.
    pub failed: Cell<bool>,
    /// The physical pages that its part reads; [`NONE`] for one not on flash.
    pub pages: RefCell<Vec<u32>>,
    /// The pages that its part pins.
    pub wanted: RefCell<Vec<Wanted>>,
}

impl Worker {
    /// Its task, once that runs.
    pub(super) fn task(&self) -> Option<TaskId> {
        self.task.get()
    }
}

impl Core {
    /// Hands arriving parts to idle workers.
    pub(super) async fn intake(self: Rc<Self>) {
        self.notifier.attach(&self.cpu);
        loop {
            if self.idle.borrow().is_empty() {
                self.idle_again.wait(&self.cpu).await;
                continue;
            }
            let part = self.inbox.borrow_mut().try_pop(&self.cpu);
            let Some(part) = part else {
                let _ = self.notifier.wait(&self.cpu).await;
                self.cpu.work(Op::CoreTurn, || ());
                continue;
            };
            let worker = self.idle.borrow_mut().pop().expect("checked above");
            self.hand_to(worker, part);
        }
    }

    pub(super) fn hand_to(&self, worker: u32, part: Part) {
        let slot = &self.workers[worker as usize];
        slot.part.set(Some(part));
        if let Some(task) = slot.task.get() {
            self.cpu.run_within(task);
        }
    }

    /// A worker's life.
    pub(super) async fn work(self: Rc<Self>, worker: u32) {
        self.workers[worker as usize]
            .task
            .set(Some(self.cpu.current()));
        loop {
            let mut part = match self.next_in_line() {
                Some(part) => part,
                None => self.next_part(worker).await,
            };
            part.taken_ns = self.cpu.account_now();
            self.latest_part_ns.set(self.flash_now());
            self.cpu.work(Op::CorePart, || ());
            match part.op {
                PartOp::Read => self.answer_at(&part, self.read(worker, &part).await),
                PartOp::Write => self.write(worker, &part).await,
                PartOp::Verify => self.answer_at(&part, self.verify(&part).await),
                PartOp::Deallocate | PartOp::WriteZeroes => {
                    self.answer(&part, self.deallocate(&part).await)
                }
                PartOp::Flush => self.answer(&part, self.flush().await),
                PartOp::Format => self.answer(&part, self.format(part.count != 0).await),
                PartOp::Report => self.answer(&part, self.report()),
                PartOp::SetWriteCache => {
                    self.answer(&part, self.set_write_cache(part.count != 0).await)
                }
                PartOp::Pin => self.pin(worker, &part).await,
                PartOp::WriteBack => self.answer(&part, self.write_all_back().await),
                PartOp::Lend => self.answer(&part, self.take_lent()),
                PartOp::GiveUp => {
                    self.give_up(worker, part.count as u16);
                    self.answer(&part, StatusCode::Success);
                }
                PartOp::Release => self.answer_at(&part, self.release_guest(part.count).await),
            }
        }
    }

    /// The next part for this worker: one that waits in the ring, or one handed over later.
    fn next_part(&self, worker: u32) -> NextPart<'_> {
        NextPart {
            core: self,
            worker,
            idle: false,
        }
    }

    /// Sends the answer to a part.
    #[inline]
    pub(super) fn answer(&self, part: &Part, status: StatusCode) {
        let failed = Failed {
            status,
            lpn: part.first,
        };
        let outcome = if status == StatusCode::Success {
            Ok(())
        } else {
            Err(failed)
        };
        self.answer_at(part, outcome);
    }

    /// Sends the answer to a part. The controller sized the ring for all parts it has out.
    #[inline]
    pub(super) fn answer_at(&self, part: &Part, outcome: Result<(), Failed>) {
        let Failed { status, lpn } = outcome.err().unwrap_or(Failed {
            status: StatusCode::Success,
            lpn: part.first,
        });
        self.send_answer(Answer {
            slot: part.slot,
            status,
            lpn,
            frame: NONE,
            served_ns: self.served_ns(part),
            to_host: 0,
            is_blank: false,
        });
    }

    /// Nanoseconds since a worker took a part up; 0 where nobody accounts for it.
    #[inline]
    pub(super) fn served_ns(&self, part: &Part) -> u32 {
        let served_ns = self.cpu.account_now() - part.taken_ns;
        served_ns.try_into().unwrap_or(u32::MAX)
    }

    pub(super) fn send_answer(&self, answer: Answer) {
        let sent = self.answers.borrow_mut().push(&self.cpu, answer);
        assert!(
            sent.is_ok(),
            "core {}: the answer ring overflowed",
            self.index
        );
    }
}

struct NextPart<'a> {
    core: &'a Core,
    worker: u32,
    idle: bool,
}

impl Future for NextPart<'_> {
    type Output = Part;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Part> {
        let core = self.core;
        if let Some(part) = core.workers[self.worker as usize].part.take() {
            return Poll::Ready(part);
        }
        if self.idle {
            return Poll::Pending;
        }
        if let Some(part) = core.inbox.borrow_mut().try_pop(&core.cpu) {
            return Poll::Ready(part);
        }
        self.idle = true;
        core.idle.borrow_mut().push(self.worker);
        core.idle_again.notify_all(&core.cpu);
        Poll::Pending
    }
}
