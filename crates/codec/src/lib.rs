//! Compression, for drives that compress pages and for disks that hold compressed chunks.
//!
//! Data has either bytes or stamps (8 bytes that name a page's last write). Bytes go through a
//! [`Codec`]; what a stamp would compress to is a pure function of it ([`Sizes`]), so that a page
//! has the same size whenever and wherever it is looked at.
//!
//! | file | idea |
//! |---|---|
//! | `codec.rs` | the codecs, and one thread's state of them |
//! | `sizes.rs` | sizes of stamps, drawn from a table |
//! | `table.rs` | how well pages compress: the table, its file, and measuring one |

mod codec;
mod sizes;
mod table;

pub use codec::{Codec, CodecError, Compressor};
pub use sizes::Sizes;
pub use table::{Table, TableError, TableName};

/// Bytes of a page.
pub const PAGE_BYTES: u32 = 4096;
