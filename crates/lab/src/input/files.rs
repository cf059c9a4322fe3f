//! Operations on files ready to be replayed, the same for every design.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wharf_host::files::FileTable;
use wharf_workload::files::{Existing, FileOp, FileOpKind, FileSpec, Names, OpenHow};
use wharf_workload::{PAGE_BYTES, WorkloadError};

use super::{ClientRule, Plan, joined};
use crate::result::Source;

/// Where operations come from.
#[derive(Debug, Clone)]
pub enum FilesFrom {
    /// A benchmark, made whole beforehand.
    Made {
        /// What it does.
        spec: FileSpec,
        /// Its parameters, for the report.
        parameters: BTreeMap<String, serde_json::Value>,
    },
    /// All operations, as they were recorded or written.
    Listed {
        /// Where they are.
        path: String,
        /// Names, and what is there at the beginning.
        names: Names,
        /// The operations.
        ops: Arc<[FileOp]>,
    },
}

/// All operations of a run. Their offsets and sizes are whole units of the checker.
#[derive(Debug)]
pub struct FilePlan {
    /// The names, and what is there at the beginning.
    pub names: Names,
    /// The directory that a name is in; nothing for one in the root.
    pub parents: Vec<Option<u32>>,
    /// Names that lead through symbolic links, or below a directory that is renamed: what they lead to is not foreseen.
    pub unforeseen: Vec<bool>,
    /// Names that several threads use.
    pub shared: Vec<bool>,
    /// Whether a file may have several names.
    pub has_links: bool,
    /// All operations.
    pub ops: Vec<FileOp>,
    /// Indices of each client's operations, in order: a thread stays with a client.
    pub by_client: Vec<Vec<u32>>,
    /// Equal parts of the volume, one for each file with bytes.
    pub regions: u32,
}

/// Reads or makes all operations, for drives of `device_bytes` together, with sizes in whole units of `unit_bytes`.
pub(super) fn plan(
    name: &str,
    from: &FilesFrom,
    unit_bytes: u64,
    clients: u32,
    device_bytes: u64,
) -> Result<Plan, WorkloadError> {
    let (mut names, mut ops, source) = match from {
        FilesFrom::Made { spec, parameters } => {
            let operations = spec.operations()?;
            let names = operations.names().clone();
            let source = Source::Generator {
                generator: name.into(),
                parameters: parameters.clone(),
            };
            (names, operations.collect(), source)
        }
        FilesFrom::Listed { path, names, ops } => {
            let source = Source::File {
                path: path.clone(),
                format: "files".into(),
            };
            (names.clone(), ops.to_vec(), source)
        }
    };
    let bad = |reason| WorkloadError::BadParameter {
        parameter: "workload",
        reason,
    };
    if ops.is_empty() {
        return Err(bad(format!("'{name}' has no operations")));
    }
    let mut notes = vec![
        "operations on files: designs without a file system keep names on the host, at no cost but their lock, and nothing of \
         them is durable".into(),
    ];
    align(&mut names, &mut ops, unit_bytes, &mut notes);
    let sizes = sizes(&names, &ops);
    let with_bytes: Vec<u64> = sizes.into_iter().filter(|bytes| *bytes > 0).collect();
    let (regions, longest) = (
        with_bytes.len().max(1) as u64,
        with_bytes.iter().copied().max(),
    );
    let longest = longest.unwrap_or(0);
    let regions =
        u32::try_from(regions).map_err(|_| bad(format!("{regions} files are too many")))?;
    let device_pages = device_bytes / PAGE_BYTES;
    let regions = regions_for(regions, longest, device_pages);
    let region_bytes = FileTable::file_bytes_max_of(regions, device_pages);
    if longest > region_bytes || u64::from(regions) > device_pages {
        return Err(bad(format!(
            "{regions} files share the drives, so each can have {region_bytes} bytes, and one has {longest}: \
             use a larger drive, or more of them"
        )));
    }
    let stride = device_pages.div_ceil(regions.into());
    let pages = longest.div_ceil(PAGE_BYTES);
    let touched = (0..u64::from(regions)).map(|region| (region * stride, region * stride + pages));
    let touched = touched.map(|(first, end)| (first, end.min(device_pages)));
    let mut by_client = vec![Vec::new(); clients as usize];
    for (index, op) in (0..).zip(&ops) {
        by_client[(op.thread % clients) as usize].push(index);
    }
    let moving = ops.iter().filter(|op| op.kind.moves_data()).count();
    let reads = ops.iter().filter(|op| op.kind.is_read()).count();
    let footprint_pages = with_bytes
        .iter()
        .map(|bytes| bytes.div_ceil(PAGE_BYTES))
        .sum();
    let files = FilePlan {
        parents: parents(&names),
        unforeseen: unforeseen(&names, &ops),
        shared: shared(&names, &ops),
        has_links: ops.iter().any(|op| op.kind == FileOpKind::Link),
        names,
        ops,
        by_client,
        regions,
    };
    Ok(Plan {
        name: name.into(),
        source,
        requests: Arc::new([]),
        by_client: (0..clients).map(|_| Arc::from([])).collect(),
        footprint_pages,
        touched: joined(touched.filter(|(first, end)| first < end).collect()),
        read_share: reads as f64 / moving.max(1) as f64,
        fit: None,
        bad_lines: 0,
        notes,
        checked: true,
        in_order: true,
        rule: ClientRule::Stream,
        timed: None,
        files: Some(Arc::new(files)),
    })
}

/// So many more regions are tried, if the last ones are too short.
const REGIONS_MORE: u32 = 64;

