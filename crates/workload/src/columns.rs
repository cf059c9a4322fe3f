//! Which columns of a table are what: told by its header, or by whoever gives it.
//!
//! 1. The delimiter is the one of comma, semicolon and tab that the first line has most of.
//! 2. A header names its columns; names that are usual for a time, an operation, an offset, a size and a device are known, in any case and
//!    whatever stands between their words. Units are in the name (`lba`, `time_us`, `size_sectors`), or follow from the numbers below.
//! 3. [`Columns`] says what the header does not, or what another column is to be.

use std::fmt;
use std::str::FromStr;

use crate::format::{TimeUnit, Unit};

/// A column, by its name or its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// From 1.
    Number(usize),
    /// As the header has it.
    Name(String),
}

/// What whoever gives a table says of its columns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Columns {
    timestamp: Option<Column>,
    op: Option<Column>,
    offset: Option<Column>,
    size: Option<Column>,
    stream: Option<Column>,
    unit: Option<Unit>,
    time: Option<TimeUnit>,
    read: Option<String>,
}

/// An error of [`Columns`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--columns {given}: {reason}; an example is {}", Columns::EXAMPLE)]
pub struct ColumnsError {
    given: String,
    reason: String,
}

impl Columns {
    const EXAMPLE: &'static str = "timestamp=ts,op=rw,offset=lba,size=4,unit=sector,time=us";
}

impl FromStr for Columns {
    type Err = ColumnsError;

    fn from_str(text: &str) -> Result<Columns, ColumnsError> {
        let bad = |reason: String| ColumnsError {
            given: text.to_string(),
            reason,
        };
        let mut columns = Columns::default();
        for part in text.split(',') {
            let pair = part.split_once('=');
            let (key, value) = pair
                .filter(|(_, value)| !value.is_empty())
                .ok_or_else(|| bad(format!("\"{part}\" is not key=value")))?;
            let column = || match value.parse() {
                Ok(0) => Err(bad("columns are numbered from 1".into())),
                Ok(number) => Ok(Some(Column::Number(number))),
                Err(_) => Ok(Some(Column::Name(value.to_string()))),
            };
            match (key, value) {
                ("timestamp", _) => columns.timestamp = column()?,
                ("op", _) => columns.op = column()?,
                ("offset", _) => columns.offset = column()?,
                ("size", _) => columns.size = column()?,
                ("stream", _) => columns.stream = column()?,
                ("unit", unit) => match Unit::by_name(unit.strip_suffix('s').unwrap_or(unit)) {
                    None => return Err(bad("unit is byte, sector or page".into())),
                    known => columns.unit = known,
                },
                ("time", unit) => match TimeUnit::by_name(unit) {
                    None => return Err(bad("time is s, ms, us or ns".into())),
                    known => columns.time = known,
                },
                ("read", _) => columns.read = Some(value.to_string()),
                _ => {
                    let keys = "timestamp, op, offset, size, stream, unit, time, read";
                    return Err(bad(format!("no key \"{key}\" ({keys})")));
                }
            }
        }
        Ok(columns)
    }
}

/// What a column may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Timestamp,
    Op,
    Offset,
    Size,
    Stream,
}

/// Usual names of columns, without case and without what stands between words.
const NAMES: [(Role, &[&str]); 5] = [
    (
        Role::Timestamp,
        &[
            "timestamp",
            "time",
            "ts",
            "arrival",
            "arrivaltime",
            "issuetime",
            "submittime",
            "timestampns",
            "timestampus",
            "timestampms",
            "timestamps",
            "timens",
            "timeus",
            "timems",
            "times",
            "tsns",
            "tsus",
            "tsms",
        ],
    ),
    (
        Role::Op,
        &[
            "op",
            "opcode",
            "operation",
            "optype",
            "type",
            "iotype",
            "requesttype",
            "reqtype",
            "rw",
            "readwrite",
            "cmd",
            "command",
            "action",
            "direction",
            "rwbs",
        ],
    ),
    (
        Role::Offset,
        &[
            "offset",
            "offsetbytes",
            "byteoffset",
            "startoffset",
            "address",
            "addr",
            "lba",
            "lbn",
            "startlba",
            "sector",
            "startsector",
            "sectornumber",
            "offsetsectors",
            "offsetsector",
            "page",
            "pagenumber",
            "pageid",
            "offsetpages",
            "blkno",
            "position",
            "pos",
        ],
    ),
    (
        Role::Size,
        &[
            "size",
            "sizebytes",
            "bytes",
            "length",
            "lengthbytes",
            "len",
            "nbytes",
            "iosize",
            "requestsize",
            "reqsize",
            "sectors",
            "nsectors",
            "sectorcount",
            "sizesectors",
            "lengthsectors",
            "pages",
            "npages",
            "sizepages",
            "lengthpages",
        ],
    ),
    (
        Role::Stream,
        &[
            "device",
            "deviceid",
            "dev",
            "disk",
            "diskid",
            "disknumber",
            "volume",
            "volumeid",
            "vol",
            "lun",
            "asu",
            "stream",
        ],
    ),
];

