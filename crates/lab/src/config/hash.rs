//! One number for everything that a run's result depends on, apart from workload and seed.
//!
//! The configuration is written as lines `drive.<key>=<value>`, `host.<key>=<value>`,
//! `design.<name>.<key>=<value>`, `costs.<key>=<value>`, in the order of their bytes, each ended by
//! a line feed: numbers in decimal, fractions in the shortest form that reads back equal (always
//! with a point or an exponent), texts in double quotes. The hash is FNV-1a, 64 bits, of these
//! bytes. Labels are left out, because they change nothing: the names, a cost table's version,
//! machine, date, commit and spreads, and the path of an image.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;

use serde::{Serialize, Serializer};
use toml::Value;
use wharf_drive::DriveConfig;
use wharf_host::design::Role;
use wharf_runtime::CostTable;

use super::host::HostConfig;
use super::schema::leaves;
use super::sets::shown;

/// Keys that only describe.
const LABELS: &[&str] = &[
    "drive.name",
    "drive.media.path",
    "backing.name",
    "backing.media.path",
    "host.name",
    "costs.version",
    "costs.name",
    "costs.machine",
    "costs.date",
    "costs.commit",
];

/// Tables whose keys only describe.
const LABEL_TABLES: &[&str] = &["costs.spread_ns."];

/// Costs that no run depends on whose drives do not compress.
const COMPRESSION_COSTS: &[&str] = &[
    "costs.cost_ns.compress_page",
    "costs.cost_ns.decompress_page",
    "costs.cost_ns.deflate_page",
    "costs.cost_ns.inflate_page",
];

/// Costs that no run depends on without drives that hold all data behind others.
const FLASH_CACHE_COSTS: &[&str] = &[
    "costs.cost_ns.bitmap_lookup",
    "costs.cost_ns.bitmap_search",
    "costs.cost_ns.bitmap_update",
    "costs.cost_ns.bitmap_pack",
    "costs.cost_ns.scan_visit",
    "costs.cost_ns.chunk_pack",
    "costs.cost_ns.chunk_unpack",
];

/// Keys that no run depends on without drives that hold all data behind others.
const FLASH_CACHE_KEYS: &str = "design.indexless.";

/// The hash of a configuration: equal configurations have equal hashes on every machine. Shown
/// and serialised as 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigHash(pub u64);

impl fmt::Display for ConfigHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for ConfigHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Hashes a configuration, as `docs/configuration.md` describes.
pub fn config_hash(
    drives: &[(Role, &DriveConfig)],
    host: &HostConfig,
    costs: &CostTable,
) -> ConfigHash {
    ConfigHash(fnv1a(canonical(drives, host, costs).as_bytes()))
}

/// Hashes a text that says everything that a run's result depends on.
pub fn text_hash(text: &str) -> ConfigHash {
    ConfigHash(fnv1a(text.as_bytes()))
}

/// Hashes the contents of a file.
///
/// # Errors
/// It cannot be read.
pub fn file_hash(path: &Path) -> io::Result<ConfigHash> {
    let (mut file, mut hash) = (std::fs::File::open(path)?, NO_BYTES);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(ConfigHash(hash)),
            count => hash = more(hash, &buffer[..count]),
        }
    }
}

/// How the keys of the drives of a role begin.
fn prefix(role: Role) -> &'static str {
    match role {
        Role::Cache => "drive",
        Role::Backing => "backing",
    }
}

/// The text that is hashed.
fn canonical(drives: &[(Role, &DriveConfig)], host: &HostConfig, costs: &CostTable) -> String {
    let compresses = drives.iter().any(|(_, drive)| drive.compression.is_on());
    let has_backing = drives.iter().any(|(role, _)| *role == Role::Backing);
    let drives = drives.iter();
    let mut parts: Vec<_> = drives
        .map(|(role, drive)| (prefix(*role), leaves(*drive)))
        .collect();
    parts.extend([("host", leaves(host)), ("costs", leaves(costs))]);
    let mut lines: Vec<String> = parts
        .into_iter()
        .flat_map(|(part, leaves)| leaves.into_iter().map(move |leaf| (part, leaf)))
        .map(|(part, (key, value))| (shown(part, &key), value))
        .filter(|(key, _)| !LABELS.contains(&key.as_str()))
        .filter(|(key, _)| compresses || !COMPRESSION_COSTS.contains(&key.as_str()))
        .filter(|(key, _)| has_backing || !FLASH_CACHE_COSTS.contains(&key.as_str()))
        .filter(|(key, _)| has_backing || !key.starts_with(FLASH_CACHE_KEYS))
        .filter(|(key, _)| !LABEL_TABLES.iter().any(|table| key.starts_with(table)))
        .map(|(key, value)| match value {
            Value::Float(x) => format!("{key}={x:?}\n"),
            Value::String(text) => format!("{key}={text:?}\n"),
            other => format!("{key}={other}\n"),
        })
        .collect();
    lines.sort_unstable();
    lines.concat()
}

