//! What was found, held against what the media count.

use crate::pages::Pages;

use super::media::{BITMAP, PER_TABLE, SLOTS, STATE, TABLE, is_zeros, u32_at, u64_at};
use super::walk::{DIRECTORY, FILE, Walk};

impl<P: Pages> Walk<'_, P> {
    /// Follows the list of orphans.
    pub async fn orphans(&mut self) {
        let Ok(state) = self.media.page(1, STATE).await else {
            return;
        };
        let (mut at, mut previous) = (u64_at(&state, 32), 0);
        while at != 0 {
            let slot = self.media.slot(at).filter(|(slot, generation)| {
                let known = &self.known[*slot as usize];
                known.kind != 0 && known.generation == *generation
            });
            let Some((slot, _)) = slot else {
                return self.wrong("the list of orphans leads nowhere");
            };
            if std::mem::replace(&mut self.known[slot as usize].is_listed, true) {
                return self.wrong("the list of orphans has no end");
            }
            let Some((before, next)) = self.neighbours(slot).await else {
                return self.wrong("the list of orphans leads nowhere");
            };
            if !self.known[slot as usize].is_orphan || before != previous {
                return self.wrong(format!("{at} is wrong in the list of orphans"));
            }
            (previous, at) = (at, next);
        }
    }

    /// What an inode says of the list of orphans.
    async fn neighbours(&self, slot: u64) -> Option<(u64, u64)> {
        let (group, index) = (self.media.group(slot / SLOTS), slot % SLOTS);
        let number = group.first + 1 + index / PER_TABLE;
        let table = self.media.page(number, TABLE).await.ok()?;
        let at = 32 + 256 * (index % PER_TABLE) as usize;
        Some((u64_at(&table, at + 72), u64_at(&table, at + 80)))
    }

    /// The bitmap of a group has to say what was claimed.
    pub async fn compare_groups(&mut self) {
        for number in 0..self.media.groups {
            let group = self.media.group(number);
            let Ok(bitmap) = self.media.page(group.first, BITMAP).await else {
                continue;
            };
            if u64_at(&bitmap, 32) != number || u32_at(&bitmap, 48) as u64 > group.tables {
                self.wrong(format!("the bitmap of group {number} is another's"));
            }
            let is_padded = u32_at(&bitmap, 52) == 0 && is_zeros(&bitmap[2616..]);
            if !is_padded {
                self.wrong(format!("the bitmap of group {number} has more than bits"));
            }
            let data = group.data();
            let free: u32 = bitmap[568..2616].iter().map(|b| b.count_zeros()).sum();
            // What is not for files and trees is in use, or not there, which is the same.
            let (mut unclaimed, mut unmarked) = (0, free);
            for page in data {
                let index = page - group.first;
                let is_used = bitmap[568 + (index / 8) as usize] >> (index % 8) & 1 == 1;
                let is_claimed = self.is_claimed(page);
                unclaimed += u32::from(is_used && !is_claimed);
                unmarked -= u32::from(!is_used && !is_claimed);
            }
            if unclaimed > 0 {
                self.wrong(format!("{unclaimed} pages of group {number} are nobody's"));
            }
            if unmarked > 0 {
                self.wrong(format!(
                    "{unmarked} pages of group {number} are in use and count as free"
                ));
            }
            let inodes: u32 = bitmap[56..568].iter().map(|byte| byte.count_zeros()).sum();
            let is_short = (group.inodes()..4096)
                .any(|index| bitmap[56 + (index / 8) as usize] >> (index % 8) & 1 == 0);
            if is_short {
                self.wrong(format!("group {number} has inodes that are not there"));
            }
            if free != u32_at(&bitmap, 40) || inodes != u32_at(&bitmap, 44) {
                self.wrong(format!("group {number} counts wrong what is free"));
            }
        }
    }

    /// Every inode has as many links as names lead to it.
    pub fn compare_links(&mut self) {
        for slot in 0..self.known.len() {
            let known = self.known[slot];
            if known.kind == 0 {
                continue;
            }
            let number = (slot as u64 + 1) | (u64::from(known.generation) << 32);
            if known.is_orphan != known.is_listed {
                self.wrong(format!("{number} is not in the list of orphans"));
            }
            let names = known.names + u32::from(slot == 0);
            let is_right = match known.kind {
                // It is open, or to be given back.
                _ if known.links == 0 && names == 0 => known.is_listed,
                DIRECTORY => names == 1 && known.links == known.children + 2,
                FILE => names > 0 && names == known.links,
                _ => names > 0 && names == known.links && !known.is_orphan,
            };
            if !is_right {
                let links = known.links;
                self.wrong(format!("{number} has {links} links and {names} names"));
            }
        }
    }

    /// All directories lie below the root, and not in each other.
    pub fn compare_places(&mut self) {
        const ROOT: usize = 0;
        if self.known[ROOT].kind != DIRECTORY {
            return self.wrong("there is no root");
        }
        let mut is_below = vec![false; self.known.len()];
        is_below[ROOT] = true;
        let mut way = Vec::new();
        for slot in 0..self.known.len() {
            if self.known[slot].kind != DIRECTORY || self.known[slot].links == 0 {
                continue;
            }
            let mut at = Some(slot);
            while let Some(now) = at.filter(|now| !is_below[*now] && way.len() <= self.known.len())
            {
                way.push(now);
                let parent = self.media.slot(self.known[now].parent);
                at = parent.map(|(slot, _)| slot as usize);
            }
            if at.is_some_and(|now| is_below[now]) {
                way.drain(..).for_each(|slot| is_below[slot] = true);
            } else {
                way.clear();
                self.wrong(format!(
                    "the directory in slot {slot} is not below the root"
                ));
            }
        }
    }
}
