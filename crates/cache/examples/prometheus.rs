//! Figures of a cache for Prometheus:
//!
//!     cargo run --release -p wharf-cache --example prometheus -- [PORT [SECONDS]]
//!
//! Without arguments it works for a moment and prints what Prometheus would get. With a port it answers `GET /metrics` on
//! 127.0.0.1 for so many seconds, 60 if nothing is said, while a thread reads and writes. `examples/grafana.json` is a dashboard
//! of these figures: import it in Grafana, and choose the data source.

use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use wharf_cache::{File, PageCache, PageCacheError, PageCacheOptions};
use wharf_runtime::clock::Clock;
use wharf_runtime::{Rng, Seed};

const PAGE: u64 = 4096;
/// Pages of the file: four times those of the cache.
const PAGES: u64 = 8192;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, name: &str| match arguments.get(at) {
        None => Ok(None),
        Some(text) => match text.parse::<u16>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("{name} '{text}': give a number up to 65535")),
        },
    };
    let (port, seconds) = (number(0, "port")?, number(1, "seconds")?);
    let prometheus = PrometheusBuilder::new().install_recorder()?;
    let cache = PageCache::new(&PageCacheOptions {
        memory_bytes: PAGES / 4 * PAGE,
        ..PageCacheOptions::default()
    })?;
    let folder = tempfile::tempdir()?;
    let file = cache.create(folder.path().join("data"))?;
    file.set_len(PAGES * PAGE)?;
    let mut rng = Seed(1).rng();
    println!("seed 1");
    match port {
        None => {
            for _ in 0..20_000 {
                step(&file, &mut rng)?;
            }
            cache.record_metrics("example");
            print!("{}", prometheus.render());
        }
        Some(port) => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
            let seconds = seconds.unwrap_or(60).into();
            println!("http://{}/metrics for {seconds} s", listener.local_addr()?);
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let work = scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        step(&file, &mut rng)?;
                    }
                    Ok::<_, PageCacheError>(())
                });
                let served = serve(&listener, &cache, &prometheus, seconds);
                is_over.store(true, Ordering::Relaxed);
                work.join().expect("no panic")?;
                Ok::<_, Box<dyn Error>>(served?)
            })?;
        }
    }
    Ok(())
}

/// Reads a page, a few of them more often than others, or writes a part of one.
fn step(file: &File, rng: &mut Rng) -> Result<(), PageCacheError> {
    let pages = [PAGES, PAGES / 16][rng.below(2) as usize];
    let offset = rng.below(pages) * PAGE;
    match rng.below(10) {
        0 => file.write_all_at(&offset.to_le_bytes(), offset),
        _ => file.read_exact_at(&mut [0; PAGE as usize], offset),
    }
}

/// Answers every request with the figures of that moment, until the time is over.
fn serve(
    listener: &TcpListener,
    cache: &PageCache,
    prometheus: &PrometheusHandle,
    seconds: u64,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let clock = Clock::start();
    while clock.now_ns() < seconds * 1_000_000_000 {
        match listener.accept() {
            Ok((stream, _)) => {
                cache.record_metrics("example");
                // One who asks and goes away is no reason to end.
                let _ = answer(stream, &prometheus.render());
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::park_timeout(Duration::from_millis(20));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn answer(mut stream: TcpStream, page: &str) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.set_write_timeout(Some(Duration::from_secs(1)))?;
    // Whatever is asked for: there is one page.
    let _ = stream.read(&mut [0; 4096])?;
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n";
    write!(stream, "{head}Content-Length: {}\r\n\r\n{page}", page.len())
}