/// FNV-1a of Fowler, Noll and Vo, 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    more(NO_BYTES, bytes)
}

/// The hash of no bytes.
const NO_BYTES: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash of bytes behind others.
fn more(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Sets, load_costs, load_drive, load_host};
    use super::*;

    fn hash(drive: &str, sets: &[&str]) -> ConfigHash {
        let sets = Sets::parse(sets).unwrap();
        let drive = load_drive(drive, &sets).unwrap().0;
        let host = load_host("default", &sets).unwrap().0;
        config_hash(&[(Role::Cache, &drive)], &host, &CostTable::free())
    }

    #[test]
    fn fnv1a_of_the_published_examples() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_file_is_hashed_as_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let (path, bytes) = (folder.path().join("f"), vec![7; 100_000]);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(file_hash(&path).unwrap(), ConfigHash(fnv1a(&bytes)));
        assert!(file_hash(folder.path()).is_err());
    }

    #[test]
    fn a_fixed_configuration_has_a_fixed_hash() {
        assert_eq!(hash("tiny", &[]).to_string(), "5e87a7663186f5af");
    }

    #[test]
    fn every_value_that_changes_a_run_changes_the_hash() {
        let plain = hash("tiny", &[]);
        for set in [
            "drive.timing.read_ns=1001",
            "drive.ftl.over_provisioning=0.31",
            "drive.ftl.gc_policy=cost-benefit",
            "drive.media.kind=ram",
            "host.cache=18.5%",
            "host.write_policy=write-through",
            "host.idle.park_us=999",
            "host.files=64",
            "design.scale.replacement=two-lists",
            "design.clock.replacement=s3-fifo",
            "host.in_kernel=true",
            "host.file_system=true",
            "host.layout=raid5",
            "design.tri.reads_before_overwrite=true",
            "design.tri.managers=3",
            "host.md=true",
            "design.scale.dflush=sleep",
            "design.kernel.dflush=sleep",
            "design.scale.dflush_share_pages=8",
            "design.scale.index_reclaim=lazy",
            "design.scala.shares=2,1",
            "drive.host_memory.index=hash",
            "host.memory_nodes=4",
        ] {
            assert_ne!(hash("tiny", &[set]), plain, "{set}");
        }
        assert_ne!(hash("scala", &[]), plain);
    }

    #[test]
    fn what_says_the_same_hashes_the_same() {
        let plain = hash("tiny", &["host.cache=4GiB"]);
        for sets in [
            &["host.cache=4294967296"][..],
            &["host.cache=4g", "drive.timing.read_ns=1us"],
            &["host.cache=4g", "drive.name=other", "host.name=other"],
            &["host.cache=4g", "drive.media.path=/somewhere/else"],
            &["host.cache=4g", "drive.ftl.over_provisioning=30%"],
        ] {
            assert_eq!(hash("tiny", sets), plain, "{sets:?}");
        }
    }

    #[test]
    fn costs_count_and_their_labels_do_not() {
        let none = Sets::default();
        let (drive, host) = (
            load_drive("tiny", &none).unwrap().0,
            load_host("default", &none).unwrap().0,
        );
        let mut costs = load_costs("default").unwrap().0;
        let before = config_hash(&[(Role::Cache, &drive)], &host, &costs);
        costs.machine = "another".into();
        costs.spread_ns.insert("map_lookup".into(), 1.5);
        assert_eq!(config_hash(&[(Role::Cache, &drive)], &host, &costs), before);
        costs.cost_ns.insert("map_lookup".into(), 1.5);
        assert_ne!(config_hash(&[(Role::Cache, &drive)], &host, &costs), before);
    }
}
