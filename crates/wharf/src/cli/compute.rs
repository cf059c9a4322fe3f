//! `wharf compute`: functions of files that the drive computes where they lie.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};

use super::values::count;
use super::{Failure, fs, input, print};
use crate::files::{
    Answer, Codec, File, Function, Job, Made, Mount, Neighbour, OpenFlags, What, check_program,
};

/// What people type next.
const EXAMPLES: &str = "\
Examples:

  wharf fs make drive.img --size 1GiB
  wharf fs cp words.txt drive.img:/words.txt
  wharf compute checksum drive.img /words.txt
  wharf compute search drive.img needle /words.txt
  wharf compute compress drive.img /words.txt /words.zz
  wharf compute compress drive.img /words.txt /words.zst --codec zstd
  wharf compute nearest drive.img /vectors.f32 --query one.f32 --count 10
  wharf compute load drive.img lines.wasm /lines.wasm
  wharf compute run drive.img /lines.wasm /words.txt --argument needle --out lines.txt

IMAGE is a drive image that nobody else has open, or the socket of `wharf serve drive`. None of the bytes leaves the drive;
`--on host` reads them and computes here, with the same answer. `--on auto` leaves it to what either side takes: of a file of 4 MiB or more both
compute the first 256 KiB. What the drive refuses, for want of memory, is computed here.";

/// A file that is made; it must not exist.
const NEW: OpenFlags = OpenFlags {
    exclusive: true,
    ..OpenFlags::CREATE
};

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
    /// Who computes: `auto` is whichever is expected to be done first.
    #[arg(long, global = true, value_name = "SIDE", value_enum, default_value_t = On::Drive)]
    on: On,
    /// As JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// Who computes.
#[derive(Clone, Copy, clap::ValueEnum)]
enum On {
    Drive,
    Host,
    Auto,
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
        #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = count::<u32>(0..=65_536))]
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
        #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = count::<u32>(1..=65_536))]
        count: u32,
    },
    /// Compresses a file into another one.
    Compress(Into),
    /// Expands a compressed file into another one.
    Decompress(Into),
    /// Copies a program of your own, in WebAssembly, to the drive, if it is one that can run there.
    Load {
        /// The image, or the socket of `wharf serve drive`.
        image: PathBuf,
        /// The program: a file of this machine.
        program: PathBuf,
        /// The file that is made; it must not exist.
        path: String,
    },
    /// Runs a program of the drive on a file of it.
    Run(Run),
}

#[derive(clap::Args)]
struct Run {
    /// The image, or the socket of `wharf serve drive`.
    image: PathBuf,
    /// The program: a file of the drive.
    program: String,
    /// The file whose bytes it is given.
    path: String,
    /// What it is given first, as text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    argument: String,
    /// A number that it is given with that.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = count::<u32>(0..=u32::MAX.into()))]
    count: u32,
    /// A file of this machine that is made of what the program makes, 128 KiB at most; `-` is standard output, which then has nothing else.
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    out: Option<PathBuf>,
    /// A file of the drive that is made of what the program makes.
    #[arg(long, value_name = "PATH")]
    to: Option<String>,
}

#[derive(clap::Args)]
struct Into {
    /// The image, or the socket of `wharf serve drive`.
    image: PathBuf,
    /// The file that is read.
    from: String,
    /// The file that is made; it must not exist.
    to: String,
    /// The codec: a zlib stream, frames of LZ4 (as `lz4` makes and reads them), or of Zstandard (`zstd`).
    #[arg(long, value_name = "CODEC", default_value = "zlib", value_parser = codecs())]
    codec: Codec,
}

