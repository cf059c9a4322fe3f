//! Asking the processor for memory before it is used.

/// Brings the cache line of `value` near, for a use a few hundred instructions on. A hint: nothing is
/// read, nothing changes, and on processors without such an instruction nothing happens.
#[inline(always)]
pub fn prefetch<T: ?Sized>(value: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE, which has the instruction, is part of x86-64; it never faults, whatever the
        // address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(value.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
