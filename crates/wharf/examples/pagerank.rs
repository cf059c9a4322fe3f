//! PageRank over a graph that does not have to fit in memory, on a Wharf store and on `mmap`.
//!
//!     cargo run --release --example pagerank
//!     cargo run --release --example pagerank -- --vertices 2000000 --edges 32000000 --cache 64MiB
//!
//! The graph is a file of edges, sorted by their source; before it lie two arrays of a word for each
//! vertex: what goes along each of its edges, and its next rank. The program is the same for both:
//!
//! 1. What is used in order (edges, what goes along them) is read in order: on the store by copy, a
//!    piece at a time; through `mmap` where it is.
//! 2. What is used here and there (next ranks) is used in place, by *windows* of at most half the
//!    cache: on the store the pages of a window are pinned, once, and then are plain memory. Ranks that
//!    do not fit a window take several walks over the edges.
//!
//! What they compute must be equal.
//!
//! Where it may, the program first puts itself under a memory limit (a control group) of the cache and
//! a little more, so that `mmap` has no more memory than the store. Where it may not, it says so.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Parser;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use wharf::host::Scala;
use wharf::host::scala::guard::{Guards, Intent};
use wharf::lab::config::parse_bytes;
use wharf::runtime::Seed;
use wharf::runtime::clock::Clock;
use wharf::store::{Client, StoreError, StoreOptions};
use zerocopy::IntoBytes;

/// Memory that the program itself and the drive's tables take, beside the cache.
const OWN_BYTES: u64 = 64 << 20;

/// Share of a vertex's rank that goes along its edges.
const DAMPING: f64 = 0.85;

#[derive(Parser)]
#[command(about = "PageRank on a Wharf store and on mmap")]
struct Args {
    /// Vertices of the graph.
    #[arg(long, default_value_t = 200_000)]
    vertices: u64,
    /// Edges of the graph.
    #[arg(long, default_value_t = 4_000_000)]
    edges: u64,
    /// Times that ranks go along the edges.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Memory for cached pages.
    #[arg(long, default_value = "16MiB", value_parser = |s: &str| parse_bytes(s).map_err(|e| e.to_string()))]
    cache: u64,
    /// Where the two files are made, and removed again.
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// Seed of the random graph.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Words of a page.
const PAGE_WORDS: u64 = 512;

/// Words that are read or written at a time.
const PIECE_WORDS: usize = 8 * PAGE_WORDS as usize;

type Outcome<T> = Result<T, StoreError>;

/// A store of 8-byte words.
trait Words {
    /// Words that stay where they are.
    type Pinned<'a>: Pinned
    where
        Self: 'a;

    /// Calls `f` with the words of a range, in order, some at a time.
    fn scan(&self, words: Range<u64>, f: impl FnMut(&[u64])) -> Outcome<()>;

    /// Writes words from `first` on.
    fn save(&self, first: u64, words: &[u64]) -> Outcome<()>;

    /// Words to be used in place.
    fn pin(&self, words: Range<u64>) -> Outcome<Self::Pinned<'_>>;
}

trait Pinned {
    /// A way to each word by its number in the range.
    type View<'a>: View
    where
        Self: 'a;

    fn view(&self) -> Self::View<'_>;
}

trait View {
    fn at(&self, index: usize) -> &Cell<u64>;
}

impl Words for Client<Scala> {
    type Pinned<'a> = Pages<'a>;

    fn scan(&self, words: Range<u64>, mut f: impl FnMut(&[u64])) -> Outcome<()> {
        let mut piece = [0u64; PIECE_WORDS];
        for first in words.clone().step_by(PIECE_WORDS) {
            let piece = &mut piece[..(words.end - first).min(PIECE_WORDS as u64) as usize];
            self.read_at(first * 8, piece.as_mut_bytes())?;
            f(piece);
        }
        Ok(())
    }

    fn save(&self, first: u64, words: &[u64]) -> Outcome<()> {
        Ok(self.write_at(first * 8, words.as_bytes())?)
    }

