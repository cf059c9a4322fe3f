//! Guards: pages that a program uses in place.
//!
//! A guard keeps its page in its frame until it is dropped. One to *write* also keeps the frame's
//! word: no other client writes meanwhile, readers wait, and the page counts as written when the
//! guard goes; so its page can be used in place, as [cells](Guard::cells). One to *read* keeps nobody
//! from writing: other clients share the frame. So the safe ways to read copy, and notice a write
//! that disturbs them; `unsafe` ones give the bytes themselves to those who know that nobody writes.
//!
//! Two programs that each hold a guard to write and wait for one of the other wait until one gives up,
//! with [`IoError::InUse`]: take guards to write in the order of pages.

use std::cell::Cell;
use std::ops::{Deref, DerefMut, Range};

use wharf_runtime::Op;
use wharf_wire::dma::STAMP_BYTES;
use zerocopy::{FromBytes, IntoBytes};

use crate::error::IoError;
use crate::scala::client::ScalaClient;
use crate::scala::held::{Held, Turn, Use};
use crate::scala::index::{Found, Place};
use crate::span::{Extent, Span, spans};

/// What a guard is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// To read the page.
    Read,
    /// To change it, and to read it.
    Write,
}

/// A page in its frame. See the module.
pub struct Guard<'a> {
    held: &'a Held,
    place: Place,
    drive: u16,
    writes: bool,
}

impl ScalaClient {
    /// A guard on `page`, if this client holds the page and nobody is in the way: an ordinary
    /// function for the common case, without a task or a command.
    #[inline(always)]
    pub fn try_pin(&self, page: u64, intent: Intent) -> Option<Guard<'_>> {
        let held = self.held();
        let place = held
            .cpu
            .work(Op::QueueIndexLookup, || held.index.find(page))?;
        held.guard(page, place, intent)
    }

    /// Guards on `pages`, in their order. Those that are missing are brought into the cache by
    /// one command for each drive.
    ///
    /// # Errors
    /// Pages out of range; [`IoError::Guarded`] if this client has a guard to write on one and another
    /// is asked for; [`IoError::NoRoom`] if guards fill this client's share; an error of a drive.
    pub async fn pin(&self, pages: Range<u64>, intent: Intent) -> Result<Guards<'_>, IoError> {
        let held = self.held();
        let count = pages.end.saturating_sub(pages.start);
        held.volume.check(pages.start, count)?;
        let mut guards = Guards(Vec::with_capacity(count as usize));
        match intent {
            Intent::Read => {
                held.pin_all::<false>(pages.start, count, &mut guards)
                    .await?
            }
            Intent::Write => {
                let is_guarded = |page: &u64| match held.index.look_up(*page) {
                    Found::Ready(place) => held.index.is_guarded(place.slot),
                    _ => false,
                };
                if let Some(page) = pages.clone().find(is_guarded) {
                    return Err(IoError::Guarded { page });
                }
                held.pin_all::<true>(pages.start, count, &mut guards)
                    .await?;
            }
        }
        guards.0.sort_unstable_by_key(Guard::page);
        Ok(guards)
    }
}

/// Makes guards; with `WRITES`, to write.
struct Pinning<'a, 'b, const WRITES: bool> {
    held: &'a Held,
    guards: &'b mut Guards<'a>,
}

impl<const WRITES: bool> Use for Pinning<'_, '_, WRITES> {
    // Pages are not overwritten unseen: what a guard does not write is to stay.
    const WRITES: bool = false;
    const WAITS_FOR_GUARDS: bool = false;

    fn apply(&mut self, _: &Held, place: Place, span: &Span) -> bool {
        let intent = if WRITES { Intent::Write } else { Intent::Read };
        let guard = self.held.guard(span.page, place, intent);
        guard.is_some_and(|guard| {
            self.guards.0.push(guard);
            true
        })
    }

    fn data(&self, _: &Span) -> &[u8] {
        unreachable!("a guard overwrites nothing")
    }
}

impl Held {
    /// A guard on a page that is ready; `None` if one to write is asked for and somebody is writing.
    #[inline(always)]
    fn guard(&self, page: u64, place: Place, intent: Intent) -> Option<Guard<'_>> {
        let (drive, writes) = (self.map.drive(page), intent == Intent::Write);
        if writes && !self.take_word((drive, place.frame), place.slot) {
            return None;
        }
        self.index.pin(place.slot);
        Some(Guard {
            held: self,
            place,
            drive: drive as u16,
            writes,
        })
    }

    #[inline(always)]
    fn take_word(&self, (drive, frame): (usize, u32), slot: u32) -> bool {
        let is_taken =
            !self.index.is_guarded(slot) && self.frames.try_take(&self.cpu, drive, frame);
        if is_taken {
            self.index.set_guarded(slot, true);
        }
        is_taken
    }

    #[inline(always)]
    fn give_word_back(&self, (drive, frame): (usize, u32), slot: u32) {
        self.index.set_guarded(slot, false);
        self.index.set_dirty(slot);
        self.frames.set_dirty(&self.cpu, drive, frame);
        self.frames.give_back(drive, frame);
    }

    async fn pin_all<'a, const WRITES: bool>(
        &'a self,
        first: u64,
        count: u64,
        guards: &mut Guards<'a>,
    ) -> Result<(), IoError> {
        let mut user = Pinning::<WRITES> { held: self, guards };
        let mut rest = spans(Extent::of_pages(first, count), self.frames.page_bytes());
        match rest.next() {
            Some(span) => self.serve_slowly(span, rest, &mut user).await.map(drop),
            None => Ok(()),
        }
    }
}

