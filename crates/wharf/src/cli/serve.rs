//! `wharf serve nbd` and `wharf serve drive`.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wharf_host::design::Design;
use wharf_host::direct::Direct;
use wharf_host::hardware::Hardware;
use wharf_host::{Clock, Scala};
use wharf_nbd::http::MetricsServer;
use wharf_nbd::{Export, Limits, Listener, MemoryExport, Server, ServerOptions};

use super::keeping::drive_cache;
use super::values::{count, no_such, replacement, size};
use super::{Failure, fs, input, print, room};
use crate::files;
use crate::page_cache::{PageCacheOptions, Replacement};
use crate::serve::{CachedExport, FlashExport, Serving, StoreExport, TargetExport};
use crate::store::{StoreOptions, Terms};

/// What people type next; all of it works as it stands.
const NEXT: &str = "\
What to do with it, with the socket /tmp/w.sock of `wharf serve nbd --memory 1G --socket /tmp/w.sock`:

  nbdinfo nbd+unix:///?socket=/tmp/w.sock
  nbdinfo --map nbd+unix:///?socket=/tmp/w.sock
  nbdcopy nbd+unix:///?socket=/tmp/w.sock /tmp/copy.img
  qemu-img convert -n -f raw -O raw /tmp/copy.img 'nbd+unix:///?socket=/tmp/w.sock'
  fio --name=try --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/w.sock' --rw=randrw --size=64M --verify=crc32c
  nbdfuse /tmp/disk.img nbd+unix:///?socket=/tmp/w.sock &

A slow disk behind a cache on a fast one (`wharf cache create --help` has the first steps):

  wharf serve nbd --cache fast.img --backing slow.img --socket /tmp/w.sock

Without a server running:  nbdinfo -- [ wharf serve nbd --memory 1G ]";

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Serves memory, a file, an array or an emulated drive by the NBD protocol: fio, qemu, nbdcopy, file systems use it
    /// as a disk. Runs until SIGTERM or SIGINT; what was acknowledged is durable then.
    #[command(after_help = NEXT)]
    Nbd(Box<NbdArgs>),
    /// Serves the file system of a drive image to other processes, which name the socket where they would
    /// name the image. Runs until SIGTERM or SIGINT; all is durable then.
    #[command(after_help = DRIVE_NEXT)]
    Drive(DriveArgs),
}

/// What people type next; all of it works as it stands.
const DRIVE_NEXT: &str = "\
What to do with it, with the socket /tmp/drive.sock of `wharf serve drive drive.img --socket /tmp/drive.sock`:

  wharf fs ls /tmp/drive.sock
  wharf fs cp /etc/hostname /tmp/drive.sock:/hostname
  wharf mount /tmp/drive.sock here --background
  wharf fs sessions /tmp/drive.sock

docs/security.md says who may do what.";

#[derive(clap::Args)]
pub(super) struct DriveArgs {
    /// The image, made by `wharf fs make`; nobody else may have it open.
    image: PathBuf,
    /// Listens at a unix socket, made here.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Processes that use it at a time.
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = count::<u32>(1..=2000))]
    processes_max: u32,
    /// Permission bits of the socket, in octal: who may write to it may attach. Other users than this process's own and root do
    /// what the permissions of files let them do.
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = socket_mode)]
    socket_mode: u32,
    /// Lets nobody change anything.
    #[arg(long)]
    read_only: bool,
    /// Seconds that it takes until a process has to show anew who it is.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = count::<u32>(1..=u32::MAX.into()))]
    claims_seconds: u32,
    /// Memory of the drive's own in which it keeps pages of files, for programs under `wharf run --cache omni`.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = drive_cache)]
    drive_cache: u64,
    /// The most of that for one process; `0` is all.
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = drive_cache)]
    drive_cache_process: u64,
}

fn socket_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("give permission bits in octal, like 660".into()),
    }
}

/// What is served: one of these.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct What {
    /// Serves so much memory, zeros at first. Only what is written takes memory: 1T is fine.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// Serves a file or a block device, around the kernel's cache where that can be.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Serves an array (see `wharf array`) of these members, in any order.
    #[arg(long, value_name = "MEMBER", num_args = 1..)]
    array: Vec<PathBuf>,
    /// Serves an emulated drive in this file, behind the cache of a design.
    #[arg(long, value_name = "IMAGE")]
    store: Option<PathBuf>,
    /// Serves a slow disk (a file, a block device, or the members of an array) behind the flash cache that --cache names.
    #[arg(long, value_name = "SLOW", num_args = 1.., requires = "cache")]
    backing: Vec<PathBuf>,
}

