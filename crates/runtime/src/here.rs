//! The CPU that polls a future which cannot be given one: [`OnCpu`](crate::OnCpu) says it.
//!
//! Code that serves in and out of the runtime (file systems) finds its CPU here, to be charged and to wait for
//! time; where there is none, it is called by an ordinary program.

use std::cell::Cell;
use std::ptr::NonNull;

use crate::cpu::Cpu;

thread_local! {
    /// Set while a future is polled, and points into what polls it.
    static HERE: Cell<Option<NonNull<Cpu>>> = const { Cell::new(None) };
}

/// The CPU that polls the running future, if an [`OnCpu`](crate::OnCpu) does.
#[inline]
pub fn here() -> Option<Cpu> {
    with_here(|cpu| cpu.cloned())
}

/// Runs `f` with that CPU.
#[inline]
pub fn with_here<R>(f: impl FnOnce(Option<&Cpu>) -> R) -> R {
    let here = HERE.get();
    // SAFETY: `at` has it there for no longer than it borrows the CPU, and `f` ends within that.
    f(here.map(|cpu| unsafe { cpu.as_ref() }))
}

/// Runs `f` with `cpu` as the one that is here.
#[inline]
pub(crate) fn at<R>(cpu: &Cpu, f: impl FnOnce() -> R) -> R {
    // Back to what it was, also if `f` panics: a task that is run within another has a place of its own.
    struct Back(Option<NonNull<Cpu>>);
    impl Drop for Back {
        fn drop(&mut self) {
            HERE.set(self.0);
        }
    }
    let _back = Back(HERE.replace(Some(NonNull::from(cpu))));
    f()
}
