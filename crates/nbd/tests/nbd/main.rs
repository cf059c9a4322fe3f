//! The server as clients meet it: by a small client that shares no code with it.

#![allow(missing_docs)]

mod client;
mod handshake;
mod hostile;
mod memory;
mod requests;
mod slow;
mod stopping;
