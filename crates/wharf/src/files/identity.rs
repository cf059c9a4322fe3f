//! Who this process is for a drive that another process serves.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use wharf_files::Caller;
use wharf_host::stor::Credentials;

use crate::store::renew;

/// What the server has said last; it is asked again when that has expired, or who this process is has changed.
pub(super) struct Identity {
    socket: PathBuf,
    now: RefCell<Credentials>,
}

impl Identity {
    /// Who the server at `socket` says that this process is.
    pub(super) fn new(socket: &Path, now: Credentials) -> Rc<Identity> {
        Rc::new(Identity {
            // The process may be elsewhere when it is asked again.
            socket: std::path::absolute(socket).unwrap_or_else(|_| socket.into()),
            now: RefCell::new(now),
        })
    }

    /// What has been said last.
    pub(super) fn now(&self) -> Credentials {
        self.now.borrow().clone()
    }

    /// Whom requests may name: anybody, or one user alone.
    pub(super) fn acts_for_others(&self) -> bool {
        self.now.borrow().acts_for_others()
    }

    /// Who this process is.
    pub(super) fn caller(&self) -> Caller {
        self.now.borrow().caller()
    }

    /// Asks the server again; nothing if it does not say.
    pub(super) fn ask_again(&self) -> Option<Credentials> {
        let new = renew(&self.socket, &self.now.borrow())?;
        self.now.replace(new.clone());
        Some(new)
    }
}
