//! `wharf trace compressibility`: how well the pages of real files compress.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use wharf_codec::{Codec, PAGE_BYTES, Table};

use super::output::{self, Force};
use super::values::size;
use super::{Failure, input, print};

/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;

/// What is measured.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Files, or directories with all that is below them.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// zlib, lz4 or zstd.
    #[arg(long, default_value = "zlib", value_name = "CODEC")]
    codec: String,

    /// Level of the codec; its fastest if left out.
    #[arg(long, value_name = "LEVEL")]
    level: Option<u32>,

    /// Stop after so many bytes.
    #[arg(long, default_value = "1GiB", value_name = "SIZE", value_parser = size)]
    limit: u64,

    /// Write the table to this file, for `--compress table=FILE`.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    force: Force,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let codecs = Codec::ALL.into_iter().filter(|c| *c != Codec::None);
    let codec = codecs.clone().find(|c| c.name() == args.codec);
    let codec = codec.ok_or_else(|| {
        let names: Vec<_> = codecs.map(Codec::name).collect();
        input(format!("--codec {}: use {}", args.codec, names.join(", ")))
    })?;
    let level = args.level.unwrap_or(codec.level_default());
    if let Some(path) = &args.output {
        output::check(&[("--output", path)], args.force.force)?;
    }
    let mut files = Vec::new();
    for path in &args.paths {
        list(path, &mut files)?;
    }
    files.sort();
    let names: Vec<_> = args.paths.iter().map(|p| p.display().to_string()).collect();
    let mut read = Reading {
        left: args.limit,
        failed: None,
    };
    let table = Table::measure(names.join(" "), codec, level, |each| {
        for path in &files {
            read.pages(path, each);
        }
    });
    let table = table.map_err(input)?;
    if let Some(line) = read.failed {
        return Err(input(line));
    }
    if table.pages() == 0 {
        return Err(input(format!(
            "{}: no page of 4096 bytes that is not zeros",
            names.join(" ")
        )));
    }
    if !args.output.as_deref().is_some_and(output::is_stdout) {
        print(&text(&table));
    }
    match &args.output {
        Some(path) => output::write(path, table.to_text().as_bytes()),
        None => Ok(()),
    }
}

/// The files below `path`, without following links.
fn list(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let failed = |e| input(format!("cannot read {}: {e}", path.display()));
    let kind = std::fs::symlink_metadata(path).map_err(failed)?.file_type();
    if kind.is_file() {
        files.push(path.to_owned());
    } else if kind.is_dir() {
        for entry in std::fs::read_dir(path).map_err(failed)? {
            list(&entry.map_err(failed)?.path(), files)?;
        }
    }
    Ok(())
}

/// Reading file after file, up to a limit.
struct Reading {
    left: u64,
    failed: Option<String>,
}

impl Reading {
    /// Gives the whole pages of a file.
    fn pages(&mut self, path: &Path, each: &mut dyn FnMut(&[u8])) {
        if self.failed.is_some() {
            return;
        }
        if let Err(error) = self.try_pages(path, each) {
            self.failed = Some(format!("cannot read {}: {error}", path.display()));
        }
    }

    fn try_pages(&mut self, path: &Path, each: &mut dyn FnMut(&[u8])) -> std::io::Result<()> {
        let mut file = File::open(path)?;
        let mut data = Vec::new();
        while self.left >= u64::from(PAGE_BYTES) {
            data.clear();
            let wanted = self.left.min(READ_BYTES as u64);
            file.by_ref().take(wanted).read_to_end(&mut data)?;
            let whole = data.len() - data.len() % PAGE_BYTES as usize;
            if whole == 0 {
                break;
            }
            self.left -= whole as u64;
            each(&data[..whole]);
        }
        Ok(())
    }
}

fn text(table: &Table) -> String {
    let total: u64 = table.pages();
    let mut text = format!(
        "{} pages of 4 KiB, {} of zeros; {} level {}\n\
         ratio of the others, one by one: {:.3} (mean {:.0} bytes); {:.1} % do not compress\n\
         a chunk of 64 KiB is {:.3} times smaller than its pages\n\n  bytes up to   share\n",
        total + table.zero_pages,
        table.zero_pages,
        table.codec,
        table.level,
        f64::from(PAGE_BYTES) / table.mean_bytes(),
        table.mean_bytes(),
        100.0 * table.raw_share(),
        table.chunk_gain(),
    );
    let buckets: Vec<_> = table.buckets().collect();
    for group in buckets.chunks(4) {
        let count: u64 = group.iter().map(|(_, count)| count).sum();
        let share = 100.0 * count as f64 / total as f64;
        let bar = "#".repeat((share + 0.5) as usize);
        let line = format!("  {:>11}  {share:5.1} %  {bar}", group[group.len() - 1].0);
        text += line.trim_end();
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}
