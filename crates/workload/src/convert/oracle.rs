//! Writing `oracleGeneral`, the traces of libCacheSim: a record for each use of a page, which says when the page is used next.
//!
//! What comes next is not known when a use is read, and a trace may be a pipe and longer than memory. So:
//!
//! 1. The uses go to a scratch file as they are read.
//! 2. That file is gone through from its end, a block at a time: where each page was met last is the next use of it. Memory is
//!    taken by distinct pages, some 40 bytes each, and not by uses.
//! 3. The blocks are copied in order. Only now is it known how long each device is, and so where the next one begins
//!    ([`StreamMap`], one after another); a trace of one device keeps its addresses.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustc_hash::FxHashMap;

use super::Converted;
use crate::error::WorkloadError;
use crate::layout::{Layout, StreamMap, StreamSurvey};
use crate::readers::oracle::{PAGES_MAX, RECORD_BYTES};
use crate::request::{ADDRESS_BYTES_MAX, PAGE_BYTES, Request};
use crate::workload::Workload;

/// Records that are gone through at a time.
const BLOCK_RECORDS: u64 = 1 << 16;

/// Streams that have a number beside that of a page.
const STREAMS_MAX: usize = 1 << (u64::BITS - PAGES_MAX.trailing_zeros());

const _: () = assert!(PAGES_MAX == ADDRESS_BYTES_MAX / PAGE_BYTES);

/// `next` of a use that is the last one of its page.
const NEVER: i64 = -1;

/// One use of a page, as it is written.
struct Use {
    seconds: u32,
    /// In the scratch file the stream in the bits above [`PAGES_MAX`], by its first request.
    page: u64,
    /// Its position among all uses from 1, or [`NEVER`].
    next: i64,
}

impl Use {
    fn bytes(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&self.seconds.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.page.to_le_bytes());
        bytes[12..16].copy_from_slice(&(PAGE_BYTES as u32).to_le_bytes());
        bytes[16..].copy_from_slice(&self.next.to_le_bytes());
        bytes
    }
}

/// The page of a record.
fn page_of(record: &[u8]) -> u64 {
    u64::from_le_bytes(record[4..12].try_into().expect("eight bytes"))
}

/// The seconds of the trace's clock since its first request, none earlier than one before it.
#[derive(Default)]
struct Seconds {
    first_ns: Option<u64>,
    latest: u32,
}

impl Seconds {
    fn of(&mut self, request: &Request) -> u32 {
        if let Some(time_ns) = request.time() {
            let first_ns = *self.first_ns.get_or_insert(time_ns);
            let seconds = time_ns.saturating_sub(first_ns) / 1_000_000_000;
            self.latest = self.latest.max(u32::try_from(seconds).unwrap_or(u32::MAX));
        }
        self.latest
    }
}

/// Writes the uses of a workload; a file without a name in the folder `scratch` has them meanwhile, 24 bytes each.
///
/// # Errors
/// As [`super::convert`].
pub(super) fn write(
    workload: Workload,
    output: &mut impl Write,
    scratch: &Path,
) -> Result<Converted, WorkloadError> {
    let mut file = nameless(scratch).map_err(WorkloadError::Write)?;
    write_by(workload, output, &mut file)
}

fn write_by(
    mut workload: Workload,
    output: &mut impl Write,
    scratch: &mut (impl Read + Write + Seek),
) -> Result<Converted, WorkloadError> {
    let mut survey = StreamSurvey::default();
    let mut converted = spill(&mut workload, scratch, &mut survey)?;
    converted.info = workload.info();
    if converted.records == 0 {
        return Err(WorkloadError::NoRequests {
            name: converted.info.name,
            detail: "no reads and writes".into(),
        });
    }
    let map = StreamMap::new(Layout::Concatenate, survey.extents())?;
    let bases: Vec<u64> = survey
        .extents()
        .iter()
        .map(|extent| map.base_bytes(extent.stream) / PAGE_BYTES)
        .collect();
    look_back(scratch, converted.records).map_err(WorkloadError::Write)?;
    copy(scratch, converted.records, &bases, output).map_err(WorkloadError::Write)?;
    Ok(converted)
}

