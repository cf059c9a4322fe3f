//! A disk behind a flash cache.
//!
//! One thread has the cache with its drive, its keeper and the I/O of the disk, and serves all
//! connections: every request is a task, and a hit crosses no thread. What goes on by itself
//! (sectors that are brought in, those that are written back) goes on between requests, and when
//! there are none. A thread that has nothing to do sleeps on its sockets and on the disk together.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use wharf_host::design::Client;
use wharf_host::indexless::{IndexlessClient, Store};
use wharf_host::span::Extent;
use wharf_nbd::{
    Answer, Can, Data, Errno, Export, ExportInfo, Extent as Run, Job, Outcome, Placement, Seat,
    Tag, Waiting,
};
use wharf_storage::Target;

use super::extents::extents;
use super::requests::{errno, outcome, read, settle, write, zero};
use super::target::Serving;
use crate::flash_cache::FlashCache;
use crate::flash_cache::disk::Disk;
use crate::flash_cache::figures::Figures;
use crate::flash_cache::open::{How, check};

/// How often tasks run before the sockets are looked at again.
const PASSES: u32 = 64;
/// How often to look while something is under way that gives no sign, in microseconds.
const LOOK_US: u32 = 50;
/// How often to look otherwise: something may be due by the clock.
const REST_US: u32 = 20_000;
/// Requests between two looks at the figures.
const FIGURES_EVERY: u32 = 256;

/// See the module.
pub struct FlashExport {
    info: ExportInfo,
    fast: PathBuf,
    /// Until the thread that serves has it.
    disk: Mutex<Option<Disk>>,
    figures: Arc<Figures>,
}

impl FlashExport {
    /// Serves the disk at `slow` behind the cache in `fast`. Both are looked at; the thread that
    /// serves opens the cache.
    ///
    /// # Errors
    /// If they cannot be used, or do not belong together.
    pub fn new(fast: &Path, slow: &[PathBuf], how: &Serving) -> Result<FlashExport, String> {
        let disk = Disk::open(slow, false).map_err(|error| error.to_string())?;
        let label = check(fast, &disk).map_err(|error| error.to_string())?;
        let has_holes = disk.target().holes().is_some() && label.store == Store::Plain;
        Ok(FlashExport {
            info: ExportInfo {
                name: how.name.clone(),
                description: format!("{} behind the cache {}", label.disk_path, fast.display()),
                size_bytes: label.export_bytes,
                block_bytes_min: 1,
                block_bytes_preferred: 4096,
                can: Can {
                    write: !how.read_only,
                    flush: true,
                    trim: true,
                    zero: true,
                    fast_zero: true,
                    cache: true,
                    status: has_holes,
                    multi_conn: true,
                },
            },
            fast: fast.into(),
            disk: Mutex::new(Some(disk)),
            figures: Arc::default(),
        })
    }
}

impl Export for FlashExport {
    fn info(&self) -> &ExportInfo {
        &self.info
    }

    fn placement(&self) -> Placement {
        Placement::OneThread
    }

    fn seat(&self) -> Result<Box<dyn Seat + '_>, String> {
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        let disk = disk.take().ok_or("the cache has one seat")?;
        let cache = FlashCache::open_on(&self.fast, disk, How::Existing);
        let cache = cache.map_err(|error| error.to_string())?;
        Ok(Box::new(FlashSeat {
            cache: Some(cache),
            state: Rc::default(),
            is_busy: true,
            figures: self.figures.clone(),
            until_figures: 0,
        }))
    }

    fn metrics(&self, text: &mut String) {
        self.figures.write(text);
    }
}

/// What tasks have ended with.
#[derive(Default)]
struct State {
    ended: RefCell<VecDeque<(Tag, Outcome)>>,
    under_way: Cell<usize>,
}

struct FlashSeat {
    cache: Option<FlashCache>,
    state: Rc<State>,
    /// Something went on by itself when it was last looked at.
    is_busy: bool,
    figures: Arc<Figures>,
    until_figures: u32,
}

