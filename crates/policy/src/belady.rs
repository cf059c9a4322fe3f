//! MIN of Belady: who knows the future gives up the page whose next use is farthest away. No policy hits more.

use std::collections::BinaryHeap;

use crate::lists::NONE;

/// Hits of so many frames over pages that are numbered below `distinct`, as each policy of [`simulate`](crate::simulate) has them.
pub fn belady(pages: &[u32], distinct: u32, frames: u32) -> u64 {
    if frames == 0 {
        return 0;
    }
    let mut last = vec![NONE; distinct as usize];
    let mut next = vec![NONE; pages.len()];
    for (at, page) in pages.iter().enumerate().rev() {
        next[at] = std::mem::replace(&mut last[*page as usize], at as u32);
    }
    // The next use of each page that is there; the heap has outdated ones too.
    let mut there = vec![None; distinct as usize];
    let mut farthest: BinaryHeap<(u32, u32)> = BinaryHeap::new();
    let (mut count, mut hits) = (0, 0);
    for (page, next) in pages.iter().zip(next) {
        let is_hit = there[*page as usize].is_some();
        hits += u64::from(is_hit);
        if !is_hit && count == frames {
            while let Some((at, gone)) = farthest.pop() {
                if there[gone as usize] == Some(at) {
                    there[gone as usize] = None;
                    count -= 1;
                    break;
                }
            }
        }
        count += u32::from(!is_hit);
        there[*page as usize] = Some(next);
        farthest.push((next, *page));
    }
    hits
}
