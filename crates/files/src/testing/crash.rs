//! Power cuts behind every change of the media, and the judgement of what is there afterwards.
//!
//! 1. A program runs on a file system over [`Recording`], beside a model; every answer is
//!    compared.
//! 2. For each change of the media, and several parts of what was not flushed: the file system is
//!    opened on what is left.
//! 3. [`History::judge`] says whether that may be; then the file system is checked, and has to go
//!    on working.
//! 4. Some of these openings are cut themselves, behind each of their own changes: what is there
//!    after that is judged again.

use std::rc::Rc;

use rustc_hash::FxHashMap;
use wharf_runtime::{Rng, Seed};

use super::beside::{Difference, Room, compare_step, new_model, time_of};
use super::history::{History, State};
use super::program::{Operation, Step, callers, listing};
use super::recorded::Recording;
use super::shrink::shrink;
use super::subject::{Answer, Subject, Users};
use super::view::{Likeness, View, look, view};
use crate::errno::{Errno, FileError};
use crate::file_system::FileSystem;
use crate::model::ModelLimits;
use crate::vfs::SessionLimits;

/// How a file system comes to be.
#[allow(async_fn_in_trait)] // the futures stay on their CPU: no Send is wanted
pub trait OnMedium {
    /// It.
    type FileSystem: FileSystem;

    /// What it stands on.
    type Recording: Recording;

    /// A medium with an empty root of root's, with the mode
    /// [`ROOT_MODE`](super::beside::ROOT_MODE).
    async fn make(&self) -> <Self::Recording as Recording>::Medium;

    /// Opens what is on the media, after a power cut or not.
    ///
    /// # Errors
    /// If it cannot be opened: never after a power cut.
    async fn open(&self, media: &Self::Recording) -> Result<Rc<Self::FileSystem>, FileError>;

    /// Looks whether all that the file system keeps agrees, when nothing is open.
    ///
    /// # Errors
    /// What does not.
    async fn check(&self, fs: &Self::FileSystem, media: &Self::Recording) -> Result<(), String>;
}

/// How thoroughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thoroughness {
    /// The first step in which the power is cut.
    pub first_step: usize,
    /// Cuts behind each change, each with another part of what was not flushed.
    pub parts: u32,
    /// One of so many openings is cut behind each of its own changes; 0: none.
    pub openings_one_of: u64,
    /// Whether the file system may be full.
    pub room: Room,
    /// Whether all that a step does is durable when it is done: more than a file system has to
    /// promise.
    pub is_immediate: bool,
}

impl Default for Thoroughness {
    fn default() -> Thoroughness {
        Thoroughness {
            first_step: 0,
            parts: 2,
            openings_one_of: 16,
            room: Room::Enough,
            is_immediate: false,
        }
    }
}

/// What was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Judged {
    /// Power cuts.
    pub cuts: u64,
    /// Media that were opened: the same medium once.
    pub openings: u64,
    /// Cuts of openings among the cuts.
    pub cuts_of_openings: u64,
    /// Cuts after which not all steps that were done were there.
    pub lost_steps: u64,
}

impl std::ops::AddAssign for Judged {
    fn add_assign(&mut self, more: Judged) {
        self.cuts += more.cuts;
        self.openings += more.openings;
        self.cuts_of_openings += more.cuts_of_openings;
        self.lost_steps += more.lost_steps;
    }
}

/// A program that ran.
struct Recorded<R> {
    media: R,
    history: History,
    /// How many changes of the media there were before each step, and after the last.
    changes: Vec<usize>,
    room: Room,
}

impl<R> Recorded<R> {
    /// Steps that were done for certain, and those that were begun, when `changes` changes were
    /// made.
    fn steps_at(&self, changes: usize) -> (usize, usize) {
        let done = self.changes.iter().skip(1);
        let begun = self.changes[..self.changes.len() - 1].iter();
        (
            done.take_while(|after| **after <= changes).count(),
            begun.take_while(|before| **before <= changes).count(),
        )
    }
}