    fn pin(&self, words: Range<u64>) -> Outcome<Pages<'_>> {
        let pages = words.start / PAGE_WORDS..words.end.div_ceil(PAGE_WORDS);
        let guards = Client::pin(self, pages, Intent::Write)?;
        let skip = (words.start % PAGE_WORDS) as usize;
        Ok(Pages { guards, skip })
    }
}

/// Pages of the store, pinned, with the words before the first that is meant.
struct Pages<'a> {
    guards: Guards<'a>,
    skip: usize,
}

impl Pinned for Pages<'_> {
    type View<'a>
        = (Vec<&'a [Cell<u64>]>, usize)
    where
        Self: 'a;

    fn view(&self) -> Self::View<'_> {
        let pages = self.guards.iter().map(|guard| guard.cells()).collect();
        (pages, self.skip)
    }
}

impl View for (Vec<&[Cell<u64>]>, usize) {
    #[inline]
    fn at(&self, index: usize) -> &Cell<u64> {
        let at = index + self.1;
        &self.0[at / PAGE_WORDS as usize][at % PAGE_WORDS as usize]
    }
}

/// A file in the address space.
struct Mapped {
    start: *mut u64,
    words: u64,
}

impl Mapped {
    fn new(path: &Path, words: u64) -> std::io::Result<Mapped> {
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        file.set_len(words * 8)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let bytes = words as usize * 8;
        // SAFETY: a new mapping of a file that nobody else has open.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                access,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let start = start.cast();
        Ok(Mapped { start, words })
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping made above; nothing refers to it any more.
        let _ = unsafe { munmap(self.start.cast(), self.words as usize * 8) };
    }
}

impl Mapped {
    fn cells(&self) -> &[Cell<u64>] {
        // SAFETY: the mapping, which lives as long as `self`; no other thread has it.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.words as usize) }
    }
}

fn range(words: Range<u64>) -> Range<usize> {
    words.start as usize..words.end as usize
}

impl Words for Mapped {
    type Pinned<'a> = &'a [Cell<u64>];

    fn scan(&self, words: Range<u64>, mut f: impl FnMut(&[u64])) -> Outcome<()> {
        let cells = &self.cells()[range(words)];
        // SAFETY: plain words, and nobody writes to them while `f` runs.
        f(unsafe { std::slice::from_raw_parts(cells.as_ptr().cast(), cells.len()) });
        Ok(())
    }

    fn save(&self, first: u64, words: &[u64]) -> Outcome<()> {
        let cells = &self.cells()[range(first..first + words.len() as u64)];
        cells
            .iter()
            .zip(words)
            .for_each(|(cell, &word)| cell.set(word));
        Ok(())
    }

    fn pin(&self, words: Range<u64>) -> Outcome<&[Cell<u64>]> {
        Ok(&self.cells()[range(words)])
    }
}

impl Pinned for &[Cell<u64>] {
    type View<'a>
        = &'a [Cell<u64>]
    where
        Self: 'a;

    fn view(&self) -> Self::View<'_> {
        self
    }
}

impl View for &[Cell<u64>] {
    #[inline]
    fn at(&self, index: usize) -> &Cell<u64> {
        &self[index]
    }
}

/// Where things are: shares, next ranks, edges; in words. An edge is its source above its target.
struct Graph {
    vertices: u64,
    edges: u64,
    window_words: u64,
}

/// The words of a range, saved a piece at a time.
struct Saving<'a, W> {
    words: &'a W,
    next: u64,
    piece: Vec<u64>,
}

impl<'a, W: Words> Saving<'a, W> {
    fn new(words: &'a W, first: u64) -> Self {
        Saving {
            words,
            next: first,
            piece: Vec::with_capacity(PIECE_WORDS),
        }
    }

    fn push(&mut self, word: u64) -> Outcome<()> {
        self.piece.push(word);
        match self.piece.len() {
            PIECE_WORDS => self.end(),
            _ => Ok(()),
        }
    }

