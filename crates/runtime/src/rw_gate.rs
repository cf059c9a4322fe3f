//! A gate that tasks of several CPUs go through: many side by side, or one alone. It may be held
//! across waits.
//!
//! Problem: an operation on a file reads, or changes, several things with waits for storage in
//! between. Those that read go in together; who changes something goes in alone.
//!
//! Idea: a [`Lock`] around who is inside and who stands in line, and around a value that both kinds
//! look at in the same step.
//!
//! 1. Who comes goes in if nobody stands in line and there is room; else it stands at the end of
//!    the line with its name, and pauses.
//! 2. Who leaves lets in the first of the line, and those behind it, as long as there is room; they
//!    are inside from then on, and are woken.
//!
//! Fair: nobody overtakes, so nobody waits for more than those who were there before. No wake is
//! lost: a name is left in the step that finds no room, and is taken in the step that makes some.
//!
//! Who waits inside for another gate, or for whoever is inside, must do so in an order that all
//! keep.

use std::collections::VecDeque;

use crate::wake::{Mailboxes, Pause, Sleeper};
use crate::{Cpu, Lock};

/// How a task goes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Beside others of its kind.
    Shared,
    /// Alone.
    Alone,
}

/// Who goes in: a task of a client.
#[derive(Clone)]
pub struct Visitor<'a> {
    /// The CPU that it runs on.
    pub cpu: &'a Cpu,
    /// Where tasks of all clients are woken.
    pub mailboxes: &'a Mailboxes,
    /// The client.
    pub client: u32,
}

struct Waiter<W> {
    ticket: u64,
    entry: Entry,
    name: W,
}

/// Who is inside, and who stands in line, with names of type `W`.
struct Turns<W> {
    inside: u32,
    is_alone: bool,
    line: VecDeque<Waiter<W>>,
    /// Tickets of those who were let in and do not know it yet.
    let_in: Vec<u64>,
    tickets: u64,
}

impl<W> Turns<W> {
    fn new() -> Turns<W> {
        Turns {
            inside: 0,
            is_alone: false,
            line: VecDeque::new(),
            let_in: Vec::new(),
            tickets: 0,
        }
    }

    fn has_room(&self, entry: Entry) -> bool {
        match entry {
            Entry::Shared => !self.is_alone,
            Entry::Alone => !self.is_alone && self.inside == 0,
        }
    }

    fn go_in(&mut self, entry: Entry) {
        match entry {
            Entry::Shared => self.inside += 1,
            Entry::Alone => self.is_alone = true,
        }
    }

    /// Whether somebody could go in without waiting.
    fn is_open(&self, entry: Entry) -> bool {
        self.line.is_empty() && self.has_room(entry)
    }

    /// Goes in, or stands in line and gets a ticket.
    fn enter(&mut self, entry: Entry, name: impl FnOnce() -> W) -> Result<(), u64> {
        if self.is_open(entry) {
            self.go_in(entry);
            return Ok(());
        }
        self.tickets += 1;
        let ticket = self.tickets;
        self.line.push_back(Waiter {
            ticket,
            entry,
            name: name(),
        });
        Err(ticket)
    }

    /// Whether the holder of a ticket was let in. It is told once.
    fn was_let_in(&mut self, ticket: u64) -> bool {
        let at = self.let_in.iter().position(|inside| *inside == ticket);
        at.map(|at| self.let_in.swap_remove(at)).is_some()
    }

    /// Leaves, and lets in who is next; gives their names.
    fn leave(&mut self, entry: Entry) -> Vec<W> {
        match entry {
            Entry::Shared => self.inside -= 1,
            Entry::Alone => self.is_alone = false,
        }
        let mut woken = Vec::new();
        while let Some(next) = self.line.pop_front() {
            if !self.has_room(next.entry) {
                self.line.push_front(next);
                break;
            }
            self.go_in(next.entry);
            self.let_in.push(next.ticket);
            woken.push(next.name);
        }
        woken
    }
}

struct State<T> {
    turns: Turns<Sleeper>,
    value: T,
}

/// See the module.
pub struct RwGate<T>(Lock<State<T>>);

impl<T> RwGate<T> {
    /// A gate with nobody inside, around `value`.
    pub fn new(value: T) -> RwGate<T> {
        RwGate(Lock::new(State {
            turns: Turns::new(),
            value,
        }))
    }

    /// Looks at the value, or changes it, whoever is inside.
    pub fn with<R>(&self, cpu: &Cpu, f: impl FnOnce(&mut T) -> R) -> R {
        self.0.with(cpu, |state| f(&mut state.value))
    }

