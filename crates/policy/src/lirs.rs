//! LIRS: a page is judged by the other pages that were used between its last two uses. Those with few are *hot* and stay; all others, and new ones,
//! pass through a queue of a hundredth of the frames.
//!
//! * The **stack** has pages by their last use, hot ones, others, and keys of pages that left; its oldest is always hot. A page that is used
//!   while it is in the stack was used before later than the oldest hot page: it is hot from then on, and that one is not any more.
//! * The **queue** has the pages that are not hot and are there, by their last use: its oldest leaves.
//!
//! The paper lets the stack grow without bound; here it has twice as many places as there are frames, and the key that left first goes.

use rustc_hash::FxHashMap;

use crate::lists::{Links, List, NONE};
use crate::{Look, Policy, Victim};

/// A page, or the key of one that left.
#[derive(Debug, Clone, Copy)]
struct Node {
    key: u64,
    /// [`NONE`] if it left.
    frame: u32,
    is_hot: bool,
    in_stack: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Lirs {
    nodes: Vec<Node>,
    free: Vec<u32>,
    node_of: Vec<u32>,
    /// Of keys that left and are in the stack.
    gone_at: FxHashMap<u64, u32>,
    stack_links: Links,
    stack: List,
    queue_links: Links,
    queue: List,
    /// Those that left, by when.
    gone: List,
    hot: u32,
    hot_most: u32,
    stack_most: u64,
}

impl Lirs {
    fn node(&mut self, key: u64) -> u32 {
        let node = Node {
            key,
            frame: NONE,
            is_hot: false,
            in_stack: false,
        };
        if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            return at;
        }
        self.nodes.push(node);
        self.stack_links.grow();
        self.queue_links.grow();
        self.nodes.len() as u32 - 1
    }

    /// Puts a node on top of the stack.
    fn raise(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        match std::mem::replace(&mut node.in_stack, true) {
            true => self.stack_links.renew(&mut self.stack, at),
            false => self.stack_links.push(&mut self.stack, at),
        }
    }

    /// Has the stack end with a hot page.
    fn prune(&mut self) {
        loop {
            let at = self.stack.oldest();
            if at == NONE || self.nodes[at as usize].is_hot {
                return;
            }
            self.leave_stack(at);
        }
    }

    /// Takes a node out of the stack; one that left is forgotten.
    fn leave_stack(&mut self, at: u32) {
        self.stack_links.remove(&mut self.stack, at);
        let node = &mut self.nodes[at as usize];
        node.in_stack = false;
        if node.frame == NONE {
            let key = node.key;
            self.gone_at.remove(&key);
            self.queue_links.remove(&mut self.gone, at);
            self.free.push(at);
        }
    }

    /// A page of the stack is hot, and the oldest hot one is not, if there were too many.
    fn make_hot(&mut self, at: u32) {
        self.nodes[at as usize].is_hot = true;
        self.hot += 1;
        if self.hot > self.hot_most {
            self.cool_oldest();
        }
        self.prune();
    }

    /// The oldest hot page, which is the oldest of the stack, is not hot any more.
    fn cool_oldest(&mut self) {
        let oldest = self.stack.oldest();
        self.nodes[oldest as usize].is_hot = false;
        self.hot -= 1;
        self.queue_links.push(&mut self.queue, oldest);
        self.leave_stack(oldest);
        self.prune();
    }
}

impl Policy for Lirs {
    fn new(frames: u32) -> Lirs {
        let cold = (frames / 100).max(1);
        Lirs {
            nodes: Vec::new(),
            free: Vec::new(),
            node_of: vec![NONE; frames as usize],
            gone_at: FxHashMap::default(),
            stack_links: Links::new(0),
            stack: List::default(),
            queue_links: Links::new(0),
            queue: List::default(),
            gone: List::default(),
            hot: 0,
            hot_most: frames - cold,
            stack_most: 2 * u64::from(frames),
        }
    }

    fn hears_uses(&self) -> bool {
        true
    }

    fn hit(&mut self, frame: u32) {
        let at = self.node_of[frame as usize];
        let node = self.nodes[at as usize];
        self.raise(at);
        if node.is_hot {
            self.prune();
        } else if node.in_stack {
            self.queue_links.remove(&mut self.queue, at);
            self.make_hot(at);
        } else {
            self.queue_links.renew(&mut self.queue, at);
        }
    }

    fn evict(&mut self, _coming: Option<u64>, mut look: impl FnMut(u32) -> Look) -> Victim {
        // Who stays is in use, and may be hot then; a second round looks at every page.
        let mut rest = 2 * self.node_of.len();
        let at = loop {
            if rest == 0 || self.queue.is_empty() && self.hot == 0 {
                return Victim::None;
            }
            if self.queue.is_empty() {
                self.cool_oldest();
            }
            let at = self.queue.oldest();
            let frame = self.nodes[at as usize].frame;
            match look(frame) {
                Look::Goes => break at,
                Look::Used(_) => {}
                Look::Stays => self.hit(frame),
                Look::Ends => return Victim::Ended,
            }
            rest -= 1;
        };
        self.queue_links.remove(&mut self.queue, at);
        let frame = std::mem::replace(&mut self.nodes[at as usize].frame, NONE);
        let node = self.nodes[at as usize];
        match node.in_stack {
            true => {
                self.queue_links.push(&mut self.gone, at);
                self.gone_at.insert(node.key, at);
                self.prune();
            }
            false => self.free.push(at),
        }
        Victim::Frame(frame)
    }

    fn insert(&mut self, frame: u32, key: u64) {
        if let Some(at) = self.gone_at.remove(&key) {
            self.queue_links.remove(&mut self.gone, at);
            self.nodes[at as usize].frame = frame;
            self.node_of[frame as usize] = at;
            self.raise(at);
            self.make_hot(at);
        } else {
            let at = self.node(key);
            self.nodes[at as usize].frame = frame;
            self.node_of[frame as usize] = at;
            self.raise(at);
            match self.hot < self.hot_most {
                true => {
                    self.nodes[at as usize].is_hot = true;
                    self.hot += 1;
                }
                false => self.queue_links.push(&mut self.queue, at),
            }
            self.prune();
        }
        while u64::from(self.stack.len()) > self.stack_most && !self.gone.is_empty() {
            let oldest = self.gone.oldest();
            self.leave_stack(oldest);
        }
    }

    fn remove(&mut self, frame: u32) {
        let at = std::mem::replace(&mut self.node_of[frame as usize], NONE);
        let node = self.nodes[at as usize];
        match node.is_hot {
            true => self.hot -= 1,
            false => self.queue_links.remove(&mut self.queue, at),
        }
        if node.in_stack {
            self.stack_links.remove(&mut self.stack, at);
        }
        self.free.push(at);
        self.prune();
    }

    fn bytes(&self) -> usize {
        let places = 4 * (self.free.capacity() + self.node_of.len() + 4 * self.gone_at.capacity());
        let links = self.stack_links.bytes() + self.queue_links.bytes();
        size_of::<Node>() * self.nodes.capacity() + places + links
    }
}
