//! The design `nova`: a file system for persistent memory in the operating system, without a cache.
//!
//! Problem: OmniCache's figures put file systems in drives beside NOVA (Xu and Swanson, FAST 2016), whose host loads
//! and stores persistent memory itself. How much of a difference comes from the place, and how much from NOVA being
//! another file system?
//!
//! Idea: the same file system in both places. wpm (`wharf_files::bytes`) has what NOVA is known for: a log for each
//! inode, pages of files that are written anew, a small journal for what has to change together. Here its code runs on
//! the host:
//!
//! 1. Every operation enters by a system call.
//! 2. wpm does it, on the CPU of whoever asks.
//! 3. That CPU waits for each load, and by fences for what it stored, as for any instruction. No command is sent, and
//!    nothing crosses a link.
//!
//! The memory is the host's own, as large as the volume of the drives, which nobody uses. Its modules take what those of
//! the drive preset `pmem` take (`design.nova.*`). They are shared by all CPUs, and one access waits for another.
//!
//! What it is not: NOVA has a free list for each CPU, and wpm has one for all; copying between a program's
//! buffer and the modules takes what the modules take, and nothing besides; caches of the CPU hold nothing of the modules.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wharf_files::bytes::{self, Make, MakeError, Wpm};
use wharf_files::lines::{Lines, RamLines};
use wharf_files::modules::{ModuleTimes, Modules};
use wharf_files::{Errno, Fault, FileError as FilesError};
use wharf_runtime::{Cpu, OnCpu, here};
use wharf_wire::dma::DmaSpace;

use crate::design::{Design, DesignConfig, DesignError, FileParts, Needs, NoBlocks, Parts};
use crate::files::{ClientPages, FileClient, FileError, Initially, SessionFiles, make_files};
use crate::gate::Gate;
use crate::kit::kernel_path::KernelPath;

/// Bytes of inodes that wpm keeps in memory, as a drive that runs it does if it is told nothing else.
const METADATA_BYTES: usize = 32 << 20;

crate::settings! {
    /// What the host's persistent memory takes.
    pub struct NovaConfig {
        /// What a load takes at least.
        pub load_ns: u64 = 305, in 0..=1_000_000_000;
        /// What a fence takes at least.
        pub store_ns: u64 = 90, in 0..=1_000_000_000;
        /// What a module loads, in MB/s (10^6 bytes a second); 0 is unlimited.
        pub load_mb_s: u64 = 6_600, in 0..=1_000_000;
        /// What a module stores, in MB/s; 0 is unlimited.
        pub store_mb_s: u64 = 2_300, in 0..=1_000_000;
        /// Modules of persistent memory, over which pages go round.
        pub modules: u32 = 4, in 1..=1_024;
    }
}

/// Persistent memory that a host's CPUs load and store.
struct HostLines {
    held: RamLines,
    modules: Mutex<Modules>,
}

/// The file system, as all clients see it.
type Shared = Result<Arc<Wpm<HostLines>>, FileError>;

/// See the module.
pub struct Nova {
    config: NovaConfig,
    ready: Gate<Shared>,
}

impl Design for Nova {
    const NAME: &'static str = "nova";

    const SUMMARY: &'static str =
        "a file system for persistent memory in the operating system, without a cache";

    const HAS_CACHE: bool = false;

    const FILES_ALONE: bool = true;

    type Config = NovaConfig;

    /// How many pages there are.
    type Client = NoBlocks<u64>;

    fn needs(_: &DesignConfig, _: &NovaConfig) -> Needs {
        Needs {
            in_kernel: true,
            ..Needs::default()
        }
    }

    fn new(
        config: &DesignConfig,
        own: &NovaConfig,
        _: &Arc<DmaSpace>,
    ) -> Result<Nova, DesignError> {
        Ok(Nova {
            config: own.clone(),
            ready: Gate::new(config.clients),
        })
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<NoBlocks<u64>, DesignError> {
        Ok(NoBlocks(parts.cache().pages()))
    }

    async fn files(
        self: &Arc<Self>,
        client: NoBlocks<u64>,
        parts: FileParts,
    ) -> Result<impl FileClient, FileError> {
        let cpu = &parts.cpu;
        if parts.index == 0 {
            let made = self.make(cpu, client.0, &parts.initially).await;
            let shared = made.map(|(fs, numbers)| {
                parts.tell(numbers);
                fs
            });
            self.ready.open(cpu, shared);
        }
        let fs = self.ready.pass(cpu, parts.index).await?;
        Ok(on_memory(cpu, fs, KernelPath::new(true, false)))
    }
}

/// Files of `fs` for the client on `cpu`, which asks nobody for blocks.
fn on_memory(
    cpu: &Cpu,
    fs: Arc<Wpm<HostLines>>,
    entry: KernelPath,
) -> SessionFiles<Wpm<HostLines>, NoBlocks<()>> {
    let no_pages = ClientPages::new(0);
    SessionFiles::new(cpu, fs, no_pages.know(cpu.index(), NoBlocks(())), entry)
}

fn told(error: FilesError) -> FileError {
    FileError::Errno(error.errno())
}

impl Nova {
    /// Makes a file system in `pages` pages with what is to be in it; that, and the numbers of these.
    async fn make(
        &self,
        cpu: &Cpu,
        pages: u64,
        initially: &[Initially],
    ) -> Result<(Arc<Wpm<HostLines>>, Vec<u64>), FileError> {
        let lines = HostLines::new(pages, &self.config);
        let make = Make {
            file_system: 1,
            now_ns: cpu.now(),
            uid: 0,
            gid: 0,
            mode: 0o755,
        };
        let made = async {
            let made = bytes::make(&lines, make).await;
            made.map_err(|error| match error {
                MakeError::Fault(fault) => fault.into(),
                MakeError::Size => FilesError::from(Errno::ENOSPC),
            })?;
            Ok(Arc::new(Wpm::open(lines, METADATA_BYTES).await?.0))
        };
        let fs = OnCpu::new(cpu, made).await.map_err(told)?;
        let files = on_memory(cpu, fs.clone(), KernelPath::new(false, false));
        let numbers = make_files(&files, initially).await?;
        OnCpu::new(cpu, fs.settle()).await.map_err(told)?;
        Ok((fs, numbers))
    }
}

impl HostLines {
    fn new(pages: u64, config: &NovaConfig) -> HostLines {
        let times = ModuleTimes {
            load_ns: config.load_ns,
            store_ns: config.store_ns,
            load_mb_s: config.load_mb_s,
            store_mb_s: config.store_mb_s,
        };
        HostLines {
            held: RamLines::new(pages),
            modules: Mutex::new(Modules::new(config.modules, times)),
        }
    }

