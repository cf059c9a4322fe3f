//! The second kind of client: one that knows files.
//!
//! A [`Client`](crate::Client) reads and writes bytes of a volume; a [`FileClient`] opens files by name, reads, writes, appends,
//! makes durable, removes. Whoever makes requests for files (the lab, a front end) speaks to this trait alone, so that
//! file systems of any place serve it: one in the drive, or one on the host over any block design. The words for errors,
//! attributes and flags are those of `wharf-files`.
//!
//! | file | idea |
//! |---|---|
//! | `client.rs` | the trait, and what each operation promises |
//! | `tree.rs`, `walk.rs`, `path.rs` | names on the host: directories, links, path walk; plain state |
//! | `node.rs` | one file: its size, which of its pages there are, and who may go in |
//! | `on_blocks.rs`, `table.rs`, `data.rs` | [`FilesOnBlocks`]: files over any block design |
//! | `session_files.rs`, `client_pages.rs` | [`SessionFiles`]: files of a file system that runs on the host, over any block design |
//! | `initially.rs` | what is there before a run begins |
//! | `block_on_file.rs` | [`BlockOnFile`]: a block client over one big file |

mod block_on_file;
mod client;
mod client_pages;
mod data;
mod initially;
mod node;
mod on_blocks;
mod path;
mod session_files;
mod table;
mod tree;
mod walk;

pub use block_on_file::BlockOnFile;
pub use client::{
    Appended, FileClient, FileError, FileStatistics, Found, Opened, Query, Summed, Transfer,
};
pub use client_pages::{Below, BlocksBelow, ClientPages, Known};
pub use initially::{Initially, make_files};
pub use on_blocks::FilesOnBlocks;
pub use session_files::SessionFiles;
pub use table::FileTable;
pub use wharf_compute::{Neighbour, crc32c};
pub use wharf_files::{
    Attributes, DirectoryEntry, Errno, Handle, Kind, LIST_START, OpenFlags, Owner, Rename,
    SetAttributes,
};
