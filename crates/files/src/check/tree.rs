//! The records of a tree.

use crate::pages::{Pages, Run};

use super::media::{NODE, PAGE, u16_at, u64_at};
use super::walk::{Inode, Walk};

/// Levels of a tree.
const LEVELS_MAX: u64 = 13;
/// Bytes of the head of a node.
const HEAD: usize = 48;
/// Most bytes of a value.
const VALUE_MAX: usize = 300;

/// A key and a value.
pub type Record = (u64, Vec<u8>);

/// A node to be visited: its page, its level, and the keys that may be there.
struct Todo {
    page: u64,
    level: u64,
    /// The first child of a node also has what is below its own key.
    from: u64,
    to: u64,
}

/// The records of a node, if all of them lie in it and not in each other.
fn records(bytes: &[u8]) -> Option<Vec<Record>> {
    let count = usize::from(u16_at(bytes, 42));
    let slots_from = PAGE.checked_sub(2 * count).filter(|from| *from >= HEAD)?;
    let mut places = Vec::with_capacity(count);
    let mut found = Vec::with_capacity(count);
    for nth in 0..count {
        let at = usize::from(u16_at(bytes, PAGE - 2 * (nth + 1)));
        if at < HEAD || at + 10 > slots_from {
            return None;
        }
        let length = usize::from(u16_at(bytes, at + 8));
        if length > VALUE_MAX || at + 10 + length > slots_from {
            return None;
        }
        places.push((at, at + 10 + length));
        found.push((u64_at(bytes, at), bytes[at + 10..at + 10 + length].to_vec()));
    }
    places.sort_unstable();
    let is_apart = places.windows(2).all(|two| two[0].1 <= two[1].0);
    is_apart.then_some(found)
}

impl<P: Pages> Walk<'_, P> {
    /// All records of the tree of an inode, in order; its nodes are claimed.
    pub async fn records(&mut self, inode: &Inode<'_>) -> Vec<Record> {
        let (number, level) = (inode.number, u64_at(inode.area(), 8));
        let mut all = Vec::new();
        if level > LEVELS_MAX {
            self.wrong(format!("the tree of {number} is too high"));
            return all;
        }
        let mut todo = vec![Todo {
            page: u64_at(inode.area(), 0),
            level,
            from: 0,
            to: u64::MAX,
        }];
        while let Some(node) = todo.pop() {
            let Some(found) = self.node(number, &node).await else {
                continue;
            };
            if node.level == 0 {
                all.extend(found);
                continue;
            }
            for nth in (0..found.len()).rev() {
                let Ok(child) = found[nth].1[..].try_into() else {
                    self.wrong(format!("node {} of {number} leads nowhere", node.page));
                    continue;
                };
                let next = found.get(nth + 1).map(|next| next.0.saturating_sub(1));
                todo.push(Todo {
                    page: u64::from_le_bytes(child),
                    level: node.level - 1,
                    from: if nth == 0 { node.from } else { found[nth].0 },
                    to: next.unwrap_or(node.to),
                });
            }
        }
        all
    }

    async fn node(&mut self, number: u64, node: &Todo) -> Option<Vec<Record>> {
        let at = node.page;
        if !self.claim(Run::one(at), number) {
            return None;
        }
        let bytes = self.page(at, NODE).await?;
        if u64_at(&bytes, 32) != number || u64::from(u16_at(&bytes, 40)) != node.level {
            self.wrong(format!("node {at} of {number} is not of its tree"));
            return None;
        }
        let Some(found) = records(&bytes) else {
            self.wrong(format!("node {at} of {number} has records outside of it"));
            return None;
        };
        let is_ordered = found.windows(2).all(|two| two[0].0 < two[1].0);
        let first = usize::from(node.level > 0);
        let is_within = found.iter().skip(first).all(|r| r.0 >= node.from)
            && found.iter().all(|r| r.0 <= node.to);
        if found.is_empty() || !is_ordered || !is_within {
            self.wrong(format!("node {at} of {number} is not in order"));
        }
        Some(found)
    }
}
