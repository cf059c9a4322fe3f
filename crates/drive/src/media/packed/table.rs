//! What memory holds of the extents of a core: 24 bytes each, in a list for each block.
//!
//! Nothing is held for a granule, nor for an extent that does not exist: a core's memory follows
//! what is written.

use super::unit::{Content, Form, PAGE_GRANULES};
use crate::media::Oob;

/// One extent.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// 0: lost with its unit's directory.
    lpn_plus_1: u32,
    /// Less the block's.
    seq_offset: u32,
    /// The granule of the block that it begins at.
    pub start: u32,
    bytes: u16,
    form: u16,
    /// The checksum of what is kept, or the stamp itself.
    pub payload: u64,
}

const _: () = assert!(size_of::<Extent>() == 24);

/// An extent of which nothing is known.
const LOST: Extent = Extent {
    lpn_plus_1: 0,
    seq_offset: 0,
    start: 0,
    bytes: 1,
    form: Form::Raw as u16,
    payload: 0,
};

impl Extent {
    /// How its page is kept.
    #[inline]
    pub fn content(&self) -> Content {
        Content {
            bytes: self.bytes,
            form: Form::of_number(self.form).expect("it was made from a form"),
        }
    }
}

/// One erase block.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// The sequence number of the first program after the erase.
    seq_base: u64,
    /// Erases.
    pub erase_count: u32,
    /// Units from its start up to the last that was programmed.
    pub units: u32,
    extents: Vec<Extent>,
}

impl Block {
    /// Extents from its start up to the last.
    #[inline]
    pub fn extents(&self) -> u32 {
        self.extents.len() as u32
    }

    /// The extent of this number, unless it was never written.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Extent> {
        self.extents.get(index as usize)
    }

    /// Whose page an extent is; `None` if it was never written or is lost.
    #[inline]
    pub fn oob(&self, index: u32) -> Option<Oob> {
        let extent = self.get(index)?;
        Some(Oob {
            lpn: extent.lpn_plus_1.checked_sub(1)?,
            seq: self.seq_base + u64::from(extent.seq_offset),
        })
    }

    /// Empties the block.
    pub fn erase(&mut self) {
        *self = Block {
            erase_count: self.erase_count + 1,
            ..Block::default()
        };
    }

    /// Notes a unit that is programmed, whose first extent is to have this number; what is between
    /// that and the extents before is lost.
    ///
    /// # Panics
    /// If the unit is not erased, or an extent of this number exists.
    pub fn push_unit(
        &mut self,
        unit: u32,
        unit_pages: u32,
        first_extent: u32,
        extents: impl Iterator<Item = (Oob, Content, u64)>,
    ) {
        assert!(unit >= self.units, "unit {unit} is not erased");
        self.lose_up_to(first_extent);
        assert!(first_extent == self.extents(), "an extent has two units");
        let mut start = unit * unit_pages * PAGE_GRANULES;
        for (oob, content, payload) in extents {
            if self.seq_base == 0 {
                self.seq_base = oob.seq;
            }
            let offset = oob.seq.checked_sub(self.seq_base);
            let offset = offset.and_then(|offset| u32::try_from(offset).ok());
            self.extents.push(Extent {
                lpn_plus_1: oob.lpn + 1,
                seq_offset: offset.expect("the block was open for 2^32 programs, or seq fell"),
                start,
                bytes: content.bytes,
                form: content.form as u16,
                payload,
            });
            start += content.granules();
        }
        self.units = unit + 1;
    }

    /// Notes a unit whose directory cannot be read: it may have had so many extents.
    pub fn lose_unit(&mut self, unit: u32, extents_max: u32) {
        self.units = unit + 1;
        self.lose_up_to(self.extents() + extents_max);
    }

    /// Forgets lost extents at the end down to this number: the unit behind them names its own.
    pub fn trim_lost(&mut self, first_extent: u32) {
        while self.extents() > first_extent
            && self.extents.last().is_some_and(|last| last.lpn_plus_1 == 0)
        {
            self.extents.pop();
        }
    }

    fn lose_up_to(&mut self, extents: u32) {
        if self.extents() < extents {
            self.extents.resize(extents as usize, LOST);
        }
    }

    /// Gives back memory that a block which is full will not need.
    pub fn shrink(&mut self) {
        self.extents.shrink_to_fit();
    }
}
