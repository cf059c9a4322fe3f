//! The clock of a drive with files, whose times are those of the clock on the wall.
//!
//! A drive counts from when it was told what time it is. The system's clock may be set, and stands still for no
//! suspended machine while the drive's does: so it is told again where both are apart.

use std::cell::Cell;

use wharf_host::admin::{Admin, AdminError};
use wharf_host::error::IoError;
use wharf_runtime::Cpu;

/// How far the drive's clock and the system's may be apart before it is told again what time it is.
const DRIFT_NS: i64 = 20_000_000;

const NS_PER_MS: u64 = 1_000_000;

/// The time, in nanoseconds since 1970.
#[allow(clippy::disallowed_methods)] // times of files are those of the clock on the wall
pub fn now_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// See the [module](self).
pub(super) struct Clock {
    /// The system's clock less the drive's, as the drive was told it.
    told_ns: Cell<i64>,
}

impl Clock {
    /// Tells a drive what time it is.
    pub(super) async fn set(cpu: &Cpu, admin: &Admin) -> Result<Clock, AdminError> {
        Ok(Clock {
            told_ns: Cell::new(tell(cpu, admin).await?),
        })
    }

    /// Whether the clocks are as the drive was told, when it is `now_ns` by the system's.
    pub(super) fn is_right(&self, cpu: &Cpu, now_ns: u64) -> bool {
        (apart_ns(cpu, now_ns) - self.told_ns.get()).abs() < DRIFT_NS
    }

    /// Tells the drive again, if it is not right. A drive that cannot be told keeps the time that it has.
    pub(super) async fn follow(&self, cpu: &Cpu, admin: &Admin) -> Result<(), IoError> {
        if !self.is_right(cpu, now_ns()) {
            self.told_ns.set(tell(cpu, admin).await?);
        }
        Ok(())
    }
}

/// Tells a drive what time it is, when a millisecond begins: it takes no parts of them, and would be late by what is left out.
/// Gives how far both clocks are apart.
async fn tell(cpu: &Cpu, admin: &Admin) -> Result<i64, IoError> {
    let left_ns = NS_PER_MS - now_ns() % NS_PER_MS;
    cpu.sleep_until(cpu.now() + left_ns).await;
    let now_ns = now_ns();
    admin.set_time(now_ns / NS_PER_MS).await?;
    Ok(apart_ns(cpu, now_ns))
}

fn apart_ns(cpu: &Cpu, now_ns: u64) -> i64 {
    now_ns as i64 - cpu.now() as i64
}
