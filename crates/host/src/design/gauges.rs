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

/// A figure with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gauge {
    name: &'static str,
    amount: Amount,
    /// What there is at the moment of looking, not what has come to since the client began.
    is_level: bool,
}

/// Figures by name, in the order in which a design names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gauges(Vec<Gauge>);

impl Gauges {
    /// Those of a design that reports nothing of its own.
    pub fn none() -> Gauges {
        Gauges::default()
    }

    /// With another one that has come to this much since the client began: `name` in small letters
    /// with `_`, as a key.
    #[must_use]
    pub fn with(self, name: &'static str, amount: Amount) -> Gauges {
        self.and(name, amount, false)
    }

    /// With another one that is this much at the moment, as bytes of memory are.
    #[must_use]
    pub fn with_level(self, name: &'static str, amount: Amount) -> Gauges {
        self.and(name, amount, true)
    }

    fn and(mut self, name: &'static str, amount: Amount, is_level: bool) -> Gauges {
        assert!(self.get(name).is_none(), "a gauge '{name}' is named twice");
        self.0.push(Gauge {
            name,
            amount,
            is_level,
        });
        self
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<Amount> {
        self.iter().find(|(of, _)| *of == name).map(|found| found.1)
    }

    /// What came to each since `earlier`, a reading of the same client. Levels stay as they are.
    #[must_use]
    pub fn since(&self, earlier: &Gauges) -> Gauges {
        let one = |now: &Gauge| match earlier.get(now.name) {
            Some(then) if !now.is_level => Gauge {
                amount: now.amount.zip(then, |now, then| now - then),
                ..*now
            },
            _ => *now,
        };
        Gauges(self.0.iter().map(one).collect())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Amount)> + '_ {
        self.0.iter().map(|gauge| (gauge.name, gauge.amount))
    }

    /// Adds what another client of the design reports.
    pub fn merge(&mut self, other: &Gauges) {
        for gauge in &other.0 {
            match self.0.iter_mut().find(|known| known.name == gauge.name) {
                Some(sum) => sum.amount = sum.amount.zip(gauge.amount, |a, b| a + b),
                None => self.0.push(*gauge),
            }
        }
    }

    /// Keeps the larger of each figure and a later look at it. Both are of counts or bytes.
    pub fn keep_most(&mut self, later: &Gauges) {
        for gauge in &later.0 {
            let known = self.0.iter_mut().find(|known| known.name == gauge.name);
            let Some(known) = known else {
                self.0.push(*gauge);
                continue;
            };
            match (&mut known.amount, gauge.amount) {
                (Amount::Count(most), Amount::Count(now)) => *most = now.max(*most),
                (Amount::Bytes(most), Amount::Bytes(now)) => *most = now.max(*most),
                (known, _) => panic!("'{}' of a design is {known:?}", gauge.name),
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
        let held = |bytes| Gauges::none().with_level("held_bytes", Amount::Bytes(bytes));
        assert_eq!(held(5).since(&held(5)), held(5));
        assert_eq!(held(5).since(&held(8)), held(5));
        let nodes = |count| Gauges::none().with_level("nodes", Amount::Count(count));
        let mut most = Gauges::none();
        for count in [3, 9, 4] {
            most.keep_most(&nodes(count));
        }
        assert_eq!(most, nodes(9));
    }
}
