//! How a driver treats its commands.

/// Most pages of a transfer where the drive names no limit: 1 MiB.
pub(crate) const TRANSFER_PAGES_MAX: u32 = 256;

/// How a driver treats its commands.
#[derive(Debug, Clone, Copy)]
pub struct DriverConfig {
    /// The drive's number in its volume, for messages.
    pub drive: u16,
    /// Most pages of a command, from the drive's identify data.
    pub max_transfer_pages: u32,
    /// Firmware cores of the drive, from its identify data.
    pub cores: u32,
    /// Pages of a stripe of a drive: stripes are dealt out to the cores in turn.
    pub core_stripe_pages: u32,
    /// Nanoseconds after which a command without an answer times out.
    pub timeout_ns: u64,
    /// How often a command that failed with a retryable status is sent again.
    pub retries: u8,
    /// Nanoseconds before it is sent again.
    pub retry_delay_ns: u64,
}

impl Default for DriverConfig {
    /// One core; 30 s, as the Linux NVMe driver has it; three retries 100 µs apart; transfers of 1 MiB.
    fn default() -> Self {
        DriverConfig {
            drive: 0,
            max_transfer_pages: 256,
            cores: 1,
            core_stripe_pages: 32,
            timeout_ns: 30_000_000_000,
            retries: 3,
            retry_delay_ns: 100_000,
        }
    }
}