fn codecs() -> impl TypedValueParser<Value = Codec> {
    let known = PossibleValuesParser::new(Codec::ALL.map(Codec::name));
    known.map(|name| {
        let codec = Codec::ALL.into_iter().find(|codec| codec.name() == name);
        codec.expect("it is one of them")
    })
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let on = args.on;
    match &args.command {
        Command::Checksum { image, paths } => {
            let each = |file: &File<'_>| compute(file, Job::CHECKSUM, on);
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
            let found = with_each(image, paths, |file| compute(file, job, on))?;
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
            let found = with_each(image, paths, |file| compute(file, job, on))?;
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
        Command::Compress(into) => make(args, into, Function::Compress(into.codec))?,
        Command::Decompress(into) => make(args, into, Function::Decompress(into.codec))?,
        Command::Load {
            image,
            program,
            path,
        } => load(image, program, path)?,
        Command::Run(run) => run_program(args, run)?,
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

fn compute(file: &File<'_>, job: Job<'_>, on: On) -> std::io::Result<Answer> {
    let all = 0..u64::MAX / 2;
    match on {
        On::Host => file.on_host(job, all),
        On::Drive => file.on_drive(job, all),
        On::Auto => file.on_either(job, all),
    }
}

/// Whose fault an error about a file is: the caller's, unless the drive fails.
fn at_path(image: &Path, path: &str, error: &std::io::Error) -> Failure {
    let line = format!("{}:{path}: {}", image.display(), why(error));
    match error.raw_os_error() {
        Some(5) | None => Failure::Run(line),
        _ => Failure::Input(line),
    }
}

/// An error in words: what a function refuses has others than files.
fn why(error: &std::io::Error) -> String {
    use wharf_compute::Refused::{Damaged, Endless, Failed, NoProgram, NotBuilt, Unruly};
    let all = [NoProgram, Failed, Endless, Unruly, NotBuilt];
    let number = error.raw_os_error();
    match all.iter().find(|refused| number == Some(refused.errno())) {
        Some(refused) => refused.to_string(),
        None if number == Some(Damaged.errno()) => {
            "its bytes have no meaning for the function".to_owned()
        }
        None => error.to_string(),
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
    let Into {
        image, from, to, ..
    } = into;
    let mount = fs::open(image)?;
    let (from, to) = (from.as_str(), to.as_str());
    let job = Job::of(function);
    let made = make_in(&mount, image, [from, to], job, args.on);
    fs::close(image, mount)?;
    let (taken, Made { bytes, .. }) = made?;
    let line = format!("{from}: {taken} bytes, {to}: {bytes} bytes");
    let value = json!({"from": from, "from_bytes": taken, "to": to, "to_bytes": bytes});
    show(args.json, std::iter::once((line, value)));
    Ok(())
}

fn make_in(
    mount: &Mount,
    image: &Path,
    [from, to]: [&str; 2],
    job: Job<'_>,
    on: On,
) -> Result<(u64, Made), Failure> {
    let source = mount.open_file(from, OpenFlags::READ, 0);
    let source = source.map_err(|error| at_path(image, from, &error))?;
    let target = mount.open_file(to, NEW, 0o644);
    let target = target.map_err(|error| at_path(image, to, &error))?;
    let all = 0..u64::MAX / 2;
    let made = match on {
        On::Host => source.into_on_host(job, all, &target, 0),
        On::Drive => source.into_on_drive(job, all, &target, 0),
        On::Auto => source.into_on_either(job, all, &target, 0),
    };
    let counted = made.and_then(|made| Ok((source.attributes()?.bytes, made)));
    counted.map_err(|error| {
        let _ = mount.unlink(to);
        match codec_refused(&job, &error) {
            Some(why) => input(format!("{}:{from}: {why}", image.display())),
            None => at_path(image, from, &error),
        }
    })
}

/// What a codec refuses, in words.
fn codec_refused(job: &Job<'_>, error: &std::io::Error) -> Option<String> {
    use wharf_compute::Refused::{Damaged, Memory, NoCodec};
    let What::Function(Function::Compress(codec) | Function::Decompress(codec)) = job.what else {
        return None;
    };
    let number = error.raw_os_error()?;
    let why = [Damaged, Memory, NoCodec]
        .into_iter()
        .find(|why| why.errno() == number)?;
    Some(match why {
        Damaged => format!("its bytes are no {} stream, or a damaged one", codec.name()),
        Memory => format!("{Memory}: expand it with `--on host`"),
        _ => why.to_string(),
    })
}

/// Copies a program to the drive.
fn load(image: &Path, program: &Path, path: &str) -> Result<(), Failure> {
    let at_program = |why: String| input(format!("{}: {why}", program.display()));
    let bytes = std::fs::read(program).map_err(|error| at_program(error.to_string()))?;
    check_program(&bytes).map_err(at_program)?;
    let mount = fs::open(image)?;
    let copied = mount.open_file(path, NEW, 0o755).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync()
    });
    fs::close(image, mount)?;
    copied.map_err(|error| at_path(image, path, &error))
}

/// Runs a program on a file.
fn run_program(args: &Args, run: &Run) -> Result<(), Failure> {
    let mount = fs::open(&run.image)?;
    let ran = run_in(&mount, run, args.on);
    fs::close(&run.image, mount)?;
    let (value, made) = match ran? {
        (Made { value, bytes }, None) => (value, bytes),
        (_, Some(answer)) => {
            let count = answer.bytes.len() as u64;
            if let Some(out) = &run.out {
                give(out, &answer.bytes)?;
                if out.as_os_str() == "-" {
                    return Ok(());
                }
            }
            (answer.value, count)
        }
    };
    let line = format!("{}: value {value}, {made} bytes made", run.path);
    let row = json!({"path": run.path, "value": value, "bytes_made": made});
    show(args.json, std::iter::once((line, row)));
    Ok(())
}

/// What a program came to: what went into a file of the drive, or what it gave.
fn run_in(mount: &Mount, run: &Run, on: On) -> Result<(Made, Option<Answer>), Failure> {
    let Run { image, path, .. } = run;
    let program = mount.open_file(&run.program, OpenFlags::READ, 0);
    let program = program.map_err(|error| at_path(image, &run.program, &error))?;
    let job = Job::program(&program, run.argument.as_bytes(), run.count);
    if let Some(to) = &run.to {
        let (_, made) = make_in(mount, image, [path, to], job, on)?;
        return Ok((made, None));
    }
    let file = mount.open_file(path, OpenFlags::READ, 0);
    let file = file.map_err(|error| at_path(image, path, &error))?;
    let answer = compute(&file, job, on).map_err(|error| {
        let at = |why: &str| input(format!("{}:{path}: {why}", image.display()));
        match error.raw_os_error() {
            Some(22) => at(&wharf_compute::Refused::ProgramArgument.to_string()),
            Some(28) => at("the program makes more than 131072 bytes: give them a file of the drive (--to PATH)"),
            _ => at_path(image, path, &error),
        }
    })?;
    Ok((Made::default(), Some(answer)))
}

/// Writes what a program gave into a new file, or prints it.
fn give(out: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let given = match out.as_os_str() == "-" {
        true => std::io::stdout().write_all(bytes),
        false => std::fs::File::create_new(out).and_then(|mut file| file.write_all(bytes)),
    };
    given.map_err(|error| input(format!("{}: {error}", out.display())))
}
