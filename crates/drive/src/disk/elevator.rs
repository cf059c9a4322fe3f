//! Which of the commands that wait is served next: the one that is reached soonest, less what it
//! has waited longer than others.

/// What waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// What it is, in the eyes of who asks.
    pub what: u64,
    /// From now until its first sector is below a head.
    pub positioning_ns: u64,
    /// When it came.
    pub since_ns: u64,
}

/// The best of `candidates`: of equals the one that came first, then the first. `None` if there is none.
pub fn choose(
    now_ns: u64,
    aging_share: f64,
    candidates: impl Iterator<Item = Candidate>,
) -> Option<Candidate> {
    let weight = |one: &Candidate| {
        let waited_ns = now_ns.saturating_sub(one.since_ns) as f64;
        one.positioning_ns as f64 - aging_share * waited_ns
    };
    let mut best: Option<(f64, Candidate)> = None;
    for one in candidates {
        let own = weight(&one);
        let is_better = best.is_none_or(|(least, held)| {
            own < least || own == least && one.since_ns < held.since_ns
        });
        if is_better {
            best = Some((own, one));
        }
    }
    best.map(|(_, one)| one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(what: u64, positioning_ns: u64, since_ns: u64) -> Candidate {
        Candidate {
            what,
            positioning_ns,
            since_ns,
        }
    }

    #[test]
    fn the_nearest_is_next_and_who_has_waited_long_before_it() {
        let waiting = [candidate(1, 9_000, 0), candidate(2, 4_000, 90_000)];
        let next = |aging| choose(100_000, aging, waiting.into_iter()).unwrap().what;
        assert_eq!(next(0.0), 2);
        // 90 us longer, at a tenth, are 9 us: more than the 5 us that it is farther.
        assert_eq!(next(0.1), 1);
        assert_eq!(next(0.05), 2);
        assert_eq!(choose(0, 0.0, std::iter::empty()), None);
    }

    #[test]
    fn of_equals_the_older_is_next() {
        let waiting = [
            candidate(1, 5, 20),
            candidate(2, 5, 10),
            candidate(3, 5, 10),
        ];
        assert_eq!(choose(30, 0.0, waiting.into_iter()).unwrap().what, 2);
    }
}
