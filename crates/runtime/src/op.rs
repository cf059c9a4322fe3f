//! Operations that cost CPU time, their categories, cost tables and profiles.
//!
//! Costs are measured, never typed in: `wharf calibrate` times the real code behind each operation
//! and writes a table; every table says where it came from.

use std::collections::BTreeMap;

#[cfg(feature = "cost-tables")]
use serde::{Deserialize, Serialize};

/// Which half of the stack a CPU belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(
    feature = "cost-tables",
    derive(Serialize, Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum Side {
    /// The machine that runs the programs.
    Host,
    /// The processors inside the drive.
    Drive,
}

/// What a CPU's time is spent on, as reports show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(
    feature = "cost-tables",
    derive(Serialize, Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum Category {
    /// The client program itself: making and accounting a request.
    Client,
    /// Finding a page in a cache.
    Index,
    /// Choosing victims, taking and releasing frames.
    Replacement,
    /// Moving bytes: between the program and a cache, in a drive without an engine for it.
    Copy,
    /// Putting commands on queues and taking completions off.
    Driver,
    /// The drive's controller: fetching, splitting, gathering, completing.
    Controller,
    /// Logical-to-physical mapping and allocation.
    Ftl,
    /// Garbage collection and wear levelling.
    Gc,
    /// Waiting for and fetching what another CPU has: locks, cache lines.
    Contention,
    /// Messages between the CPUs of the host.
    Message,
    /// The operating system: system calls, block layer, interrupts, switches between threads.
    System,
    /// Exclusive or of pages, for arrays with parity.
    Parity,
    /// Compressing pages and expanding them.
    Compression,
    /// File systems: names, inodes, extents, their journal.
    Files,
    /// Functions on bytes of files.
    Compute,
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $key:literal, $category:ident;)*) => {
        /// An operation with a cost.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Op { $($(#[$doc])* $name,)* }

        impl Op {
            /// All operations, in the order of their numbers.
            pub const ALL: &[Op] = &[$(Op::$name,)*];

            /// The name used in cost tables.
            pub const fn key(self) -> &'static str {
                match self { $(Op::$name => $key,)* }
            }

            /// The category that reports put it under.
            pub const fn category(self) -> Category {
                match self { $(Op::$name => Category::$category,)* }
            }
        }
    };
}

