//! The command line: one file for each command.
//!
//! Exit codes: 0 done; 1 a run failed (a wrong read, a fault of drive or design); 2 bad input,
//! nothing was changed; 130 interrupted, what was done so far has been printed.

mod array;
mod bench;
mod cache;
mod calibrate;
pub mod calls;
mod compare;
mod compressibility;
mod compute;
mod drive;
mod fs;
mod help;
mod info;
mod keeping;
mod lists;
mod mount;
mod mrc;
mod output;
mod progress;
mod recording;
mod reproduce;
mod room;
mod run;
mod serve;
mod sweep;
mod trace;
mod usage;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{FromArgMatches, Parser, Subcommand};

pub(crate) use compare::sweep::described;

/// Done.
const OK: u8 = 0;
/// A run failed.
const FAILED: u8 = 1;
/// Bad input.
const BAD_INPUT: u8 = 2;
/// Stopped by a signal.
const INTERRUPTED: u8 = 130;

/// Compares ways to cache between a host and a drive.
///
/// Exit codes: 0 done; 1 a run failed (wrong data, a fault in drive or design); 2 bad input,
/// nothing was changed; 130 interrupted, after printing what was done so far.
#[derive(Parser)]
#[command(name = "wharf", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Replays a workload through several designs and reports bandwidth, latency, hits and costs.
    Compare(Box<compare::Args>),
    /// Times every operation of this machine and writes the costs that virtual time charges.
    Calibrate(calibrate::Args),
    /// Makes a paper's figures anew and puts its claims beside what was found.
    Reproduce(Box<reproduce::Args>),
    /// Runs every combination of some values, in parts on several machines that share a directory, and puts them together.
    #[command(subcommand)]
    Sweep(sweep::Command),
    /// Says what replacement policies hit of a trace, over the size of a cache (miss-ratio curves), without a drive.
    Mrc(Box<mrc::Args>),
    /// Looks at a trace, or converts it.
    #[command(subcommand)]
    Trace(trace::Command),
    /// Makes arrays of files or block devices, and looks after them.
    #[command(subcommand)]
    Array(array::Command),
    /// Runs the same job on a file through the page cache, around all caches, and through the kernel's, side by side.
    Bench(Box<bench::Args>),
    /// Puts a cache on a fast file or device in front of a slow disk, and looks after it; `wharf serve nbd` serves it.
    #[command(subcommand)]
    Cache(cache::Command),
    /// Makes file systems in drive images, and looks after them; `wharf mount` mounts one.
    #[command(subcommand)]
    Fs(fs::Command),
    /// Has a drive compute on files of its image: checksums, words, nearest vectors, compression.
    Compute(compute::Args),
    /// Shows the file system of a drive image as a directory, until it is unmounted.
    Mount(mount::Args),
    /// Runs a program that finds the files of a drive image at a path, without a mount.
    Run(run::Args),
    /// Serves blocks to other programs.
    #[command(subcommand)]
    Serve(serve::Command),
    /// Lists the designs that `wharf compare --designs` takes.
    Designs,
    /// Lists the workloads that take the place of a trace.
    Workloads,
    /// Lists the policies that `wharf mrc --policies` takes.
    Policies,
    /// Prints completions for a shell.
    Completions(help::CompletionsArgs),
    /// Writes man pages, one for each command.
    Man(help::ManArgs),
    /// Says what this machine offers to real storage.
    Info,
    /// Lists drive presets, or prepares a drive image.
    #[command(subcommand)]
    Drive(drive::Command),
}

/// Why a command did not succeed.
#[derive(Debug, Clone)]
pub enum Failure {
    /// The input is wrong.
    Input(String),
    /// A file cannot be read.
    File {
        /// The line to print.
        line: String,
        /// The system's number for the reason: an I/O error where it had none.
        errno: i32,
    },
    /// The run failed.
    Run(String),
    /// Stopped by a signal.
    Interrupted,
}

/// Anything that reads as one line about the input.
fn input(error: impl std::fmt::Display) -> Failure {
    Failure::Input(error.to_string())
}

/// Bytes that nobody else has.
fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let read = crate::random::bytes();
    read.map_err(|error| Failure::Run(format!("{}: {error}", crate::random::SOURCE)))
}

/// Runs the program.
pub fn main() -> ExitCode {
    // A row of a bench is a process of its own, which people do not start.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == bench::row::COMMAND)
    {
        return exit_code(bench::row::serve());
    }
    let cli = match parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(code) => return ExitCode::from(code),
    };
    let result = match cli.command {
        Command::Compare(args) => compare::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Sweep(command) => sweep::run(&command),
        Command::Mrc(args) => mrc::run(&args),
        Command::Trace(command) => trace::run(&command),
        Command::Array(command) => array::run(&command),
        Command::Bench(args) => bench::run(&args),
        Command::Cache(command) => cache::run(&command),
        Command::Fs(command) => fs::run(&command),
        Command::Compute(args) => compute::run(&args),
        Command::Mount(args) => mount::run(&args),
        Command::Run(args) => match run::run(&args) {
            Ok(code) => return ExitCode::from(code),
            Err(failure) => Err(failure),
        },
        Command::Serve(command) => serve::run(&command),
        Command::Designs => lists::run(lists::List::Designs),
        Command::Workloads => lists::run(lists::List::Workloads),
        Command::Policies => lists::run(lists::List::Policies),
        Command::Completions(args) => help::completions(&args),
        Command::Man(args) => help::man(&args),
        Command::Info => info::run(),
        Command::Drive(command) => drive::run(&command),
    };
    exit_code(result)
}

/// Says why a command did not succeed; its exit code.
fn exit_code(result: Result<(), Failure>) -> ExitCode {
    ExitCode::from(match result {
        Ok(()) => OK,
        Err(Failure::Input(line) | Failure::File { line, .. }) => {
            eprintln!("wharf: {line}");
            BAD_INPUT
        }
        Err(Failure::Run(line)) => {
            eprintln!("wharf: {line}");
            FAILED
        }
        Err(Failure::Interrupted) => INTERRUPTED,
    })
}

/// What the arguments ask for. Where they ask for help or are wrong, that is printed; then the exit code.
fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Cli, u8> {
    let matches = help::command().try_get_matches_from(arguments);
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    cli.map_err(|error| match usage::line(&error) {
        Some(line) => {
            eprintln!("wharf: {line}");
            BAD_INPUT
        }
        None => {
            // A reader that goes away is no error.
            let _ = error.print();
            error.exit_code() as u8
        }
    })
}

/// Prints to standard output; a reader that has gone away is no error.
fn print(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{text}");
}
