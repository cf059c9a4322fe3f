//! `wharf serve nbd`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wharf_lab::config::parse_bytes;
use wharf_nbd::http::MetricsServer;
use wharf_nbd::{Export, Limits, Listener, MemoryExport, Server, ServerOptions};

use super::{Failure, input, print};

/// What people type next; all of it works as it stands.
const NEXT: &str = "\
What to do with it, with the socket /tmp/w.sock of `wharf serve nbd --memory 1G --socket /tmp/w.sock`:

  nbdinfo nbd+unix:///?socket=/tmp/w.sock
  nbdinfo --map nbd+unix:///?socket=/tmp/w.sock
  nbdcopy nbd+unix:///?socket=/tmp/w.sock /tmp/copy.img
  qemu-img convert -n -f raw -O raw /tmp/copy.img 'nbd+unix:///?socket=/tmp/w.sock'
  fio --name=try --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/w.sock' --rw=randrw --size=64M --verify=crc32c
  nbdfuse /tmp/disk.img nbd+unix:///?socket=/tmp/w.sock &

Without a server running:  nbdinfo -- [ wharf serve nbd --memory 1G ]";

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Serves memory, a file, an array or an emulated drive by the NBD protocol: fio, qemu, nbdcopy, file systems use it
    /// as a disk. Runs until SIGTERM or SIGINT; what was acknowledged is durable then.
    #[command(after_help = NEXT)]
    Nbd(Box<NbdArgs>),
}

/// What is served: one of these.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct What {
    /// Serves so much memory, zeros at first. Only what is written takes memory: 1T is fine.
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
}

#[derive(clap::Args)]
pub(super) struct NbdArgs {
    #[command(flatten)]
    what: What,
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
          value_parser = clap::value_parser!(u32).range(1..=65536))]
    connections_max: u32,
    /// Requests of a connection at a time.
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().requests,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    requests_max: u32,
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
    }
}

fn nbd(args: &NbdArgs) -> Result<(), Failure> {
    // Before any thread starts: a signal that comes early is not lost.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(input)?;
    if args.export.len() > wharf_nbd::proto::STRING_BYTES_MAX {
        return Err(input("--export: a name has at most 4096 bytes"));
    }
    let metrics_address = args.metrics.as_deref().map(metrics_address).transpose()?;
    let export = export(args)?;
    let listeners = listeners(args)?;
    let places: Vec<_> = listeners.iter().map(|l| l.name().to_string()).collect();
    let info = export.info().clone();
    let mut options = ServerOptions::new(listeners, export);
    options.limits.connections = args.connections_max;
    options.limits.requests = args.requests_max;
    options.verbose = args.verbose;
    let server = Server::start(options).map_err(input)?;
    let metrics = metrics_address.map(|address| {
        MetricsServer::start(&address, server.metrics())
            .map_err(|error| input(format!("--metrics {address}: {error}")))
    });
    let metrics = metrics.transpose()?;
    let told = metrics.as_ref().map_or(String::new(), |m| {
        format!(", metrics at http://{}/metrics", m.address())
    });
    print(&format!(
        "serving {}, {} bytes, at {}{told}",
        info.description,
        info.size_bytes,
        places.join(", ")
    ));
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

fn size(name: &str, text: &str) -> Result<u64, Failure> {
    parse_bytes(text).map_err(|error| input(format!("{name}: {error}")))
}

/// What is served.
fn export(args: &NbdArgs) -> Result<Arc<dyn Export>, Failure> {
    if let Some(text) = &args.what.memory {
        let size_bytes = size("--memory", text)?;
        let export = MemoryExport::new(&args.export, size_bytes, args.read_only).map_err(input)?;
        return Ok(Arc::new(export));
    }
    unreachable!("one of them is required")
}
