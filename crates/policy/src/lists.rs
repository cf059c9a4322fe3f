//! Lists of frames, or of other small numbers, each of which is in one list at most.

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