/// Runs a program beside a model.
async fn record<M: OnMedium>(
    maker: &M,
    program: &[Step],
    how: Thoroughness,
) -> Result<Recorded<M::Recording>, Difference> {
    let media = M::Recording::new(&maker.make().await);
    let failed = |error: FileError| Difference::in_the_end(error.to_string());
    let fs = maker.open(&media).await.map_err(failed)?;
    let model = new_model(ModelLimits::default());
    let (callers, limits) = (callers(), SessionLimits::default());
    let mut subject = Users::new(&fs, &callers, limits);
    let mut oracle = Users::new(&&model, &callers, limits);
    let begin = match how.is_immediate {
        true => History::of_immediate,
        false => History::new,
    };
    let mut history = begin(view(&model).await.map_err(failed)?);
    let mut changes = vec![media.changes()];
    for (at, step) in program.iter().enumerate() {
        let now_ns = time_of(at);
        let number = match &step.operation {
            Operation::Sync { slot, .. } => oracle.number(step.user, *slot).await,
            _ => None,
        };
        let compared = compare_step(&mut subject, &mut oracle, (step, now_ns), how.room).await;
        let answer = compared.map_err(|what| Difference {
            step: Some(at),
            what,
        })?;
        let mut state = State {
            view: view(&model).await.map_err(failed)?,
            nameless: Vec::new(),
        };
        for open in oracle.nameless().await {
            let seen = look(&model, &open).await.map_err(failed)?;
            state.nameless.push(seen);
        }
        history.push(step, answer == Answer::Done, number, state);
        changes.push(media.changes());
    }
    Ok(Recorded {
        media,
        history,
        changes,
        room: how.room,
    })
}

/// What was found on a medium, which was judged.
struct Known<M> {
    /// As long as it is there, another medium with its identity is the same.
    _medium: M,
    found: View,
    /// When it was judged last: steps that were done, and that were begun.
    when: (usize, usize),
    /// How many steps it is then.
    steps: usize,
}

/// What is left of a medium after it was opened.
struct Opened<R> {
    media: R,
    /// Changes that the opening made.
    changes: usize,
}

/// A program that ran, and what was found behind its cuts so far.
struct Sweep<'a, M: OnMedium> {
    maker: &'a M,
    recorded: &'a Recorded<M::Recording>,
    /// Cuts may leave the same: that is opened once.
    known: FxHashMap<Vec<(u64, usize)>, Known<MediumOf<M>>>,
}

type MediumOf<M> = <<M as OnMedium>::Recording as Recording>::Medium;

impl<M: OnMedium> Sweep<'_, M> {
    /// Judges what is left after a cut. Gives how many steps it is, and the opened media if it was
    /// not known already.
    async fn judge(
        &mut self,
        changes: usize,
        medium: MediumOf<M>,
    ) -> Result<(usize, Option<Opened<M::Recording>>), String> {
        let when = self.recorded.steps_at(changes);
        let history = &self.recorded.history;
        let identity = M::Recording::identity(&medium);
        if let Some(known) = identity.as_ref().and_then(|id| self.known.get_mut(id)) {
            if known.when != when {
                known.steps = history.judge(&known.found, when.0, when.1)?;
                known.when = when;
            }
            return Ok((known.steps, None));
        }
        let (found, opened) = self.open(&medium).await?;
        let steps = history.judge(&found, when.0, when.1)?;
        if let Some(identity) = identity {
            let known = Known {
                _medium: medium,
                found,
                when,
                steps,
            };
            self.known.insert(identity, known);
        }
        Ok((steps, Some(opened)))
    }

    /// Opens what is left after a cut, looks at it, checks it, and uses it.
    async fn open(&self, medium: &MediumOf<M>) -> Result<(View, Opened<M::Recording>), String> {
        let (maker, media) = (self.maker, M::Recording::new(medium));
        let fs = maker
            .open(&media)
            .await
            .map_err(|error| format!("it cannot be opened: {error}"))?;
        let changes = media.changes();
        let found = view(&*fs)
            .await
            .map_err(|error| format!("it cannot be looked at: {error}"))?;
        maker.check(&fs, &media).await?;
        works(&fs, self.recorded.room).await?;
        maker.check(&fs, &media).await?;
        let after = view(&*fs)
            .await
            .map_err(|error| format!("it cannot be looked at again: {error}"))?;
        if let Some(unlike) = after.unlike(&found, Likeness::ALL)
            && unlike.path != b"/"
        {
            return Err(format!("using it has changed {unlike}"));
        }
        Ok((found, Opened { media, changes }))
    }

    /// Cuts the power behind every change that an opening made.
    async fn cut_opening(
        &mut self,
        changes: usize,
        opened: &Opened<M::Recording>,
        rng: &mut Rng,
    ) -> Result<u64, String> {
        let mut cuts = 0;
        for at in 0..=opened.changes {
            for medium in opened.media.some_after_cut(at, 1, rng) {
                self.judge(changes, medium).await?;
                cuts += 1;
            }
        }
        Ok(cuts)
    }
}

