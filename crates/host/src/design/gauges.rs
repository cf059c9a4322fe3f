//! What a design reports beyond the counters that all share: figures with names, which every report
//! shows.

/// How much, and of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// So many things.
    Count(u64),
    /// Bytes.
    Bytes(u64),
    /// Nanoseconds of the time of requests under way; reports show their share.
    OfRequestsNs(u64),
    /// Nanoseconds of the time of the clients' CPUs; reports show their share.
    OfClientsNs(u64),
    /// Nanoseconds in which the CPUs of services polled their queue pairs, which counts as work of
    /// theirs; reports show their share.
    OfServicesNs(u64),
    /// The mean of `count` times that add up to `sum_ns`.
    MeanNs {
        /// Their sum, in nanoseconds.
        sum_ns: u64,
        /// How many.
        count: u64,
    },
}

impl Amount {
    /// What two amounts of one kind come to.
    fn zip(self, other: Amount, f: fn(u64, u64) -> u64) -> Amount {
        use Amount::*;
        match (self, other) {
            (Count(a), Count(b)) => Count(f(a, b)),
            (Bytes(a), Bytes(b)) => Bytes(f(a, b)),
            (OfRequestsNs(a), OfRequestsNs(b)) => OfRequestsNs(f(a, b)),
            (OfClientsNs(a), OfClientsNs(b)) => OfClientsNs(f(a, b)),
            (OfServicesNs(a), OfServicesNs(b)) => OfServicesNs(f(a, b)),
            (
                MeanNs { sum_ns, count },
                MeanNs {
                    sum_ns: other_ns,
                    count: others,
                },
            ) => MeanNs {
                sum_ns: f(sum_ns, other_ns),
                count: f(count, others),
            },
            (one, other) => panic!("one gauge is of one kind: {one:?}, {other:?}"),
        }
    }
}

/// Figures by name, in the order in which a design names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gauges(Vec<(&'static str, Amount)>);

impl Gauges {
    /// Those of a design that reports nothing of its own.
    pub fn none() -> Gauges {
        Gauges::default()
    }

    /// With another one: `name` in small letters with `_`, as a key.
    #[must_use]
    pub fn with(mut self, name: &'static str, amount: Amount) -> Gauges {
        assert!(self.get(name).is_none(), "a gauge '{name}' is named twice");
        self.0.push((name, amount));
        self
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<Amount> {
        self.iter().find(|(of, _)| *of == name).map(|found| found.1)
    }

    /// What came to each since `earlier`, a reading of the same client.
    #[must_use]
    pub fn since(&self, earlier: &Gauges) -> Gauges {
        let one = |(name, now): (&'static str, Amount)| match earlier.get(name) {
            Some(then) => (name, now.zip(then, |now, then| now - then)),
            None => (name, now),
        };
        Gauges(self.iter().map(one).collect())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Amount)> + '_ {
        self.0.iter().copied()
    }

    /// Adds what another client of the design reports.
    pub fn merge(&mut self, other: &Gauges) {
        for (name, amount) in other.iter() {
            match self.0.iter_mut().find(|(of, _)| *of == name) {
                Some((_, sum)) => *sum = sum.zip(amount, |a, b| a + b),
                None => self.0.push((name, amount)),
            }
        }
    }

    /// Keeps the larger of each figure and a later look at it. Both are of counts or bytes.
    pub fn keep_most(&mut self, later: &Gauges) {
        for (name, amount) in later.iter() {
            let known = self.0.iter_mut().find(|(of, _)| *of == name);
            match (known, amount) {
                (None, amount) => self.0.push((name, amount)),
                (Some((_, Amount::Count(most))), Amount::Count(now)) => *most = now.max(*most),
                (Some((_, Amount::Bytes(most))), Amount::Bytes(now)) => *most = now.max(*most),
                (Some((_, known)), _) => panic!("'{name}' of a design is {known:?}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_add_up_and_looks_keep_the_most() {
        let one = Gauges::none().with("asks", Amount::Count(3));
        let mut all = one.clone().with(
            "held",
            Amount::MeanNs {
                sum_ns: 10,
                count: 2,
            },
        );
        all.merge(&one);
        all.merge(&Gauges::none().with("bytes", Amount::Bytes(7)));
        assert_eq!(all.get("asks"), Some(Amount::Count(6)));
        let before = Gauges::none().with("asks", Amount::Count(2));
        assert_eq!(all.since(&before).get("asks"), Some(Amount::Count(4)));
        assert_eq!(all.since(&before).get("bytes"), Some(Amount::Bytes(7)));
        assert_eq!(all.get("bytes"), Some(Amount::Bytes(7)));
        let nodes = |count| Gauges::none().with("nodes", Amount::Count(count));
        let mut most = Gauges::none();
        for count in [3, 9, 4] {
            most.keep_most(&nodes(count));
        }
        assert_eq!(most, nodes(9));
    }
}
