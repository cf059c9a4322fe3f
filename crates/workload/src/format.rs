//! Names of the trace formats, and the layouts of the five-column ASCII family.

use std::fmt;
use std::str::FromStr;

use crate::error::{Candidates, WorkloadError};
use crate::nearest::nearest;

/// A trace format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// This project's plain format (see [`mod@crate::convert`]).
    Wharf,
    /// MSR Cambridge CSV: `time,host,disk,type,offset,size,latency`.
    Msr,
    /// FIU text: `time pid process lba size op major minor md5`.
    Fiu,
    /// Tencent cloud block storage CSV: `time,offset,size,op,volume`.
    Tencent,
    /// Alibaba cloud block storage CSV: `device_id,opcode,offset,length,timestamp`.
    Alibaba,
    /// SYSTOR '17 CSV: `Timestamp,Response,IOType,LUN,Offset,Size`.
    Systor,
    /// vscsi binary records, version 1 of 32 bytes each, or version 2 of 40.
    Vscsi,
    /// libCacheSim's `oracleGeneral` records, 24 bytes each.
    Oracle,
    /// CloudPhysics CSV: `version,time,op,size,lbn`.
    CloudPhysics,
    /// DiskSim ASCII: `time dev lba size flags`; ms, sectors, sectors, bit 0 = read.
    DiskSim,
    /// MQSim and SSDsim ASCII: `time dev lba size op`; whole ns, sectors, sectors, 1 = read.
    Mqsim,
    /// As DiskSim, but with the size in 4 KiB pages and tabs between the columns.
    DiskSimPages,
    /// Heimdall ASCII: `time dev offset size op`; ms, bytes, bytes, 1 = read.
    Heimdall,
    /// SPC-like: `ASU,LBA,size,opcode,timestamp`; sectors, bytes, r/w, s.
    Spc,
    /// ARC `.lis`: `first_block count ignored request`.
    Lis,
    /// Text output of `blkparse`.
    Blkparse,
    /// fio I/O log, version 2 or 3.
    Fio,
    /// BIOtracer logs of phones: `lba sectors bytes flags t1 t2 t3 t4`.
    Biotracer,
    /// A table whose columns a header names, or whoever gives it ([`Columns`](crate::Columns)).
    Csv,
    /// Five ASCII columns with a layout given by the user.
    Ascii(AsciiLayout),
}

impl Format {
    /// All formats with a name of their own, in the order of messages.
    pub const NAMED: [Format; 19] = [
        Format::Wharf,
        Format::Msr,
        Format::Fiu,
        Format::Tencent,
        Format::Alibaba,
        Format::Systor,
        Format::Vscsi,
        Format::Oracle,
        Format::CloudPhysics,
        Format::DiskSim,
        Format::Mqsim,
        Format::DiskSimPages,
        Format::Heimdall,
        Format::Spc,
        Format::Lis,
        Format::Blkparse,
        Format::Fio,
        Format::Biotracer,
        Format::Csv,
    ];

    /// The name used by `--format`; `ascii` for a layout of the user's.
    pub fn name(&self) -> &'static str {
        match self {
            Format::Wharf => "wharf",
            Format::Msr => "msr",
            Format::Fiu => "fiu",
            Format::Tencent => "tencent",
            Format::Alibaba => "alibaba",
            Format::Systor => "systor17",
            Format::Vscsi => "vscsi",
            Format::Oracle => "oracleGeneral",
            Format::CloudPhysics => "cloudphysics",
            Format::DiskSim => "disksim",
            Format::Mqsim => "mqsim",
            Format::DiskSimPages => "disksim-pages",
            Format::Heimdall => "heimdall",
            Format::Spc => "spc",
            Format::Lis => "lis",
            Format::Blkparse => "blkparse",
            Format::Fio => "fio",
            Format::Biotracer => "biotracer",
            Format::Csv => "csv",
            Format::Ascii(_) => "ascii",
        }
    }

    /// The layout of a format of the five-column ASCII family.
    pub fn ascii_layout(&self) -> Option<AsciiLayout> {
        let layout = |time, offset, size| AsciiLayout {
            time,
            offset,
            size,
            read_is_one: true,
        };
        match self {
            Format::DiskSim => Some(layout(TimeUnit::Ms, Unit::Sector, Unit::Sector)),
            Format::Mqsim => Some(layout(TimeUnit::Ns, Unit::Sector, Unit::Sector)),
            Format::DiskSimPages => Some(layout(TimeUnit::Ms, Unit::Sector, Unit::Page)),
            Format::Heimdall => Some(layout(TimeUnit::Ms, Unit::Byte, Unit::Byte)),
            Format::Ascii(layout) => Some(*layout),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Format::Ascii(layout) => write!(f, ":{layout}"),
            _ => Ok(()),
        }
    }
}

impl FromStr for Format {
    type Err = WorkloadError;