/// Makes a file, writes to it, and takes it away again.
async fn works<F: FileSystem>(fs: &Rc<F>, room: Room) -> Result<(), String> {
    let mut root = Users::new(fs, &callers()[..1], SessionLimits::default());
    let path = b"/what nobody else makes".to_vec();
    let fill = super::program::Fill {
        stamp: 77,
        bytes: 5_000,
    };
    let steps = [
        Operation::Open {
            slot: 0,
            path: path.clone(),
            flags: crate::flags::OpenFlags::CREATE,
            mode: 0o600,
        },
        Operation::Write {
            slot: 0,
            offset: 0,
            fill,
        },
        Operation::Sync {
            slot: 0,
            what: crate::arguments::Sync::All,
        },
        Operation::Close { slot: 0 },
        Operation::Unlink { path },
        Operation::SyncAll,
    ];
    for operation in steps {
        let step = Step::of_root(operation);
        let answer = root.step(&step, time_of(1_000)).await;
        if answer.is(Errno::ENOSPC) && room == Room::Little {
            return Ok(());
        }
        if let Answer::Failed(errno) = answer {
            return Err(format!("it does not go on: {step} fails with {errno}"));
        }
    }
    Ok(())
}

/// Runs a program, and cuts the power everywhere.
///
/// # Errors
/// The first thing that is wrong, or was not alike without any cut.
pub async fn sweep<M: OnMedium>(
    maker: &M,
    program: &[Step],
    seed: Seed,
    how: Thoroughness,
) -> Result<Judged, Difference> {
    let recorded = record(maker, program, how).await?;
    let mut sweep = Sweep {
        maker,
        recorded: &recorded,
        known: FxHashMap::default(),
    };
    let mut rng = seed.child("cuts").rng();
    let mut judged = Judged::default();
    let last = recorded.media.changes();
    for changes in recorded.changes[how.first_step.min(program.len())]..=last {
        for medium in recorded.media.some_after_cut(changes, how.parts, &mut rng) {
            let (done, begun) = recorded.steps_at(changes);
            let wrong = |what: String| {
                let what = format!("cut behind change {changes}, {done} to {begun} steps: {what}");
                Difference::in_the_end(what)
            };
            let (steps, opened) = sweep.judge(changes, medium).await.map_err(wrong)?;
            judged.cuts += 1;
            judged.lost_steps += u64::from(steps < done);
            judged.openings += u64::from(opened.is_some());
            let Some(opened) = opened else { continue };
            if how.openings_one_of > 0 && rng.chance(1, how.openings_one_of) {
                let cuts = sweep.cut_opening(changes, &opened, &mut rng).await;
                let cuts = cuts.map_err(|what| wrong(format!("opened, and cut again: {what}")))?;
                judged.cuts_of_openings += cuts;
                judged.cuts += cuts;
            }
        }
    }
    Ok(judged)
}

/// Sweeps a program; if something is wrong, finds a shorter program where something is.
///
/// # Panics
/// If something is wrong: with the program, and `seed`.
pub fn assert_survives<M: OnMedium>(
    maker: &M,
    program: &[Step],
    seed: u64,
    how: Thoroughness,
) -> Judged {
    let run = |program: &[Step]| crate::block_on(sweep(maker, program, Seed(seed), how));
    let difference = match run(program) {
        Ok(judged) => return judged,
        Err(difference) => difference,
    };
    // Steps before the first cut stay: they are what it begins with.
    let (before, rest) = program.split_at(how.first_step.min(program.len()));
    let whole = |rest: &[Step]| [before, rest].concat();
    let shortest = whole(&shrink(rest, |rest| run(&whole(rest)).is_err()));
    let last = run(&shortest).err().unwrap_or(difference);
    panic!(
        "seed {seed}: {:?} {}\n{}",
        last.step,
        last.what,
        listing(&shortest)
    );
}
