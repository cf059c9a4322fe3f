//! `wharf cache create`, `info`, `flush`, `check`, `rebuild`, `detach`.

use std::path::{Path, PathBuf};

use wharf_codec::Codec;
use wharf_host::indexless::Store;
use wharf_lab::config::parse_bytes;

use super::{Failure, input, print, room};
use crate::flash_cache::create::{self, Options};
use crate::flash_cache::look::Look;
use crate::flash_cache::{CacheError, FlashCache, check, rebuild};

/// What people type next; all of it works as it stands.
const NEXT: &str = "\
A cache of 256 MiB in front of a disk that holds data already, which stays where it is:

  truncate -s 1G slow.img
  wharf cache create fast.img --backing slow.img --size 256MiB
  wharf serve nbd --cache fast.img --backing slow.img --socket /tmp/w.sock &
  nbdinfo nbd+unix:///?socket=/tmp/w.sock
  kill %1; wait
  wharf cache info fast.img
  wharf cache detach fast.img --backing slow.img

docs/cache.md says what survives what.";

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Makes a cache in FAST, a file or block device, in front of a slow disk. What the disk holds
    /// stays, unless --store says otherwise.
    #[command(after_help = NEXT)]
    Create(CreateArgs),
    /// Says what a cache is and what it holds. Changes nothing.
    Info {
        /// The cache.
        fast: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Writes what the disk has not got yet to it. What was dirty leaves the cache.
    Flush(Pair),
    /// Reads everything that is cached, and on a disk of chunks all of these, and compares. Changes
    /// nothing. Exit code 1 if anything is wrong.
    Check(Pair),
    /// Makes a new cache in the place of one that is lost, broken or stale. What was dirty in the
    /// old one alone is lost.
    Rebuild(RebuildArgs),
    /// Writes everything to the disk and gives the cache up.
    Detach(Pair),
}

/// A cache and its disk.
#[derive(clap::Args)]
pub(super) struct Pair {
    /// The cache.
    fast: PathBuf,
    /// The disk: a file, a block device, or the members of an array.
    #[arg(long, required = true, num_args = 1.., value_name = "SLOW")]
    backing: Vec<PathBuf>,
}

#[derive(clap::Args)]
struct Shape {
    /// Makes FAST, as a file of this size, if there is none; of a device, takes no more than this.
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// How what is cached is compressed: lz4, zlib, zstd or none.
    #[arg(long, value_name = "NAME", default_value = "lz4")]
    codec: String,
    /// Caches no more than this, before compression; as much as fits if left out.
    #[arg(long, value_name = "SIZE")]
    limit: Option<String>,
    /// Overwrites what FAST holds, and with chunks and fixed what SLOW holds.
    #[arg(long)]
    force: bool,
}

#[derive(clap::Args)]
pub(super) struct CreateArgs {
    #[command(flatten)]
    pair: Pair,
    #[command(flatten)]
    shape: Shape,
    /// How the disk holds data: plain (as it is: what is there stays, and can be used without the
    /// cache), chunks (compressed, in a log), fixed (compressed, in units in place).
    #[arg(long, value_name = "KIND", default_value = "plain")]
    store: String,
    /// How chunks and units are compressed on the disk: zstd, zlib, lz4 or none.
    #[arg(long, value_name = "NAME", default_value = DISK_CODEC)]
    disk_codec: String,
    /// Bytes that a disk of chunks shows; left out, as many as fit whatever they are.
    #[arg(long, value_name = "SIZE")]
    export_size: Option<String>,
}

#[derive(clap::Args)]
pub(super) struct RebuildArgs {
    #[command(flatten)]
    pair: Pair,
    #[command(flatten)]
    shape: Shape,
    /// How the disk holds data, if the old cache cannot say so: plain or fixed; chunks say it
    /// themselves.
    #[arg(long, value_name = "KIND")]
    store: Option<String>,
    /// The cache that is lost, if it can be read: what was dirty there is listed.
    #[arg(long, value_name = "OLD")]
    old: Option<PathBuf>,
}

/// The codec of disks unless another is asked for.
const DISK_CODEC: &str = if cfg!(feature = "zstd") {
    "zstd"
} else {
    "zlib"
};

/// Whose fault an error is: an I/O that failed is the run's, all else the input's.
fn failure(error: CacheError) -> Failure {
    match error {
        CacheError::Io(_) | CacheError::Thread(_) => Failure::Run(error.to_string()),
        CacheError::Storage(wharf_storage::StorageError::Io { .. }) => {
            Failure::Run(error.to_string())
        }
        other => input(other),
    }
}

fn bytes(name: &str, text: &Option<String>) -> Result<Option<u64>, Failure> {
    let parse = |text: &str| parse_bytes(text).map_err(|error| input(format!("{name}: {error}")));
    text.as_deref().map(parse).transpose()
}

fn codec(name: &str, text: &str) -> Result<Codec, Failure> {
    let found = [Codec::None, Codec::Zlib, Codec::Lz4, Codec::Zstd]
        .into_iter()
        .find(|codec| codec.to_string() == text);
    match found {
        Some(codec) if codec.is_built() => Ok(codec),
        Some(codec) => Err(input(format!(
            "{name} {codec}: this program was built without it"
        ))),
        None => Err(input(format!(
            "{name} {text}: it is lz4, zlib, zstd or none"
        ))),
    }
}

fn store(text: &str) -> Result<Store, Failure> {
    match text {
        "plain" => Ok(Store::Plain),
        "chunks" => Ok(Store::Chunks),
        "fixed" => Ok(Store::Fixed),
        _ => Err(input(format!(
            "--store {text}: it is plain, chunks or fixed"
        ))),
    }
}

