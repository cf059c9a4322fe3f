//! Pages that hosts load and store themselves ([`wharf_wire::window`]).
//!
//! A page is shown at the end of a command that has it here and asks for that, by one who may read the file, or write it. It is hidden before it
//! leaves, before somebody changes it by another way, when a host gets a lease of the file, when its attributes are set, and when the file is
//! closed. Until then whoever stores to it may do so at any time: what was stored is found out by [`Near::collect`] before anybody asks
//! what is dirty.

use std::ops::Range;

use wharf_runtime::here;
use wharf_wire::window::{FilePage, Window};

use super::{Look, Near, PAGE};

impl Near {
    fn window(&self) -> Option<&Window> {
        self.memory.as_ref()?.window().map(|window| &**window)
    }

    /// Shows the pages of a range that are there, of a file of `size` bytes.
    pub(super) fn show(&self, (number, size): (u64, u64), pages: &Range<u64>, is_writable: bool) {
        let Some(window) = self.window() else {
            return;
        };
        let mut blocks = self.blocks.borrow_mut();
        for page in pages.clone() {
            if let Look::There(memory) = blocks.look(number, page) {
                let name = FilePage { number, page };
                blocks.show(memory, name);
                let bytes = size.saturating_sub(page * PAGE).min(PAGE) as u32;
                window.show(memory, name, bytes, is_writable);
            }
        }
    }

    /// Hides the pages of a range: what was stored to them is known then, and no more is stored.
    pub(in crate::features::files) fn hide(&self, number: u64, pages: &Range<u64>) {
        let Some(window) = self.window() else {
            return;
        };
        let shown = self.blocks.borrow().shown(number, pages);
        if shown.is_empty() {
            return;
        }
        shown.iter().for_each(|memory| window.hide(*memory));
        self.collect();
        let mut blocks = self.blocks.borrow_mut();
        shown.into_iter().for_each(|memory| blocks.hide(memory));
    }

    /// Finds out what hosts have stored.
    pub(super) fn collect(&self) {
        let Some(window) = self.window() else {
            return;
        };
        let stores = window.stores();
        if self.stores.replace(stores) == stores {
            return;
        }
        // A drive that is switched off has no clock any more.
        let now_ns = here().map_or(0, |cpu| self.clock.now_ns(cpu.now()));
        let (mut blocks, mut writers) = (self.blocks.borrow_mut(), self.writers.borrow_mut());
        window.take_stored(|memory| {
            let Some(FilePage { number, page }) = blocks.shown_at(memory) else {
                return;
            };
            blocks.mark_dirty(number, page);
            let writer = writers.get_mut(&number);
            let writer = writer.expect("who may store has written before");
            writer.changed_ns = writer.changed_ns.max(now_ns);
        });
    }

    /// Copies from or to a page of memory, which hosts may be at.
    pub(super) fn with_page<R>(&self, memory: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
        let is_shown = || self.blocks.borrow().shown_at(memory).is_some();
        let window = self.window().filter(|_| is_shown());
        let _held = window.map(|window| window.hold(memory));
        self.memory().with_near(memory, f)
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        self.keep();
        if let Some(window) = self.window() {
            window.close();
        }
    }
}
