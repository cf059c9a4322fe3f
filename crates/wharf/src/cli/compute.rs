//! `wharf compute`: functions of files that the drive computes where they lie.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Failure, fs, input, print};
use crate::files::{Answer, File, Function, Job, Mount, Neighbour, OpenFlags};

/// What people type next.
const EXAMPLES: &str = "\
Examples:

  wharf fs make drive.img --size 1GiB
  wharf fs cp words.txt drive.img:/words.txt
  wharf compute checksum drive.img /words.txt
  wharf compute search drive.img needle /words.txt
  wharf compute compress drive.img /words.txt /words.zz
  wharf compute nearest drive.img /vectors.f32 --query one.f32 --count 10

IMAGE is a drive image that nobody else has open, or the socket of `wharf serve drive`. None of the bytes leaves the drive;
`--on host` reads them and computes here, with the same answer.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
    /// Who computes.
    #[arg(long, global = true, value_name = "SIDE", default_value = "drive", value_parser = ["drive", "host"])]
    on: String,
    /// As JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Prints the CRC-32C of files.
    Checksum {
        /// The image, or the socket of `wharf serve drive`.
        image: PathBuf,
        /// The files.
        #[arg(required = true)]
        paths: Vec<String>,
    },
    /// Counts a word in files, and says where it is.
    Search {
        /// The image, or the socket of `wharf serve drive`.
        image: PathBuf,
        /// The word: bytes of a line of text, as they are.
        word: String,
        /// The files.
        #[arg(required = true)]
        paths: Vec<String>,
        /// Places that are printed at most, for each file.
        #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=65_536))]
        places: u32,
    },
    /// Finds the vectors of a file that are nearest to one, by the square of their distance.
    Nearest {
        /// The image, or the socket of `wharf serve drive`.
        image: PathBuf,
        /// The file: vectors of little-endian 32-bit floating-point numbers, one behind the other.
        path: String,
        /// A file of this machine with one vector of the same kind.
        #[arg(long, value_name = "FILE")]
        query: PathBuf,
        /// How many.
        #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=65_536))]
        count: u32,
    },
    /// Compresses a file into another one, as a zlib stream.
    Compress(Into),
    /// Expands a zlib stream into another file.
    Decompress(Into),
}

#[derive(clap::Args)]
struct Into {
    /// The image, or the socket of `wharf serve drive`.
    image: PathBuf,
    /// The file that is read.
    from: String,
    /// The file that is made; it must not exist.
    to: String,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let is_here = args.on == "host";
    match &args.command {
        Command::Checksum { image, paths } => {
            let each = |file: &File<'_>| compute(file, Job::CHECKSUM, is_here);
            let found = with_each(image, paths, each)?;
            let row = |path: &str, found: &Answer| {
                let sum = format!("{:08x}", found.value);
                (
                    format!("{sum}  {path}"),
                    json!({"path": path, "crc32c": sum}),
                )
            };
            show(
                args.json,
                paths
                    .iter()
                    .zip(&found)
                    .map(|(path, found)| row(path, found)),
            );
        }
        Command::Search {
            image,
            word,
            paths,
            places,
        } => {
            if word.is_empty() {
                return Err(input("WORD is empty: give the bytes to look for"));
            }
            let job = Job::search(word.as_bytes(), *places);
            let found = with_each(image, paths, |file| compute(file, job, is_here))?;
            show(
                args.json,
                paths
                    .iter()
                    .zip(&found)
                    .map(|(path, found)| places_row(path, found)),
            );
        }
        Command::Nearest {
            image,
            path,
            query,
            count,
        } => {
            let bytes = std::fs::read(query);
            let bytes = bytes.map_err(|error| input(format!("{}: {error}", query.display())))?;
            if bytes.is_empty() || bytes.len() % 4 != 0 || bytes.len() > 65_536 {
                return Err(input(format!(
                    "{}: a vector is 1 to 16384 numbers of 4 bytes, and these are {} bytes",
                    query.display(),
                    bytes.len()
                )));
            }
            let job = Job::nearest(&bytes, *count);
            let paths = std::slice::from_ref(path);
            let found = with_each(image, paths, |file| compute(file, job, is_here))?;
            let all = Neighbour::all_of(&found[0].bytes);
            let row = |one: &Neighbour| {
                let line = format!("{} {}", one.number, one.distance);
                (
                    line,
                    json!({"number": one.number, "squared_distance": one.distance}),
                )
            };
            show(args.json, all.iter().map(row));
        }
        Command::Compress(into) => make(args, into, Function::Compress)?,
        Command::Decompress(into) => make(args, into, Function::Decompress)?,
    }
    Ok(())
}

