//! The memory below a file system for persistent memory: modules of the drive's own, or its pages.

use std::future::pending;

use wharf_files::bytes::PagesAsLines;
use wharf_files::lines::{Lines, by_page};
use wharf_files::pages::{PAGE_BYTES, Pages};
use wharf_files::volume::Volume;
use wharf_files::{Fault, In, Out};

use super::bytes::own;
use super::pages::FilePages;
use crate::core::Core;
use crate::persistent::PersistentMemory;

const PAGE: u64 = PAGE_BYTES as u64;

/// The file system: on pages of the drive, or in its persistent memory.
pub type FileSystemOfDrive = Volume<FilePages, FileLines>;

/// The memory below wpm. Only tasks of the drive's cores may use it.
#[derive(Debug)]
pub enum FileLines {
    /// Modules of persistent memory; the pages know the cores, and how bytes get to a host.
    Modules(FilePages),
    /// Pages.
    Pages(PagesAsLines<FilePages>),
}

/// The modules of a drive that has some.
fn modules(core: &Core) -> &PersistentMemory {
    let modules = own(core).persistent();
    modules.expect("a drive has the memory that its file system is in")
}

/// Whether a drive has modules.
pub(super) fn has_modules(core: &Core) -> bool {
    own(core).persistent().is_some()
}

async fn load(core: &Core, at: u64, out: &mut [u8]) -> Result<(), Fault> {
    let loaded_ns = modules(core).load(core.cpu.now(), at, out)?;
    core.cpu.sleep_until(loaded_ns).await;
    Ok(())
}

async fn store(core: &Core, at: u64, bytes: &[u8]) -> Result<(), Fault> {
    let cpu = &core.cpu;
    if !modules(core).store(cpu.index(), cpu.now(), at, bytes)? {
        power_is_gone(core).await;
    }
    Ok(())
}

/// Nothing happens any more.
async fn power_is_gone(core: &Core) {
    core.cpu.halt();
    pending().await
}

impl Lines for FileLines {
    fn bytes(&self) -> u64 {
        match self {
            FileLines::Modules(pages) => modules(&pages.core()).bytes(),
            FileLines::Pages(lines) => lines.bytes(),
        }
    }

    async fn load(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        match self {
            FileLines::Modules(pages) => load(&pages.core(), at, out).await,
            FileLines::Pages(lines) => lines.load(at, out).await,
        }
    }

    async fn store(&self, at: u64, bytes: &[u8]) -> Result<(), Fault> {
        match self {
            FileLines::Modules(pages) => {
                let core = pages.core();
                store(&core, at, bytes).await
            }
            FileLines::Pages(lines) => lines.store(at, bytes).await,
        }
    }

    async fn persist(&self, at: u64, bytes: u64) -> Result<(), Fault> {
        match self {
            // A fence waits for all that its core stored.
            FileLines::Modules(_) => Ok(()),
            FileLines::Pages(lines) => lines.persist(at, bytes).await,
        }
    }

    async fn fence(&self) -> Result<(), Fault> {
        match self {
            FileLines::Modules(pages) => {
                let core = pages.core();
                let cpu = &core.cpu;
                match modules(&core).fenced_ns(cpu.index(), cpu.now()) {
                    Some(fenced_ns) => core.cpu.sleep_until(fenced_ns).await,
                    None => power_is_gone(&core).await,
                }
                Ok(())
            }
            FileLines::Pages(lines) => lines.fence().await,
        }
    }

    async fn load_to(&self, at: u64, mut out: Out<'_>) -> Result<(), Fault> {
        let pages = match self {
            FileLines::Modules(pages) => pages,
            FileLines::Pages(lines) => return lines.load_to(at, out).await,
        };
        let core = pages.core();
        if let Out::Bytes(bytes) = out {
            return load(&core, at, bytes).await;
        }
        // Modules serve beside each other.
        let (mut memory, mut loaded_ns) = (vec![0; PAGE_BYTES], 0);
        for (page, from, bytes) in by_page(at, out.len() as usize) {
            let (part, address) = (&mut memory[..bytes], page * PAGE + from as u64);
            let there_ns = modules(&core).load(core.cpu.now(), address, part)?;
            loaded_ns = there_ns.max(loaded_ns);
            let done = address - at;
            pages.put_to(part, out.slice(done..done + bytes as u64))?;
        }
        core.cpu.sleep_until(loaded_ns).await;
        Ok(())
    }

    async fn give(&self, bytes: &[u8], out: Out<'_>) -> Result<(), Fault> {
        match self {
            FileLines::Modules(pages) => pages.give(bytes, out).await,
            FileLines::Pages(lines) => lines.give(bytes, out).await,
        }
    }

    async fn zero(&self, out: Out<'_>) -> Result<(), Fault> {
        match self {
            FileLines::Modules(pages) => pages.zero(out).await,
            FileLines::Pages(lines) => lines.zero(out).await,
        }
    }

    async fn fetch(&self, data: In<'_>, into: &mut [u8]) -> Result<(), Fault> {
        match self {
            FileLines::Modules(pages) => pages.fetch(data, into).await,
            FileLines::Pages(lines) => lines.fetch(data, into).await,
        }
    }
}
