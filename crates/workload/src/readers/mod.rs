//! Trace readers: one file per format, each turning one line (or record) into at most one request.

use crate::format::Format;
use crate::parse::Reject;
use crate::request::Request;
use crate::trace::ReadOptions;

mod alibaba;
mod ascii;
mod biotracer;
mod blkparse;
mod cloudphysics;
mod csv;
mod fio;
mod fiu;
mod lis;
mod msr;
pub(crate) mod oracle;
mod spc;
mod systor;
mod tencent;
mod vscsi;
mod wharf;

pub use blkparse::BlkAction;

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A request.
    Request(Request),
    /// Part of the format but no request: a header, a comment, another event.
    Skip,
}

/// How a stream is cut into what a parser gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Lines of text.
    Lines,
    /// Records of so many bytes.
    Records(usize),
}

/// Turns one line of a format into a request.
pub(crate) trait Parser: Send {
    /// Looks at the sample before the first line, where the format needs a choice made.
    fn prepare(&mut self, _sample: &[u8]) {}

    /// Parses one line or record, without its end.
    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject>;

    /// How the stream is cut.
    fn framing(&self) -> Framing {
        Framing::Lines
    }

    /// What was assumed where the format leaves a choice, for the report.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A new parser for a format, with what `options` say of formats that leave a choice.
pub(crate) fn parser(format: Format, options: &ReadOptions) -> Box<dyn Parser> {
    match format {
        Format::Wharf => Box::new(wharf::Wharf::default()),
        Format::Msr => Box::new(msr::Msr::default()),
        Format::Fiu => Box::new(fiu::Fiu),
        Format::Tencent => Box::new(tencent::Tencent),
        Format::Alibaba => Box::new(alibaba::Alibaba),
        Format::Csv => Box::new(csv::Csv::new(options.columns.clone())),
        Format::Oracle => Box::new(oracle::Oracle::default()),
        Format::Systor => Box::new(systor::Systor),
        Format::Vscsi => Box::new(vscsi::Vscsi::default()),
        Format::CloudPhysics => Box::new(cloudphysics::CloudPhysics::default()),
        Format::Spc => Box::new(spc::Spc),
        Format::Lis => Box::new(lis::Lis::new(options.block_bytes)),
        Format::Blkparse => Box::new(blkparse::Blkparse::new(options.blkparse_action)),
        Format::Fio => Box::new(fio::Fio::default()),
        Format::Biotracer => Box::new(biotracer::Biotracer),
        Format::DiskSim
        | Format::Mqsim
        | Format::DiskSimPages
        | Format::Heimdall
        | Format::Ascii(_) => Box::new(ascii::Ascii::new(format)),
    }
}

/// The first lines, without one of which a format is not detected; none if it has no header.
pub(crate) fn required_headers(format: Format) -> &'static [&'static [u8]] {
    match format {
        Format::Systor => &[systor::HEADER],
        Format::CloudPhysics => &[cloudphysics::HEADER],
        Format::Fio => &fio::HEADERS,
        Format::Wharf => &[wharf::HEADER],
        _ => &[],
    }
}

pub(crate) use ascii::Columns;
pub(crate) use lis::counts_requests;
pub(crate) use wharf::HEADER as WHARF_HEADER;
