//! Tells `wharf run --audit` what is refused: that does not reach the kernel, which tells of all else.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;

/// A call of the program's is refused.
#[cold]
pub(crate) fn refused(call: &str) {
    let Some(socket) = std::env::var_os(wharf::audit::VARIABLE) else {
        return;
    };
    let program = std::env::current_exe().unwrap_or_default();
    let message = wharf::audit::refusal(program.as_os_str().as_bytes(), call);
    // Whoever counted may be gone.
    let _ = UnixDatagram::unbound().and_then(|from| from.send_to(&message, socket));
}
