//! Pages used in place: pins, and single values in them.

use std::ops::Range;

use wharf_host::design::Client as _;
use wharf_host::error::IoError;
use wharf_host::scala::Scala;
use wharf_host::scala::guard::{Guard, Guards, Intent};
use wharf_host::span::Extent;
use wharf_wire::dma::PAGE_BYTES;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::Client;

impl Client<Scala> {
    /// A guard on page `page`, if it is in the cache and nobody is in the way: an ordinary function
    /// without a command. While guards live their pages stay in memory.
    #[inline(always)]
    pub fn try_pin(&self, page: u64, intent: Intent) -> Option<Guard<'_>> {
        self.client().try_pin(page, intent)
    }

    /// Guards on `pages`, in their order; those that are missing are brought in.
    ///
    /// # Errors
    /// Pages out of range; [`IoError::Guarded`] if a guard of this client to write one of them is
    /// alive; [`IoError::InUse`] if one of another client is for long; [`IoError::NoRoom`] if guards fill
    /// the cache; an error of the drive.
    pub fn pin(&self, pages: Range<u64>, intent: Intent) -> Result<Guards<'_>, IoError> {
        self.wait(self.client().pin(pages, intent))
    }

    /// The value whose bytes begin at byte `offset`, which is a multiple of its size.
    ///
    /// # Errors
    /// As [`Client::pin`].
    ///
    /// # Panics
    /// If the offset is not such a multiple, or the size is not a power of two up to 4096.
    #[inline]
    pub fn get<T: FromBytes + IntoBytes>(&self, offset: u64) -> Result<T, IoError> {
        let (page, within) = place::<T>(offset);
        let mut value = T::new_zeroed();
        let extent = Extent::new(offset, size_of::<T>() as u64);
        if !self.client().read_now(extent, value.as_mut_bytes()) {
            self.get_slowly(page, within, value.as_mut_bytes())?;
        }
        Ok(value)
    }

    #[cold]
    fn get_slowly(&self, page: u64, within: usize, out: &mut [u8]) -> Result<(), IoError> {
        let guards = self.pin(page..page + 1, Intent::Read)?;
        self.wait(guards[0].read(within, out))
    }

    /// Writes a value whose bytes begin at byte `offset`, which is a multiple of its size.
    ///
    /// # Errors
    /// As [`Client::pin`].
    ///
    /// # Panics
    /// As [`Client::get`].
    #[inline]
    pub fn set<T: IntoBytes + Immutable>(&self, offset: u64, value: T) -> Result<(), IoError> {
        let (page, within) = place::<T>(offset);
        let extent = Extent::new(offset, size_of::<T>() as u64);
        match self.client().write_now(extent, value.as_bytes()) {
            true => Ok(()),
            false => self.set_slowly(page, within, value.as_bytes()),
        }
    }

    #[cold]
    fn set_slowly(&self, page: u64, within: usize, data: &[u8]) -> Result<(), IoError> {
        let mut guards = self.pin(page..page + 1, Intent::Write)?;
        guards[0].write(within, data);
        Ok(())
    }
}

/// Page and place in it of a value.
#[inline]
fn place<T>(offset: u64) -> (u64, usize) {
    const {
        assert!(
            size_of::<T>().is_power_of_two() && size_of::<T>() <= PAGE_BYTES,
            "a value lies within a page"
        )
    };
    let within = (offset % PAGE_BYTES as u64) as usize;
    assert!(
        within.is_multiple_of(size_of::<T>()),
        "byte {offset} is not a multiple of {}",
        size_of::<T>()
    );
    (offset / PAGE_BYTES as u64, within)
}
