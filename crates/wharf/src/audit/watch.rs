//! The thread that the kernel tells of calls, and the shared object of what it refuses.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};

use rustix::event::{PollFd, PollFlags, poll};

use super::look::{self, Look};
use super::{AuditError, Passed, Refused, Report, calls, filter, text};

/// Bytes of a refusal at most: a path, and a few words.
const REFUSAL_BYTES: usize = 8192;

pub(super) struct Watch {
    look: Look,
    refusals: UnixDatagram,
    looked_at: u64,
    /// By program, whether it has the shared object, and call.
    passed_by: BTreeMap<(String, bool, &'static str), (u64, String)>,
    refused: BTreeMap<(String, String), u64>,
}

impl Watch {
    pub(super) fn new(look: Look, refusals: UnixDatagram) -> Watch {
        Watch {
            look,
            refusals,
            looked_at: 0,
            passed_by: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// Watches from when a child tells of its filter until nobody has that any more.
    pub(super) fn run(mut self, hears: &UnixStream) -> Result<Report, AuditError> {
        let Some(listener) = filter::listener(hears)? else {
            return Ok(Report::default());
        };
        let mut told = Told::new(&listener)?;
        loop {
            let (calls, refusals) = wait(&listener, &self.refusals)?;
            if refusals {
                self.hear();
            }
            if calls.contains(PollFlags::IN) {
                self.answer(&listener, &mut told)?;
            } else if !calls.is_empty() {
                self.hear();
                return Ok(self.report());
            }
        }
    }

    /// Takes one call, looks at it, and lets it through.
    fn answer(&mut self, listener: &OwnedFd, told: &mut Told) -> Result<(), AuditError> {
        let Some(notification) = told.receive(listener)? else {
            return Ok(());
        };
        let (thread, data) = (notification.pid, notification.data);
        let call = calls::of(data.nr.into());
        let found = call.and_then(|call| {
            let what = self.look.look(thread, call, &data.args)?;
            Some((
                call,
                what,
                look::program(thread),
                self.look.has_object(thread),
            ))
        });
        // Who was killed meanwhile, or is to begin anew for a signal, has not made the call.
        if !told.let_through(listener, notification.id)? {
            return Ok(());
        }
        self.looked_at += 1;
        if let Some((call, what, program, has_object)) = found {
            let key = (program, has_object, call.name);
            self.passed_by.entry(key).or_insert((0, what)).0 += 1;
        }
        Ok(())
    }

    /// Takes all refusals.
    fn hear(&mut self) {
        let mut bytes = vec![0; REFUSAL_BYTES];
        while let Ok(count) = self.refusals.recv(&mut bytes) {
            let mut parts = bytes[..count].splitn(2, |byte| *byte == 0).map(text);
            if let (Some(program), Some(call)) = (parts.next(), parts.next()) {
                *self.refused.entry((program, call)).or_default() += 1;
            }
        }
    }

    fn report(self) -> Report {
        let passed_by = self.passed_by.into_iter();
        let refused = self.refused.into_iter();
        Report {
            looked_at: self.looked_at,
            passed_by: passed_by
                .map(|((program, has_object, call), (times, first))| Passed {
                    program,
                    call: call.into(),
                    times,
                    first,
                    has_object,
                })
                .collect(),
            refused: refused
                .map(|((program, call), times)| Refused {
                    program,
                    call,
                    times,
                })
                .collect(),
        }
    }
}

/// Waits for either; says what there is of calls, and whether there are refusals.
fn wait(listener: &OwnedFd, refusals: &UnixDatagram) -> io::Result<(PollFlags, bool)> {
    let mut both = [
        PollFd::new(listener, PollFlags::IN),
        PollFd::from_borrowed_fd(refusals.as_fd(), PollFlags::IN),
    ];
    loop {
        match poll(&mut both, None) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok((both[0].revents(), !both[1].revents().is_empty())),
        }
    }
}

/// Room for what the kernel tells and is told: newer kernels may have more to say.
struct Told {
    notification: Vec<u64>,
    answer: Vec<u64>,
}

impl Told {
    fn new(listener: &OwnedFd) -> io::Result<Told> {
        let mut sizes = libc::seccomp_notif_sizes {
            seccomp_notif: 0,
            seccomp_notif_resp: 0,
            seccomp_data: 0,
        };
        // SAFETY: room for the sizes.
        unsafe {
            filter::seccomp(libc::SECCOMP_GET_NOTIF_SIZES, 0, (&raw mut sizes).cast())?;
            // The caller goes on where this thread ran: half the time. Kernels before 6.6 do not know it.
            libc::ioctl(
                listener.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
                1u64,
            );
        }
        let words = |bytes: u16, least: usize| vec![0; usize::from(bytes).max(least).div_ceil(8)];
        Ok(Told {
            notification: words(sizes.seccomp_notif, size_of::<libc::seccomp_notif>()),
            answer: words(
                sizes.seccomp_notif_resp,
                size_of::<libc::seccomp_notif_resp>(),
            ),
        })
    }

    /// The next call; none if its caller is gone meanwhile.
    fn receive(&mut self, listener: &OwnedFd) -> io::Result<Option<libc::seccomp_notif>> {
        self.notification.fill(0);
        let room = self.notification.as_mut_ptr();
        // SAFETY: as many bytes as the kernel says, all zeros.
        match unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, room) } {
            // SAFETY: at least so many bytes, aligned, and of numbers alone.
            0 => Ok(Some(unsafe { room.cast::<libc::seccomp_notif>().read() })),
            _ => gone(io::Error::last_os_error(), None),
        }
    }

    /// Lets a call through; false if its caller is gone.
    fn let_through(&mut self, listener: &OwnedFd, id: u64) -> io::Result<bool> {
        self.answer.fill(0);
        let room = self.answer.as_mut_ptr();
        let answer = libc::seccomp_notif_resp {
            id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        };
        // SAFETY: at least so many bytes, aligned; as many as the kernel says.
        let sent = unsafe {
            room.cast::<libc::seccomp_notif_resp>().write(answer);
            libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, room)
        };
        match sent {
            0 => Ok(true),
            _ => gone(io::Error::last_os_error(), false),
        }
    }
}

/// The value for a caller that is gone, or the error.
fn gone<T>(error: io::Error, value: T) -> io::Result<T> {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EINTR | libc::EINPROGRESS) => Ok(value),
        _ => Err(error),
    }
}
