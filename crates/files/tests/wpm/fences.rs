//! A fence that fails: nobody knows what is durable then, and no later fence makes up for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use wharf_files::block_on;
use wharf_files::bytes::{Wpm, check};
use wharf_files::lines::Lines;
use wharf_files::model::ModelLimits;
use wharf_files::testing::beside::{new_model, time_of};
use wharf_files::testing::crash::OnMedium;
use wharf_files::testing::program::callers;
use wharf_files::testing::random::Steps;
use wharf_files::testing::recorded::Recording;
use wharf_files::testing::recorded_lines::RecordedLines;
use wharf_files::testing::subject::{Subject, Users};
use wharf_files::testing::taste::Taste;
use wharf_files::testing::turns::{Task, interleave, turn};
use wharf_files::testing::view::{Likeness, view};
use wharf_files::vfs::SessionLimits;
use wharf_files::{
    By, Caller, Content, Entry, Errno, Fault, FileError, FileSystem, New, Owner, Rename,
};
use wharf_runtime::Seed;

use super::maker::WIDE;

/// Memory of which one fence fails; everything else is done, before and behind it.
struct OneFails {
    lines: RecordedLines,
    /// Fences before that.
    fences: Cell<u64>,
    /// Changes that there were when it failed.
    failed_at: Cell<Option<usize>>,
    /// Whether the caller gives its turn away before each access.
    is_slow: bool,
}

impl OneFails {
    fn new(lines: &RecordedLines, fences: u64, is_slow: bool) -> OneFails {
        OneFails {
            lines: lines.clone(),
            fences: Cell::new(fences),
            failed_at: Cell::new(None),
            is_slow,
        }
    }

    async fn turn(&self) {
        if self.is_slow {
            turn().await;
        }
    }
}

impl Lines for OneFails {
    fn bytes(&self) -> u64 {
        self.lines.bytes()
    }

    async fn load(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.turn().await;
        self.lines.load(at, out).await
    }

    async fn store(&self, at: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.turn().await;
        self.lines.store(at, bytes).await
    }

    async fn persist(&self, at: u64, bytes: u64) -> Result<(), Fault> {
        self.turn().await;
        self.lines.persist(at, bytes).await
    }

    async fn fence(&self) -> Result<(), Fault> {
        self.turn().await;
        let Some(fences) = self.fences.get().checked_sub(1) else {
            if self.failed_at.get().is_none() {
                self.failed_at.set(Some(self.lines.changes()));
                return Err(Fault::Flush);
            }
            return self.lines.fence().await;
        };
        self.fences.set(fences);
        self.lines.fence().await
    }
}

/// A fence before the word that counts used to fail one operation alone: the next one's fence
/// succeeded, and counted on records that need not be there.
#[test]
fn nothing_is_written_behind_a_fence_that_failed() {
    let seed = 11;
    println!("seed {seed}");
    let base = block_on(WIDE.make());
    let program = Steps::new(Seed(seed).child("fence").rng(), Taste::default()).program(60);
    let mut rng = Seed(seed).child("cuts").rng();
    let mut failed = 0;
    for fences in 0.. {
        let lines = RecordedLines::new(&base);
        let memory = OneFails::new(&lines, fences, false);
        let fs = Rc::new(block_on(Wpm::open(memory, 8 << 10)).expect("it opens").0);
        let model = new_model(ModelLimits::default());
        let (callers, limits) = (callers(), SessionLimits::default());
        let mut users = Users::new(&fs, &callers, limits);
        let mut oracle = Users::new(&&model, &callers, limits);
        let mut states = vec![block_on(view(&model)).unwrap()];
        let mut steps = program.iter().enumerate();
        for (at, step) in &mut steps {
            let answer = block_on(users.step(step, time_of(at)));
            block_on(oracle.step(step, time_of(at)));
            states.push(block_on(view(&model)).unwrap());
            if fs.lines().failed_at.get().is_some() {
                assert!(answer.is(Errno::EIO), "fence {fences}: {step}: {answer:?}");
                break;
            }
        }
        let Some(failed_at) = fs.lines().failed_at.get() else {
            break;
        };
        failed += 1;
        for (at, step) in steps {
            block_on(users.step(step, time_of(at)));
        }
        assert_eq!(lines.changes(), failed_at, "fence {fences}");
        let synced = block_on(fs.sync_all());
        assert_eq!(synced, Err(FileError::Io(Fault::Flush)), "fence {fences}");
        block_on(view(&*fs)).expect("what is there can be read");
        for medium in lines.some_after_cut(failed_at, 4, &mut rng) {
            let (fs, recovered) = block_on(Wpm::open(&medium, 8 << 10)).expect("it opens");
            assert_eq!(recovered.damaged, 0);
            let found = block_on(view(&fs)).expect("it can be looked at");
            let last = states.iter().rev().take(2);
            let unlike: Vec<_> = last.map(|s| found.unlike(s, Likeness::TREE)).collect();
            assert!(unlike.contains(&None), "fence {fences}: {unlike:?}");
            let checked = block_on(check(&medium)).unwrap();
            assert_eq!(checked.findings, Vec::<String>::new(), "fence {fences}");
        }
    }
    assert!(failed > 50, "{failed}");
}

