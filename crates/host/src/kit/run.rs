//! Neighbouring pages, gathered for one request to the drives.

/// Most pages of a request: 1 MiB (in Linux `BIO_MAX_VECS`).
pub const REQUEST_PAGES_MAX: usize = 256;

/// Neighbouring pages for one request.
#[derive(Default)]
pub struct Run {
    /// The first page.
    pub first: u64,
    /// Their frames.
    pub frames: Vec<u32>,
}

impl Run {
    /// True if `page` can be the next one.
    pub fn takes(&self, page: u64) -> bool {
        let next = self.first + self.frames.len() as u64;
        self.frames.is_empty() || (page == next && self.frames.len() < REQUEST_PAGES_MAX)
    }

    /// Adds a page that it takes.
    pub fn push(&mut self, page: u64, frame: u32) {
        debug_assert!(self.takes(page));
        if self.frames.is_empty() {
            self.first = page;
        }
        self.frames.push(frame);
    }
}