    fn end(&mut self) -> Outcome<()> {
        self.words.save(self.next, &self.piece)?;
        self.next += self.piece.len() as u64;
        self.piece.clear();
        Ok(())
    }
}

impl Graph {
    fn words(&self) -> u64 {
        2 * self.vertices + self.edges
    }

    fn edge_words(&self) -> Range<u64> {
        2 * self.vertices..self.words()
    }

    /// The source of an edge: each vertex has as many edges as the others, or one less.
    fn source(&self, edge: u64) -> u64 {
        edge * self.vertices / self.edges
    }

    /// Writes a random graph: sources in order, targets with some much more popular than others.
    fn make(&self, words: &impl Words, seed: u64) -> Outcome<()> {
        let mut rng = Seed(seed).rng();
        let mut saving = Saving::new(words, 2 * self.vertices);
        for edge in 0..self.edges {
            let spread = rng.below(self.vertices) + 1;
            let target = rng.below(spread);
            saving.push(self.source(edge) << 32 | target)?;
        }
        saving.end()
    }

    /// Sends the ranks along the edges `rounds` times; gives the sum of the squares of the ranks.
    fn rank(&self, words: &impl Words, rounds: u32) -> Outcome<f64> {
        let mut saving = Saving::new(words, self.vertices);
        for _ in 0..self.vertices {
            saving.push((1.0 / self.vertices as f64).to_bits())?;
        }
        saving.end()?;
        for _ in 0..rounds {
            self.divide(words)?;
            let mut first = 0;
            while first < self.vertices {
                let end = (first + self.window_words).min(self.vertices);
                self.spread(words, first..end)?;
                first = end;
            }
        }
        let mut sum = 0.0;
        let ranks = self.vertices..2 * self.vertices;
        words.scan(ranks, |piece| {
            let squares = piece.iter().map(|&word| f64::from_bits(word).powi(2));
            squares.for_each(|square| sum += square);
        })?;
        Ok(sum)
    }

    /// Divides every rank among its vertex's edges.
    fn divide(&self, words: &impl Words) -> Outcome<()> {
        let mut shares = Vec::new();
        let mut first = 0;
        while first < self.vertices {
            let end = (first + PIECE_WORDS as u64).min(self.vertices);
            let mut vertex = first;
            words.scan(self.vertices + first..self.vertices + end, |ranks| {
                for &rank in ranks {
                    // The first edge whose source is this vertex, and the next one's.
                    let begin = |vertex: u64| (vertex * self.edges).div_ceil(self.vertices);
                    let edges = begin(vertex + 1) - begin(vertex);
                    let share = DAMPING * f64::from_bits(rank) / edges as f64;
                    shares.push(share.to_bits());
                    vertex += 1;
                }
            })?;
            words.save(first, &shares)?;
            shares.clear();
            first = end;
        }
        Ok(())
    }

