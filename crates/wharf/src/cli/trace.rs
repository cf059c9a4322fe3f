//! `wharf trace stat` and `wharf trace convert`; `compressibility.rs` has the third.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use wharf_lab::input::TraceFrom;
use wharf_workload::format::Format;
use wharf_workload::{
    BadLinePolicy, BlkAction, Columns, Compression, Converted, OutputFormat, Packed, ReadOptions,
    TraceReader, Workload, WorkloadError, WorkloadStat, convert,
};

use super::output::{self, Force};
use super::values::{count, share, size};
use super::{Failure, input, print, room};

/// How a trace is read.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Reading {
    /// Trace format, when the content leaves it open (`docs/traces.md` lists the names).
    #[arg(long)]
    format: Option<String>,

    /// Share of unreadable lines past which reading stops: 1% if left out.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    bad_lines: Option<f64>,

    /// Which event of a blkparse text counts: Q, I, D or C.
    #[arg(long, value_name = "EVENT")]
    blkparse_action: Option<String>,

    /// Which columns of a table (CSV) are what, by name or by number from 1, where its header does not say it: timestamp=ts,op=rw,offset=lba,size=4;
    /// and unit=sector (byte, page) of offset and size, time=us (s, ms, ns), read=0 (what means a read).
    #[arg(long, value_name = "LIST")]
    columns: Option<Columns>,

    /// Bytes of a block of a lis trace (those of the ARC paper), 512 if left out.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    block_size: Option<u64>,

    /// Only requests of these volumes (devices, or files of a log), separated by commas, by the numbers that `wharf trace stat` lists.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = count::<u32>(0..=u64::from(u32::MAX)))]
    volume: Vec<u32>,
}

/// The most bytes that a block of a trace may have.
const BLOCK_BYTES_MAX: u64 = 1 << 20;

/// The name of a trace that is piped in.
const STDIN: &str = "standard input";

impl Reading {
    /// The options for reading a trace.
    pub(super) fn options(&self) -> Result<ReadOptions, Failure> {
        let format = match &self.format {
            None => None,
            Some(name) => Some(name.parse::<Format>().map_err(input)?),
        };
        let usual = BadLinePolicy::default();
        let bad_lines = BadLinePolicy {
            share: self.bad_lines.unwrap_or(usual.share),
            ..usual
        };
        Ok(ReadOptions {
            format,
            bad_lines,
            blkparse_action: self.action()?,
            block_bytes: self.block_bytes()?,
            columns: self.columns.clone(),
            volumes: self.volume.clone(),
            requests_max: None,
            requests_room: None,
        })
    }

    /// An option that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--format", self.format.is_some()),
            ("--bad-lines", self.bad_lines.is_some()),
            ("--blkparse-action", self.blkparse_action.is_some()),
            ("--columns", self.columns.is_some()),
            ("--block-size", self.block_size.is_some()),
            ("--volume", !self.volume.is_empty()),
        ];
        let given = given.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(option, _)| option)
    }

    /// The blkparse event asked for.
    pub(super) fn action(&self) -> Result<Option<BlkAction>, Failure> {
        match &self.blkparse_action {
            None => Ok(None),
            Some(name) => name.parse().map(Some).map_err(input),
        }
    }

    /// The block size asked for.
    pub(super) fn block_bytes(&self) -> Result<Option<u32>, Failure> {
        let Some(bytes) = self.block_size else {
            return Ok(None);
        };
        match u32::try_from(bytes) {
            Ok(block) if (1..=BLOCK_BYTES_MAX).contains(&bytes) => Ok(Some(block)),
            _ => Err(input(format!("--block-size {bytes}: give 1 byte to 1 MiB"))),
        }
    }
}

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Counts requests, mix, sizes, footprint and reuse.
    Stat {
        /// The trace; `-`: standard input.
        file: PathBuf,
        /// Prints JSON.
        #[arg(long)]
        json: bool,
        /// Leaves reuse distances out: less time and memory on large traces.
        #[arg(long)]
        no_reuse: bool,
        #[command(flatten)]
        reading: Reading,
    },
    /// Writes a trace in another format.
    Convert {
        /// The trace; `-`: standard input.
        file: PathBuf,
        /// The file to write, compressed if it is called .gz or .zst; `-`: standard output.
        out: PathBuf,
        /// Format to write: wharf, msr or oracleGeneral (libCacheSim's). If left out, wharf, and a file that is called .csv is
        /// refused: that is no CSV.
        #[arg(long)]
        to: Option<String>,
        #[command(flatten)]
        force: Force,
        #[command(flatten)]
        reading: Reading,
    },
    /// Measures how well the pages of files compress, one by one and in chunks.
    Compressibility(super::compressibility::Args),
}