operations! {
    /// A client makes one request and accounts for its end.
    ClientRequest = "client_request", Client;
    /// A page is looked up in a cache's index, with the lock it takes.
    CacheLookup = "cache_lookup", Index;
    /// A page enters or leaves a cache's index.
    CacheUpdate = "cache_update", Index;
    /// The clock hand passes one frame.
    ClockStep = "clock_step", Replacement;
    /// 4 KiB are copied between a program's buffer and a frame.
    CopyPage = "copy_page", Copy;
    /// A command is written to a submission queue, with its PRP entries, and the doorbell notified.
    DriverSubmit = "driver_submit", Driver;
    /// A completion is taken off its queue and matched to its command.
    DriverComplete = "driver_complete", Driver;
    /// The controller fetches, checks and decodes a command.
    CommandFetch = "command_fetch", Controller;
    /// The controller hands a part of a command to a core.
    CommandSplit = "command_split", Controller;
    /// The controller takes a core's answer and accounts it to its command.
    CommandGather = "command_gather", Controller;
    /// The controller posts a completion.
    CommandComplete = "command_complete", Controller;
    /// A turn of the controller's loop, where it is software: it looks at what rang, and at what is to be sent.
    ControllerTurn = "controller_turn", Controller;
    /// A core wakes, finds what has come, and a task of it takes it up.
    CoreTurn = "core_turn", Ftl;
    /// A core takes a part of a command and answers it.
    CorePart = "core_part", Ftl;
    /// A map entry is looked up for a read.
    MapLookup = "map_lookup", Ftl;
    /// A page is given a place on flash and a buffer for its way there.
    PageAllocate = "page_allocate", Ftl;
    /// A page's program has ended: map, valid counts, buffer.
    MapUpdate = "map_update", Ftl;
    /// Map entries of a run of pages are dropped, for each page.
    Deallocate = "deallocate", Ftl;
    /// A victim block is chosen.
    GcVictim = "gc_victim", Gc;
    /// A page of a victim is examined and, if valid, sent on its way.
    GcPage = "gc_page", Gc;
    /// A cache line is changed by the CPU that has it.
    LineLocal = "line_local", Contention;
    /// A cache line is read that another CPU wrote.
    LineRead = "line_read", Contention;
    /// A cache line is changed that another CPU has.
    LineTransfer = "line_transfer", Contention;
    /// A lock goes from a CPU that leaves it to one that waits for it.
    LockHandOver = "lock_hand_over", Contention;
    /// A page is looked up in a queue index and its pin counted.
    QueueIndexLookup = "queue_index_lookup", Index;
    /// A page enters or leaves a queue index.
    QueueIndexUpdate = "queue_index_update", Index;
    /// A page is put on the list of a pin or unpin command, or its answer is taken off.
    PinListEntry = "pin_list_entry", Driver;
    /// A core looks a page up for a pin or unpin and counts the reference.
    FusionLookup = "fusion_lookup", Ftl;
    /// A core gives a frame of host memory to a page, or takes it back.
    FrameUpdate = "frame_update", Replacement;
    /// A drive without an engine for it copies 4 KiB: between media, buffers and host memory.
    DriveCopy = "drive_copy", Copy;
    /// A drive without an engine for it compresses 4 KiB into LZ4.
    CompressPage = "compress_page", Compression;
    /// And expands 4 KiB from LZ4.
    DecompressPage = "decompress_page", Compression;
    /// A drive without an engine for it compresses 4 KiB into zlib, level 1.
    DeflatePage = "deflate_page", Compression;
    /// And expands 4 KiB from zlib.
    InflatePage = "inflate_page", Compression;
    /// The CRC-32C of 4 KiB is computed.
    ChecksumPage = "checksum_page", Compute;
    /// Distances of vectors of 4 KiB to one are computed, and the nearest kept.
    DistancePage = "distance_page", Compute;
    /// A word is looked for in 4 KiB.
    SearchPage = "search_page", Compute;
    /// A message of one cache line is written for another CPU.
    MessageSend = "message_send", Message;
    /// A message of another CPU is found and taken.
    MessageReceive = "message_receive", Message;
    /// A page is looked up in a client's private index, or in a drive's hash table of cached pages: the same structure.
    PrivateLookup = "private_lookup", Index;
    /// A page enters or leaves a client's private index, or such a hash table.
    PrivateUpdate = "private_update", Index;
    /// A manager looks up one of its pages.
    ManagerLookup = "manager_lookup", Index;
    /// A page enters or leaves a manager's index.
    ManagerUpdate = "manager_update", Index;
    /// A program enters the operating system and comes back.
    SystemCall = "system_call", System;
    /// A file system prepares a page of the page cache for a write, and accounts for it: what a write to a file takes beyond
    /// a read.
    FileWrite = "file_write", System;
    /// A page is looked up in the radix tree of a file.
    TreeLookup = "tree_lookup", Index;
    /// A page enters or leaves the radix tree of a file, or a tag of it changes.
    TreeUpdate = "tree_update", Index;
    /// A page is looked up in the concurrent radix tree of a file.
    ConcurrentLookup = "concurrent_lookup", Index;
    /// A page enters or leaves the concurrent radix tree of a file, or a tag of it changes.
    ConcurrentUpdate = "concurrent_update", Index;
    /// A page moves in the lists of recently used pages.
    ListUpdate = "list_update", Replacement;
    /// A frame is taken from or given back to the operating system's allocator.
    PageAllocator = "page_allocator", Replacement;
    /// The block layer makes, queues and sends a request.
    BlockSubmit = "block_submit", System;
    /// A device's interrupt is served and its request ended.
    Interrupt = "interrupt", System;
    /// The driver of an array finds the drive and the place there of a stripe's part of a request.
    ArrayEntry = "array_entry", System;
    /// A thread goes to sleep and another one runs; or a sleeping thread is woken and runs.
    ContextSwitch = "context_switch", System;
    /// 4 KiB are taken into the parity of a stripe, or out of it.
    XorPage = "xor_page", Parity;
    /// A sector is looked up in a part of a flash cache's bitmap that is not packed, and made hotter.
    BitmapLookup = "bitmap_lookup", Index;
    /// Sectors are looked up in a part of such a bitmap that is packed.
    BitmapSearch = "bitmap_search", Index;
    /// A sector enters or leaves a flash cache, or becomes dirty or clean there.
    BitmapUpdate = "bitmap_update", Index;
    /// A part of a flash cache's bitmap is packed or unpacked.
    BitmapPack = "bitmap_pack", Index;
    /// A scan for victims looks at a run of cached sectors that are alike.
    ScanVisit = "scan_visit", Replacement;
    /// The host compresses a page of a chunk into zlib.
    ChunkPack = "chunk_pack", Compression;
    /// And expands it from zlib.
    ChunkUnpack = "chunk_unpack", Compression;
    /// A component of a path is hashed, where it is looked for in a directory.
    PathComponent = "path_component", Files;
    /// A page of metadata, or an inode, is looked up in the memory of a file system.
    MetadataLookup = "metadata_lookup", Files;
    /// An inode is taken out of its page, and checked.
    InodeLookup = "inode_lookup", Files;
    /// Where pages of a file are, is taken out of its inode.
    ExtentLookup = "extent_lookup", Files;
    /// A node of a directory or of a file's tree is written with a record more, or less.
    DirectoryUpdate = "directory_update", Files;
    /// A page of metadata is sealed, and copied into the journal.
    JournalPage = "journal_page", Files;
    /// A record for the log of an inode is taken into the inode in memory.
    LogRecord = "log_record", Files;
    /// What a caller may do is looked up in mode bits and groups.
    PermissionCheck = "permission_check", Files;
    /// An open file is found by its handle.
    HandleLookup = "handle_lookup", Files;
    /// The token of a command is compared with that of who sent it.
    TokenCompare = "token_compare", Files;
    /// The code of a host's claims is computed, and the token compared with it.
    TokenCode = "token_code", Files;
    /// A program of a user's own takes 1,000 units of fuel: about as many of its instructions.
    ProgramFuel = "program_fuel", Compute;
}

