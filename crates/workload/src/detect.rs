//! Which format a trace is in, told from its first 256 KiB, or not told at all.
//!
//! Every format's own parser runs over the sample. A format matches if it accepts three lines of four
//! (how many bad ones are too many is judged when reading), or all but three. Formats with a header match only with it.
//!
//! The five-column ASCII family needs evidence beside that, since its members accept each other's
//! lines. The rules, each on the whole sample:
//!
//! * times with a point are ms (DiskSim and derivatives), without one ns (MQSim, SSDsim);
//! * bytes are possible only if every address and size is a multiple of 512;
//! * sectors are impossible if all are multiples of 512 and some size would exceed 16 MiB;
//! * sizes in pages are impossible if one would exceed 16 MiB, or if requests go on exactly where the one
//!   before ended when sizes are taken as sectors (and the other way round);
//! * tabs and sizes of which 95 % are below 8 mean pages; blanks and sizes of which 90 % are 8 or
//!   more mean sectors (and the report says that they were taken so).
//!
//! If more than one remains, it is an error that names them. Nothing is ever guessed.

use crate::columns::{Columns, Layout};
use crate::error::{Candidates, WorkloadError};
use crate::format::{AsciiLayout, Format, TimeUnit, Unit};
use crate::lines::trim_return;
use crate::parse::Reject;
use crate::readers::{self, Columns as FiveColumns, Framing, Parsed};
use crate::trace::ReadOptions;

/// Bytes of a request taken as implausible in the ASCII family.
const REQUEST_BYTES_PLAUSIBLE: u64 = 16 << 20;

/// Requests that must continue their predecessor before this counts as evidence.
const RUNS_MIN: u64 = 8;

/// Lines below which the spread of sizes is no evidence of pages.
const SPREAD_LINES_MIN: u64 = 64;

/// Bad lines let pass in a short sample: the preamble of an archive.
const PREAMBLE_LINES: u64 = 3;

/// The beginning of a trace, cut at its last whole line.
pub(crate) struct Sample<'a> {
    bytes: &'a [u8],
}

impl<'a> Sample<'a> {
    /// `is_all`: the sample is the whole trace.
    pub fn new(bytes: &'a [u8], is_all: bool) -> Sample<'a> {
        let end = match bytes.iter().rposition(|&b| b == b'\n') {
            Some(last) if !is_all => last + 1,
            _ => bytes.len(),
        };
        Sample {
            bytes: &bytes[..end],
        }
    }

    fn lines(&self) -> impl Iterator<Item = &'a [u8]> {
        let text = self.bytes.strip_suffix(b"\n").unwrap_or(self.bytes);
        text.split(|&b| b == b'\n').map(trim_return)
    }
}

/// How a format's parser fared on the sample.
#[derive(Default)]
struct Fare {
    good: u64,
    bad: u64,
    skipped: u64,
    /// Line number and fault of the first bad line.
    first_bad: Option<(u64, Reject)>,
}

impl Fare {
    /// Nearly all lines must be of the format; the reader, not detection, counts out what is too many.
    fn matches(&self) -> bool {
        self.good > 0 && (self.bad <= PREAMBLE_LINES || self.bad * 3 <= self.good + self.skipped)
    }
}

fn fare(format: Format, sample: &Sample<'_>) -> Fare {
    let mut parser = readers::parser(format, &ReadOptions::default());
    parser.prepare(sample.bytes);
    let pieces: Box<dyn Iterator<Item = &[u8]>> = match parser.framing() {
        Framing::Lines => Box::new(sample.lines()),
        Framing::Records(bytes) => Box::new(sample.bytes.chunks_exact(bytes)),
    };
    let mut fare = Fare::default();
    let mut count = 0;
    for piece in pieces {
        count += 1;
        if piece.trim_ascii_start().is_empty() {
            continue;
        }
        match parser.parse(piece) {
            Ok(Parsed::Request(_)) => fare.good += 1,
            Ok(Parsed::Skip) => fare.skipped += 1,
            Err(reject) => {
                fare.bad += 1;
                fare.first_bad.get_or_insert((count, reject));
            }
        }
    }
    fare
}

