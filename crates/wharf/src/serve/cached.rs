//! A file, a block device or an array behind a page cache.
//!
//! 1. A read of pages that are in the cache is answered on the connection's own thread.
//! 2. A write of whole pages goes into the cache there too: it reads nothing, and waits only where
//!    the cache makes writers wait, when too much is dirty.
//! 3. What may wait for the storage (reads of missing pages, writes of parts of pages, flushes) is done
//!    on threads beside, many at a time.
//!
//! A write is in memory when it is answered; a flush, or FUA, makes it durable.
//!
//! A trim has the pages that it covers whole leave the cache, what is dirty of them by being written back, and
//! makes a hole below. What clients read of them is what was there or zeros, until they leave the cache again.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use wharf_nbd::pool::{Inbox, Pool};
use wharf_nbd::{
    Answer, Buffer, Data, Errno, Export, ExportInfo, Job, Outcome, Seat, Tag, Waiting,
};
use wharf_runtime::sync::{AtomicU64, Ordering};
use wharf_storage::Target;

use super::extents::extents;
use super::target::{Serving, flush, info, open_file};
use crate::page_cache::{Advice, File, PageCache, PageCacheError, PageCacheOptions, Replacement};

const PAGE: u64 = 4096;
/// Threads for what waits: so many misses are under way at a time.
const THREADS: u32 = 16;
/// Zeros that are written at a time, in bytes.
const ZEROS_BYTES: u64 = 256 << 10;
/// Data that is brought near at a time, in bytes.
const NEAR_BYTES: u64 = 1 << 20;
/// Holes are made in steps of so many bytes.
const HOLE_BYTES: u64 = 256 << 20;

/// See the module.
pub struct CachedExport {
    info: ExportInfo,
    body: Arc<Body>,
    pool: Pool,
}

/// What seats and the threads beside them share.
struct Body {
    file: Mutex<Option<File>>,
    shared: File,
    target: Arc<dyn Target>,
    /// Writes that have ended.
    writes: AtomicU64,
    /// As many had ended when the last sync began that ended well.
    synced: AtomicU64,
}

impl CachedExport {
    /// Serves a file behind a cache of `cache_bytes` with this policy, for so many connections.
    ///
    /// # Errors
    /// If it cannot be opened or used, or memory is short.
    pub fn new(
        path: &Path,
        create_bytes: Option<u64>,
        cache_bytes: u64,
        replacement: Replacement,
        connections: u32,
        how: &Serving,
    ) -> Result<CachedExport, String> {
        let text = |error: PageCacheError| error.to_string();
        let target = open_file(path, create_bytes, how.read_only)?;
        let mut info = info(&*target, how);
        info.description = format!("{}, behind a page cache", info.description);
        // The cache puts parts of pages together.
        info.block_bytes_min = 1;
        info.size_bytes = target.size_bytes();
        info.can.cache = true;
        let cache = PageCache::new(&PageCacheOptions {
            memory_bytes: cache_bytes,
            replacement,
            files_max: 1,
            // One more ends the last file.
            threads_max: (connections + THREADS + 2).min(4096),
            ..PageCacheOptions::default()
        });
        let file = cache
            .map_err(text)?
            .open_target(target.clone())
            .map_err(text)?;
        Ok(CachedExport {
            info,
            body: Arc::new(Body {
                shared: file.clone(),
                file: Mutex::new(Some(file)),
                target,
                writes: AtomicU64::new(0),
                synced: AtomicU64::new(0),
            }),
            pool: Pool::new(THREADS).map_err(|error| error.to_string())?,
        })
    }
}

impl Export for CachedExport {
    fn info(&self) -> &ExportInfo {
        &self.info
    }

    fn seat(&self) -> Result<Box<dyn Seat + '_>, String> {
        Ok(Box::new(CachedSeat {
            export: self,
            inbox: Inbox::new().map_err(|error| error.to_string())?,
        }))
    }

    fn close(&self) -> Result<(), String> {
        if !self.info.can.write {
            return Ok(());
        }
        let file = self
            .body
            .file
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // A handle that hears of every failed write-back since the file was opened.
        file.map_or(Ok(()), |file| {
            file.close().map_err(|error| error.to_string())
        })
    }
}