/// Number of operations.
pub const OPS: usize = Op::ALL.len();

/// The version of cost tables that this program reads and writes. It changes whenever operations
/// are added or removed or mean something else: an older measurement then answers other questions.
pub const COST_TABLE_VERSION: u32 = 13;

/// What each operation costs on one machine, with its provenance.
#[derive(Debug, Clone)]
#[cfg_attr(
    feature = "cost-tables",
    derive(Serialize, Deserialize),
    serde(deny_unknown_fields)
)]
pub struct CostTable {
    /// [`COST_TABLE_VERSION`] of the program that measured it.
    pub version: u32,
    /// The table's name, as reports print it.
    pub name: String,
    /// The machine it was measured on.
    pub machine: String,
    /// The day it was measured.
    pub date: String,
    /// The commit that was measured.
    pub commit: String,
    /// Nanoseconds per operation, by [`Op::key`].
    pub cost_ns: BTreeMap<String, f64>,
    /// How far apart the middle half of the rounds lay, in nanoseconds per operation, by
    /// [`Op::key`]. For readers: nothing is computed from it.
    pub spread_ns: BTreeMap<String, f64>,
}

/// A cost table that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CostTableError {
    /// Not TOML, or not of this shape.
    #[cfg(feature = "cost-tables")]
    #[error("cost table: {0}")]
    Parse(#[from] toml::de::Error),
    /// Made by a program with other operations.
    #[error(
        "a cost table of {found}, where this program reads version {COST_TABLE_VERSION}: \
         measure again with `wharf calibrate --out FILE`"
    )]
    Version {
        /// The version found, in words.
        found: String,
    },
    /// An operation has no cost or no spread.
    #[error("cost table '{table}' has no {what}.{op}: measure again with `wharf calibrate`")]
    Missing {
        /// The table's name.
        table: String,
        /// `cost_ns` or `spread_ns`.
        what: &'static str,
        /// The operation's key.
        op: &'static str,
    },
    /// A cost or spread is not a number of nanoseconds.
    #[error("cost table '{table}': {what}.{op} = {value} is not between 0 and 1e9 ns")]
    OutOfRange {
        /// The table's name.
        table: String,
        /// `cost_ns` or `spread_ns`.
        what: &'static str,
        /// The operation's key.
        op: String,
        /// The value found.
        value: f64,
    },
    /// A cost for an operation that this version does not have.
    #[error("cost table '{table}' names an unknown operation '{op}'")]
    Unknown {
        /// The table's name.
        table: String,
        /// The key found.
        op: String,
    },
}

