//! One program on two file systems, side by side: every answer and, in the end, all that can be
//! seen are alike.

use std::ops::Deref;

use super::program::{Fill, Operation, Step, callers, listing};
use super::shrink::shrink;
use super::subject::{Answer, Subject, Users};
use super::view::{Likeness, View, view};
use crate::attributes::Owner;
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::model::{Model, ModelLimits};
use crate::vfs::SessionLimits;

/// The mode of the root of all file systems that programs run on: every user may make something
/// there.
pub const ROOT_MODE: u16 = 0o777;

/// The time at which a program begins.
pub const START_NS: u64 = 1_000_000_000;

/// A model as programs begin with.
pub fn new_model(limits: ModelLimits) -> Model {
    Model::new(limits, ROOT_MODE, Owner::default(), START_NS)
}

/// The time of a step.
pub fn time_of(step: usize) -> u64 {
    START_NS + (step as u64 + 1) * 1_000
}

/// What was not alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The step, or nothing if it was found in the end.
    pub step: Option<usize>,
    /// What it was: the subject's first.
    pub what: String,
}

/// What a subject may say that the model does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Room {
    /// There is room for everything.
    #[default]
    Enough,
    /// It may be full (`ENOSPC`), and then has changed nothing; or has written a first part.
    Little,
}

/// What the model is to do when a subject has answered: nothing if that was full.
fn of_model(step: &Step, answer: &Answer, room: Room) -> Option<Step> {
    match (answer, &step.operation) {
        _ if room == Room::Enough => Some(step.clone()),
        (answer, _) if answer.is(Errno::ENOSPC) => None,
        (Answer::Number(bytes), Operation::Write { slot, offset, fill }) if *bytes > 0 => {
            let bytes = fill.bytes.min(*bytes);
            let operation = Operation::Write {
                slot: *slot,
                offset: *offset,
                fill: Fill { bytes, ..*fill },
            };
            let user = step.user;
            Some(Step { user, operation })
        }
        _ => Some(step.clone()),
    }
}

/// Does a step on two subjects, and compares the answers.
///
/// # Errors
/// Both answers, if they differ.
pub async fn compare_step(
    subject: &mut impl Subject,
    oracle: &mut impl Subject,
    (step, now_ns): (&Step, u64),
    room: Room,
) -> Result<Answer, String> {
    let answer = subject.step(step, now_ns).await;
    let Some(step) = of_model(step, &answer, room) else {
        return Ok(answer);
    };
    let right = oracle.step(&step, now_ns).await;
    match answer == right {
        true => Ok(answer),
        false => Err(format!("{answer:?}, not {right:?}")),
    }
}

/// Runs a program on two subjects, until they answer differently.
///
/// # Errors
/// The difference.
pub async fn compare_answers(
    subject: &mut impl Subject,
    oracle: &mut impl Subject,
    program: &[Step],
    room: Room,
) -> Result<(), Difference> {
    for (at, step) in program.iter().enumerate() {
        let compared = compare_step(subject, oracle, (step, time_of(at)), room).await;
        compared.map_err(|what| Difference {
            step: Some(at),
            what,
        })?;
    }
    Ok(())
}

/// Runs a program on a file system with an empty root ([`ROOT_MODE`], of root) and on a model;
/// gives the first difference.
///
/// # Errors
/// The difference.
pub async fn run<P: Deref<Target: FileSystem> + Clone>(
    fs: &P,
    model: &Model,
    program: &[Step],
    (like, room): (Likeness, Room),
) -> Result<(), Difference> {
    let (callers, limits) = (callers(), SessionLimits::default());
    let mut subject = Users::new(fs, &callers, limits);
    let mut oracle = Users::new(&model, &callers, limits);
    compare_answers(&mut subject, &mut oracle, program, room).await?;
    let closed = (subject.close_all().await, oracle.close_all().await);
    if closed != (Ok(()), Ok(())) {
        return Err(Difference::in_the_end(format!("closing gives {closed:?}")));
    }
    compare_views(&view(&**fs).await, &view(model).await, like)
}

/// Compares what can be seen in the end.
///
/// # Errors
/// The difference.
pub fn compare_views(
    seen: &Result<View, FileError>,
    right: &Result<View, FileError>,
    like: Likeness,
) -> Result<(), Difference> {
    let unlike = match (seen, right) {
        (Ok(seen), Ok(right)) => seen.unlike(right, like).map(|unlike| unlike.to_string()),
        failed => Some(format!("one look failed: {failed:?}")),
    };
    unlike.map_or(Ok(()), |what| Err(Difference::in_the_end(what)))
}

impl Difference {
    /// What was found when the program had ended.
    pub fn in_the_end(what: String) -> Difference {
        Difference { step: None, what }
    }
}

/// Runs a program by `run`, which begins anew each time; if there is a difference, finds a shorter
/// program that has one too.
///
/// # Panics
/// If there is a difference: with the program, and `seed`.
pub fn assert_alike(seed: u64, program: &[Step], run: impl Fn(&[Step]) -> Result<(), Difference>) {
    if run(program).is_ok() {
        return;
    }
    let shortest = shrink(program, |program| run(program).is_err());
    let Err(difference) = run(&shortest) else {
        panic!("seed {seed}: it fails, and then it does not");
    };
    let place = match difference.step {
        Some(step) => format!("step {step} answers"),
        None => "in the end".to_string(),
    };
    panic!(
        "seed {seed}, {place}: {}\n{}",
        difference.what,
        listing(&shortest)
    );
}
