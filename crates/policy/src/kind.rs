//! Policies by name.

use std::fmt;
use std::str::FromStr;

use crate::{AnyPolicy, Arc, Clock, Fifo, Lirs, Lru, Policy, S3Fifo, Sieve, TinyLfu, TwoQ};

/// A policy, or the bound of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// First in, first out.
    Fifo,
    /// Least recently used.
    Lru,
    /// A circle of frames with a hand.
    Clock,
    /// A queue with a hand.
    Sieve,
    /// Three queues.
    S3Fifo,
    /// A queue before an LRU list.
    TwoQ,
    /// Two LRU lists with a border that moves.
    Arc,
    /// Pages by how far apart their last two uses are.
    Lirs,
    /// New pages join others that are used less often.
    WTinyLfu,
    /// The most that is possible.
    Belady,
}

impl Kind {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Kind); 10] = [
        ("fifo", Kind::Fifo),
        ("lru", Kind::Lru),
        ("clock", Kind::Clock),
        ("sieve", Kind::Sieve),
        ("s3-fifo", Kind::S3Fifo),
        ("2q", Kind::TwoQ),
        ("arc", Kind::Arc),
        ("lirs", Kind::Lirs),
        ("w-tinylfu", Kind::WTinyLfu),
        ("belady", Kind::Belady),
    ];

    /// What it does, in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Kind::Fifo => "the page that came first leaves",
            Kind::Lru => "the page leaves whose last use is longest ago",
            Kind::Clock => "a hand passes pages that were used since it came by",
            Kind::Sieve => {
                "a queue, out of whose middle a hand takes what was not used (NSDI 2024)"
            }
            Kind::S3Fifo => {
                "a short queue for new pages, a long one, and keys of pages that left (SOSP 2023)"
            }
            Kind::TwoQ => "a queue for new pages before an LRU list (VLDB 1994)",
            Kind::Arc => {
                "pages used once and pages used again, with a border that moves (FAST 2003)"
            }
            Kind::Lirs => {
                "pages by how many others were used between their last two uses (SIGMETRICS 2002)"
            }
            Kind::WTinyLfu => {
                "new pages join the others if they were used more often of late (ACM TOS 2017)"
            }
            Kind::Belady => {
                "the page leaves whose next use is farthest away: the bound of all policies"
            }
        }
    }

    /// The policy, for so many frames; none for [`Kind::Belady`], which has to know the future.
    pub fn policy(self, frames: u32) -> Option<Box<dyn AnyPolicy>> {
        Some(match self {
            Kind::Fifo => Box::new(Fifo::new(frames)),
            Kind::Lru => Box::new(Lru::new(frames)),
            Kind::Clock => Box::new(Clock::new(frames)),
            Kind::Sieve => Box::new(Sieve::new(frames)),
            Kind::S3Fifo => Box::new(S3Fifo::new(frames)),
            Kind::TwoQ => Box::new(TwoQ::new(frames)),
            Kind::Arc => Box::new(Arc::new(frames)),
            Kind::Lirs => Box::new(Lirs::new(frames)),
            Kind::WTinyLfu => Box::new(TinyLfu::new(frames)),
            Kind::Belady => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let found = Kind::ALL.iter().find(|(_, kind)| *kind == self);
        found.expect("all are listed").0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No policy has this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPolicy(pub String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Kind::ALL.map(|(name, _)| name).join(", ");
        write!(f, "no policy '{}': the policies are {names}", self.0)
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for Kind {
    type Err = UnknownPolicy;

    /// By its name, in any case and with or without the dash.
    fn from_str(name: &str) -> Result<Kind, UnknownPolicy> {
        let plain = |name: &str| name.to_ascii_lowercase().replace(['-', '_'], "");
        let found = Kind::ALL
            .iter()
            .find(|(known, _)| plain(known) == plain(name));
        let unknown = || UnknownPolicy(name.to_string());
        found.map(|(_, kind)| *kind).ok_or_else(unknown)
    }
}
