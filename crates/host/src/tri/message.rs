//! Messages between clients and managers: one cache line with up to three items.
//!
//! A client has a ring to each manager and one back. What it has to say to a manager collects in an
//! *open* message, which is sent when it has three items, or when somebody must wait for the answer.
//! What does not fit into a full ring waits in order, and is tried again a little later: only then,
//! since nobody tells a sender that a ring has room.

use std::cell::RefCell;
use std::collections::VecDeque;

use wharf_runtime::{Cpu, Notify, Op, Receiver, Sender};

/// Items of a message.
pub(super) const ITEMS: usize = 3;

/// Messages that a ring holds.
pub(super) const RING_MESSAGES: u32 = 64;

/// Time after which a full ring is tried again, in nanoseconds: a few messages are taken meanwhile.
const FULL_RING_RETRY_NS: u64 = 500;

/// What a client wants of a manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Wish {
    /// Pin a page; answer with its frame.
    Pin,
    /// Pin a page that will be overwritten whole: it need not be read.
    PinWhole,
    /// A pin less.
    Unpin,
    /// A pin less, of a page that was written to.
    DirtyUnpin,
    /// The client has pinned a page by itself that had no pins.
    DirectPin,
    /// The page that was to be overwritten whole is there, and its frame open.
    Filled,
    /// The page that was to be overwritten whole will not be.
    Abandoned,
    /// Write a page back if it is dirty; answer when it is on the drive.
    WriteBack,
    /// As before, for all pages of the manager.
    WriteBackAll,
}

/// A request: a wish, and what it is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    /// The page, if the wish is about one.
    pub(super) page: u64,
    /// What the answer is to carry.
    pub(super) ticket: u32,
    /// What is wanted.
    pub(super) wish: Wish,
}

/// How a request was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Outcome {
    /// The page was in the cache, or on its way there. The frame is pinned.
    Hit,
    /// The page was read. The frame is pinned.
    Read,
    /// The frame is pinned and the client's alone, which fills it whole and then opens it.
    Fill,
    /// The dirty pages are on the drive.
    Written,
    /// The reason is in the client's list of errors.
    Failed,
}

/// An answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    /// The request's.
    pub(super) ticket: u32,
    /// The frame, of a pin.
    pub(super) frame: u32,
    /// Nanoseconds since the manager took the request, 4.2 s at most; 0 where operations are not timed.
    pub(super) held_ns: u32,
    /// How it went.
    pub(super) outcome: Outcome,
}

/// Up to [`ITEMS`] items. With the time of sending, which the ring adds, it fills a cache line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<T> {
    items: [T; ITEMS],
    count: u32,
}

const _: () = assert!(size_of::<Message<Request>>() + size_of::<u64>() == 64);
const _: () = assert!(size_of::<Message<Answer>>() + size_of::<u64>() <= 64);

impl<T: Copy> Message<T> {
    /// The items.
    #[inline]
    pub(super) fn items(&self) -> &[T] {
        &self.items[..self.count as usize]
    }
}

/// Takes the next message of a ring, if there is one.
#[inline]
pub(super) fn receive<T: Copy + Send>(
    cpu: &Cpu,
    ring: &mut Receiver<Message<T>>,
) -> Option<Message<T>> {
    cpu.work_counted(Op::MessageReceive, || {
        let message = ring.try_pop(cpu);
        (u32::from(message.is_some()), message)
    })
}

/// The way to one receiver.
struct Lane<T> {
    sender: Sender<Message<T>>,
    /// The message being filled, if there is an item for it.
    open: Option<Message<T>>,
    /// Somebody waits for what is in the open message.
    is_urgent: bool,
    /// Messages that found the ring full.
    held_up: VecDeque<Message<T>>,
}

/// All lanes of a sender.
pub(super) struct Outbox<T> {
    lanes: RefCell<Vec<Lane<T>>>,
    /// Lanes with an urgent open message.
    urgent: RefCell<Vec<u32>>,
    held_up: Notify,
}

impl<T: Copy + Send> Outbox<T> {
    /// Lanes with these rings.
    pub(super) fn new(senders: Vec<Sender<Message<T>>>) -> Outbox<T> {
        let lane = |sender| Lane {
            sender,
            open: None,
            is_urgent: false,
            held_up: VecDeque::new(),
        };
        Outbox {
            lanes: RefCell::new(senders.into_iter().map(lane).collect()),
            urgent: RefCell::default(),
            held_up: Notify::new(),
        }
    }

