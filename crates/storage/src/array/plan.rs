//! How a write to a window of RAID-5 gets its new parity: by the fewest reads.

/// A way to the new parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// The member with parity is left out: nothing to compute.
    NoParity,
    /// Read what is overwritten, and parity; take the old out and the new in (read-modify-write).
    Modify,
    /// Read what is not overwritten, and add up all (reconstruct-write); a whole stripe reads nothing.
    Reconstruct,
    /// Read everything else, find what the lost chunk holds, and add up all.
    Rescue,
}

/// What decides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation {
    /// Data chunks in the stripe.
    pub data_chunks: u32,
    /// Of these, how many the write touches.
    pub touched: u32,
    /// Of these, how many it does not cover over the whole range that parity changes in.
    pub partly: u32,
    /// Whether parity is to be written.
    pub parity_writable: bool,
    /// Whether parity can be read.
    pub parity_readable: bool,
    /// The data chunk that cannot be read, if any.
    pub lost: Option<Lost>,
}

/// A data chunk that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// The write does not touch it.
    Untouched,
    /// The write covers part of it.
    Partly,
    /// The write covers it over the whole range.
    Whole,
}

impl Situation {
    /// The plan with the fewest reads among those that can be; none if there is none.
    pub(super) fn plan(&self) -> Option<Plan> {
        if !self.parity_writable {
            return Some(Plan::NoParity);
        }
        let modify = self.touched + 1;
        let reconstruct = self.data_chunks - self.touched + self.partly;
        match (self.lost, self.parity_readable) {
            (None, true) if modify < reconstruct => Some(Plan::Modify),
            (None, _) => Some(Plan::Reconstruct),
            (Some(Lost::Untouched), true) => Some(Plan::Modify),
            (Some(Lost::Whole), _) => Some(Plan::Reconstruct),
            (Some(Lost::Partly), true) => Some(Plan::Rescue),
            (Some(_), false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy(data_chunks: u32, touched: u32, partly: u32) -> Option<Plan> {
        let (parity_writable, parity_readable, lost) = (true, true, None);
        Situation {
            data_chunks,
            touched,
            partly,
            parity_writable,
            parity_readable,
            lost,
        }
        .plan()
    }

    #[test]
    fn the_fewest_reads_win() {
        assert_eq!(healthy(7, 1, 0), Some(Plan::Modify)); // 2 reads against 6
        assert_eq!(healthy(7, 7, 0), Some(Plan::Reconstruct)); // 8 against none
        assert_eq!(healthy(7, 5, 0), Some(Plan::Reconstruct)); // 6 against 2
        assert_eq!(healthy(7, 5, 5), Some(Plan::Modify)); // 6 against 7
        assert_eq!(healthy(2, 1, 0), Some(Plan::Reconstruct)); // 2 against 1
    }

    #[test]
    fn what_cannot_be_read_is_gone_around() {
        let base = Situation {
            data_chunks: 3,
            touched: 1,
            partly: 0,
            parity_writable: true,
            parity_readable: true,
            lost: None,
        };
        let with = |lost| {
            Situation {
                lost: Some(lost),
                ..base
            }
            .plan()
        };
        assert_eq!(with(Lost::Untouched), Some(Plan::Modify));
        assert_eq!(with(Lost::Whole), Some(Plan::Reconstruct));
        assert_eq!(with(Lost::Partly), Some(Plan::Rescue));
        let blind = Situation {
            parity_readable: false,
            ..base
        };
        assert_eq!(blind.plan(), Some(Plan::Reconstruct));
        let both = Situation {
            lost: Some(Lost::Untouched),
            ..blind
        };
        assert_eq!(both.plan(), None);
        let failed = Situation {
            parity_writable: false,
            ..blind
        };
        assert_eq!(failed.plan(), Some(Plan::NoParity));
    }
}
