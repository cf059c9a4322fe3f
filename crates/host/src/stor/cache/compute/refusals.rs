//! What the drive refuses to compute: it is not asked again for a while.
//!
//! Problem: a drive without memory for a function refuses each command with it, and each costs a way over the link and
//! back before the host computes itself.
//!
//! Idea: a refusal is remembered, for the function and how much it was asked for, in powers of two. Until some time has
//! passed the host computes without asking. Then one request asks again, while others go on as before: if that is
//! refused too, the time is twice as long, up to a bound; else the drive is used as if nothing had been.

use std::sync::{Mutex, MutexGuard, PoisonError};

use wharf_runtime::Cpu;
use wharf_wire::status::StatusCode;

use crate::error::IoError;
use crate::files::FileError;

/// Nobody asks again for so long after the first refusal, in nanoseconds: some requests.
const FIRST_NS: u64 = 1_000_000;

/// Nor for longer than this.
const MOST_NS: u64 = 1_000_000_000;

/// A function that the drive is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// The checksum of bytes, which are written back.
    Checksum,
    /// The nearest to one vector, or to several, for which the drive keeps what it reads.
    Nearest { of_several: bool },
    /// What a program has computed of a file's bytes, which nobody keeps.
    BuiltIn(wharf_compute::Function),
    /// The same by the program in the file with this number.
    Program(u64),
}

/// What is refused alike: a function, for bytes of one power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    function: Function,
    bits: u32,
}

impl Asked {
    /// A function of so many bytes.
    pub(super) fn new(function: Function, bytes: u64) -> Asked {
        let bits = u64::BITS - bytes.leading_zeros();
        Asked { function, bits }
    }
}

#[derive(Debug, Clone, Copy)]
struct Refusal {
    asked: Asked,
    /// When it was noted last.
    since_ns: u64,
    wait_ns: u64,
    /// Nobody asks before.
    until_ns: u64,
}

/// What was refused last, and not been done since. Threads of a process share it.
#[derive(Debug, Default)]
pub(in crate::stor::cache) struct Refusals(Mutex<Vec<Refusal>>);

impl Refusals {
    fn all(&self) -> MutexGuard<'_, Vec<Refusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the drive is to be asked. Who is told so after a refusal is the only one for some time.
    pub(super) fn may_ask(&self, asked: Asked, now_ns: u64) -> bool {
        let mut all = self.all();
        let Some(known) = all.iter_mut().find(|known| known.asked == asked) else {
            return true;
        };
        let may = now_ns >= known.until_ns;
        if may {
            known.until_ns = now_ns + known.wait_ns;
        }
        may
    }

    /// Has the drive do what it is asked; nothing if it refuses, which is noted.
    pub(super) async fn note<T>(
        &self,
        cpu: &Cpu,
        asked: Asked,
        asking: impl Future<Output = Result<T, FileError>>,
    ) -> Result<Option<T>, FileError> {
        let begun_ns = cpu.now();
        match asking.await {
            Err(error) if is_refused(&error) => {
                self.refused(asked, begun_ns, cpu.now());
                Ok(None)
            }
            Err(error) => Err(error),
            Ok(done) => {
                self.done(asked);
                Ok(Some(done))
            }
        }
    }

    /// The drive has refused what it was asked at `begun_ns`.
    pub(super) fn refused(&self, asked: Asked, begun_ns: u64, now_ns: u64) {
        let mut all = self.all();
        match all.iter_mut().find(|known| known.asked == asked) {
            // It was under way when that was learned.
            Some(known) if begun_ns < known.since_ns => {}
            Some(known) => {
                known.wait_ns = (2 * known.wait_ns).min(MOST_NS);
                (known.since_ns, known.until_ns) = (now_ns, now_ns + known.wait_ns);
            }
            // There are as many as functions times powers of two.
            None => all.push(Refusal {
                asked,
                since_ns: now_ns,
                wait_ns: FIRST_NS,
                until_ns: now_ns + FIRST_NS,
            }),
        }
    }

    /// The drive has done it.
    fn done(&self, asked: Asked) {
        self.all().retain(|known| known.asked != asked);
    }
}

/// Whether the drive refuses what is right but for how much memory it takes, or has no such function.
fn is_refused(error: &FileError) -> bool {
    match error {
        FileError::Io(IoError::Status { status, .. }) => matches!(
            status.code(),
            Some(StatusCode::InvalidField | StatusCode::InvalidOpcode)
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Function = Function::Nearest { of_several: false };

    /// A drive that refuses until `from_ns`, asked by whoever may, each 100 us: how often it refused, and how often it was used.
    fn ask(from_ns: u64, requests: u64) -> (u64, u64) {
        let (refusals, asked) = (Refusals::default(), Asked::new(ONE, 1 << 16));
        let (mut refused, mut used) = (0, 0);
        for now_ns in (0..requests).map(|nth| nth * 100_000) {
            if !refusals.may_ask(asked, now_ns) {
                continue;
            }
            if now_ns < from_ns {
                refused += 1;
                refusals.refused(asked, now_ns, now_ns + 10_000);
            } else {
                used += 1;
                refusals.done(asked);
            }
        }
        (refused, used)
    }

    #[test]
    fn a_drive_that_refuses_is_asked_ever_more_rarely() {
        // After 0, 1, 3, 7, 15 and 31 ms, and a request for each.
        assert_eq!(ask(u64::MAX, 320), (6, 0));
        // A second is the most that is waited: 10 s have 1 + 2 + 4 + ... + 512 ms, and eight times that.
        assert_eq!(ask(u64::MAX, 100_000), (19, 0));
    }

    #[test]
    fn a_drive_that_has_memory_again_is_used_again() {
        // It has after 8 ms: that is seen at 15 ms, and each request uses it from then on.
        let (refused, used) = ask(8_000_000, 320);
        assert_eq!(refused, 4);
        assert!((160..170).contains(&used), "{used}");
        // What is refused after that is as new.
        let (refusals, asked) = (Refusals::default(), Asked::new(ONE, 1));
        refusals.refused(asked, 0, 1);
        refusals.refused(asked, 2, 3);
        refusals.done(asked);
        refusals.refused(asked, 10, 11);
        assert!(!refusals.may_ask(asked, 10 + FIRST_NS));
        assert!(refusals.may_ask(asked, 11 + FIRST_NS));
    }

    #[test]
    fn what_was_under_way_says_nothing_new_and_one_asks_for_all() {
        let (refusals, asked) = (Refusals::default(), Asked::new(ONE, 100));
        for thread in 0..4 {
            assert!(refusals.may_ask(asked, thread));
        }
        for thread in 0..4 {
            refusals.refused(asked, thread, 10 + thread);
        }
        assert!(!refusals.may_ask(asked, 9 + FIRST_NS));
        let again_ns = 10 + FIRST_NS;
        let may = (0..4).filter(|_| refusals.may_ask(asked, again_ns));
        assert_eq!(may.count(), 1);
    }

    #[test]
    fn functions_and_sizes_are_refused_each_for_itself() {
        let refusals = Refusals::default();
        let of = |bytes| Asked::new(Function::Checksum, bytes);
        refusals.refused(of(8_192), 0, 0);
        assert!(!refusals.may_ask(of(16_383), 1));
        for other in [of(8_191), of(16_384), of(0), Asked::new(ONE, 8_192)] {
            assert!(refusals.may_ask(other, 1), "{other:?}");
        }
    }
}
