//! The host's side of a drive that runs a file system: on this thread, or in another process.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::os::fd::RawFd;
use std::path::Path;
use std::rc::Rc;

use wharf_drive::config::FileSystemKind;
use wharf_files::block::{Recovered, Replayed};
use wharf_files::vfs::{At, Target};
use wharf_files::volume::Format;
use wharf_files::{By, Caller, Errno, FileError, Handle};
use wharf_host::stor::{Credentials, Sides, Stor, StorClient};
use wharf_wire::file::{DriveKey, FileSystemLog, FileSystemState};
use wharf_wire::identify::DriveFeature;

use super::ImageError;
use super::cached::{Command, Kept};
use super::identity::Identity;
use super::image::{NewImage, new_files};
use crate::store::{Client, StoreOptions, Turns};

/// What a command is about: of which files the drive takes what this process has written and keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// The file of this number alone, which a handle names.
    File(u64),
    /// Any: a path leads there, or all are meant.
    Any,
    /// None: it is about locks.
    Locks,
}

/// See the module. A drive on this thread runs while somebody waits for it.
pub struct FileDrive {
    // The order of the fields is the order of their end.
    /// Of whoever asked last.
    pub(super) recent: RefCell<StorClient>,
    client: Client<Stor>,
    /// What the commands are about that are under way: more than one, where threads have them side by side.
    under_way: RefCell<Vec<About>>,
    /// How many there were.
    asked: Cell<u64>,
    pub(super) root: u64,
    /// Handles by which all writes are at the end.
    pub(super) appending: RefCell<BTreeSet<Handle>>,
    recovered: Recovered,
    format: Option<Format>,
    /// Of a drive in another process.
    identity: Option<Rc<Identity>>,
    /// What is kept of files, if anything is.
    pub(super) kept: Kept,
    /// What either side takes to compute.
    pub(super) sides: Sides,
}

impl FileDrive {
    /// Powers a drive on, which opens its file system, or makes one.
    ///
    /// # Errors
    /// If the drive cannot be opened, or has no file system that can be used.
    pub(super) fn open(
        options: StoreOptions,
        new: Option<&NewImage>,
    ) -> Result<FileDrive, ImageError> {
        let options = match new {
            Some(new) => options.files(new.format.into(), Some(new_files(new)?)),
            // The table of partitions says which it is.
            None => options.files(FileSystemKind::Any, None),
        };
        FileDrive::over(Client::open_local(&options)?, None)
    }

    /// A drive that another process serves at a socket.
    ///
    /// # Errors
    /// If nobody serves one there, or all of its places are taken.
    pub fn attach(socket: &Path) -> Result<FileDrive, ImageError> {
        FileDrive::over_attached(Client::attach(socket)?, socket)
    }

    /// One that a client speaks to which has attached at a socket: as whom the server there says that it is.
    pub(super) fn over_attached(
        client: Client<Stor>,
        socket: &Path,
    ) -> Result<FileDrive, ImageError> {
        let credentials = client.credentials().cloned();
        let identity = credentials.map(|now| Identity::new(socket, now));
        FileDrive::over(client, identity)
    }

    /// From now on symbolic links to absolute paths, and `..` in the root, lead out of the file system (`EREMOTE`): for
    /// whoever has it at a place among other files.
    pub fn let_links_leave(&self) {
        let client = self.recent.borrow().clone();
        *self.recent.borrow_mut() = client.with_links_leaving();
    }

    /// Lets other threads use a drive in another process while one waits for it. From now on each has its turn when it uses it, and is
    /// given that by `turns`.
    pub fn share_among_threads(&self, turns: &'static Turns) {
        self.client.share_among_threads(turns);
    }

    /// Whether another process has the drive, and is gone.
    pub fn is_cut_off(&self) -> bool {
        self.client.is_cut_off()
    }

    /// A number of the server's that has the drive, if that is another process: who serves it anew has another one. What was
    /// open, and locked, is of one server.
    pub fn sharing(&self) -> Option<u32> {
        self.client.sharing()
    }

    /// The descriptor of the connection to the process that has the drive, if that is another one: it lasts as long.
    pub fn connection(&self) -> Option<RawFd> {
        self.client.connection()
    }

    /// Forgets a drive in another process that a fork has left here: it is that of the parent, whose use of it goes on.
    pub fn abandon(mut self) {
        self.forget_kept();
        self.client.abandon();
        std::mem::forget(self);
    }

    /// One that a client speaks to.
    pub(super) fn over(
        client: Client<Stor>,
        identity: Option<Rc<Identity>>,
    ) -> Result<FileDrive, ImageError> {
        let log = client.log();
        if let Some(log) = &log {
            check(log)?;
        }
        let mut files = client.files()?;
        if let Some(own) = &identity {
            done(&client, files.authenticate(&own.now()))?;
            let own = own.clone();
            files = files.as_caller(own.caller(), u64::MAX);
            files.renew_by(Rc::new(move || own.ask_again()));
        }
        let root = done(&client, files.stat(Target::Path(At::from(&b"/"[..]), true)))?;
        Ok(FileDrive {
            recent: RefCell::new(files),
            client,
            under_way: RefCell::default(),
            asked: Cell::new(0),
            root: root.number,
            appending: RefCell::default(),
            recovered: log.as_ref().map(recovered).unwrap_or_default(),
            kept: Kept::default(),
            sides: Sides::default(),
            format: log.and_then(|log| Format::of_number(log.kind as u8)),
            identity,
        })
    }

