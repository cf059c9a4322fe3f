//! Several tasks at once in one file system, on media that make everybody wait.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use wharf_runtime::{Rng, Seed};

use super::Wfs;
use super::model_test::model;
use super::program::{LARGE, Numbers, apply, apply_async, look, random};
use super::testing::{assert_sound, made, now};
use crate::errno::Fault;
use crate::pages::{PAGE_BYTES, Pages, RamPages, Run};
use crate::{By, Caller, Content, Entry, FileSystem, New, Owner};

/// A medium on which every operation waits for some turns.
#[derive(Debug)]
pub struct Slow<'a> {
    pub medium: &'a RamPages,
    pub rng: RefCell<Rng>,
}

impl Slow<'_> {
    async fn wait(&self) {
        let mut turns = self.rng.borrow_mut().below(4);
        poll_fn(|context| {
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
}

impl Pages for Slow<'_> {
    fn pages(&self) -> u64 {
        self.medium.pages()
    }

    async fn read(&self, runs: &[Run], buffer: &mut [u8]) -> Result<(), Fault> {
        self.wait().await;
        let done = self.medium.read(runs, buffer).await;
        self.wait().await;
        done
    }

    async fn write(&self, runs: &[Run], bytes: &[u8]) -> Result<(), Fault> {
        self.wait().await;
        let done = self.medium.write(runs, bytes).await;
        self.wait().await;
        done
    }

    async fn flush(&self) -> Result<(), Fault> {
        self.wait().await;
        self.medium.flush().await
    }

    async fn discard(&self, runs: &[Run]) -> Result<(), Fault> {
        self.wait().await;
        self.medium.discard(runs).await
    }
}

/// A random program in a directory of its own, beside a model of its own.
async fn program<P: Pages>(wfs: &Wfs<P>, directory: u64, seed: Seed, rounds: u64) {
    let mut rng = seed.rng();
    let model = model();
    let mut of_model = Numbers(vec![model.root()]);
    let mut of_wfs = Numbers(vec![directory]);
    for round in 0..rounds {
        let op = random(&mut rng, LARGE, of_model.0.len());
        let expected = apply(&model, &mut of_model, &op, 100 + round);
        let found = apply_async(wfs, &mut of_wfs, &op, 100 + round).await;
        assert_eq!(found, expected, "{seed:?}, round {round}: {op:?}");
        if round % 50 == 49 {
            for (number, other) in of_model.0.iter().zip(&of_wfs.0).skip(1) {
                let expected = now(look(&model, *number));
                let found = look(wfs, *other).await;
                assert_eq!(found, expected, "{seed:?}, round {round}");
            }
        }
    }
    for number in &of_wfs.0 {
        while wfs.close(*number).await.is_ok() {}
    }
}

/// Runs all, a step of each in turn.
pub fn run_all(mut tasks: Vec<Pin<Box<dyn Future<Output = ()> + '_>>>) {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..10_000_000 {
        tasks.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
        if tasks.is_empty() {
            return;
        }
    }
    panic!("the tasks wait for ever");
}

#[test]
fn tasks_beside_each_other_see_and_do_what_they_would_alone() {
    for seed in 0..4 {
        println!("seed {seed}");
        let medium = made(12_000);
        let slow = Slow {
            medium: &medium,
            rng: RefCell::new(Seed(seed).child("slow").rng()),
        };
        {
            let wfs = run_one(Wfs::open(&slow, 30 * PAGE_BYTES)).unwrap().0;
            let directories: Vec<u64> = (0..4).map(|nth| directory(&wfs, nth)).collect();
            let tasks = directories.iter().zip(0..).map(|(directory, nth)| {
                let seed = Seed(seed).index(nth);
                Box::pin(program(&wfs, *directory, seed, 300)) as Pin<Box<dyn Future<Output = ()>>>
            });
            run_all(tasks.collect());
        }
        assert_sound(&medium, &format!("seed {seed}"));
    }
}

/// The result of one future alone.
pub fn run_one<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

fn directory<P: Pages>(wfs: &Wfs<P>, nth: u8) -> u64 {
    let (caller, name) = (Caller::root(), [b'a' + nth]);
    let by = By {
        caller: &caller,
        now_ns: 1,
    };
    let new = New {
        content: Content::Directory,
        mode: 0o755,
        owner: Owner { uid: 0, gid: 0 },
        is_open: false,
    };
    let made = run_one(wfs.create(by, Entry::new(wfs.root(), &name), new));
    made.unwrap().number
}
