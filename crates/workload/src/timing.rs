//! The clock of a trace as a schedule for a replay: from 0, never backwards, without silent years.
//!
//! * The first time is 0; each further one is as much later than the latest before it as the trace says.
//! * A time earlier than the latest before it (traces of several queues are not quite in order) is
//!   issued at once, and counted.
//! * With `gap_ns_max`, a longer pause is cut to that, and a step back of more than that counts as
//!   a clock set anew, after which time goes on from there. (A phone's clock jumps by 44 years when it
//!   learns the date.)
//! * A request without a time is issued at once.

use crate::request::Request;

/// Turns trace times into a schedule.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    gap_ns_max: Option<u64>,
    latest: Option<u64>,
    now_ns: u64,
    /// Times that lay before an earlier request's.
    pub backwards: u64,
    /// Pauses that were cut, and clocks set anew.
    pub cut: u64,
}

impl Schedule {
    /// A schedule that starts at the first request.
    pub fn new(gap_ns_max: Option<u64>) -> Schedule {
        Schedule {
            gap_ns_max,
            ..Schedule::default()
        }
    }

    /// When to issue the request, in ns from the first one.
    pub fn issue_ns(&mut self, request: &Request) -> u64 {
        let Some(time) = request.time() else {
            return self.now_ns;
        };
        let latest = *self.latest.get_or_insert(time);
        let gap_max = self.gap_ns_max.unwrap_or(u64::MAX);
        if time < latest {
            let reset = latest - time > gap_max;
            self.backwards += u64::from(!reset);
            self.cut += u64::from(reset);
            if reset {
                self.latest = Some(time);
            }
        } else {
            self.cut += u64::from(time - latest > gap_max);
            self.now_ns += (time - latest).min(gap_max);
            self.latest = Some(time);
        }
        self.now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;

    fn schedule(gap: Option<u64>, times: &[u64]) -> (Vec<u64>, u64, u64) {
        let mut schedule = Schedule::new(gap);
        let issue = times
            .iter()
            .map(|&time_ns| {
                schedule.issue_ns(&Request {
                    time_ns,
                    ..Request::new(Op::Read, 0, 1)
                })
            })
            .collect();
        (issue, schedule.backwards, schedule.cut)
    }

    #[test]
    fn small_disorder_is_issued_at_once() {
        assert_eq!(
            schedule(None, &[100, 130, 120, 150]),
            (vec![0, 30, 30, 50], 1, 0)
        );
    }

    #[test]
    fn jumps_either_way_are_cut() {
        let jump = [5, 10, 1_000_000, 1_000_010, 3, 7];
        assert_eq!(
            schedule(Some(100), &jump),
            (vec![0, 5, 105, 115, 115, 119], 0, 2)
        );
    }

    #[test]
    fn requests_without_a_time_go_at_once() {
        assert_eq!(
            schedule(None, &[Request::NO_TIME, 7, Request::NO_TIME, 9]).0,
            [0, 0, 0, 2]
        );
    }
}
