//! What a process keeps of files of a drive in another process, as it is said: `--cache omni:64MiB --cache-mode write-through`.

use std::path::Path;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::{Failure, input};
use crate::files::{Coherence, FileDrive, ImageError, Keeping, WriteMode, attach_in_time};

/// How it keeps it, beside how much.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Modes {
    /// What becomes of a write. `write-back`: after the second one to a file, the drive takes it later, and before anybody else sees the
    /// file. `write-through`: the drive has it when the call returns, and the cache has it too. `write-around`: the same, and the cache
    /// drops those pages.
    #[arg(
        long,
        value_name = "MODE",
        value_enum,
        default_value = "write-back",
        hide_possible_values = true
    )]
    cache_mode: WriteMode,
    /// Whether what is cached is used under leases, which the drive ends before another process changes it: `leases`, so it is never
    /// old. With `none` a process may read OLD DATA of files that others write: for files that one process uses at a time, and to
    /// compare with caches that are so (StorStack's).
    #[arg(
        long,
        value_name = "KIND",
        value_enum,
        default_value = "leases",
        hide_possible_values = true
    )]
    coherence: Coherence,
}

impl Modes {
    /// As another process of this program is told.
    pub(super) fn words(self) -> [String; 2] {
        let name =
            |value: Option<PossibleValue>| value.expect("none is left out").get_name().to_string();
        [
            format!("--cache-mode={}", name(self.cache_mode.to_possible_value())),
            format!("--coherence={}", name(self.coherence.to_possible_value())),
        ]
    }

    /// What is kept, and how.
    pub(super) fn of(self, said: Keeping) -> Result<Keeping, Failure> {
        let keeping = Keeping {
            writes: self.cache_mode,
            coherence: self.coherence,
            ..said
        };
        match keeping.bytes == 0 && keeping != said {
            true => Err(input(
                "--cache 0: there is no cache that --cache-mode or --coherence could be of",
            )),
            false => Ok(keeping),
        }
    }
}

/// What a person says of how much is kept.
pub(super) fn said(text: &str) -> Result<Keeping, String> {
    let (is_omni, bytes) = match text.strip_prefix("omni") {
        None => (false, text),
        Some("") => (true, "64MiB"),
        Some(rest) => (true, rest.strip_prefix(':').ok_or("give `omni:SIZE`")?),
    };
    let bytes = super::values::size(bytes)?;
    match is_omni && bytes == 0 {
        true => Err("both caches need memory".into()),
        false => Ok(Keeping {
            is_omni,
            ..Keeping::of_bytes(bytes)
        }),
    }
}

/// The drive that a process serves at a socket, with what this one keeps of it.
pub(super) fn attach(keeping: Keeping, socket: &Path) -> Result<FileDrive, ImageError> {
    attach_in_time(|| FileDrive::attach_keeping(socket, keeping))
}

/// Bytes of a drive's own cache, as they are said.
pub(super) fn drive_cache(text: &str) -> Result<u64, String> {
    match super::values::size(text)? {
        bytes @ (0 | 0x1000..=0x80_0000_0000) => Ok(bytes),
        _ => Err("give 4KiB to 512GiB, or 0 for none".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_a_size_with_the_drives_cache_or_without() {
        let said = |text| said(text).map(|keeps| keeps.to_string());
        assert_eq!(said("1MiB"), Ok("1048576".into()));
        assert_eq!(said("0"), Ok("0".into()));
        assert_eq!(said("omni"), Ok("omni:67108864".into()));
        assert_eq!(said("omni:1MiB"), Ok("omni:1048576".into()));
        for wrong in ["omni:0", "omni1MiB", "omni:", "both", ""] {
            assert!(said(wrong).is_err(), "{wrong}");
        }
        assert_eq!((drive_cache("0"), drive_cache("4KiB")), (Ok(0), Ok(4096)));
        assert_eq!(drive_cache("512GiB"), Ok(512 << 30));
        for wrong in ["4095", "1", "513GiB", "much"] {
            assert!(drive_cache(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn modes_are_of_a_cache() {
        let around = Modes {
            cache_mode: WriteMode::WriteAround,
            coherence: Coherence::None,
        };
        let told = around.of(said("1MiB").unwrap()).map(|it| it.to_string());
        assert_eq!(told.ok().unwrap(), "1048576,write-around,coherence=none");
        assert!(around.of(said("0").unwrap()).is_err());
        let words = ["--cache-mode=write-around", "--coherence=none"];
        assert_eq!(around.words(), words);
        let plain = Modes {
            cache_mode: WriteMode::WriteBack,
            coherence: Coherence::Leases,
        };
        assert!(plain.of(said("0").unwrap()).is_ok());
    }
}
