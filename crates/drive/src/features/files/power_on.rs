//! At power-on: file tasks start on all cores, and one of them opens the file system, or makes it.

use std::rc::{Rc, Weak};

use wharf_files::block::{Recovered, Wfs};
use wharf_runtime::OnCpu;

use super::bytes::own;
use super::find::{self, OpenError};
use super::firmware::Firmware;
use super::pages::FilePages;
use super::pages::FileSystemOfDrive;
use super::tasks::start_tasks;
use crate::config::{DriveConfig, NewFiles};
use crate::core::Core;
use crate::memory::Purpose;

/// See the [module](self).
pub(super) fn power_on(cores: &[Rc<Core>], config: &DriveConfig, new: Option<NewFiles>) {
    let firmware = Rc::new(Firmware::opening());
    for core in cores {
        start_tasks(core, &firmware);
    }
    let pages = FilePages::whole(cores, config.namespace_pages());
    let (first, cache_bytes) = (Rc::downgrade(&cores[0]), config.memory.metadata_bytes);
    let cpu = &cores[0].cpu;
    let opens = async move {
        let opened = open(&first, pages, new, cache_bytes).await;
        firmware.opened(opened);
    };
    cpu.spawn("opens files", OnCpu::new(cpu, opens));
}

async fn open(
    core: &Weak<Core>,
    pages: FilePages,
    new: Option<NewFiles>,
    cache_bytes: u64,
) -> Result<(FileSystemOfDrive, Recovered), OpenError> {
    let reserve = |purpose, bytes| match core.upgrade() {
        Some(core) => own(&core).reserve(purpose, bytes),
        None => unreachable!("a task of a core runs while it is there"),
    };
    reserve(Purpose::Metadata, cache_bytes)?;
    let part = match new {
        Some(new) => find::make(&pages, new).await?,
        None => find::find(&pages).await?,
    };
    let (opened, recovered) = Wfs::open(pages.part(part), cache_bytes as usize).await?;
    reserve(Purpose::Journal, opened.changes_bytes_max())?;
    Ok((opened, recovered))
}