impl Guard<'_> {
    /// The page of the volume.
    pub fn page(&self) -> u64 {
        self.held.index.page_of(self.place.slot)
    }

    /// Drive and frame.
    #[inline(always)]
    fn at(&self) -> (usize, u32) {
        (usize::from(self.drive), self.place.frame)
    }

    /// The bytes of the page in its frame: 4096, or 8 for a stamp. For those who keep track of its
    /// users themselves.
    #[inline(always)]
    pub fn pointer(&self) -> *mut u8 {
        let (drive, frame) = self.at();
        self.held.frames.pointer(drive, frame)
    }

    /// Copies bytes of the page, from byte `from` on; false if another client was writing, and then
    /// what was copied is worthless.
    ///
    /// # Panics
    /// If the bytes do not lie within the page.
    #[inline(always)]
    pub fn try_read(&self, from: usize, out: &mut [u8]) -> bool {
        let ((drive, frame), held) = (self.at(), self.held);
        if held.index.is_guarded(self.place.slot) {
            held.frames
                .copy_out_alone(&held.cpu, drive, frame, from, out);
            return true;
        }
        held.frames.copy_out(&held.cpu, drive, frame, from, out)
    }

    /// As [`Guard::try_read`]; waits until no other client writes.
    ///
    /// # Errors
    /// [`IoError::InUse`] if one does for longer than a drive may take for a command.
    pub async fn read(&self, from: usize, out: &mut [u8]) -> Result<(), IoError> {
        let mut turn = Turn::new();
        while !self.try_read(from, out) {
            let pause = self.held.pause(&mut turn, self.page(), self.place.frame);
            pause.await?;
        }
        Ok(())
    }

    /// The value whose bytes begin at byte `from`; `None` if another client was writing.
    ///
    /// # Panics
    /// If its bytes do not lie within the page.
    #[inline(always)]
    pub fn try_get<T: FromBytes + IntoBytes>(&self, from: usize) -> Option<T> {
        let mut value = T::new_zeroed();
        self.try_read(from, value.as_mut_bytes()).then_some(value)
    }

    /// Writes bytes of the page, from byte `from` on.
    ///
    /// # Panics
    /// If the guard is not one to write, or the bytes do not lie within the page.
    #[inline(always)]
    pub fn write(&mut self, from: usize, data: &[u8]) {
        assert!(self.writes, "a guard to read does not write");
        let ((drive, frame), held) = (self.at(), self.held);
        held.frames
            .copy_in_alone(&held.cpu, drive, frame, from, data);
    }

    /// The page as values to read and to change in place, for a guard to write. Nothing can disturb them:
    /// other clients wait while the guard lives, and this one is on the same thread, where cells may be
    /// shared.
    ///
    /// # Panics
    /// If the guard is not one to write, or the page is not a whole number of values.
    #[inline]
    pub fn cells<T: FromBytes + IntoBytes>(&self) -> &[Cell<T>] {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= STAMP_BYTES) };
        assert!(self.writes, "a guard to read does not write");
        let (bytes, each) = (self.held.frames.page_bytes(), size_of::<T>());
        assert!(bytes.is_multiple_of(each), "a page of {bytes} bytes");
        // SAFETY: the frame is the page's while the guard lives, and aligned to a stamp at least. Any
        // bytes are a `T`, and the reverse. Its word is ours: no other client and no drive writes, and
        // what they copy out meanwhile they throw away. This client writes on this thread alone (it is
        // not `Sync`), through pointers or, by the contract of `as_mut_slice`, not at all.
        unsafe { std::slice::from_raw_parts(self.pointer().cast(), bytes / each) }
    }

    /// The page's bytes.
    ///
    /// # Safety
    /// Nobody writes to the page while the slice is alive: no request or guard of any client.
    pub unsafe fn as_slice(&self) -> &[u8] {
        let bytes = self.held.frames.page_bytes();
        // SAFETY: the frame is the page's while the guard lives; not written, by the contract.
        unsafe { std::slice::from_raw_parts(self.pointer(), bytes) }
    }

    /// The page's bytes, to change them. Other clients do not write while this guard lives.
    ///
    /// # Safety
    /// No request and no other guard of this client uses the page while the slice is alive.
    ///
    /// # Panics
    /// If the guard is not one to write.
    pub unsafe fn as_mut_slice(&mut self) -> &mut [u8] {
        assert!(self.writes, "a guard to read does not write");
        let bytes = self.held.frames.page_bytes();
        // SAFETY: the frame is the page's while the guard lives, its word is ours, and this client
        // keeps away by the contract.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), bytes) }
    }
}

impl Drop for Guard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.writes {
            self.held.give_word_back(self.at(), self.place.slot);
        }
        if self.held.index.unpin(self.place.slot) {
            self.held.notify();
        }
    }
}

/// Guards on a run of pages, in their order.
pub struct Guards<'a>(Vec<Guard<'a>>);

impl<'a> Deref for Guards<'a> {
    type Target = [Guard<'a>];

    fn deref(&self) -> &[Guard<'a>] {
        &self.0
    }
}

impl DerefMut for Guards<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