#[derive(clap::Args)]
pub(super) struct NbdArgs {
    #[command(flatten)]
    what: What,
    /// Makes the file or image, with this size, if there is none.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Puts a page cache of this size before the file; for an image, the size of the design's cache (64 MiB if left out);
    /// for --backing, the file or device of `wharf cache create`.
    #[arg(long, value_name = "SIZE|FAST")]
    cache: Option<String>,
    /// Which page leaves the page cache before a file (`wharf policies`); that of `PageCache` if left out.
    #[arg(long, value_name = "POLICY", value_parser = replacement, requires_all = ["file", "cache"])]
    replacement: Option<Replacement>,
    /// The design before the image: direct, clock, scala or hardware.
    #[arg(long, value_name = "NAME", default_value = "scala", requires = "store")]
    design: String,
    /// Listens at a unix socket, made here.
    #[arg(long, value_name = "PATH")]
    socket: Vec<PathBuf>,
    /// Listens at a TCP address. Whoever reaches it can use the disk.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Vec<String>,
    /// Name of the export; clients that give none get it too.
    #[arg(long, value_name = "NAME", default_value = "")]
    export: String,
    /// Refuses to change anything.
    #[arg(long)]
    read_only: bool,
    /// Connections at a time.
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().connections,
          value_parser = count::<u32>(1..=65536))]
    connections_max: u32,
    /// Requests of a connection at a time.
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().requests,
          value_parser = count::<u32>(1..=4096))]
    requests_max: u32,
    /// Encrypts connections of clients that ask for it, by server-cert.pem and server-key.pem of this directory.
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "DIR")]
    tls_certificates: Option<PathBuf>,
    /// Tells nothing to clients without TLS.
    #[cfg(feature = "tls")]
    #[arg(long, requires = "tls_certificates")]
    tls_require: bool,
    /// Answers to http://ADDR/metrics, for Prometheus. A port alone is one of this machine's own.
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,
    /// Says on standard error why clients were sent away.
    #[arg(long)]
    verbose: bool,
}

/// Runs the command.
pub(super) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Nbd(args) => nbd(args),
        Command::Drive(args) => drive(args),
    }
}

fn drive(args: &DriveArgs) -> Result<(), Failure> {
    // Before any thread starts: a signal that comes early is not lost.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(input)?;
    let how = files::Serving {
        processes: args.processes_max,
        socket_mode: args.socket_mode,
        terms: Terms {
            life_ns: u64::from(args.claims_seconds) * 1_000_000_000,
            reads_only: args.read_only,
        },
        drive_cache_bytes: args.drive_cache,
        drive_cache_process_bytes: args.drive_cache_process,
    };
    let server = files::Server::open_as(&args.image, &args.socket, &how);
    let server = server.map_err(|error| fs::failure(&args.image, &error))?;
    print(&format!(
        "serving {} at {}",
        args.image.display(),
        args.socket.display()
    ));
    signals.forever().next();
    let closed = server.close();
    closed.map_err(|error| fs::failure(&args.image, &error))
}

fn nbd(args: &NbdArgs) -> Result<(), Failure> {
    // Before any thread starts: a signal that comes early is not lost.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(input)?;
    if args.export.len() > wharf_nbd::proto::STRING_BYTES_MAX {
        return Err(input("--export: a name has at most 4096 bytes"));
    }
    let metrics_address = args.metrics.as_deref().map(metrics_address).transpose()?;
    #[cfg(feature = "tls")]
    let tls = match &args.tls_certificates {
        Some(directory) => {
            let config = wharf_nbd::tls::TlsConfig::load(directory);
            let config = config.map_err(|why| input(format!("--tls-certificates: {why}")))?;
            Some((config, args.tls_require))
        }
        None => None,
    };
    // Before anything is made for the export, so that a wrong address leaves nothing behind.
    let listeners = listeners(args)?;
    let export = export(args)?;
    let handed_over = args.socket.is_empty() && args.listen.is_empty();
    let places: Vec<_> = listeners.iter().map(|l| l.name().to_string()).collect();
    let info = export.info().clone();
    let mut options = ServerOptions::new(listeners, export);
    options.limits.connections = args.connections_max;
    options.limits.requests = args.requests_max;
    options.verbose = args.verbose;
    #[cfg(feature = "tls")]
    {
        options.tls = tls;
    }
    let server = Server::start(options).map_err(input)?;
    let metrics = metrics_address.map(|address| {
        MetricsServer::start(&address, server.metrics())
            .map_err(|error| input(format!("--metrics {address}: {error}")))
    });
    let metrics = metrics.transpose()?;
    let told = metrics.as_ref().map_or(String::new(), |m| {
        format!(", metrics at http://{}/metrics", m.address())
    });
    let line = format!(
        "serving {}, {} bytes, at {}{told}",
        info.description,
        info.size_bytes,
        places.join(", ")
    );
    match handed_over {
        // Standard output is that of whoever started this.
        true => eprintln!("{line}"),
        false => print(&line),
    }
    signals.forever().next();
    server.stop().map_err(Failure::Run)
}

