//! The namespace's page.

use super::IdentifyError;
use crate::bits::bit_fields;
use crate::command::{PAGE_SHIFT, zero_based};
use zerocopy::little_endian::U128;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// One of the formats of a namespace.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct LbaFormat {
    /// Bytes of metadata per block: 0.
    pub ms: u16,
    /// Log2 of the block's bytes: 12.
    pub lbads: u8,
    /// Relative performance (bits 1:0), 0 for the best.
    pub rp: u8,
}

/// Identify namespace data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdentifyNamespace {
    /// Size in pages; 0 if the namespace is not active.
    pub nsze: u64,
    /// Pages that may hold data at once.
    pub ncap: u64,
    /// Pages that hold data.
    pub nuse: u64,
    /// Namespace features; bit 4: NPWG to NOWS are given.
    pub nsfeat: u8,
    /// Number of formats, 0-based: 0.
    pub nlbaf: u8,
    /// The format in use (bits 3:0, and 6:5 above them): 0.
    pub flbas: u8,
    /// Metadata capabilities; 0.
    pub mc: u8,
    /// Protection capabilities; 0.
    pub dpc: u8,
    /// Protection settings; 0.
    pub dps: u8,
    /// Sharing between controllers; 0.
    pub nmic: u8,
    /// Reservations; 0.
    pub rescap: u8,
    /// Progress of a format; 0.
    pub fpi: u8,
    /// Deallocated pages: bits 2:0 = 1, they read as zeros; bit 3, write zeroes may deallocate.
    pub dlfeat: u8,
    /// Pages that a write sets atomically, 0-based: 0.
    pub nawun: u16,
    /// Pages that a write sets atomically if power fails, 0-based: 0.
    pub nawupf: u16,
    pub(crate) reserved_38: [u8; 8],
    /// Boundary, in pages, that requests do best not to cross; 0 if not told.
    pub noiob: u16,
    /// Bytes of media that the namespace takes.
    pub nvmcap: U128,
    /// Preferred write granularity in pages, 0-based.
    pub npwg: u16,
    /// Preferred write alignment in pages, 0-based.
    pub npwa: u16,
    /// Preferred deallocate granularity in pages, 0-based.
    pub npdg: u16,
    /// Preferred deallocate alignment in pages, 0-based.
    pub npda: u16,
    /// Optimal write size in pages, 0-based.
    pub nows: u16,
    pub(crate) reserved_74: [u8; 25],
    /// Namespace attributes; bit 0: write protected.
    pub nsattr: u8,
    pub(crate) reserved_100: [u8; 20],
    /// IEEE extended unique identifier; 0.
    pub eui64: [u8; 8],
    /// The formats; the first alone is in use.
    pub lbaf: [LbaFormat; 64],
    pub(crate) reserved_384: [u8; 3712],
}

const _: () = assert!(size_of::<IdentifyNamespace>() == 4096);

bit_fields! {
    /// FLBAS: the format in use.
    mod flbas_byte {
        INDEX_LOW = 0 [3:0];
        INDEX_HIGH = 0 [6:5];
    }
}

bit_fields! {
    /// DLFEAT: deallocation.
    mod dlfeat_byte {
        READS = 0 [2:0];
        DEAC = 0 [3:3];
    }
}

/// READS of DLFEAT: deallocated pages read as zeros.
const READS_ZEROS: u32 = 1;

/// NSFEAT bit 4: preferred granularities are given.
const NSFEAT_GRANULARITIES: u8 = 1 << 4;

impl IdentifyNamespace {
    /// The identify data of a namespace of `pages` pages with the one format of this command
    /// set and no preferences on granularity.
    pub fn new(pages: u64) -> IdentifyNamespace {
        let mut namespace: IdentifyNamespace = FromZeros::new_zeroed();
        namespace.nsze = pages;
        namespace.ncap = pages;
        namespace.dlfeat = dlfeat_byte::DEAC.put(dlfeat_byte::READS.put(0, READS_ZEROS), 1) as u8;
        namespace.lbaf[0] = LbaFormat {
            ms: 0,
            lbads: PAGE_SHIFT as u8,
            rp: 0,
        };
        namespace.nvmcap = U128::new(u128::from(pages) << PAGE_SHIFT);
        namespace
    }

    /// The same data with the granularities that suit the drive: `write_pages` for writes,
    /// `deallocate_pages` for deallocation, each aligned to itself (1..=65536).
    ///
    /// # Panics
    /// If either is out of its range.
    #[must_use]
    pub fn with_granularity(
        mut self,
        write_pages: u32,
        deallocate_pages: u32,
    ) -> IdentifyNamespace {
        let count = |pages| zero_based(pages, 1 << 16) as u16;
        self.nsfeat |= NSFEAT_GRANULARITIES;
        self.npwg = count(write_pages);
        self.npwa = self.npwg;
        self.nows = self.npwg;
        self.npdg = count(deallocate_pages);
        self.npda = self.npdg;
        self
    }

