//! The two lists of frames of all memory nodes, each node's behind a lock.

use wharf_runtime::{Cpu, Line, Lock};
use wharf_wire::dma::RegisterError;

use crate::kit::nodes::Nodes;
use crate::kit::replacement::two_lists::TwoLists;

/// The lists of all memory nodes.
pub struct NodeLists {
    nodes: Nodes,
    of_node: Box<[(Lock<TwoLists>, Line)]>,
}

impl NodeLists {
    /// Empty lists for all frames.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(nodes: Nodes) -> Result<NodeLists, RegisterError> {
        let of_node = |node| {
            Ok((
                Lock::new(TwoLists::new(nodes.frames_of(node))?),
                Line::new(),
            ))
        };
        let of_node: Result<Box<[_]>, RegisterError> = nodes.from(0).map(of_node).collect();
        Ok(NodeLists {
            nodes,
            of_node: of_node?,
        })
    }

    /// Whose they are.
    pub fn nodes(&self) -> Nodes {
        self.nodes
    }

    /// Runs `f` on the lists of a node, with their lock held. Their ends are on another line than
    /// the lock.
    pub fn with<R>(&self, cpu: &Cpu, node: usize, f: impl FnOnce(&mut TwoLists) -> R) -> R {
        let (lists, ends) = &self.of_node[node];
        lists.with(cpu, |lru| {
            ends.write(cpu);
            f(lru)
        })
    }
}
