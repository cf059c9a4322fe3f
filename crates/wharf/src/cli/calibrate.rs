//! `wharf calibrate`.

use std::path::PathBuf;

use wharf_lab::calibrate::{CalibrateError, Calibration, Options, calibrate, fidelity};

use super::output::{self, Force};
use super::progress::Progress;
use super::{Failure, input, print, room};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Writes the cost table, for `wharf compare --costs FILE`. Without it the table is printed.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Then runs every design in virtual time with these costs and for real, and writes predictions beside
    /// measurements, as a document. Some eight minutes in all, two with --quick.
    #[arg(long, value_name = "FILE")]
    fidelity: Option<PathBuf>,

    /// Prints the figures as JSON: every operation and every path with its spread and origin.
    #[arg(long)]
    json: bool,

    /// Fewer rounds, and nothing timed again that did not settle: a third of the time, wider spreads.
    #[arg(long)]
    quick: bool,

    /// Folder for a file of 512 MiB (128 MiB with --quick), on the disk whose kernel paths are timed.
    /// The file has no name while it is in use: nothing is left behind.
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    dir: PathBuf,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    progress: Progress,
}

/// Times this machine, and writes or prints its table.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let named = [("--out", &args.out), ("--fidelity", &args.fidelity)].into_iter();
    let named = named.filter_map(|(option, path)| Some((option, path.as_deref()?)));
    output::check(&named.collect::<Vec<_>>(), args.force.force)?;
    let file_bytes = if args.quick { 128 << 20 } else { 512 << 20 };
    room::check_disk(&args.dir.join("timed"), file_bytes, "name another --dir")?;
    let options = Options {
        quick: args.quick,
        directory: args.dir.clone(),
    };
    let calibration = calibrate(&options, |step| {
        args.progress.say(&format!("timing {step}"))
    })
    .map_err(failure)?;
    report(args, &calibration)?;
    let Some(path) = &args.fidelity else {
        return Ok(());
    };
    let found = fidelity::measure(&calibration, &options, |step| {
        args.progress.say(&format!("running {step}"));
    });
    let text = found
        .map_err(failure)?
        .to_markdown(&today(), env!("WHARF_COMMIT"));
    output::write(path, text.as_bytes())?;
    args.progress.say(&format!("wrote {}", path.display()));
    Ok(())
}

fn report(args: &Args, calibration: &Calibration) -> Result<(), Failure> {
    let (date, commit) = (today(), env!("WHARF_COMMIT"));
    let name = match &args.out {
        Some(path) => path.file_stem().unwrap_or_default().to_string_lossy(),
        None => "measured".into(),
    };
    let text = calibration.to_toml(&name, &date, commit);
    if args.json {
        let json = calibration.to_json(&name, &date, commit);
        print(&serde_json::to_string_pretty(&json).expect("plain data"));
    }
    match &args.out {
        Some(path) => {
            output::write(path, text.as_bytes())?;
            args.progress.say(&format!("wrote {}", path.display()));
        }
        None if !args.json => print(text.trim_end()),
        None => {}
    }
    Ok(())
}

/// Faults of the machine or its folder are the user's to mend, those of a run are ours.
fn failure(error: CalibrateError) -> Failure {
    match error {
        CalibrateError::Run(_) => Failure::Run(error.to_string()),
        _ => input(error),
    }
}

/// Today's date in UTC, as year-month-day: provenance of a measurement, which nothing is computed
/// from.
#[allow(clippy::disallowed_methods)] // the one place where the day matters
fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    civil_date(since.map_or(0, |since| since.as_secs() / 86_400))
}

/// The date of a day counted from 1970-01-01, by counting years and months off.
fn civil_date(mut days: u64) -> String {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year:04}-{:02}-{:02}", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::civil_date;

    #[test]
    fn days_become_dates() {
        for (days, date) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_453, "2025-12-31"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(civil_date(days), date);
        }
    }
}
