//! Weights of clients as people write them: `equal`, or `4,2,1`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wharf_host::design::{SHARES_MAX, Shares};

/// In which proportion a cache is divided among clients. Written and read as text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Weights(Vec<u16>);

/// A text that names no weights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// Not whole numbers, or too small or large ones.
    #[error(
        "'{0}' are not the weights of clients: write equal, or a whole number from 1 to 65535 for each client, such as 4,2,1"
    )]
    NotWeights(String),
    /// More than can be set.
    #[error("{0} clients have weights: up to {SHARES_MAX} can, the others have 1")]
    TooMany(usize),
}

/// How equal shares are written.
const EQUAL: &str = "equal";

impl Weights {
    /// Clients that have a weight of their own; the others have 1.
    pub fn clients(&self) -> u32 {
        self.0.len() as u32
    }

    /// The shares that they come to.
    pub fn shares(&self) -> Shares {
        Shares::of(&self.0)
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => f.write_str(EQUAL),
            false => {
                let all: Vec<String> = self.0.iter().map(u16::to_string).collect();
                f.write_str(&all.join(","))
            }
        }
    }
}

impl FromStr for Weights {
    type Err = WeightsError;

    fn from_str(text: &str) -> Result<Self, WeightsError> {
        if text.trim() == EQUAL {
            return Ok(Weights::default());
        }
        let weight = |part: &str| part.trim().parse().ok().filter(|weight| *weight > 0);
        let all: Option<Vec<u16>> = text.split(',').map(weight).collect();
        let all = all.ok_or_else(|| WeightsError::NotWeights(text.into()))?;
        match all.len() {
            0..=SHARES_MAX => Ok(Weights(all)),
            more => Err(WeightsError::TooMany(more)),
        }
    }
}

impl Serialize for Weights {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Weights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_and_written_alike() {
        for (text, shown, clients) in [
            ("equal", "equal", 0),
            ("7", "7", 1),
            (" 4, 2,65535", "4,2,65535", 3),
        ] {
            let weights: Weights = text.parse().unwrap();
            assert_eq!(
                (weights.to_string(), weights.clients()),
                (shown.into(), clients)
            );
        }
        let three: Weights = "3,1".parse().unwrap();
        assert_eq!(
            [0, 1, 2].map(|i| three.shares().part(100, i, 3)),
            [60, 20, 20]
        );
    }

    #[test]
    fn what_is_no_weight_is_refused() {
        for text in ["", "1,,2", "0", "1,0", "-1", "1.5", "65536", "half", "1;2"] {
            let refused = text.parse::<Weights>();
            assert_eq!(refused, Err(WeightsError::NotWeights(text.into())));
        }
        let many = vec!["1"; 65].join(",");
        assert_eq!(many.parse::<Weights>(), Err(WeightsError::TooMany(65)));
    }
}