/// Step 1: all uses to the scratch file, without what comes next.
fn spill(
    workload: &mut Workload,
    scratch: &mut impl Write,
    survey: &mut StreamSurvey,
) -> Result<Converted, WorkloadError> {
    let mut scratch = std::io::BufWriter::with_capacity(256 << 10, scratch);
    let mut converted = Converted::of(workload);
    let mut seconds = Seconds::default();
    let mut batch = Vec::new();
    while workload.next_batch(&mut batch)? {
        for request in &batch {
            if !request.op.moves_data() {
                converted.left_out += 1;
                continue;
            }
            let stream = survey.add(request);
            if stream == STREAMS_MAX {
                return Err(WorkloadError::LayoutOverflow {
                    streams: stream + 1,
                });
            }
            let seconds = seconds.of(request);
            for page in request.pages() {
                let page = stream as u64 * PAGES_MAX + page;
                let next = NEVER;
                let record = Use {
                    seconds,
                    page,
                    next,
                }
                .bytes();
                scratch.write_all(&record).map_err(WorkloadError::Write)?;
                converted.records += 1;
            }
        }
    }
    scratch.flush().map_err(WorkloadError::Write)?;
    Ok(converted)
}

/// Step 2: from the end, the next use of each page.
fn look_back(scratch: &mut (impl Read + Write + Seek), records: u64) -> std::io::Result<()> {
    let mut met: FxHashMap<u64, i64> = FxHashMap::default();
    let mut end = records;
    while end > 0 {
        let begin = (end - 1) / BLOCK_RECORDS * BLOCK_RECORDS;
        let mut block = read_block(scratch, begin, end)?;
        let positions = (begin as i64 + 1..=end as i64).rev();
        for (record, position) in block.chunks_exact_mut(RECORD_BYTES).rev().zip(positions) {
            let next = met.insert(page_of(record), position).unwrap_or(NEVER);
            record[16..].copy_from_slice(&next.to_le_bytes());
        }
        scratch.seek(SeekFrom::Start(begin * RECORD_BYTES as u64))?;
        scratch.write_all(&block)?;
        end = begin;
    }
    Ok(())
}

/// Step 3: in order, each page at its place.
fn copy(
    scratch: &mut (impl Read + Seek),
    records: u64,
    bases: &[u64],
    output: &mut impl Write,
) -> std::io::Result<()> {
    let mut begin = 0;
    while begin < records {
        let end = records.min(begin + BLOCK_RECORDS);
        let mut block = read_block(scratch, begin, end)?;
        for record in block.chunks_exact_mut(RECORD_BYTES) {
            let page = page_of(record);
            let page = bases[(page / PAGES_MAX) as usize] + page % PAGES_MAX;
            record[4..12].copy_from_slice(&page.to_le_bytes());
        }
        output.write_all(&block)?;
        begin = end;
    }
    Ok(())
}

/// The records from `begin` to `end`.
fn read_block(scratch: &mut (impl Read + Seek), begin: u64, end: u64) -> std::io::Result<Vec<u8>> {
    let mut block = vec![0; (end - begin) as usize * RECORD_BYTES];
    scratch.seek(SeekFrom::Start(begin * RECORD_BYTES as u64))?;
    scratch.read_exact(&mut block)?;
    Ok(block)
}