/// What the sample says of the units of five ASCII columns.
#[derive(Debug, Default)]
struct Evidence {
    lines: u64,
    with_point: u64,
    with_tab: u64,
    whole_512: u64,
    size_max: u64,
    below_8: u64,
    /// Requests that begin where the one before ends, sizes taken as sectors, and as pages.
    runs_as_sectors: u64,
    runs_as_pages: u64,
}

impl Evidence {
    fn gather(sample: &Sample<'_>) -> Evidence {
        let mut e = Evidence::default();
        let mut before: Option<FiveColumns> = None;
        for line in sample.lines() {
            // A request of size 0 says nothing of units.
            let Some(c) = FiveColumns::parse(line).ok().filter(|c| c.size > 0) else {
                continue;
            };
            e.lines += 1;
            e.with_point += u64::from(c.time.has_point);
            e.with_tab += u64::from(line.contains(&b'\t'));
            e.whole_512 += u64::from(c.offset.is_multiple_of(512) && c.size.is_multiple_of(512));
            e.size_max = e.size_max.max(c.size);
            e.below_8 += u64::from(c.size < 8);
            if let Some(b) = before.filter(|b| b.device == c.device) {
                let goes_on = |unit| {
                    Some(c.offset)
                        == b.size
                            .checked_mul(unit)
                            .and_then(|s| b.offset.checked_add(s))
                };
                e.runs_as_sectors += u64::from(goes_on(1));
                e.runs_as_pages += u64::from(goes_on(8));
            }
            before = Some(c);
        }
        e
    }

    /// The layouts that the evidence leaves possible.
    fn layouts(&self) -> Vec<AsciiLayout> {
        let exceeds = |unit: Unit| self.size_max > REQUEST_BYTES_PLAUSIBLE / unit.bytes();
        let outnumber = |a: u64, b: u64| a >= RUNS_MIN && a / RUNS_MIN >= b;
        let all_512 = self.whole_512 == self.lines;
        let tabs = self.with_tab * 2 > self.lines;
        let small = self.below_8 * 100 >= self.lines * 95;
        let sectors_ruled_out = all_512 && exceeds(Unit::Sector)
            || outnumber(self.runs_as_pages, self.runs_as_sectors)
            || tabs && small && self.lines >= SPREAD_LINES_MIN;
        let pages_ruled_out = exceeds(Unit::Page)
            || outnumber(self.runs_as_sectors, self.runs_as_pages)
            || !tabs && self.below_8 * 10 <= self.lines;
        let time = if self.with_point * 2 > self.lines {
            TimeUnit::Ms
        } else {
            TimeUnit::Ns
        };
        let layout = |offset, size| AsciiLayout {
            time,
            offset,
            size,
            read_is_one: true,
        };
        let mut layouts = Vec::new();
        if !sectors_ruled_out {
            layouts.push(layout(Unit::Sector, Unit::Sector));
        }
        if !pages_ruled_out {
            layouts.push(layout(Unit::Sector, Unit::Page));
        }
        if all_512 {
            layouts.push(layout(Unit::Byte, Unit::Byte));
        }
        layouts
    }

    /// The same as formats: the named one of a layout, where there is one.
    fn formats(&self) -> Vec<Format> {
        let name = |layout: AsciiLayout| {
            ASCII_NAMED
                .into_iter()
                .find(|format| format.ascii_layout() == Some(layout))
                .unwrap_or(Format::Ascii(layout))
        };
        if self.lines == 0 {
            Vec::new()
        } else {
            self.layouts().into_iter().map(name).collect()
        }
    }
}

const ASCII_NAMED: [Format; 4] = [
    Format::DiskSim,
    Format::Mqsim,
    Format::DiskSimPages,
    Format::Heimdall,
];

const ASCII_HINT: &str = "they differ in the units of the columns, which the content does not prove; \
     a layout can also be spelled out as ascii:time=ms,offset=sector,size=sector,read=1";

/// Formats that match without doubt on their own marks.
fn marked(sample: &Sample<'_>) -> Vec<Format> {
    Format::NAMED
        .into_iter()
        .filter(|format| format.ascii_layout().is_none() && *format != Format::Csv)
        .filter(|format| {
            let headers = readers::required_headers(*format);
            let is_first = |header: &&[u8]| sample.lines().next() == Some(*header);
            headers.is_empty() || headers.iter().any(is_first)
        })
        .filter(|format| {
            let fare = fare(*format, sample);
            // Binary records have no excuse for a bad one.
            let clean = !matches!(format, Format::Vscsi | Format::Oracle) || fare.bad == 0;
            let counts = *format != Format::Lis || readers::counts_requests(sample.lines());
            clean && counts && fare.matches()
        })
        .collect()
}

