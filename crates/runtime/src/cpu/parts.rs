//! Work that is done in parts that are less than an operation: each is charged when it is done.

use super::{Accounting, Cpu};
use crate::op::Op;

/// How far into an operation some work is.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// What makes a whole operation, such as the bytes of a page.
    unit: u64,
    /// What has been done of one that has not been counted yet.
    done: u64,
}

/// What a part has come to.
struct Counted {
    /// Operations that it has ended.
    whole: u64,
    /// Parts of one before it, and behind it.
    before: u64,
    after: u64,
}

impl Parts {
    /// Work of which so much makes an operation.
    ///
    /// # Panics
    /// If that is nothing.
    pub fn of(unit: u64) -> Parts {
        assert!(unit > 0, "nothing would ever be done");
        Parts { unit, done: 0 }
    }

    /// So much more has been done; gives how many operations that has ended. The last part of one counts as a whole one at the end.
    pub fn ended(&mut self, more: u64, is_end: bool) -> u64 {
        self.add(more, is_end).whole
    }

    fn add(&mut self, more: u64, is_end: bool) -> Counted {
        let (before, all) = (self.done, self.done + more);
        let whole = match is_end {
            true => all.div_ceil(self.unit),
            false => all / self.unit,
        };
        self.done = all.saturating_sub(whole * self.unit);
        Counted {
            whole,
            before,
            after: self.done,
        }
    }

    /// What the time of a part is, where an operation takes `cost_ns`.
    fn part_ns(&self, cost_ns: u64, counted: &Counted) -> u64 {
        let until = |done: u64| cost_ns * done / self.unit;
        counted.whole * cost_ns + until(counted.after) - until(counted.before)
    }
}

impl Cpu {
    /// As [`Cpu::work_counted`] of work in parts: `f` gives how much more it did, in what makes up the unit of `parts`, and
    /// whether that was the last. All parts together take as long as their operations.
    pub fn work_in_parts<R>(
        &self,
        op: Op,
        parts: &mut Parts,
        f: impl FnOnce() -> (u64, bool, R),
    ) -> R {
        let cost_ns = u64::from(self.0.cost_ns[op as usize]);
        let counted = || {
            let (more, is_end, result) = f();
            let counted = parts.add(more, is_end);
            let part_ns = parts.part_ns(cost_ns, &counted);
            (counted.whole, part_ns, result)
        };
        match self.0.accounting {
            Accounting::Free => counted().2,
            Accounting::Charge => {
                let (whole, part_ns, result) = counted();
                self.charge_ns(op, whole, part_ns);
                result
            }
            Accounting::Timed | Accounting::Slow => self.timed_for(op, counted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_take_as_long_as_what_they_make_up() {
        const COST_NS: u64 = 24_361;
        for sizes in [
            &[1024; 8][..],
            &[4096, 4096],
            &[1, 8191],
            &[3000, 5192],
            &[8192],
        ] {
            let mut parts = Parts::of(4096);
            let (mut count, mut all_ns) = (0, 0);
            for bytes in sizes {
                let counted = parts.add(*bytes, false);
                count += counted.whole;
                all_ns += parts.part_ns(COST_NS, &counted);
            }
            assert_eq!((count, all_ns), (2, 2 * COST_NS), "{sizes:?}");
        }
    }

    #[test]
    fn a_part_takes_its_share_and_the_last_one_the_rest() {
        let mut parts = Parts::of(4096);
        let first = parts.add(1024, false);
        assert_eq!((first.whole, parts.part_ns(4000, &first)), (0, 1000));
        let last = parts.add(0, true);
        assert_eq!((last.whole, parts.part_ns(4000, &last)), (1, 3000));
        let none = parts.add(0, true);
        assert_eq!((none.whole, parts.part_ns(4000, &none)), (0, 0));
    }
}
