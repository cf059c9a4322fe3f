//! The functions that stand behind those of this library: the C library's.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of this name in the libraries behind this one, looked up when it is first called.
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Next {
        Next {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Where it is. A program that asks for what its C library has not is ended, as the dynamic linker would do.
    #[inline]
    pub(crate) fn get(&self) -> *mut c_void {
        // Whoever sees the pointer needs nothing else that was written before: code was there all the time.
        let found = self.found.load(Ordering::Relaxed);
        match found.is_null() {
            false => found,
            true => self.look(),
        }
    }

    #[cold]
    fn look(&self) -> *mut c_void {
        // SAFETY: a name that ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null() {
            // SAFETY: no argument.
            unsafe { libc::abort() };
        }
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Functions that stand before those of the C library. In the body of each, the name
/// behind the result's type calls the one behind, with arguments.
macro_rules! hooks {
    ($( $(#[$meta:meta])* fn $name:ident ( $($arg:ident : $type:ty),* $(,)? ) -> $result:ty, $next:ident $body:block )*) => { $(
        $(#[$meta])*
        /// # Safety
        /// As the function of the C library by this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            #[allow(unused_variables)]
            let $next = |$($arg: $type),*| -> $result {
                static NEXT: $crate::next::Next = $crate::next::Next::new(
                    match ::std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name has no zero"),
                    },
                );
                // SAFETY: the C library's function of this name has this type; the arguments are the caller's.
                unsafe {
                    let function: unsafe extern "C" fn($($type),*) -> $result = ::std::mem::transmute(NEXT.get());
                    function($($arg),*)
                }
            };
            $crate::links::call(|| $body)
        }
    )* };
}

pub(crate) use hooks;