/// Where what is in a line, and in which units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) delimiter: u8,
    pub(crate) has_header: bool,
    pub(crate) timestamp: Option<(usize, TimeUnit)>,
    pub(crate) op: Option<usize>,
    pub(crate) offset: (usize, Unit),
    /// Of a table without it each request is of one unit.
    pub(crate) size: Option<(usize, Unit)>,
    pub(crate) stream: Option<usize>,
    /// What means a read, where operations are numbers.
    pub(crate) read: Option<Box<[u8]>>,
}

/// The fields of a line.
pub(crate) fn fields(line: &[u8], delimiter: u8) -> impl Iterator<Item = &[u8]> {
    line.split(move |byte| *byte == delimiter).map(|field| {
        let field = field.trim_ascii();
        let quoted = field.strip_prefix(b"\"");
        quoted.map_or(field, |rest| rest.strip_suffix(b"\"").unwrap_or(rest))
    })
}

fn plain(name: &[u8]) -> String {
    let letters = name.iter().filter(|byte| byte.is_ascii_alphanumeric());
    letters
        .map(|byte| byte.to_ascii_lowercase() as char)
        .collect()
}

fn unit_of(name: &str) -> Option<Unit> {
    let has = |part: &str| name.contains(part);
    match () {
        () if has("sector") || has("lba") || has("lbn") || has("blkno") => Some(Unit::Sector),
        () if has("page") => Some(Unit::Page),
        () if has("byte") => Some(Unit::Byte),
        () => None,
    }
}

fn time_unit_of(name: &str) -> Option<TimeUnit> {
    let units = ["ns", "us", "ms"].into_iter();
    let mut found = units.filter(|suffix| name.ends_with(suffix));
    found.next().and_then(TimeUnit::by_name)
}

/// The unit that times have, by what they look like; nothing if they may have several.
fn time_unit_like(times: &[&[u8]]) -> Option<TimeUnit> {
    if times.iter().any(|time| time.contains(&b'.')) {
        return Some(TimeUnit::S);
    }
    // Since 1970, from 2001 to 2286.
    let digits = times.iter().map(|time| time.len()).max()?;
    match digits {
        10 => Some(TimeUnit::S),
        13 => Some(TimeUnit::Ms),
        16 => Some(TimeUnit::Us),
        19 => Some(TimeUnit::Ns),
        _ => None,
    }
}

impl Layout {
    /// That of a table that begins so. Says why there is none.
    pub(crate) fn of(sample: &[u8], given: Option<&Columns>) -> Result<Layout, String> {
        let mut lines = sample
            .split(|byte| *byte == b'\n')
            .map(|line| line.trim_ascii_end());
        let lines = lines.by_ref().filter(|line| !line.is_empty());
        let lines: Vec<&[u8]> = lines.take(64).collect();
        let first = lines.first().copied().unwrap_or_default();
        let count = |delimiter: &u8| first.iter().filter(|byte| *byte == delimiter).count();
        let delimiter = *[b',', b';', b'\t']
            .iter()
            .max_by_key(|delimiter| count(delimiter))
            .expect("there are three");
        let heads: Vec<String> = fields(first, delimiter).map(plain).collect();
        let is_number = |field: &[u8]| field.first().is_none_or(|byte| byte.is_ascii_digit());
        let all = fields(first, delimiter);
        let has_header = all.filter(|field| is_number(field)).count() * 2 < heads.len();
        let table = Table {
            heads,
            has_header,
            rows: lines[usize::from(has_header)..].to_vec(),
            delimiter,
        };
        table.layout(given.unwrap_or(&Columns::default()))
    }
}

/// The beginning of a table.
struct Table<'a> {
    heads: Vec<String>,
    has_header: bool,
    rows: Vec<&'a [u8]>,
    delimiter: u8,
}

