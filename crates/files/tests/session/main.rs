//! What sessions answer, case by case, and what several of them do to each other.

mod callers;
mod data;
mod names;
mod races;
mod special;

use std::rc::Rc;

use wharf_files::model::{Model, ModelLimits};
use wharf_files::testing::beside::new_model;
use wharf_files::vfs::{At, Session, SessionLimits, Target};
use wharf_files::{Caller, Errno, FileError, OpenFlags};

/// When everything happens.
pub const NOW_NS: u64 = 5_000;

/// An empty root where everybody may make something.
pub fn new_root() -> Rc<Model> {
    Rc::new(new_model(ModelLimits::default()))
}

/// One who uses it.
pub fn session(model: &Rc<Model>, caller: Caller) -> Session<Rc<Model>> {
    Session::new(model.clone(), caller, SessionLimits::default())
}

/// A path.
pub fn path(path: &str) -> At<'_> {
    path.as_bytes().into()
}

/// What a path leads to.
pub fn target(name: &str) -> Target<'_> {
    Target::Path(path(name), true)
}

/// For making what is not there.
pub const NEW: OpenFlags = OpenFlags {
    exclusive: true,
    ..OpenFlags::CREATE
};

/// Whether something failed, and how.
pub fn errno<T>(result: Result<T, FileError>) -> Result<(), Errno> {
    result.map(|_| ()).map_err(|error| error.errno())
}

/// Makes a file with these bytes.
pub async fn make(session: &Session<Rc<Model>>, name: &str, bytes: &[u8]) {
    let opened = session.open(NOW_NS, path(name), NEW, 0o666).await.unwrap();
    let place = wharf_files::Place::End;
    let written = session.write(NOW_NS, opened.handle, place, bytes).await;
    assert_eq!(written.unwrap().bytes, bytes.len() as u64);
    session.close(opened.handle).await.unwrap();
}
