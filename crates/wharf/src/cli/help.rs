//! What `--help` says beside the options themselves: commands and options in groups, and examples; and the same as completions for shells
//! and as man pages.

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::output::{self, Force};
use super::{Cli, Failure, input, print};

/// The commands, in the order of help.
const COMMANDS: &[(&str, &[&str])] = &[
    (
        "Compare in virtual or real time",
        &["compare", "mrc", "sweep", "reproduce", "calibrate"],
    ),
    (
        "What there is",
        &["designs", "workloads", "policies", "drive", "trace"],
    ),
    ("Files in a drive", &["fs", "mount", "run", "compute"]),
    (
        "Real storage",
        &["bench", "array", "cache", "serve", "info"],
    ),
    ("This program", &["completions", "man"]),
];

/// The groups of options of a command, and what is in each.
type Groups = &'static [(&'static str, &'static [&'static str])];

const COMPARE: Groups = &[
    (
        "What is compared",
        &[
            "designs", "cache", "clients", "depth", "seed", "seeds", "jobs",
        ],
    ),
    (
        "Drives and host",
        &[
            "drive",
            "drives",
            "backing",
            "backing_drives",
            "host",
            "costs",
            "sets",
            "prepare",
        ],
    ),
    ("Time", &["real", "threads", "profile", "speed"]),
    (
        "Workloads that are made",
        &[
            "requests",
            "footprint",
            "bs",
            "read_share",
            "theta",
            "files",
            "loops",
            "writers",
            "fsync_every",
            "view",
        ],
    ),
    (
        "Traces",
        &[
            "rule",
            "fit",
            "format",
            "bad_lines",
            "blkparse_action",
            "columns",
            "block_size",
            "volume",
            "overlay",
        ],
    ),
    ("Results", &["gauges", "json", "html", "force", "progress"]),
];

const BENCH: Groups = &[
    (
        "The job",
        &[
            "rw",
            "rwmixread",
            "bs",
            "size",
            "io_size",
            "threads",
            "iodepth",
            "fsync",
            "end_fsync",
            "seed",
        ],
    ),
    ("How long", &["runtime", "time_based", "rounds"]),
    ("What is compared", &["designs", "memory"]),
    (
        "The file, and results",
        &["force", "unlink", "json", "html", "progress"],
    ),
];

const MRC: Groups = &[
    (
        "What is simulated",
        &["requests", "seed", "policies", "sizes", "sample", "jobs"],
    ),
    (
        "Traces",
        &[
            "format",
            "bad_lines",
            "blkparse_action",
            "columns",
            "block_size",
            "volume",
        ],
    ),
    ("Results", &["json", "html", "force", "progress"]),
];

const REPRODUCE: Groups = &[
    (
        "What is made",
        &[
            "list", "quick", "scale", "prepare", "costs", "seed", "seeds", "jobs",
        ],
    ),
    (
        "A trace of your own",
        &[
            "trace",
            "format",
            "bad_lines",
            "blkparse_action",
            "columns",
            "block_size",
            "volume",
        ],
    ),
    ("Results", &["out", "force", "progress"]),
];

/// What a command is shown with: its path below `wharf`, its groups, its examples.
type Shown = (&'static [&'static str], Groups, &'static str);

