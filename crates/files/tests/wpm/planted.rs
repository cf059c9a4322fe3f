//! The judge finds what is wrong: memory that does less than it is asked to is found by it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use wharf_files::bytes::Wpm;
use wharf_files::lines::{Lines, RamLines};
use wharf_files::testing::ace;
use wharf_files::testing::crash::{OnMedium, Thoroughness, assert_survives};
use wharf_files::testing::recorded_lines::RecordedLines;
use wharf_files::{Fault, FileError};

use super::maker::{IMMEDIATE, WIDE};

/// What a memory does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    Nothing,
    /// No fence waits for anything.
    NoFences,
    /// Every second fence waits for nothing: the one before words, or that behind them.
    EverySecondFence(bool),
    /// Only the first line is flushed.
    OneLine,
    /// Words are not flushed.
    NoWords,
    /// Bytes of a page and more are not flushed.
    NoPages,
}

#[derive(Debug)]
struct Careless {
    lines: RecordedLines,
    mistake: Mistake,
    fences: Cell<u64>,
}

impl Lines for Careless {
    fn bytes(&self) -> u64 {
        self.lines.bytes()
    }

    async fn load(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.lines.load(at, out).await
    }

    async fn store(&self, at: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.lines.store(at, bytes).await
    }

    async fn persist(&self, at: u64, bytes: u64) -> Result<(), Fault> {
        match self.mistake {
            Mistake::OneLine => self.lines.persist(at, 1).await,
            Mistake::NoWords if bytes == 8 => Ok(()),
            Mistake::NoPages if bytes >= 4096 => Ok(()),
            _ => self.lines.persist(at, bytes).await,
        }
    }

    async fn fence(&self) -> Result<(), Fault> {
        let nth = self.fences.replace(self.fences.get() + 1);
        match self.mistake {
            Mistake::NoFences => Ok(()),
            Mistake::EverySecondFence(odd) if (nth % 2 == 1) == odd => Ok(()),
            _ => self.lines.fence().await,
        }
    }
}

struct Plant(Mistake);

impl OnMedium for Plant {
    type FileSystem = Wpm<Careless>;
    type Recording = RecordedLines;

    async fn make(&self) -> RamLines {
        WIDE.make().await
    }

    async fn open(&self, lines: &RecordedLines) -> Result<Rc<Self::FileSystem>, FileError> {
        let careless = Careless {
            lines: lines.clone(),
            mistake: self.0,
            fences: Cell::new(0),
        };
        let (fs, recovered) = Wpm::open(careless, 1 << 20).await?;
        assert_eq!(recovered.damaged, 0);
        Ok(Rc::new(fs))
    }

    async fn check(&self, _: &Self::FileSystem, _: &RecordedLines) -> Result<(), String> {
        Ok(())
    }
}

/// Whether some short programs survive.
fn survives(mistake: Mistake) -> bool {
    let how = Thoroughness {
        first_step: ace::setup().len(),
        ..IMMEDIATE
    };
    let run = || {
        for (seed, program) in ace::programs(1).enumerate() {
            assert_survives(&Plant(mistake), &program.steps, seed as u64, how);
        }
    };
    catch_unwind(AssertUnwindSafe(run)).is_ok()
}

#[test]
fn memory_that_does_less_than_it_is_asked_to_is_found_by_the_judge() {
    assert!(survives(Mistake::Nothing));
    for mistake in [
        Mistake::NoFences,
        Mistake::EverySecondFence(false),
        Mistake::EverySecondFence(true),
        Mistake::OneLine,
        Mistake::NoWords,
        Mistake::NoPages,
    ] {
        assert!(!survives(mistake), "{mistake:?} is not found");
    }
}
