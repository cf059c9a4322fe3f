//! Which side computes: what either is expected to take, by what it took before.
//!
//! The host takes what its reads and writes take, by where pages were before, and its computing. The drive takes the way of pages that it has not
//! ([`DriveRan::dropped_ns`]), its reads and writes by where pages are, its computing, and what lies around that: the command, and waiting for its
//! turn (equation 1 of OmniCache, with the write, and with the way of what is moved; the paper leaves both out). All are means that forget, of
//! what was measured while running. Nothing is known at first, so both sides are tried; later one of 64 goes the other way, if
//! that is not known to be far worse. Who was chosen last stays so as long as the other is not 5 % better.
//!
//! What others wait for a request counts too ([`Model::held_up_ns`]): each would else choose the drive until that is as slow as the host, and all
//! would be slower than they need be.
//!
//! Terms are left out by [`Compute`], as the paper's Figure 8 adds them one by one.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Who computes on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compute {
    /// The host.
    #[default]
    Host,
    /// The drive.
    Drive,
    /// The host if it has more of the pages than the drive's cache has, else the drive.
    Presence,
    /// Whoever is expected to have moved the data first.
    Data,
    /// Whoever is expected to have moved the data and computed first.
    Exec,
    /// The same, with what lies around that: commands, and waiting.
    Dynamic,
}

/// Who computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::stor::cache) enum Side {
    Host,
    Drive,
}

/// How many of the pages are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::stor::cache) struct Places {
    /// In the host's cache.
    pub(in crate::stor::cache) here: u64,
    /// In the drive's.
    pub(in crate::stor::cache) near: u64,
    /// In neither.
    pub(in crate::stor::cache) stored: u64,
}

/// Where a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the host's cache.
    Here,
    /// In the drive's.
    Near,
    /// In neither.
    Stored,
}

/// What the host took, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HostRan {
    pub(super) read_ns: u64,
    pub(super) computed_ns: u64,
    /// Where the pages are after that is cheaper to write than where they were.
    pub(super) written_ns: u64,
}

/// What the drive took, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DriveRan {
    /// For pages that the host had to leave the host.
    pub(super) dropped_ns: u64,
    /// From the command to its end.
    pub(super) all_ns: u64,
    /// Of that, waiting in the drive.
    pub(super) waited_ns: u64,
    /// Of that, reading and writing.
    pub(super) moved_ns: u64,
    /// Of that, computing.
    pub(super) computed_ns: u64,
    /// Other vectors that the core had then.
    pub(super) queued: u32,
}

/// What became of decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::stor::cache) struct Decisions {
    pub(in crate::stor::cache) host: u64,
    pub(in crate::stor::cache) drive: u64,
}

/// A mean that forgets: each new value counts an eighth.
#[derive(Debug, Clone, Copy, Default)]
struct Mean(Option<f64>);

impl Mean {
    fn note(&mut self, value: f64) {
        self.0 = Some(match self.0 {
            Some(mean) => mean + (value - mean) / 8.0,
            None => value,
        });
    }

    fn times(self, count: u64) -> f64 {
        match count {
            0 => 0.0,
            count => self.0.unwrap_or(0.0) * count as f64,
        }
    }
}

/// What was measured of something: its mean, and the least, which is what it takes when nobody is in the way.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    mean: Mean,
    least: Option<f64>,
}

/// A value above the least has that rise by this share of the difference: less may not be seen any more.
const RISES: f64 = 1.0 / 65_536.0;

impl Known {
    fn note(&mut self, value: f64) {
        self.mean.note(value);
        self.least = Some(match self.least {
            Some(least) if least < value => least + (value - least) * RISES,
            _ => value,
        });
    }

    fn least(self, count: u64) -> f64 {
        self.least.unwrap_or(0.0) * count as f64
    }
}

/// Runs of a side after which it is known.
const KNOWN: u64 = 4;

/// One of so many decisions tries the other side.
const EXPLORES: u64 = 64;

/// As long as it is not expected to take so many times as long.
const FAR_WORSE: f64 = 4.0;

/// The other side is chosen if it takes this share of what the last one takes, or less.
const BETTER: f64 = 0.95;

/// What is known, in nanoseconds: of each place for a page, and all else for a page.
#[derive(Debug, Default)]
pub(in crate::stor::cache) struct Model {
    host_here: Known,
    host_near: Known,
    host_stored: Known,
    host_computes: Mean,
    drive_here: Mean,
    drive_near: Known,
    drive_stored: Known,
    drive_computes: Mean,
    /// For a command, without waiting in the drive.
    drive_around: Known,
    /// For a command.
    drive_waits: Mean,
    last: Option<Side>,
    decisions: Decisions,
    /// Of these, decisions for both sides.
    splits: u64,
}

impl Places {
    /// A page more.
    pub(super) fn add(&mut self, place: Place) {
        match place {
            Place::Here => self.here += 1,
            Place::Near => self.near += 1,
            Place::Stored => self.stored += 1,
        }
    }

