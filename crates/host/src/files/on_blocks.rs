//! Files over any block design.
//!
//! The volume is divided into as many equal *regions* as it may have files with bytes; a file gets one with its first byte
//! and keeps it until nobody can reach it any more. Names, sizes and which pages there are, are kept in memory of the
//! host, in one [`FileTable`] that all clients share.
//!
//! Not yet: nothing of that memory is written to the volume. So files last as long as the process, and of the contract of
//! [`FileClient`] only the part about data holds: after a power cut bytes that were synced are in their pages, and nobody knows whose
//! they are ([`FileClient::is_durable`] is false). A file cannot be longer than its region (`EFBIG`), and there are no more
//! files with bytes than regions (`ENOSPC`). Names take no time but that of their lock. File systems in the drive have none of
//! these limits.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_files::HandleTable;
use wharf_runtime::Cpu;
use wharf_wire::dma::PAGE_BYTES;

use super::node::{self, At, Node};
use super::table::FileTable;
use super::tree::{Known, Tree};
use super::{
    Appended, Attributes, DirectoryEntry, Errno, FileClient, FileError, FileStatistics, Handle,
    OpenFlags, Opened, Owner, Rename, SetAttributes, Transfer,
};
use crate::design::client::Client;
use crate::design::{Counter, Touch};
use crate::span::Extent;

const PAGE: u64 = PAGE_BYTES as u64;

/// Most files that a client can have open.
const HANDLES_MAX: usize = 1 << 20;

/// An open file or directory.
struct OpenFile {
    number: u64,
    /// The file; nothing for a directory.
    node: Option<Arc<Node>>,
    flags: OpenFlags,
}

#[derive(Default)]
pub(super) struct Counters {
    opens: Counter,
    reads: Counter,
    writes: Counter,
    syncs: Counter,
    others: Counter,
    names: Counter,
    pub(super) waits: Counter,
    failures: Counter,
}

/// Files over the block client of one CPU. See the module.
pub struct FilesOnBlocks<C: Client> {
    pub(super) table: Arc<FileTable>,
    pub(super) cpu: Cpu,
    pub(super) client: C,
    pub(super) index: u32,
    /// Bytes of a page as stored.
    pub(super) page_bytes: usize,
    pub(super) counters: Counters,
    handles: RefCell<HandleTable<Rc<OpenFile>>>,
}

impl<C: Client> FilesOnBlocks<C> {
    /// Files for client `index`, each once, over its block client, whose volume is the table's and has pages of `page_bytes` bytes.
    pub fn new(
        table: &Arc<FileTable>,
        cpu: &Cpu,
        client: C,
        index: u32,
        page_bytes: usize,
    ) -> FilesOnBlocks<C> {
        table.mailboxes.serve(cpu, index);
        FilesOnBlocks {
            table: table.clone(),
            cpu: cpu.clone(),
            client,
            index,
            page_bytes,
            counters: Counters::default(),
            handles: RefCell::new(HandleTable::new(HANDLES_MAX, 0)),
        }
    }

    /// The block client.
    pub fn blocks(&self) -> &C {
        &self.client
    }

    /// Does something with the names.
    fn names<R>(&self, f: impl FnOnce(&mut Tree, u64) -> Result<R, Errno>) -> Result<R, FileError> {
        self.counters.names.add(1);
        let now_ns = self.cpu.now();
        let done = self.table.tree.with(&self.cpu, |tree| f(tree, now_ns));
        self.counted(done.map_err(FileError::from))
    }

    fn counted<R>(&self, result: Result<R, FileError>) -> Result<R, FileError> {
        self.counters.failures.add(u64::from(result.is_err()));
        result
    }

    #[inline]
    fn open_file(&self, handle: Handle) -> Result<Rc<OpenFile>, Errno> {
        self.handles.borrow().get(handle).cloned()
    }

    /// The file behind a handle that was opened for what is to be done.
    #[inline]
    fn node(
        &self,
        handle: Handle,
        may: impl Fn(&OpenFlags) -> bool,
    ) -> Result<Rc<OpenFile>, Errno> {
        let open = self.open_file(handle)?;
        match &open.node {
            _ if !may(&open.flags) => Err(Errno::EBADF),
            None => Err(Errno::EISDIR),
            Some(_) => Ok(open),
        }
    }

