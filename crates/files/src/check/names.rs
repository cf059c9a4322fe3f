//! The entries of a directory, and the target of a symbolic link.

use crate::pages::{Pages, Run};

use super::hash::sip13;
use super::media::{LINK, u32_at, u64_at};
use super::tree::Record;
use super::walk::{DIRECTORY, Inode, Walk};

/// Bytes of the head of a page of a target.
const HEAD: usize = 48;
/// Longest target.
const TARGET_MAX: u64 = 4095;

fn is_name(name: &[u8]) -> bool {
    let is_reserved = name == b"." || name == b"..";
    (1..=255).contains(&name.len()) && !is_reserved && !name.iter().any(|b| matches!(b, 0 | b'/'))
}

impl<P: Pages> Walk<'_, P> {
    pub async fn directory(&mut self, inode: &Inode<'_>) {
        self.checked.directories += 1;
        let number = inode.number;
        let records = match inode.is_tree() {
            true => self.records(inode).await,
            false => Vec::new(),
        };
        if records.len() as u64 != inode.size() {
            self.wrong(format!("directory {number} has {} entries", records.len()));
        }
        if inode.pages() != 0 || inode.front() != 0 {
            self.wrong(format!("directory {number} has what files have"));
        }
        // Names of the same hash follow each other.
        for same in records.chunk_by(|one, two| one.0 >> 8 == two.0 >> 8) {
            for (nth, record) in same.iter().enumerate() {
                self.entry(number, record);
                if same[..nth]
                    .iter()
                    .any(|o| o.1.get(9..) == record.1.get(9..))
                {
                    self.wrong(format!("directory {number} has a name twice"));
                }
            }
        }
    }

    fn entry(&mut self, number: u64, (key, value): &Record) {
        let Some((head, name)) = value.split_at_checked(9).filter(|(_, name)| is_name(name)) else {
            self.wrong(format!("an entry of directory {number} is none"));
            return;
        };
        let first = sip13(self.media.hash_key, name) >> 9 << 8;
        if !(1..=255).contains(&key.wrapping_sub(first)) {
            self.wrong(format!("an entry of directory {number} is at another hash"));
        }
        let (target, kind) = (u64_at(head, 0), u16::from(head[8]));
        let known = self.media.slot(target).and_then(|(slot, generation)| {
            let known = &mut self.known[slot as usize];
            (known.generation == generation && known.kind == kind && kind != 0).then_some(known)
        });
        let Some(known) = known else {
            self.wrong(format!("an entry of directory {number} leads to nothing"));
            return;
        };
        known.names = known.names.saturating_add(1);
        if kind == DIRECTORY {
            let knows = known.parent == number;
            if let Some((own, _)) = self.media.slot(number) {
                self.known[own as usize].children += 1;
            }
            if !knows {
                self.wrong(format!(
                    "directory {target} is in {number} and does not know"
                ));
            }
        }
    }

    pub async fn symlink(&mut self, inode: &Inode<'_>) {
        self.checked.symlinks += 1;
        let (number, size) = (inode.number, inode.size());
        if inode.is_tree() || inode.pages() != 0 || !(1..=TARGET_MAX).contains(&size) {
            return self.wrong(format!("link {number} says what cannot be"));
        }
        let mut target = Vec::new();
        match inode.front() {
            0 if size as usize + inode.back() <= 152 => {
                target.extend_from_slice(&inode.area()[..size as usize]);
            }
            1..=2 => {
                for nth in 0..inode.front() {
                    let at = u64_at(inode.area(), 8 * nth);
                    target.extend(self.text(number, at).await);
                }
            }
            _ => self.wrong(format!("link {number} says what cannot be")),
        }
        if target.len() as u64 != size || target.contains(&0) {
            self.wrong(format!("the target of {number} is not what it should be"));
        }
    }

    /// The part of a target that is in a page.
    async fn text(&mut self, number: u64, at: u64) -> Vec<u8> {
        self.claim(Run::one(at), number);
        let Some(page) = self.page(at, LINK).await else {
            return Vec::new();
        };
        if u64_at(&page, 32) != number {
            self.wrong(format!("the target of {number} is another's"));
        }
        let bytes = page[HEAD..].iter().take(u32_at(&page, 40) as usize);
        bytes.copied().collect()
    }
}
