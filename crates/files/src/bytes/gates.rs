//! Gates of inodes: shared for who looks, alone for who changes, in the order in which they came.
//!
//! Who needs several gates goes through them in the order of their numbers, so nobody waits in a
//! circle. A gate that nobody is at takes no memory. Those who change bytes of the same file have turns (`turns.rs`) and line up
//! before they go through any, so that one of them waits here: who reads waits for one write, and not for all that came before.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::shared::Shared;

/// Keys behind those of all inodes.
const KEYS_FROM: u64 = u64::MAX - 256;

/// The gate of renames from one directory to another: while somebody is in it, no directory gets
/// another parent.
pub const RENAMES: u64 = u64::MAX;

/// The gate of a slot of the journal; whoever is in it waits for no other gate.
pub fn journal(slot: u64) -> u64 {
    KEYS_FROM + slot
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    is_alone: bool,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Gate {
    shared: u32,
    is_alone: bool,
    waiting: VecDeque<Waiting>,
    /// Those who were let in and have not seen it so far.
    let_in: SmallVec<[u64; 2]>,
}

impl Gate {
    fn admits(&self, is_alone: bool) -> bool {
        !self.is_alone && (!is_alone || self.shared == 0)
    }

    fn enter(&mut self, is_alone: bool) {
        match is_alone {
            true => self.is_alone = true,
            false => self.shared += 1,
        }
    }

    /// Lets in who is next; the wakers are called without the lock.
    fn let_in(&mut self, wake: &mut SmallVec<[Waker; 2]>) {
        while let Some(next) = self.waiting.front()
            && self.admits(next.is_alone)
            && let Some(next) = self.waiting.pop_front()
        {
            self.enter(next.is_alone);
            self.let_in.push(next.ticket);
            wake.push(next.waker);
        }
    }

    fn is_idle(&self) -> bool {
        self.shared == 0 && !self.is_alone && self.waiting.is_empty()
    }
}

#[derive(Debug, Default)]
struct State {
    gates: FxHashMap<u64, Gate>,
    tickets: u64,
}

/// All gates.
#[derive(Debug, Default)]
pub struct Gates(Shared<State>);

/// One is behind the gate until this is dropped.
#[derive(Debug)]
pub struct Inside<'a> {
    gates: &'a Gates,
    key: u64,
    is_alone: bool,
}

/// One's place in the line; who gives up leaves it.
struct Place<'a> {
    gates: &'a Gates,
    key: u64,
    is_alone: bool,
    ticket: Option<u64>,
}

impl Gates {
    /// Goes through a gate, together with others who look.
    pub async fn shared(&self, key: u64) -> Inside<'_> {
        self.enter(key, false).await
    }

    /// Goes through a gate alone.
    pub async fn alone(&self, key: u64) -> Inside<'_> {
        self.enter(key, true).await
    }

    /// Goes through several gates alone.
    pub async fn all_alone(&self, keys: &[u64]) -> SmallVec<[Inside<'_>; 4]> {
        let mut keys: SmallVec<[u64; 4]> = keys.into();
        keys.sort_unstable();
        keys.dedup();
        let mut inside = SmallVec::new();
        for key in keys {
            inside.push(self.alone(key).await);
        }
        inside
    }

    async fn enter(&self, key: u64, is_alone: bool) -> Inside<'_> {
        let mut place = Place {
            gates: self,
            key,
            is_alone,
            ticket: None,
        };
        poll_fn(|context| place.poll(context.waker())).await;
        place.ticket = None;
        Inside {
            gates: self,
            key,
            is_alone,
        }
    }

    fn leave(&self, key: u64, is_alone: bool) {
        let wake = self.0.with(|state| {
            let mut wake = SmallVec::new();
            if let Some(gate) = state.gates.get_mut(&key) {
                match is_alone {
                    true => gate.is_alone = false,
                    false => gate.shared -= 1,
                }
                gate.let_in(&mut wake);
                if gate.is_idle() {
                    state.gates.remove(&key);
                }
            }
            wake
        });
        wake.into_iter().for_each(Waker::wake);
    }
}

impl Place<'_> {
    fn poll(&mut self, waker: &Waker) -> Poll<()> {
        self.gates.0.with(|state| {
            let gate = state.gates.entry(self.key).or_default();
            let Some(ticket) = self.ticket else {
                if gate.waiting.is_empty() && gate.admits(self.is_alone) {
                    gate.enter(self.is_alone);
                    return Poll::Ready(());
                }
                state.tickets += 1;
                gate.waiting.push_back(Waiting {
                    ticket: state.tickets,
                    is_alone: self.is_alone,
                    waker: waker.clone(),
                });
                self.ticket = Some(state.tickets);
                return Poll::Pending;
            };
            if let Some(at) = gate.let_in.iter().position(|other| *other == ticket) {
                gate.let_in.swap_remove(at);
                return Poll::Ready(());
            }
            let own = gate.waiting.iter_mut().find(|other| other.ticket == ticket);
            if let Some(own) = own {
                own.waker.clone_from(waker);
            }
            Poll::Pending
        })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else {
            return;
        };
        let mut wake = SmallVec::new();
        let was_let_in = self.gates.0.with(|state| {
            let Some(gate) = state.gates.get_mut(&self.key) else {
                return false;
            };
            gate.waiting.retain(|other| other.ticket != ticket);
            if let Some(at) = gate.let_in.iter().position(|other| *other == ticket) {
                gate.let_in.swap_remove(at);
                return true;
            }
            // Who stood behind may go in now.
            gate.let_in(&mut wake);
            false
        });
        wake.into_iter().for_each(Waker::wake);
        if was_let_in {
            self.gates.leave(self.key, self.is_alone);
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.gates.leave(self.key, self.is_alone);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::pin::pin;
    use std::task::Context;

    use super::*;
    use crate::block_on;

    #[test]
    fn who_changes_is_alone_and_nobody_is_overtaken() {
        let (gates, seen) = (Gates::default(), RefCell::new(Vec::new()));
        let mut context = Context::from_waker(Waker::noop());
        let first = block_on(gates.shared(7));
        let mut alone = pin!(async {
            let _inside = gates.alone(7).await;
            seen.borrow_mut().push("alone");
        });
        let mut later = pin!(async {
            let _inside = gates.shared(7).await;
            seen.borrow_mut().push("shared");
        });
        assert!(alone.as_mut().poll(&mut context).is_pending());
        assert!(later.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(later.as_mut().poll(&mut context).is_pending());
        assert!(alone.as_mut().poll(&mut context).is_ready());
        assert!(later.as_mut().poll(&mut context).is_ready());
        assert_eq!(*seen.borrow(), ["alone", "shared"]);
        assert!(gates.0.with(|state| state.gates.is_empty()));
    }

    #[test]
    fn who_gives_up_lets_others_in() {
        let gates = Gates::default();
        let mut context = Context::from_waker(Waker::noop());
        let first = block_on(gates.shared(7));
        {
            let mut alone = pin!(gates.alone(7));
            assert!(alone.as_mut().poll(&mut context).is_pending());
        }
        drop(block_on(gates.shared(7)));
        {
            let mut alone = pin!(gates.alone(7));
            assert!(alone.as_mut().poll(&mut context).is_pending());
            drop(first);
            // It was let in and does not know.
        }
        drop(block_on(gates.alone(7)));
        assert!(gates.0.with(|state| state.gates.is_empty()));
    }
}
