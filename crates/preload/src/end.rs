//! What a process does when it ends, by `exit` or `_exit`: what it has mapped goes back, and its locks go, before its parent hears
//! that it has ended. One that is killed does neither: its locks go when the drive hears of it.

use std::ffi::c_int;

use crate::calls::memory;
use crate::locks;
use crate::next::hooks;

/// Called by the C library's `exit`, after what the program has it call.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
static END: extern "C" fn() = end;

extern "C" fn end() {
    memory::process_ends();
    locks::process_ends();
}

/// The same, unless a handler of a signal ends the process amid that.
fn end_if_idle() {
    if !memory::is_busy() && !locks::is_busy() {
        end();
    }
}

// They do not return, so their type says nothing.
hooks! {
    fn _exit(status: c_int) -> c_int, next {
        end_if_idle();
        next(status)
    }

    #[allow(non_snake_case, reason = "the name is the C library's")]
    fn _Exit(status: c_int) -> c_int, next {
        end_if_idle();
        next(status)
    }
}