/// All but those that have examples of their own beside them (`compute`, `fs`, `run`, `serve`, `mount`, `array`, `cache`).
const SHOWN: &[Shown] = &[
    (
        &["compare"],
        COMPARE,
        "\
Examples:

  wharf compare --html report.html
  wharf compare --designs all --json figures.json --html report.html --force
  wharf compare my-trace.csv.gz --cache 1GiB --clients 16 --requests 1M
  wharf compare zipf --footprint 4GiB --requests 1M --read-share 90%
  wharf compare webmail --drive tlc --set drive.timing.read_ns=25us
  wharf compare lun0 --requests 50k --designs lru,indexless
  wharf compare varmail --view files --designs kernel,stor --json -
  wharf compare zipf --cache 1%,5%,20% --set design.clock.replacement=clock,arc,s3-fifo --html sweep.html

`wharf designs` says what each design is, `wharf workloads` each workload, `wharf drive list` each drive.",
    ),
    (
        &["mrc"],
        MRC,
        "\
Examples:

  wharf mrc my-trace.csv.gz --html curves.html
  wharf mrc zipf --requests 1M --policies lru,arc,belady --sizes 1%,10%,64MiB
  wharf mrc my-trace.csv.gz --sample 1% --json curves.json",
    ),
    (
        &["sweep", "run"],
        &[],
        "\
Examples:

  wharf sweep run sweep.toml --out rows
  wharf sweep run sweep.toml --shard 2/8 --resume --out rows
  wharf sweep merge rows --html sweep.html --json sweep.json",
    ),
    (
        &["reproduce"],
        REPRODUCE,
        "\
Examples:

  wharf reproduce --list
  wharf reproduce scala/fig16b --quick --out pages
  wharf reproduce scale --seeds 3 --progress plain",
    ),
    (
        &["calibrate"],
        &[],
        "\
Examples:

  wharf calibrate --quick
  wharf calibrate --out costs.toml --fidelity fidelity.md
  wharf compare --costs costs.toml",
    ),
    (
        &["bench"],
        BENCH,
        "\
Examples:

  wharf bench data.bench --size 2g --rw randread --memory 256m --threads 4 --runtime 10
  wharf bench data.bench --rw randrw --rwmixread 70 --designs scale,kernel --json bench.json
  wharf bench data.bench --designs direct --iodepth 32 --runtime 500ms --time-based",
    ),
    (
        &["trace", "stat"],
        &[],
        "\
Examples:

  wharf trace stat my-trace.csv.gz
  wharf trace stat - --format msr --json",
    ),
    (
        &["trace", "convert"],
        &[],
        "\
Examples:

  wharf trace convert my-trace.csv.gz my.trace
  wharf trace convert my-trace.blkparse - --to msr
  wharf trace convert my-trace.csv.gz my.oracleGeneral.zst --to oracleGeneral",
    ),
    (
        &["trace", "compressibility"],
        &[],
        "\
Examples:

  wharf trace compressibility src docs --codec lz4
  wharf trace compressibility data.db --output data.table",
    ),
    (
        &["drive", "show"],
        &[],
        "\
Examples:

  wharf drive show tlc --set drive.geometry.channels=16",
    ),
    (
        &["drive", "prepare"],
        &[],
        "\
Examples:

  wharf drive prepare tiny worn.img --fill 80% --overwrite 3
  wharf compare uniform --drive tiny --clients 1 --footprint 512k --prepare worn.img",
    ),
    (
        &["completions"],
        &[],
        "\
Examples:

  wharf completions bash > ~/.local/share/bash-completion/completions/wharf
  wharf completions zsh > ~/.zfunc/_wharf
  wharf completions fish > ~/.config/fish/completions/wharf.fish",
    ),
    (
        &["man"],
        &[],
        "\
Examples:

  wharf man ~/.local/share/man/man1",
    ),
];

/// How numbers are written, at the end of the help of all.
const VALUES: &str = "\
Values: counts 1000, 1_000, 1k, 1.5M; sizes 4096, 4k, 4Ki, 4KiB (powers of 1024), 4kB (4000); shares 0.7, 70%; times 500ms, 10s, 2m.

`-` is standard input where a trace is read, and standard output where a result is written. Files that exist are not overwritten without --force.";

/// The whole command line, as it is shown.
pub(super) fn command() -> Command {
    let mut all = Cli::command();
    for (path, groups, examples) in SHOWN {
        all = within(all, path, &|command| {
            grouped(command, groups).after_help(*examples)
        });
    }
    // A number below 0 is a value that is refused, and no unknown option.
    all = numbers(all);
    let listed = listing(&all);
    all.help_template(format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listed}Options:\n{{options}}{{after-help}}"))
        .after_help(VALUES)
}

/// Changes the subcommand at a path.
fn within(command: Command, path: &[&'static str], change: &dyn Fn(Command) -> Command) -> Command {
    match path {
        [] => change(command),
        [first, rest @ ..] => command.mut_subcommand(*first, |inner| within(inner, rest, change)),
    }
}

fn grouped(command: Command, groups: Groups) -> Command {
    let heading = |id: &str| {
        groups
            .iter()
            .find(|(_, ids)| ids.contains(&id))
            .map(|(heading, _)| *heading)
    };
    command.mut_args(|argument| match heading(argument.get_id().as_str()) {
        Some(heading) => argument.help_heading(heading),
        None => argument,
    })
}

fn numbers(command: Command) -> Command {
    let takes_one = |argument: &clap::Arg| {
        argument.get_long().is_some() && argument.get_action().takes_values()
    };
    command
        .mut_args(|argument| match takes_one(&argument) {
            true => argument.allow_negative_numbers(true),
            false => argument,
        })
        .mut_subcommands(numbers)
}

/// Columns of the list of commands, and of the names in it.
const WIDTH: usize = 96;
const NAME_WIDTH: usize = 15;

/// A text in lines of so many columns.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is one");
        match last.is_empty() || last.chars().count() + 1 + word.chars().count() <= width {
            true => {
                let between = if last.is_empty() { "" } else { " " };
                *last += &format!("{between}{word}");
            }
            false => lines.push(word.to_string()),
        }
    }
    lines
}

