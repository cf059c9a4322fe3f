//! The memory that the shared mappings of one file have in this process.

use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SeekFrom};
use rustix::mm::{MapFlags, ProtFlags, mmap as map, munmap as unmap};
use wharf_files::Seek;

use super::data::{attributes, bytes, find, read_from_drive, write_to_drive};
use crate::errno::{Errno, Outcome};
use crate::find::{OWN_LEAST, high};
use crate::table::{Open, Ref};

pub(super) const PAGE: usize = 4096;

const ZEROS: [u8; PAGE] = [0; PAGE];

/// Bytes of a file that are looked at together.
const LOOK: usize = 1 << 20;

/// What the file has of a page that has come, as far as is known.
enum Known {
    /// Zeros, which take no memory.
    Zeros,
    /// What is in memory, as long as nobody may change that.
    AsInMemory,
    /// These.
    Bytes(Box<[u8; PAGE]>),
}

/// See the [module](self).
pub(super) struct Memory {
    file: OwnedFd,
    /// All of it, as this library sees it.
    view: *mut u8,
    pub(super) bytes: usize,
    /// What the file has of each page that has come.
    known: BTreeMap<usize, Known>,
    pub(super) open: Ref,
    pub(super) mappings: usize,
    /// Whether no other process may map the file. One that does not write to its mapping bears others that do not.
    pub(super) is_alone: bool,
    /// Whether anybody may have changed it: SQLite maps files to read them alone, and would wait for comparisons at each call.
    may_change: bool,
    /// The file as it was when the pages were last looked at, as [`version`] says it; none if they were not since they came.
    seen: Option<Version>,
}

/// What changes when a file is written: its times, and its size.
type Version = (u64, u64, u64);

fn version(open: &Open) -> Outcome<Version> {
    let now = attributes(open)?;
    Ok((now.modified_ns, now.changed_ns, now.bytes))
}

// SAFETY: the view is the memory's own, used by whoever has the lock.
unsafe impl Send for Memory {}

/// Fills memory from a file; behind its end there are zeros.
pub(super) fn fill(open: &Open, offset: u64, out: &mut [u8]) -> Outcome<()> {
    let mut done = 0;
    while done < out.len() {
        match read_from_drive(open, offset + done as u64, &mut out[done..])? {
            0 => break,
            now => done += now,
        }
    }
    Ok(())
}

/// Where a file has bytes that are not a hole, from here on.
fn next_data(open: &Open, from: u64) -> Outcome<Option<u64>> {
    match find(open, from, Seek::Data) {
        Err(Errno(libc::ENXIO)) => Ok(None),
        next => next.map(Some),
    }
}

fn memfd() -> Outcome<OwnedFd> {
    let file = rustix::fs::memfd_create("wharf mapping", MemfdFlags::CLOEXEC)?;
    high(file, true)
}

impl Memory {
    /// None of a file's pages yet. This process maps the file from now on, alone or beside others that read it.
    ///
    /// # Errors
    /// `ENODEV` if another process is in the way. `EMFILE` for one that reads, where it would take a number of a descriptor that the
    /// program may want.
    pub(super) fn new(open: Ref, is_alone: bool) -> Outcome<Memory> {
        crate::locks::mapped(&open, is_alone)?;
        let made = memfd().and_then(|file| match file.as_raw_fd() < OWN_LEAST && !is_alone {
            true => Err(Errno(libc::EMFILE)),
            false => Ok(file),
        });
        let file = made.inspect_err(|_| crate::locks::unmapped(&open))?;
        // Before any page is read: what is written meanwhile shows the next time.
        let seen = version(&open).ok();
        Ok(Memory {
            file,
            view: ptr::null_mut(),
            bytes: 0,
            known: BTreeMap::new(),
            open,
            mappings: 0,
            is_alone,
            may_change: false,
            seen,
        })
    }

    /// No other process maps the file from now on; the description is one that may write.
    pub(super) fn be_alone(&mut self, open: &Ref) -> Outcome<()> {
        if !self.is_alone {
            crate::locks::mapped(open, true)?;
            self.open = open.clone();
            self.is_alone = true;
        }
        Ok(())
    }

