//! What a process keeps of files that a drive in another process has: pages of bytes, sizes, attributes.
//!
//! Problem: each read and each `fstat` is a command to the drive. To keep answers is of use only if nobody gets an
//! old one: other processes change the same files.
//!
//! Idea: the drive gives *leases* of files. A lease is a word of memory that it shares with this process, and which it
//! sets to 0 before anybody else changes the file (section 6.7 of `docs/command-set.md`). All that is kept of a file is kept
//! under its lease, and is used only after a look at the word.
//!
//! 1. A read looks at the word first (`leased.rs`). If the lease lasts, it copies the pages that are here (`frames.rs`).
//! 2. Pages that are missing are read by a command, with some beside or behind them (`ahead.rs`). They are kept if the word still
//!    has the lease's number after the command has ended.
//! 3. Without a lease it is asked for one. If there is none, the read is a command like any other.
//! 4. What this process writes goes to the pages here, and to memory from which the drive takes it before anybody else sees the file
//!    (`writes.rs`), if it has a lease to write; else to the drive at once, by a command. If the process is killed the drive takes it all the
//!    same: nothing is lost that it was told was written. Its own changes do not end its leases. In the other modes of writes
//!    ([`WriteMode`]) all go to the drive at once, and the pages here are replaced, or dropped, when that has ended.
//!
//! What is promised, and why: operations of all processes are as if each took effect at one instant between its beginning and
//! its end (a read or a write of several pages: each page). For a read of what is kept this is the instant of the
//! look: the drive writes 0 before a change by another takes effect, so none had when the number was there. If a write of another process had
//! ended before the read began, whoever knows that (by a pipe, by memory, by the clock) has it from after the completion, which the drive released after it had
//! written 0: the look finds 0. One look is enough: the pages are this process's own memory, used by one thread at a time (`turns.rs` of the store), and what the drive
//! tells while they are copied is of changes that take effect after the look. The word is looked at again only for what comes by a command.
//!
//! Without coherence ([`Coherence::None`]) nobody looks at words, and attributes are asked for in place of a lease: what is kept may be older than what
//! others have written. What this process writes is right all the same: a lease to write there is as ever, and nothing from before it is used under it.
//!
//! What others change and `accessed_ns` and `stored_bytes` alone tell of may show later.
//!
//! | file | idea |
//! |---|---|
//! | `leased.rs` | what is known of files, and whether it is so |
//! | `frames.rs` | pages, and which one makes room |
//! | `writes.rs` | what was written, and the drive has not taken yet |
//! | `written.rs` | what becomes of writes in each mode, here |
//! | `granted.rs` | locks that this process grants itself while nobody else has any |
//! | `places.rs` | which file has which place of those that the drive takes something from |
//! | `together.rs` | what threads ask for while others change it |
//! | `pause.rs` | when a lease is asked for again that others end again and again |
//! | `names.rs` | what paths lead to |
//! | `near/` | what the drive has in its own memory, where this process uses both |
//! | `ahead.rs` | how much is read where a page is missing |

mod ahead;
mod frames;
mod granted;
mod leased;
mod names;
mod near;
mod pause;
mod places;
#[cfg(test)]
mod tests;
mod together;
mod writes;
mod written;

use wharf_files::locks::LockError;
use wharf_files::vfs::At;
use wharf_files::{Attributes, Caller, Errno, Handle, Kind, OpenFlags};
use wharf_host::stor::{HeldLock, Leased, LockRequest};
use wharf_wire::dma::DmaRegion;
use wharf_wire::file::write_area;

use super::keeping::{Coherence, Keeping, WriteMode};
use frames::{Frames, PAGE};
pub(super) use granted::Change;
use granted::{Granted, May};
use leased::{FILES_MAX, Files};
pub(super) use names::{Answer, Names};
use near::Near;
pub(super) use places::Wanted;
pub(super) use together::{Asked as Question, Part, Together};
use writes::Writes;

/// See the [module](self).
pub(super) struct Cache {
    files: Files,
    frames: Frames,
    mode: WriteMode,
    writes: Writes,
    locks: Granted,
    pub(super) names: Names,
    pub(super) together: Together,
    /// Where pages are in the drive's memory too.
    near: Option<Near>,
    /// What is open, by the index of its handle.
    opened: Vec<Opened>,
    counts: CacheCounts,
}

