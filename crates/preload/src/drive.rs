//! The drive, as this process uses it.
//!
//! A process attaches to the drive when it first asks for anything there, and again in its child after a fork: queues are
//! never shared between processes. Each attachment is a *life*: a handle that was given in another is none of this one, and
//! the file is opened anew by its number.

use std::cell::Cell;
use std::ffi::{CStr, OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use wharf::files::{FileDrive, ImageError, attach_in_time};
use wharf::store::StoreError;
use wharf_files::vfs::{At, Service, Start};
use wharf_files::{By, Caller, Handle, OpenFlags, block_on};

use crate::errno::{Errno, Outcome};
use crate::place::{BYTES_MAX, Place};
use crate::table::{self, Open};

/// The variable of the environment that says what is where: `SOCKET=PLACE`.
pub(crate) const VARIABLE: &CStr = c"WHARF_DRIVE";

/// The variable that says how many bytes of files each process keeps; with `omni:` before it, the drive's own cache is used too.
pub(crate) const CACHE_VARIABLE: &CStr = c"WHARF_CACHE";

/// Bytes of files that a process keeps if nothing is said.
const CACHE_BYTES: u64 = 64 << 20;

/// What the variables say, in one piece ([`Place`] says why).
pub(crate) struct Setup {
    socket: [u8; BYTES_MAX],
    socket_bytes: usize,
    pub(crate) place: Place,
    cache_bytes: u64,
    is_omni: bool,
}

static SETUP: OnceLock<Option<Setup>> = OnceLock::new();

/// True once it is known that there is a drive: nearly all calls of programs without one look no further.
static IS_ON: AtomicBool = AtomicBool::new(false);

static CLIENT: Mutex<Client> = Mutex::new(Client { attached: None });

/// The descriptor of the connection to the process that serves the drive; -1 if there is none.
static CONNECTION: AtomicI32 = AtomicI32::new(-1);

/// Which life this is.
static LIFE: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// Whether this thread has the client: a handler of a signal may come meanwhile.
    static IS_IN: Cell<bool> = const { Cell::new(false) };
}

struct Client {
    attached: Option<Attached>,
}

struct Attached {
    drive: FileDrive,
    caller: Caller,
}

