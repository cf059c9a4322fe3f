//! Who this client is: claims that it shows the drive, and the token of its commands.
//!
//! Where another process owns the drive, that process says who this one is ([`Credentials`]). The drive is shown that once; each
//! command has the token from then on (`send.rs`). When the claims have expired, new ones are asked for, and the command is
//! sent once more: whoever asked for it sees none of that.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use wharf_files::Caller;
use wharf_wire::command::Command;
use wharf_wire::file::{ACTS_FOR_OTHERS, Claims, Token};
use zerocopy::IntoBytes;

use super::placement::About;
use super::{Inner, StorClient};
use crate::files::FileError;
use crate::volume::NAMESPACE;

/// Claims, with the groups behind them, and their token.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Who it is.
    pub claims: Claims,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
    /// What proves it.
    pub token: Token,
}

impl Credentials {
    /// Who it is, as file systems know it.
    pub fn caller(&self) -> Caller {
        Caller {
            uid: self.claims.uid,
            gid: self.claims.gid,
            groups: self.groups.clone(),
        }
    }

    /// Whether it may name others.
    pub fn acts_for_others(&self) -> bool {
        self.claims.rights & ACTS_FOR_OTHERS != 0
    }
}

/// Whoever gives new credentials; nothing if there are none to be had.
pub type Renewal = Rc<dyn Fn() -> Option<Credentials>>;

/// What a client knows of who it is.
#[derive(Default)]
pub(super) struct Access {
    token: Cell<Token>,
    /// It is one user, whom the drive knows with all of its groups.
    is_one_user: Cell<bool>,
    renewal: RefCell<Option<Renewal>>,
}

impl Access {
    pub(super) fn token(&self) -> Token {
        self.token.get()
    }

    pub(super) fn is_one_user(&self) -> bool {
        self.is_one_user.get()
    }
}

impl StorClient {
    /// Shows the drive who this client is, for all that it sends from now on.
    ///
    /// # Errors
    /// `EACCES` if the drive does not believe it.
    pub async fn authenticate(&self, credentials: &Credentials) -> Result<(), FileError> {
        self.inner.authenticate(credentials).await
    }

    /// From now on credentials that have expired are renewed by `renewal`.
    pub fn renew_by(&self, renewal: Renewal) {
        self.inner.access.renewal.replace(Some(renewal));
    }
}

impl Inner {
    async fn authenticate(&self, new: &Credentials) -> Result<(), FileError> {
        let bytes = [new.claims.as_bytes(), new.groups.as_bytes()].concat();
        let mut buffer = self.buffer(bytes.len()).await;
        buffer.put(&bytes);
        let show = Command::authenticate(NAMESPACE, bytes.len() as u32).with_token(new.token);
        buffer.send_once(About::Names(0), show).await?;
        self.access.token.set(new.token);
        self.access.is_one_user.set(!new.acts_for_others());
        Ok(())
    }

    /// Gets new credentials, and shows them; whether the drive believes them.
    pub(super) async fn renew(&self) -> bool {
        let renewal = self.access.renewal.borrow().clone();
        let new = renewal.and_then(|renewal| renewal());
        match new {
            Some(new) => self.authenticate(&new).await.is_ok(),
            None => false,
        }
    }
}