/// What a cache did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Reads that took no command.
    pub hits: u64,
    /// Commands that read pages to be kept.
    pub misses: u64,
    /// Questions for attributes that took no command.
    pub attributes: u64,
    /// Leases of files that were given.
    pub leases: u64,
    /// Questions about paths that took no command.
    pub names: u64,
    /// Writes that took no command.
    pub writes: u64,
    /// Locks that took no command: granted, refused, given back, looked for.
    pub locks: u64,
    /// Leases of locks that were given.
    pub lock_leases: u64,
    /// Reads by way of the drive's cache.
    pub near_reads: u64,
    /// Writes to it.
    pub near_writes: u64,
    /// Pages that it had of these.
    pub near_hits: u64,
}

/// Something that is open.
#[derive(Debug, Clone, Copy, Default)]
struct Opened {
    generation: u32,
    /// Where the file is among those that are known.
    place: u16,
    /// It is open, and a regular file.
    is_file: bool,
    /// It may be read.
    reads: bool,
    /// It may be written.
    writes: bool,
    number: u64,
}

/// Pages of a file that are missing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Missing {
    pub(super) number: u64,
    pub(super) page: u64,
    pub(super) pages: u64,
    /// They are to be kept only if the file is of this version still.
    version: u64,
}

impl Missing {
    /// Those of them that are read at once, where that is so many bytes at most.
    pub(super) fn up_to(self, bytes_max: usize) -> Missing {
        Missing {
            pages: self.pages.min((bytes_max / PAGE) as u64),
            ..self
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.pages as usize * PAGE
    }

    fn range(&self) -> std::ops::Range<u64> {
        self.page..self.page + self.pages
    }
}

/// How far a read came.
pub(super) enum Step {
    /// To its end, or that of the file: so many bytes are there.
    Done(usize),
    /// To this byte of what was wanted.
    Missing(usize, Missing),
    /// To this byte, from which on so many are to be read by way of the drive's cache.
    Near(usize, usize),
    /// Nothing is known of the file.
    NoLease,
}

impl Cache {
    /// Keeps files as it is told, hears of changes by the words of the first of these pages, and writes to the next ones; its
    /// locks are in the last ones.
    pub(super) fn new(keeping: Keeping, words: &DmaRegion) -> Cache {
        Cache {
            files: Files::new(words, keeping.coherence),
            mode: keeping.writes,
            writes: Writes::new(words, 1),
            locks: Granted::new(words, 1 + write_area::AREA_PAGES),
            frames: Frames::new(((keeping.bytes / PAGE as u64) as usize).max(256)),
            names: Names::new(words.word(FILES_MAX)),
            together: Together::default(),
            near: keeping.is_omni.then(Near::default),
            opened: Vec::new(),
            counts: CacheCounts::default(),
        }
    }

    pub(super) fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Whether nothing is used that others may have changed.
    pub(super) fn is_coherent(&self) -> bool {
        self.files.coherence == Coherence::Leases
    }

    /// Something was opened; its attributes were asked for then.
    pub(super) fn opened(
        &mut self,
        handle: Handle,
        found: &Attributes,
        flags: OpenFlags,
        asked: Question,
    ) {
        let index = handle.index as usize;
        if self.opened.len() <= index {
            self.opened.resize(index + 1, Opened::default());
        }
        let place = self.files.place(found.number).unwrap_or(u16::MAX);
        self.opened[index] = Opened {
            generation: handle.generation,
            place,
            is_file: found.kind == Kind::File,
            reads: flags.read,
            writes: flags.write,
            number: found.number,
        };
        // The drive was asked while the lease lasted.
        if self.together.is_so(asked) {
            self.files.learn(place, found);
        }
    }

    /// It was closed: what is known of the file stays.
    pub(super) fn closed(&mut self, handle: Handle) {
        if self.open(handle).is_some() {
            self.opened[handle.index as usize].is_file = false;
        }
    }

    #[inline]
    fn open(&self, handle: Handle) -> Option<Opened> {
        let open = self.opened.get(handle.index as usize)?;
        (open.is_file && open.generation == handle.generation).then_some(*open)
    }

    /// The number of an open regular file.
    pub(super) fn number(&self, handle: Handle) -> Option<u64> {
        self.open(handle).map(|open| open.number)
    }

    /// Whether an open regular file may be read.
    pub(super) fn reads(&self, handle: Handle) -> bool {
        self.open(handle).is_some_and(|open| open.reads)
    }

