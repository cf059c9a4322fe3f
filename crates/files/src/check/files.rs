//! The extents of a file.

use crate::pages::{Pages, Run};

use super::media::{PAGE, u64_at};
use super::walk::{Inode, Walk};

/// Longest file, in pages.
const FILE_PAGES_MAX: u64 = 1 << 51;

impl<P: Pages> Walk<'_, P> {
    pub async fn file(&mut self, inode: &Inode<'_>) {
        self.checked.files += 1;
        let number = inode.number;
        let mut extents: Vec<(u64, u64)> = Vec::new();
        if inode.is_tree() {
            for (at, value) in self.records(inode).await {
                match value[..].try_into() {
                    Ok(word) => extents.push((at, u64::from_le_bytes(word))),
                    Err(_) => self.wrong(format!("an extent of {number} is none")),
                }
            }
        } else if inode.front() > 9 || 16 * inode.front() + inode.back() > 152 {
            self.wrong(format!("inode {number} has more extents than room"));
        } else {
            let words = inode.area().chunks_exact(16).take(inode.front());
            extents.extend(words.map(|words| (u64_at(words, 0), u64_at(words, 8))));
        }
        let (mut end, mut pages) = (0, 0);
        for (at, word) in extents {
            let (first, is_written, count) = (word >> 16, word >> 15 & 1 == 1, word & 0x7fff);
            if at < end || at > FILE_PAGES_MAX {
                self.wrong(format!("extents of {number} overlap or are not in order"));
            }
            self.claim(Run::new(first, count), number);
            end = at.saturating_add(count);
            pages += count;
            let is_behind = end > inode.size().div_ceil(PAGE as u64);
            if is_written && is_behind && !inode.is_orphan() {
                self.wrong(format!("file {number} has bytes behind its end"));
            }
        }
        if pages != inode.pages() {
            self.wrong(format!(
                "file {number} has {pages} pages and says otherwise"
            ));
        }
    }
}