/// Makes names in a directory of its own, and moves each of them to the root.
async fn task(fs: &Wpm<OneFails>, directory: u64, mark: u64, done: &RefCell<Vec<(u64, Vec<u8>)>>) {
    let caller = Caller::root();
    let by = By {
        caller: &caller,
        now_ns: 7,
    };
    let new = New {
        content: Content::File,
        mode: 0o644,
        owner: Owner::default(),
        is_open: false,
    };
    for round in 0..10 {
        let name = format!("{mark} {round}").into_bytes();
        let (here, there) = (Entry::new(directory, &name), Entry::new(fs.root(), &name));
        if fs.create(by, here, new).await.is_err() {
            return;
        }
        done.borrow_mut().push((directory, name.clone()));
        let moved = fs.rename(by, here, there, Rename::Replace).await;
        if moved.is_err() {
            return;
        }
    }
}

#[test]
fn no_task_is_told_that_it_is_done_when_the_fence_of_another_failed_meanwhile() {
    const TASKS: u64 = 4;
    let base = block_on(WIDE.make());
    let mut failed = 0;
    for seed in 0..100 {
        let mut rng = Seed(seed).child("fence").rng();
        let lines = RecordedLines::new(&base);
        let memory = OneFails::new(&lines, 2 * TASKS * 2 + rng.below(200), true);
        let fs = block_on(Wpm::open(memory, 8 << 10)).expect("it opens").0;
        let (caller, done) = (Caller::root(), RefCell::default());
        let directory = |nth: u64| {
            let name = format!("directory {nth}");
            let new = New {
                content: Content::Directory,
                mode: 0o755,
                owner: Owner::default(),
                is_open: false,
            };
            let by = By {
                caller: &caller,
                now_ns: 5,
            };
            let made = fs.create(by, Entry::new(fs.root(), name.as_bytes()), new);
            block_on(made).expect("it is made").number
        };
        let directories: Vec<u64> = (0..TASKS).map(directory).collect();
        let tasks = (0..).zip(&directories);
        let tasks = tasks.map(|(nth, at)| Box::pin(task(&fs, *at, nth, &done)) as Task<'_>);
        interleave(tasks.collect(), &mut rng);
        let Some(failed_at) = fs.lines().failed_at.get() else {
            continue;
        };
        failed += 1;
        // Others were just about to store something, and to persist it.
        let behind = lines.changes() - failed_at;
        assert!(behind <= 3 * TASKS as usize, "seed {seed}: {behind}");
        for medium in lines.some_after_cut(failed_at, 4, &mut rng) {
            let (fs, recovered) = block_on(Wpm::open(&medium, 8 << 10)).expect("it opens");
            assert_eq!(recovered.damaged, 0);
            for (directory, name) in done.borrow().iter() {
                let found = block_on(fs.lookup(*directory, name));
                let found = found.or_else(|_| block_on(fs.lookup(fs.root(), name)));
                assert!(
                    found.is_ok(),
                    "seed {seed}: {} was lost",
                    name.escape_ascii()
                );
            }
            let checked = block_on(check(&medium)).unwrap();
            assert_eq!(checked.findings, Vec::<String>::new(), "seed {seed}");
        }
    }
    assert!(failed > 50, "{failed}");
}