/// Runs the command.
pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Create(args) => create(args),
        Command::Info { fast, json } => info(fast, *json),
        Command::Flush(pair) => flush(pair),
        Command::Check(pair) => check(pair),
        Command::Rebuild(args) => rebuild_cache(args),
        Command::Detach(pair) => detach(pair),
    }
}

fn options(shape: &Shape, store: Store, disk_codec: Codec) -> Result<Options, Failure> {
    Ok(Options {
        size_bytes: bytes("--size", &shape.size)?,
        codec: codec("--codec", &shape.codec)?,
        store,
        disk_codec,
        limit_bytes: bytes("--limit", &shape.limit)?,
        export_bytes: None,
        force: shape.force,
    })
}

/// Whether FAST may be made.
fn check_room(fast: &Path, options: &Options) -> Result<(), Failure> {
    let made = options.size_bytes.map(|bytes| (fast, bytes));
    room::check_sparse(made, "give a smaller --size")
}

fn create(args: &CreateArgs) -> Result<(), Failure> {
    let disk_codec = codec("--disk-codec", &args.disk_codec)?;
    let mut options = options(&args.shape, store(&args.store)?, disk_codec)?;
    options.export_bytes = bytes("--export-size", &args.export_size)?;
    let (fast, slow) = (&args.pair.fast, &args.pair.backing);
    check_room(fast, &options)?;
    let made = create::create(fast, slow, &options).map_err(failure)?;
    print(&create::describe(fast, &made));
    Ok(())
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn info(fast: &Path, json: bool) -> Result<(), Failure> {
    let info = Look::open(fast)
        .and_then(|look| look.info())
        .map_err(failure)?;
    if json {
        print(&serde_json::to_string_pretty(&info).expect("plain data"));
        return Ok(());
    }
    print(&format!("cache      {}, {}", info.cache_id, info.state));
    print(&format!(
        "disk       {}, {} ({:?})",
        info.disk,
        mib(info.export_bytes),
        info.store
    ));
    print(&format!(
        "cached     {} of {} at most",
        mib(info.cached_bytes),
        mib(info.limit_bytes)
    ));
    print(&format!(
        "dirty      {} in {} runs: the disk has not got them yet",
        mib(info.dirty_bytes),
        info.dirty_runs
    ));
    print(&format!(
        "flash      {} of {} used, ratio {:.2}",
        mib(info.flash_used_bytes),
        mib(info.flash_bytes),
        info.ratio
    ));
    print(&format!(
        "memory     {} bytes for the bitmap",
        info.bitmap_bytes
    ));
    Ok(())
}

fn open(pair: &Pair) -> Result<FlashCache, Failure> {
    FlashCache::open(&pair.fast, &pair.backing).map_err(failure)
}

fn flush(pair: &Pair) -> Result<(), Failure> {
    let cache = open(pair)?;
    let before = Look::dirty(&cache).map_err(failure)?;
    cache.write_back().map_err(failure)?;
    cache.close().map_err(failure)?;
    print(&format!("{} written to the disk", mib(before * 4096)));
    Ok(())
}

fn check(pair: &Pair) -> Result<(), Failure> {
    let report = check::check(&pair.fast, &pair.backing).map_err(failure)?;
    for line in &report.wrong {
        print(line);
    }
    print(&format!(
        "{} clean sectors compared with the disk, {} dirty ones read, {} sectors of chunks read: \
         {} findings",
        report.compared, report.dirty, report.read, report.findings
    ));
    match report.findings {
        0 => Ok(()),
        _ => Err(Failure::Run("cache and disk do not agree".into())),
    }
}

fn rebuild_cache(args: &RebuildArgs) -> Result<(), Failure> {
    let (fast, slow) = (&args.pair.fast, &args.pair.backing);
    let kind = match &args.store {
        Some(text) => store(text)?,
        None => rebuild::store_of([args.old.as_deref(), Some(fast)]),
    };
    let dirty = args.old.as_deref().map(rebuild::dirty_of).transpose();
    let dirty = dirty.map_err(failure)?;
    let options = options(&args.shape, kind, codec("--disk-codec", DISK_CODEC)?)?;
    check_room(fast, &options)?;
    let found = rebuild::rebuild(fast, slow, &options).map_err(failure)?;
    print(&create::describe(fast, &found.made));
    if let Some(mapping) = found.mapping {
        print(&format!(
            "{} chunks found on the disk, of {} groups of 1 MiB",
            mapping.chunks, mapping.groups
        ));
    }
    match dirty {
        None => print("what was dirty in the old cache is not known: give --old to have it listed"),
        Some(runs) if runs.is_empty() => print("nothing was dirty in the old cache"),
        Some(runs) => {
            for (first, count) in &runs {
                print(&format!(
                    "lost: {} bytes at byte {}",
                    count * 4096,
                    first * 4096
                ));
            }
        }
    }
    Ok(())
}

fn detach(pair: &Pair) -> Result<(), Failure> {
    let cache = open(pair)?;
    let (store, disk) = (cache.label().store, cache.label().disk_path.clone());
    cache.write_back().map_err(failure)?;
    cache.detach().map_err(failure)?;
    print(&match store {
        Store::Plain => format!("{disk} holds everything, and can be used without the cache"),
        Store::Chunks => format!(
            "{disk} holds everything, as compressed chunks, which a new cache can read: \
             `wharf cache rebuild NEW --backing {disk} --size SIZE`"
        ),
        Store::Fixed => format!(
            "{disk} holds everything, as compressed units, which a new cache can read: \
             `wharf cache rebuild NEW --backing {disk} --store fixed --size SIZE`"
        ),
    });
    Ok(())
}
