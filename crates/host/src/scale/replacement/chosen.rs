//! The policies of `wharf-policy`: each memory node has one, behind a lock.
//!
//! Misses take the lock: one for a page that has come, one for as many as [`STRETCH`] that leave: of few frames a 128th. Hits do not. A policy that counts uses finds them
//! in the frame's state. One that puts pages in the order of their uses is told of a batch of them, when a CPU has that many
//! (BP-Wrapper, Ding and others, ICDE 2009): what it does not know yet is some uses old.
//!
//! What a frame's [`Place`] says decides, under the lock: a page that is tried as a victim is on no list, and may leave by another way, or another
//! page may have its frame, before it is put back.

use wharf_runtime::{Cpu, Line, Lock, Op};
use wharf_wire::dma::RegisterError;

use super::{Candidates, Heard, STRETCH, SharedReplacement};
use crate::design::Replacement;
use crate::kit::nodes::{Nodes, by_node};
use crate::kit::per_frame::per_frame;
use crate::kit::replacement::{AnyPolicy, Look, Victim, chosen};
use crate::scale::frame::Frames;

/// Frames that a search looks at before it comes back with what it has.
const LOOKS_MAX: u32 = 4 * STRETCH;

/// Where the page of a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The frame has no page.
    Absent,
    /// It is tried as a victim.
    Tried,
    /// The policy has it, and nobody has looked at it since it was used first: that use brought it.
    New,
    /// The policy has it.
    Known,
}

impl Place {
    /// Whether the policy has the page.
    fn is_listed(self) -> bool {
        matches!(self, Place::New | Place::Known)
    }
}

/// What a memory node has.
struct Node {
    /// The first of its frames.
    first: u32,
    policy: Box<dyn AnyPolicy>,
    /// By frame of the node.
    places: Vec<Place>,
    /// Victims at a time: the queues of policies for pages that leave next are a hundredth of the frames and more.
    batch: usize,
}

/// See the module.
pub struct ChosenPolicy {
    nodes: Nodes,
    of_node: Box<[(Lock<Node>, Line)]>,
    heard: Heard,
}

impl ChosenPolicy {
    /// The policy of this name, for each node.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(replacement: Replacement, nodes: Nodes) -> Result<ChosenPolicy, RegisterError> {
        let mut heard = Heard::Counted;
        let of_node = |node| {
            let frames = nodes.frames_of(node);
            let count = frames.end - frames.start;
            let policy = chosen(replacement, count)?;
            if policy.hears_uses() {
                heard = Heard::Told;
            }
            let node = Node {
                first: frames.start,
                places: per_frame(count, |_| Place::Absent)?,
                policy,
                batch: (count / 128).clamp(1, STRETCH) as usize,
            };
            Ok((Lock::new(node), Line::new()))
        };
        let of_node: Result<Box<[_]>, RegisterError> = nodes.from(0).map(of_node).collect();
        Ok(ChosenPolicy {
            nodes,
            of_node: of_node?,
            heard,
        })
    }

    /// Runs `f` on a node, with its lock held. What it changes is on other lines than the lock.
    fn with<R>(&self, cpu: &Cpu, node: usize, f: impl FnOnce(&mut Node) -> R) -> R {
        let (node, line) = &self.of_node[node];
        node.with(cpu, |node| {
            line.write(cpu);
            f(node)
        })
    }
}

impl Node {
    /// A page is on the lists from now on.
    fn add(&mut self, frames: &Frames, frame: u32, place: Place) {
        let at = frame - self.first;
        // A frame that is emptied at this moment has no key, and is taken out again by who empties it.
        let key = frames.key(frame).map_or(0, |key| key.word());
        self.policy.insert(at, key);
        self.places[at as usize] = place;
    }

    /// Has the policy choose victims. Gives the frames that it looked at.
    fn choose(&mut self, cpu: &Cpu, frames: &Frames, heard: Heard, out: &mut Candidates) -> u32 {
        let (first, places) = (self.first, &mut self.places);
        let mut looked = 0;
        let mut look = |at: u32| {
            if looked == LOOKS_MAX {
                return Look::Ends;
            }
            looked += 1;
            let (frame, place) = (first + at, &mut places[at as usize]);
            let uses = match heard {
                Heard::Counted => frames.take_uses(cpu, frame),
                Heard::Marked | Heard::Told => 0,
            };
            if uses > 0 {
                let is_new = std::mem::replace(place, Place::Known) == Place::New;
                let uses = uses - u8::from(is_new);
                if uses > 0 {
                    return Look::Used(uses);
                }
            }
            match frames.may_go(frame) {
                true => Look::Goes,
                false => Look::Stays,
            }
        };
        while out.len() < self.batch {
            match self.policy.evict(None, &mut look) {
                Victim::Frame(at) => out.push(first + at),
                Victim::Ended | Victim::None => break,
            }
        }
        for frame in out {
            self.places[(*frame - first) as usize] = Place::Tried;
        }
        looked
    }
}

impl SharedReplacement for ChosenPolicy {
    fn hears(&self) -> Heard {
        self.heard
    }

    fn used(&self, cpu: &Cpu, used: &[u32]) {
        for (node, run) in by_node(self.nodes, used) {
            self.with(cpu, node, |node| {
                cpu.work_n(Op::ListUpdate, run.len() as u32, || {
                    for frame in run {
                        let at = frame - node.first;
                        if node.places[at as usize].is_listed() {
                            node.policy.hit(at);
                        }
                    }
                });
            });
        }
    }

    fn insert(&self, cpu: &Cpu, frames: &Frames, frame: u32) {
        self.with(cpu, self.nodes.of_frame(frame), |node| {
            cpu.work(Op::ListUpdate, || node.add(frames, frame, Place::New));
        });
    }

    fn remove(&self, cpu: &Cpu, _: &Frames, frame: u32) {
        self.with(cpu, self.nodes.of_frame(frame), |node| {
            let at = frame - node.first;
            let place = std::mem::replace(&mut node.places[at as usize], Place::Absent);
            if place.is_listed() {
                cpu.work(Op::ListUpdate, || node.policy.remove(at));
            }
        });
    }

    fn victims(&self, cpu: &Cpu, node: usize, frames: &Frames, out: &mut Candidates) -> u32 {
        self.with(cpu, node, |node| {
            let looked = node.choose(cpu, frames, self.heard, out);
            cpu.work_n(Op::ListUpdate, looked, || looked)
        })
    }

    /// They come back, as if they had been missed.
    fn keep(&self, cpu: &Cpu, frames: &Frames, stayed: Candidates) {
        for (node, run) in by_node(self.nodes, &stayed) {
            self.with(cpu, node, |node| {
                cpu.work_n(Op::ListUpdate, run.len() as u32, || {
                    for frame in run {
                        if node.places[(frame - node.first) as usize] == Place::Tried {
                            node.add(frames, *frame, Place::Known);
                        }
                    }
                });
            });
        }
    }

    fn verify(&self, cpu: &Cpu, _: &Frames, pages: u64) {
        let listed = self.nodes.from(0).map(|node| {
            self.with(cpu, node, |node| {
                assert!(
                    !node.places.contains(&Place::Tried),
                    "nobody looks for victims"
                );
                node.places.iter().filter(|place| place.is_listed()).count() as u64
            })
        });
        assert_eq!(listed.sum::<u64>(), pages, "the policy knows every page");
    }
}
