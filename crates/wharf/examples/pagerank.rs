//! PageRank over a graph that does not have to fit in memory, on a Wharf store and on `mmap`.
//!
//!     cargo run --release --example pagerank
//!     cargo run --release --example pagerank -- --vertices 2000000 --edges 32000000 --cache 64MiB
//!
//! The graph is a file of edges, sorted by their source; two arrays of ranks lie before it. The program
//! walks the edges in order and adds to ranks here and there: it is the same for both, and uses
//! 8 bytes at a time in place. What it computes must be equal.
//!
//! Where it may, the program first puts itself under a memory limit (a control group) of the cache and
//! a little more, so that `mmap` has no more memory than the store. Where it may not, it says so.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Parser;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use wharf::host::Scala;
use wharf::lab::config::parse_bytes;
use wharf::runtime::Seed;
use wharf::runtime::clock::Clock;
use wharf::store::{Client, StoreError, StoreOptions};

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

/// A store of 8-byte words.
trait Words {
    fn load(&self, index: u64) -> Result<u64, StoreError>;
    fn save(&self, index: u64, word: u64) -> Result<(), StoreError>;
}

impl Words for Client<Scala> {
    #[inline]
    fn load(&self, index: u64) -> Result<u64, StoreError> {
        Ok(self.get(index * 8)?)
    }

    #[inline]
    fn save(&self, index: u64, word: u64) -> Result<(), StoreError> {
        Ok(self.set(index * 8, word)?)
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

impl Words for Mapped {
    #[inline]
    fn load(&self, index: u64) -> Result<u64, StoreError> {
        assert!(index < self.words);
        // SAFETY: inside the mapping.
        Ok(unsafe { self.start.add(index as usize).read() })
    }

    #[inline]
    fn save(&self, index: u64, word: u64) -> Result<(), StoreError> {
        assert!(index < self.words);
        // SAFETY: inside the mapping.
        unsafe { self.start.add(index as usize).write(word) };
        Ok(())
    }
}

/// Where things are: ranks, next ranks, edges; in words.
struct Graph {
    vertices: u64,
    edges: u64,
}

impl Graph {
    fn words(&self) -> u64 {
        2 * self.vertices + self.edges
    }

    /// An edge is its source above its target.
    fn edge(&self, words: &impl Words, edge: u64) -> Result<(u64, u64), StoreError> {
        let word = words.load(2 * self.vertices + edge)?;
        Ok((word >> 32, word & 0xffff_ffff))
    }

    /// Writes a random graph: sources in order, targets with some much more popular than others.
    fn make(&self, words: &impl Words, seed: u64) -> Result<(), StoreError> {
        let mut rng = Seed(seed).rng();
        for edge in 0..self.edges {
            let source = edge * self.vertices / self.edges;
            let spread = rng.below(self.vertices) + 1;
            let target = rng.below(spread);
            words.save(2 * self.vertices + edge, source << 32 | target)?;
        }
        Ok(())
    }

    /// Sends the ranks along the edges `rounds` times; gives the sum of the squares of the ranks.
    fn rank(&self, words: &impl Words, rounds: u32) -> Result<f64, StoreError> {
        let (mut now, mut next) = (0, self.vertices);
        for vertex in 0..self.vertices {
            words.save(now + vertex, (1.0 / self.vertices as f64).to_bits())?;
        }
        for _ in 0..rounds {
            let rest = (1.0 - DAMPING) / self.vertices as f64;
            for vertex in 0..self.vertices {
                words.save(next + vertex, rest.to_bits())?;
            }
            let mut edge = 0;
            while edge < self.edges {
                edge = self.spread(words, edge, now, next)?;
            }
            std::mem::swap(&mut now, &mut next);
        }
        (0..self.vertices).try_fold(0.0, |sum, vertex| {
            let rank = f64::from_bits(words.load(now + vertex)?);
            Ok(sum + rank * rank)
        })
    }

    /// Sends the rank of the source of edge `first` along its edges; gives the edge after them.
    fn spread(
        &self,
        words: &impl Words,
        first: u64,
        now: u64,
        next: u64,
    ) -> Result<u64, StoreError> {
        let (source, _) = self.edge(words, first)?;
        let mut end = first + 1;
        while end < self.edges && self.edge(words, end)?.0 == source {
            end += 1;
        }
        let rank = f64::from_bits(words.load(now + source)?);
        let part = DAMPING * rank / (end - first) as f64;
        for edge in first..end {
            let (_, target) = self.edge(words, edge)?;
            let sum = f64::from_bits(words.load(next + target)?) + part;
            words.save(next + target, sum.to_bits())?;
        }
        Ok(end)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let graph = Graph {
        vertices: args.vertices,
        edges: args.edges,
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
                .and_then(|()| std::fs::write(group.join(limit), bytes.to_string()))
                .and_then(|()| std::fs::write(group.join("cgroup.procs"), &process));
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
        let _ = std::fs::write(self.tree.join("cgroup.procs"), process);
        let _ = std::fs::remove_dir(&self.group);
    }
}