impl FlashSeat {
    fn cache(&self) -> &FlashCache {
        self.cache.as_ref().expect("it is there until the end")
    }

    /// Starts a task, whose outcome `poll` reports.
    fn spawn<F>(&self, tag: Tag, make: impl FnOnce(Rc<IndexlessClient>) -> F)
    where
        F: Future<Output = Outcome> + 'static,
    {
        let cache = self.cache();
        let (state, future) = (self.state.clone(), make(cache.client().clone()));
        state.under_way.set(state.under_way.get() + 1);
        cache
            .engine()
            .client_cpu()
            .spawn("nbd request", async move {
                let outcome = future.await;
                state.ended.borrow_mut().push_back((tag, outcome));
            });
    }

    /// Says where there is data: where the disk has it, or the cache has what the disk has not got
    /// yet.
    fn status(&self, tag: Tag, (offset, len): (u64, u64), extents_max: usize) {
        let cache = self.cache();
        let (target, look) = (cache.disk().target().clone(), cache.look().1.clone());
        let sectors = cache.label().sectors();
        let state = self.state.clone();
        state.under_way.set(state.under_way.get() + 1);
        cache.look().0.spawn("nbd status", async move {
            let (first, end) = (offset / 4096, (offset + len).div_ceil(4096));
            let dirty = look.allocated(sectors + first, end - first).await;
            let outcome = dirty.map_err(|error| errno(&error)).and_then(|dirty| {
                let dirty = dirty.into_iter().map(|(page, pages)| {
                    let from = (page - sectors) * 4096;
                    (from.max(offset), (from + pages * 4096).min(offset + len))
                });
                on_top(&*target, (offset, len), dirty.collect(), extents_max)
            });
            state.ended.borrow_mut().push_back((tag, outcome));
        });
    }
}

/// The extents of the disk, with data on top of them.
fn on_top(
    target: &dyn Target,
    (offset, len): (u64, u64),
    data: Vec<(u64, u64)>,
    extents_max: usize,
) -> Outcome {
    let (mut found, mut at) = (Vec::new(), offset);
    for (from, to) in data.into_iter().chain([(offset + len, offset + len)]) {
        if found.len() >= extents_max {
            break;
        }
        if from > at {
            let left = extents_max - found.len();
            let Answer::Extents(below) = extents(target, at, from - at, left)? else {
                return Err(Errno::Io);
            };
            let told: u64 = below.iter().map(|run| run.len).sum();
            below.into_iter().for_each(|run| run.push(&mut found));
            if at + told < from {
                break;
            }
        }
        Run::data(to - from).push(&mut found);
        at = to;
    }
    found.truncate(extents_max);
    Ok(Answer::Extents(found))
}

/// Makes a range zeros: pages that it covers whole are forgotten, which makes them zeros, and the
/// rest is written.
async fn make_zeros(
    client: &IndexlessClient,
    offset: u64,
    len: u64,
) -> Result<(), wharf_host::error::IoError> {
    let (first, end) = (offset.next_multiple_of(4096), (offset + len) / 4096 * 4096);
    if first >= end {
        return zero(client, offset, len).await;
    }
    zero(client, offset, first - offset).await?;
    client.discard(Extent::new(first, end - first)).await?;
    zero(client, end, offset + len - end).await
}

