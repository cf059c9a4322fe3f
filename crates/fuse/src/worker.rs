//! The one thread that has the file system, the sessions and what is open.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use fuser::FileHandle;
use wharf_files::vfs::{Session, SessionLimits};
use wharf_files::{Caller, FileError, FileSystem, Handle, HandleTable, block_on};

use crate::caller::Asker;
use crate::convert::{Numbers, nanoseconds};

/// Something that the worker does.
pub type Job<F> = Box<dyn FnOnce(&Worker<F>) + Send>;

/// Most sessions that are kept: one for each set of user and groups.
const SESSIONS_MAX: usize = 1024;

/// Sessions by what tells their callers apart.
type Sessions<F> = BTreeMap<Vec<u32>, Rc<Session<Rc<F>>>>;

/// A file or directory that is open, and whose it was when it was opened: that decides later.
pub struct Open<F> {
    /// Who opened it.
    pub session: Rc<Session<Rc<F>>>,
    /// The session's handle.
    pub handle: Handle,
}

impl<F> Clone for Open<F> {
    fn clone(&self) -> Self {
        Open {
            session: self.session.clone(),
            handle: self.handle,
        }
    }
}

/// See the module.
pub struct Worker<F> {
    fs: Rc<F>,
    /// How its numbers are shown.
    pub numbers: Numbers,
    sessions: RefCell<Sessions<F>>,
    open: RefCell<HandleTable<Open<F>>>,
}

impl<F: FileSystem> Worker<F> {
    /// The session of who asks.
    pub fn session(&self, asker: Asker) -> Rc<Session<Rc<F>>> {
        let caller = asker.caller();
        let mut sessions = self.sessions.borrow_mut();
        if sessions.len() >= SESSIONS_MAX {
            sessions.retain(|_, session| session.handles_count() > 0);
        }
        let found = sessions.entry(key(&caller)).or_insert_with(|| {
            Rc::new(Session::new(
                self.fs.clone(),
                caller,
                SessionLimits::default(),
            ))
        });
        found.clone()
    }

    /// Enters what was opened.
    pub fn enter(
        &self,
        session: Rc<Session<Rc<F>>>,
        handle: Handle,
    ) -> Result<FileHandle, FileError> {
        let open = Open { session, handle };
        let entered = self.open.borrow_mut().insert(open);
        match entered {
            Ok(own) => Ok(FileHandle(
                u64::from(own.generation) << 32 | u64::from(own.index),
            )),
            Err((errno, open)) => {
                block_on(open.session.close(open.handle))?;
                Err(errno.into())
            }
        }
    }

    /// What is open.
    pub fn open(&self, handle: FileHandle) -> Result<Open<F>, FileError> {
        Ok(self.open.borrow().get(own(handle)).cloned()?)
    }

    /// What was open.
    pub fn leave(&self, handle: FileHandle) -> Result<Open<F>, FileError> {
        Ok(self.open.borrow_mut().remove(own(handle))?)
    }
}

/// What tells callers apart.
fn key(caller: &Caller) -> Vec<u32> {
    let mut key = vec![caller.uid, caller.gid];
    key.extend(&caller.groups);
    key
}

fn own(handle: FileHandle) -> Handle {
    Handle {
        index: handle.0 as u32,
        generation: (handle.0 >> 32) as u32,
    }
}

/// The time, in nanoseconds since 1970.
#[allow(clippy::disallowed_methods)] // times of files are those of the clock on the wall
pub fn now_ns() -> u64 {
    nanoseconds(SystemTime::now())
}

/// How a worker gets its jobs, and its thread, which ends when nobody can give it any more.
type Started<F> = (mpsc::Sender<Job<F>>, JoinHandle<io::Result<()>>);

/// Starts a worker.
#[allow(clippy::disallowed_methods)] // a thread that belongs to no engine
pub fn start<F: FileSystem + 'static>(
    open: impl FnOnce() -> io::Result<F> + Send + 'static,
    close: impl FnOnce(F) -> io::Result<()> + Send + 'static,
) -> io::Result<Started<F>> {
    let (jobs, to_do) = mpsc::channel::<Job<F>>();
    let (is_open, opened) = mpsc::channel();
    let work = move || {
        let fs = match open() {
            Ok(fs) => Rc::new(fs),
            Err(error) => {
                let _ = is_open.send(Err(error));
                return Ok(());
            }
        };
        let _ = is_open.send(Ok(()));
        let worker = Worker {
            numbers: Numbers { root: fs.root() },
            fs: fs.clone(),
            sessions: RefCell::default(),
            open: RefCell::new(HandleTable::new(1 << 20, 0)),
        };
        to_do.into_iter().for_each(|job| job(&worker));
        let sessions = worker.sessions.take();
        sessions.values().for_each(|session| {
            let _ = block_on(session.close_all());
        });
        drop((sessions, worker));
        let fs = Rc::into_inner(fs).ok_or_else(|| io::Error::other("it is in use"))?;
        close(fs)
    };
    let thread = std::thread::Builder::new()
        .name("wharf files".into())
        .spawn(work)?;
    let gone = || io::Error::other("its thread has ended");
    opened.recv().map_err(|_| gone())??;
    Ok((jobs, thread))
}