    /// What is known, with what the file itself knows.
    fn whole(&self, known: Known) -> Attributes {
        let [accessed_ns, modified_ns, changed_ns] = known.times_ns;
        let mut attributes = Attributes {
            number: known.number,
            kind: known.kind,
            mode: known.mode,
            owner: Owner::default(),
            links: known.links,
            bytes: known.bytes,
            device: 0,
            stored_bytes: 0,
            accessed_ns,
            modified_ns,
            changed_ns,
        };
        if let Some(node) = known.node {
            node.with(&self.cpu, |state| {
                attributes.bytes = state.bytes;
                attributes.stored_bytes = state.pages.count() * PAGE;
                attributes.accessed_ns = state.accessed_ns;
                attributes.modified_ns = state.modified_ns;
                attributes.changed_ns = changed_ns.max(state.changed_ns);
            });
        }
        attributes
    }

    async fn give_up_if(&self, node: Option<Arc<Node>>) {
        if let Some(node) = node {
            self.give_up(&node).await;
        }
    }

    async fn write_from(
        &self,
        handle: Handle,
        at: At,
        bytes: u64,
        data: &[u8],
    ) -> Result<(u64, Touch), FileError> {
        self.counters.writes.add(1);
        let open = self.node(handle, |flags| flags.write)?;
        let at = if open.flags.append { At::End } else { at };
        let node = open.node.as_ref().expect("a file");
        self.write(node, at, bytes, data).await
    }
}

fn node_of(open: &OpenFile) -> &Node {
    open.node.as_deref().expect("a file, as was checked")
}

impl<C: Client> FileClient for FilesOnBlocks<C> {
    fn is_durable(&self) -> bool {
        false
    }

    async fn open(&self, path: &[u8], flags: OpenFlags, mode: u16) -> Result<Opened, FileError> {
        self.counters.opens.add(1);
        if !self.handles.borrow().has_room() {
            return self.counted(Err(Errno::ENFILE.into()));
        }
        let now_ns = self.cpu.now();
        let new = || Arc::new(node::new(0, now_ns));
        let opened = self
            .table
            .tree
            .with(&self.cpu, |tree| tree.open(path, flags, mode, now_ns, new));
        let opened = self.counted(opened.map_err(FileError::from))?;
        let node = opened
            .node
            .clone()
            .filter(|_| flags.truncate && opened.existed);
        let open = Rc::new(OpenFile {
            number: opened.number,
            node: opened.node,
            flags,
        });
        let kept = self.handles.borrow_mut().insert(open);
        let Ok(handle) = kept else {
            unreachable!("there was room, and nothing was waited for");
        };
        if let Some(node) = node
            && let Err(error) = self.cut(&node, 0).await
        {
            // It is not open, then.
            let _ = self.close(handle).await;
            return self.counted(Err(error));
        }
        Ok(Opened {
            handle,
            number: opened.number,
            is_new: !opened.existed,
        })
    }

    async fn close(&self, handle: Handle) -> Result<(), FileError> {
        self.counters.others.add(1);
        let closed = self.handles.borrow_mut().remove(handle);
        let open = self.counted(closed.map_err(FileError::from))?;
        let gone = self
            .table
            .tree
            .with(&self.cpu, |tree| tree.close(open.number));
        self.give_up_if(gone).await;
        Ok(())
    }

    async fn read_at(
        &self,
        handle: Handle,
        extent: Extent,
        out: &mut [u8],
    ) -> Result<Transfer, FileError> {
        self.counters.reads.add(1);
        let read = match self.node(handle, |flags| flags.read) {
            Ok(open) => self.read(node_of(&open), extent, out).await,
            Err(errno) => Err(errno.into()),
        };
        self.counted(read)
    }

    async fn write_at(
        &self,
        handle: Handle,
        extent: Extent,
        data: &[u8],
    ) -> Result<Touch, FileError> {
        let at = At::Offset(extent.offset);
        let written = self.write_from(handle, at, extent.bytes, data).await;
        Ok(self.counted(written)?.1)
    }

    #[inline]
    fn read_now(&self, handle: Handle, extent: Extent, out: &mut [u8]) -> Option<u64> {
        let open = self.node(handle, |flags| flags.read).ok()?;
        self.check_payload(extent, out.len()).ok()?;
        let bytes = self.read_at_once(node_of(&open), extent, out)?;
        self.counters.reads.add(1);
        Some(bytes)
    }

    #[inline]
    fn write_now(&self, handle: Handle, extent: Extent, data: &[u8]) -> bool {
        let may = |flags: &OpenFlags| flags.write && !flags.append;
        let Ok(open) = self.node(handle, may) else {
            return false;
        };
        let is_written = self.check_payload(extent, data.len()).is_ok()
            && self.write_at_once(node_of(&open), extent, data);
        self.counters.writes.add(u64::from(is_written));
        is_written
    }

    async fn append(&self, handle: Handle, bytes: u64, data: &[u8]) -> Result<Appended, FileError> {
        let written = self.write_from(handle, At::End, bytes, data).await;
        let (offset, touch) = self.counted(written)?;
        Ok(Appended { offset, touch })
    }