    /// The value, while nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.0.get_mut().value
    }

    /// Goes in, and looks at the value in the same step; with whether it had to wait.
    pub async fn enter<R>(
        &self,
        visitor: &Visitor<'_>,
        entry: Entry,
        look: impl FnOnce(&mut T) -> R,
    ) -> (R, bool) {
        let Visitor { cpu, client, .. } = *visitor;
        let mut look = Some(look);
        let mut take = |value: &mut T| (look.take().expect("one goes in once"))(value);
        let entered = self.0.with(cpu, |state| {
            let task = cpu.current();
            state.turns.enter(entry, || Sleeper { client, task })?;
            Ok(take(&mut state.value))
        });
        let ticket = match entered {
            Ok(looked) => return (looked, false),
            Err(ticket) => ticket,
        };
        loop {
            Pause::default().await;
            let looked = self.0.with(cpu, |state| {
                let is_in = state.turns.was_let_in(ticket);
                is_in.then(|| take(&mut state.value))
            });
            if let Some(looked) = looked {
                return (looked, true);
            }
        }
    }

    /// Goes in if nobody has to be waited for and `look` gives something.
    pub fn try_enter<R>(
        &self,
        cpu: &Cpu,
        entry: Entry,
        look: impl FnOnce(&mut T) -> Option<R>,
    ) -> Option<R> {
        self.0.with(cpu, |state| {
            if !state.turns.is_open(entry) {
                return None;
            }
            let looked = look(&mut state.value)?;
            state.turns.go_in(entry);
            Some(looked)
        })
    }

    /// Leaves, as one went in, with a last change in the same step, and lets in who is next.
    pub fn leave<R>(
        &self,
        visitor: &Visitor<'_>,
        entry: Entry,
        last: impl FnOnce(&mut T) -> R,
    ) -> R {
        let (done, woken) = self.0.with(visitor.cpu, |state| {
            let done = last(&mut state.value);
            (done, state.turns.leave(entry))
        });
        for sleeper in woken {
            visitor.mailboxes.wake(visitor.cpu, visitor.client, sleeper);
        }
        done
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Mutex;

    use super::*;
    use crate::sync::{Arc, AtomicBool, Ordering, UnsafeCell, spin};

    /// A gate whose sleepers are flags; the value is what it guards.
    struct Gate {
        turns: Mutex<Turns<usize>>,
        woken: [AtomicBool; 3],
        value: UnsafeCell<u32>,
    }

    impl Gate {
        /// Goes through as sleeper `name`, who looks again only when it was woken.
        fn pass(&self, name: usize, entry: Entry) {
            let entered = self.turns.lock().unwrap().enter(entry, || name);
            if let Err(ticket) = entered {
                while !self.woken[name].load(Ordering::Acquire) {
                    spin();
                }
                assert!(self.turns.lock().unwrap().was_let_in(ticket));
            }
            // Loom finds a change beside a look, or beside another change.
            match entry {
                // SAFETY: only others that look are inside.
                Entry::Shared => self.value.with(|value| unsafe { _ = *value }),
                // SAFETY: nobody else is inside.
                Entry::Alone => self.value.with_mut(|value| unsafe { *value += 1 }),
            }
            let woken = self.turns.lock().unwrap().leave(entry);
            for name in woken {
                self.woken[name].store(true, Ordering::Release);
            }
        }
    }

    // SAFETY: what `value` is used for is what the test is about.
    unsafe impl Sync for Gate {}

    /// Everybody gets through, in every order.
    fn all_pass(entries: [Entry; 3]) {
        loom::model(move || {
            let gate = Arc::new(Gate {
                turns: Mutex::new(Turns::new()),
                woken: [(); 3].map(|()| AtomicBool::new(false)),
                value: UnsafeCell::new(0),
            });
            let others = [1, 2].map(|name| {
                let gate = gate.clone();
                loom::thread::spawn(move || gate.pass(name, entries[name]))
            });
            gate.pass(0, entries[0]);
            for other in others {
                other.join().unwrap();
            }
            let turns = gate.turns.lock().unwrap();
            assert!(turns.line.is_empty() && turns.let_in.is_empty());
            assert!(turns.inside == 0 && !turns.is_alone);
            let alone = entries.iter().filter(|entry| **entry == Entry::Alone);
            gate.value
                .with(|value| assert_eq!(unsafe { *value } as usize, alone.count()));
        });
    }

    #[test]
    fn one_who_is_alone_meets_nobody_and_nobody_is_forgotten() {
        all_pass([Entry::Alone, Entry::Shared, Entry::Alone]);
    }

    #[test]
    fn those_who_share_meet_nobody_who_is_alone() {
        all_pass([Entry::Shared, Entry::Alone, Entry::Shared]);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::{CostTable, Machine, Op, Seed, Side};

    /// CPUs whose tasks come at the times given, and stay inside for 100 ns; who went in when, in
    /// order, and whether it waited.
    fn passed(
        costs: CostTable,
        visitors: &[(u64, Entry)],
    ) -> (Vec<(usize, u64, bool)>, Vec<usize>) {
        let mut machine = Machine::new(costs, false);
        let gate = Arc::new(RwGate::new(Vec::new()));
        let mailboxes = Mailboxes::new(visitors.len() as u32);
        let found = Arc::new(Mutex::new(Vec::new()));
        for (index, (at_ns, entry)) in visitors.iter().copied().enumerate() {
            let id = machine.add_cpu("cpu", Side::Host, 1.0);
            let (gate, mailboxes, found) = (gate.clone(), mailboxes.clone(), found.clone());
            machine.spawn_main(id, "visitor", move |cpu| async move {
                let client = index as u32;
                mailboxes.serve(&cpu, client);
                cpu.sleep_until(at_ns).await;
                let visitor = Visitor {
                    cpu: &cpu,
                    mailboxes: &mailboxes,
                    client,
                };
                let mark = |order: &mut Vec<usize>| order.push(index);
                let ((), waited) = gate.enter(&visitor, entry, mark).await;
                found.lock().unwrap().push((index, cpu.now(), waited));
                cpu.sleep_until(cpu.now() + 100).await;
                gate.leave(&visitor, entry, |_| ());
            });
        }
        machine.run_virtual(Seed(1)).unwrap();
        let found = found.lock().unwrap().clone();
        let Ok(gate) = Arc::try_unwrap(gate) else {
            panic!("all have left");
        };
        (found, gate.0.into_inner().value)
    }

    #[test]
    fn nobody_overtakes_and_those_who_share_go_in_together() {
        let visitors = [
            (0, Entry::Shared),
            (10, Entry::Shared),
            (20, Entry::Alone),
            // There would be room beside the first two, but one stands in line.
            (30, Entry::Shared),
            (40, Entry::Shared),
            (50, Entry::Alone),
        ];
        let (found, order) = passed(CostTable::free(), &visitors);
        let times: Vec<_> = found.iter().map(|(_, at_ns, _)| *at_ns).collect();
        assert_eq!(times, [0, 10, 110, 210, 210, 310]);
        assert_eq!(order[..3], [0, 1, 2]);
        assert_eq!(order[5], 5);
        let waited: Vec<_> = found.iter().map(|(_, _, waited)| *waited).collect();
        assert_eq!(waited, [false, false, true, true, true, true]);
    }

    #[test]
    fn who_comes_from_another_cpu_pays_for_the_line() {
        let mut costs = CostTable::free();
        costs.cost_ns.insert(Op::LineTransfer.key().into(), 7.0);
        let visitors = [(0, Entry::Shared), (10, Entry::Shared)];
        let (found, _) = passed(costs, &visitors);
        assert_eq!(found, [(0, 0, false), (1, 17, false)]);
    }

    #[test]
    fn who_tries_does_not_stand_in_line() {
        let mut machine = Machine::new(CostTable::free(), false);
        let id = machine.add_cpu("cpu", Side::Host, 1.0);
        machine.spawn_main(id, "test", |cpu| async move {
            let mailboxes = Mailboxes::new(1);
            let visitor = Visitor {
                cpu: &cpu,
                mailboxes: &mailboxes,
                client: 0,
            };
            let gate = RwGate::new(5);
            let (value, waited) = gate.enter(&visitor, Entry::Shared, |value| *value).await;
            assert_eq!((value, waited), (5, false));
            let refuses = |_: &mut i32| None::<()>;
            assert_eq!(gate.try_enter(&cpu, Entry::Shared, refuses), None);
            assert_eq!(gate.try_enter(&cpu, Entry::Alone, |_| Some(())), None);
            assert_eq!(gate.try_enter(&cpu, Entry::Shared, |v| Some(*v)), Some(5));
            gate.leave(&visitor, Entry::Shared, |value| *value = 6);
            gate.leave(&visitor, Entry::Shared, |_| ());
            assert_eq!(gate.try_enter(&cpu, Entry::Alone, |v| Some(*v)), Some(6));
            assert_eq!(gate.try_enter(&cpu, Entry::Shared, |_| Some(())), None);
            gate.leave(&visitor, Entry::Alone, |_| ());
        });
        machine.run_virtual(Seed(1)).unwrap();
    }
}
