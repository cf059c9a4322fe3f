//! Loads and stores by the drive's window, for random programs by commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_files::OpenFlags;
use wharf_runtime::Cpu;
use wharf_wire::file::FileHandle;
use wharf_wire::window::{FilePage, Window};

const PAGE: u64 = 4096;

/// The window, and which file each handle is of.
pub struct ByWindow {
    window: Arc<Window>,
    cpu: Cpu,
    opened: BTreeMap<u64, (u64, OpenFlags)>,
    /// Requests that took no command.
    pub hits: u64,
}

/// Parts of bytes that lie in one page each: the page, where in it, where among the bytes.
fn parts(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let end = offset + bytes as u64;
    (offset / PAGE..end.div_ceil(PAGE)).map(move |page| {
        let (from, to) = (offset.max(page * PAGE), end.min((page + 1) * PAGE));
        let part = (from - offset) as usize..(to - offset) as usize;
        (page, (from % PAGE) as usize, part)
    })
}

impl ByWindow {
    pub fn new(cpu: &Cpu, window: Arc<Window>) -> ByWindow {
        ByWindow {
            window,
            cpu: cpu.clone(),
            opened: BTreeMap::new(),
            hits: 0,
        }
    }

    pub fn opened(&mut self, handle: FileHandle, number: u64, flags: OpenFlags) {
        self.opened.insert(handle.raw(), (number, flags));
    }

    pub fn closed(&mut self, handle: FileHandle) {
        self.opened.remove(&handle.raw());
    }

    /// Loads bytes, if all of them are there for one who may read them.
    pub fn load(&mut self, handle: FileHandle, offset: u64, bytes: usize) -> Option<Vec<u8>> {
        let (number, flags) = *self.opened.get(&handle.raw())?;
        if !flags.read || bytes == 0 || offset > 1 << 40 {
            return None;
        }
        let mut out = vec![0; bytes];
        let is_there = parts(offset, bytes).all(|(page, at, part)| {
            let name = FilePage { number, page };
            self.window.load(&self.cpu, name, at, &mut out[part])
        });
        self.hits += u64::from(is_there);
        is_there.then_some(out)
    }

    /// Stores bytes, if they can be, for one who may write there.
    pub fn store(&mut self, handle: FileHandle, offset: u64, data: &[u8]) -> bool {
        let Some((number, flags)) = self.opened.get(&handle.raw()).copied() else {
            return false;
        };
        if !flags.write || flags.append || data.is_empty() || offset > 1 << 40 {
            return false;
        }
        let is_done = parts(offset, data.len()).all(|(page, at, part)| {
            let name = FilePage { number, page };
            self.window.store(&self.cpu, name, at, &data[part])
        });
        self.hits += u64::from(is_done);
        is_done
    }
}
