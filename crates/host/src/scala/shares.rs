//! In which proportion a cache is divided among clients, as people write it: `equal`, or `4,2,1`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Clients whose share can be set.
pub const SHARES_MAX: usize = 64;

/// How equal shares are written.
const EQUAL: &str = "equal";

/// How a cache is divided among clients: in proportion to their weights. Clients beyond those that
/// have one have weight 1.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shares(Vec<u16>);

/// A text that names no shares.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SharesError {
    /// Not whole numbers, or too small or large ones.
    #[error(
        "'{0}' are not the weights of clients: write equal, or a whole number from 1 to 65535 for each client, such as 4,2,1"
    )]
    NotWeights(String),
    /// More than can be set.
    #[error("{0} clients have weights: up to {SHARES_MAX} can, the others have 1")]
    TooMany(usize),
}

impl Shares {
    /// Shares in proportion to these weights. A weight of 0 counts as 1, and those beyond
    /// [`SHARES_MAX`] are not looked at.
    pub fn of(weights: &[u16]) -> Shares {
        let known = weights.iter().take(SHARES_MAX);
        Shares(known.map(|weight| *weight.max(&1)).collect())
    }

    /// Clients that have a weight of their own.
    pub fn clients(&self) -> u32 {
        self.0.len() as u32
    }

    /// The part of `total` things that client `index` of `clients` gets. The parts of all add up
    /// to `total`.
    pub fn part(&self, total: u32, index: u32, clients: u32) -> u32 {
        let weight = |client: u32| u64::from(*self.0.get(client as usize).unwrap_or(&1));
        let sum = |clients| (0..clients).map(weight).sum::<u64>();
        let before = |client| u64::from(total) * sum(client) / sum(clients);
        (before(index + 1) - before(index)) as u32
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(EQUAL);
        }
        let all: Vec<String> = self.0.iter().map(u16::to_string).collect();
        f.write_str(&all.join(","))
    }
}

impl FromStr for Shares {
    type Err = SharesError;

    fn from_str(text: &str) -> Result<Self, SharesError> {
        if text.trim() == EQUAL {
            return Ok(Shares::default());
        }
        let weight = |part: &str| part.trim().parse().ok().filter(|weight| *weight > 0);
        let all: Option<Vec<u16>> = text.split(',').map(weight).collect();
        let all = all.ok_or_else(|| SharesError::NotWeights(text.into()))?;
        match all.len() {
            0..=SHARES_MAX => Ok(Shares(all)),
            more => Err(SharesError::TooMany(more)),
        }
    }
}

impl Serialize for Shares {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Shares {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_proportion_and_add_up() {
        let shares = Shares::of(&[3, 1, 0]);
        assert_eq!([0, 1, 2].map(|i| shares.part(100, i, 3)), [60, 20, 20]);
        for total in [1, 7, 1000] {
            for clients in [1, 3, 70] {
                let parts = (0..clients).map(|i| shares.part(total, i, clients));
                assert_eq!(parts.sum::<u32>(), total);
            }
        }
        assert_eq!(Shares::default().part(8, 3, 4), 2);
    }

    #[test]
    fn shares_are_read_and_written_alike() {
        for (text, shown, clients) in [
            ("equal", "equal", 0),
            ("7", "7", 1),
            (" 4, 2,65535", "4,2,65535", 3),
        ] {
            let shares: Shares = text.parse().unwrap();
            assert_eq!(
                (shares.to_string(), shares.clients()),
                (shown.into(), clients)
            );
        }
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for text in ["", "1,,2", "0", "1,0", "-1", "1.5", "65536", "half", "1;2"] {
            let refused = text.parse::<Shares>();
            assert_eq!(refused, Err(SharesError::NotWeights(text.into())));
        }
        let many = vec!["1"; 65].join(",");
        assert_eq!(many.parse::<Shares>(), Err(SharesError::TooMany(65)));
    }
}
