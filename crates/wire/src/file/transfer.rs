//! Data pointers of commands for files: bytes, and not pages.
//!
//! PRP1 may begin in the middle of a page, at a multiple of 4. The transfer goes on at the beginning
//! of the next page that PRP2, or the list there, names.

use crate::command::{Command, PAGE_BYTES};
use crate::prp::PrpError;

/// Which pages a transfer of bytes touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteTransfer {
    /// Where the first byte lies in the first page.
    pub offset: u32,
    /// How many bytes.
    pub bytes: u32,
    /// How many pages: at least one.
    pub pages: u32,
}

/// The transfer of `bytes` bytes from `prp1` on.
///
/// # Errors
/// If `prp1` is no multiple of 4.
pub fn byte_transfer(prp1: u64, bytes: u32) -> Result<ByteTransfer, PrpError> {
    if !prp1.is_multiple_of(4) {
        return Err(PrpError::PageMisaligned {
            page: 0,
            address: prp1,
        });
    }
    let page = PAGE_BYTES as u64;
    let offset = prp1 % page;
    let pages = (offset + u64::from(bytes)).div_ceil(page).max(1);
    Ok(ByteTransfer {
        offset: offset as u32,
        bytes,
        pages: pages as u32,
    })
}

impl Command {
    /// The same command with PRP1 at the beginning of its page, as a walk over pages wants it.
    #[must_use]
    pub const fn with_page_of_prp1(mut self) -> Command {
        self.prp1 &= !(PAGE_BYTES as u64 - 1);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_touches_the_pages_that_its_bytes_lie_in() {
        let pages = |prp1, bytes| byte_transfer(prp1, bytes).map(|t| (t.offset, t.pages));
        assert_eq!(pages(0x5000, 1), Ok((0, 1)));
        assert_eq!(pages(0x5000, 0), Ok((0, 1)));
        assert_eq!(pages(0x5ffc, 4), Ok((4092, 1)));
        assert_eq!(pages(0x5ffc, 5), Ok((4092, 2)));
        assert_eq!(pages(0x5004, 4096), Ok((4, 2)));
        assert_eq!(pages(0x5004, u32::MAX), Ok((4, 1 << 20 | 1)));
        assert!(pages(0x5002, 4).is_err());
        let command = Command::flush(1).with_prp(0x5ffc, 0x9000);
        assert_eq!(command.with_page_of_prp1().prp1, 0x5000);
    }
}
