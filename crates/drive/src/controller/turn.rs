//! A turn of the controller: answers, completions, commands, and what comes of them at once.
//!
//! The controller has one task, which waits for queues, and for cores whose answers could not be taken when
//! they were given. A core that has answered calls it within its own turn ([`Answers`]).

use std::cell::RefCell;
use std::rc::Rc;

use wharf_runtime::{Cpu, Notifier, Op, Ready};

use super::state::{Controller, ControllerParts};
use crate::config::Platform;
use crate::core::Answers;

/// A delay after which a full completion queue is looked at again.
const FULL_QUEUE_RETRY_NS: u64 = 5_000;

/// A controller and its task.
pub struct Running {
    cpu: Cpu,
    notifier: Notifier,
    controller: RefCell<Controller>,
}

impl Running {
    /// A controller that takes the answers of its cores, not yet started.
    pub fn new(parts: ControllerParts) -> Rc<Running> {
        let cores = parts.cores.clone();
        let running = Rc::new(Running {
            cpu: parts.cpu.clone(),
            notifier: parts.notifier.clone(),
            controller: RefCell::new(Controller::new(parts)),
        });
        for core in cores {
            let answers: Rc<dyn Answers> = running.clone();
            core.connect(Rc::downgrade(&answers));
        }
        running
    }

    /// Serves the queues for as long as the CPU runs.
    pub async fn run(self: Rc<Self>) {
        self.notifier.attach(&self.cpu);
        loop {
            let due_ns = self.controller.borrow().next_outgoing_ns();
            let notified = match due_ns {
                None => self.notifier.wait(&self.cpu).await,
                Some(due_ns) => self.notifier.wait_until(&self.cpu, due_ns).await,
            };
            self.controller.borrow_mut().take_turn(notified);
        }
    }
}

impl Answers for Running {
    fn take_from(&self, core: u32) {
        let Ok(mut controller) = self.controller.try_borrow_mut() else {
            return;
        };
        controller.touched.insert(core);
        controller.settle();
        if !controller.outgoing.is_empty() {
            // The task waits without knowing of these.
            self.notifier.notify(&self.cpu, core, self.cpu.now());
        }
    }
}

impl Controller {
    fn next_outgoing_ns(&self) -> Option<u64> {
        let next = self.outgoing.front()?;
        let now_ns = self.cpu.now();
        Some(match next.due_ns > now_ns {
            true => next.due_ns,
            false => now_ns + FULL_QUEUE_RETRY_NS,
        })
    }

    fn take_turn(&mut self, notified: Ready) {
        self.ready = self.ready.union(notified);
        self.begin_turn();
        // Answers first: they free what new commands need.
        let answered = self.ready.below(self.cores.len() as u32);
        self.ready = self.ready.without(answered);
        for core in answered {
            self.gather_from(core);
            // What comes later is asked for again.
            self.touched.insert(core);
        }
        self.go_on();
        self.settle();
    }

    /// Where the controller is no program it is logic, which looks at everything at once.
    fn begin_turn(&mut self) {
        if self.config.firmware.platform == Platform::Software {
            self.cpu.work(Op::ControllerTurn, || ());
        }
    }

    /// What may go on when something has been answered, and what the queues have.
    fn go_on(&mut self) {
        if !self.outgoing.is_empty() {
            self.post_outgoing();
        }
        if !self.waiting.is_empty() {
            self.serve_waiting();
        }
        if !self.ready.is_empty() {
            self.fetch();
        }
    }

    /// True if nothing else comes before `at_ns`: also no command that a queue holds already.
    fn is_next(&self, at_ns: u64) -> bool {
        let pending_ns = self.notifier.pending_ns();
        !self.cpu.is_virtual() || pending_ns >= at_ns && self.cpu.is_next(at_ns)
    }

    /// Has cores begin with the shares that they were given, and takes what is answered before anything else
    /// happens, until there is nothing more of either.
    fn settle(&mut self) {
        while !self.touched.is_empty() {
            let touched = std::mem::replace(&mut self.touched, Ready::NONE);
            let (mut answered, mut at_ns) = (Ready::NONE, u64::MAX);
            for core in touched {
                let of_core = &self.cores[core as usize];
                of_core.serve_arrived();
                if let Some(given_ns) = of_core.answered_ns() {
                    answered.insert(core);
                    at_ns = at_ns.min(given_ns);
                }
            }
            if answered.is_empty() {
                break;
            }
            if at_ns > self.cpu.now() && !self.is_next(at_ns) {
                self.ask_again(answered);
                break;
            }
            self.cpu.enter(at_ns);
            if self.cpu.is_virtual() && at_ns > self.turn_end_ns {
                self.begin_turn();
            }
            for core in answered {
                self.gather_from(core);
                if self.cores[core as usize].answered_ns().is_some() {
                    // Some come later.
                    self.touched.insert(core);
                }
            }
            self.go_on();
        }
        if self.cpu.is_virtual() {
            self.turn_end_ns = self.cpu.now();
        }
    }

    /// Has the controller look at the answers of cores when each was given.
    #[cold]
    fn ask_again(&self, cores: Ready) {
        for core in cores {
            if let Some(at_ns) = self.cores[core as usize].answered_ns() {
                self.notifier.notify(&self.cpu, core, at_ns);
            }
        }
    }
}
