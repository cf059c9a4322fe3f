//! Bells: what many other processes notify by, for one task that waits for all of them.
//!
//! Problem: a drive may be used by thousands of processes, most of which want nothing most of the time. Each notifies by
//! words in memory that it shares with the drive alone ([`NotifierWords`]). To look at all of them in every pass of the loop
//! takes longer than to serve the one that wants something. One word for all of them would be less to look at, but each
//! of them could take away what another has written there.
//!
//! Idea: those that rang lately are looked at; the others say by a way of their own that they have rung, as they do to a waiter
//! that sleeps.
//!
//! 1. A *look* is at all bells that are *watched*. A few always are, so that few bells are never anything else.
//! 2. Of more, one that was found silent 4,096 times is *left*: its words say that the waiter sleeps, and after that it is
//!    looked at once more, as before a sleep.
//! 3. Who rings a bell that is left sees that, and sends a byte. Whoever receives that calls out the bell's number ([`Bells::call`]), and
//!    it is watched again.
//! 4. Before the thread sleeps it says so in the words of those that are watched, and looks at them once more. Of those that are left
//!    each wakes it by its call.
//! 5. Whoever waits takes the numbers of those that rang ([`Bells::take`]), each once, however often it rang.
//!
//! So a process that wants nothing costs nothing. Who rings all the time has one look of every pass, and no more turns than others;
//! who writes anything else to its words is not heard, or heard for nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::notifier::Notifier;
use crate::notifier_words::NotifierWords;
use crate::sync::{AtomicBool, Ordering, fence};

/// Bells that are watched whether they ring or not: a cache line each, some 100 ns in all.
pub const WATCHED_MIN: usize = if cfg!(loom) { 1 } else { 64 };

/// Looks at a silent bell before it is left: some milliseconds.
const SILENT_LOOKS: u32 = if cfg!(loom) { 1 } else { 4096 };

/// See the [module](self). Clones are the same bells.
#[derive(Clone, Default)]
pub struct Bells(Arc<Shared>);

struct Shared {
    /// Of the thread that waits.
    state: Mutex<State>,
    /// Numbers of bells that were called out.
    called: Mutex<BTreeSet<u32>>,
    is_called: AtomicBool,
}

#[derive(Default)]
struct State {
    watched: Vec<Bell>,
    left: BTreeMap<u32, Bell>,
    /// The numbers of those that have rung and were not taken.
    rung: VecDeque<u32>,
}

struct Bell {
    number: u32,
    words: NonNull<NotifierWords>,
    /// How often it was found silent.
    silent: u32,
    /// Keeps the words.
    _memory: Arc<dyn Send + Sync>,
}

// SAFETY: the words are atomics, and their memory lives as long as the bell.
unsafe impl Send for Bell {}

impl Bell {
    fn words(&self) -> &NotifierWords {
        // SAFETY: valid while the bell lives, by the contract of `Bells::put`.
        unsafe { self.words.as_ref() }
    }
}

impl Default for Shared {
    fn default() -> Self {
        Shared {
            state: Mutex::default(),
            called: Mutex::default(),
            is_called: AtomicBool::new(false),
        }
    }
}

impl Bells {
    /// None.
    pub fn new() -> Bells {
        Bells::default()
    }