impl<'a> Table<'a> {
    fn layout(&self, given: &Columns) -> Result<Layout, String> {
        let offset = self
            .find(Role::Offset, &given.offset)?
            .ok_or_else(|| self.lacks("offset"))?;
        let size = self.find(Role::Size, &given.size)?;
        let op = self.find(Role::Op, &given.op)?;
        let timestamp = self.find(Role::Timestamp, &given.timestamp)?;
        let head = |column: usize| self.heads[column].as_str();
        let offset_unit = given.unit.or(unit_of(head(offset))).unwrap_or(Unit::Byte);
        let size = size.map(|column| {
            let named = given.unit.or(unit_of(head(column)));
            (
                column,
                named.unwrap_or_else(|| self.size_unit(column, offset_unit)),
            )
        });
        let time = |column: usize| {
            let named = given.time.or(time_unit_of(head(column)));
            let times = self.column(column);
            let unit = named.or_else(|| time_unit_like(&times));
            unit.map(|unit| (column, unit)).ok_or_else(|| {
                let times = String::from_utf8_lossy(times.first().copied().unwrap_or_default());
                format!(
                    "times such as {times} may have any unit: say --columns time=us (s, ms, us or ns)"
                )
            })
        };
        let layout = Layout {
            delimiter: self.delimiter,
            has_header: self.has_header,
            timestamp: timestamp.map(time).transpose()?,
            op,
            offset: (offset, offset_unit),
            size,
            stream: self.find(Role::Stream, &given.stream)?,
            read: given.read.as_ref().map(|value| value.as_bytes().into()),
        };
        let is_number = |field: &&[u8]| field.iter().all(u8::is_ascii_digit);
        let ops = op.map(|column| self.column(column)).unwrap_or_default();
        match layout.read.is_none() && !ops.is_empty() && ops.iter().all(is_number) {
            true => Err(
                "operations are numbers: say --columns read=0, or whichever means a read".into(),
            ),
            false => Ok(layout),
        }
    }

    /// The column of a role: the one that was given, else one with a usual name.
    fn find(&self, role: Role, given: &Option<Column>) -> Result<Option<usize>, String> {
        match given {
            Some(Column::Number(number)) if *number <= self.heads.len() => Ok(Some(number - 1)),
            Some(Column::Number(number)) => {
                let all = self.heads.len();
                Err(format!(
                    "there is no column {number}: its first line has {all}"
                ))
            }
            Some(Column::Name(name)) => {
                let name = plain(name.as_bytes());
                let found = self.heads.iter().position(|head| *head == name);
                let found = found.filter(|_| self.has_header);
                found.map(Some).ok_or_else(|| self.lacks(&name))
            }
            None if !self.has_header => Ok(None),
            None => {
                let names = NAMES.iter().find(|(known, _)| *known == role);
                let names = names.expect("all roles have names").1;
                // The more usual name first.
                let place = |name: &&str| self.heads.iter().position(|head| head == name);
                Ok(names.iter().find_map(place))
            }
        }
    }

    fn lacks(&self, name: &str) -> String {
        match self.has_header {
            true => format!(
                "its first line names no column for {name} ({}): say --columns {}",
                self.heads.join(", "),
                Columns::EXAMPLE
            ),
            false => format!(
                "its first line names no columns: say --columns {}, with their numbers from 1",
                "timestamp=1,op=2,offset=3,size=4"
            ),
        }
    }

    /// What the first lines have in a column.
    fn column(&self, column: usize) -> Vec<&'a [u8]> {
        let field = |line: &&'a [u8]| fields(line, self.delimiter).nth(column);
        self.rows.iter().filter_map(field).collect()
    }

    /// Sizes that are whole sectors as bytes are bytes; others have the unit of offsets.
    fn size_unit(&self, column: usize, offset: Unit) -> Unit {
        let sizes = self.column(column);
        let sizes = sizes
            .iter()
            .filter_map(|field| std::str::from_utf8(field).ok());
        let mut sizes = sizes.filter_map(|field| field.parse::<u64>().ok());
        match offset == Unit::Byte || sizes.all(|size| size.is_multiple_of(512)) {
            true => Unit::Byte,
            false => offset,
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (offset, of_offset) = self.offset;
        write!(f, "offset in column {} ({}s)", offset + 1, of_offset.name())?;
        match self.size {
            Some((column, of_size)) => write!(f, ", size in {} ({}s)", column + 1, of_size.name())?,
            None => write!(f, ", each request of one of them")?,
        }
        match self.op {
            Some(column) => write!(f, ", operation in {}", column + 1)?,
            None => write!(f, ", all of them reads")?,
        }
        if let Some((column, time)) = self.timestamp {
            write!(f, ", time in {} ({})", column + 1, time.name())?;
        }
        match self.stream {
            Some(column) => write!(f, ", device in {}", column + 1),
            None => Ok(()),
        }
    }
}
