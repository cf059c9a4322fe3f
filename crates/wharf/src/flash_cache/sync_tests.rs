//! A cache whose drive lies on a disk that takes long to make things durable.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use wharf_codec::Codec;
use wharf_drive::Drive;
use wharf_drive::media::{FileImage, FileOptions};
use wharf_host::design::Client as _;
use wharf_host::error::IoError;
use wharf_host::indexless::Store;
use wharf_host::span::Extent;
use wharf_runtime::Seed;
use wharf_storage::faulty::{Faulty, Loss, Power};
use wharf_storage::{Blocking, Target};

use super::create::{Options, create};
use super::disk::Disk;
use super::label::Label;
use super::open::{FlashCache, How};
use super::{device, open};

const PAGE: usize = 4096;

fn paths(folder: &Path) -> (PathBuf, Vec<PathBuf>) {
    let slow = folder.join("slow");
    std::fs::write(&slow, vec![7; 16 << 20]).unwrap();
    (folder.join("fast"), vec![slow])
}

/// A cache of this test's own, with the image of its drive.
fn cache(folder: &Path) -> (FlashCache, FileImage) {
    let (fast, slow) = paths(folder);
    let options = Options {
        size_bytes: Some(64 << 20),
        codec: Codec::Lz4,
        store: Store::Plain,
        disk_codec: Codec::None,
        limit_bytes: None,
        export_bytes: None,
        force: false,
    };
    create(&fast, &slow, &options).unwrap();
    let disk = Disk::open(&slow, false).unwrap();
    let target = disk.target().clone();
    start(&fast, disk, target)
}

/// The cache that is there, before this target.
fn start(fast: &Path, disk: Disk, target: Arc<dyn Target>) -> (FlashCache, FileImage) {
    open::check(fast, &disk).unwrap();
    let config = device::existing(fast, &Label::read(fast).unwrap()).unwrap();
    let image = FileImage::open(fast, FileOptions::default()).unwrap();
    let cores = 0..config.firmware.cores;
    let media = cores.map(|core| image.media(core).unwrap()).collect();
    let drive = Drive::with_media(config, media).unwrap();
    let cache = FlashCache::start_drive(fast, drive, disk, target, How::Existing).unwrap();
    (cache, image)
}

/// Starts a task of the client, and gives what it will end with.
fn begin<F>(
    cache: &FlashCache,
    task: impl FnOnce(Rc<wharf_host::indexless::IndexlessClient>) -> F,
) -> Rc<Cell<Option<Result<(), IoError>>>>
where
    F: Future<Output = Result<(), IoError>> + 'static,
{
    let ended = Rc::new(Cell::new(None));
    let (outcome, task) = (ended.clone(), task(cache.client().clone()));
    let cpu = cache.engine().client_cpu();
    cpu.spawn("test", async move { outcome.set(Some(task.await)) });
    ended
}

fn write(cache: &FlashCache, offset: u64, byte: u8) {
    let data = vec![byte; PAGE];
    let extent = Extent::new(offset, PAGE as u64);
    let written = cache.run(async |client| client.write(extent, &data).await);
    written.unwrap();
}

/// A flush held up all requests of the cache for as long as `fdatasync` of FAST took.
#[test]
fn a_flush_that_takes_long_holds_up_no_reads_and_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, image) = cache(folder.path());
    write(&cache, 0, 1);
    write(&cache, 4096, 2);
    let held = image.hold_syncs();
    let flushed = begin(&cache, |client| async move { client.flush().await });
    let read = begin(&cache, |client| async move {
        let mut out = vec![0; PAGE];
        client
            .read(Extent::new(4096, PAGE as u64), &mut out)
            .await?;
        assert!(out.iter().all(|byte| *byte == 2));
        client
            .read(Extent::new(1 << 20, PAGE as u64), &mut out)
            .await?;
        assert!(out.iter().all(|byte| *byte == 7));
        client
            .write(Extent::new(0, PAGE as u64), &[3; PAGE])
            .await?;
        Ok(())
    });
    while read.get().is_none() {
        cache.pass();
        if let Some(early) = flushed.get() {
            panic!("the flush ended before the disk had anything: {early:?}");
        }
    }
    assert_eq!(read.get(), Some(Ok(())));
    // What comes now is not of the sync that goes on.
    let later = begin(&cache, |client| async move { client.flush().await });
    for _ in 0..1000 {
        cache.pass();
    }
    assert_eq!((flushed.get(), later.get()), (None, None));
    drop(held);
    while later.get().is_none() {
        cache.pass();
    }
    assert_eq!((flushed.get(), later.get()), (Some(Ok(())), Some(Ok(()))));
    cache.close().unwrap();
}

/// What a killed process had written to the disk and not flushed was taken for durable: a unit was written over the one
/// slot that was, and a power cut then could take both.
#[test]
fn a_disk_is_flushed_before_a_cache_that_was_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (killed, image) = cache(folder.path());
    drop((killed, image));
    let (fast, slow) = (folder.path().join("fast"), [folder.path().join("slow")]);
    let disk = Disk::open(&slow, false).unwrap();
    let (power, below) = (Power::new(), disk.target().clone());
    let faulty = Arc::new(Faulty::new(below, power.clone(), Seed(1)));
    let mut writer = Blocking::new(&*faulty).unwrap();
    writer.write(8192, &[9; PAGE]).unwrap();
    let (again, _image) = start(&fast, disk, faulty.clone());
    power.cut();
    drop(again);
    power.come_back();
    faulty.settle(Loss::All).unwrap();
    let mut found = [0; PAGE];
    writer.read(8192, &mut found).unwrap();
    assert!(found == [9; PAGE]);
}
