//! A list of guards behind a lock: slow, plain, and watchful.
//!
//! 1. Every guard has a number; those that are there are in a list.
//! 2. What is retired takes a copy of the list along. Each guard that goes is struck off; who
//!    strikes off the last runs it.
//! 3. A node that is freed is marked so first and stays in quarantine for a while, and whoever follows a link
//!    to a marked node panics.
//!
//! The list is invisible to loom and shuttle, so that it orders nothing by itself. Where the real
//! thing does order, a visible clock does here: what was done before a node was retired is seen by
//! guards that come after (`tick`).

use std::collections::VecDeque;

use crate::node::Node;

/// Freed nodes that are kept to catch their users.
const QUARANTINE: usize = 256;

type Deferred = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Registry {
    guards: Vec<u64>,
    made: u64,
    retired: Vec<(Vec<u64>, Deferred)>,
    quarantine: VecDeque<Deferred>,
}

impl Registry {
    fn leave(&mut self, guard: u64) -> Vec<Deferred> {
        self.guards.retain(|&other| other != guard);
        for (waiting, _) in &mut self.retired {
            waiting.retain(|&other| other != guard);
        }
        let due = self
            .retired
            .extract_if(.., |(waiting, _)| waiting.is_empty());
        due.map(|(_, run)| run).collect()
    }
}

/// Model checkers run all modelled threads on one, and tests on several: a list for each.
#[cfg(any(loom, shuttle))]
fn with<R>(f: impl FnOnce(&mut Registry) -> R) -> R {
    std::thread_local! {
        static REGISTRY: std::cell::RefCell<Registry> = std::cell::RefCell::default();
    }
    REGISTRY.with_borrow_mut(f)
}

#[cfg(not(any(loom, shuttle)))]
fn with<R>(f: impl FnOnce(&mut Registry) -> R) -> R {
    static REGISTRY: std::sync::Mutex<Option<Registry>> = std::sync::Mutex::new(None);
    let mut registry = REGISTRY
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    f(registry.get_or_insert_default())
}

/// Orders what was done before a node was retired before what is done under later guards, as the
/// epochs of the real thing do.
#[cfg(loom)]
fn tick() {
    loom::lazy_static! {
        static ref CLOCK: loom::sync::atomic::AtomicU64 = loom::sync::atomic::AtomicU64::new(0);
    }
    // Acquire and release: partners of each other.
    CLOCK.fetch_add(1, loom::sync::atomic::Ordering::AcqRel);
}

/// Shuttle has one order for everything; the registry's lock orders for ThreadSanitizer.
#[cfg(not(loom))]
fn tick() {}

/// A guard by its number.
pub struct Guard(u64);

pub fn pin() -> Guard {
    tick();
    with(|registry| {
        registry.made += 1;
        registry.guards.push(registry.made);
        Guard(registry.made)
    })
}

/// Panics if the node was freed.
pub fn check<L>(node: &Node<L>) {
    assert!(!node.is_freed(), "a freed node was touched");
}

impl Guard {
    pub fn defer(&self, f: impl FnOnce() + Send + 'static) {
        tick();
        with(|registry| {
            let waiting = registry.guards.clone();
            registry.retired.push((waiting, Box::new(f)));
        });
    }

    pub fn repin(&mut self) {
        *self = pin();
    }

    /// # Safety
    /// See [`super::Guard::retire`].
    pub unsafe fn retire<L: Send + 'static>(&self, node: &Node<L>) {
        let address = node.address();
        self.defer(move || {
            let node = std::ptr::with_exposed_provenance::<Node<L>>(address as usize);
            // SAFETY: the node is freed below, later than this.
            let twice = unsafe { &*node }.mark_freed();
            assert!(!twice, "a node was freed twice");
            // SAFETY: no guard is left under which the address was read.
            let free = Box::new(move || unsafe { Node::<L>::free(address) });
            let oldest = with(|registry| {
                registry.quarantine.push_back(free);
                let is_full = registry.quarantine.len() > QUARANTINE;
                is_full.then(|| registry.quarantine.pop_front()).flatten()
            });
            if let Some(free) = oldest {
                free();
            }
        });
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        for run in with(|registry| registry.leave(self.0)) {
            run();
        }
    }
}
