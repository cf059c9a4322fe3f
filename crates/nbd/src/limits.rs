//! What a client may cost the server at most.

/// The greatest read or write in bytes: what the protocol tells servers to take.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// A write with a longer payload than this ends the connection; a shorter one above
/// [`REQUEST_BYTES_MAX`] is read, dropped and refused.
pub const PAYLOAD_BYTES_MAX: u64 = 64 << 20;
/// Longest data of an option that is looked at. No option needs more than a few names of 4 KiB.
pub const OPTION_BYTES_MAX: usize = 64 << 10;
/// Longest data of an option that is read and dropped; longer ones end the connection.
pub const OPTION_SKIP_BYTES_MAX: u64 = 1 << 20;
/// Most options of a handshake.
pub const OPTIONS_MAX: u32 = 1024;
/// Most extents in one answer: 32 KiB of them, or 64 KiB with 64-bit lengths.
pub const EXTENTS_MAX: usize = 4096;

/// What can be chosen.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time; more are closed at once.
    pub connections: u32,
    /// Requests of a connection that are under way or whose replies are not yet taken by the
    /// client. Nothing more is read from the connection meanwhile.
    pub requests: u32,
    /// Bytes of data of these requests; one request is always let through.
    pub bytes: u64,
    /// How long a handshake may take, in milliseconds.
    pub handshake_ms: u32,
    /// How long a connection may take to hand over replies when the server stops, in milliseconds.
    pub stop_ms: u32,
}

impl Default for Limits {
    /// 64 connections with 256 requests and 64 MiB each, 10 s for a handshake, 5 s to stop.
    fn default() -> Limits {
        Limits {
            connections: 64,
            requests: 256,
            bytes: 64 << 20,
            handshake_ms: 10_000,
            stop_ms: 5_000,
        }
    }
}
