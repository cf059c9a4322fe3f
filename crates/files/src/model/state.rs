//! All that the model knows: what each number stands for.

use std::collections::BTreeMap;

use super::bytes::Bytes;
use crate::attributes::{Attributes, Kind, MODE_BITS, Owner, Special};
use crate::errno::Errno;

/// The number of the root.
pub(super) const ROOT: u64 = 1;

/// What a name leads to, and its place in listings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named {
    pub(super) number: u64,
    pub(super) cookie: u64,
}

/// A directory.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    pub(super) parent: u64,
    pub(super) entries: BTreeMap<Vec<u8>, Named>,
    pub(super) latest_cookie: u64,
}

/// What something is.
#[derive(Debug, Clone)]
pub(super) enum Body {
    File(Bytes),
    Directory(Directory),
    Symlink(Vec<u8>),
    Special(Special, u32),
}

/// What a number stands for.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) body: Body,
    pub(super) mode: u16,
    pub(super) owner: Owner,
    pub(super) links: u32,
    pub(super) opens: u32,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) accessed_ns: u64,
    pub(super) modified_ns: u64,
    pub(super) changed_ns: u64,
}

/// All of them.
#[derive(Debug, Clone)]
pub(super) struct State {
    nodes: BTreeMap<u64, Node>,
    latest: u64,
}

impl Node {
    pub(super) fn new(body: Body, mode: u16, owner: Owner, now_ns: u64) -> Node {
        let links = match body {
            Body::Directory(_) => 2,
            _ => 1,
        };
        Node {
            body,
            mode: mode & MODE_BITS,
            owner,
            links,
            opens: 0,
            xattrs: BTreeMap::new(),
            accessed_ns: now_ns,
            modified_ns: now_ns,
            changed_ns: now_ns,
        }
    }

    /// Its bytes or entries have changed.
    pub(super) fn touch(&mut self, now_ns: u64) {
        (self.modified_ns, self.changed_ns) = (now_ns, now_ns);
    }

    pub(super) fn directory(&self) -> Result<&Directory, Errno> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(super) fn directory_mut(&mut self) -> Result<&mut Directory, Errno> {
        match &mut self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.directory().is_ok()
    }

    pub(super) fn stored_bytes(&self) -> u64 {
        self.bytes().map_or(0, Bytes::stored_bytes)
    }

    pub(super) fn bytes(&self) -> Result<&Bytes, Errno> {
        match &self.body {
            Body::File(bytes) => Ok(bytes),
            Body::Directory(_) => Err(Errno::EISDIR),
            Body::Symlink(_) | Body::Special(..) => Err(Errno::EINVAL),
        }
    }

    pub(super) fn bytes_mut(&mut self) -> Result<&mut Bytes, Errno> {
        match &mut self.body {
            Body::File(bytes) => Ok(bytes),
            Body::Directory(_) => Err(Errno::EISDIR),
            Body::Symlink(_) | Body::Special(..) => Err(Errno::EINVAL),
        }
    }
}

impl State {
    /// An empty root.
    pub(super) fn new(mode: u16, owner: Owner, now_ns: u64) -> State {
        let root = Directory {
            parent: ROOT,
            entries: BTreeMap::new(),
            latest_cookie: 0,
        };
        let root = Node::new(Body::Directory(root), mode, owner, now_ns);
        State {
            nodes: BTreeMap::from([(ROOT, root)]),
            latest: ROOT,
        }
    }

    pub(super) fn node(&self, number: u64) -> Result<&Node, Errno> {
        self.nodes.get(&number).ok_or(Errno::ESTALE)
    }

    pub(super) fn node_mut(&mut self, number: u64) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&number).ok_or(Errno::ESTALE)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    pub(super) fn add(&mut self, node: Node) -> u64 {
        self.latest += 1;
        self.nodes.insert(self.latest, node);
        self.latest
    }

    /// Forgets what has no name and is not open.
    pub(super) fn forget_if_gone(&mut self, number: u64) {
        let is_gone = |node: &Node| node.links == 0 && node.opens == 0;
        if self.nodes.get(&number).is_some_and(is_gone) {
            self.nodes.remove(&number);
        }
    }

    /// After a power cut nothing is open.
    pub(super) fn close_all(&mut self) {
        self.nodes.values_mut().for_each(|node| node.opens = 0);
        self.nodes.retain(|_, node| node.links > 0);
    }

    pub(super) fn attributes(&self, number: u64) -> Result<Attributes, Errno> {
        let node = self.node(number)?;
        let (kind, bytes, stored_bytes) = match &node.body {
            Body::File(bytes) => (Kind::File, bytes.size, bytes.stored_bytes()),
            Body::Directory(directory) => (Kind::Directory, directory.entries.len() as u64, 0),
            Body::Symlink(target) => (Kind::Symlink, target.len() as u64, 0),
            Body::Special(special, _) => (Kind::Special(*special), 0, 0),
        };
        let device = match node.body {
            Body::Special(_, device) => device,
            _ => 0,
        };
        Ok(Attributes {
            number,
            kind,
            mode: node.mode,
            owner: node.owner,
            links: node.links,
            bytes,
            device,
            stored_bytes,
            accessed_ns: node.accessed_ns,
            modified_ns: node.modified_ns,
            changed_ns: node.changed_ns,
        })
    }
}