    /// A descriptor for a mapping; one of which nobody can make a mapping that is written if `writes` is false.
    pub(super) fn descriptor(&self, writes: bool) -> Outcome<OwnedFd> {
        let how = if writes { OFlags::RDWR } else { OFlags::RDONLY };
        let path = crate::page::of_process(self.file.as_raw_fd());
        Ok(rustix::fs::open(
            path,
            how | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    }

    /// The program may change it from now on.
    pub(super) fn allow_changes(&mut self) {
        if !self.is_alone || std::mem::replace(&mut self.may_change, true) {
            return;
        }
        let mut all = std::mem::take(&mut self.known);
        for (page, known) in &mut all {
            if let Known::AsInMemory = known {
                let mut now = Box::new(ZEROS);
                now.copy_from_slice(self.page(*page));
                *known = Known::Bytes(now);
            }
        }
        self.known = all;
    }

    /// Has the file's bytes from `offset` on in memory.
    pub(super) fn bring(&mut self, offset: usize, bytes: usize) -> Outcome<()> {
        let end = (offset + bytes).next_multiple_of(PAGE);
        if end > self.bytes {
            rustix::fs::ftruncate(&self.file, end as u64)?;
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a mapping of its own, in the place of the smaller one, which only this library uses.
            unsafe {
                let view = map(
                    ptr::null_mut(),
                    end,
                    access,
                    MapFlags::SHARED,
                    &self.file,
                    0,
                )?;
                if !self.view.is_null() {
                    unmap(self.view.cast(), self.bytes)?;
                }
                self.view = view.cast();
            }
            self.bytes = end;
        }
        self.look(offset / PAGE..end / PAGE, false)
    }

    /// Looks at the file's pages: at those that have not come, or `anew` at those that have.
    pub(super) fn look(&mut self, pages: Range<usize>, anew: bool) -> Outcome<()> {
        let mut chunk = vec![0; LOOK];
        let mut page = pages.start;
        while page < pages.end {
            let data = next_data(&self.open, (page * PAGE) as u64)?;
            let data = data.map_or(pages.end, |at| (at as usize / PAGE).clamp(page, pages.end));
            (page..data).for_each(|hole| self.learn(hole, None, anew));
            let bytes = ((pages.end - data) * PAGE).min(LOOK);
            let chunk = &mut chunk[..bytes];
            chunk.fill(0);
            fill(&self.open, (data * PAGE) as u64, chunk)?;
            for (index, new) in chunk.as_chunks::<PAGE>().0.iter().enumerate() {
                let is_zero = new.iter().all(|byte| *byte == 0);
                self.learn(data + index, (!is_zero).then_some(new), anew);
            }
            page = data + bytes / PAGE;
        }
        Ok(())
    }

    /// The file has these bytes in a page, or zeros.
    fn learn(&mut self, page: usize, new: Option<&[u8; PAGE]>, anew: bool) {
        let bytes = new.unwrap_or(&ZEROS);
        let is_known = match self.known.get(&page) {
            None => anew,
            Some(_) if !anew => true,
            Some(Known::Zeros) => new.is_none(),
            Some(Known::Bytes(known)) => **known == *bytes,
            Some(Known::AsInMemory) => self.page(page) == bytes,
        };
        if is_known {
            return;
        }
        match new {
            Some(new) => self.page(page).copy_from_slice(new),
            None if anew => self.page(page).fill(0),
            None => {}
        }
        let known = match (new, self.may_change) {
            (None, _) => Known::Zeros,
            (Some(_), false) => Known::AsInMemory,
            (Some(new), true) => Known::Bytes(Box::new(*new)),
        };
        self.known.insert(page, known);
    }

    fn page(&mut self, page: usize) -> &mut [u8] {
        // SAFETY: inside the view. The program may change it meanwhile, as it may any mapping: these are bytes that are copied.
        unsafe { std::slice::from_raw_parts_mut(self.view.add(page * PAGE), PAGE) }
    }

    /// Brings back what was changed, as far as the file goes.
    pub(super) fn bring_back(&mut self) -> Outcome<()> {
        if !self.may_change {
            return Ok(());
        }
        let end = (bytes(&self.open)? as usize).min(self.bytes);
        let mut from = 0;
        // Where nothing was ever written there is no memory.
        while let Some(data) = self
            .next(SeekFrom::Data(from as u64))?
            .filter(|at| *at < end)
        {
            let hole = self.next(SeekFrom::Hole(data as u64))?.unwrap_or(end);
            for page in data / PAGE..hole.min(end).div_ceil(PAGE) {
                self.bring_page_back(page, (end - page * PAGE).min(PAGE))?;
            }
            from = hole;
        }
        Ok(())
    }

    /// The next data, or hole, of the memory.
    fn next(&self, from: SeekFrom) -> Outcome<Option<usize>> {
        match rustix::fs::seek(&self.file, from) {
            Ok(at) => Ok(Some(at as usize)),
            Err(rustix::io::Errno::NXIO) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn bring_page_back(&mut self, page: usize, end: usize) -> Outcome<()> {
        // The program may change it meanwhile.
        let mut now = [0; PAGE];
        now.copy_from_slice(self.page(page));
        let known = match self.known.get(&page) {
            Some(Known::Zeros) => &ZEROS,
            Some(Known::Bytes(known)) => known,
            Some(Known::AsInMemory) | None => return Ok(()),
        };
        if known[..end] != now[..end] {
            let mut known = Box::new(*known);
            write_to_drive(&self.open, (page * PAGE) as u64, &now[..end], false)?;
            known[..end].copy_from_slice(&now[..end]);
            self.known.insert(page, Known::Bytes(known));
        }
        Ok(())
    }

    /// Has what others have written to the file since.
    pub(super) fn catch_up(&mut self) -> Outcome<()> {
        self.bring_back()?;
        // Before the pages are read: what is written meanwhile shows the next time.
        let now = version(&self.open)?;
        if self.seen == Some(now) {
            return Ok(());
        }
        let ends = (self.known.first_key_value(), self.known.last_key_value());
        if let (Some((first, _)), Some((last, _))) = ends {
            self.look(*first..last + 1, true)?;
        }
        self.seen = Some(now);
        Ok(())
    }

    /// Bytes of the file have become these.
    pub(super) fn written(&mut self, offset: usize, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let (page, from) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let now = (PAGE - from).min(data.len() - done);
            let data_here = &data[done..done + now];
            let may_change = self.may_change;
            if let Some(known) = self.known.get_mut(&page) {
                if let Known::Zeros = known {
                    *known = match may_change {
                        true => Known::Bytes(Box::new(ZEROS)),
                        false => Known::AsInMemory,
                    };
                }
                if let Known::Bytes(known) = known {
                    known[from..from + now].copy_from_slice(data_here);
                }
                self.page(page)[from..from + now].copy_from_slice(data_here);
            }
            done += now;
        }
    }

    /// The file ends here now.
    pub(super) fn cut(&mut self, end: usize) {
        let whole = end.next_multiple_of(PAGE);
        if end < whole.min(self.bytes) {
            let (page, from) = (end / PAGE, end % PAGE);
            self.page(page)[from..].fill(0);
            if let Some(Known::Bytes(known)) = self.known.get_mut(&page) {
                known[from..].fill(0);
            }
        }
        if whole < self.bytes {
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let rest = (self.bytes - whole) as u64;
            // It is memory: a hole can be made in it.
            let _ = rustix::fs::fallocate(&self.file, how, whole as u64, rest);
            let rest = self.known.range_mut(whole / PAGE..);
            rest.for_each(|(_, known)| *known = Known::Zeros);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.view.is_null() {
            // SAFETY: mapped by this.
            let _ = unsafe { unmap(self.view.cast(), self.bytes) };
        }
    }
}
