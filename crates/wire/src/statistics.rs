//! The drive's own statistics: vendor log pages C0h (the drive) and C1h (each core).
//!
//! All counters run from power-up and only grow, so that a run is the difference of two
//! readings ([`DriveStatistics::since`]); gauges tell the present state. What the cores tell
//! adds up to what the drive tells ([`DriveStatistics::merge`]). Units are pages of 4096 bytes
//! where none is named.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Granules of a page.
const PAGE_GRANULES: u64 = 64;

/// Declares the struct and how each of its numbers is added and subtracted:
/// `counter` (sum; difference), `gauge` (sum; the later), `lowest` and `highest` (the extreme;
/// the later).
macro_rules! statistics {
    ($($(#[$meta:meta])* $kind:ident $name:ident,)*) => {
        /// What a drive, or one core of it, did since power-up, and its present state.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub struct DriveStatistics {
            /// Version of this structure: [`DriveStatistics::VERSION`]. Later versions only
            /// add fields where now is `reserved`.
            pub version: u32,
            /// The firmware core that these are of, or [`DriveStatistics::WHOLE_DRIVE`].
            pub core: u32,
            $($(#[$meta])* pub $name: u64,)*
            pub(crate) reserved: [u64; RESERVED_WORDS],
        }

        const RESERVED_WORDS: usize = 63 - [$(stringify!($name)),*].len();

        impl DriveStatistics {
            /// Every number with its name, in the order of the log page: for reports.
            pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            /// Adds what another core did.
            pub fn merge(&mut self, other: &DriveStatistics) {
                $(self.$name = merged!($kind, self.$name, other.$name);)*
            }

            /// What was done between `earlier` and this reading of the same drive; gauges keep
            /// their present value. A drive that lost power in between counts from there on.
            #[must_use]
            pub fn since(&self, earlier: &DriveStatistics) -> DriveStatistics {
                DriveStatistics { $($name: since!($kind, self.$name, earlier.$name),)* ..*self }
            }
        }
    };
}

macro_rules! merged {
    (counter, $a:expr, $b:expr) => {
        $a.saturating_add($b)
    };
    (gauge, $a:expr, $b:expr) => {
        $a.saturating_add($b)
    };
    (lowest, $a:expr, $b:expr) => {
        $a.min($b)
    };
    (highest, $a:expr, $b:expr) => {
        $a.max($b)
    };
}

macro_rules! since {
    (counter, $later:expr, $earlier:expr) => {
        $later.saturating_sub($earlier)
    };
    ($_other:ident, $later:expr, $earlier:expr) => {
        $later
    };
}

statistics! {
    /// Read commands completed.
    counter host_read_commands,
    /// Pages that they read.
    counter host_read_pages,
    /// Write commands completed.
    counter host_write_commands,
    /// Pages that they wrote.
    counter host_write_pages,
    /// Flush commands completed.
    counter flush_commands,
    /// Pages deallocated by the host, whether or not they were mapped.
    counter trimmed_pages,
    /// Pages that write zeroes commands set to zeros.
    counter zeroed_pages,
    /// Page reads of the media, for whatever reason.
    counter media_reads,
    /// Page programs of the media, for whatever reason.
    counter media_programs,
    /// Block erases of the media.
    counter media_erases,
    /// Valid pages that garbage collection moved.
    counter gc_moved_pages,
    /// Blocks that garbage collection freed while a write waited for space.
    counter gc_runs_foreground,
    /// Blocks that garbage collection freed with no write waiting.
    counter gc_runs_background,
    /// Valid pages that static wear levelling moved.
    counter wear_moved_pages,
    /// Blocks that static wear levelling freed.
    counter wear_runs,
    /// Pages programmed for mapping checkpoints and other data of the drive's own.
    counter metadata_pages,
    /// Write amplification, numerator: pages programmed for the host, for garbage collection,
    /// for wear levelling and for metadata.
    counter write_amplification_programmed_pages,
    /// Write amplification, denominator: pages programmed for the host alone.
    counter write_amplification_host_pages,
    /// Nanoseconds with garbage collection going on, summed over cores.
    counter gc_busy_ns,
    /// Nanoseconds of read, program and erase, summed over dies.
    counter die_busy_ns,
    /// Fewest erases of a block in use.
    lowest erase_count_min,
    /// Most erases of a block in use.
    highest erase_count_max,
    /// Erases of all blocks in use.
    gauge erase_count_sum,
    /// Blocks in use: all but the retired ones.
    gauge blocks,
    /// Blocks that are erased, or may be erased at once, and take new data.
    gauge free_blocks,
    /// Blocks taken out of use.
    gauge retired_blocks,
    /// Logical pages that hold data.
    gauge mapped_pages,
    /// Pages of read and verify commands answered with an unrecovered read error.
    counter unrecovered_reads,
    /// Pages whose checksum did not match, on any read of the media.
    counter rot_found,
    /// Pin commands completed.
    counter pin_commands,
    /// Unpin commands completed.
    counter unpin_commands,
    /// Pages that pin commands asked for and got.
    counter pinned_pages,
    /// Of these, pages that were in a frame.
    counter pin_hits,
    /// Pages that lost their frame to another.
    counter frame_evictions,
    /// Pages written from a frame to the media, because the frame was wanted or by a flush.
    counter frame_write_backs,
    /// Pins that waited, on a core, because every frame was held.
    counter pin_waits,
    /// Frames of the host memory buffer in use: what divides evenly among the cores.
    gauge frames,
    /// Frames with references.
    gauge frames_held,
    /// Nanoseconds that cores served I/O commands, flash included: of each command the part that ended
    /// last, from when the core took it up; 0 where the drive does not time its work.
    counter service_ns,
    /// Of the pinned pages, those whose content was brought into a frame: not those that were in one, nor those
    /// that were to be overwritten.
    counter pin_fills,
    /// Granules of 64 bytes that the data of all logical pages take; 64 each where pages are not packed.
    gauge used_granules,
    /// Granules that they may take at most.
    gauge capacity_granules,
    /// Of pages that were packed: granules that those written for the host took.
    counter host_granules,
    /// And those moved by garbage collection and static wear levelling.
    counter moved_granules,
    /// Units programmed, each of several pages.
    counter unit_programs,
    /// Granules of these units that were left empty.
    counter unfilled_granules,
    /// Of these, granules of units that were programmed before they were full, because somebody waited.
    counter padding_granules,
    /// Pages compressed.
    counter compressed_pages,
    /// Pages read from the media and expanded.
    counter expanded_pages,
    /// Times that the heads of a disk did not go on where they had ended; 0 of flash.
    counter seeks,
    /// Nanoseconds of a disk's seeks, changes of heads, and waits for the turn; 0 of flash.
    counter positioning_ns,
    /// Of the seeks, those of reads.
    counter read_seeks,
    /// Bytes of the drive's memory that its map takes; 0 of disks.
    gauge map_bytes,
    /// Bytes that I/O commands had the link carry to the host: data, and completions of 16 bytes.
    counter link_to_host_bytes,
    /// Bytes that I/O commands had the link carry from the host: data, and commands of 64 bytes.
    counter link_from_host_bytes,
}

const _: () = assert!(size_of::<DriveStatistics>() == 512);

impl DriveStatistics {
    /// The version that this crate writes and reads.
    pub const VERSION: u32 = 1;

    /// The value of `core` that stands for all cores together.
    pub const WHOLE_DRIVE: u32 = u32::MAX;

    /// Nothing done yet, by `core`. The lowest erase count starts at its maximum, so that
    /// merging works; a core that owns blocks sets it.
    pub fn new(core: u32) -> DriveStatistics {
        DriveStatistics {
            version: DriveStatistics::VERSION,
            core,
            erase_count_min: u64::MAX,
            ..FromZeros::new_zeroed()
        }
    }

    /// The sum of what the cores did.
    pub fn total<'a>(cores: impl IntoIterator<Item = &'a DriveStatistics>) -> DriveStatistics {
        let mut total = DriveStatistics::new(DriveStatistics::WHOLE_DRIVE);
        cores.into_iter().for_each(|core| total.merge(core));
        total
    }

    /// Pages programmed per page of the host, or `None` if it wrote none.
    pub fn write_amplification(&self) -> Option<f64> {
        let host = self.write_amplification_host_pages;
        (host > 0).then(|| self.write_amplification_programmed_pages as f64 / host as f64)
    }

    /// Bytes of logical pages for each byte that they take on the media, rests of units left out; `None` if
    /// there are none.
    pub fn physical_ratio(&self) -> Option<f64> {
        let bytes = self.mapped_pages as f64 * PAGE_GRANULES as f64;
        (self.used_granules > 0).then(|| bytes / self.used_granules as f64)
    }

    /// Granules programmed for each that the host's pages took when they had been compressed, or `None`
    /// if no page was packed: what packing and garbage collection add.
    pub fn write_amplification_of_granules(&self) -> Option<f64> {
        let programmed = self.write_amplification_programmed_pages as f64 * PAGE_GRANULES as f64;
        (self.host_granules > 0).then(|| programmed / self.host_granules as f64)
    }

    /// Mean erases of a block in use, or `None` if there are none.
    pub fn erase_count_mean(&self) -> Option<f64> {
        (self.blocks > 0).then(|| self.erase_count_sum as f64 / self.blocks as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(core: u32, start: u64) -> DriveStatistics {
        let mut words = [0_u64; 64];
        words
            .iter_mut()
            .zip(start..)
            .for_each(|(word, value)| *word = value);
        let mut statistics = DriveStatistics::read_from_bytes(words.as_bytes()).unwrap();
        statistics.version = DriveStatistics::VERSION;
        statistics.core = core;
        statistics
    }

    #[test]
    fn values_name_every_number_in_order() {
        let statistics = counted(0, 100);
        let values: Vec<_> = statistics.values().collect();
        assert_eq!(values[0], ("host_read_commands", 101));
        assert!(
            values
                .iter()
                .map(|v| v.1)
                .eq(101..101 + values.len() as u64)
        );
        assert_eq!(values.len() + RESERVED_WORDS, 63);
    }

    #[test]
    fn the_drive_is_the_sum_of_its_cores() {
        let (a, b) = (counted(0, 100), counted(1, 1000));
        let total = DriveStatistics::total([&a, &b]);
        assert_eq!(
            (total.version, total.core),
            (1, DriveStatistics::WHOLE_DRIVE)
        );
        assert_eq!(total.host_read_pages, a.host_read_pages + b.host_read_pages);
        assert_eq!(total.free_blocks, a.free_blocks + b.free_blocks);
        assert_eq!(total.erase_count_min, a.erase_count_min);
        assert_eq!(total.erase_count_max, b.erase_count_max);
    }

    #[test]
    fn a_run_is_the_difference_of_counters_and_the_later_state() {
        let (before, after) = (counted(0, 100), counted(0, 150));
        let run = after.since(&before);
        assert_eq!((run.core, run.media_erases, run.rot_found), (0, 50, 50));
        assert_eq!(run.mapped_pages, after.mapped_pages);
        assert_eq!(run.erase_count_min, after.erase_count_min);
        assert_eq!(run.erase_count_max, after.erase_count_max);
        assert_eq!(before.since(&after).media_erases, 0);
    }

    #[test]
    fn ratios_want_something_to_divide_by() {
        let mut statistics = DriveStatistics::new(0);
        assert_eq!(statistics.write_amplification(), None);
        assert_eq!(statistics.erase_count_mean(), None);
        statistics.write_amplification_programmed_pages = 30;
        statistics.write_amplification_host_pages = 20;
        statistics.erase_count_sum = 9;
        statistics.blocks = 6;
        assert_eq!(statistics.write_amplification(), Some(1.5));
        assert_eq!(statistics.erase_count_mean(), Some(1.5));
    }
}
