//! Lists of frames, or of other small numbers, each of which is in one list at most.

use crate::{Look, Victim};

/// No number of frames that stay ends a search.
pub(crate) const ALL: u32 = u32::MAX;

/// No number.
pub(crate) const NONE: u32 = u32::MAX;

/// Who is beside whom, of all lists.
#[derive(Debug)]
pub(crate) struct Links {
    newer: Vec<u32>,
    older: Vec<u32>,
}

/// One of the lists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    newest: u32,
    oldest: u32,
    len: u32,
}

impl Default for List {
    fn default() -> List {
        List {
            newest: NONE,
            oldest: NONE,
            len: 0,
        }
    }
}

impl List {
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// [`NONE`] if it is empty.
    pub(crate) fn oldest(&self) -> u32 {
        self.oldest
    }
}

impl Links {
    /// Of numbers below `count`.
    pub(crate) fn new(count: u32) -> Links {
        Links {
            newer: vec![NONE; count as usize],
            older: vec![NONE; count as usize],
        }
    }

    /// A number more.
    pub(crate) fn grow(&mut self) {
        self.newer.push(NONE);
        self.older.push(NONE);
    }

    /// Who came to its list after this one; [`NONE`] if nobody did.
    pub(crate) fn newer(&self, number: u32) -> u32 {
        self.newer[number as usize]
    }

    /// Puts a number that is in no list before all others.
    pub(crate) fn push(&mut self, list: &mut List, number: u32) {
        let before = list.newest;
        self.older[number as usize] = before;
        self.newer[number as usize] = NONE;
        match before {
            NONE => list.oldest = number,
            before => self.newer[before as usize] = number,
        }
        list.newest = number;
        list.len += 1;
    }

    /// Takes a number out of its list.
    pub(crate) fn remove(&mut self, list: &mut List, number: u32) {
        let (newer, older) = (self.newer[number as usize], self.older[number as usize]);
        match newer {
            NONE => list.newest = older,
            newer => self.older[newer as usize] = older,
        }
        match older {
            NONE => list.oldest = newer,
            older => self.newer[older as usize] = newer,
        }
        list.len -= 1;
    }

    /// Takes the oldest one; [`NONE`] if there is none.
    pub(crate) fn pop(&mut self, list: &mut List) -> u32 {
        let oldest = list.oldest;
        if oldest != NONE {
            self.remove(list, oldest);
        }
        oldest
    }

    /// Takes the oldest of a list that goes; those that stay are before all others from then on, so that they are not in the way again. Which
    /// [was used](Look::Used) is looked at once more.
    #[inline]
    pub(crate) fn take(&mut self, list: &mut List, mut look: impl FnMut(u32) -> Look) -> Victim {
        let mut rest = list.len;
        while rest > 0 {
            let oldest = list.oldest;
            match look(oldest) {
                Look::Goes => {
                    self.remove(list, oldest);
                    return Victim::Frame(oldest);
                }
                Look::Used(_) => {}
                Look::Stays => {
                    self.renew(list, oldest);
                    rest -= 1;
                }
                Look::Ends => return Victim::Ended,
            }
        }
        Victim::None
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        4 * (self.newer.capacity() + self.older.capacity())
    }

    /// Puts one of a list before all others of it.
    pub(crate) fn renew(&mut self, list: &mut List, number: u32) {
        if list.newest != number {
            self.remove(list, number);
            self.push(list, number);
        }
    }
}

/// Frames in one of several lists each.
#[derive(Debug)]
pub(crate) struct Lists<const N: usize> {
    links: Links,
    lists: [List; N],
    /// The list of each frame that is in one.
    place: Vec<u8>,
}

impl<const N: usize> Lists<N> {
    /// Of frames below `frames`, none of which is in a list.
    pub(crate) fn new(frames: u32) -> Lists<N> {
        Lists {
            links: Links::new(frames),
            lists: [List::default(); N],
            place: vec![0; frames as usize],
        }
    }

    /// The list that a frame is in.
    pub(crate) fn place(&self, frame: u32) -> usize {
        self.place[frame as usize].into()
    }

    pub(crate) fn list(&self, list: usize) -> &List {
        &self.lists[list]
    }

    /// Puts a frame that is in no list before all others of one.
    pub(crate) fn push(&mut self, list: usize, frame: u32) {
        self.place[frame as usize] = list as u8;
        self.links.push(&mut self.lists[list], frame);
    }

    /// Takes the oldest one of a list; [`NONE`] if there is none.
    pub(crate) fn pop(&mut self, list: usize) -> u32 {
        self.links.pop(&mut self.lists[list])
    }

    /// Looks for the oldest of a list that goes. Those that stay go to the list `stay`, before all others, so that they are not in the way again:
    /// a page that cannot go is in use. After `most` of them it gives up. Which [was used](Look::Used) is looked at once more.
    #[inline]
    pub(crate) fn find(
        &mut self,
        list: usize,
        stay: usize,
        most: u32,
        mut look: impl FnMut(u32) -> Look,
    ) -> Victim {
        let mut rest = self.lists[list].len.min(most);
        while rest > 0 {
            let oldest = self.lists[list].oldest;
            match look(oldest) {
                Look::Goes => return Victim::Frame(oldest),
                Look::Used(_) => {}
                Look::Stays => {
                    self.remove(oldest);
                    self.push(stay, oldest);
                    rest -= 1;
                }
                Look::Ends => return Victim::Ended,
            }
        }
        Victim::None
    }

    /// Finds one, and takes it.
    #[inline]
    pub(crate) fn take(
        &mut self,
        list: usize,
        stay: usize,
        most: u32,
        look: impl FnMut(u32) -> Look,
    ) -> Victim {
        let found = self.find(list, stay, most, look);
        if let Victim::Frame(frame) = found {
            self.remove(frame);
        }
        found
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.links.bytes() + self.place.len()
    }

    /// Takes a frame out of its list.
    pub(crate) fn remove(&mut self, frame: u32) {
        let list = self.place(frame);
        self.links.remove(&mut self.lists[list], frame);
    }

    /// Puts a frame before all others of its list.
    pub(crate) fn renew(&mut self, frame: u32) {
        let list = self.place(frame);
        self.links.renew(&mut self.lists[list], frame);
    }
}