/// Tells the format of a sample.
pub(crate) fn detect(name: &str, sample: &Sample<'_>) -> Result<Format, WorkloadError> {
    let mut found = marked(sample);
    let evidence = Evidence::gather(sample);
    let ascii = evidence.formats();
    // A file of five columns in which no named layout reads the lines is no match either.
    let reads = |format: &Format| {
        let fare = fare(*format, sample);
        fare.matches()
    };
    found.extend(ascii.into_iter().filter(reads));
    // A table is what has no marks of its own.
    if found.is_empty() && Layout::of(sample.bytes, None).is_ok() && reads(&Format::Csv) {
        found.push(Format::Csv);
    }
    match found[..] {
        [format @ Format::Ascii(_)] => Err(WorkloadError::UnknownFormat {
            name: name.to_owned(),
            hint: format!("five columns that look like {format}"),
            known: Candidates(ASCII_NAMED.to_vec()),
        }),
        [format] => Ok(format),
        [] => Err(WorkloadError::UnknownFormat {
            name: name.to_owned(),
            hint: unknown_hint(sample, &evidence),
            known: Candidates(Format::NAMED.to_vec()),
        }),
        _ => Err(WorkloadError::AmbiguousFormat {
            name: name.to_owned(),
            candidates: Candidates(found),
            hint: ASCII_HINT.to_owned(),
        }),
    }
}

/// Refuses a table whose columns are not known.
pub(crate) fn check_table(
    name: &str,
    sample: &Sample<'_>,
    columns: Option<&Columns>,
) -> Result<(), WorkloadError> {
    let layout = Layout::of(sample.bytes, columns);
    layout
        .map(|_| ())
        .map_err(|reason| WorkloadError::WrongFormat {
            name: name.to_owned(),
            format: Format::Csv,
            reason,
        })
}

/// Refuses a format that the sample contradicts. A layout spelled out by the user is not doubted.
pub(crate) fn check_forced(
    name: &str,
    format: Format,
    sample: &Sample<'_>,
) -> Result<(), WorkloadError> {
    let wrong = |reason| WorkloadError::WrongFormat {
        name: name.to_owned(),
        format,
        reason,
    };
    let fare = fare(format, sample);
    if let (0, Some((line, reject))) = (fare.good, fare.first_bad) {
        return Err(wrong(format!("line {line}: {reject}")));
    }
    if ASCII_NAMED.contains(&format) {
        let evidence = Evidence::gather(sample);
        let possible = evidence.formats();
        if evidence.lines > 0 && !possible.contains(&format) {
            let like = match possible.is_empty() {
                true => "no units explain all of its sizes".to_owned(),
                false => format!("its columns look like {}", Candidates(possible)),
            };
            return Err(wrong(format!(
                "{like}; if it is sure, spell the layout out: --format ascii:{}",
                format.ascii_layout().expect("of the ASCII family")
            )));
        }
    }
    Ok(())
}

fn unknown_hint(sample: &Sample<'_>, evidence: &Evidence) -> String {
    let first = sample.lines().next().unwrap_or_default();
    if sample.bytes.is_empty() {
        "it is empty".to_owned()
    } else if first.starts_with(b"fio version") {
        format!(
            "its first line is \"{}\"; of fio's I/O logs versions 2 and 3 are read",
            crate::policy::excerpt(first)
        )
    } else if sample.bytes.iter().take(4096).filter(|&&b| b == 0).count() > 64 {
        "binary, but neither vscsi records of version 1 or 2 nor oracleGeneral records".to_owned()
    } else if evidence.lines > 0 && evidence.layouts().is_empty() {
        "five columns of which no units explain all sizes".to_owned()
    } else if let (true, Err(reason)) = (
        first.iter().filter(|byte| b",;\t".contains(byte)).count() > 1,
        Layout::of(sample.bytes, None),
    ) {
        format!(
            "its first line is \"{}\"; as a table, {reason}",
            crate::policy::excerpt(first)
        )
    } else {
        format!("its first line is \"{}\"", crate::policy::excerpt(first))
    }
}