/// An address to answer at; a port alone is one of the loopback.
fn metrics_address(text: &str) -> Result<String, Failure> {
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Ok(SocketAddr::from((IpAddr::from([127, 0, 0, 1]), port)).to_string());
    }
    match text.parse::<SocketAddr>() {
        Ok(address) => Ok(address.to_string()),
        Err(_) => Err(input(format!("--metrics {text}: give a port or HOST:PORT"))),
    }
}

/// Where clients come in. Sockets that were handed over are taken if no others are asked for.
fn listeners(args: &NbdArgs) -> Result<Vec<Listener>, Failure> {
    let mut listeners = Vec::new();
    for path in &args.socket {
        let made = Listener::unix(path);
        listeners.push(made.map_err(|e| input(format!("--socket {}: {e}", path.display())))?);
    }
    for address in &args.listen {
        let made = Listener::tcp(address);
        listeners.push(made.map_err(|e| input(format!("--listen {address}: {e}")))?);
    }
    if listeners.is_empty() {
        listeners = Listener::handed_over().map_err(input)?;
    }
    match listeners.is_empty() {
        true => Err(input("give --socket PATH or --listen HOST:PORT")),
        false => Ok(listeners),
    }
}

/// What is served.
fn export(args: &NbdArgs) -> Result<Arc<dyn Export>, Failure> {
    let how = Serving {
        name: args.export.clone(),
        read_only: args.read_only,
    };
    if let (false, Some(fast)) = (args.what.backing.is_empty(), &args.cache) {
        if args.size.is_some() {
            return Err(input("--size: is for --file and --store"));
        }
        let export = FlashExport::new(Path::new(fast), &args.what.backing, &how);
        return Ok(Arc::new(export.map_err(input)?));
    }
    let create_bytes = args.size;
    let cache_bytes = args.cache.as_deref().map(size).transpose();
    let cache_bytes = cache_bytes.map_err(|error| input(format!("--cache: {error}")))?;
    let what = &args.what;
    let made = what
        .file
        .as_deref()
        .or(what.store.as_deref())
        .zip(create_bytes);
    room::check_sparse(made, "give a smaller --size")?;
    if what.file.is_none() && what.store.is_none() {
        for (name, value) in [("--size", create_bytes), ("--cache", cache_bytes)] {
            if value.is_some() {
                return Err(input(format!("{name}: is for --file and --store")));
            }
        }
    }
    if let Some(bytes) = what.memory {
        let export = MemoryExport::new(&how.name, bytes, how.read_only).map_err(input)?;
        return Ok(Arc::new(export));
    }
    if let Some(image) = &what.store {
        return store(args, image, create_bytes, cache_bytes, &how);
    }
    if let (Some(path), Some(bytes)) = (&what.file, cache_bytes) {
        let policy = args
            .replacement
            .unwrap_or(PageCacheOptions::default().replacement);
        let threads = args.connections_max;
        let made = CachedExport::new(path, create_bytes, bytes, policy, threads, &how);
        return Ok(Arc::new(made.map_err(input)?));
    }
    let export = match &what.file {
        Some(path) => TargetExport::file(path, create_bytes, &how),
        None => TargetExport::array(&what.array, &how),
    };
    Ok(Arc::new(export.map_err(input)?))
}

/// An emulated drive behind the design that was asked for.
fn store(
    args: &NbdArgs,
    image: &Path,
    create_bytes: Option<u64>,
    cache_bytes: Option<u64>,
    how: &Serving,
) -> Result<Arc<dyn Export>, Failure> {
    // What a design is called has to be right before anything is made.
    let make = match args.design.as_str() {
        Direct::NAME => serve_by::<Direct>,
        Clock::NAME => serve_by::<Clock>,
        Scala::NAME => serve_by::<Scala>,
        Hardware::NAME => serve_by::<Hardware>,
        other if wharf_lab::designs::find(other).is_some() => {
            return Err(input(format!(
                "--design {other}: needs CPUs of its own, which a store has not: take direct, clock, scala or hardware"
            )));
        }
        other => {
            let known = [Direct::NAME, Clock::NAME, Scala::NAME, Hardware::NAME];
            return Err(input(format!(
                "--design: {}",
                no_such("design", other, &known)
            )));
        }
    };
    let options = match (image.exists(), create_bytes) {
        (true, _) => StoreOptions::existing(image),
        (false, Some(bytes)) => StoreOptions::file(image, bytes),
        (false, None) => {
            let shown = image.display();
            return Err(input(format!(
                "{shown}: does not exist: give --size to make it"
            )));
        }
    };
    let mut options = options.map_err(input)?;
    if let Some(bytes) = cache_bytes {
        options = options.cache_bytes(bytes);
    }
    make(options, how).map_err(input)
}

fn serve_by<D: Design>(options: StoreOptions, how: &Serving) -> Result<Arc<dyn Export>, String> {
    Ok(Arc::new(StoreExport::<D>::new(options, how)?))
}
