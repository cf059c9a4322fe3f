//! What controller and cores say to each other: parts of commands, and answers.

use wharf_wire::pin::{Access, Unpin};
use wharf_wire::queue::Guest;
use wharf_wire::status::StatusCode;

use crate::divide::{quotient, remainder};

/// What a part asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartOp {
    /// Pages to host memory.
    Read,
    /// Pages from host memory.
    Write,
    /// Read pages without moving them.
    Verify,
    /// Pages read as zeros from now on.
    Deallocate,
    /// The same, on behalf of a write zeroes command.
    WriteZeroes,
    /// Everything acknowledged becomes durable.
    Flush,
    /// Every page is deallocated, durably; with `count` = 1 the flash is erased too.
    Format,
    /// Leave statistics in the core status.
    Report,
    /// Turn the volatile write cache on (`count` = 1) or off (0).
    SetWriteCache,
    /// Unpin and pin: a [`PinRequest`].
    Pin,
    /// What is cached and dirty becomes durable; the first half of lending memory.
    WriteBack,
    /// Forget what is cached, and take the share of the host memory buffer that the core status has.
    Lend,
    /// Answer the pins in line that came on queue `count`: it is being deleted.
    GiveUp,
    /// Take back what guest number `count` holds: it is gone.
    Release,
}

/// A part of a command: what one core has to do for it.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// First PRP of the command.
    pub prp1: u64,
    /// Second PRP of the command: a page or a list.
    pub prp2: u64,
    /// When the data of a write have arrived from the host, in nanoseconds.
    pub data_ready_ns: u64,
    /// When a worker took it up, in nanoseconds: the core's to fill.
    pub taken_ns: u64,
    /// First logical page, local to the core.
    pub first: u32,
    /// Logical pages.
    pub count: u32,
    /// Pages of the command's transfer.
    pub transfer_pages: u32,
    /// Which of them is the part's first.
    pub transfer_first: u32,
    /// The controller's slot of the command.
    pub slot: u16,
    /// The queue that a pin came on; 0 for all else.
    pub qid: u16,
    /// What to do.
    pub op: PartOp,
    /// Answer only when it is durable.
    pub fua: bool,
}

const _: () = assert!(size_of::<Part>() <= 64);

/// The answer to a part.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// The controller's slot of the command.
    pub slot: u16,
    /// How it went.
    pub status: StatusCode,
    /// The first page that failed, local to the core; of no meaning after success.
    pub lpn: u32,
    /// The frame that a pin of one page got, of the core's; [`NONE`](crate::ftl::NONE) for all else.
    pub frame: u32,
    /// Nanoseconds that a worker had the part, 4.2 s at most; 0 where operations are not timed.
    pub served_ns: u32,
    /// Pages that went to the host beyond those that the controller knows of.
    pub to_host: u16,
    /// That frame holds zeros which the host is still to overwrite.
    pub is_blank: bool,
}

const _: () = assert!(size_of::<Answer>() <= 20);

/// What a pin or unpin asks of one core: it sees the whole list, and serves what is its own.
///
/// It travels as a [`Part`], in the fields that other parts use for their transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinRequest {
    /// DMA address of the list page, if there is one.
    pub list: Option<u64>,
    /// First page of the window: an address of the namespace.
    pub window: u64,
    /// Pages of the window: those that the list's bitmap names, or 1 without a list; 0 for an unpin.
    pub pages: u32,
    /// Unpins at the end of the list, or 1 without a list for [`PinRequest::unpin`].
    pub unpins: u32,
    /// The unpin that the command has in itself.
    pub unpin: Unpin,
    /// What pinned pages are for.
    pub access: Access,
    /// Fail rather than wait while every frame is held.
    pub may_not_wait: bool,
    /// It waited, and is the next of those.
    pub has_waited: bool,
    /// An unpin failed before the wait: the first page that did, local to the core, is what
    /// [`PinRequest::unpin`] names now.
    pub unpin_failed: bool,
    /// The pages were to be changed, and the drive takes no more writes: unpins are all it does.
    pub write_protected: bool,
    /// The queue that the command came on.
    pub qid: u16,
    /// Who asks, if it is a host in another process.
    pub guest: Option<Guest>,
}

impl PinRequest {
    const ACCESS: [Access; 3] = [Access::Read, Access::Write, Access::Overwrite];

