//! Which page of which file, in one word: so that a frame's page and file are read, and compared, in one step.

/// Bits of a key that hold the page: files of up to 64 PiB.
const PAGE_BITS: u32 = 44;

/// Most files that a cache can have open, so that no key is the word that frames keep for "no page".
pub const FILES_MAX: u32 = (1 << (u64::BITS - PAGE_BITS)) - 1;

/// Pages that a file can have.
pub const PAGES_MAX: u64 = 1 << PAGE_BITS;

/// A page of an open file. Pages of file 0 have their own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageKey(u64);

impl PageKey {
    /// Page `page`, below [`PAGES_MAX`], of file `file`, below [`FILES_MAX`].
    #[inline(always)]
    pub fn new(file: u32, page: u64) -> PageKey {
        debug_assert!(file < FILES_MAX && page < PAGES_MAX);
        PageKey(u64::from(file) << PAGE_BITS | page)
    }

    /// The number of its file.
    #[inline(always)]
    pub fn file(self) -> u32 {
        (self.0 >> PAGE_BITS) as u32
    }

    /// Its number within the file.
    #[inline(always)]
    pub fn page(self) -> u64 {
        self.0 % PAGES_MAX
    }

    /// The key as a word.
    #[inline(always)]
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// The key that a word holds.
    #[inline(always)]
    pub(crate) fn of_word(word: u64) -> PageKey {
        PageKey(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_its_file_and_its_page() {
        for file in [0, 1, FILES_MAX - 1] {
            for page in [0, 7, PAGES_MAX - 1] {
                let key = PageKey::new(file, page);
                assert_eq!((key.file(), key.page()), (file, page));
                assert_eq!(PageKey::of_word(key.word()), key);
            }
        }
    }
}
