//! Commands as calls, for programs that show the figures themselves: they take the words of the command line, check them as it does, and give what
//! it would print as data.
//!
//! Nothing is printed but the lines of progress, and these on a terminal only. A call ends soon after its `stop` is set, with
//! [`Failure::Interrupted`].

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use wharf_lab::curves::Curves;
use wharf_lab::result::Comparison;
use wharf_lab::sweep::Report;
use wharf_workload::Request;

use super::Failure;
use super::trace::{Reading, open, unreadable};
use super::{compare as compare_command, mrc as mrc_command, usage};

/// The words of a command, without its name.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Words<A: clap::Args> {
    #[command(flatten)]
    args: A,
}

/// The arguments that the words are, or why they are none, in one line.
fn parse<A: clap::Args>(words: &[OsString]) -> Result<A, Failure> {
    let parsed = Words::<A>::try_parse_from(words);
    parsed
        .map(|words| words.args)
        .map_err(|error| Failure::Input(usage::first(&error)))
}

/// What `wharf compare` compares.
///
/// # Errors
/// As the command.
pub fn compare(words: &[OsString], stop: &Arc<AtomicBool>) -> Result<Comparison, Failure> {
    let request = compare_command::prepare(&parse(words)?)?;
    let comparison = compare_command::compared(&request, stop)?;
    go_on(stop).map(|()| comparison)
}

/// What `wharf mrc` says of a trace or a workload, or of these pages, for which the first word is a name.
///
/// # Errors
/// As the command.
pub fn mrc(
    words: &[OsString],
    pages: Option<&[u64]>,
    stop: &AtomicBool,
) -> Result<Curves, Failure> {
    let args = parse(words)?;
    let uses = match pages {
        None => mrc_command::uses(&args, stop, |_| {})?,
        Some(pages) => mrc_command::uses_of_pages(&args, pages, stop)?,
    };
    // Relaxed: whether it is seen a simulation later does not matter.
    mrc_command::curves(&args, &uses, || match stop.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    })
}

/// What comes of the sweep that a text describes, as a file of `wharf sweep run` does (`docs/sweeps.md`); `jobs` points at a time, or as many as fit.
///
/// # Errors
/// As the command.
pub fn sweep(text: &str, jobs: Option<usize>, stop: &Arc<AtomicBool>) -> Result<Report, Failure> {
    let report = super::described(text, jobs, stop)?;
    go_on(stop).map(|()| report)
}

/// A trace, and how it is read.
#[derive(clap::Args)]
struct Trace {
    trace: std::path::PathBuf,
    #[command(flatten)]
    reading: Reading,
}

/// Reads a trace with the options of `wharf trace stat`, and gives its requests to `take`, some thousands at a time.
///
/// # Errors
/// As the command.
pub fn read_trace(
    words: &[OsString],
    stop: &AtomicBool,
    mut take: impl FnMut(&[Request]),
) -> Result<(), Failure> {
    let Trace { trace, reading } = parse(words)?;
    let mut workload = open(&trace, &reading.options()?)?;
    let mut batch = Vec::new();
    while workload.next_batch(&mut batch).map_err(unreadable)? {
        go_on(stop)?;
        take(&batch);
    }
    Ok(())
}

fn go_on(stop: &AtomicBool) -> Result<(), Failure> {
    // Relaxed: whether it is seen a batch later does not matter.
    match stop.load(Ordering::Relaxed) {
        true => Err(Failure::Interrupted),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn line<T>(made: Result<T, Failure>) -> String {
        match made {
            Err(Failure::Input(line) | Failure::File { line, .. }) => line,
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("it is wrong"),
        }
    }

    #[test]
    fn what_is_wrong_is_one_line_and_nothing_ends_the_program() {
        let stop = Arc::default();
        let compared = |of: &[&str]| line(compare(&words(of), &stop));
        let refused = compared(&["--requests=-5", "--", "zipf"]);
        let expected = "invalid value '-5' for '--requests <N>': '-5' is not a count";
        assert!(refused.starts_with(expected), "{refused}");
        assert_eq!(
            compared(&["--threads=3", "--", "zipf"]),
            "the following required arguments were not provided: --real"
        );
        // Words that the program itself answers.
        for word in ["--help", "--version"] {
            assert!(compared(&[word]).starts_with("unexpected argument"));
        }
        assert!(compared(&["--", "--help"]).starts_with("no file '--help'"));
        let read = read_trace(&words(&["--", "nosuch"]), &stop, |_| ());
        assert!(matches!(
            read,
            Err(Failure::File {
                errno: libc::ENOENT,
                ..
            })
        ));
    }

    #[test]
    fn pages_by_number_have_the_curves_of_textbooks() {
        // Belady's anomaly.
        let pages = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
        let of = words(&["--policies=fifo", "--sizes=3,4", "--", "array"]);
        let curves = mrc(&of, Some(&pages), &AtomicBool::new(false)).expect("curves");
        let hits = curves.rows.iter().map(|row| (row.hit_ratio * 12.0).round());
        assert_eq!(hits.collect::<Vec<_>>(), [3.0, 2.0]);
        assert_eq!((curves.trace.as_str(), curves.requests), ("array", 12));
    }

    #[test]
    fn what_was_stopped_gives_nothing() {
        let stop = Arc::new(AtomicBool::new(true));
        let of = words(&["--requests=1000", "--", "zipf"]);
        let is_interrupted = |failure| matches!(failure, Failure::Interrupted);
        assert!(mrc(&of, None, &stop).is_err_and(is_interrupted));
        assert!(mrc(&words(&["a"]), Some(&[1]), &stop).is_err_and(is_interrupted));
        let of = words(&[
            "--requests=1000",
            "--designs=direct",
            "--drive=tiny",
            "--footprint=512KiB",
            "--clients=1",
            "--",
            "zipf",
        ]);
        assert!(compare(&of, &stop).is_err_and(is_interrupted));
    }
}
