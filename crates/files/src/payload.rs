//! Where the bytes of files come from and go to: memory of this process, or pages of a host that
//! the drive alone can reach.
//!
//! A file system never looks at them: it says to [`Pages`](crate::pages::Pages) which bytes belong
//! to which pages. So bytes need no memory on their way where these can move them by themselves.

use std::ops::Range;

use crate::errno::Fault;
use crate::limits;

/// Bytes of a page of a host.
const PAGE_BYTES: usize = limits::PAGE_BYTES as usize;

/// Bytes in pages of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostBytes<'a> {
    addresses: &'a [u64],
    offset: usize,
    bytes: u64,
}

impl<'a> HostBytes<'a> {
    /// `bytes` bytes from byte `offset` of the first page on, the pages one behind the other.
    ///
    /// # Panics
    /// If they do not begin in the first page, or the pages do not have as many.
    pub fn new(addresses: &'a [u64], offset: usize, bytes: u64) -> HostBytes<'a> {
        let room = (addresses.len() * PAGE_BYTES) as u64;
        assert!(
            bytes == 0 || offset < PAGE_BYTES && offset as u64 + bytes <= room,
            "bytes lie in their pages"
        );
        HostBytes {
            addresses,
            offset,
            bytes,
        }
    }

    /// How many.
    pub fn len(self) -> u64 {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.bytes == 0
    }

    /// The pages that they lie in, each of 4096 bytes.
    pub fn addresses(self) -> &'a [u64] {
        self.addresses
    }

    /// Where in the first page they begin.
    pub fn offset(self) -> usize {
        self.offset
    }

    /// Some of them.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn slice(self, range: Range<u64>) -> HostBytes<'a> {
        assert!(
            range.start <= range.end && range.end <= self.bytes,
            "a part is of what there is"
        );
        if range.is_empty() {
            return HostBytes::new(&[], 0, 0);
        }
        let from = self.offset + range.start as usize;
        let to = self.offset + range.end as usize;
        let pages = from / PAGE_BYTES..to.div_ceil(PAGE_BYTES);
        HostBytes::new(
            &self.addresses[pages],
            from % PAGE_BYTES,
            range.end - range.start,
        )
    }

    /// What lies in each page: its address, where in it, and how many bytes.
    pub fn pieces(self) -> impl Iterator<Item = (u64, usize, usize)> + 'a {
        let (first, end) = (self.offset, self.offset + self.bytes as usize);
        let pages = self.addresses.iter().zip(0..);
        pages
            .map(move |(address, nth): (&u64, usize)| {
                let start = nth * PAGE_BYTES;
                let (from, to) = (first.max(start), end.min(start + PAGE_BYTES));
                (*address, from - start, to.saturating_sub(from))
            })
            .filter(|(_, _, bytes)| *bytes > 0)
    }
}

/// Where bytes that are read go.
#[derive(Debug, PartialEq, Eq)]
pub enum Out<'a> {
    /// Memory.
    Bytes(&'a mut [u8]),
    /// Pages of a host.
    Host(HostBytes<'a>),
}

impl<'a> Out<'a> {
    /// How many there is room for.
    pub fn len(&self) -> u64 {
        match self {
            Out::Bytes(bytes) => bytes.len() as u64,
            Out::Host(host) => host.len(),
        }
    }

    /// Whether that is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Some of it.
    ///
    /// # Panics
    /// If there is not as much.
    pub fn slice(&mut self, range: Range<u64>) -> Out<'_> {
        match self {
            Out::Bytes(bytes) => Out::Bytes(&mut bytes[range.start as usize..range.end as usize]),
            Out::Host(host) => Out::Host(host.slice(range)),
        }
    }

    /// All of it, for a while.
    pub fn again(&mut self) -> Out<'_> {
        match self {
            Out::Bytes(bytes) => Out::Bytes(bytes),
            Out::Host(host) => Out::Host(*host),
        }
    }

    /// The memory, for whoever has nothing else.
    ///
    /// # Errors
    /// [`Fault::Payload`]: it is in a host.
    pub fn memory(self) -> Result<&'a mut [u8], Fault> {
        match self {
            Out::Bytes(bytes) => Ok(bytes),
            Out::Host(_) => Err(Fault::Payload),
        }
    }
}

/// Where bytes that are written come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum In<'a> {
    /// Memory.
    Bytes(&'a [u8]),
    /// Pages of a host.
    Host(HostBytes<'a>),
}

impl<'a> In<'a> {
    /// How many.
    pub fn len(self) -> u64 {
        match self {
            In::Bytes(bytes) => bytes.len() as u64,
            In::Host(host) => host.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Some of them.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn slice(self, range: Range<u64>) -> In<'a> {
        match self {
            In::Bytes(bytes) => In::Bytes(&bytes[range.start as usize..range.end as usize]),
            In::Host(host) => In::Host(host.slice(range)),
        }
    }

    /// The memory, for whoever has nothing else.
    ///
    /// # Errors
    /// [`Fault::Payload`]: they are in a host.
    pub fn memory(self) -> Result<&'a [u8], Fault> {
        match self {
            In::Bytes(bytes) => Ok(bytes),
            In::Host(_) => Err(Fault::Payload),
        }
    }
}

impl<'a> From<&'a mut [u8]> for Out<'a> {
    fn from(bytes: &'a mut [u8]) -> Out<'a> {
        Out::Bytes(bytes)
    }
}

impl<'a> From<&'a mut Vec<u8>> for Out<'a> {
    fn from(bytes: &'a mut Vec<u8>) -> Out<'a> {
        Out::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a mut [u8; N]> for Out<'a> {
    fn from(bytes: &'a mut [u8; N]) -> Out<'a> {
        Out::Bytes(bytes)
    }
}

impl<'a> From<&'a [u8]> for In<'a> {
    fn from(bytes: &'a [u8]) -> In<'a> {
        In::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for In<'a> {
    fn from(bytes: &'a Vec<u8>) -> In<'a> {
        In::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for In<'a> {
    fn from(bytes: &'a [u8; N]) -> In<'a> {
        In::Bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_host_bytes_is_where_the_whole_has_it() {
        let addresses = [0x1000, 0x9000, 0x5000];
        let whole = HostBytes::new(&addresses, 100, 2 * 4096);
        let at = |host: HostBytes<'_>| -> Vec<u64> {
            let each = host.pieces().flat_map(|(address, from, bytes)| {
                (from..from + bytes).map(move |byte| address + byte as u64)
            });
            each.collect()
        };
        let all = at(whole);
        assert_eq!((all.len(), all[0]), (8192, 0x1064));
        for range in [0..8192, 0..1, 3995..3997, 3996..8092, 8191..8192, 50..50] {
            let part = whole.slice(range.clone());
            assert_eq!(part.len(), range.end - range.start);
            assert_eq!(at(part), all[range.start as usize..range.end as usize]);
            let within = part.slice(0..part.len());
            assert_eq!(at(within), at(part));
        }
    }

    #[test]
    fn payloads_are_parted_alike() {
        let mut bytes = [0, 1, 2, 3, 4];
        assert_eq!(In::from(&bytes).slice(1..3), In::Bytes(&[1, 2]));
        let mut out = Out::from(&mut bytes);
        out.slice(1..3).memory().unwrap().fill(9);
        assert_eq!((out.len(), out.again().len()), (5, 5));
        assert_eq!(bytes, [0, 9, 9, 3, 4]);
        let host = HostBytes::new(&[0], 0, 5);
        assert_eq!(Out::Host(host).memory(), Err(Fault::Payload));
        assert_eq!(In::Host(host).memory(), Err(Fault::Payload));
    }
}
