//! Paths, permissions and open files above any file system.
//!
//! A [`FileSystem`](crate::FileSystem) knows numbers, and does what it is told. A [`Session`] is
//! one who uses it: it walks along paths, looks whether its caller may do what it asks, and keeps
//! what it has open. All errors come in the order in which Linux finds them.
//!
//! | file | idea |
//! |---|---|
//! | `session.rs` | who it is, its limits, what is open |
//! | `path.rs`, `walk.rs` | paths, symbolic links, where a walk ends |
//! | `permission.rs` | mode bits, owner, groups, sticky and set-group-id directories |
//! | `open.rs` | opening and closing |
//! | `names.rs`, `rename.rs` | entries of directories |
//! | `data.rs` | bytes of open files |
//! | `attributes.rs`, `xattr.rs` | attributes, and extended ones |
//! | `service.rs` | what a front end asks for its callers, and sessions that answer it |
//!
//! **What is seen and what is done** are two steps, and others may come between. So the second one
//! says what was seen where that decides who may do it, and fails if it is not so any more; the
//! session looks again.
//!
//! Not yet: access control lists; the system's settings that restrict files and links in sticky
//! directories (`fs.protected_regular`, `fs.protected_symlinks`); files without a name from the
//! beginning (`O_TMPFILE`); a root that is not that of the file system.

mod attributes;
mod data;
mod names;
mod open;
mod path;
mod permission;
mod rename;
mod service;
mod session;
mod walk;
mod xattr;

pub use attributes::{SetTime, Target};
pub use data::check_range;
pub use open::Opened;
pub use path::{At, Start};
pub use permission::Access;
pub use service::{Service, Sessions};
pub use session::{Session, SessionLimits};
