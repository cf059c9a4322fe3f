//! A server of NBD, the protocol by which programs use the blocks of another process as a disk.
//!
//! ```no_run
//! use std::sync::Arc;
//! use wharf_nbd::{Listener, MemoryExport, Server, ServerOptions};
//!
//! let listener = Listener::unix("/tmp/disk".as_ref()).expect("a socket");
//! let export = MemoryExport::new("", 1 << 40, false).expect("address space");
//! let server = Server::start(ServerOptions::new(vec![listener], Arc::new(export)));
//! std::thread::park();
//! server.expect("it runs").stop().expect("everything is durable");
//! ```
//!
//! There is no async runtime: a connection has a thread, or all share one, and each thread has a loop
//! (`serve.rs`). The protocol itself is free of I/O, so that it can be tried with any bytes.
//!
//! | file | idea |
//! |---|---|
//! | [`proto`] | numbers and layouts of the specification |
//! | [`negotiate`] | the handshake: bytes in, bytes out |
//! | [`session`] | requests out of bytes, replies into bytes |
//! | [`export`] | what is served: the trait |
//! | [`memory`] | memory, as much of it as is written |
//! | [`pool`] | exports whose calls block, on threads beside |
//! | [`limits`] | what a client may cost |
//! | `connection` | a socket's requests on their way to the seat, and back |
//! | `output` | replies, many by one call, from where they lie |
//! | `serve` | the loop of a thread |
//! | `handshake` | a handshake on a socket, in time |
//! | [`server`] | lets in, and ends |
//! | [`listen`] | unix, TCP, sockets handed over |
//! | `transport`, `tls` | a socket, in clear or encrypted |
//! | [`metrics`], [`http`] | numbers, and who asks for them |
//! | [`buffer`], [`wait`] | memory of requests; waiting |

pub mod buffer;
mod connection;
pub mod export;
mod handshake;
pub mod http;
pub mod limits;
pub mod listen;
pub mod memory;
pub mod metrics;
pub mod negotiate;
mod output;
pub mod pool;
pub mod proto;
mod serve;
pub mod server;
pub mod session;
#[cfg(feature = "tls")]
pub mod tls;
mod transport;
pub mod wait;

pub use buffer::Buffer;
pub use export::{
    Answer, Can, Data, Export, ExportInfo, Extent, Job, Lent, Outcome, Placement, Seat, Tag,
    Waiting,
};
pub use limits::Limits;
pub use listen::Listener;
pub use memory::MemoryExport;
pub use metrics::Metrics;
pub use proto::Errno;
pub use server::{Server, ServerOptions};