    /// Index of the format in use.
    pub const fn format_index(&self) -> u8 {
        let flbas = self.flbas as u32;
        let high = flbas_byte::INDEX_HIGH.get(flbas) << 4;
        (high | flbas_byte::INDEX_LOW.get(flbas)) as u8
    }

    /// The format in use.
    pub const fn format(&self) -> LbaFormat {
        self.lbaf[self.format_index() as usize]
    }

    /// Whether deallocated pages read as zeros.
    pub const fn deallocated_reads_zeros(&self) -> bool {
        dlfeat_byte::READS.get(self.dlfeat as u32) == READS_ZEROS
    }

    /// Whether the namespace takes no writes.
    pub const fn is_write_protected(&self) -> bool {
        self.nsattr & 1 != 0
    }

    /// Preferred write granularity in pages, if the drive gives one.
    pub const fn write_granularity_pages(&self) -> Option<u32> {
        if self.nsfeat & NSFEAT_GRANULARITIES == 0 {
            None
        } else {
            Some(self.npwg as u32 + 1)
        }
    }

    /// Preferred deallocate granularity in pages, if the drive gives one.
    pub const fn deallocate_granularity_pages(&self) -> Option<u32> {
        if self.nsfeat & NSFEAT_GRANULARITIES == 0 {
            None
        } else {
            Some(self.npdg as u32 + 1)
        }
    }

    /// Refuses a namespace that this command set cannot use.
    ///
    /// # Errors
    /// What does not fit, as [`IdentifyError`].
    pub const fn check(&self) -> Result<(), IdentifyError> {
        if self.nsze == 0 {
            return Err(IdentifyError::Inactive);
        }
        let index = self.format_index();
        if index > self.nlbaf {
            return Err(IdentifyError::FormatIndex {
                index,
                last: self.nlbaf,
            });
        }
        let LbaFormat { ms, lbads, .. } = self.format();
        if ms != 0 || lbads as u32 != PAGE_SHIFT {
            return Err(IdentifyError::Format {
                lbads,
                metadata: ms,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_namespace_is_one_that_can_be_used() {
        let namespace = IdentifyNamespace::new(1 << 20);
        assert_eq!(namespace.check(), Ok(()));
        assert_eq!(
            (namespace.nsze, namespace.ncap, namespace.nuse),
            (1 << 20, 1 << 20, 0)
        );
        assert_eq!(namespace.nvmcap.get(), 1 << 32);
        assert_eq!(
            namespace.format(),
            LbaFormat {
                ms: 0,
                lbads: 12,
                rp: 0
            }
        );
        assert!(namespace.deallocated_reads_zeros() && !namespace.is_write_protected());
        assert_eq!(namespace.write_granularity_pages(), None);
        assert_eq!(namespace.deallocate_granularity_pages(), None);
        let bytes = namespace.as_bytes();
        assert_eq!((bytes[33], &bytes[128..132]), (9, &[0, 0, 12, 0][..]));
        assert_eq!(
            IdentifyNamespace::read_from_bytes(bytes).unwrap(),
            namespace
        );
    }

    #[test]
    fn granularities_count_from_one() {
        let namespace = IdentifyNamespace::new(1).with_granularity(8, 65536);
        assert_eq!(namespace.write_granularity_pages(), Some(8));
        assert_eq!(namespace.deallocate_granularity_pages(), Some(65536));
        assert_eq!((namespace.npwg, namespace.npwa, namespace.nows), (7, 7, 7));
        assert_eq!((namespace.npdg, namespace.npda), (65535, 65535));
    }

    #[test]
    fn a_namespace_of_another_format_is_refused() {
        let good = IdentifyNamespace::new(10);
        assert_eq!(
            IdentifyNamespace { nsze: 0, ..good }.check(),
            Err(IdentifyError::Inactive)
        );
        let mut other = good;
        other.lbaf[0] = LbaFormat {
            ms: 8,
            lbads: 9,
            rp: 0,
        };
        assert_eq!(
            other.check(),
            Err(IdentifyError::Format {
                lbads: 9,
                metadata: 8
            })
        );
        other = IdentifyNamespace {
            flbas: 0x6f,
            ..good
        };
        assert_eq!(other.format_index(), 63);
        assert_eq!(
            other.check(),
            Err(IdentifyError::FormatIndex { index: 63, last: 0 })
        );
        let protected = IdentifyNamespace { nsattr: 1, ..good };
        assert!(protected.is_write_protected());
        let unsure = IdentifyNamespace { dlfeat: 0, ..good };
        assert!(!unsure.deallocated_reads_zeros());
    }
}
