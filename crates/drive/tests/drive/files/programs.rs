//! Random programs of files, each step on another core, beside the model; and power cuts in them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use wharf_drive::PowerSwitch;
use wharf_drive::features::files::{At, FileSystemOfDrive};
use wharf_files::block_on;
use wharf_files::model::{Model, ModelLimits};
use wharf_files::testing::beside::{new_model, time_of};
use wharf_files::testing::history::{History, State};
use wharf_files::testing::program::{Operation, Step, callers};
use wharf_files::testing::random::Steps;
use wharf_files::testing::subject::{Answer, Subject, Users};
use wharf_files::testing::taste::Taste;
use wharf_files::testing::view::{Likeness, View, look, view};
use wharf_files::vfs::SessionLimits;
use wharf_runtime::{Rng, Seed};

use super::support::{Home, Programs, findings, new_rig, run, run_on};
use crate::support::host::Host;
use crate::support::rig::{Rig, Script};

/// Power cuts of each program.
const CUTS: u64 = 12;

thread_local! {
    /// Who uses the file system of the drive that runs on this thread, between two steps.
    static USERS: RefCell<Option<Users<Rc<FileSystemOfDrive>>>> = const { RefCell::new(None) };
    /// Steps that were begun, and that have been acknowledged.
    static BEGUN: Cell<usize> = const { Cell::new(0) };
    static DONE: Cell<usize> = const { Cell::new(0) };
}

/// A program, what it answers, and what may be there when it is cut.
struct Expected {
    program: Vec<Step>,
    answers: Vec<Answer>,
    history: History,
    last: View,
}

impl Expected {
    fn new(home: Home, seed: u64, steps: usize) -> Expected {
        let mut random = Steps::new(Seed(seed).child("program").rng(), Taste::default());
        let mut program = random.program(steps);
        program.push(Step::of_root(Operation::SyncAll));
        let model: &'static Model = Box::leak(Box::new(new_model(ModelLimits::default())));
        let mut oracle = Users::new(&model, &callers(), SessionLimits::default());
        let mut answers = Vec::new();
        let before = block_on(view(model)).unwrap();
        let mut history = match home {
            Home::Pages => History::new(before),
            // wpm promises more.
            Home::Modules | Home::Both => History::of_immediate(before),
        };
        for (at, step) in program.iter().enumerate() {
            let number = match &step.operation {
                Operation::Sync { slot, .. } => block_on(oracle.number(step.user, *slot)),
                _ => None,
            };
            let answer = block_on(oracle.step(step, time_of(at)));
            let nameless = block_on(oracle.nameless());
            let seen = nameless
                .iter()
                .map(|open| block_on(look(model, open)).unwrap());
            let state = State {
                view: block_on(view(model)).unwrap(),
                nameless: seen.collect(),
            };
            history.push(step, answer == Answer::Done, number, state);
            answers.push(answer);
        }
        Expected {
            program,
            answers,
            history,
            last: block_on(view(model)).unwrap(),
        }
    }
}

/// One step, in a file task.
async fn step(at: At<'_>, step: Step, nth: usize, right: Answer) {
    let fs = at.file_system().await.unwrap();
    let users = USERS.take();
    let mut users = users.unwrap_or_else(|| Users::new(&fs, &callers(), SessionLimits::default()));
    let answer = users.step(&step, time_of(nth)).await;
    assert_eq!(answer, right, "step {nth}: {step}");
    USERS.set(Some(users));
}

/// All steps, each on a core that `rng` draws, once there is a file system.
async fn play(host: &mut Host, cores: u32, mut rng: Rng, steps: Vec<(Step, Answer)>) {
    run_on(host, 0, |at| {
        Box::pin(async move { drop(at.file_system().await.unwrap()) })
    })
    .await;
    for (nth, (program, right)) in steps.into_iter().enumerate() {
        BEGUN.set(nth + 1);
        let core = rng.below(u64::from(cores)) as u32;
        run_on(host, core, move |at| {
            Box::pin(step(at, program, nth, right))
        })
        .await;
        DONE.set(nth + 1);
    }
}

