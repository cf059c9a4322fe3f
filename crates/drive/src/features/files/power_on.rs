//! At power-on: file tasks start on all cores, and one of them opens the file system, or makes it.

use std::rc::{Rc, Weak};

use wharf_files::block::Wfs;
use wharf_files::bytes::{self, PagesAsLines, Wpm};
use wharf_files::volume::{Format, MakeError, Recovered, Volume};
use wharf_runtime::OnCpu;

use super::access::Access;
use super::bytes::own;
use super::compute::ComputeMemory;
use super::find::{self, OpenError};
use super::firmware::Firmware;
use super::lines::{FileLines, FileSystemOfDrive, has_modules};
use super::locks::Locks;
use super::pages::FilePages;
use super::tasks::start_tasks;
use crate::config::{DriveConfig, FileSystemKind, NewFiles};
use crate::core::Core;
use crate::memory::Purpose;

/// See the [module](self).
pub(super) fn power_on(cores: &[Rc<Core>], config: &DriveConfig, new: Option<NewFiles>) {
    let locks = Locks::new(cores.len(), config.firmware.commands_max);
    let access = Access::new(config.firmware.token_check);
    let near = (cores[0].memory().cloned(), config.memory.near_host_pages());
    let compute = ComputeMemory::new(config.memory.compute_bytes);
    let firmware = Rc::new(Firmware::opening(locks, access, near, compute));
    for core in cores {
        start_tasks(core, &firmware);
    }
    let pages = FilePages::whole(cores, config.namespace_pages());
    let (first, cache_bytes) = (Rc::downgrade(&cores[0]), config.memory.metadata_bytes);
    let cpu = &cores[0].cpu;
    let kind = config.file_system.expect("the feature is on");
    let opens = async move {
        let mut opened = open(&first, pages, kind, new, cache_bytes).await;
        if let Ok((fs, _)) = &opened {
            let restored = firmware.near().restore(fs, new.is_some()).await;
            opened = restored.map_err(OpenError::from).and(opened);
        }
        firmware.opened(opened);
    };
    cpu.spawn("opens files", OnCpu::new(cpu, opens));
}

async fn open(
    core: &Weak<Core>,
    pages: FilePages,
    kind: FileSystemKind,
    new: Option<NewFiles>,
    cache_bytes: u64,
) -> Result<(FileSystemOfDrive, Recovered), OpenError> {
    let core = || {
        core.upgrade()
            .expect("a task of a core runs while it is there")
    };
    own(&core()).reserve(Purpose::Metadata, cache_bytes)?;
    if kind == FileSystemKind::Wpm && has_modules(&core()) {
        let lines = FileLines::Modules(pages);
        if let Some(new) = new {
            bytes::make(&lines, new.make.into())
                .await
                .map_err(MakeError::Wpm)?;
        }
        return open_wpm(lines, cache_bytes).await;
    }
    let formats = kind.formats();
    let (format, part) = match new {
        Some(new) => (formats[0], find::make(&pages, formats[0], new).await?),
        None => find::find(&pages, formats).await?,
    };
    let part = pages.part(part);
    if format == Format::Wpm {
        let lines = FileLines::Pages(PagesAsLines::new(part));
        return open_wpm(lines, cache_bytes).await;
    }
    let (wfs, recovered) = Wfs::open(part, cache_bytes as usize).await?;
    own(&core()).reserve(Purpose::Journal, wfs.changes_bytes_max())?;
    Ok((Volume::Wfs(wfs), Recovered::Wfs(recovered)))
}

async fn open_wpm(
    lines: FileLines,
    cache_bytes: u64,
) -> Result<(FileSystemOfDrive, Recovered), OpenError> {
    let (wpm, recovered) = Wpm::open(lines, cache_bytes as usize).await?;
    Ok((Volume::Wpm(wpm), Recovered::Wpm(recovered)))
}