/// What an error of the cache is to a client.
fn errno(error: &PageCacheError) -> Errno {
    match error {
        PageCacheError::NoRoom { .. } => Errno::NoSpace,
        PageCacheError::ReadOnly { .. } | PageCacheError::OpenReadOnly { .. } => Errno::Perm,
        PageCacheError::Memory(_) | PageCacheError::NoThreadLeft { .. } => Errno::NoMemory,
        _ => Errno::Io,
    }
}

/// What a call came to.
fn outcome(result: Result<(), PageCacheError>) -> Outcome {
    result
        .map(|()| Answer::Nothing)
        .map_err(|error| errno(&error))
}

impl Body {
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), PageCacheError> {
        let written = self.shared.write_all_at(data, offset);
        // Release, also after an error: some pages may be new.
        self.writes.fetch_add(1, Ordering::Release);
        written
    }

    fn sync(&self) -> Result<(), PageCacheError> {
        let before = self.writes.load(Ordering::Acquire);
        self.shared.sync_all()?;
        self.synced.fetch_max(before, Ordering::Release);
        Ok(())
    }

    fn write_then(&self, offset: u64, buffer: &Buffer, fua: bool) -> Outcome {
        outcome(self.write(offset, buffer).and_then(|()| match fua {
            true => self.sync(),
            false => Ok(()),
        }))
    }

    /// Has whole pages leave the cache, and makes a hole below. A file system that makes none keeps them.
    fn trim(&self, offset: u64, len: u64, fua: bool) -> Outcome {
        let (first, end) = (offset.next_multiple_of(PAGE), (offset + len) / PAGE * PAGE);
        let Some(holes) = self.target.holes().filter(|_| first < end) else {
            return Ok(Answer::Nothing);
        };
        outcome(self.shared.sync_range(first, end - first))?;
        let mut at = first;
        while at < end {
            let step = (end - at).min(HOLE_BYTES);
            let punched = holes.punch(at, step);
            match punched.map_err(|errno| Errno::of_system(errno.raw_os_error())) {
                Ok(()) => {}
                Err(Errno::NotSupported) => break,
                Err(errno) => return Err(errno),
            }
            at += step;
        }
        // What lies below is not what is in memory any more.
        outcome(self.shared.advise(first, end - first, Advice::DontNeed))?;
        match fua {
            true => flush(&*self.target).map(|()| Answer::Nothing),
            false => Ok(Answer::Nothing),
        }
    }

    fn zero(&self, offset: u64, len: u64, fua: bool) -> Outcome {
        let zeros = vec![0; len.min(ZEROS_BYTES) as usize];
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let step = (end - at).min(ZEROS_BYTES) as usize;
            self.write(at, &zeros[..step])
                .map_err(|error| errno(&error))?;
            at += step as u64;
        }
        match fua {
            true => outcome(self.sync()),
            false => Ok(Answer::Nothing),
        }
    }

    /// What the file system says, once it has all that was written.
    fn status(&self, offset: u64, len: u64, extents_max: usize) -> Outcome {
        if self.writes.load(Ordering::Acquire) != self.synced.load(Ordering::Acquire) {
            self.sync().map_err(|error| errno(&error))?;
        }
        extents(&*self.target, offset, len, extents_max)
    }

    fn bring_near(&self, offset: u64, len: u64) -> Outcome {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let step = (end - at).min(NEAR_BYTES);
            outcome(self.shared.advise(at, step, Advice::WillNeed))?;
            at += step;
        }
        Ok(Answer::Nothing)
    }
}

struct CachedSeat<'a> {
    export: &'a CachedExport,
    inbox: Arc<Inbox>,
}

impl CachedSeat<'_> {
    fn beside(&self, tag: Tag, job: impl FnOnce(&Body) -> Outcome + Send + 'static) {
        let body = self.export.body.clone();
        self.export.pool.run(tag, &self.inbox, move || job(&body));
    }
}

