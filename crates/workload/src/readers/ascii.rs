//! The family of five columns `time device offset size op` between blanks or tabs: DiskSim, MQSim,
//! SSDsim and their derivatives, which agree on the columns and on nothing else.
//!
//! The columns themselves do not say their units. Each named format therefore demands what its
//! writers always write (a decimal point in times in ms, none in times in ns; whole sectors where bytes are
//! meant), and [`crate::detect`] weighs the sample before the first line is taken. A layout
//! given by the user (`ascii:…`) is taken as it is.

use super::{Parsed, Parser};
use crate::format::{AsciiLayout, Format, Unit};
use crate::parse::{Cursor, Decimal, Fault, Reject, reject, request};
use crate::request::{Op, SECTOR_BYTES};

/// One line, its units unknown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns {
    pub time: Decimal,
    pub device: u32,
    pub offset: u64,
    pub size: u64,
    pub op: u64,
}

impl Columns {
    pub fn parse(line: &[u8]) -> Result<Columns, Reject> {
        let mut c = Cursor::new(line);
        c.blanks();
        let time = c.decimal("time")?;
        c.gap("device")?;
        let device = c.uint32("device")?;
        c.gap("offset")?;
        let offset = c.uint("offset")?;
        c.gap("size")?;
        let size = c.uint("size")?;
        c.gap("op")?;
        let op = c.uint("op")?;
        c.finish("op")?;
        Ok(Columns {
            time,
            device,
            offset,
            size,
            op,
        })
    }
}

/// Whether times have a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    Always,
    Never,
    Either,
}

/// The stream is the device column.
pub(super) struct Ascii {
    layout: AsciiLayout,
    point: Point,
    /// Largest value of the op column; only bit 0 is looked at.
    op_max: u64,
    note: Option<&'static str>,
    /// Lines without a sector.
    empty: u64,
}

impl Ascii {
    pub fn new(format: Format) -> Ascii {
        let layout = format.ascii_layout().expect("a format of the ASCII family");
        let (point, op_max) = match format {
            Format::Mqsim => (Point::Never, 1),
            Format::Ascii(_) => (Point::Either, u64::from(u32::MAX)),
            // DiskSim keeps further flags above bit 0.
            Format::DiskSim => (Point::Always, 0xffff),
            _ => (Point::Always, 1),
        };
        let note = match format {
            Format::DiskSim => Some("times taken as ms, addresses and sizes as 512-byte sectors"),
            Format::Mqsim => Some("times taken as ns, addresses and sizes as 512-byte sectors"),
            Format::DiskSimPages => {
                Some("times taken as ms, addresses as 512-byte sectors, sizes as 4 KiB pages")
            }
            Format::Heimdall => Some("times taken as ms, addresses and sizes as bytes"),
            _ => None,
        };
        Ascii {
            layout,
            point,
            op_max,
            note,
            empty: 0,
        }
    }
}

impl Parser for Ascii {
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        let columns = Columns::parse(line)?;
        match self.point {
            Point::Always if !columns.time.has_point => return reject("time", Fault::NoPoint),
            Point::Never if columns.time.has_point => return reject("time", Fault::Unexpected),
            _ => {}
        }
        if columns.op > self.op_max {
            return reject("op", Fault::Unexpected);
        }
        if columns.size == 0 {
            // What moves nothing (a flush, say) is of the format, and no request.
            self.empty += 1;
            return Ok(Parsed::Skip);
        }
        let scale = |value: u64, unit: Unit, field| {
            value.checked_mul(unit.bytes()).ok_or(Reject {
                field,
                fault: Fault::TooLarge,
            })
        };
        let offset = scale(columns.offset, self.layout.offset, "offset")?;
        let bytes = scale(columns.size, self.layout.size, "size")?;
        if self.point != Point::Either {
            for (value, field) in [(offset, "offset"), (bytes, "size")] {
                if !value.is_multiple_of(SECTOR_BYTES) {
                    return reject(field, Fault::NotWholeSectors);
                }
            }
        }
        let time = columns.time.to_ns(self.layout.time.ns(), "time")?;
        let is_read = (columns.op & 1 == 1) == self.layout.read_is_one;
        let op = if is_read { Op::Read } else { Op::Write };
        request(time, op, offset, bytes, columns.device).map(Parsed::Request)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.note.iter().map(|&note| note.to_owned()).collect();
        if self.empty > 0 {
            notes.push(format!("{} requests of size 0 left out", self.empty));
        }
        notes
    }
}