    /// The notifier of the task that waits for them. It is notified by them alone.
    pub fn notifier(&self) -> Notifier {
        Notifier::of_bells(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = &self.0.state;
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn called(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        let called = &self.0.called;
        called.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a bell there, of this number, whose words say nothing yet. On the thread that waits: it does not sleep meanwhile.
    ///
    /// # Safety
    /// The words are valid while `memory` lives.
    pub unsafe fn put(
        &self,
        number: u32,
        words: NonNull<NotifierWords>,
        memory: Arc<dyn Send + Sync>,
    ) {
        self.state().watched.push(Bell {
            number,
            words,
            silent: 0,
            _memory: memory,
        });
    }

    /// Takes the bell of this number away, and that it has rung. On the thread that waits.
    pub fn remove(&self, number: u32) {
        let state = &mut *self.state();
        state.rung.retain(|rung| *rung != number);
        state.watched.retain(|bell| bell.number != number);
        state.left.remove(&number);
    }

    /// Says that whoever rings the bell of this number has sent a byte. The thread that waits has to be
    /// [woken](Notifier::nudge) then.
    pub fn call(&self, number: u32) {
        self.called().insert(number);
        // Release: partner of the swap in `is_rung`. What the ringer has written comes before its byte, and that before this.
        self.0.is_called.store(true, Ordering::Release);
    }

    /// The number of the next that has rung.
    pub fn take(&self) -> Option<u32> {
        self.state().rung.pop_front()
    }

    /// Whether any has rung: takes a look if that is not known.
    pub(crate) fn is_rung(&self) -> bool {
        let state = &mut *self.state();
        // Acquire: partner of the store in `call`. (The plain load keeps the line where it is.)
        if self.0.is_called.load(Ordering::Relaxed)
            && self.0.is_called.swap(false, Ordering::AcqRel)
        {
            for number in std::mem::take(&mut *self.called()) {
                state.watch(number);
            }
        }
        if state.rung.is_empty() {
            state.look();
        }
        !state.rung.is_empty()
    }

    /// Says whether the thread that waits sleeps, or is about to. It looks once more before it does.
    pub(crate) fn set_parked(&self, parked: bool) {
        for bell in &self.state().watched {
            bell.words().note_parked(parked);
        }
        if parked {
            // One for all: partner of the fence in `NotifierWords::notify`, as in `NotifierWords::set_parked`.
            fence(Ordering::SeqCst);
        }
    }
}

impl State {
    /// Looks at those that are watched; leaves those that have been silent for long.
    fn look(&mut self) {
        let mut place = 0;
        while let Some(bell) = self.watched.get_mut(place) {
            if bell.words().take() != 0 {
                bell.silent = 0;
                self.rung.push_back(bell.number);
            } else {
                bell.silent = bell.silent.saturating_add(1);
            }
            if bell.silent >= SILENT_LOOKS && self.watched.len() > WATCHED_MIN {
                self.leave(place);
            } else {
                place += 1;
            }
        }
    }

    /// Has the bell at a place call when it is rung; it stays watched if it has been by then.
    fn leave(&mut self, place: usize) {
        let mut bell = self.watched.swap_remove(place);
        // Its fence is the partner of that in `NotifierWords::notify`: either the look here sees the flag, or the ringer sees that it
        // has to send a byte.
        bell.words().set_parked(true);
        if bell.words().is_rung() {
            bell.words().note_parked(false);
            bell.silent = 0;
            self.watched.push(bell);
        } else {
            self.left.insert(bell.number, bell);
        }
    }

    /// A bell was called out: it is watched, if it was left. Whether it has rung the next look says.
    fn watch(&mut self, number: u32) {
        if let Some(mut bell) = self.left.remove(&number) {
            bell.words().note_parked(false);
            bell.silent = 0;
            self.watched.push(bell);
        }
    }
}

#[cfg(test)]
fn put(bells: &Bells, number: u32) -> Arc<NotifierWords> {
    let words = Arc::new(NotifierWords::new());
    // SAFETY: the words are what keeps them.
    unsafe { bells.put(number, NonNull::from(&*words), words.clone()) };
    words
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Many {
        bells: Bells,
        words: Vec<Arc<NotifierWords>>,
    }

    impl Many {
        fn new(count: u32) -> Many {
            let bells = Bells::new();
            let words = (0..count).map(|number| put(&bells, number)).collect();
            Many { bells, words }
        }

        /// Rings one; gives whether a byte was sent for that, whose receiver calls.
        fn ring(&self, number: usize) -> bool {
            let sends = self.words[number].notify(0);
            if sends {
                self.bells.call(number as u32);
            }
            sends
        }

        /// Those that have rung, in order.
        fn taken(&self) -> Vec<u32> {
            let mut taken = Vec::new();
            while self.bells.is_rung() {
                taken.extend(self.bells.take());
            }
            taken.sort_unstable();
            taken
        }

        fn stay_silent(&self) {
            for _ in 0..=SILENT_LOOKS {
                assert!(!self.bells.is_rung());
            }
        }
    }

    #[test]
    fn a_few_are_always_watched_and_each_is_heard_once() {
        let many = Many::new(WATCHED_MIN as u32);
        many.stay_silent();
        for number in [63, 5, 5, 0] {
            assert!(!many.ring(number), "nobody sleeps");
        }
        assert_eq!(many.taken(), [0, 5, 63]);
        assert!(!many.bells.is_rung());
    }

    #[test]
    fn of_many_those_are_watched_that_rang_lately() {
        let many = Many::new(2000);
        assert!((0..2000).all(|number| !many.ring(number)));
        assert!(many.taken().into_iter().eq(0..2000));
        many.stay_silent();
        assert_eq!(many.bells.state().watched.len(), WATCHED_MIN);
        let sent = (0..2000).filter(|number| many.ring(*number)).count();
        assert_eq!(sent, 2000 - WATCHED_MIN);
        assert!(many.taken().into_iter().eq(0..2000));
        assert!((0..2000).all(|number| !many.ring(number)));
        assert!(many.taken().into_iter().eq(0..2000));
    }

    #[test]
    fn all_wake_one_who_sleeps() {
        let many = Many::new(1000);
        many.stay_silent();
        many.bells.set_parked(true);
        assert!(!many.bells.is_rung());
        assert!((0..1000).all(|number| many.ring(number)));
        many.bells.set_parked(false);
        assert!(many.taken().into_iter().eq(0..1000));
        assert!((0..1000).all(|number| !many.ring(number)));
    }

    #[test]
    fn who_has_left_is_not_heard() {
        let many = Many::new(200);
        let thirds = || (0..200).step_by(3);
        many.stay_silent();
        (0..200).for_each(|number| {
            many.ring(number);
        });
        assert!(many.bells.is_rung());
        for number in (0..200).filter(|number| number % 3 > 0) {
            many.bells.remove(number);
        }
        many.bells.remove(4000);
        many.bells.call(4000);
        assert!(many.taken().into_iter().eq(thirds()));
        (0..200).for_each(|number| {
            many.ring(number);
        });
        assert!(many.taken().into_iter().eq(thirds()));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// Rings a bell as another process does; gives whether that called.
    fn rings(bells: &Bells, number: u32, words: &NotifierWords) -> bool {
        let calls = words.notify(0);
        if calls {
            bells.call(number);
        }
        calls
    }

    /// All that have rung, each once.
    fn taken(bells: &Bells) -> Vec<u32> {
        let mut numbers = Vec::new();
        while bells.is_rung() {
            numbers.extend(bells.take());
        }
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn who_waits_for_many_and_sleeps_has_heard_each_or_is_woken() {
        loom::model(|| {
            let bells = Bells::new();
            let ringers = [3, 7].map(|number| {
                let (bells, words) = (bells.clone(), put(&bells, number));
                loom::thread::spawn(move || rings(&bells, number, &words))
            });
            bells.set_parked(true);
            let sleeps = !bells.is_rung();
            let calls = ringers.map(|ringer| ringer.join().expect("it rings"));
            assert!(!sleeps || calls == [true; 2], "asleep, and nobody calls");
            bells.set_parked(false);
            assert_eq!(taken(&bells), [3, 7]);
        });
    }

    #[test]
    fn a_bell_that_is_left_has_been_heard_or_calls() {
        loom::model(|| {
            let bells = Bells::new();
            let words = put(&bells, 3);
            let silent = put(&bells, 7);
            let ringing = bells.clone();
            let ringer = loom::thread::spawn(move || rings(&ringing, 3, &words));
            // It is left, unless it is heard.
            let heard = bells.is_rung();
            let before: Vec<u32> = bells.take().into_iter().collect();
            assert_eq!(before.is_empty(), !heard);
            ringer.join().expect("it rings");
            assert_eq!([before, taken(&bells)].concat(), [3]);
            drop(silent);
        });
    }
}
