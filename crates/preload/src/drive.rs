//! The drive, as this process uses it.
//!
//! A process attaches to the drive when it first asks for anything there, and again in its child after a fork: queues are
//! never shared between processes. Each attachment is a *life*: a handle that was given in another is none of this one, and
//! the file is opened anew by its number.
//!
//! Threads use the drive in turn, and none waits for another's command: who waits for one gives its turn back meanwhile
//! (`wharf::store::Turns`). So whoever has been amid something may find another life afterwards. What was attached is kept until
//! nobody is amid anything there.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use wharf::files::{FileDrive, ImageError, Keeping, Recorded, attach_in_time};
use wharf::store::{StoreError, Turn, Turns};
use wharf_files::vfs::{At, Service, Start};
use wharf_files::{By, Caller, Handle, OpenFlags, block_on};

use crate::errno::{Errno, Outcome};
use crate::place::{BYTES_MAX, Place};
use crate::record::{self, Recording};
use crate::table::{self, Open};

/// The drive, with what is recorded of its use.
pub(crate) type Drive = Recorded<FileDrive>;

/// The variable of the environment that says what is where: `SOCKET=PLACE`.
pub(crate) const VARIABLE: &CStr = c"WHARF_DRIVE";

/// The variable that says what each process keeps of files, as [`Keeping`] reads it.
pub(crate) const CACHE_VARIABLE: &CStr = c"WHARF_CACHE";

/// What the variables say, in one piece ([`Place`] says why).
pub(crate) struct Setup {
    socket: [u8; BYTES_MAX],
    socket_bytes: usize,
    pub(crate) place: Place,
    keeping: Keeping,
    recording: Option<Recording>,
}

static SETUP: OnceLock<Option<Setup>> = OnceLock::new();

/// True once it is known that there is a drive: nearly all calls of programs without one look no further.
static IS_ON: AtomicBool = AtomicBool::new(false);

static TURNS: Turns = Turns::new();

static CLIENT: Client = Client {
    attached: RefCell::new(None),
};

/// The descriptor of the connection to the process that serves the drive; -1 if there is none.
static CONNECTION: AtomicI32 = AtomicI32::new(-1);

/// Which life this is.
static LIFE: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// Whether this thread is amid using the client: a handler of a signal may come meanwhile.
    static IS_IN: Cell<bool> = const { Cell::new(false) };
    /// Of which life the drive is that this thread uses.
    static USED_LIFE: Cell<u64> = const { Cell::new(0) };
}

struct Client {
    attached: RefCell<Option<Rc<Attached>>>,
}

struct Attached {
    drive: Drive,
    caller: RefCell<Rc<Caller>>,
    life: u64,
}

// SAFETY: it is used by one thread at a time, which has the turn: what `enter` gives is the only way there.
unsafe impl Sync for Client {}

/// What the environment says; looked at once.
pub(crate) fn setup() -> Option<&'static Setup> {
    if IS_ON.load(Ordering::Acquire) {
        return SETUP.get()?.as_ref();
    }
    let found = SETUP.get_or_init(read_environment).as_ref();
    IS_ON.store(found.is_some(), Ordering::Release);
    found
}

/// The value of a variable.
pub(crate) fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: a text; what is found is copied before the program can change its environment.
    let found = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: the C library's promise.
    (!found.is_null()).then(|| unsafe { CStr::from_ptr(found) }.to_bytes())
}

/// Asks for no memory: the program's `malloc` may be what makes itself ready just now.
fn read_environment() -> Option<Setup> {
    let bytes = variable(VARIABLE)?;
    let middle = bytes.iter().rposition(|byte| *byte == b'=')?;
    let place = Place::new(&bytes[middle + 1..])?;
    let mut socket = [0; BYTES_MAX];
    socket.get_mut(..middle)?.copy_from_slice(&bytes[..middle]);
    let said = variable(CACHE_VARIABLE).unwrap_or_default();
    let said = std::str::from_utf8(said).ok();
    let keeping = said.and_then(|said| said.parse().ok());
    Some(Setup {
        socket,
        socket_bytes: middle,
        place,
        keeping: keeping.unwrap_or_default(),
        recording: Recording::of_environment(),
    })
}

impl Setup {
    fn socket(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.socket[..self.socket_bytes]))
    }
}

/// Who this process is.
fn caller() -> Caller {
    let groups = rustix::process::getgroups().unwrap_or_default();
    Caller {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: groups.iter().map(|group| group.as_raw()).collect(),
    }
}

