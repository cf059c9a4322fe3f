//! What a process keeps of files of a drive in another process: how much, where, and how.
//!
//! The text of it is how a process tells another one: `67108864`, `omni:1048576`, `0,write-through`,
//! `1048576,write-around,coherence=none`.

use std::fmt;
use std::str::FromStr;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// Most bytes of files; with 0 nothing is kept.
    pub bytes: u64,
    /// Pages are in the drive's memory too (OmniCache, FAST 2024).
    pub is_omni: bool,
    /// What becomes of writes.
    pub writes: WriteMode,
    /// How others' changes show.
    pub coherence: Coherence,
}

/// What becomes of a write in the cache of a process (StorStack, section 3.3, has the first and the last).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum WriteMode {
    /// The drive takes it later, and before anybody else sees the file.
    #[default]
    WriteBack,
    /// The drive has it when the call returns, and the cache keeps it.
    WriteThrough,
    /// The drive has it when the call returns, and the cache drops the pages.
    WriteAround,
}

/// Whether what is kept may be old.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Coherence {
    /// It is used under leases of the drive's, and so never is.
    #[default]
    Leases,
    /// It may be, where other processes write the same files (StorStack's own cache).
    None,
}

impl Keeping {
    /// Up to so many bytes, and all else as it is best for most.
    pub const fn of_bytes(bytes: u64) -> Keeping {
        Keeping {
            bytes,
            is_omni: false,
            writes: WriteMode::WriteBack,
            coherence: Coherence::Leases,
        }
    }
}

impl Default for Keeping {
    fn default() -> Keeping {
        Keeping::of_bytes(64 << 20)
    }
}

impl fmt::Display for Keeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = if self.is_omni { "omni:" } else { "" };
        let writes = match self.writes {
            WriteMode::WriteBack => "",
            WriteMode::WriteThrough => ",write-through",
            WriteMode::WriteAround => ",write-around",
        };
        let coherence = match self.coherence {
            Coherence::Leases => "",
            Coherence::None => ",coherence=none",
        };
        write!(f, "{before}{}{writes}{coherence}", self.bytes)
    }
}

impl FromStr for Keeping {
    type Err = &'static str;

    /// Asks for no memory: a process may be told before it has any.
    fn from_str(text: &str) -> Result<Keeping, &'static str> {
        let mut words = text.split(',');
        let room = words.next().unwrap_or_default();
        let omni_bytes = room.strip_prefix("omni:");
        let bytes = omni_bytes.unwrap_or(room).parse();
        let mut keeping = Keeping {
            is_omni: omni_bytes.is_some(),
            ..Keeping::of_bytes(bytes.map_err(|_| "give a number of bytes")?)
        };
        for word in words {
            match word {
                "write-through" => keeping.writes = WriteMode::WriteThrough,
                "write-around" => keeping.writes = WriteMode::WriteAround,
                "coherence=none" => keeping.coherence = Coherence::None,
                _ => return Err("give write-through, write-around or coherence=none"),
            }
        }
        Ok(keeping)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn all_that_can_be_told_is_understood() {
        for (bytes, is_omni) in [(0, false), (64 << 20, false), (1 << 20, true)] {
            for &writes in WriteMode::value_variants() {
                for &coherence in Coherence::value_variants() {
                    let keeping = Keeping {
                        bytes,
                        is_omni,
                        writes,
                        coherence,
                    };
                    assert_eq!(keeping.to_string().parse(), Ok(keeping), "{keeping}");
                }
            }
        }
        assert_eq!(Keeping::default().to_string(), "67108864");
        for wrong in ["", "omni", "omni:", "much", "1,", "1,write", "write-around"] {
            assert!(wrong.parse::<Keeping>().is_err(), "{wrong}");
        }
    }
}
