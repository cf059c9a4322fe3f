//! Who may go in to an inode: several who leave its bytes as they are, or one.
//!
//! Transactions alone (`tx.rs`) keep pages of metadata right, whoever meets there. What they do not
//! cover are the bytes of files, which are read and written in place: nobody may give back the
//! pages that another reads or writes just now. And those who change the same inode would get in
//! each other's way, and do their work again. So there is a gate for each inode, and this is the
//! protocol:
//!
//! | who | holds |
//! |---|---|
//! | reads the bytes of a file; opens something | its gate, with others |
//! | writes, cuts, allocates, punches; changes attributes; closes; gives back what has no name | its gate, alone |
//! | makes a name | the gate of the directory, alone; of a link also that of the file |
//! | takes a name away | the gates of the directory and of what it leads to, alone |
//! | renames | the gates of both directories and of what is replaced, alone; for a directory, before them, gate [`RENAMES`] |
//! | looks a name or attributes up, lists | none: one instant is enough |
//! | commits | gate [`COMMITS`] |
//!
//! Gates are taken in the order of their numbers, all before the operation begins. Whoever finds,
//! inside, that it needs another one (the name leads to something else by now) goes out of all and
//! begins again. So nobody who is inside waits for a gate with a lower number, and there is no
//! circle. A commit may be waited for inside of any gates, as its own comes behind all.
//!
//! Gates are fair: whoever comes goes behind those who wait, readers too, so nobody waits for more
//! than those who came before. Those who write the same file line up at another gate first, so that one of them waits
//! here: who reads waits for one write, and not for all that came before. An operation that is dropped while it waits is in nobody's way.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::shared::Shared;

/// The gate of those who rename directories: no inode has this number, and all have higher ones.
pub const RENAMES: u64 = 0;

/// The gate of those who commit: no inode has as high a number.
pub const COMMITS: u64 = u64::MAX;

/// How somebody is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// With others.
    Together,
    /// With nobody else.
    Alone,
}

/// The gates that somebody is inside of, or waits at.
#[derive(Debug, Default)]
pub struct Gates(Shared<All>);

#[derive(Debug, Default)]
struct All {
    gates: FxHashMap<u64, Gate>,
    tickets: u64,
}

#[derive(Debug, Default)]
struct Gate {
    together: u32,
    is_alone: bool,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    how: How,
    waker: Waker,
}

impl Gate {
    fn lets_in(&self, how: How) -> bool {
        match how {
            How::Together => !self.is_alone,
            How::Alone => !self.is_alone && self.together == 0,
        }
    }

    fn go_in(&mut self, how: How) {
        match how {
            How::Together => self.together += 1,
            How::Alone => self.is_alone = true,
        }
    }

    fn go_out(&mut self, how: How) {
        match how {
            How::Together => self.together -= 1,
            How::Alone => self.is_alone = false,
        }
    }

    /// Lets in whoever is next, and those behind it that may be there with it.
    fn let_in(&mut self, woken: &mut SmallVec<[Waker; 2]>) {
        while let Some(next) = self.waiting.front()
            && self.lets_in(next.how)
        {
            let next = self.waiting.pop_front().expect("it is there");
            self.go_in(next.how);
            woken.push(next.waker);
        }
    }

    fn is_idle(&self) -> bool {
        self.together == 0 && !self.is_alone && self.waiting.is_empty()
    }
}

impl Gates {
    /// Goes in to an inode.
    pub fn enter(&self, number: u64, how: How) -> Enter<'_> {
        Enter {
            gates: self,
            number,
            how,
            ticket: None,
        }
    }

    /// Goes in to several, alone.
    pub async fn enter_all(&self, numbers: &[u64]) -> SmallVec<[Inside<'_>; 4]> {
        let mut numbers: SmallVec<[u64; 4]> = numbers.into();
        numbers.sort_unstable();
        numbers.dedup();
        let mut inside = SmallVec::new();
        for number in numbers {
            inside.push(self.enter(number, How::Alone).await);
        }
        inside
    }

    /// Changes a gate, and wakes those who are let in by that.
    fn change(&self, number: u64, f: impl FnOnce(&mut Gate)) {
        let mut woken = SmallVec::new();
        self.0.with(|all| {
            let gate = all.gates.get_mut(&number).expect("somebody is there");
            f(gate);
            gate.let_in(&mut woken);
            if gate.is_idle() {
                all.gates.remove(&number);
            }
        });
        woken.into_iter().for_each(Waker::wake);
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.0.with(|all| all.gates.len())
    }
}

/// Somebody who is on its way in.
#[derive(Debug)]
#[must_use = "it has to be waited for"]
pub struct Enter<'a> {
    gates: &'a Gates,
    number: u64,
    how: How,
    /// It waits under this number; or was let in since.
    ticket: Option<u64>,
}

impl<'a> Future for Enter<'a> {
    type Output = Inside<'a>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Inside<'a>> {
        let (number, how, ticket) = (self.number, self.how, self.ticket);
        let waits_as = self.gates.0.with(|all| {
            let gate = all.gates.entry(number).or_default();
            match ticket {
                None if gate.waiting.is_empty() && gate.lets_in(how) => {
                    gate.go_in(how);
                    None
                }
                None => {
                    all.tickets += 1;
                    let (ticket, waker) = (all.tickets, context.waker().clone());
                    gate.waiting.push_back(Waiting { ticket, how, waker });
                    Some(ticket)
                }
                Some(ticket) => {
                    let mut waiting = gate.waiting.iter_mut();
                    let own = waiting.find(|waiting| waiting.ticket == ticket)?;
                    own.waker.clone_from(context.waker());
                    Some(ticket)
                }
            }
        });
        self.ticket = waits_as;
        match waits_as {
            Some(_) => Poll::Pending,
            None => {
                let gates = self.gates;
                Poll::Ready(Inside { gates, number, how })
            }
        }
    }
}