/// Runs the command.
pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Compressibility(args) => super::compressibility::run(args),
        Command::Stat {
            file,
            json,
            no_reuse,
            reading,
        } => {
            let workload = open(file, &reading.options()?)?;
            let stat = WorkloadStat::of(workload, !no_reuse).map_err(input)?;
            match json {
                true => print(&serde_json::to_string_pretty(&stat).expect("plain data")),
                false => print(stat.to_string().trim_end()),
            }
            Ok(())
        }
        Command::Convert {
            file,
            out,
            to,
            force,
            reading,
        } => {
            let format = output_format(to.as_deref(), out)?;
            output::check(&[("", out)], force.force)?;
            let workload = open(file, &reading.options()?)?;
            write_converted(workload, out, format)
        }
    }
}

/// Opens a file, or standard input.
pub(super) fn open(file: &Path, options: &ReadOptions) -> Result<Workload, Failure> {
    if file != Path::new("-") {
        return Workload::open(file, options).map_err(unreadable);
    }
    check_piped()?;
    let reader = TraceReader::from_reader(STDIN, std::io::stdin(), options);
    reader.map(Workload::from_stream).map_err(input)
}

/// Why a trace cannot be read: the file, or what is in it.
pub(super) fn unreadable(error: WorkloadError) -> Failure {
    match &error {
        WorkloadError::Open { source, .. } | WorkloadError::Read { source, .. } => Failure::File {
            errno: source.raw_os_error().unwrap_or(match source.kind() {
                std::io::ErrorKind::IsADirectory => libc::EISDIR,
                _ => libc::EIO,
            }),
            line: error.to_string(),
        },
        _ => input(error),
    }
}

/// All of standard input, as it may be read more than once.
pub(super) fn from_stdin() -> Result<TraceFrom, Failure> {
    check_piped()?;
    // It is copied once.
    let most = room::room_bytes() / 2;
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(most).read_to_end(&mut bytes);
    read.map_err(|error| input(format!("cannot read {STDIN}: {error}")))?;
    if bytes.len() as u64 == most {
        return Err(input(format!(
            "{STDIN} is longer than the {} of memory that can be had: give it as a file",
            room::size(most)
        )));
    }
    Ok(TraceFrom::Memory {
        name: STDIN.into(),
        bytes: bytes.into(),
    })
}

/// Nobody types a trace.
fn check_piped() -> Result<(), Failure> {
    match std::io::stdin().is_terminal() {
        true => Err(input(
            "- is a trace from standard input, which is a terminal: pipe one in",
        )),
        false => Ok(()),
    }
}

/// The format to write. The name of a file says what it is taken for, but for how it is compressed.
fn output_format(to: Option<&str>, out: &Path) -> Result<OutputFormat, Failure> {
    let plain = match Packed::<Vec<u8>>::asked_by(out).map_err(input)? {
        Compression::Plain => out.to_path_buf(),
        _ => out.with_extension(""),
    };
    match to {
        Some(name) => name.parse().map_err(input),
        None if plain.extension().is_some_and(|suffix| suffix == "csv") => Err(input(format!(
            "{} would not be CSV but Wharf's own format: say --to msr, or --to wharf",
            out.display()
        ))),
        None => Ok(OutputFormat::Wharf),
    }
}

/// Writes a trace, and says what it has.
fn write_converted(workload: Workload, out: &Path, format: OutputFormat) -> Result<(), Failure> {
    let compression = Packed::<Vec<u8>>::asked_by(out).map_err(input)?;
    let scratch = scratch_beside(out);
    let written = output::write_by(out, |file| {
        let mut packed = Packed::new(file, compression);
        let converted = convert(workload, &mut packed, format, &scratch).map_err(input)?;
        let ended = packed.finish().map_err(WorkloadError::Write);
        ended.map(|()| converted).map_err(input)
    });
    let line = told(out, &written?, format);
    match output::is_stdout(out) {
        true => eprintln!("{line}"),
        false => print(&line),
    }
    Ok(())
}

/// Where a format that looks back may have a file: beside the result, where there is room for it; where temporary files are if it is
/// a stream.
fn scratch_beside(out: &Path) -> PathBuf {
    let is_file = std::fs::metadata(out).map_or(!output::is_stdout(out), |there| there.is_file());
    match out.parent() {
        Some(folder) if is_file && !folder.as_os_str().is_empty() => folder.into(),
        _ if is_file => ".".into(),
        _ => std::env::temp_dir(),
    }
}

/// What a converted trace has.
fn told(out: &Path, converted: &Converted, format: OutputFormat) -> String {
    let Converted {
        info,
        records,
        left_out,
    } = converted;
    let uses = match format {
        OutputFormat::Oracle => format!(
            " as {records} uses of pages of 4 KiB, {left_out} flushes and discards left out"
        ),
        OutputFormat::Wharf | OutputFormat::Msr => String::new(),
    };
    format!(
        "{}: {} requests{uses}, {} lines left out",
        out.display(),
        info.requests,
        info.bad_lines
    )
}
