//! Which files are open, by number and by what they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use wharf_runtime::sync::{AtomicU64, Ordering};

use super::open_file::OpenFile;
use super::options::PageCacheError;

/// Device and inode of a file: what it is, by whatever path.
pub(super) type FileId = (u64, u64);

/// See the module.
pub(super) struct FileTable {
    places: Box<[RwLock<Option<Arc<OpenFile>>>]>,
    known: Mutex<Known>,
    closes: AtomicU64,
}

/// Who has what.
pub(super) struct Known {
    free: Vec<u32>,
    /// Handles of each open file.
    handles: BTreeMap<u32, u32>,
    by_id: BTreeMap<FileId, Arc<OpenFile>>,
}

impl FileTable {
    pub fn new(files: u32) -> FileTable {
        FileTable {
            places: (0..files).map(|_| RwLock::new(None)).collect(),
            known: Mutex::new(Known {
                free: (0..files).rev().collect(),
                handles: BTreeMap::new(),
                by_id: BTreeMap::new(),
            }),
            closes: AtomicU64::new(0),
        }
    }

    /// The open file of this number. Whoever asks has a page of it, or a handle.
    pub fn file(&self, number: u32) -> Arc<OpenFile> {
        self.find(number)
            .expect("the file of a cached page is open")
    }

    /// The file of this number, if it is open.
    pub fn find(&self, number: u32) -> Option<Arc<OpenFile>> {
        let place = &self.places[number as usize];
        place.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Files closed so far.
    pub fn closes(&self) -> u64 {
        // Relaxed: who sees it late closes its channel late.
        self.closes.load(Ordering::Relaxed)
    }

    /// For opening and closing: one at a time.
    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, number: u32, file: Option<Arc<OpenFile>>) {
        let mut place = self.places[number as usize]
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *place = file;
    }

    /// Opens another file, which `make` makes when it is told its number.
    pub fn open(
        &self,
        known: &mut Known,
        id: Option<FileId>,
        make: impl FnOnce(u32) -> Result<OpenFile, PageCacheError>,
    ) -> Result<Arc<OpenFile>, PageCacheError> {
        let files_max = self.places.len() as u32;
        let number = *known
            .free
            .last()
            .ok_or(PageCacheError::NoFileLeft { files_max })?;
        let file = Arc::new(make(number)?);
        known.free.pop();
        known.handles.insert(number, 1);
        if let Some(id) = id {
            known.by_id.insert(id, file.clone());
        }
        self.set(number, Some(file.clone()));
        Ok(file)
    }

    /// Gives the number of a file that has no handles and no pages to others.
    pub fn close(&self, known: &mut Known, number: u32) {
        known.handles.remove(&number);
        known.by_id.retain(|_, file| file.number != number);
        self.set(number, None);
        known.free.push(number);
        self.closes.fetch_add(1, Ordering::Relaxed);
    }
}

impl Known {
    /// The open file that this is, with one handle more.
    pub fn again(&mut self, id: FileId) -> Option<Arc<OpenFile>> {
        let file = self.by_id.get(&id)?.clone();
        self.more(file.number);
        Some(file)
    }

    /// One handle more of an open file.
    pub fn more(&mut self, number: u32) {
        *self.handles.get_mut(&number).expect("an open file") += 1;
    }

    /// One handle less; gives how many are left.
    pub fn less(&mut self, number: u32) -> u32 {
        let handles = self.handles.get_mut(&number).expect("an open file");
        *handles -= 1;
        *handles
    }
}