impl Drop for Enter<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        self.gates.change(self.number, |gate| {
            let before = gate.waiting.len();
            gate.waiting.retain(|waiting| waiting.ticket != ticket);
            if gate.waiting.len() == before {
                // It was let in, and nobody has told it.
                gate.go_out(self.how);
            }
        });
    }
}

/// Somebody is inside until this is dropped.
#[derive(Debug)]
pub struct Inside<'a> {
    gates: &'a Gates,
    number: u64,
    how: How,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.gates.change(self.number, |gate| gate.go_out(self.how));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use wharf_runtime::{Rng, Seed};

    use super::*;

    /// Whether a task was woken.
    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Flag>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    type Task<'a> = (Pin<Box<dyn Future<Output = ()> + 'a>>, Arc<Flag>);

    fn task<'a>(future: impl Future<Output = ()> + 'a) -> Task<'a> {
        (Box::pin(future), Arc::new(Flag(AtomicBool::new(true))))
    }

    /// Polls tasks in any order, but only those that were woken, until all have ended; sometimes
    /// one is dropped in the middle.
    fn run(mut tasks: Vec<Task<'_>>, rng: &mut Rng, dropped: u64) {
        while !tasks.is_empty() {
            let is_woken = |nth: &usize| tasks[*nth].1.0.load(Ordering::Relaxed);
            let woken: Vec<usize> = (0..tasks.len()).filter(is_woken).collect();
            assert!(!woken.is_empty(), "all wait for ever");
            let nth = woken[rng.below(woken.len() as u64) as usize];
            let waker = Waker::from(tasks[nth].1.clone());
            tasks[nth].1.0.store(false, Ordering::Relaxed);
            let poll = tasks[nth].0.as_mut().poll(&mut Context::from_waker(&waker));
            if poll.is_ready() {
                drop(tasks.swap_remove(nth));
            } else if rng.below(1000) < dropped {
                let nth = rng.below(tasks.len() as u64) as usize;
                drop(tasks.swap_remove(nth));
            }
        }
    }

    /// Gives the turn away some times.
    async fn pause(mut turns: u64) {
        std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            match turns.checked_sub(1) {
                Some(less) => {
                    turns = less;
                    Poll::Pending
                }
                None => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Counts who is inside, also if a task is dropped there.
    struct Here<'a>(&'a RefCell<(u32, u32)>, How);

    impl<'a> Here<'a> {
        fn new(at: &'a RefCell<(u32, u32)>, how: How) -> Here<'a> {
            match how {
                How::Together => at.borrow_mut().0 += 1,
                How::Alone => at.borrow_mut().1 += 1,
            }
            let (together, alone) = *at.borrow();
            assert!(alone == 0 || (together, alone) == (0, 1));
            Here(at, how)
        }
    }

    impl Drop for Here<'_> {
        fn drop(&mut self) {
            match self.1 {
                How::Together => self.0.borrow_mut().0 -= 1,
                How::Alone => self.0.borrow_mut().1 -= 1,
            }
        }
    }

    #[test]
    fn one_alone_or_several_together_are_inside_and_all_come_in() {
        let most = Rc::new(RefCell::new(0));
        for seed in 0..300 {
            println!("seed {seed}");
            let mut rng = Seed(seed).rng();
            let gates = Gates::default();
            let inside: Vec<RefCell<(u32, u32)>> = vec![RefCell::default(); 3];
            let tasks = (0..8).map(|nth| {
                let mut rng = Seed(seed).child("task").index(nth).rng();
                let (gates, inside, most) = (&gates, &inside, most.clone());
                task(async move {
                    for _ in 0..10 {
                        let number = rng.below(3) as usize;
                        if rng.chance(1, 3) {
                            let other = rng.below(3) as usize;
                            let both = [number as u64, other as u64];
                            let _inside = gates.enter_all(&both).await;
                            let _here = Here::new(&inside[number], How::Alone);
                            pause(rng.below(3)).await;
                        } else {
                            let how = [How::Together, How::Alone][usize::from(rng.chance(1, 3))];
                            let _inside = gates.enter(number as u64, how).await;
                            let _here = Here::new(&inside[number], how);
                            let together = inside[number].borrow().0;
                            let seen = *most.borrow();
                            most.replace(seen.max(together));
                            pause(rng.below(3)).await;
                        }
                    }
                })
            });
            let dropped = [0, 5, 30][(seed % 3) as usize];
            run(tasks.collect(), &mut rng, dropped);
            assert_eq!(gates.count(), 0, "nothing is left of gates without anybody");
        }
        assert!(*most.borrow() > 2, "readers go side by side");
    }

    #[test]
    fn who_comes_goes_behind_those_who_wait() {
        let (gates, order) = (Gates::default(), RefCell::new(Vec::new()));
        let come = async |who: &'static str, how| {
            let _inside = gates.enter(7, how).await;
            order.borrow_mut().push(who);
            pause(3).await;
        };
        let mut tasks = vec![
            task(come("reader", How::Together)),
            task(come("writer", How::Alone)),
            task(come("late reader", How::Together)),
            task(come("later reader", How::Together)),
            task(come("late writer", How::Alone)),
        ];
        for (future, flag) in &mut tasks {
            let waker = Waker::from(flag.clone());
            let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(poll.is_pending());
        }
        run(tasks, &mut Seed(1).rng(), 0);
        let expected = [
            "reader",
            "writer",
            "late reader",
            "later reader",
            "late writer",
        ];
        assert_eq!(*order.borrow(), expected);
    }
}