    /// A name of [`Format::NAMED`], or `ascii:time=ms,offset=sector,size=sector,read=1`.
    fn from_str(name: &str) -> Result<Format, WorkloadError> {
        if let Some(layout) = name.strip_prefix("ascii:") {
            return layout.parse().map(Format::Ascii);
        }
        Format::NAMED
            .into_iter()
            .find(|f| f.name() == name)
            .ok_or_else(|| WorkloadError::UnknownFormatName {
                given: name.to_owned(),
                nearest: nearest(name, Format::NAMED.iter().map(Format::name)).to_owned(),
                known: Candidates(Format::NAMED.to_vec()),
            })
    }
}

/// Unit of a time column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

impl TimeUnit {
    /// All of them, with their names.
    const ALL: [(&'static str, TimeUnit); 4] = [
        ("s", TimeUnit::S),
        ("ms", TimeUnit::Ms),
        ("us", TimeUnit::Us),
        ("ns", TimeUnit::Ns),
    ];

    /// The one of this name.
    pub(crate) fn by_name(name: &str) -> Option<TimeUnit> {
        let found = TimeUnit::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, unit)| *unit)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        let found = TimeUnit::ALL.iter().find(|(_, unit)| *unit == self);
        found.expect("all are listed").0
    }

    /// Nanoseconds in one.
    pub fn ns(self) -> u64 {
        match self {
            TimeUnit::S => 1_000_000_000,
            TimeUnit::Ms => 1_000_000,
            TimeUnit::Us => 1_000,
            TimeUnit::Ns => 1,
        }
    }
}

/// Unit of an address or size column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Byte,
    /// Sectors of 512 bytes.
    Sector,
    /// Pages of 4096 bytes.
    Page,
}

impl Unit {
    /// All of them, with their names.
    const ALL: [(&'static str, Unit); 3] = [
        ("byte", Unit::Byte),
        ("sector", Unit::Sector),
        ("page", Unit::Page),
    ];

    /// The one of this name.
    pub(crate) fn by_name(name: &str) -> Option<Unit> {
        let found = Unit::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, unit)| *unit)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        let found = Unit::ALL.iter().find(|(_, unit)| *unit == self);
        found.expect("all are listed").0
    }

    /// Bytes in one.
    pub fn bytes(self) -> u64 {
        match self {
            Unit::Byte => 1,
            Unit::Sector => 512,
            Unit::Page => 4096,
        }
    }
}

/// Units of five ASCII columns `time device offset size op`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsciiLayout {
    /// Unit of the first column.
    pub time: TimeUnit,
    /// Unit of the third column.
    pub offset: Unit,
    /// Unit of the fourth column.
    pub size: Unit,
    /// Whether 1 in bit 0 of the fifth column is a read (else a write).
    pub read_is_one: bool,
}

impl AsciiLayout {
    const EXAMPLE: &str = "ascii:time=ms,offset=sector,size=sector,read=1";
}

impl fmt::Display for AsciiLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = u8::from(self.read_is_one);
        write!(
            f,
            "time={},offset={},size={},read={read}",
            self.time.name(),
            self.offset.name(),
            self.size.name()
        )
    }
}

impl FromStr for AsciiLayout {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<AsciiLayout, WorkloadError> {
        let bad = |reason: String| WorkloadError::BadAsciiLayout {
            given: text.to_owned(),
            reason,
            example: AsciiLayout::EXAMPLE,
        };
        let (mut time, mut offset, mut size, mut read) = (None, None, None, None);
        for part in text.split(',') {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| bad(format!("\"{part}\" is not key=value")))?;
            match (key, value) {
                ("time", unit) => match TimeUnit::by_name(unit) {
                    None => return Err(bad("time is s, ms, us or ns".to_owned())),
                    known => time = known,
                },
                ("offset" | "size", unit) => {
                    let known = Unit::by_name(unit);
                    let unit =
                        known.ok_or_else(|| bad(format!("{key} is byte, sector or page")))?;
                    *(if key == "offset" {
                        &mut offset
                    } else {
                        &mut size
                    }) = Some(unit);
                }
                ("read", "1") => read = Some(true),
                ("read", "0") => read = Some(false),
                ("read", _) => return Err(bad("read is 0 or 1".to_owned())),
                _ => return Err(bad(format!("no key \"{key}\" (time, offset, size, read)"))),
            }
        }
        match (time, offset, size, read) {
            (Some(time), Some(offset), Some(size), Some(read_is_one)) => Ok(AsciiLayout {
                time,
                offset,
                size,
                read_is_one,
            }),
            _ => Err(bad(
                "time, offset, size and read must all be given".to_owned()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_to_its_format_and_back() {
        for format in Format::NAMED {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
        }
        let ascii: Format = "ascii:time=us,offset=byte,size=page,read=0"
            .parse()
            .unwrap();
        assert_eq!(ascii.to_string().parse::<Format>().unwrap(), ascii);
    }

    #[test]
    fn a_wrong_name_says_the_nearest() {
        let error = "diskism".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("nearest is \"disksim\""), "{error}");
        let error = "ascii:time=h".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("time is s, ms, us or ns"), "{error}");
        assert!("ascii:time=ms,offset=byte".parse::<Format>().is_err());
    }
}
