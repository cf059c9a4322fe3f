//! Extended attributes.

use std::collections::BTreeSet;

use crate::pages::{Pages, Run};

use super::media::{XATTRS, u16_at, u32_at, u64_at};
use super::walk::{Inode, Walk};

/// Bytes of the head of a page of them.
const HEAD: usize = 48;

/// Whether they are whole, and none is there twice.
fn are_sound(mut bytes: &[u8]) -> bool {
    let mut names = BTreeSet::new();
    while !bytes.is_empty() {
        if bytes.len() < 3 || bytes[0] == 0 {
            return false;
        }
        let (name, value) = (usize::from(bytes[0]), usize::from(u16_at(bytes, 1)));
        if bytes.len() < 3 + name + value || !names.insert(&bytes[3..3 + name]) {
            return false;
        }
        bytes = &bytes[3 + name + value..];
    }
    true
}

impl<P: Pages> Walk<'_, P> {
    pub async fn xattrs(&mut self, inode: &Inode<'_>) {
        let (number, at) = (inode.number, inode.xattr_page());
        if at == 0 {
            // The first 16 bytes are for where the bytes are.
            let is_sound = inode.back() <= 136 && are_sound(&inode.area()[152 - inode.back()..]);
            if !is_sound {
                self.wrong(format!("extended attributes of {number} are none"));
            }
            return;
        }
        if inode.back() != 0 {
            self.wrong(format!("{number} has extended attributes at two places"));
        }
        if !self.claim(Run::one(at), number) {
            return;
        }
        let Some(page) = self.page(at, XATTRS).await else {
            return;
        };
        if u64_at(&page, 32) != number {
            self.wrong(format!("extended attributes of {number} are another's"));
        }
        let bytes = page.get(HEAD..HEAD.saturating_add(u32_at(&page, 40) as usize));
        if !bytes.is_some_and(are_sound) {
            self.wrong(format!("extended attributes of {number} are none"));
        }
    }
}