/// Does something with the drive. Other threads may do so while it waits.
///
/// It is done once more if the process that served the drive turns out to be gone, and another one serves it: what was
/// open is an error then.
pub(crate) fn with<T>(mut f: impl FnMut(&Drive, By<'_>) -> Outcome<T>) -> Outcome<T> {
    if IS_IN.replace(true) {
        // A handler of a signal that came while this thread had the client.
        return Err(Errno(libc::EAGAIN));
    }
    struct Out;
    impl Drop for Out {
        fn drop(&mut self) {
            IS_IN.set(false);
        }
    }
    let _out = Out;
    let (_turn, client) = enter();
    let (done, is_cut_off) = client.work(&mut f);
    match is_cut_off {
        true => client.work(&mut f).0,
        false => done,
    }
}

/// Looks at what is kept of something that is open: none if that takes a command, or a signal came amid one.
#[inline]
pub(crate) fn kept<T>(open: &Open, f: impl FnOnce(&Drive, Handle) -> Option<T>) -> Option<T> {
    if IS_IN.replace(true) {
        return None;
    }
    let found = {
        let (_turn, client) = enter();
        let attached = client.attached.borrow();
        // A life begins and ends with the client.
        let is_of_life = open.life.load(Ordering::Relaxed) == LIFE.load(Ordering::Relaxed);
        let handle = from_raw(open.handle.load(Ordering::Relaxed));
        attached
            .as_ref()
            .filter(|_| is_of_life)
            .and_then(|attached| f(&attached.drive, handle))
    };
    IS_IN.set(false);
    found
}

/// Waits for this thread's turn.
#[inline]
fn enter() -> (Turn, &'static Client) {
    (TURNS.enter(), &CLIENT)
}

impl Client {
    /// Does something; gives whether the process that served the drive turns out to be gone.
    fn work<T>(&self, f: &mut impl FnMut(&Drive, By<'_>) -> Outcome<T>) -> (Outcome<T>, bool) {
        let attached = match self.attach() {
            Ok(attached) => attached,
            Err(errno) => return (Err(errno), false),
        };
        USED_LIFE.set(attached.life);
        let caller = attached.caller.borrow().clone();
        let by = By {
            caller: &caller,
            now_ns: wharf::files::now_ns(),
        };
        let done = f(&attached.drive, by);
        let is_cut_off = done
            .as_ref()
            .is_err_and(|errno| *errno == Errno(libc::EIO) && attached.drive.is_cut_off());
        if is_cut_off {
            self.lose(&attached);
        }
        attached.leave();
        (done, is_cut_off)
    }

    fn attach(&self) -> Outcome<Rc<Attached>> {
        if let Some(attached) = &*self.attached.borrow() {
            return Ok(attached.clone());
        }
        let setup = setup().ok_or(Errno(libc::ENOENT))?;
        let drive = attach(setup).map_err(|error| {
            static HAS_SAID: AtomicBool = AtomicBool::new(false);
            if !HAS_SAID.swap(true, Ordering::Relaxed) {
                complain(&format!(
                    "no drive at {}: {}",
                    setup.socket().display(),
                    cause(&error)
                ));
            }
            Errno(libc::EIO)
        })?;
        drive.let_links_leave();
        drive.share_among_threads(&TURNS);
        CONNECTION.store(drive.connection().unwrap_or(-1), Ordering::Relaxed);
        let attached = Rc::new(Attached {
            drive: record::recorded(drive, setup.recording.as_ref()),
            caller: RefCell::new(Rc::new(caller())),
            life: LIFE.load(Ordering::Relaxed),
        });
        *self.attached.borrow_mut() = Some(attached.clone());
        Ok(attached)
    }

    /// The process that served the drive is gone. Another may serve it, but not what was open. (A reference that ends here
    /// asks the drive for nothing: this thread has the client.)
    fn lose(&self, lost: &Rc<Attached>) {
        let is_lost = |now: &mut Rc<Attached>| Rc::ptr_eq(now, lost);
        let Some(attached) = self.attached.borrow_mut().take_if(is_lost) else {
            // Another thread has seen to it.
            return;
        };
        LIFE.fetch_add(1, Ordering::Relaxed);
        CONNECTION.store(-1, Ordering::Relaxed);
        record::forget();
        for open in table::all().filter_map(table::get) {
            if !open.page().is_directory() {
                open.page().lose();
            }
            if crate::locks::may_have(&open) {
                open.lose_locks();
            }
        }
        attached.leave();
    }
}

impl Attached {
    /// This thread uses it no more. If it was lost meanwhile, the last thread gives it up.
    fn leave(self: Rc<Attached>) {
        if let Some(attached) = Rc::into_inner(self) {
            attached.drive.into_inner().abandon();
        }
    }
}

/// Attaches; waits for a while if as many processes as may use the drive do.
fn attach(setup: &Setup) -> Result<FileDrive, ImageError> {
    attach_in_time(|| FileDrive::attach_keeping(setup.socket(), setup.keeping))
}

/// Why there is no drive, in few words.
fn cause(error: &ImageError) -> String {
    match error {
        ImageError::Drive(StoreError::Unreachable { source, .. }) => source.to_string(),
        error => error.to_string(),
    }
}

/// Tells a person, on standard error, what a number cannot say.
pub(crate) fn complain(text: &str) {
    let line = format!("wharf run: {text}\n");
    // SAFETY: bytes that are there. The kernel's own call: standard error may be a file of the drive.
    unsafe { libc::syscall(libc::SYS_write, 2, line.as_ptr(), line.len()) };
}

/// The drive's handle of something that is open, which is opened anew where this is another life.
pub(crate) fn handle(drive: &Drive, by: By<'_>, open: &Open) -> Outcome<Handle> {
    let life = life();
    // Whoever has lost a file has another life, or was born after that.
    if open.life.load(Ordering::Relaxed) == life {
        return Ok(from_raw(open.handle.load(Ordering::Relaxed)));
    }
    let page = open.page();
    if page.is_lost(server(drive)) {
        return Err(Errno(libc::EIO));
    }
    let flags = page.flags();
    let access = flags & libc::O_ACCMODE;
    let how = OpenFlags {
        read: access != libc::O_WRONLY,
        write: access != libc::O_RDONLY && flags & libc::O_PATH == 0,
        directory: page.is_directory(),
        ..OpenFlags::default()
    };
    let at = At {
        from: Start::Number(page.number),
        path: b"",
    };
    drive.has_name(page.number, page.path());
    let opened = block_on(drive.open(by, at, how, 0))?;
    if open.life.load(Ordering::Relaxed) == life {
        // Another thread has opened it meanwhile.
        let _ = block_on(drive.close(opened.handle));
        return Ok(from_raw(open.handle.load(Ordering::Relaxed)));
    }
    open.handle.store(to_raw(opened.handle), Ordering::Relaxed);
    open.life.store(life, Ordering::Relaxed);
    Ok(opened.handle)
}

/// Of which server this process uses the drive.
pub(crate) fn server(drive: &Drive) -> u32 {
    drive.sharing().unwrap_or(0)
}

/// The life of the drive that this thread uses, for what is opened there.
pub(crate) fn life() -> u64 {
    USED_LIFE.get()
}

pub(crate) fn to_raw(handle: Handle) -> u64 {
    u64::from(handle.generation) << 32 | u64::from(handle.index)
}

fn from_raw(raw: u64) -> Handle {
    Handle {
        index: raw as u32,
        generation: (raw >> 32) as u32,
    }
}

/// Nothing of this process leads to it any more.
pub(crate) fn close(open: &Open) {
    if open.life.swap(0, Ordering::Relaxed) != LIFE.load(Ordering::Relaxed) {
        return;
    }
    let handle = from_raw(open.handle.load(Ordering::Relaxed));
    // What a file system can say of it concerns only what it gives back.
    let _ = with(|drive, _| Ok(block_on(drive.close(handle))?));
}

/// What a fork must find in order.
pub(crate) struct Forking {
    // Given back in this order, and taken in the opposite one.
    _spare: table::Spare,
    _turn: Turn,
    memory: crate::calls::memory::Forking,
}

/// Before a fork: no other thread is amid anything, but waiting for the drive.
pub(crate) fn before_fork() -> Forking {
    let memory = crate::calls::memory::before_fork();
    let (turn, _) = enter();
    Forking {
        _spare: table::before_fork(),
        _turn: turn,
        memory,
    }
}

/// In the child: what was the parent's stays the parent's.
pub(crate) fn in_child(mut forking: Forking) {
    LIFE.fetch_add(1, Ordering::Relaxed);
    CONNECTION.store(-1, Ordering::Relaxed);
    record::forget();
    crate::locks::in_child();
    forking.memory.in_child();
    let Some(attached) = CLIENT.attached.take() else {
        return;
    };
    match Rc::try_unwrap(attached) {
        Ok(attached) => attached.drive.into_inner().abandon(),
        Err(shared) => {
            // Threads of the parent wait for the drive. They are not here, and what they have of it is never used again.
            // SAFETY: so it is moved out of a place that nobody looks at or drops: this reference is forgotten.
            unsafe { std::ptr::read(Rc::as_ptr(&shared)) }
                .drive
                .into_inner()
                .abandon();
            std::mem::forget(shared);
        }
    }
}

/// The descriptor of the connection to the process that serves the drive.
pub(crate) fn connection() -> Option<c_int> {
    let connection = CONNECTION.load(Ordering::Relaxed);
    (connection >= 0).then_some(connection)
}

/// Whether this process has asked the drive for anything.
pub(crate) fn is_in_use() -> bool {
    IS_ON.load(Ordering::Relaxed) && enter().1.attached.borrow().is_some()
}

/// Somebody else goes on as this process, if `returned` is 0: what is opened from now on is opened as that one.
pub(crate) fn changed_user(returned: c_int) -> c_int {
    if returned == 0 && IS_ON.load(Ordering::Relaxed) && !IS_IN.get() {
        let (_turn, client) = enter();
        let attached = client.attached.borrow().clone();
        if let Some(attached) = attached {
            attached.caller.replace(Rc::new(caller()));
            // Where the server lets that user in; else what it could do before it can do still, and no more.
            let _ = attached.drive.change_user();
            attached.leave();
        }
    }
    returned
}
