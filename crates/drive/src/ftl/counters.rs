//! What a core counts. Pages unless the name says otherwise.

/// Counters of one core since it was powered on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages read for the host.
    pub host_reads: u64,
    /// Pages written by the host, or for it from a frame.
    pub host_writes: u64,
    /// Pages deallocated by the host, mapped or not.
    pub trims: u64,
    /// Pages of write zeroes commands.
    pub zeroed: u64,
    /// Pages read from flash, for the host and for collection.
    pub media_reads: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Pages moved by collection.
    pub gc_moves: u64,
    /// Pages moved to level wear.
    pub wear_moves: u64,
    /// Victims collected while host writes could wait for it.
    pub gc_foreground_runs: u64,
    /// Victims collected in the background.
    pub gc_background_runs: u64,
    /// Victims chosen to level wear.
    pub wear_moves_runs: u64,
    /// Nanoseconds in which collection was moving pages or erasing.
    pub gc_busy_ns: u64,
    /// Pages found to have rotted, by any read.
    pub rot_found: u64,
    /// Of these, pages that the host asked for.
    pub unrecovered_reads: u64,
    /// Flushes served.
    pub flushes: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Pages pinned.
    pub pinned_pages: u64,
    /// Of these, pages that were in a frame.
    pub pin_hits: u64,
    /// Of the pinned pages, those whose content was brought into a frame.
    pub pin_fills: u64,
    /// Pages that lost their frame to another.
    pub frame_evictions: u64,
    /// Pages written from a frame, because it was wanted or by a flush.
    pub frame_write_backs: u64,
    /// Pins that waited for a frame.
    pub pin_waits: u64,
    /// Granules of pages written by the host, as they were compressed.
    pub host_granules: u64,
    /// Granules of pages moved by collection and wear levelling.
    pub moved_granules: u64,
    /// Units programmed.
    pub unit_programs: u64,
    /// Granules of units that nothing was put into.
    pub unfilled_granules: u64,
    /// Of these, granules of units that were closed because somebody waited for them.
    pub padding_granules: u64,
    /// Pages compressed.
    pub pages_compressed: u64,
    /// Pages read from flash and expanded.
    pub pages_expanded: u64,
}

impl Counters {
    /// Adds another core's counters.
    pub fn add(&mut self, other: &Counters) {
        let Counters {
            host_reads,
            host_writes,
            trims,
            zeroed,
            media_reads,
            programs,
            erases,
            gc_moves,
            wear_moves,
            gc_foreground_runs,
            gc_background_runs,
            wear_moves_runs,
            gc_busy_ns,
            rot_found,
            unrecovered_reads,
            flushes,
            checkpoints,
            pinned_pages,
            pin_hits,
            pin_fills,
            frame_evictions,
            frame_write_backs,
            pin_waits,
            host_granules,
            moved_granules,
            unit_programs,
            unfilled_granules,
            padding_granules,
            pages_compressed,
            pages_expanded,
        } = other;
        self.host_reads += host_reads;
        self.host_writes += host_writes;
        self.trims += trims;
        self.zeroed += zeroed;
        self.media_reads += media_reads;
        self.programs += programs;
        self.erases += erases;
        self.gc_moves += gc_moves;
        self.wear_moves += wear_moves;
        self.gc_foreground_runs += gc_foreground_runs;
        self.gc_background_runs += gc_background_runs;
        self.wear_moves_runs += wear_moves_runs;
        self.gc_busy_ns += gc_busy_ns;
        self.rot_found += rot_found;
        self.unrecovered_reads += unrecovered_reads;
        self.flushes += flushes;
        self.checkpoints += checkpoints;
        self.pinned_pages += pinned_pages;
        self.pin_hits += pin_hits;
        self.pin_fills += pin_fills;
        self.frame_evictions += frame_evictions;
        self.frame_write_backs += frame_write_backs;
        self.pin_waits += pin_waits;
        self.host_granules += host_granules;
        self.moved_granules += moved_granules;
        self.unit_programs += unit_programs;
        self.unfilled_granules += unfilled_granules;
        self.padding_granules += padding_granules;
        self.pages_compressed += pages_compressed;
        self.pages_expanded += pages_expanded;
    }

    /// Pages programmed for each page the host wrote; 1 if it wrote none.
    pub fn write_amplification(&self) -> f64 {
        if self.host_writes == 0 {
            1.0
        } else {
            self.programs as f64 / self.host_writes as f64
        }
    }
}