/// A new file that is gone when it is closed, or when the process ends.
fn nameless(folder: &Path) -> std::io::Result<File> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: the numbers need only differ.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!(".wharf-{}-{number}.unfinished", std::process::id());
    let path = folder.join(name);
    let mut options = File::options();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::request::Op;

    fn written(requests: Vec<Request>) -> Result<(Vec<u8>, Converted), WorkloadError> {
        let mut out = Vec::new();
        let workload = Workload::from_requests("sample", requests);
        let converted = write_by(workload, &mut out, &mut Cursor::new(Vec::new()))?;
        Ok((out, converted))
    }

    /// Time, page, next of each record, all of which are of one page.
    fn records(bytes: &[u8]) -> Vec<(u32, u64, i64)> {
        assert_eq!(bytes.len() % RECORD_BYTES, 0);
        let record = |r: &[u8]| {
            assert_eq!(r[12..16], 4096u32.to_le_bytes());
            let seconds = u32::from_le_bytes(r[..4].try_into().unwrap());
            (
                seconds,
                page_of(r),
                i64::from_le_bytes(r[16..].try_into().unwrap()),
            )
        };
        bytes.chunks_exact(RECORD_BYTES).map(record).collect()
    }

    fn at(seconds: u64, stream: u32, page: u64, pages: u32) -> Request {
        Request {
            time_ns: seconds * 1_000_000_000 + 999_999_999,
            stream,
            ..Request::new(Op::Write, page * PAGE_BYTES, pages * PAGE_BYTES as u32)
        }
    }

    #[test]
    fn each_use_says_where_its_page_is_used_next() {
        let flush = Request::new(Op::Flush, 0, 4096);
        let untimed = Request::new(Op::Read, 7 * PAGE_BYTES + 4095, 2);
        let requests = vec![
            at(50, 0, 7, 2),
            flush,
            at(53, 0, 8, 1),
            untimed,
            at(51, 0, 8, 1),
        ];
        let (bytes, converted) = written(requests).unwrap();
        let expected = [
            (0, 7, 4),
            (0, 8, 3),
            (3, 8, 5),
            (3, 7, NEVER),
            (3, 8, 6),
            (3, 8, NEVER),
        ];
        assert_eq!(records(&bytes), expected);
        assert_eq!(
            (
                converted.records,
                converted.left_out,
                converted.info.requests
            ),
            (6, 1, 5)
        );
    }

    #[test]
    fn devices_follow_one_another() {
        let requests = vec![at(0, 9, 300, 1), at(0, 2, 300, 1), at(0, 9, 300, 1)];
        let (bytes, _) = written(requests).unwrap();
        // 301 pages are 2 MiB when rounded up.
        assert_eq!(
            records(&bytes),
            [(0, 300, 3), (0, 812, NEVER), (0, 300, NEVER)]
        );
    }

    #[test]
    fn times_of_an_age_are_cut() {
        let late = Request {
            time_ns: u64::MAX - 1,
            ..at(0, 0, 0, 1)
        };
        let (bytes, _) = written(vec![at(0, 0, 0, 1), late]).unwrap();
        assert_eq!(records(&bytes)[1].0, u32::MAX);
    }

    #[test]
    fn blocks_of_records_meet() {
        let pages = 1_000;
        let rounds = 2 * BLOCK_RECORDS / pages + 3;
        let all = (0..rounds * pages).map(|i| at(0, 0, i % pages, 1));
        let (bytes, _) = written(all.collect()).unwrap();
        for (i, (_, page, next)) in records(&bytes).into_iter().enumerate() {
            let i = i as u64;
            let later = i + pages;
            let expected = if later < rounds * pages {
                later as i64 + 1
            } else {
                NEVER
            };
            assert_eq!((page, next), (i % pages, expected), "record {i}");
        }
    }

    #[test]
    fn what_moves_no_data_is_no_trace() {
        let error = written(vec![Request::new(Op::Flush, 0, 1)]).unwrap_err();
        assert!(error.to_string().contains("no reads and writes"), "{error}");
    }

    #[test]
    fn a_scratch_file_leaves_no_name() {
        let folder = std::env::temp_dir();
        let mut file = nameless(&folder).unwrap();
        file.write_all(b"x").unwrap();
        let own = format!(".wharf-{}-", std::process::id());
        let mut names = std::fs::read_dir(folder).unwrap().flatten();
        assert!(!names.any(|entry| entry.file_name().to_string_lossy().starts_with(&own)));
    }
}