impl CostTable {
    /// Reads and checks a table: of this version, with exactly one cost and one spread for each
    /// operation.
    ///
    /// # Errors
    /// As [`CostTableError`] says.
    #[cfg(feature = "cost-tables")]
    pub fn parse(text: &str) -> Result<CostTable, CostTableError> {
        CostTable::check_version(text)?;
        let table: CostTable = toml::from_str(text)?;
        table.check()?;
        Ok(table)
    }

    /// Refuses the text of a table of another version, whatever else it holds.
    ///
    /// # Errors
    /// Another version, or none. A text that is not TOML passes: its parser has more to say.
    #[cfg(feature = "cost-tables")]
    pub fn check_version(text: &str) -> Result<(), CostTableError> {
        let Ok(table) = text.parse::<toml::Table>() else {
            return Ok(());
        };
        let found = match table.get("version") {
            Some(toml::Value::Integer(found)) if *found == i64::from(COST_TABLE_VERSION) => {
                return Ok(());
            }
            Some(found) => format!("version {found}"),
            None => "no version".into(),
        };
        Err(CostTableError::Version { found })
    }

    /// Checks that each operation has one cost and one spread, in range.
    ///
    /// # Errors
    /// As [`CostTableError`] says.
    pub fn check(&self) -> Result<(), CostTableError> {
        self.check_each("cost_ns", &self.cost_ns)?;
        self.check_each("spread_ns", &self.spread_ns)
    }

    fn check_each(
        &self,
        what: &'static str,
        values: &BTreeMap<String, f64>,
    ) -> Result<(), CostTableError> {
        let table = || self.name.clone();
        for (key, value) in values {
            let (op, value) = (key.clone(), *value);
            if !Op::ALL.iter().any(|known| known.key() == op) {
                return Err(CostTableError::Unknown { table: table(), op });
            }
            if !(0.0..=1e9).contains(&value) {
                return Err(CostTableError::OutOfRange {
                    table: table(),
                    what,
                    op,
                    value,
                });
            }
        }
        match Op::ALL.iter().find(|op| !values.contains_key(op.key())) {
            None => Ok(()),
            Some(op) => Err(CostTableError::Missing {
                table: table(),
                what,
                op: op.key(),
            }),
        }
    }

    /// A table in which nothing costs anything: for tests of order rather than time.
    pub fn free() -> CostTable {
        let zeros: BTreeMap<String, f64> = Op::ALL
            .iter()
            .map(|op| (op.key().to_string(), 0.0))
            .collect();
        CostTable {
            version: COST_TABLE_VERSION,
            name: "free".into(),
            machine: "none".into(),
            date: "none".into(),
            commit: "none".into(),
            cost_ns: zeros.clone(),
            spread_ns: zeros,
        }
    }

