//! PageRank over a file of edges that does not fit in memory, on a page cache in the process and through `mmap`.
//!
//!     cargo run --release -p wharf --example edge_rank
//!     cargo run --release -p wharf --example edge_rank -- --vertices 4000000 --edges 200000000 --memory 256MiB --folder /data
//!
//! Ranks are in memory, 20 bytes a vertex; edges are in a file, 8 bytes each. In every round threads take stretches of the file
//! in turn and walk over their edges: on the page cache by pinning page after page and using the edges where they are,
//! through `mmap` where they are mapped. Ranks are whole numbers, so that sums do not depend on the order of threads: both
//! ways must give equal ranks.
//!
//! The page cache has the memory it was given; `mmap` has as much of the system's as there is.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use wharf::lab::config::parse_bytes;
use wharf::page_cache::{Advice, File, PageCache, PageCacheError, PageCacheOptions};
use wharf::runtime::Seed;
use wharf::runtime::clock::Clock;

const PAGE_BYTES: u64 = 4096;
const EDGE_BYTES: u64 = 8;

/// Pages that a thread takes at a time.
const STRETCH_PAGES: u64 = 64;

/// The sum of all ranks, as a whole number.
const ALL: u64 = 1 << 52;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(about = "PageRank over a file of edges, on Wharf's page cache and on mmap")]
struct Args {
    /// Vertices of the graph.
    #[arg(long, default_value_t = 100_000)]
    vertices: u32,
    /// Edges of the graph.
    #[arg(long, default_value_t = 2_000_000)]
    edges: u64,
    /// Times that ranks go along the edges.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Memory for cached pages.
    #[arg(long, default_value = "4MiB", value_parser = |s: &str| parse_bytes(s).map_err(|e| e.to_string()))]
    memory: u64,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Where the file is made, and removed again.
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// Seed of the random graph.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Edges, some at a time, where they are.
trait Edges: Sync {
    /// Calls `f` with the bytes of a range of pages, in order.
    fn walk(&self, pages: std::ops::Range<u64>, f: impl FnMut(&[u8]))
    -> Result<(), PageCacheError>;
}

impl Edges for File {
    fn walk(
        &self,
        pages: std::ops::Range<u64>,
        mut f: impl FnMut(&[u8]),
    ) -> Result<(), PageCacheError> {
        let bytes = (pages.end - pages.start) * PAGE_BYTES;
        self.advise(pages.start * PAGE_BYTES, bytes, Advice::WillNeed)?;
        for page in pages {
            let guard = self.pin(page * PAGE_BYTES)?;
            let rest = (self.len() - guard.offset()).min(PAGE_BYTES) as usize;
            // SAFETY: nobody writes to the file, or cuts it, while it is walked over.
            f(unsafe { &guard.bytes()[..rest] });
        }
        Ok(())
    }
}

/// A file in the address space.
struct Mapped {
    start: *const u8,
    bytes: usize,
}

// SAFETY: plain memory that nobody writes to.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn new(path: &Path) -> std::io::Result<Mapped> {
        let file = std::fs::File::open(path)?;
        let bytes = file.metadata()?.len() as usize;
        let hint = std::ptr::null_mut();
        // SAFETY: a new mapping, wherever the system has room.
        let start = unsafe { mmap(hint, bytes, ProtFlags::READ, MapFlags::SHARED, file, 0)? };
        Ok(Mapped {
            start: start.cast(),
            bytes,
        })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping made above; nothing refers to it any more.
        let _ = unsafe { munmap(self.start.cast_mut().cast(), self.bytes) };
    }
}

impl Edges for Mapped {
    fn walk(
        &self,
        pages: std::ops::Range<u64>,
        mut f: impl FnMut(&[u8]),
    ) -> Result<(), PageCacheError> {
        let (from, to) = (pages.start * PAGE_BYTES, pages.end * PAGE_BYTES);
        let (from, to) = (from as usize, self.bytes.min(to as usize));
        // SAFETY: within the mapping; nobody writes to the file, or cuts it.
        f(unsafe { std::slice::from_raw_parts(self.start.add(from), to - from) });
        Ok(())
    }
}

/// Source and target of each edge in some bytes.
fn edges(bytes: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    bytes.chunks_exact(EDGE_BYTES as usize).map(|edge| {
        let edge = u64::from_le_bytes(edge.try_into().expect("8 bytes"));
        ((edge >> 32) as usize, edge as u32 as usize)
    })
}

