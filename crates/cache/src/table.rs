//! Which files are open, by number and by what they are.
//!
//! The table is locked for a moment only, to look something up or to change it. Whoever opens or
//! closes a file does so before or after: its number is *closing* meanwhile, and who wants to open
//! the same file waits for the end of that.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use wharf_runtime::sync::{AtomicU64, Ordering};
use wharf_storage::FileId;

use crate::error::PageCacheError;
use crate::open_file::OpenFile;

/// See the module.
pub(super) struct FileTable {
    places: Box<[RwLock<Option<Arc<OpenFile>>>]>,
    known: Mutex<Known>,
    /// A close has ended.
    close_ended: Condvar,
    closes: AtomicU64,
}

/// Who has what.
struct Known {
    free: Vec<u32>,
    users: BTreeMap<u32, Users>,
    by_id: BTreeMap<FileId, Arc<OpenFile>>,
}

/// Who has an open file.
enum Users {
    /// So many handles. None is left of a file that could not be closed: the next one who opens it
    /// has it again.
    Handles(u32),
    /// Who closes it, for its last handle has gone.
    Closing,
}

/// How a close has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// No page is left: the number may be another file's.
    Emptied,
    /// Pages are left that cannot go: the number is nobody's any more.
    Kept,
    /// Nothing could be done.
    NotAtAll,
}

impl FileTable {
    pub fn new(files: u32) -> FileTable {
        FileTable {
            places: (0..files).map(|_| RwLock::new(None)).collect(),
            known: Mutex::new(Known {
                free: (0..files).rev().collect(),
                users: BTreeMap::new(),
                by_id: BTreeMap::new(),
            }),
            close_ended: Condvar::new(),
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

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, number: u32, file: Option<Arc<OpenFile>>) -> Option<Arc<OpenFile>> {
        let mut place = self.places[number as usize]
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *place, file)
    }

    /// The open file that this is, with one handle more; nothing if it is not open. Waits while it
    /// is being closed.
    pub fn again(&self, id: FileId) -> Option<Arc<OpenFile>> {
        self.settled(id).1
    }

    /// The table, locked, while the file of `id` is not being closed, and that file with one handle
    /// more if it is open.
    fn settled(&self, id: FileId) -> (MutexGuard<'_, Known>, Option<Arc<OpenFile>>) {
        let mut known = self.known();
        loop {
            let Some(file) = known.by_id.get(&id).cloned() else {
                return (known, None);
            };
            if let Some(Users::Handles(handles)) = known.users.get_mut(&file.number) {
                *handles += 1;
                return (known, Some(file));
            }
            let wait = self.close_ended.wait(known);
            known = wait.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Opens a file that `make` makes when it is told its number, and which is ready: nothing that
    /// `make` does waits. The one that is open, if somebody else was faster.
    pub fn open(
        &self,
        id: Option<FileId>,
        make: impl FnOnce(u32) -> OpenFile,
    ) -> Result<Arc<OpenFile>, PageCacheError> {
        let mut known = match id.map(|id| self.settled(id)) {
            Some((_, Some(open))) => return Ok(open),
            Some((known, None)) => known,
            None => self.known(),
        };
        let files_max = self.places.len() as u32;
        let number = known.free.pop();
        let number = number.ok_or(PageCacheError::NoFileLeft { files_max })?;
        let file = Arc::new(make(number));
        known.users.insert(number, Users::Handles(1));
        if let Some(id) = id {
            known.by_id.insert(id, file.clone());
        }
        self.set(number, Some(file.clone()));
        Ok(file)
    }

    /// One handle more of an open file.
    pub fn more(&self, number: u32) {
        match self.known().users.get_mut(&number) {
            Some(Users::Handles(handles)) => *handles += 1,
            _ => unreachable!("whoever has a handle keeps the file open"),
        }
    }

    /// One handle less. True if it was the last: then the caller closes the file, and
    /// [says](FileTable::end_close) how that ended.
    pub fn less(&self, number: u32) -> bool {
        let mut known = self.known();
        let users = known.users.get_mut(&number).expect("an open file");
        let is_last = matches!(users, Users::Handles(1));
        match users {
            Users::Handles(handles) if *handles > 1 => *handles -= 1,
            _ => *users = Users::Closing,
        }
        is_last
    }

    /// Says how closing a file has ended.
    pub fn end_close(&self, number: u32, closed: Closed) {
        let mut known = self.known();
        let mut gone = Vec::new();
        if closed == Closed::NotAtAll {
            known.users.insert(number, Users::Handles(0));
        } else {
            known.users.remove(&number);
            let of_file = known.by_id.extract_if(.., |_, file| file.number == number);
            gone.extend(of_file.map(|(_, file)| file));
        }
        if closed == Closed::Emptied {
            gone.extend(self.set(number, None));
            known.free.push(number);
        }
        drop(known);
        self.close_ended.notify_all();
        // Relaxed: see `closes`.
        self.closes.fetch_add(1, Ordering::Relaxed);
        // The storage goes with the last of these, which may take its time.
        drop(gone);
    }
}