    /// Reads what is here, from byte `offset + from` of the file on.
    #[inline]
    pub(super) fn read(
        &mut self,
        handle: Handle,
        offset: u64,
        out: &mut [u8],
        from: usize,
    ) -> Step {
        let Some(open) = self.open(handle) else {
            return Step::NoLease;
        };
        if self.together.changes_file(open.number) {
            return Step::NoLease;
        }
        let Some(file) = self.files.valid(open.place, open.number) else {
            return Step::NoLease;
        };
        file.is_used = true;
        let rest = file.bytes.saturating_sub(offset);
        let end = (out.len() as u64).min(rest) as usize;
        let mut done = from;
        while done < end {
            let at = offset + done as u64;
            let (page, within) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let Some(frame) = self.frames.get((file.version, page)) else {
                let wanted = at..offset + end as u64;
                if let Some(near) = &mut self.near {
                    let own = (&self.frames, &self.writes);
                    if let Some(bytes) = near::near_bytes(near, own, file, &wanted) {
                        return Step::Near(done, bytes);
                    }
                }
                let last = wanted.end.div_ceil(PAGE as u64);
                let pages = file.ahead.pages(page, last);
                let (number, version) = (file.number, file.version);
                return Step::Missing(
                    done,
                    Missing {
                        number,
                        page,
                        pages,
                        version,
                    },
                );
            };
            let now = (PAGE - within).min(end - done);
            out[done..done + now].copy_from_slice(&frame[within..within + now]);
            done += now;
        }
        self.counts.hits += u64::from(from == 0);
        Step::Done(done.max(from))
    }

    /// Whether pages that were asked for and have come are still so; if not they are not to be kept.
    pub(super) fn is_so(&mut self, missing: &Missing, asked: Question) -> bool {
        if !self.together.is_so(asked) {
            return false;
        }
        let place = self.files.place(missing.number);
        let file = place.and_then(|place| self.files.valid(place, missing.number));
        file.is_some_and(|file| file.version == missing.version)
    }

    /// Pages that are missing are asked for.
    pub(super) fn ask_for(&mut self, missing: &Missing) -> Question {
        self.counts.misses += 1;
        self.together.ask(Some(missing.number))
    }

    /// Keeps a page that has come; behind its bytes are zeros.
    pub(super) fn keep(&mut self, missing: &Missing, nth: usize, bytes: &[u8]) {
        let page = self
            .frames
            .put((missing.version, missing.page + nth as u64));
        page[..bytes.len()].copy_from_slice(bytes);
        page[bytes.len()..].fill(0);
    }

    /// The word by which a lease of an open file is to be asked for, if there is to be one.
    pub(super) fn ask(&mut self, handle: Handle) -> Option<u64> {
        let open = self.open(handle)?;
        let place = self.files.place_or_new(open.number);
        self.opened[handle.index as usize].place = place;
        self.files.ask(place)
    }

    /// What was answered. If this process has changed the file since, or has another lease of it, it is to be asked for again.
    pub(super) fn answered(&mut self, handle: Handle, answer: &Leased, asked: Question) {
        let Some(open) = self.open(handle) else {
            return;
        };
        self.counts.leases += u64::from(answer.lease != 0 && self.is_coherent());
        // Another file may have its place by now.
        let has_place = self.files.place(open.number) == Some(open.place);
        if answer.attributes.number == open.number && has_place {
            self.files.answered(open.place, answer);
            if !self.together.is_so(asked) {
                self.files.forget(open.number);
            }
            // What others asked for may be from before the lease.
            self.together.note(Part::File(open.number));
        }
    }

    /// A lease of all names was answered.
    pub(super) fn names_answered(&mut self, lease: u64) {
        self.names.answered(lease);
        self.together.note(Part::Names);
    }

