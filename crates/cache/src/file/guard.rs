//! Pages that stay in memory while a program uses them in place.

use std::rc::Rc;

use wharf_host::span::Span;
use wharf_wire::dma::PAGE_BYTES;

use super::{File, PAGE};
use crate::error::PageCacheError;
use crate::thread::ThreadContext;

impl File {
    /// Keeps the page that byte `offset` lies in, in memory, to be used in place. Pages with guards do not
    /// leave, so that guards may not fill the cache.
    ///
    /// # Errors
    /// [`PageCacheError::UnexpectedEof`] beyond the end of the file; an error of the storage.
    #[inline]
    pub fn pin(&self, offset: u64) -> Result<PageGuard<'_>, PageCacheError> {
        self.check_pin(offset)?;
        let (number, page) = (self.open.number, offset / PAGE);
        self.with_context(|context| {
            let frame = match context.local.pin_now(number, page) {
                Some(frame) => frame,
                None => {
                    let _gate = self.open.enter();
                    // As for a read: somebody may have cut the file.
                    self.check_pin(offset)?;
                    context.serve(self.open.name(), context.local.pin_page(number, page))?
                }
            };
            Ok(PageGuard {
                context: context.clone(),
                frame,
                span: Span {
                    page,
                    payload: 0,
                    from: 0,
                    len: PAGE_BYTES as u16,
                    whole: true,
                },
                file: self,
            })
        })?
    }

    /// Refuses a pin of byte `offset` if there is none.
    #[inline]
    fn check_pin(&self, offset: u64) -> Result<(), PageCacheError> {
        self.check_read()?;
        match offset < self.open.len() {
            true => Ok(()),
            false => Err(self.ends_before(offset.saturating_add(1))),
        }
    }
}

/// A page that stays in memory while the guard lives. It stays on its thread.
pub struct PageGuard<'a> {
    context: Rc<ThreadContext>,
    frame: u32,
    span: Span,
    file: &'a File,
}

impl PageGuard<'_> {
    /// The byte of the file at which the page begins.
    pub fn offset(&self) -> u64 {
        self.span.page * PAGE
    }

    /// The 4096 bytes of the page, for those who keep track of its writers themselves: writes to the file by
    /// any thread change them. Bytes beyond the end of the file are zeros.
    #[inline(always)]
    pub fn pointer(&self) -> *const u8 {
        self.context.local.frames().pointer(self.frame)
    }

    /// The bytes of the page, as they are.
    ///
    /// # Safety
    /// Nobody writes to this page of the file, or cuts the file, while the slice is used.
    #[inline(always)]
    pub unsafe fn bytes(&self) -> &[u8; PAGE_BYTES] {
        // SAFETY: the pin keeps the frame the page's; the caller keeps writers away.
        unsafe { &*self.pointer().cast() }
    }

    /// Copies bytes of the page, from byte `from` of it on: those of one moment, whoever writes.
    ///
    /// # Panics
    /// If they do not lie within the page.
    pub fn read(&self, from: usize, out: &mut [u8]) {
        assert!(
            from <= PAGE_BYTES && out.len() <= PAGE_BYTES - from,
            "within the page"
        );
        let span = Span {
            from: from as u16,
            len: out.len() as u16,
            ..self.span
        };
        let done = self
            .context
            .local
            .read_pinned(self.file.open.number, self.frame, &span, out);
        assert!(done, "a pinned page stays");
    }

    /// Writes bytes of the page, from byte `from` of it on: a reader sees all of them or none. The page is there, so that nothing is read
    /// from storage; what lies behind the end of the file makes it longer.
    ///
    /// # Errors
    /// As [`File::write_all_at`].
    ///
    /// # Panics
    /// If they do not lie within the page.
    pub fn write(&self, from: usize, data: &[u8]) -> Result<(), PageCacheError> {
        assert!(
            from <= PAGE_BYTES && data.len() <= PAGE_BYTES - from,
            "within the page"
        );
        self.file.write_all_at(data, self.offset() + from as u64)
    }
}

impl std::fmt::Debug for PageGuard<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageGuard")
            .field("file", &self.file.name())
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}

impl Drop for PageGuard<'_> {
    fn drop(&mut self) {
        self.context.local.unpin(self.frame);
    }
}
