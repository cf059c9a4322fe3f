//! A drive in another process, with what this process keeps of its files.

use std::cell::{Cell, RefCell};
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};
use wharf_files::vfs::{At, Opened, Target};
use wharf_files::{Attributes, By, Errno, FileError, Handle, OpenFlags};
use wharf_host::stor::Leased;

use super::ImageError;
use super::cache::{Answer, Cache, CacheCounts, Part, Question, Step};
use super::drive::{About, FileDrive};
use super::keeping::Keeping;
use crate::store::Client;

/// The host's side of a command.
pub(super) trait Command<T>:
    Future<Output = Result<T, wharf_host::files::FileError>>
{
}

impl<T, F: Future<Output = Result<T, wharf_host::files::FileError>>> Command<T> for F {}

const PAGE: u64 = 4096;

/// What is kept, if anything is.
#[derive(Default)]
pub(super) struct Kept {
    cache: Option<RefCell<Cache>>,
    /// When it was looked last whether the process that has the drive is there, by the kernel's coarse clock.
    looked_ns: Cell<i64>,
}

impl FileDrive {
    /// A drive that another process serves at a socket; this process keeps up to `bytes` bytes of its files.
    ///
    /// What others change shows at once all the same. If the process that serves the drive is killed, what is kept is given
    /// for one tick of the kernel's clock more, up to 10 ms.
    ///
    /// # Errors
    /// As [`FileDrive::attach`].
    pub fn attach_cached(socket: &Path, bytes: u64) -> Result<FileDrive, ImageError> {
        FileDrive::attach_keeping(socket, Keeping::of_bytes(bytes))
    }

    /// The same, and it uses the drive's own cache too (OmniCache, FAST 2024): of what it wants a part of a page, only those bytes come,
    /// and what it changes of one is there for all until the drive writes it to the file.
    ///
    /// # Errors
    /// As [`FileDrive::attach`]; if the drive has no such cache.
    pub fn attach_omni(socket: &Path, bytes: u64) -> Result<FileDrive, ImageError> {
        let keeping = Keeping {
            is_omni: true,
            ..Keeping::of_bytes(bytes)
        };
        FileDrive::attach_keeping(socket, keeping)
    }

    /// A drive that another process serves at a socket, of whose files this process keeps what it is told to.
    ///
    /// # Errors
    /// As [`FileDrive::attach`]; if it is to use the drive's own cache, and that has none.
    pub fn attach_keeping(socket: &Path, keeping: Keeping) -> Result<FileDrive, ImageError> {
        let client = Client::attach(socket)?;
        let words = match keeping.bytes {
            0 => None,
            _ => Some(client.lease_pages()?),
        };
        let mut drive = FileDrive::over_attached(client, socket)?;
        if keeping.is_omni && !drive.has_cache() {
            drive.end()?;
            return Err(ImageError::NoDriveCache);
        }
        drive.kept.cache = words.map(|words| RefCell::new(Cache::new(keeping, &words)));
        Ok(drive)
    }

    /// What the cache did, if there is one.
    pub fn cache_counts(&self) -> Option<CacheCounts> {
        self.kept
            .cache
            .as_ref()
            .map(|cache| cache.borrow().counts())
    }

    /// Reads what is kept; none if it takes a command.
    #[inline]
    pub fn read_kept(&self, handle: Handle, offset: u64, out: &mut [u8]) -> Option<usize> {
        let mut cache = self.usable()?.borrow_mut();
        if !cache.reads(handle) {
            return None;
        }
        match cache.read(handle, offset, out, 0) {
            Step::Done(bytes) => Some(bytes),
            Step::Missing(..) | Step::Near(..) | Step::NoLease => None,
        }
    }

    /// Attributes that are kept of an open file; none if it takes a command.
    #[inline]
    pub fn attributes_kept(&self, handle: Handle) -> Option<Attributes> {
        self.usable()?.borrow_mut().attributes(handle)
    }

    /// The size of an open file, if that is kept.
    #[inline]
    pub fn bytes_kept(&self, handle: Handle) -> Option<u64> {
        self.usable()?.borrow_mut().bytes(handle)
    }

    /// The cache, as long as the process that has the drive is there: nobody else would tell of changes.
    #[inline]
    pub(super) fn usable(&self) -> Option<&RefCell<Cache>> {
        let cache = self.kept.cache.as_ref()?;
        let now = clock_gettime(ClockId::MonotonicCoarse);
        let now_ns = now.tv_sec * 1_000_000_000 + now.tv_nsec;
        if self.kept.looked_ns.get() != now_ns {
            if self.is_cut_off() {
                return None;
            }
            self.kept.looked_ns.set(now_ns);
        }
        Some(cache)
    }