impl Seat for FlashSeat {
    fn begin(&mut self, tag: Tag, job: Job) -> Option<Outcome> {
        self.is_busy = true;
        match job {
            Job::Read { buffer, .. } if buffer.is_empty() => {
                return Some(Ok(Answer::Buffer(buffer)));
            }
            Job::Read { offset, buffer } => {
                self.spawn(
                    tag,
                    |client| async move { read(&*client, offset, buffer).await },
                );
            }
            Job::Write {
                offset,
                data: Data::Buffer(buffer),
                fua,
            } if !buffer.is_empty() => self.spawn(tag, |client| async move {
                let changed = write(&*client, offset, &buffer).await;
                settle(&*client, changed, fua).await
            }),
            Job::Write { .. } => return Some(Ok(Answer::Nothing)),
            Job::Flush => {
                self.spawn(tag, |client| async move { outcome(client.flush().await) });
            }
            Job::Trim { len: 0, .. } | Job::Zero { len: 0, .. } | Job::Cache { len: 0, .. } => {
                return Some(Ok(Answer::Nothing));
            }
            Job::Cache { offset, len } => self.spawn(tag, move |client| async move {
                // Whoever brings sectors near reads them.
                let step = 1 << 20;
                let mut bytes = vec![0; step.min(len) as usize];
                let (mut at, end) = (offset, offset + len);
                while at < end {
                    let count = step.min(end - at);
                    let extent = Extent::new(at, count);
                    let read = client.read(extent, &mut bytes[..count as usize]).await;
                    read.map_err(|error| errno(&error))?;
                    at += count;
                }
                Ok(Answer::Nothing)
            }),
            Job::Trim { offset, len, fua } => self.spawn(tag, move |client| async move {
                let changed = client.discard(Extent::new(offset, len)).await;
                settle(&*client, changed, fua).await
            }),
            Job::Zero { fast: true, .. } => return Some(Err(Errno::NotSupported)),
            Job::Zero {
                offset,
                len,
                no_hole,
                fua,
                ..
            } => self.spawn(tag, move |client| async move {
                let changed = match no_hole {
                    true => zero(&*client, offset, len).await,
                    false => make_zeros(&client, offset, len).await,
                };
                settle(&*client, changed, fua).await
            }),
            Job::Status {
                offset,
                len,
                extents_max,
            } => self.status(tag, (offset, len), extents_max),
        }
        None
    }

    fn poll(&mut self, done: &mut dyn FnMut(Tag, Outcome)) {
        for _ in 0..PASSES {
            self.is_busy = self.cache().pass();
            if !self.is_busy || !self.state.ended.borrow().is_empty() {
                break;
            }
        }
        for (tag, outcome) in self.state.ended.take() {
            self.state.under_way.set(self.state.under_way.get() - 1);
            done(tag, outcome);
            self.until_figures = self.until_figures.saturating_sub(1);
        }
        if self.until_figures == 0 || !self.is_busy {
            self.until_figures = FIGURES_EVERY;
            self.figures.note(self.cache());
        }
    }

    fn waiting(&self) -> Waiting {
        if self.is_busy {
            return Waiting::Busy;
        }
        let arrivals = self.cache().engine().reactor().arrivals();
        let look_us = match self.state.under_way.get() {
            // The drive looks by the clock for pages on their way from slow media.
            1.. => LOOK_US,
            0 if arrivals.has_silent => LOOK_US,
            0 => REST_US,
        };
        Waiting::For(arrivals.descriptors, Some(look_us))
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(cache) = self.cache.take() else {
            return Ok(());
        };
        cache.close().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use wharf_storage::FileOptions;

    use super::*;

    /// A client that asks for one extent was told two: the hole, and the data that the cache has behind it.
    #[test]
    fn no_more_extents_are_told_than_were_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let options = FileOptions {
            create_bytes: Some(1 << 20),
            ..FileOptions::default()
        };
        let target = wharf_storage::open(&folder.path().join("disk"), &options).unwrap();
        let told = |extents_max| {
            let data = vec![(65536, 131_072), (262_144, 266_240)];
            match on_top(&*target, (4096, 1 << 19), data, extents_max).unwrap() {
                Answer::Extents(found) => found,
                other => panic!("{other:?}"),
            }
        };
        let all = told(100);
        let lens: Vec<(u64, bool)> = all.iter().map(|run| (run.len, run.hole)).collect();
        let rest = 4096 + (1 << 19) - 266_240;
        let expected = [
            (61_440, true),
            (65_536, false),
            (131_072, true),
            (4096, false),
            (rest, true),
        ];
        assert_eq!(lens, expected);
        for count in 1..5 {
            assert_eq!(told(count), all[..count], "{count} extents");
        }
    }
}
