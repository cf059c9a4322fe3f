//! Arrays in memory whose members fail when told.

use std::sync::Arc;

use wharf_runtime::Seed;
use wharf_storage::array::{Array, ArrayError, CreateOptions, Level, create};
use wharf_storage::faulty::{Faulty, Power};
use wharf_storage::{Blocking, RamTarget, Target};

/// Bytes of a window and of a chunk in these arrays: small, so that I/Os span many.
pub const CHUNK_BYTES: u64 = 8192;

/// An array's members.
pub struct Bench {
    pub power: Arc<Power>,
    pub members: Vec<Arc<Faulty>>,
    seed: u64,
}

impl Bench {
    /// `count` members with `stripes` chunks each, made into an array.
    pub fn new(level: Level, count: u32, stripes: u64, journal_slots: u32, seed: u64) -> Bench {
        let power = Power::new();
        let mut bench = Bench {
            power,
            members: Vec::new(),
            seed,
        };
        for _ in 0..count {
            let member = bench.spare(stripes);
            bench.members.push(member);
        }
        let options = CreateOptions {
            chunk_bytes: CHUNK_BYTES,
            journal_slots,
            zeroed: true,
            ..CreateOptions::new(level, [7; 16])
        };
        create(&bench.targets(), &options, &mut |_, _| {}).expect("an array");
        bench
    }

    /// Another target like the members.
    pub fn spare(&self, stripes: u64) -> Arc<Faulty> {
        let name = format!("ram{}", self.members.len());
        let seed = Seed(self.seed).index(self.members.len() as u64);
        // Data begins after 1 MiB: the journals of these tests are smaller.
        let ram = RamTarget::new(&name, (1 << 20) + stripes * CHUNK_BYTES, 512);
        Arc::new(Faulty::new(Arc::new(ram), self.power.clone(), seed))
    }

    /// The members as targets.
    pub fn targets(&self) -> Vec<Arc<dyn Target>> {
        self.members
            .iter()
            .map(|m| m.clone() as Arc<dyn Target>)
            .collect()
    }

    /// Opens the array with all members but some.
    pub fn open_without(&self, out: &[usize]) -> Array {
        self.try_open_without(out).expect("it opens")
    }

    /// The same, which may fail.
    pub fn try_open_without(&self, out: &[usize]) -> Result<Array, ArrayError> {
        let mut targets = self.targets();
        for index in out.iter().rev() {
            targets.remove(*index);
        }
        Array::open(&targets, true)
    }

    /// Opens the array.
    pub fn open(&self) -> Array {
        self.open_without(&[])
    }
}

/// Levels with redundancy, and how many members they are tried with.
pub const REDUNDANT: [(Level, u32); 5] = [
    (Level::Raid5, 3),
    (Level::Raid5, 4),
    (Level::Raid5, 6),
    (Level::Raid10, 2),
    (Level::Raid10, 4),
];

/// Writes blocks and waits; gives whether it succeeded.
pub fn write(target: &dyn Target, offset: u64, data: &[u8]) -> bool {
    Blocking::new(target).is_ok_and(|mut way| way.write(offset, data).is_ok())
}

/// Flushes and waits; gives whether it succeeded.
pub fn flush(target: &dyn Target) -> bool {
    Blocking::new(target).is_ok_and(|mut way| way.flush().is_ok())
}