    /// Asks for a lease of an open file, or for its attributes alone without coherence; gives these, or none if it was not asked.
    pub(super) fn lease(
        &self,
        cache: &RefCell<Cache>,
        handle: Handle,
    ) -> Result<Option<Attributes>, FileError> {
        let Some(word) = cache.borrow_mut().ask(handle) else {
            return Ok(None);
        };
        let asked = self.ask_of(Target::Handle(handle));
        let is_coherent = cache.borrow().is_coherent();
        let answer = match is_coherent {
            true => self.done_on(handle, self.client().lease(handle, word)),
            false => {
                let found = self.done_on(handle, self.client().stat(Target::Handle(handle)));
                // Any number but 0: nobody looks for it.
                found.map(|attributes| Leased {
                    lease: 1,
                    attributes,
                })
            }
        };
        if let Ok(answer) = &answer {
            cache.borrow_mut().answered(handle, answer, asked);
        }
        self.answered(asked);
        Ok(Some(answer?.attributes))
    }

    /// Asks for a lease of an open file that has none.
    pub(super) fn look_for_lease(
        &self,
        cache: &RefCell<Cache>,
        handle: Handle,
    ) -> Result<(), FileError> {
        if !cache.borrow_mut().has_lease(handle) {
            self.lease(cache, handle)?;
        }
        Ok(())
    }

    /// Reads by the cache; none if the file is not to be kept now.
    pub(super) fn read_by_cache(
        &self,
        handle: Handle,
        offset: u64,
        out: &mut [u8],
    ) -> Result<Option<u64>, FileError> {
        let Some(cache) = self.usable().filter(|cache| cache.borrow().reads(handle)) else {
            return Ok(None);
        };
        self.look_for_lease(cache, handle)?;
        let mut done = 0;
        loop {
            let step = cache.borrow_mut().read(handle, offset, out, done);
            let (from, missing) = match step {
                Step::Done(bytes) => return Ok(Some(bytes as u64)),
                Step::NoLease => break,
                Step::Missing(from, missing) => (from, missing),
                Step::Near(from, bytes) => {
                    let part = &mut out[from..from + bytes];
                    let count = self.read_near(cache, handle, offset + from as u64, part)?;
                    done = from + count;
                    if count < bytes || done == out.len() {
                        return Ok(Some(done as u64));
                    }
                    continue;
                }
            };
            done = from;
            let client = self.client();
            let missing = missing.up_to(client.bytes_max());
            let (start, bytes) = (missing.page * PAGE, missing.bytes());
            // What has come is given, and kept if it is so after it has come.
            let takes = cache.borrow_mut().takes(&missing);
            let asked = cache.borrow_mut().ask_for(&missing);
            let each = |nth: usize, page: &[u8]| {
                let mut cache = cache.borrow_mut();
                if cache.is_so(&missing, asked) {
                    cache.keep(&missing, nth, page);
                }
                done += give(
                    page,
                    start + nth as u64 * PAGE,
                    offset + done as u64,
                    &mut out[done..],
                );
            };
            let read = client.read_pages(handle, (start, bytes), takes, each);
            let count = self.done_on(handle, read);
            self.answered(asked);
            if count.is_err() && takes {
                cache.borrow_mut().took_not(&missing);
            }
            let count = count?;
            let is_end = count < bytes;
            if done == out.len() || is_end {
                return Ok(Some(done as u64));
            }
        }
        // Others change it just now.
        let client = self.client();
        let read = client.read(handle, offset + done as u64, &mut out[done..]);
        match self.done_on(handle, read) {
            Ok(bytes) => Ok(Some(done as u64 + bytes)),
            Err(_) if done > 0 => Ok(Some(done as u64)),
            Err(error) => Err(error),
        }
    }

    /// Attributes by the cache; none if a command is to be sent for them.
    pub(super) fn stat_by_cache(
        &self,
        by: By<'_>,
        target: Target<'_>,
    ) -> Result<Option<Attributes>, FileError> {
        let Some(cache) = self.usable() else {
            return Ok(None);
        };
        let handle = match target {
            Target::Handle(handle) => handle,
            Target::Path(at, follow) => {
                return match self.ask_name(cache, by, at, follow, None)? {
                    Some(Answer::Attributes(found)) => Ok(Some(found)),
                    Some(Answer::File(number)) => Ok(cache.borrow_mut().attributes_of(number)),
                    Some(Answer::Nothing) => Err(Errno::ENOENT.into()),
                    Some(Answer::May) | None => Ok(None),
                };
            }
        };
        let known = cache.borrow_mut().attributes(handle);
        if known.is_some() || cache.borrow_mut().has_lease(handle) {
            return Ok(known);
        }
        self.lease(cache, handle)
    }

