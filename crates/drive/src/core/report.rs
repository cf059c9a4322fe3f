//! A core's statistics, as the vendor log pages have them.

use wharf_wire::statistics::DriveStatistics;

use super::state::Core;
use crate::disk::Disk;
use crate::ftl::Ftl;

impl Core {
    /// Makes the core's statistics.
    pub fn make_report(&self) {
        let report = match &self.disk {
            Some(disk) => disk_statistics(self.index, disk),
            None => self.with_ftl(|ftl| statistics(self.index, ftl)),
        };
        self.report.set(Some(report));
    }
}

/// What `disk` counted.
fn disk_statistics(core: u32, disk: &Disk) -> DriveStatistics {
    let counters = disk.counters.get();
    let mut report = DriveStatistics::new(core);
    report.host_read_pages = counters.read_sectors;
    report.host_write_pages = counters.written_sectors;
    report.trimmed_pages = counters.trimmed_sectors;
    report.zeroed_pages = counters.zeroed_sectors;
    report.media_reads = counters.media_reads;
    report.media_programs = counters.media_writes;
    // Written in place: sectors that were overwritten in the buffer were written for the host once.
    report.write_amplification_programmed_pages = counters.media_writes;
    report.write_amplification_host_pages = counters.media_writes;
    report.die_busy_ns = counters.busy_ns;
    report.mapped_pages = u64::from(disk.sectors());
    report.seeks = counters.seeks;
    report.read_seeks = counters.read_seeks;
    report.positioning_ns = counters.positioning_ns;
    report
}

/// What `ftl` counted, with its present state.
pub fn statistics(core: u32, ftl: &Ftl) -> DriveStatistics {
    let counters = *ftl.counters();
    let (least, most, sum, retired) = ftl.wear();
    let mut report = DriveStatistics::new(core);
    report.host_read_pages = counters.host_reads;
    report.host_write_pages = counters.host_writes - counters.frame_write_backs;
    report.trimmed_pages = counters.trims;
    report.zeroed_pages = counters.zeroed;
    report.media_reads = counters.media_reads;
    report.media_programs = counters.programs;
    report.media_erases = counters.erases;
    report.gc_moved_pages = counters.gc_moves;
    report.gc_runs_foreground = counters.gc_foreground_runs;
    report.gc_runs_background = counters.gc_background_runs;
    report.wear_moved_pages = counters.wear_moves;
    report.wear_runs = counters.wear_moves_runs;
    report.write_amplification_programmed_pages = counters.programs;
    report.write_amplification_host_pages = counters.host_writes;
    report.gc_busy_ns = counters.gc_busy_ns;
    report.die_busy_ns = ftl.plane_busy_ns();
    report.erase_count_min = if least == u32::MAX {
        u64::MAX
    } else {
        u64::from(least)
    };
    report.erase_count_max = u64::from(most);
    report.erase_count_sum = sum;
    report.blocks = u64::from(ftl.plan().blocks - retired);
    report.free_blocks = u64::from(ftl.free_blocks());
    report.retired_blocks = u64::from(retired);
    report.mapped_pages = u64::from(ftl.mapped());
    report.unrecovered_reads = counters.unrecovered_reads;
    report.rot_found = counters.rot_found;
    report.pinned_pages = counters.pinned_pages;
    report.pin_hits = counters.pin_hits;
    report.pin_fills = counters.pin_fills;
    report.frame_evictions = counters.frame_evictions;
    report.frame_write_backs = counters.frame_write_backs;
    report.pin_waits = counters.pin_waits;
    report.map_bytes = ftl.map_bytes();
    report.used_granules = ftl.used_granules();
    report.capacity_granules = ftl.plan().capacity_granules();
    report.host_granules = counters.host_granules;
    report.moved_granules = counters.moved_granules;
    report.unit_programs = counters.unit_programs;
    report.unfilled_granules = counters.unfilled_granules;
    report.padding_granules = counters.padding_granules;
    report.compressed_pages = counters.pages_compressed;
    report.expanded_pages = counters.pages_expanded;
    report.frames = u64::from(ftl.cached().count());
    report.frames_held = u64::from(ftl.cached().taken_or_reserved());
    report
}
