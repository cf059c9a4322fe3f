//! S3-FIFO: three queues. A tenth of the frames is for new pages. One that leaves it and was used twice or more joins the other nine tenths, as does
//! a page that comes back while its key is remembered (of nine tenths as many as frames). There the oldest page goes round again, as often as it was
//! used, three times at most, and else leaves. As long as nothing has left, new pages that the tenth has no room for join the others, as in libCacheSim.

use crate::Policy;
use crate::ghosts::Ghosts;
use crate::lists::Lists;

/// The lists of frames.
const NEW: usize = 0;
const MAIN: usize = 1;

/// Uses that are counted at most.
const USES_MAX: u8 = 3;

/// Uses of a new page that make it one of the others.
const USES_STAY: u8 = 2;

/// See the module.
#[derive(Debug)]
pub struct S3Fifo {
    lists: Lists<2>,
    uses: Vec<u8>,
    keys: Vec<u64>,
    gone: Ghosts,
    new_most: u32,
    main_most: u32,
    has_evicted: bool,
}

impl S3Fifo {
    /// The page of a new frame that leaves; none if all are used, and have joined the others.
    fn evict_new(&mut self) -> Option<u32> {
        while !self.lists.list(NEW).is_empty() {
            let frame = self.lists.pop(NEW);
            if self.uses[frame as usize] < USES_STAY {
                self.gone.push(self.keys[frame as usize]);
                return Some(frame);
            }
            self.join_main(frame);
        }
        None
    }

    fn evict_main(&mut self) -> u32 {
        loop {
            let frame = self.lists.pop(MAIN);
            let uses = &mut self.uses[frame as usize];
            if *uses == 0 {
                return frame;
            }
            *uses -= 1;
            self.lists.push(MAIN, frame);
        }
    }

    fn join_main(&mut self, frame: u32) {
        self.uses[frame as usize] = 0;
        self.lists.push(MAIN, frame);
    }
}

impl Policy for S3Fifo {
    fn new(frames: u32) -> S3Fifo {
        let share = |tenths: u64| (u64::from(frames) * tenths / 10) as u32;
        S3Fifo {
            lists: Lists::new(frames),
            uses: vec![0; frames as usize],
            keys: vec![0; frames as usize],
            gone: Ghosts::new(share(9)),
            new_most: share(1).max(1),
            main_most: frames - share(1).max(1),
            has_evicted: false,
        }
    }

    #[inline]
    fn hit(&mut self, frame: u32) {
        let uses = &mut self.uses[frame as usize];
        *uses = (*uses + 1).min(USES_MAX);
    }

    fn evict(&mut self, key: u64) -> u32 {
        self.has_evicted = true;
        self.gone.recall(key);
        if self.lists.list(MAIN).len() > self.main_most || self.lists.list(NEW).is_empty() {
            return self.evict_main();
        }
        self.evict_new().unwrap_or_else(|| self.evict_main())
    }

    fn insert(&mut self, frame: u32, key: u64) {
        self.keys[frame as usize] = key;
        let is_full = self.lists.list(NEW).len() >= self.new_most;
        if self.gone.comes_back(key) || !self.has_evicted && is_full {
            return self.join_main(frame);
        }
        self.uses[frame as usize] = 0;
        self.lists.push(NEW, frame);
    }

    fn remove(&mut self, frame: u32) {
        self.lists.remove(frame);
    }
}
