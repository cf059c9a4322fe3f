//! `execl`, `execlp`, `execle`: their arguments are in registers first and then on the stack, so each begins with a few
//! instructions that put all of them in a row. A row of texts with null at its end is what `execv` takes.

use std::ffi::{c_char, c_int};

use super::process::{Texts, execv, execve, execvp};

/// # Safety
/// The texts end with null.
unsafe extern "C" fn list(file: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { execv(file, arguments) }
}

/// # Safety
/// As [`list`].
unsafe extern "C" fn list_in_path(file: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { execvp(file, arguments) }
}

/// # Safety
/// As [`list`], and the environment is behind the null.
unsafe extern "C" fn list_with_environment(file: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let mut end = arguments;
        while !(*end).is_null() {
            end = end.add(1);
        }
        execve(file, arguments, end.add(1).cast::<Texts>().read())
    }
}

/// A function of C with any number of texts, which has another one do it with all of them in a row.
macro_rules! in_a_row {
    ($( fn $name:ident => $to:path )*) => { $(
        /// # Safety
        /// As the function of the C library by this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            // The registers go below the arguments on the stack, in the place of the address to return to, which is kept below
            // them. Six words are pushed where one was, so the stack is as far from a multiple of 16 as calls want it.
            std::arch::naked_asm!(
                "pop rax",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "push rax",
                "call {to}",
                "pop rcx",
                "add rsp, 40",
                "push rcx",
                "ret",
                to = sym $to,
            )
        }
    )* };
}

in_a_row! {
    fn execl => list
    fn execlp => list_in_path
    fn execle => list_with_environment
}