    fn all(&self) -> u64 {
        self.here + self.near + self.stored
    }
}

impl Model {
    /// Who is to compute.
    pub(in crate::stor::cache) fn choose(&mut self, compute: Compute, places: Places) -> Side {
        let side = match compute {
            Compute::Host => Side::Host,
            Compute::Drive => Side::Drive,
            Compute::Presence if places.here > places.near => Side::Host,
            Compute::Presence => Side::Drive,
            Compute::Data | Compute::Exec | Compute::Dynamic => self.expected(compute, places),
        };
        self.count(side);
        side
    }

    fn count(&mut self, side: Side) {
        match side {
            Side::Host => self.decisions.host += 1,
            Side::Drive => self.decisions.drive += 1,
        }
    }

    /// The host is to compute, as the drive does not.
    pub(super) fn host_alone(&mut self) -> Side {
        self.decisions.host += 1;
        Side::Host
    }

    /// Which pages of a range, which may be cut after each so many, the drive is to have: none, all, or those of one end. Both sides have
    /// their parts at the same time.
    pub(super) fn split(&mut self, compute: Compute, pages: &[Place], step: usize) -> Range<usize> {
        let (none, all) = (0..0, 0..pages.len());
        let mut places = Places::default();
        pages.iter().for_each(|place| places.add(*place));
        let Decisions { host, drive } = self.decisions;
        let drives = match compute {
            Compute::Host => none,
            Compute::Drive => all,
            Compute::Presence if places.here > places.near => none,
            Compute::Presence => all,
            Compute::Data | Compute::Exec | Compute::Dynamic => {
                let half = pages.len() / 2 / step * step;
                let is_known = self.has_run_on_both();
                let is_tried = (host + drive).is_multiple_of(EXPLORES);
                match half {
                    // What cannot be cut is tried on either side.
                    0 if !is_known && host <= drive => none,
                    0 if !is_known => all,
                    // A drive is the slower one where many threads use it: less of what nothing is known of is its.
                    half if !is_known => half.max(pages.len() / 4 * 3 / step * step)..pages.len(),
                    half => match self.balanced(compute, pages, step) {
                        // Who has nothing is tried with half of it.
                        drives if is_tried && half > 0 && drives.is_empty() => 0..half,
                        drives if is_tried && half > 0 && drives == all => half..pages.len(),
                        drives => drives,
                    },
                }
            }
        };
        let (any_host, any_drive) = (drives.len() < pages.len(), !drives.is_empty());
        self.decisions.host += u64::from(any_host);
        self.decisions.drive += u64::from(any_drive);
        self.splits += u64::from(any_host && any_drive);
        drives
    }

    /// The cut with which the later of both sides is expected to end soonest.
    fn balanced(&self, compute: Compute, pages: &[Place], step: usize) -> Range<usize> {
        let around_ns = match compute {
            Compute::Dynamic => self.drive_around.mean.times(1),
            _ => 0.0,
        };
        let costs = |place: &Place| {
            let mut places = Places::default();
            places.add(*place);
            let compute = match compute {
                Compute::Data => Compute::Data,
                _ => Compute::Exec,
            };
            self.expect(compute, places)
        };
        let costs: Vec<(f64, f64)> = pages.iter().map(costs).collect();
        let sum = |costs: &[(f64, f64)]| {
            let add = |sum: (f64, f64), one: &(f64, f64)| (sum.0 + one.0, sum.1 + one.1);
            costs.iter().fold((0.0, 0.0), add)
        };
        let all = sum(&costs);
        let (mut best, mut best_ns) = (0..0, all.0);
        let mut try_cut = |drives: Range<usize>, host_ns: f64, drive_ns: f64| {
            let ends_ns = host_ns.max(drive_ns + around_ns);
            if ends_ns < best_ns {
                (best, best_ns) = (drives, ends_ns);
            }
        };
        let mut before = (0.0, 0.0);
        for (cut, part) in costs.chunks(step).enumerate() {
            let at = cut * step;
            // What is behind the cut is the drive's; then what is before it, with this part.
            try_cut(at..pages.len(), before.0, all.1 - before.1);
            let own = sum(part);
            before = (before.0 + own.0, before.1 + own.1);
            try_cut(0..at + part.len(), all.0 - before.0, before.1);
        }
        best
    }

    /// How many decisions were for both sides.
    pub(super) fn splits(&self) -> u64 {
        self.splits
    }

    fn expected(&mut self, compute: Compute, places: Places) -> Side {
        let Decisions { host, drive } = self.decisions;
        if host < KNOWN || drive < KNOWN {
            return match host <= drive {
                true => Side::Host,
                false => Side::Drive,
            };
        }
        self.compared(compute, places)
    }

    /// Whether either side has computed.
    pub(super) fn has_run_on_both(&self) -> bool {
        self.host_computes.0.is_some() && self.drive_computes.0.is_some()
    }

