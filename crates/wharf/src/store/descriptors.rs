//! Descriptors: each process that uses a store holds one here for as long as it does.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::StoreError;

/// Descriptors beside those: of who has just connected, and of memory on its way to a guest.
const OTHERS: u64 = 64;

/// Sees to it that this process may have a descriptor for each of so many guests: where it may not, it raises its own limit as
/// far as the system lets it.
///
/// # Errors
/// If even that is too little.
pub(super) fn make_room(guests: u32) -> Result<(), StoreError> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
    let needed = open + u64::from(guests) + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    let (now, most) = (
        limit.current.unwrap_or(u64::MAX),
        limit.maximum.unwrap_or(u64::MAX),
    );
    if needed <= now {
        return Ok(());
    }
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    match needed <= most && setrlimit(Resource::Nofile, raised).is_ok() {
        true => Ok(()),
        false => Err(StoreError::TooFewDescriptors {
            guests,
            needed,
            most,
        }),
    }
}