/// Writes a random graph: some vertices are much more popular than others.
fn make(args: &Args, file: &File) -> Result<(), PageCacheError> {
    let (mut rng, mut piece) = (Seed(args.seed).child("edges").rng(), Vec::new());
    let mut offset = 0;
    for edge in 0..args.edges {
        let source = rng.below(args.vertices.into());
        let spread = rng.below(args.vertices.into()) + 1;
        piece.extend_from_slice(&(source << 32 | rng.below(spread)).to_le_bytes());
        if piece.len() as u64 == STRETCH_PAGES * PAGE_BYTES || edge + 1 == args.edges {
            file.write_all_at(&piece, offset)?;
            offset += piece.len() as u64;
            piece.clear();
        }
    }
    file.sync_all()
}

/// Walks over all edges with all threads.
fn all_edges(
    args: &Args,
    from: &impl Edges,
    f: impl Fn(usize, usize) + Sync,
) -> Result<(), PageCacheError> {
    let pages = (args.edges * EDGE_BYTES).div_ceil(PAGE_BYTES);
    let next = AtomicU64::new(0);
    let walk = || {
        loop {
            let first = next.fetch_add(STRETCH_PAGES, Ordering::Relaxed);
            if first >= pages {
                return Ok(());
            }
            let stretch = first..pages.min(first + STRETCH_PAGES);
            from.walk(stretch, |bytes| {
                edges(bytes).for_each(|(source, target)| f(source, target))
            })?;
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.threads).map(|_| scope.spawn(walk)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no panic"))
    })
}

/// The rank of every vertex, and how many edges a second were walked over.
fn rank(args: &Args, from: &impl Edges) -> Result<(Vec<u64>, f64), PageCacheError> {
    let vertices = args.vertices as usize;
    let words = || -> Vec<AtomicU64> { (0..vertices).map(|_| AtomicU64::new(0)).collect() };
    let (degrees, next) = (words(), words());
    let clock = Clock::start();
    all_edges(args, from, |source, _| {
        degrees[source].fetch_add(1, Ordering::Relaxed);
    })?;
    let mut ranks = vec![ALL / u64::from(args.vertices); vertices];
    for _ in 0..args.rounds {
        let share =
            |rank: u64, degree: &AtomicU64| rank / 100 * 85 / degree.load(Ordering::Relaxed).max(1);
        let shares: Vec<u64> = ranks
            .iter()
            .zip(&degrees)
            .map(|(rank, degree)| share(*rank, degree))
            .collect();
        all_edges(args, from, |source, target| {
            next[target].fetch_add(shares[source], Ordering::Relaxed);
        })?;
        let rest = ALL / u64::from(args.vertices) / 100 * 15;
        for (rank, next) in ranks.iter_mut().zip(&next) {
            *rank = rest + next.swap(0, Ordering::Relaxed);
        }
    }
    let walked = args.edges * u64::from(args.rounds + 1);
    Ok((ranks, walked as f64 * 1e9 / clock.now_ns() as f64))
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let path = args
        .folder
        .join(format!("wharf-edges-{}", std::process::id()));
    let outcome = run(&args, &path);
    std::fs::remove_file(&path)?;
    outcome
}

fn run(args: &Args, path: &Path) -> Result<(), Failure> {
    let cache = PageCache::new(&PageCacheOptions {
        memory_bytes: args.memory,
        ..PageCacheOptions::default()
    })?;
    let file = cache.create(path)?;
    println!(
        "seed {}: {} edges of {} vertices",
        args.seed, args.edges, args.vertices
    );
    make(args, &file)?;
    let (ours, ours_rate) = rank(args, &file)?;
    let (mapped, mapped_rate) = rank(args, &Mapped::new(path)?)?;
    if ours != mapped {
        return Err("the two ways gave different ranks".into());
    }
    let best = ours.iter().enumerate().max_by_key(|(_, rank)| **rank);
    let (vertex, best) = best.ok_or("a graph has vertices")?;
    println!(
        "equal ranks; the best is vertex {vertex} with {:.6} of all",
        *best as f64 / ALL as f64
    );
    println!(
        "PageCache: {:6.1} million edges/s, with {} KiB",
        ours_rate / 1e6,
        args.memory / 1024
    );
    println!("mmap:      {:6.1} million edges/s", mapped_rate / 1e6);
    Ok(())
}