/// Prints rows: a line each, or all of them as JSON.
fn show(as_json: bool, rows: impl Iterator<Item = (String, Value)>) {
    let (lines, values): (Vec<String>, Vec<Value>) = rows.unzip();
    match as_json {
        true => print(&serde_json::to_string_pretty(&values).expect("plain data")),
        false => lines.iter().for_each(|line| print(line)),
    }
}

fn places_row(path: &str, found: &Answer) -> (String, Value) {
    let each = found.bytes.as_chunks::<8>().0.iter();
    let places: Vec<u64> = each.map(|place| u64::from_le_bytes(*place)).collect();
    let mut line = format!("{path}: {} times", found.value);
    for (nth, place) in places.iter().enumerate() {
        line += if nth == 0 { ", at " } else { " " };
        line += &place.to_string();
    }
    if !places.is_empty() && (places.len() as u64) < found.value {
        line += " ...";
    }
    (
        line,
        json!({"path": path, "count": found.value, "places": places}),
    )
}

fn compute(file: &File<'_>, job: Job<'_>, is_here: bool) -> std::io::Result<Answer> {
    match is_here {
        true => file.on_host(job, 0..u64::MAX / 2),
        false => file.on_drive(job, 0..u64::MAX / 2),
    }
}

/// Whose fault an error about a file is: the caller's, unless the drive fails.
fn at_path(image: &Path, path: &str, error: &std::io::Error) -> Failure {
    let line = format!("{}:{path}: {error}", image.display());
    match error.raw_os_error() {
        Some(5) | None => Failure::Run(line),
        _ => Failure::Input(line),
    }
}

fn with_each<T>(
    image: &Path,
    paths: &[String],
    f: impl Fn(&File<'_>) -> std::io::Result<T>,
) -> Result<Vec<T>, Failure> {
    let mount = fs::open(image)?;
    let one = |path: &String| {
        let done = mount
            .open_file(path, OpenFlags::READ, 0)
            .and_then(|file| f(&file));
        done.map_err(|error| at_path(image, path, &error))
    };
    let done: Result<Vec<T>, Failure> = paths.iter().map(one).collect();
    fs::close(image, mount)?;
    done
}

/// Makes a file of another one. What was made of one that cannot be finished is removed.
fn make(args: &Args, into: &Into, function: Function) -> Result<(), Failure> {
    let Into { image, from, to } = into;
    let mount = fs::open(image)?;
    let made = make_in(&mount, into, function, args.on == "host");
    fs::close(image, mount)?;
    let (taken, made) = made?;
    let line = format!("{from}: {taken} bytes, {to}: {made} bytes");
    let value = json!({"from": from, "from_bytes": taken, "to": to, "to_bytes": made});
    show(args.json, std::iter::once((line, value)));
    Ok(())
}

fn make_in(
    mount: &Mount,
    Into { image, from, to }: &Into,
    function: Function,
    is_here: bool,
) -> Result<(u64, u64), Failure> {
    let new = OpenFlags {
        exclusive: true,
        ..OpenFlags::CREATE
    };
    let source = mount.open_file(from, OpenFlags::READ, 0);
    let source = source.map_err(|error| at_path(image, from, &error))?;
    let target = mount.open_file(to, new, 0o644);
    let target = target.map_err(|error| at_path(image, to, &error))?;
    let all = 0..u64::MAX / 2;
    let made = match is_here {
        true => source.into_on_host(function, all, &target, 0),
        false => source.into_on_drive(function, all, &target, 0),
    };
    let counted = made.and_then(|made| Ok((source.attributes()?.bytes, made)));
    counted.map_err(|error| {
        let _ = mount.unlink(to);
        at_path(image, from, &error)
    })
}