    /// Whom this process asks as, if it may name anybody root, else who it is for the server of a drive in another process.
    pub fn own_caller(&self) -> Caller {
        match &self.identity {
            Some(own) if !own.acts_for_others() => own.caller(),
            _ => Caller::root(),
        }
    }

    /// Tells a drive in another process who this process is now: its user has changed. What is open stays open.
    ///
    /// # Errors
    /// `EACCES` if its server does not let that user in. Who may name others may do so still.
    pub fn change_user(&self) -> Result<(), FileError> {
        let Some(own) = &self.identity else {
            return Ok(());
        };
        match own.ask_again() {
            Some(new) => {
                let client = self.client();
                self.done(client.authenticate(&new))
            }
            None => Err(Errno::EACCES.into()),
        }
    }

    /// Gives a drive on this thread a key, and shows it claims of root's.
    ///
    /// # Errors
    /// Of the drive.
    pub(super) fn check_this_process(&self, key: DriveKey) -> Result<(), ImageError> {
        self.client.give_key(key)?;
        let own = Credentials::root(&key);
        let client = self.client();
        Ok(self.done(client.authenticate(&own))?)
    }

    /// What was done to bring the file system up to date; nothing, where another process did.
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Which file system it is; what another process serves does not say.
    pub fn format(&self) -> Option<Format> {
        self.format
    }

    /// Whether another process has the drive, and others may use it too.
    pub fn is_elsewhere(&self) -> bool {
        self.client.is_elsewhere()
    }

    /// Whether another process has the drive, and that can do something.
    pub(super) fn has_elsewhere(&self, feature: DriveFeature) -> bool {
        self.client.has_elsewhere(feature)
    }

    /// Most bytes that one command moves.
    pub fn bytes_max(&self) -> usize {
        self.client().bytes_max()
    }

    /// Closes all that is open, makes everything durable, and ends the drive, or its use.
    ///
    /// # Errors
    /// Of the drive.
    pub fn end(self) -> Result<(), ImageError> {
        let client = self.recent.borrow().clone();
        Ok(self.done(client.leave())?)
    }

    /// Runs everything on this thread until the host's side of a command about anything has its answer.
    ///
    /// # Errors
    /// That of the answer; `EIO` if the process that serves the drive is gone, a millisecond after that or a quarter of the time waited so
    /// far, up to 100 ms.
    pub(super) fn done<T>(&self, future: impl Command<T>) -> Result<T, FileError> {
        self.done_about(About::Any, future)
    }

    /// The same of a command about an open file.
    pub(super) fn done_on<T>(
        &self,
        handle: Handle,
        future: impl Command<T>,
    ) -> Result<T, FileError> {
        self.done_about(self.about(handle), future)
    }

    /// The same of a command about this.
    pub(super) fn done_about<T>(
        &self,
        about: About,
        future: impl Command<T>,
    ) -> Result<T, FileError> {
        self.asked.update(|count| count + 1);
        self.under_way.borrow_mut().push(about);
        let done = done(&self.client, future);
        let mut under_way = self.under_way.borrow_mut();
        let own = under_way.iter().position(|other| *other == about);
        under_way.swap_remove(own.expect("it was under way"));
        done
    }

    /// How often the drive was asked for anything: each time by one command, but for more bytes than one moves.
    pub fn asked(&self) -> u64 {
        self.asked.get()
    }

    /// Whether no thread has a command under way that is about this file, or may be.
    #[inline]
    pub(super) fn is_quiet(&self, number: u64) -> bool {
        let may = |about: &About| matches!(about, About::Any) || *about == About::File(number);
        !self.under_way.borrow().iter().any(may)
    }

    /// The client, for a caller; and tells the drive what time it is where it does not know.
    pub(super) fn as_caller(&self, by: By<'_>) -> StorClient {
        self.tell_time(by.now_ns);
        let mut recent = self.recent.borrow_mut();
        if recent.caller() != by.caller {
            *recent = recent.as_caller(by.caller.clone(), u64::MAX);
        }
        recent.clone()
    }

    /// The client, for what no caller is asked.
    pub(super) fn client(&self) -> StorClient {
        self.recent.borrow().clone()
    }

    /// Tells the drive what time it is, if its clock is apart from the system's.
    pub(super) fn tell_time(&self, now_ns: u64) {
        self.client.follow_clock(now_ns);
    }

    pub(super) fn appends(&self, handle: Handle) -> bool {
        self.appending.borrow().contains(&handle)
    }
}

/// See [`FileDrive::done`].
fn done<T>(client: &Client<Stor>, future: impl Command<T>) -> Result<T, FileError> {
    match client.wait_while_served(future) {
        Some(done) => done.map_err(|error| FileError::Errno(error.errno())),
        None => Err(Errno::EIO.into()),
    }
}

/// What was done at power-on.
fn recovered(log: &FileSystemLog) -> Recovered {
    Recovered {
        replayed: Replayed {
            groups: log.replayed_groups,
            images: log.replayed_pages,
            mended: log.mended,
        },
        orphans: log.orphans,
    }
}

/// What the drive says of its file system, if that is not that it is open.
pub(super) fn check(log: &FileSystemLog) -> Result<(), ImageError> {
    let text = log.text();
    Err(match log.state() {
        Some(FileSystemState::Open) => return Ok(()),
        Some(FileSystemState::NoTable) => ImageError::Table(text),
        Some(FileSystemState::None) => ImageError::NoFileSystem,
        Some(FileSystemState::NotMade) => ImageError::Make(text),
        Some(FileSystemState::NoMemory) => ImageError::Memory(text),
        Some(FileSystemState::Damaged | FileSystemState::Opening) | None => {
            ImageError::Damaged(text)
        }
    })
}
