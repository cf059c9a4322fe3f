//! Operations that cost CPU time, their categories, cost tables and profiles.
//!
//! Costs are measured, never typed in: `cargo bench -p wharf-lab --bench costs` times the real
//! code behind each operation and prints a table; the default table says where it came from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Which half of the stack a CPU belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The machine that runs the programs.
    Host,
    /// The processors inside the drive.
    Drive,
}

/// What a CPU's time is spent on, as reports show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// The client program itself: making and accounting a request.
    Client,
    /// Finding a page in a cache.
    Index,
    /// Choosing victims, taking and releasing frames.
    Replacement,
    /// Moving bytes between the program and a cache.
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
    /// A command is written to a submission queue, with its PRP entries, and the doorbell rung.
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
    /// A message of one cache line is written for another CPU.
    MessageSend = "message_send", Message;
    /// A message of another CPU is found and taken.
    MessageReceive = "message_receive", Message;
    /// A page is looked up in a client's private index.
    PrivateLookup = "private_lookup", Index;
    /// A page enters or leaves a client's private index.
    PrivateUpdate = "private_update", Index;
    /// A manager looks up one of its pages.
    ManagerLookup = "manager_lookup", Index;
    /// A page enters or leaves a manager's index.
    ManagerUpdate = "manager_update", Index;
    /// A program enters the operating system and comes back.
    SystemCall = "system_call", System;
    /// A page is looked up in the radix tree of a file.
    TreeLookup = "tree_lookup", Index;
    /// A page enters or leaves the radix tree of a file, or a tag of it changes.
    TreeUpdate = "tree_update", Index;
    /// A page moves in the lists of recently used pages.
    ListUpdate = "list_update", Replacement;
    /// A frame is taken from or given back to the operating system's allocator.
    PageAllocator = "page_allocator", Replacement;
    /// The block layer makes, queues and sends a request.
    BlockSubmit = "block_submit", System;
    /// A device's interrupt is served and its request ended.
    Interrupt = "interrupt", System;
    /// A thread goes to sleep and another one runs; or a sleeping thread is woken and runs.
    ContextSwitch = "context_switch", System;
}

/// Number of operations.
pub const OPS: usize = Op::ALL.len();

/// What each operation costs on one machine, with its provenance.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostTable {
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
}

/// A cost table that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CostTableError {
    /// Not TOML, or not of this shape.
    #[error("cost table: {0}")]
    Parse(#[from] toml::de::Error),
    /// An operation has no cost.
    #[error("cost table '{table}' has no cost for '{op}': measure it again with this version")]
    Missing {
        /// The table's name.
        table: String,
        /// The operation's key.
        op: &'static str,
    },
    /// A cost is not a number of nanoseconds.
    #[error("cost table '{table}': {op} = {value} is not a cost between 0 and 1e9 ns")]
    OutOfRange {
        /// The table's name.
        table: String,
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
    /// Reads and checks a table: exactly one cost for each operation.
    pub fn parse(text: &str) -> Result<CostTable, CostTableError> {
        let table: CostTable = toml::from_str(text)?;
        for (key, value) in &table.cost_ns {
            if !Op::ALL.iter().any(|op| op.key() == key) {
                return Err(CostTableError::Unknown {
                    table: table.name,
                    op: key.clone(),
                });
            }
            if !(0.0..=1e9).contains(value) {
                let (op, value) = (key.clone(), *value);
                return Err(CostTableError::OutOfRange {
                    table: table.name,
                    op,
                    value,
                });
            }
        }
        if let Some(op) = Op::ALL
            .iter()
            .find(|op| !table.cost_ns.contains_key(op.key()))
        {
            return Err(CostTableError::Missing {
                table: table.name,
                op: op.key(),
            });
        }
        Ok(table)
    }

    /// A table in which nothing costs anything: for tests of order rather than time.
    pub fn free() -> CostTable {
        CostTable {
            name: "free".into(),
            machine: "none".into(),
            date: "none".into(),
            commit: "none".into(),
            cost_ns: Op::ALL
                .iter()
                .map(|op| (op.key().to_string(), 0.0))
                .collect(),
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
}

impl Default for Profile {
    fn default() -> Self {
        Profile {
            count: [0; OPS],
            busy_ns: [0; OPS],
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

    #[test]
    fn a_table_needs_every_operation_and_no_other() {
        let whole = toml::to_string(&CostTable::free()).unwrap();
        assert!(CostTable::parse(&whole).is_ok());
        let missing = whole.replace("map_lookup = 0.0\n", "");
        assert!(matches!(
            CostTable::parse(&missing),
            Err(CostTableError::Missing {
                op: "map_lookup",
                ..
            })
        ));
        let unknown = whole.replace("map_lookup = 0.0", "map_lookup = 0.0\nmap_lokup = 1.0");
        assert!(matches!(
            CostTable::parse(&unknown),
            Err(CostTableError::Unknown { .. })
        ));
        let negative = whole.replace("map_lookup = 0.0", "map_lookup = -1.0");
        assert!(matches!(
            CostTable::parse(&negative),
            Err(CostTableError::OutOfRange { .. })
        ));
    }

    #[test]
    fn slowness_scales_every_cost() {
        let mut table = CostTable::free();
        table.cost_ns.insert("map_lookup".into(), 10.4);
        assert_eq!(table.scaled(1.0)[Op::MapLookup as usize], 10);
        assert_eq!(table.scaled(2.5)[Op::MapLookup as usize], 26);
    }
}