    fn modules(&self) -> MutexGuard<'_, Modules> {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The CPU that asks, when those that are behind it in virtual time have asked.
    async fn cpu() -> Cpu {
        let cpu = here().expect("a file system runs on a CPU");
        cpu.pace_exactly().await;
        cpu
    }
}

impl Lines for HostLines {
    fn bytes(&self) -> u64 {
        self.held.bytes()
    }

    async fn load(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        let cpu = HostLines::cpu().await;
        self.held.peek(at, out)?;
        let loaded_ns = self.modules().load(cpu.now(), at, out.len());
        cpu.stall_until(loaded_ns);
        Ok(())
    }

    async fn store(&self, at: u64, bytes: &[u8]) -> Result<(), Fault> {
        let cpu = HostLines::cpu().await;
        self.held.poke(at, bytes)?;
        self.modules()
            .store(cpu.index(), cpu.now(), at, bytes.len());
        Ok(())
    }

    /// A fence waits for all that was stored.
    async fn persist(&self, at: u64, bytes: u64) -> Result<(), Fault> {
        self.held.persist(at, bytes).await
    }

    async fn fence(&self) -> Result<(), Fault> {
        let cpu = HostLines::cpu().await;
        let fenced_ns = self.modules().fence(cpu.index(), cpu.now());
        cpu.stall_until(fenced_ns);
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use wharf_files::pages::PAGE_BYTES;
    use wharf_runtime::{CostTable, Machine, Seed, Side};

    use super::*;

    const PAGE: u64 = PAGE_BYTES as u64;

    fn lines(modules: u32) -> Arc<HostLines> {
        let config = NovaConfig {
            load_mb_s: 4096,
            store_mb_s: 2048,
            load_ns: 300,
            store_ns: 90,
            modules,
        };
        Arc::new(HostLines::new(8, &config))
    }

    /// Runs this on two CPUs, numbers 0 and 1, at the same time.
    fn on_two_cpus<F: Future<Output = ()>>(does: impl Fn(u32) -> F + Clone + Send + 'static) {
        let mut machine = Machine::new(CostTable::free(), false);
        for number in 0..2 {
            let (id, does) = (machine.add_cpu("cpu", Side::Host, 1.0), does.clone());
            machine.spawn_main(id, "task", async move |own| {
                OnCpu::new(&own, does(number)).await;
            });
        }
        machine.run_virtual(Seed(1)).unwrap();
    }

    fn now() -> u64 {
        here().expect("on a CPU").now()
    }

    #[test]
    fn a_fence_waits_for_what_its_cpu_stored_and_a_load_for_whoever_came_first() {
        let lines = lines(1);
        on_two_cpus(move |number| {
            let lines = lines.clone();
            async move {
                if number == 0 {
                    lines.store(0, &[7; PAGE_BYTES]).await.unwrap();
                    lines.fence().await.unwrap();
                    assert_eq!(now(), 2_000, "4 KiB of 2,048 MB/s");
                    return;
                }
                lines.fence().await.unwrap();
                assert_eq!(now(), 90, "it has stored nothing");
                let mut found = [0; PAGE_BYTES];
                lines.load(0, &mut found).await.unwrap();
                assert_eq!(found, [7; PAGE_BYTES]);
                assert_eq!(now(), 3_000, "behind the store, in the one module");
            }
        });
    }

    #[test]
    fn cpus_load_from_two_modules_side_by_side() {
        let lines = lines(2);
        on_two_cpus(move |number| {
            let lines = lines.clone();
            async move {
                let at = u64::from(number) * PAGE;
                lines.load(at, &mut [1; PAGE_BYTES]).await.unwrap();
                assert_eq!(now(), 1_000);
                lines.load(at, &mut [1; 64]).await.unwrap();
                assert_eq!(now(), 1_300, "the latency of one");
            }
        });
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let lines = lines(1);
        on_two_cpus(move |_| {
            let lines = lines.clone();
            async move {
                let read = lines.load(8 * PAGE - 1, &mut [0; 2]).await;
                assert_eq!(read, Err(Fault::Read { page: 8 }));
                let written = lines.store(8 * PAGE, &[1]).await;
                assert_eq!(written, Err(Fault::Write { page: 8 }));
            }
        });
    }
}