/// What is on a drive, seen in a file task of its last core, and whether all of it fits together.
fn found(rig: &mut Rig, cores: u32) -> View {
    USERS.set(None);
    thread_local! {
        static SEEN: RefCell<Option<View>> = const { RefCell::new(None) };
    }
    run(rig, move |mut host| async move {
        run_on(&mut host, cores - 1, |at| {
            Box::pin(async move {
                let fs = at.file_system().await.unwrap();
                SEEN.set(Some(view(&*fs).await.unwrap()));
                let found = findings(&fs).await;
                assert!(found.is_empty(), "{found:?}");
            })
        })
        .await;
    });
    SEEN.take().unwrap()
}

/// Plays a program on a new drive until its end, or the power's. Gives the changes of the media.
fn run_program(rig: &mut Rig, expected: &Expected, seed: u64, power: &PowerSwitch) -> u64 {
    BEGUN.set(0);
    DONE.set(0);
    USERS.set(None);
    let steps: Vec<_> = expected
        .program
        .iter()
        .cloned()
        .zip(expected.answers.clone())
        .collect();
    let (cores, rng) = (rig.config().firmware.cores, Seed(seed).child("cores").rng());
    let script: Script =
        Box::new(move |mut host| Box::pin(async move { play(&mut host, cores, rng, steps).await }));
    rig.seed = Seed(seed);
    rig.give_feature(&Programs);
    rig.run_clients(power, vec![script]);
    USERS.set(None);
    power.changes()
}

fn new_drive(home: Home, cores: u32) -> Rig {
    new_rig(home.config(cores, 1_600))
}

fn plays_as_the_model(home: Home, cores: u32, seed: u64, steps: usize) {
    println!("{home:?}, seed {seed}, {cores} cores");
    let expected = Expected::new(home, seed, steps);
    let mut rig = new_drive(home, cores);
    run_program(
        &mut rig,
        &expected,
        seed,
        &PowerSwitch::cut_after(u64::MAX - 1),
    );
    assert_eq!(DONE.get(), steps + 1);
    let written = rig.erase_counts().into_iter().sum::<u32>();
    let seen = found(&mut rig, cores);
    let unlike = seen.unlike(&expected.last, Likeness::TREE);
    assert!(unlike.is_none(), "{}", unlike.unwrap());
    println!("{written} blocks were erased");
}

#[test]
fn programs_do_on_any_core_what_the_model_does() {
    for cores in [1, 2, 4] {
        for home in Home::ALL {
            (0..3).for_each(|seed| plays_as_the_model(home, cores, seed, 150));
        }
    }
}

/// Cuts the power at random places of a program.
fn survives_cuts(home: Home, cores: u32, seed: u64, steps: usize) {
    println!("{home:?}, seed {seed}, {cores} cores");
    let expected = Expected::new(home, seed, steps);
    let mut made = new_drive(home, cores);
    let before = PowerSwitch::cut_after(u64::MAX - 1);
    let nothing = Expected::new(home, seed, 0);
    let made_by = run_program(&mut made, &nothing, seed, &before);
    let whole = PowerSwitch::cut_after(u64::MAX - 1);
    let all = run_program(&mut new_drive(home, cores), &expected, seed, &whole);
    assert!(all > made_by, "the program changes something");
    let mut rng = Seed(seed).child("cuts").rng();
    for _ in 0..CUTS {
        let cut = made_by + 1 + rng.below(all - made_by);
        let mut rig = new_drive(home, cores);
        run_program(&mut rig, &expected, seed, &PowerSwitch::cut_after(cut));
        let (done, begun) = (DONE.get(), BEGUN.get());
        if begun == 0 {
            // In the making: there may be no file system.
            continue;
        }
        let seen = found(&mut rig, cores);
        let judged = expected.history.judge(&seen, done, begun);
        judged.unwrap_or_else(|wrong| {
            panic!("seed {seed}, cut after {cut} changes, {done} to {begun} steps: {wrong}")
        });
    }
}

#[test]
fn after_a_power_cut_there_is_what_some_number_of_steps_leave() {
    for cores in [1, 2, 4] {
        for home in Home::ALL {
            (10..12).for_each(|seed| survives_cuts(home, cores, seed, 60));
        }
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    let one = |home| {
        let expected = Expected::new(home, 20, 60);
        let mut rig = new_drive(home, 2);
        let power = PowerSwitch::cut_after(u64::MAX - 1);
        let changes = run_program(&mut rig, &expected, 20, &power);
        (changes, rig.elapsed_ns, rig.erase_counts())
    };
    for home in Home::ALL {
        assert_eq!(one(home), one(home));
    }
}