/// The commands in their groups.
fn listing(all: &Command) -> String {
    let mut text = String::new();
    for (group, names) in COMMANDS {
        text += &format!("{group}:\n");
        for name in *names {
            let command = all.find_subcommand(name);
            let about = command
                .and_then(Command::get_about)
                .map(ToString::to_string)
                .unwrap_or_default();
            let lines = wrapped(&about, WIDTH - NAME_WIDTH);
            for (nth, line) in lines.iter().enumerate() {
                let name = if nth == 0 { name } else { "" };
                text += format!("  {name:0$}{line}", NAME_WIDTH - 2).trim_end();
                text.push('\n');
            }
        }
        text += "\n";
    }
    text
}

/// Completions for a shell.
#[derive(clap::Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Prints completions.
pub(super) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "wharf", &mut text);
    print(String::from_utf8_lossy(&text).trim_end());
    Ok(())
}

/// Man pages in a directory.
#[derive(clap::Args)]
pub(super) struct ManArgs {
    /// The directory, which is made if it is not there.
    directory: PathBuf,

    #[command(flatten)]
    force: Force,
}

/// Writes a page for the program, and for each of its commands: `wharf.1`, `wharf-trace-stat.1`.
pub(super) fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut all = command();
    all.build();
    let mut pages = Vec::new();
    render(&all, "wharf", &args.directory, &mut pages)?;
    for (path, _) in pages.iter().filter(|_| !args.force.force) {
        output::refuse_existing(path)?;
    }
    let made = std::fs::create_dir_all(&args.directory);
    made.map_err(|error| input(format!("cannot make {}: {error}", args.directory.display())))?;
    for (path, page) in &pages {
        output::write(path, page)?;
    }
    print(&format!(
        "{}: {} pages",
        args.directory.display(),
        pages.len()
    ));
    Ok(())
}

/// The pages of a command and of those below it.
fn render(
    command: &Command,
    name: &str,
    directory: &Path,
    pages: &mut Vec<(PathBuf, Vec<u8>)>,
) -> Result<(), Failure> {
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command.clone())
        .title(name.to_string())
        .render(&mut page);
    rendered.map_err(|error| Failure::Run(format!("{name}: {error}")))?;
    pages.push((directory.join(format!("{name}.1")), page));
    let below = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help");
    for below in below {
        render(
            below,
            &format!("{name}-{}", below.get_name()),
            directory,
            pages,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All commands that do something, with their paths.
    fn leaves(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
        let below: Vec<_> = command
            .get_subcommands()
            .filter(|below| !below.is_hide_set())
            .collect();
        if below.is_empty() {
            found.push((path.trim().to_string(), command.clone()));
        }
        for below in below {
            leaves(below, &format!("{path} {}", below.get_name()), found);
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_command_and_every_option_in_a_group_is_there() {
        let all = command();
        let visible = all.get_subcommands().filter(|one| !one.is_hide_set());
        let visible: Vec<&str> = visible.map(Command::get_name).collect();
        let listed: Vec<&str> = COMMANDS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        for name in &visible {
            assert!(listed.contains(name), "{name} is in no group");
        }
        assert_eq!(listed.len(), visible.len());
        for (path, groups, _) in SHOWN {
            let command = path.iter().fold(&all, |all, name| {
                all.find_subcommand(name).expect("a command")
            });
            let known: Vec<&str> = command
                .get_arguments()
                .map(|argument| argument.get_id().as_str())
                .collect();
            for id in groups.iter().flat_map(|(_, ids)| *ids) {
                assert!(known.contains(id), "{path:?} has no {id}");
            }
        }
    }

    /// What the help says can be typed can be typed.
    #[test]
    fn every_example_is_understood() {
        let mut found = Vec::new();
        leaves(&command(), "", &mut found);
        let mut examples = 0;
        for (path, command) in found {
            let text = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            for line in text
                .lines()
                .filter_map(|line| line.strip_prefix("  wharf "))
            {
                let line = line
                    .split(" &")
                    .next()
                    .unwrap_or(line)
                    .split(" > ")
                    .next()
                    .unwrap_or(line);
                if line.contains('\'') {
                    // Quotes are a shell's.
                    continue;
                }
                let words = ["wharf"].into_iter().chain(line.split_whitespace());
                let words: Vec<&str> = words.collect();
                let parsed = super::super::help::command().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{path}: {line}: {}", parsed.unwrap_err());
                examples += 1;
            }
        }
        assert!(examples > 30, "{examples}");
    }
}