    /// What a path leads to, if it is kept; asks for a lease of all names if it is time for that.
    fn ask_name(
        &self,
        cache: &RefCell<Cache>,
        by: By<'_>,
        at: At<'_>,
        follow: bool,
        access: Option<u8>,
    ) -> Result<Option<Answer>, FileError> {
        let word = cache.borrow_mut().names.ask(by.caller);
        if let Some(word) = word {
            let lease = self.done(self.client().lease_names(word))?;
            cache.borrow_mut().names_answered(lease);
            return Ok(None);
        }
        let mut cache = cache.borrow_mut();
        if cache.together.changes_names() {
            return Ok(None);
        }
        let found = cache.names.find(by.caller, at, follow, access);
        if found.is_some() {
            cache.count_name();
        }
        Ok(found)
    }

    /// Whether a caller may do something, if that is kept.
    pub(super) fn access_by_cache(
        &self,
        by: By<'_>,
        target: Target<'_>,
        access: u8,
    ) -> Result<Option<()>, FileError> {
        let (Target::Path(at, follow), Some(cache)) = (target, self.usable()) else {
            return Ok(None);
        };
        match self.ask_name(cache, by, at, follow, Some(access))? {
            Some(Answer::May) => Ok(Some(())),
            Some(Answer::Nothing) => Err(Errno::ENOENT.into()),
            _ => Ok(None),
        }
    }

    /// That there is nothing to be opened, if that is kept.
    pub(super) fn open_by_cache(
        &self,
        by: By<'_>,
        at: At<'_>,
        flags: OpenFlags,
    ) -> Result<(), FileError> {
        let Some(cache) = self.usable().filter(|_| !flags.create && !flags.no_follow) else {
            return Ok(());
        };
        match self.ask_name(cache, by, at, true, None)? {
            Some(Answer::Nothing) => Err(Errno::ENOENT.into()),
            _ => Ok(()),
        }
    }

    /// The drive was asked for attributes.
    pub(super) fn learn(
        &self,
        by: By<'_>,
        target: Target<'_>,
        found: &Result<Attributes, FileError>,
        asked: Question,
    ) {
        self.with_cache(|cache| match (target, found) {
            (Target::Handle(handle), Ok(found)) => cache.learn(handle, found, asked),
            (Target::Handle(_), Err(_)) => {}
            (Target::Path(at, follow), found) => {
                let answer = Answer::of_stat(found.as_ref().map_err(|error| error.errno()));
                cache.learn_name(by.caller, (at, follow), None, answer, asked);
                found.iter().for_each(|found| cache.learn_of(found, asked));
            }
        });
        self.answered(asked);
    }

    /// This process is about to ask for what is in an open file, or what a path leads to, and may keep the answer.
    pub(super) fn ask_of(&self, target: Target<'_>) -> Question {
        let Some(cache) = &self.kept.cache else {
            return Question::NONE;
        };
        let mut cache = cache.borrow_mut();
        let file = match target {
            Target::Handle(handle) => cache.number(handle),
            Target::Path(..) => None,
        };
        cache.together.ask(file)
    }

    /// The answer is kept, or is not.
    fn answered(&self, asked: Question) {
        self.with_cache(|cache| cache.together.answered(asked));
    }

    /// Does what changes a part of what is kept; `note` tells the cache.
    pub(super) fn done_to<T>(
        &self,
        part: Part,
        future: impl Command<T>,
        note: impl FnOnce(&mut Cache, &Result<T, FileError>),
    ) -> Result<T, FileError> {
        self.with_cache(|cache| cache.together.begin(part));
        let done = self.done_about(part.about(), future);
        self.with_cache(|cache| {
            cache.together.end(part);
            note(cache, &done);
        });
        done
    }

    /// What a command is about that names an open file.
    pub(super) fn about(&self, handle: Handle) -> About {
        self.part(handle).about()
    }

    /// What a command is about that names a target.
    pub(super) fn about_target(&self, target: Target<'_>) -> About {
        match target {
            Target::Handle(handle) => self.about(handle),
            Target::Path(..) => About::Any,
        }
    }

