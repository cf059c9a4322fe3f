//! Whether redundancy agrees: parity is the sum of the data, mirrors are equal.

use std::sync::Arc;

use crate::array::ArrayError;
use crate::array::layout::Level;
use crate::array::state::Shared;
use crate::array::superblock::MemberState;
use crate::blocking::Blocking;
use wharf_runtime::xor_into;

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Windows looked at.
    pub windows: u64,
    /// Windows whose redundancy did not agree.
    pub mismatches: u64,
    /// Of these, how many were made to agree.
    pub repaired: u64,
}

/// Checks all windows.
pub(super) fn run(
    shared: &Arc<Shared>,
    repair: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckReport, ArrayError> {
    if shared.shape.level == Level::Raid0 {
        return Ok(CheckReport::default());
    }
    let out = |m: &u32| shared.state(*m) != MemberState::Active;
    if let Some(member) = (0..shared.shape.members).find(out) {
        return Err(ArrayError::Degraded(member));
    }
    let mut report = CheckReport::default();
    let mut checker = Checker::new(shared)?;
    for window in 0..shared.shape.windows() {
        checker.check(window, repair, &mut report)?;
        progress(window + 1, shared.shape.windows());
    }
    if report.repaired > 0 {
        shared.flush_members()?;
    }
    Ok(report)
}

/// Makes mirrors equal in these windows, where both are there.
pub(super) fn repair_windows(
    shared: &Arc<Shared>,
    windows: impl Iterator<Item = u64>,
) -> Result<(), ArrayError> {
    let mut checker = Checker::new(shared)?;
    let mut report = CheckReport::default();
    for window in windows {
        checker.check(window, true, &mut report)?;
    }
    Ok(())
}

struct Checker<'a> {
    shared: &'a Arc<Shared>,
    /// A way to each member that is there.
    ways: Vec<Option<Blocking>>,
    bytes: Vec<Vec<u8>>,
}

impl Checker<'_> {
    fn new(shared: &Arc<Shared>) -> Result<Checker<'_>, ArrayError> {
        let mut ways = Vec::new();
        let mut bytes = Vec::new();
        for member in 0..shared.shape.members {
            let there = shared.target(member).is_some();
            ways.push(if there {
                Some(shared.way(member)?)
            } else {
                None
            });
            bytes.push(vec![0; shared.shape.window_bytes() as usize]);
        }
        Ok(Checker {
            shared,
            ways,
            bytes,
        })
    }

    fn check(
        &mut self,
        window: u64,
        repair: bool,
        report: &mut CheckReport,
    ) -> Result<(), ArrayError> {
        let _guard = self.shared.lock(window);
        let shape = self.shared.shape;
        let offset = shape.window_offset(window);
        for (member, (way, bytes)) in (0..).zip(self.ways.iter_mut().zip(&mut self.bytes)) {
            if let Some(way) = way.as_mut().filter(|_| self.shared.usable(member, window)) {
                way.read(offset, bytes)?;
            }
        }
        report.windows += 1;
        let mut wrong: Vec<u32> = Vec::new();
        match shape.level {
            Level::Raid0 => {}
            Level::Raid5 => {
                let parity = shape.parity_member(window);
                let mut sum = vec![0; shape.window_bytes() as usize];
                for member in (0..shape.members).filter(|m| *m != parity) {
                    xor_into(&mut sum, &self.bytes[member as usize]);
                }
                if sum != self.bytes[parity as usize] {
                    self.bytes[parity as usize] = sum;
                    wrong.push(parity);
                }
            }
            Level::Raid10 => {
                for first in (0..shape.members).step_by(2) {
                    let both =
                        self.shared.usable(first, window) && self.shared.usable(first + 1, window);
                    let (a, b) = self.bytes.split_at_mut(first as usize + 1);
                    if both && a[first as usize] != b[0] {
                        b[0].copy_from_slice(&a[first as usize]);
                        wrong.push(first + 1);
                    }
                }
            }
        }
        report.mismatches += u64::from(!wrong.is_empty());
        if repair && !wrong.is_empty() {
            for member in wrong {
                let way = self.ways[member as usize].as_mut().expect("it was read");
                way.write(offset, &self.bytes[member as usize])?;
            }
            report.repaired += 1;
        }
        Ok(())
    }
}