    /// The part that carries the request.
    pub fn into_part(self, slot: u16) -> Part {
        let access = Self::ACCESS.iter().position(|a| *a == self.access);
        let flags = [
            self.may_not_wait,
            self.has_waited,
            self.unpin_failed,
            self.list.is_some(),
            self.write_protected,
        ];
        let flags = (0..).zip(flags).map(|(bit, on)| u32::from(on) << bit);
        let guest = self.guest.map_or(0, |guest| guest.number + 1);
        Part {
            prp1: self.list.unwrap_or(0),
            prp2: self.window,
            data_ready_ns: self.unpin.to_entry(),
            taken_ns: 0,
            first: self.guest.map_or(0, |guest| guest.frames_max),
            count: self.pages,
            transfer_pages: self.unpins,
            transfer_first: flags.sum::<u32>() | (access.unwrap_or(0) as u32) << 5 | guest << 8,
            slot,
            qid: self.qid,
            op: PartOp::Pin,
            fua: false,
        }
    }

    /// The request that a part carries.
    pub fn of(part: &Part) -> PinRequest {
        let flag = |bit: u32| part.transfer_first >> bit & 1 == 1;
        PinRequest {
            list: flag(3).then_some(part.prp1),
            window: part.prp2,
            pages: part.count,
            unpins: part.transfer_pages,
            unpin: Unpin::from_entry(part.data_ready_ns),
            access: Self::ACCESS[part.transfer_first as usize >> 5 & 7],
            may_not_wait: flag(0),
            has_waited: flag(1),
            unpin_failed: flag(2),
            write_protected: flag(4),
            qid: part.qid,
            guest: (part.transfer_first >> 8)
                .checked_sub(1)
                .map(|number| Guest {
                    number,
                    frames_max: part.first,
                }),
        }
    }
}

/// Why a part failed, and where.
#[derive(Debug, Clone, Copy)]
pub struct Failed {
    /// What the host is told.
    pub status: StatusCode,
    /// The page, local to the core.
    pub lpn: u32,
}

/// How logical addresses go round the cores: stripe by stripe.
#[derive(Debug, Clone, Copy)]
pub struct Striping {
    /// Pages of a stripe.
    pub stripe_pages: u32,
    /// Cores.
    pub cores: u32,
}

impl Striping {
    /// The core of a page, and its number there.
    #[inline]
    pub fn locate(&self, page: u64) -> (u32, u32) {
        let stripe = quotient(page, self.stripe_pages);
        let within = remainder(page, self.stripe_pages);
        let core = remainder(stripe, self.cores);
        let local = quotient(stripe, self.cores) * u64::from(self.stripe_pages) + within;
        (core as u32, local as u32)
    }

    /// The page that is number `local` of `core`.
    pub fn page_of(&self, core: u32, local: u32) -> u64 {
        let stripe = u64::from(local / self.stripe_pages) * u64::from(self.cores) + u64::from(core);
        stripe * u64::from(self.stripe_pages) + u64::from(local % self.stripe_pages)
    }

    /// How many pages below `page` belong to `core`: a range of the drive is one range of a core.
    pub fn pages_below(&self, page: u64, core: u32) -> u32 {
        let stripe_pages = u64::from(self.stripe_pages);
        let round = stripe_pages * u64::from(self.cores);
        let rest = (page % round).saturating_sub(u64::from(core) * stripe_pages);
        (page / round * stripe_pages + rest.min(stripe_pages)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_request_comes_back() {
        for (bits, access) in (0..16).zip(PinRequest::ACCESS.into_iter().cycle()) {
            let flag = |bit: u32| bits >> bit & 1 == 1;
            let request = PinRequest {
                list: flag(0).then_some(0x5000),
                window: 1 << 40,
                pages: 512,
                unpins: 504,
                unpin: Unpin {
                    lba: 77,
                    is_dirty: flag(1),
                },
                access,
                may_not_wait: flag(2),
                has_waited: flag(3),
                unpin_failed: flag(1),
                write_protected: flag(0),
                qid: 3,
                guest: flag(2).then_some(Guest {
                    number: bits,
                    frames_max: 1 << 30,
                }),
            };
            assert_eq!(PinRequest::of(&request.into_part(9)), request);
        }
    }

    #[test]
    fn pages_below_counts_what_locate_places() {
        let striping = Striping {
            stripe_pages: 3,
            cores: 4,
        };
        let mut counts = [0u32; 4];
        for page in 0..100u64 {
            for core in 0..4 {
                assert_eq!(
                    striping.pages_below(page, core),
                    counts[core as usize],
                    "{page} {core}"
                );
            }
            let (core, local) = striping.locate(page);
            assert_eq!(local, counts[core as usize]);
            assert_eq!(striping.page_of(core, local), page);
            counts[core as usize] += 1;
        }
    }
}