    /// The part that bytes and attributes of an open file are.
    pub(super) fn part(&self, handle: Handle) -> Part {
        let cache = self.kept.cache.as_ref();
        let number = cache.and_then(|cache| cache.borrow().number(handle));
        number.map_or(Part::All, Part::File)
    }

    /// The drive was asked whether a caller may do something.
    pub(super) fn learn_access(
        &self,
        by: By<'_>,
        target: Target<'_>,
        (access, answer): (u8, Result<(), Errno>),
        asked: Question,
    ) {
        if let Target::Path(at, follow) = target {
            let (access, answer) = (Some(access), Answer::of_access(answer));
            self.with_cache(|cache| {
                cache.learn_name(by.caller, (at, follow), access, answer, asked);
            });
        }
        self.answered(asked);
    }

    /// Opens by a command, with what is kept in mind.
    pub(super) fn opened(
        &self,
        (by, at): (By<'_>, At<'_>),
        flags: OpenFlags,
        future: impl Command<Opened>,
    ) -> Result<Opened, FileError> {
        let asked = self.ask_of(Target::Path(at, true));
        let note = |cache: &mut Cache, opened: &Result<Opened, FileError>| match opened {
            Ok(opened) => {
                if opened.is_new {
                    cache.names.forget();
                }
                if flags.truncate {
                    cache.forget(opened.attributes.number);
                }
                cache.opened(opened.handle, &opened.attributes, flags, asked);
            }
            Err(error) => {
                let is_nothing = error.errno() == Errno::ENOENT;
                if is_nothing && !flags.create && !flags.no_follow {
                    let nothing = Some(Answer::Nothing);
                    cache.learn_name(by.caller, (at, true), None, nothing, asked);
                }
            }
        };
        let opened = match (flags.truncate, flags.create) {
            (true, _) => self.done_to(Part::All, future, note),
            (false, true) => self.done_to(Part::Names, future, note),
            (false, false) => {
                let opened = self.done(future);
                self.with_cache(|cache| note(cache, &opened));
                opened
            }
        };
        self.answered(asked);
        opened
    }

    /// Something was closed.
    pub(super) fn note_closed(&self, handle: Handle) {
        self.with_cache(|cache| cache.closed(handle));
    }

    /// Bytes of an open file were changed in another way, or perhaps were.
    pub(super) fn note_changed(&self, handle: Handle) {
        self.with_cache(|cache| cache.changed(handle));
    }

    /// Does what changes bytes of something that a path names.
    pub(super) fn done_by_path<T>(&self, future: impl Command<T>) -> Result<T, FileError> {
        self.done_to(Part::All, future, |cache, _| cache.forget_all())
    }

    /// Does what changes names, or may.
    pub(super) fn done_to_names<T>(&self, future: impl Command<T>) -> Result<T, FileError> {
        self.done_to(Part::Names, future, |cache, _| cache.names.forget())
    }

    /// Does what changes attributes of something that a path or a handle names.
    pub(super) fn done_to_attributes<T>(&self, future: impl Command<T>) -> Result<T, FileError> {
        self.done_to(Part::All, future, |cache, _| {
            cache.forget_attributes();
            cache.names.forget();
        })
    }

    /// Does what changes bytes of an open file in another way than by writing them.
    pub(super) fn done_to_bytes<T>(
        &self,
        handle: Handle,
        future: impl Command<T>,
    ) -> Result<T, FileError> {
        self.done_to(self.part(handle), future, |cache, _| cache.changed(handle))
    }

    /// Forgets everything, in the child of a fork.
    pub(super) fn forget_kept(&mut self) {
        self.kept.cache = None;
    }

    pub(super) fn with_cache(&self, f: impl FnOnce(&mut Cache)) {
        if let Some(cache) = &self.kept.cache {
            f(&mut cache.borrow_mut());
        }
    }
}

impl Part {
    fn about(self) -> About {
        match self {
            Part::File(number) => About::File(number),
            Part::Names | Part::All => About::Any,
        }
    }
}

/// Copies what is wanted of a page that begins at byte `start` of a file: from byte `at` on; gives how much.
fn give(page: &[u8], start: u64, at: u64, out: &mut [u8]) -> usize {
    let Some(from) = at.checked_sub(start).map(|from| from as usize) else {
        return 0;
    };
    let Some(rest) = page.get(from..) else {
        return 0;
    };
    let now = rest.len().min(out.len());
    out[..now].copy_from_slice(&rest[..now]);
    now
}