    async fn set_len(&self, handle: Handle, bytes: u64) -> Result<(), FileError> {
        self.counters.others.add(1);
        let cut = match self.node(handle, |flags| flags.write) {
            Ok(open) => self.cut(node_of(&open), bytes).await,
            Err(errno) => Err(errno.into()),
        };
        self.counted(cut)
    }

    async fn punch(&self, handle: Handle, extent: Extent) -> Result<(), FileError> {
        self.counters.others.add(1);
        let done = match self.node(handle, |flags| flags.write) {
            Ok(open) => self.make_hole(node_of(&open), extent).await,
            Err(errno) => Err(errno.into()),
        };
        self.counted(done)
    }

    async fn sync(
        &self,
        handle: Handle,
        extent: Extent,
        _data_only: bool,
    ) -> Result<(), FileError> {
        self.counters.syncs.add(1);
        let open = self.counted(self.open_file(handle).map_err(FileError::from))?;
        match &open.node {
            Some(node) => self.counted(self.make_durable(node, extent).await),
            // Names are not durable here.
            None => Ok(()),
        }
    }

    async fn sync_all(&self) -> Result<(), FileError> {
        self.counters.syncs.add(1);
        self.counted(self.client.flush().await.map_err(FileError::from))
    }

    async fn attributes(&self, handle: Handle) -> Result<Attributes, FileError> {
        self.counters.others.add(1);
        let open = self.counted(self.open_file(handle).map_err(FileError::from))?;
        let known = self
            .table
            .tree
            .with(&self.cpu, |tree| tree.known(open.number));
        Ok(self.whole(known))
    }

    async fn stat(&self, path: &[u8], follow: bool) -> Result<Attributes, FileError> {
        let known = self.names(|tree, _| tree.stat(path, follow))?;
        Ok(self.whole(known))
    }

    async fn set_attributes(&self, path: &[u8], set: SetAttributes) -> Result<(), FileError> {
        let node = self.names(|tree, now_ns| tree.set_attributes(path, set, now_ns))?;
        if let Some(node) = node {
            node.with(&self.cpu, |state| {
                state.accessed_ns = set.accessed_ns.unwrap_or(state.accessed_ns);
                state.modified_ns = set.modified_ns.unwrap_or(state.modified_ns);
            });
        }
        Ok(())
    }

    async fn list(
        &self,
        handle: Handle,
        cookie: u64,
        most: usize,
        entries: &mut Vec<DirectoryEntry>,
    ) -> Result<bool, FileError> {
        let open = self.counted(self.open_file(handle).map_err(FileError::from))?;
        if open.node.is_some() {
            return self.counted(Err(Errno::ENOTDIR.into()));
        }
        self.names(|tree, _| tree.list(open.number, cookie, most, entries))
    }

    async fn mkdir(&self, path: &[u8], mode: u16) -> Result<(), FileError> {
        self.names(|tree, now_ns| tree.mkdir(path, mode, now_ns))
    }

    async fn rmdir(&self, path: &[u8]) -> Result<(), FileError> {
        self.names(|tree, now_ns| tree.rmdir(path, now_ns))
    }

    async fn remove(&self, path: &[u8]) -> Result<(), FileError> {
        let gone = self.names(|tree, now_ns| tree.remove(path, now_ns))?;
        self.give_up_if(gone).await;
        Ok(())
    }

    async fn rename(&self, from: &[u8], to: &[u8], how: Rename) -> Result<(), FileError> {
        let gone = self.names(|tree, now_ns| tree.rename(from, to, how, now_ns))?;
        self.give_up_if(gone).await;
        Ok(())
    }

    async fn link(&self, from: &[u8], to: &[u8]) -> Result<(), FileError> {
        self.names(|tree, now_ns| tree.link(from, to, now_ns))
    }

    async fn symlink(&self, target: &[u8], path: &[u8]) -> Result<(), FileError> {
        self.names(|tree, now_ns| tree.symlink(target, path, now_ns))
    }

    async fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, FileError> {
        self.names(|tree, _| tree.readlink(path))
    }

    async fn release(&self) -> Result<(), FileError> {
        Ok(self.client.release().await?)
    }

    fn statistics(&self) -> FileStatistics {
        let counters = &self.counters;
        FileStatistics {
            opens: counters.opens.get(),
            reads: counters.reads.get(),
            writes: counters.writes.get(),
            syncs: counters.syncs.get(),
            others: counters.others.get(),
            names: counters.names.get(),
            waits: counters.waits.get(),
            failures: counters.failures.get(),
            blocks: self.client.statistics(),
        }
    }
}