// SAFETY: what it has that is not atomic is used by one thread at a time, which has the lock.
unsafe impl Send for Client {}

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
fn variable(name: &CStr) -> Option<&'static [u8]> {
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
    let omni_bytes = said.strip_prefix(b"omni:");
    let said = std::str::from_utf8(omni_bytes.unwrap_or(said)).ok();
    let cache_bytes = said.and_then(|said| said.parse().ok());
    Some(Setup {
        socket,
        socket_bytes: middle,
        place,
        cache_bytes: cache_bytes.unwrap_or(CACHE_BYTES),
        is_omni: omni_bytes.is_some(),
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

/// Does something with the drive.
///
/// It is done once more if the process that served the drive turns out to be gone, and another one serves it: what was
/// open is an error then.
pub(crate) fn with<T>(mut f: impl FnMut(&FileDrive, By<'_>) -> Outcome<T>) -> Outcome<T> {
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
    let mut client = lock();
    let done = client.work(&mut f);
    if done.as_ref().is_err_and(|errno| *errno == Errno(libc::EIO)) && client.is_cut_off() {
        client.lose();
        return client.work(&mut f);
    }
    done
}

/// Looks at what is kept of something that is open: none if that takes a command, or a signal came amid one.
#[inline]
pub(crate) fn kept<T>(open: &Open, f: impl FnOnce(&FileDrive, Handle) -> Option<T>) -> Option<T> {
    if IS_IN.replace(true) {
        return None;
    }
    let found = {
        let client = lock();
        let attached = client.attached.as_ref();
        // A life begins and ends with the client.
        let is_of_life = open.life.load(Ordering::Relaxed) == LIFE.load(Ordering::Relaxed);
        let handle = from_raw(open.handle.load(Ordering::Relaxed));
        attached
            .filter(|_| is_of_life)
            .and_then(|attached| f(&attached.drive, handle))
    };
    IS_IN.set(false);
    found
}

fn lock() -> MutexGuard<'static, Client> {
    CLIENT
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Client {
    fn work<T>(&mut self, f: &mut impl FnMut(&FileDrive, By<'_>) -> Outcome<T>) -> Outcome<T> {
        let attached = self.attach()?;
        let by = By {
            caller: &attached.caller,
            now_ns: wharf::files::now_ns(),
        };
        f(&attached.drive, by)
    }

    fn is_cut_off(&self) -> bool {
        self.attached
            .as_ref()
            .is_some_and(|attached| attached.drive.is_cut_off())
    }

    fn attach(&mut self) -> Outcome<&Attached> {
        if self.attached.is_none() {
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
            CONNECTION.store(drive.connection().unwrap_or(-1), Ordering::Relaxed);
            self.attached = Some(Attached {
                drive,
                caller: caller(),
            });
        }
        self.attached.as_ref().ok_or(Errno(libc::EIO))
    }
}

impl Client {
    /// The process that served the drive is gone. Another may serve it, but not what was open. (A reference that ends here
    /// asks the drive for nothing: this thread has the client.)
    fn lose(&mut self) {
        LIFE.fetch_add(1, Ordering::Relaxed);
        CONNECTION.store(-1, Ordering::Relaxed);
        for open in table::all().filter_map(table::get) {
            if !open.page().is_directory() {
                open.page().lose();
            }
            if crate::locks::may_have(&open) {
                open.lose_locks();
            }
        }
        if let Some(attached) = self.attached.take() {
            attached.drive.abandon();
        }
    }
}

/// Attaches; waits for a while if as many processes as may use the drive do.
fn attach(setup: &Setup) -> Result<FileDrive, ImageError> {
    attach_in_time(|| match setup.is_omni {
        true => FileDrive::attach_omni(setup.socket(), setup.cache_bytes),
        false => FileDrive::attach_cached(setup.socket(), setup.cache_bytes),
    })
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
pub(crate) fn handle(drive: &FileDrive, by: By<'_>, open: &Open) -> Outcome<Handle> {
    let life = LIFE.load(Ordering::Relaxed);
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
    let opened = block_on(drive.open(by, at, how, 0))?;
    open.handle.store(to_raw(opened.handle), Ordering::Relaxed);
    open.life.store(life, Ordering::Relaxed);
    Ok(opened.handle)
}

/// Of which server this process uses the drive.
pub(crate) fn server(drive: &FileDrive) -> u32 {
    drive.sharing().unwrap_or(0)
}

/// This life, for what is opened in it.
pub(crate) fn life() -> u64 {
    LIFE.load(Ordering::Relaxed)
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
    client: MutexGuard<'static, Client>,
    memory: crate::calls::memory::Forking,
}

/// Before a fork: no other thread is amid anything.
pub(crate) fn before_fork() -> Forking {
    let memory = crate::calls::memory::before_fork();
    let client = lock();
    Forking {
        _spare: table::before_fork(),
        client,
        memory,
    }
}

/// In the child: what was the parent's stays the parent's.
pub(crate) fn in_child(mut forking: Forking) {
    LIFE.fetch_add(1, Ordering::Relaxed);
    CONNECTION.store(-1, Ordering::Relaxed);
    crate::locks::in_child();
    forking.memory.in_child();
    if let Some(attached) = forking.client.attached.take() {
        attached.drive.abandon();
    }
}

/// The descriptor of the connection to the process that serves the drive.
pub(crate) fn connection() -> Option<c_int> {
    let connection = CONNECTION.load(Ordering::Relaxed);
    (connection >= 0).then_some(connection)
}

/// Whether this process has asked the drive for anything.
pub(crate) fn is_in_use() -> bool {
    IS_ON.load(Ordering::Relaxed) && lock().attached.is_some()
}

/// Somebody else goes on as this process, if `returned` is 0: what is opened from now on is opened as that one.
pub(crate) fn changed_user(returned: c_int) -> c_int {
    if returned == 0
        && IS_ON.load(Ordering::Relaxed)
        && !IS_IN.get()
        && let Some(attached) = &mut lock().attached
    {
        attached.caller = caller();
        // Where the server lets that user in; else what it could do before it can do still, and no more.
        let _ = attached.drive.change_user();
    }
    returned
}
