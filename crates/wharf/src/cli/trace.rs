//! `wharf trace stat` and `wharf trace convert`.

use std::io::Write;
use std::path::{Path, PathBuf};

use wharf_workload::convert::{OutputFormat, convert};
use wharf_workload::{BlkAction, Workload, WorkloadStat};

use super::{Failure, input, print};

/// How a trace is read.
#[derive(clap::Args)]
pub(super) struct Reading {
    /// Trace format, when the content leaves it open (`docs/traces.md` lists the names).
    #[arg(long)]
    pub(super) format: Option<String>,

    /// Share of unreadable lines past which reading stops.
    #[arg(long, default_value = "1%", value_name = "SHARE")]
    pub(super) bad_lines: String,

    /// Which event of a blkparse text counts: Q, I, D or C.
    #[arg(long, value_name = "EVENT")]
    blkparse_action: Option<String>,
}

impl Reading {
    /// The blkparse event asked for.
    pub(super) fn action(&self) -> Result<Option<BlkAction>, Failure> {
        match &self.blkparse_action {
            None => Ok(None),
            Some(name) => name.parse().map(Some).map_err(input),
        }
    }
}

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Counts requests, mix, sizes, footprint and reuse.
    Stat {
        /// The trace.
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
        /// The trace.
        file: PathBuf,
        /// The file to write; it must not exist.
        out: PathBuf,
        /// Format to write: wharf or msr.
        #[arg(long, default_value = "wharf")]
        to: String,
        #[command(flatten)]
        reading: Reading,
    },
}

/// Runs the command.
pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Stat {
            file,
            json,
            no_reuse,
            reading,
        } => {
            let workload = Workload::open(file, &reading.options()?).map_err(input)?;
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
            reading,
        } => {
            let format: OutputFormat = to.parse().map_err(input)?;
            let workload = Workload::open(file, &reading.options()?).map_err(input)?;
            write_converted(workload, out, format)
        }
    }
}

/// Writes beside the target and moves into place, so that a failure leaves nothing behind.
fn write_converted(workload: Workload, out: &Path, format: OutputFormat) -> Result<(), Failure> {
    if out.exists() {
        return Err(input(format!(
            "{} exists: remove it or give another name",
            out.display()
        )));
    }
    let mut unfinished = out.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    let fault = |error: std::io::Error| input(format!("cannot write {}: {error}", out.display()));
    let mut file = std::fs::File::create(&unfinished).map_err(fault)?;
    let done = convert(workload, &mut file, format)
        .map_err(input)
        .and_then(|info| {
            file.flush()
                .and_then(|()| std::fs::rename(&unfinished, out))
                .map_err(fault)
                .map(|()| info)
        });
    match done {
        Ok(info) => {
            print(&format!(
                "{}: {} requests, {} lines left out",
                out.display(),
                info.requests,
                info.bad_lines
            ));
            Ok(())
        }
        Err(failure) => {
            // The first fault is the one to tell.
            let _ = std::fs::remove_file(&unfinished);
            Err(failure)
        }
    }
}