    /// Makes the next ranks of the vertices of a window.
    fn spread(&self, words: &impl Words, window: Range<u64>) -> Outcome<()> {
        let pinned = words.pin(self.vertices + window.start..self.vertices + window.end)?;
        let (next, count) = (pinned.view(), window.end - window.start);
        let rest = (1.0 - DAMPING) / self.vertices as f64;
        (0..count as usize).for_each(|index| next.at(index).set(rest.to_bits()));
        // Sources come in order, so their shares do too: a piece of them goes with a piece of edges.
        let mut shares: Vec<u64> = Vec::with_capacity(PIECE_WORDS);
        let edges = self.edge_words();
        for first in edges.clone().step_by(PIECE_WORDS) {
            let end = (first + PIECE_WORDS as u64).min(edges.end);
            let first_source = self.source(first - edges.start);
            let last_source = self.source(end - 1 - edges.start);
            shares.clear();
            words.scan(first_source..last_source + 1, |piece| {
                shares.extend_from_slice(piece)
            })?;
            words.scan(first..end, |piece| {
                for &edge in piece {
                    let (source, target) = (edge >> 32, edge & 0xffff_ffff);
                    let to = target.wrapping_sub(window.start);
                    if to < count {
                        let share = f64::from_bits(shares[(source - first_source) as usize]);
                        let sum = next.at(to as usize);
                        sum.set((f64::from_bits(sum.get()) + share).to_bits());
                    }
                }
            })?;
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let graph = Graph {
        vertices: args.vertices,
        edges: args.edges,
        window_words: (args.cache / 2 / 8).max(PAGE_WORDS),
    };
    let bytes = graph.words() * 8;
    println!(
        "{} vertices, {} edges, {} MB of data, {} MB of cache, seed {}",
        args.vertices,
        args.edges,
        bytes / 1_000_000,
        args.cache / 1_000_000,
        args.seed
    );
    let limited = MemoryLimit::set(args.cache + OWN_BYTES);
    match &limited {
        Ok(_) => println!(
            "memory limited to {} MB",
            (args.cache + OWN_BYTES) / 1_000_000
        ),
        Err(why) => println!("memory is not limited ({why}): mmap may hold everything"),
    }
    let path = args.folder.join("pagerank.wharf");
    let options = StoreOptions::file(&path, bytes)?.cache_bytes(args.cache);
    let client = Client::open_local(&options)?;
    let ours = run("wharf", &graph, &client, &args)?;
    client.close()?;
    std::fs::remove_file(&path)?;
    let path = args.folder.join("pagerank.mmap");
    let mapped = Mapped::new(&path, graph.words())?;
    let mmap = run("mmap", &graph, &mapped, &args)?;
    drop(mapped);
    std::fs::remove_file(&path)?;
    if ours != mmap {
        return Err(format!("the results differ: {ours} and {mmap}").into());
    }
    println!("equal results: {ours:e}");
    Ok(())
}

fn run(name: &str, graph: &Graph, words: &impl Words, args: &Args) -> Result<f64, StoreError> {
    let clock = Clock::start();
    graph.make(words, args.seed)?;
    let made_ns = clock.now_ns();
    let sum = graph.rank(words, args.rounds)?;
    let ranked_ns = clock.now_ns() - made_ns;
    let edges = graph.edges as f64 * 1e9;
    println!(
        "{name:8} made: {:.2} M edges/s, ranked: {:.2} M edges/s",
        edges / made_ns as f64 / 1e6,
        edges * f64::from(args.rounds) / ranked_ns as f64 / 1e6
    );
    Ok(sum)
}

/// Writes to a file that is there: one that this would make is none of the kernel's.
fn put(file: &Path, text: &str) -> std::io::Result<()> {
    std::fs::File::options()
        .write(true)
        .open(file)?
        .write_all(text.as_bytes())
}

/// A control group with a memory limit, of version 2 or 1, with this process in it.
struct MemoryLimit {
    tree: &'static Path,
    group: PathBuf,
}

impl MemoryLimit {
    fn set(bytes: u64) -> std::io::Result<MemoryLimit> {
        let process = std::process::id().to_string();
        let trees = [
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ];
        let mut outcome = Err(std::io::Error::other("no control groups"));
        for (tree, limit) in trees {
            let tree = Path::new(tree);
            let group = tree.join(format!("wharf-pagerank-{process}"));
            outcome = std::fs::create_dir(&group)
                .and_then(|()| put(&group.join(limit), &bytes.to_string()))
                .and_then(|()| put(&group.join("cgroup.procs"), &process));
            if outcome.is_ok() {
                return Ok(MemoryLimit { tree, group });
            }
            let _ = std::fs::remove_dir(&group);
        }
        outcome.map(|()| unreachable!("it has returned"))
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // The group goes when nobody is in it. What fails here harms nothing.
        let process = std::process::id().to_string();
        let _ = put(&self.tree.join("cgroup.procs"), &process);
        let _ = std::fs::remove_dir(&self.group);
    }
}
