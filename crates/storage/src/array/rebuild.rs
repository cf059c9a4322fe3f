//! A new member filled window by window, while the array is in use.
//!
//! Up to a mark, the new member holds what it should and takes part in writes; beyond it is left out. Each step
//! locks the window at the mark, fills it from the others, and moves the mark on, so that a write sees it on one
//! side or the other. Now and then the mark is written down, when what is below it is durable; an array that was
//! closed or cut goes on from there.

use std::sync::Arc;

use rustix::io::Errno;

use crate::array::ArrayError;
use crate::array::layout::Level;
use crate::array::state::Shared;
use crate::array::superblock::MemberState;
use crate::blocking::Blocking;
use crate::io::{IoError, Op};
use wharf_runtime::xor_into;

/// Windows between two marks that are written down: 256 MiB of the member.
const SAVE_WINDOWS: u64 = 4096;

/// The rebuilding of one member. Dropping it pauses it.
pub struct Rebuild {
    shared: Arc<Shared>,
    member: u32,
    /// The members that are read for it, by number.
    sources: Vec<(u32, Blocking)>,
    way: Blocking,
}

impl Rebuild {
    pub(super) fn new(shared: &Arc<Shared>) -> Result<Option<Rebuild>, ArrayError> {
        let rebuilding = |m: &u32| shared.state(*m) == MemberState::Rebuilding;
        let Some(member) = (0..shared.shape.members).find(rebuilding) else {
            return Ok(None);
        };
        let needed = |m: &u32| match shared.shape.level {
            Level::Raid10 => *m == member ^ 1,
            Level::Raid0 | Level::Raid5 => *m != member,
        };
        let mut sources = Vec::new();
        for source in (0..shared.shape.members).filter(needed) {
            sources.push((source, shared.way(source)?));
        }
        Ok(Some(Rebuild {
            way: shared.way(member)?,
            shared: shared.clone(),
            member,
            sources,
        }))
    }

    /// The member.
    pub fn member(&self) -> u32 {
        self.member
    }

    /// Windows done.
    pub fn done(&self) -> u64 {
        self.shared.rebuilt_windows()
    }

    /// Windows in all.
    pub fn total(&self) -> u64 {
        self.shared.shape.windows()
    }

    /// Fills the next window; whether there are more. The last step makes the member active.
    pub fn step(&mut self) -> Result<bool, ArrayError> {
        let window = self.done();
        if self.shared.state(self.member) != MemberState::Rebuilding {
            return Err(ArrayError::Degraded(self.member));
        }
        if window < self.total() {
            self.fill(window)?;
        }
        let done = self.done();
        if done == self.total() {
            self.way.flush()?;
            self.shared.save_rebuilt(done)?;
            self.shared.activate(self.member)?;
            return Ok(false);
        }
        if done.is_multiple_of(SAVE_WINDOWS) {
            self.way.flush()?;
            self.shared.save_rebuilt(done)?;
        }
        Ok(true)
    }

    /// Does all that is left.
    pub fn finish(mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<(), ArrayError> {
        while self.step()? {
            progress(self.done(), self.total());
        }
        progress(self.total(), self.total());
        Ok(())
    }

    fn fill(&mut self, window: u64) -> Result<(), ArrayError> {
        let _guard = self.shared.lock(window);
        let offset = self.shared.shape.window_offset(window);
        let len = self.shared.shape.window_bytes() as usize;
        let (mut sum, mut bytes) = (vec![0; len], vec![0; len]);
        for (source, way) in &mut self.sources {
            if !self.shared.usable(*source, window) {
                let (op, errno) = (Op::Read, Errno::NODEV);
                return Err(IoError { op, offset, errno }.into());
            }
            way.read(offset, &mut bytes)?;
            xor_into(&mut sum, &bytes);
        }
        if let Err(error) = self.way.write(offset, &sum) {
            self.shared.fail(self.member, error)?;
            return Err(error.into());
        }
        self.shared.set_rebuilt(window + 1);
        Ok(())
    }
}