    /// Who is to compute, for one whose requests are long: one of them on either side says enough.
    pub(super) fn choose_long(&mut self, places: Places) -> Side {
        let compute = Compute::Dynamic;
        if !self.has_run_on_both() {
            return self.choose(compute, places);
        }
        let side = self.compared(compute, places);
        self.count(side);
        side
    }

    /// Who is expected to be done first, or the other to try it.
    fn compared(&mut self, compute: Compute, places: Places) -> Side {
        let Decisions { host, drive } = self.decisions;
        let (host_ns, drive_ns) = self.expect(compute, places);
        let (better, other) = match self.last {
            Some(Side::Drive) if host_ns > BETTER * drive_ns => (Side::Drive, Side::Host),
            Some(Side::Host) if drive_ns > BETTER * host_ns => (Side::Host, Side::Drive),
            _ if host_ns <= drive_ns => (Side::Host, Side::Drive),
            _ => (Side::Drive, Side::Host),
        };
        self.last = Some(better);
        let (least, most) = (host_ns.min(drive_ns), host_ns.max(drive_ns));
        let is_tried = host + drive > 0 && (host + drive).is_multiple_of(EXPLORES);
        match is_tried && most <= FAR_WORSE * least {
            true => other,
            false => better,
        }
    }

    /// What each side is expected to take, in nanoseconds.
    fn expect(&self, compute: Compute, places: Places) -> (f64, f64) {
        let mut host = self.host_here.mean.times(places.here)
            + self.host_near.mean.times(places.near)
            + self.host_stored.mean.times(places.stored);
        let mut drive = self.drive_here.times(places.here)
            + self.drive_near.mean.times(places.near)
            + self.drive_stored.mean.times(places.stored + places.here);
        if compute != Compute::Data {
            host += self.host_computes.times(places.all());
            drive += self.drive_computes.times(places.all());
        }
        if compute == Compute::Dynamic {
            drive += self.drive_around.mean.times(1) + self.drive_waits.times(1);
            let (by_host, by_drive) = self.held_up_ns(places, drive);
            host += by_host;
            drive += by_drive;
        }
        (host, drive)
    }

    /// How long others wait for what either side has the drive do, where the drive is expected to take `drive_ns` in all.
    ///
    /// What takes longer than it need waits for others that are before it; as many will be behind it, and wait for it. So on the drive's side
    /// it is as much as that waiting itself, and on the host's the share of it that its reads and writes keep the drive busy for, beside what
    /// a command on the drive's side does.
    fn held_up_ns(&self, places: Places, drive_ns: f64) -> (f64, f64) {
        let around = self.drive_around.least(1);
        let of_drive = self.drive_near.least(places.near)
            + self.drive_stored.least(places.stored + places.here)
            + self.drive_computes.times(places.all());
        let of_host = self.host_near.least(places.near) + self.host_stored.least(places.stored);
        let waits = (drive_ns - of_drive - around).max(0.0);
        let share = (of_host - around).max(0.0) / of_drive.max(1.0);
        (waits * share.min(1.0), waits)
    }

    /// The host has computed.
    pub(super) fn host_ran(&mut self, places: Places, ran: HostRan) {
        let pages = places.all() as f64;
        let each = [
            (places.here, &mut self.host_here),
            (places.near, &mut self.host_near),
            (places.stored, &mut self.host_stored),
        ];
        // What most of them took is what the others, as far as they are known, leave of it.
        let others_ns = |(count, known): &(u64, &mut Known)| match 2 * count > places.all() {
            true => 0.0,
            false => known.mean.times(*count),
        };
        let others_ns: f64 = each.iter().map(others_ns).sum();
        let most = each.into_iter().find(|(count, _)| 2 * count > places.all());
        if let Some((count, known)) = most {
            let all_ns = (ran.read_ns + ran.written_ns) as f64;
            known.note((all_ns - others_ns).max(0.0) / count as f64);
        }
        self.host_computes.note(ran.computed_ns as f64 / pages);
    }

    /// The drive has computed.
    pub(super) fn drive_ran(&mut self, places: Places, ran: DriveRan) {
        let pages = places.all() as f64;
        if places.here > 0 {
            self.drive_here
                .note(ran.dropped_ns as f64 / places.here as f64);
        }
        let known = match places {
            Places { near: 0, .. } => Some(&mut self.drive_stored),
            Places {
                here: 0, stored: 0, ..
            } => Some(&mut self.drive_near),
            _ => None,
        };
        if let Some(known) = known {
            known.note(ran.moved_ns as f64 / pages);
        }
        self.drive_computes.note(ran.computed_ns as f64 / pages);
        let within = ran.moved_ns + ran.computed_ns;
        // Waiting is as long for the next one as the core has others now.
        let now_ns = u64::from(ran.queued) * ran.computed_ns;
        let around = ran.all_ns.saturating_sub(within + ran.waited_ns);
        self.drive_around.note(around as f64);
        self.drive_waits.note(ran.waited_ns.max(now_ns) as f64);
    }

    pub(in crate::stor::cache) fn decisions(&self) -> Decisions {
        self.decisions
    }
}

#[cfg(test)]
mod tests;