    /// Whole nanoseconds of each operation on a CPU `slowness` times slower than the table's.
    pub fn scaled(&self, slowness: f64) -> [u32; OPS] {
        std::array::from_fn(|i| (self.cost_ns[Op::ALL[i].key()] * slowness).round() as u32)
    }
}

/// What a CPU did: how often each operation ran and how long it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Runs of each operation, by operation number.
    pub count: [u64; OPS],
    /// Nanoseconds in each operation, by operation number.
    pub busy_ns: [u64; OPS],
    /// Nanoseconds of virtual time in which the CPU spun: for a lock that another one held, for a line on its
    /// way to another one. In no operation.
    pub spun_ns: u64,
}

impl Default for Profile {
    fn default() -> Self {
        Profile {
            count: [0; OPS],
            busy_ns: [0; OPS],
            spun_ns: 0,
        }
    }
}

impl Profile {
    /// Adds another profile to this one.
    pub fn add(&mut self, other: &Profile) {
        for i in 0..OPS {
            self.count[i] += other.count[i];
            self.busy_ns[i] += other.busy_ns[i];
        }
        self.spun_ns += other.spun_ns;
    }

    /// Nanoseconds spent in each category that was used at all.
    pub fn by_category(&self) -> BTreeMap<Category, u64> {
        let mut sums = BTreeMap::new();
        for op in Op::ALL.iter().filter(|op| self.count[**op as usize] > 0) {
            *sums.entry(op.category()).or_insert(0) += self.busy_ns[*op as usize];
        }
        sums
    }

    /// Nanoseconds of all operations.
    pub fn total_ns(&self) -> u64 {
        self.busy_ns.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> CostTableError {
        CostTable::parse(text).expect_err("a faulty table")
    }

    #[test]
    fn a_table_needs_every_operation_and_no_other() {
        let whole = toml::to_string(&CostTable::free()).unwrap();
        assert!(CostTable::parse(&whole).is_ok());
        for (what, entry) in [
            ("cost_ns", "\nmap_lookup = 0.0\n"),
            ("spread_ns", "\nmap_update = 0.0\n"),
        ] {
            let (before, section) = whole.split_once(&format!("[{what}]")).unwrap();
            let section = section.replacen(entry, "\n", 1);
            let found = error(&format!("{before}[{what}]{section}"));
            assert!(matches!(found, CostTableError::Missing { what: w, .. } if w == what));
        }
        let unknown = whole.replace("\nmap_lookup = 0.0", "\nmap_lookup = 0.0\nmap_lokup = 1.0");
        assert!(matches!(error(&unknown), CostTableError::Unknown { .. }));
        let negative = whole.replace("\nmap_lookup = 0.0", "\nmap_lookup = -1.0");
        assert!(matches!(
            error(&negative),
            CostTableError::OutOfRange { .. }
        ));
    }

    #[test]
    fn a_table_of_another_version_is_refused_before_anything_else() {
        let whole = toml::to_string(&CostTable::free()).unwrap();
        let line = format!("version = {COST_TABLE_VERSION}");
        let next = COST_TABLE_VERSION + 1;
        let newer = whole.replace(&line, &format!("version = {next}\nshape = 1"));
        assert!(
            error(&newer)
                .to_string()
                .contains(&format!("version {next}"))
        );
        let older = whole.replace(&format!("{line}\n"), "");
        let line = error(&older).to_string();
        assert!(
            line.contains("no version") && line.contains("wharf calibrate"),
            "{line}"
        );
    }

    #[test]
    fn slowness_scales_every_cost() {
        let mut table = CostTable::free();
        table.cost_ns.insert("map_lookup".into(), 10.4);
        assert_eq!(table.scaled(1.0)[Op::MapLookup as usize], 10);
        assert_eq!(table.scaled(2.5)[Op::MapLookup as usize], 26);
    }
}
