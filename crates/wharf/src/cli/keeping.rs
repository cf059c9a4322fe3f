//! What a process keeps of files of a drive in another process, as it is said: `64MiB`, `0`, `omni`, `omni:64MiB`.

use std::path::Path;

use crate::files::{FileDrive, ImageError, attach_in_time};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Keeping {
    bytes: u64,
    /// In the drive's memory too.
    pub(super) is_omni: bool,
}

impl Keeping {
    /// What a person says.
    pub(super) fn said(text: &str) -> Result<Keeping, String> {
        let (is_omni, bytes) = match text.strip_prefix("omni") {
            None => (false, text),
            Some("") => (true, "64MiB"),
            Some(rest) => (true, rest.strip_prefix(':').ok_or("give `omni:SIZE`")?),
        };
        let bytes = super::values::size(bytes)?;
        match is_omni && bytes == 0 {
            true => Err("both caches need memory".into()),
            false => Ok(Keeping { bytes, is_omni }),
        }
    }

    /// The drive that a process serves at a socket, with what this one keeps of it.
    pub(super) fn attach(&self, socket: &Path) -> Result<FileDrive, ImageError> {
        attach_in_time(|| match self.is_omni {
            true => FileDrive::attach_omni(socket, self.bytes),
            false => FileDrive::attach_cached(socket, self.bytes),
        })
    }
}

/// Bytes of a drive's own cache, as they are said.
pub(super) fn drive_cache(text: &str) -> Result<u64, String> {
    match super::values::size(text)? {
        bytes @ (0 | 0x1000..=0x80_0000_0000) => Ok(bytes),
        _ => Err("give 4KiB to 512GiB, or 0 for none".into()),
    }
}

impl std::fmt::Display for Keeping {
    /// As the shared object is told.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let before = if self.is_omni { "omni:" } else { "" };
        write!(f, "{before}{}", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_a_size_with_the_drives_cache_or_without() {
        let said = |text| Keeping::said(text).map(|keeps| keeps.to_string());
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
}