/// How many regions give so many files that many bytes each: as many, if nothing else does. They have the same distance, so the last
/// ones may be short, or not there at all, where one more or less would be enough.
fn regions_for(files: u32, bytes: u64, device_pages: u64) -> u32 {
    let fits = |count: &u32| {
        let distance = device_pages.div_ceil((*count).into()).max(1);
        device_pages.div_ceil(distance) >= files.into()
            && FileTable::file_bytes_max_of(*count, device_pages) >= bytes
    };
    let mut counts = files..=files.saturating_add(REGIONS_MORE);
    counts.find(fits).unwrap_or(files)
}

/// Widens operations to whole units.
fn align(names: &mut Names, ops: &mut [FileOp], unit: u64, notes: &mut Vec<String>) {
    let mut widened = 0u64;
    for (_, existing) in &mut names.existing {
        if let Existing::File(bytes) = existing {
            *bytes = bytes.next_multiple_of(unit);
        }
    }
    for op in ops {
        let before = (op.offset, op.bytes);
        match op.kind {
            FileOpKind::Read | FileOpKind::Write | FileOpKind::CrcWrite | FileOpKind::Nearest => {
                let end = (op.offset + op.bytes).next_multiple_of(unit);
                op.offset = op.offset / unit * unit;
                op.bytes = end - op.offset;
            }
            // Bytes beside a hole stay.
            FileOpKind::Punch => {
                let end = (op.offset + op.bytes) / unit * unit;
                op.offset = op.offset.next_multiple_of(unit);
                op.bytes = end.saturating_sub(op.offset);
            }
            FileOpKind::Append => op.bytes = op.bytes.next_multiple_of(unit),
            FileOpKind::Truncate => op.offset = op.offset.next_multiple_of(unit),
            _ => {}
        }
        widened += u64::from(before != (op.offset, op.bytes));
    }
    if widened > 0 {
        notes.push(format!(
            "{widened} operations widened to whole units of {unit} bytes"
        ));
    }
}

/// The most bytes that each name's file has, if operations come in their order.
fn sizes(names: &Names, ops: &[FileOp]) -> Vec<u64> {
    let mut now = vec![0u64; names.paths.len()];
    for (name, existing) in &names.existing {
        if let Existing::File(bytes) = existing {
            now[*name as usize] = *bytes;
        }
    }
    let mut most = now.clone();
    for op in ops {
        let file = op.file as usize;
        match op.kind {
            FileOpKind::Open if op.how.has(OpenHow::TRUNCATE) => now[file] = 0,
            FileOpKind::Write | FileOpKind::CrcWrite => {
                now[file] = now[file].max(op.offset + op.bytes)
            }
            FileOpKind::Append => now[file] += op.bytes,
            FileOpKind::Truncate => now[file] = op.offset,
            FileOpKind::Remove => now[file] = 0,
            FileOpKind::Rename | FileOpKind::Link => {
                let other = op.other as usize;
                now[other] = now[file];
                most[other] = most[other].max(now[other]);
            }
            _ => {}
        }
        most[file] = most[file].max(now[file]);
    }
    most
}

/// The directory of each name, if it is one of the names.
fn parents(names: &Names) -> Vec<Option<u32>> {
    let numbers: BTreeMap<&str, u32> = names.paths.iter().map(|path| &**path).zip(0..).collect();
    let parent = |path: &str| {
        let (parent, _) = path.rsplit_once('/')?;
        numbers.get(parent).copied()
    };
    names.paths.iter().map(|path| parent(path)).collect()
}

/// See [`FilePlan::unforeseen`].
fn unforeseen(names: &Names, ops: &[FileOp]) -> Vec<bool> {
    let mut roots = BTreeSet::new();
    let mut links = BTreeSet::new();
    for op in ops {
        match op.kind {
            FileOpKind::Symlink => drop(links.insert(&*names.paths[op.file as usize])),
            FileOpKind::Rename => {
                roots.insert(&*names.paths[op.file as usize]);
                roots.insert(&*names.paths[op.other as usize]);
            }
            _ => {}
        }
    }
    let is_below = |path: &str| {
        path.match_indices('/').any(|(at, _)| {
            let above = &path[..at];
            roots.contains(above) || links.contains(above)
        })
    };
    let is_odd = |path: &str| {
        path.split('/')
            .skip(1)
            .any(|part| matches!(part, "" | "." | ".."))
    };
    let paths = names.paths.iter();
    paths
        .map(|path| links.contains(&**path) || is_below(path) || is_odd(path))
        .collect()
}

/// Names that several threads use.
fn shared(names: &Names, ops: &[FileOp]) -> Vec<bool> {
    let mut users: Vec<Option<u32>> = vec![None; names.paths.len()];
    let mut shared = vec![false; names.paths.len()];
    for op in ops {
        let both = [Some(op.file), op.kind.has_other().then_some(op.other)];
        for name in both.into_iter().flatten().map(|name| name as usize) {
            let user = *users[name].get_or_insert(op.thread);
            // What has another name too may be anybody's.
            shared[name] |= user != op.thread || op.kind.has_other();
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_regions_for_all_files_where_the_drive_is_large_enough() {
        // Of 288 the last one would have no page, of 290 three.
        assert_eq!(regions_for(288, 19 * 4096, 41_041), 294);
        // Of 10 there would be 8 on 15 pages.
        assert_eq!(regions_for(10, 4096, 15), 15);
        assert_eq!(regions_for(4, 4096, 16), 4);
        assert_eq!(regions_for(16, 2 * 4096, 16), 16, "there are too few pages");
    }
}