    /// Keeps what the drive answered about a path, and whether a link at its end was followed.
    pub(super) fn learn_name(
        &mut self,
        caller: &Caller,
        (at, follow): (At<'_>, bool),
        access: Option<u8>,
        answer: Option<Answer>,
        asked: Question,
    ) {
        if self.together.are_names_so(asked) {
            self.names.learn(caller, at, follow, access, answer);
        }
    }

    /// The attributes of an open file, if they are known.
    #[inline]
    pub(super) fn attributes(&mut self, handle: Handle) -> Option<Attributes> {
        let open = self.open(handle)?;
        if self.together.changes_file(open.number) {
            return None;
        }
        let file = self.files.valid(open.place, open.number)?;
        let known = file.attributes?;
        file.is_used = true;
        self.counts.attributes += 1;
        Some(known)
    }

    /// Attributes of the regular file of this number, if they are known.
    pub(super) fn attributes_of(&mut self, number: u64) -> Option<Attributes> {
        if self.together.changes_file(number) {
            return None;
        }
        let place = self.files.place(number)?;
        let file = self.files.valid(place, number)?;
        file.is_used |= file.attributes.is_some();
        file.attributes
    }

    /// A question about a path took no command.
    pub(super) fn count_name(&mut self) {
        self.counts.names += 1;
    }

    /// Attributes of a regular file that a path led to just now.
    pub(super) fn learn_of(&mut self, found: &Attributes, asked: Question) {
        if self.together.is_so(asked)
            && let Some(place) = self.files.place(found.number)
        {
            self.files.learn(place, found);
        }
    }

    /// The size of an open file, if it is known.
    #[inline]
    pub(super) fn bytes(&mut self, handle: Handle) -> Option<u64> {
        let open = self.open(handle)?;
        if self.together.changes_file(open.number) {
            return None;
        }
        let file = self.files.valid(open.place, open.number)?;
        file.is_used = true;
        Some(file.bytes)
    }

    /// Attributes that the drive was asked for just now.
    pub(super) fn learn(&mut self, handle: Handle, found: &Attributes, asked: Question) {
        if self.together.is_so(asked)
            && let Some(open) = self.open(handle)
        {
            self.files.learn(open.place, found);
        }
    }

    /// Whether the file has a lease now.
    pub(super) fn has_lease(&mut self, handle: Handle) -> bool {
        let Some(open) = self.open(handle) else {
            return false;
        };
        // Another handle may have had it asked for.
        let place = self.files.place(open.number).unwrap_or(u16::MAX);
        self.opened[handle.index as usize].place = place;
        self.files.valid(place, open.number).is_some()
    }

    /// The lease of the locks of an open file that is to be asked for before one is locked, if there is to be one.
    pub(super) fn ask_for_locks(&mut self, handle: Handle) -> Option<(Wanted, May)> {
        let open = self.open(handle)?;
        let wanted = self.locks.ask(open.number)?;
        Some((wanted, (open.reads, open.writes)))
    }

    /// What was answered, 0 for an error too.
    pub(super) fn may_lock(&mut self, (wanted, may): (Wanted, May), lease: u64) {
        self.counts.lock_leases += u64::from(lease != 0);
        self.locks.answered(wanted, lease, may);
    }

    /// Changes locks of an open file; none if it takes a command.
    pub(super) fn change_locks(
        &mut self,
        handle: Handle,
        change: Change<'_>,
    ) -> Option<Result<(), Errno>> {
        let open = self.open(handle)?;
        let may = (open.reads, open.writes);
        if let Change::Lock(request) = change
            && !request.kind.may_be_had(request.space, may)
        {
            return Some(Err(Errno::EBADF));
        }
        let done = self.locks.change(open.number, change)?;
        self.counts.locks += 1;
        Some(done.map_err(LockError::errno))
    }

    /// The first lock that is in the way of one of an open file, if there is any; none if that takes a command.
    pub(super) fn test_lock(
        &mut self,
        handle: Handle,
        request: &LockRequest,
    ) -> Option<Option<HeldLock>> {
        let open = self.open(handle)?;
        let found = self.locks.test(open.number, request)?;
        self.counts.locks += 1;
        Some(found)
    }

    /// The drive has said which lock is in the way of one.
    pub(super) fn learn_lock(&mut self, found: &HeldLock) {
        self.locks.learn(found);
    }

    /// It has changed the bytes of an open file in another way, or perhaps has.
    pub(super) fn changed(&mut self, handle: Handle) {
        if let Some(number) = self.number(handle) {
            self.forget(number);
        }
    }

    /// It has changed the bytes of a file in another way.
    pub(super) fn forget(&mut self, number: u64) {
        self.files.forget(number);
    }

    /// It has changed bytes of it knows not which file.
    pub(super) fn forget_all(&mut self) {
        self.files.forget_all();
    }

    /// It has changed attributes of it knows not which file.
    pub(super) fn forget_attributes(&mut self) {
        self.files.forget_attributes();
    }
}
