//! Has the kernel tell of calls: a filter of seccomp, which a process gives itself for ever and to its children.

use std::ffi::{c_int, c_ulong, c_void};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

use super::calls;

/// The kind of machine that calls are numbered for, as the kernel's audit knows it.
#[cfg(target_arch = "x86_64")]
const MACHINE: Option<u32> = Some(0xC000_003E);
#[cfg(target_arch = "aarch64")]
const MACHINE: Option<u32> = Some(0xC000_00B7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINE: Option<u32> = None;

/// Whether the kernel can tell of calls.
///
/// # Errors
/// The kernel's, if it cannot.
pub(super) fn can_be() -> io::Result<()> {
    if MACHINE.is_none() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let action = libc::SECCOMP_RET_USER_NOTIF;
    // SAFETY: an action that is there.
    unsafe {
        seccomp(
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            (&raw const action).cast(),
        )
    }?;
    Ok(())
}

/// # Safety
/// As the operation has it.
pub(super) unsafe fn seccomp(
    operation: u32,
    flags: c_ulong,
    argument: *const c_void,
) -> io::Result<c_int> {
    // SAFETY: the caller's promise.
    match unsafe { libc::syscall(libc::SYS_seccomp, operation, flags, argument) } {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value as c_int),
    }
}

/// A way from the child to here: what hears, and what tells.
pub(super) fn way() -> io::Result<(UnixStream, OwnedFd)> {
    let (hears, tells) = UnixStream::pair()?;
    Ok((hears, tells.into()))
}

/// What the child tells: which process it is, and its descriptor by which the kernel tells of calls, or an error as a number below 0.
type Told = [c_int; 2];

/// Instructions for the kernel.
pub(super) struct Filter(Vec<libc::sock_filter>);

impl Filter {
    pub(super) fn new() -> Filter {
        let count = calls::all().count() as u8;
        let load = |field: usize| {
            instruction(
                libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
                0,
                0,
                field as u32,
            )
        };
        let equal = |value, yes, no| {
            instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, value)
        };
        let give = |action| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, action);
        let mut all = vec![
            load(std::mem::offset_of!(libc::seccomp_data, arch)),
            // Calls of another kind of machine have other numbers: to the one before the last.
            equal(MACHINE.unwrap_or(0), 0, count + 1),
            load(std::mem::offset_of!(libc::seccomp_data, nr)),
        ];
        for (index, call) in calls::all().enumerate() {
            all.push(equal(call.number as u32, count - index as u8, 0));
        }
        all.extend([libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_USER_NOTIF].map(give));
        Filter(all)
    }

    /// In the child: calls are told of from now on. It tells the parent how.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn install(&self, tells: &OwnedFd) -> io::Result<()> {
        let installed = self.set();
        let told: Told = [
            // SAFETY: no arguments.
            unsafe { libc::getpid() },
            match &installed {
                Ok(listener) => *listener,
                Err(error) => -error.raw_os_error().unwrap_or(libc::EINVAL),
            },
        ];
        // It is none of the calls that are told of: nobody would answer yet.
        // SAFETY: so many bytes.
        let sent = unsafe {
            libc::send(
                tells.as_raw_fd(),
                told.as_ptr().cast(),
                size_of_val(&told),
                0,
            )
        };
        match sent {
            -1 => Err(io::Error::last_os_error()),
            _ => installed.map(|_| ()),
        }
    }

    fn set(&self) -> io::Result<c_int> {
        // Without it a program that gains privileges could be deceived by a filter: so the kernel wants it of all but root.
        // SAFETY: numbers alone.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let program = libc::sock_fprog {
            len: self.0.len() as u16,
            filter: self.0.as_ptr().cast_mut(),
        };
        let set = |flags| {
            let operation = libc::SECCOMP_SET_MODE_FILTER;
            // SAFETY: instructions that are there.
            unsafe { seccomp(operation, flags, (&raw const program).cast()) }
        };
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        // A call that has been told of is not begun anew for a signal, where the kernel knows of that.
        set(flags | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV).or_else(|_| set(flags))
    }
}

fn instruction(code: u32, yes: u8, no: u8, value: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: yes,
        jf: no,
        k: value,
    }
}

/// What the kernel tells of calls by, once the child has a filter; none if there was no child.
///
/// # Errors
/// The child's, or the kernel's.
pub(super) fn listener(mut hears: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut bytes = [0; size_of::<Told>()];
    match hears.read_exact(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let (process, descriptor) = bytes.split_at(size_of::<c_int>());
    let number = |bytes: &[u8]| c_int::from_ne_bytes(bytes.try_into().expect("four bytes"));
    let (process, descriptor) = (number(process), number(descriptor));
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(-descriptor));
    }
    // The child waits in its next call meanwhile.
    let process = Pid::from_raw(process).ok_or(io::ErrorKind::InvalidData)?;
    let process = rustix::process::pidfd_open(process, PidfdFlags::empty())?;
    let listener = rustix::process::pidfd_getfd(&process, descriptor, PidfdGetfdFlags::empty())?;
    Ok(Some(listener))
}