    /// Adds an item for receiver `to`. One that is not urgent may wait for others.
    #[inline]
    pub(super) fn post(&self, cpu: &Cpu, to: u32, item: T, is_urgent: bool) {
        let lane = &mut self.lanes.borrow_mut()[to as usize];
        let message = lane.open.get_or_insert(Message {
            items: [item; ITEMS],
            count: 0,
        });
        message.items[message.count as usize] = item;
        message.count += 1;
        let is_full = message.count as usize == ITEMS;
        if is_full {
            self.send(cpu, lane);
        } else if is_urgent && !lane.is_urgent {
            lane.is_urgent = true;
            self.urgent.borrow_mut().push(to);
        }
    }

    /// Sends every open message that somebody waits for.
    #[inline]
    pub(super) fn send_urgent(&self, cpu: &Cpu) {
        while let Some(to) = self.urgent.borrow_mut().pop() {
            let lane = &mut self.lanes.borrow_mut()[to as usize];
            // It may have become full and been sent since.
            if lane.is_urgent {
                self.send(cpu, lane);
            }
        }
    }

    fn send(&self, cpu: &Cpu, lane: &mut Lane<T>) {
        let Some(message) = lane.open.take() else {
            return;
        };
        lane.is_urgent = false;
        lane.held_up.push_back(message);
        if !lane.push_all(cpu) {
            self.held_up.notify_all(cpu);
        }
    }

    /// Tries full rings again, for as long as the CPU runs.
    pub(super) async fn run(&self, cpu: &Cpu) {
        loop {
            match self.push_held_up(cpu) {
                true => self.held_up.wait(cpu).await,
                false => cpu.sleep_until(cpu.now() + FULL_RING_RETRY_NS).await,
            }
        }
    }

    /// False if something is held up still.
    fn push_held_up(&self, cpu: &Cpu) -> bool {
        let mut all_sent = true;
        for lane in self.lanes.borrow_mut().iter_mut() {
            all_sent &= lane.push_all(cpu);
        }
        all_sent
    }
}

impl<T: Copy + Send> Lane<T> {
    /// Pushes what is held up; false if the ring became full.
    #[inline]
    fn push_all(&mut self, cpu: &Cpu) -> bool {
        while let Some(&message) = self.held_up.front() {
            // In virtual time the push bears the time at which the message has been written.
            let sent = cpu.work(Op::MessageSend, || self.sender.push(cpu, message));
            if sent.is_err() {
                return false;
            }
            self.held_up.pop_front();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use wharf_runtime::{CostTable, Machine, Notifier, Seed, Side, ring};

    use super::*;

    #[test]
    fn a_full_ring_holds_messages_up_in_their_order() {
        const LAST: u32 = RING_MESSAGES * ITEMS as u32 * 3 + 1;
        let mut machine = Machine::new(CostTable::free(), false);
        let notifier = Notifier::new();
        let (sender, mut receiver) = ring::<Message<u32>>(RING_MESSAGES, &notifier, 0);
        let sending = machine.add_cpu("sender", Side::Host, 1.0);
        let receiving = machine.add_cpu("receiver", Side::Host, 1.0);
        machine.spawn_main(sending, "sender", |cpu| async move {
            let outbox = Rc::new(Outbox::new(vec![sender]));
            (0..=LAST).for_each(|item| outbox.post(&cpu, 0, item, item == LAST));
            outbox.send_urgent(&cpu);
            let (outbox, task_cpu) = (outbox.clone(), cpu.clone());
            cpu.spawn("retry", async move { outbox.run(&task_cpu).await });
        });
        machine.spawn_main(receiving, "receiver", move |cpu| async move {
            notifier.attach(&cpu);
            let mut expected = 0;
            while expected <= LAST {
                while let Some(message) = receiver.try_pop(&cpu) {
                    for &item in message.items() {
                        assert_eq!(item, expected);
                        expected += 1;
                    }
                }
                let _ = notifier.wait_until(&cpu, cpu.now() + 10_000).await;
            }
        });
        machine.run_virtual(Seed(1)).unwrap();
    }
}