impl Seat for CachedSeat<'_> {
    fn begin(&mut self, tag: Tag, job: Job) -> Option<Outcome> {
        let body = &self.export.body;
        match job {
            Job::Read { offset, mut buffer } => {
                match body.shared.read_cached(&mut buffer, offset) {
                    Ok(there) if there == buffer.len() => return Some(Ok(Answer::Buffer(buffer))),
                    Ok(there) => self.beside(tag, move |body| {
                        let rest = &mut buffer[there..];
                        match body.shared.read_exact_at(rest, offset + there as u64) {
                            Ok(()) => Ok(Answer::Buffer(buffer)),
                            Err(error) => Err(errno(&error)),
                        }
                    }),
                    Err(error) => return Some(Err(errno(&error))),
                }
            }
            Job::Write {
                offset,
                data: Data::Buffer(buffer),
                fua,
            } => {
                let is_whole = (offset | buffer.len() as u64).is_multiple_of(PAGE);
                if is_whole && !fua {
                    return Some(outcome(body.write(offset, &buffer)));
                }
                self.beside(tag, move |body| body.write_then(offset, &buffer, fua));
            }
            Job::Write { .. } => return Some(Err(Errno::Invalid)),
            Job::Flush => self.beside(tag, |body| outcome(body.sync())),
            // Zeros are written, page by page.
            Job::Zero { fast: true, .. } => return Some(Err(Errno::NotSupported)),
            Job::Trim { offset, len, fua } => {
                self.beside(tag, move |body| body.trim(offset, len, fua));
            }
            Job::Zero {
                offset, len, fua, ..
            } => self.beside(tag, move |body| body.zero(offset, len, fua)),
            Job::Cache { offset, len } => {
                self.beside(tag, move |body| body.bring_near(offset, len))
            }
            Job::Status {
                offset,
                len,
                extents_max,
            } => self.beside(tag, move |body| body.status(offset, len, extents_max)),
        }
        None
    }

    fn poll(&mut self, done: &mut dyn FnMut(Tag, Outcome)) {
        self.inbox.take(done);
    }

    fn waiting(&self) -> Waiting {
        match self.inbox.descriptor() {
            None => Waiting::Nothing,
            inbox => Waiting::For([inbox, None], None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use wharf_nbd::buffer::BufferPool;

    use super::*;

    fn done(seat: &mut dyn Seat, job: Job) -> Outcome {
        let tag = Tag {
            connection: 0,
            slot: 0,
        };
        let mut ended = seat.begin(tag, job);
        while ended.is_none() {
            std::thread::yield_now();
            seat.poll(&mut |_, outcome| ended = Some(outcome));
        }
        ended.expect("it was waited for")
    }

    /// A file behind a page cache took no trim: what was deleted kept its room for ever.
    #[test]
    fn a_trim_behind_the_page_cache_gives_room_back_and_touches_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 8 << 20]).unwrap();
        let how = Serving {
            name: String::new(),
            read_only: false,
        };
        let export = CachedExport::new(&path, None, 4 << 20, Replacement::S3Fifo, 1, &how).unwrap();
        assert!(export.info().can.trim);
        let mut seat = export.seat().unwrap();
        let blocks = || std::fs::metadata(&path).unwrap().blocks() * 512;
        let before = blocks();
        let mut buffer = BufferPool::default().take(64 << 10);
        buffer.fill(9);
        let write = Job::Write {
            offset: (1 << 20) - 4096,
            data: Data::Buffer(buffer),
            fua: false,
        };
        done(&mut *seat, write).unwrap();
        let trim = Job::Trim {
            offset: (1 << 20) - 100,
            len: (4 << 20) + 200,
            fua: true,
        };
        done(&mut *seat, trim).unwrap();
        if blocks() == before {
            println!("skipped: no holes on this file system");
            return;
        }
        assert!(blocks() + (4 << 20) <= before, "{} of {before}", blocks());
        let mut read = |offset: u64| {
            let buffer = BufferPool::default().take(4096);
            match done(&mut *seat, Job::Read { offset, buffer }).unwrap() {
                Answer::Buffer(buffer) => buffer.to_vec(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(read((1 << 20) - 4096), vec![9; 4096], "before it");
        assert_eq!(read(1 << 20), vec![0; 4096], "its first page");
        assert_eq!(read(2 << 20), vec![0; 4096], "its middle");
        assert_eq!(read(5 << 20), vec![7; 4096], "behind it");
        drop(seat);
        export.close().unwrap();
    }
}
