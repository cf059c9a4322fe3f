//! Who this client is: claims that it shows the drive, and the token of its commands.
//!
//! Where another process owns the drive, that process says who this one is ([`Credentials`]). The drive is shown that once; each
//! command has the token from then on (`send.rs`). When the claims have expired, new ones are asked for, and the command is
//! sent once more (`authenticate.rs`): whoever asked for it sees none of that.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use wharf_files::Caller;
use wharf_wire::file::{ACTS_FOR_OTHERS, Claims, DriveKey, Token};

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
    /// Root's, who names nobody else, on the host that owns the drive, for ever.
    pub fn root(key: &DriveKey) -> Credentials {
        let claims = Claims {
            session: 1,
            epoch: key.epoch,
            expires_ns: u64::MAX,
            ..Claims::new()
        };
        Credentials {
            claims,
            groups: Vec::new(),
            token: key.token(&claims, &[]),
        }
    }

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

    /// The drive believes these.
    pub(super) fn set(&self, now: &Credentials) {
        self.token.set(now.token);
        self.is_one_user.set(!now.acts_for_others());
    }

    pub(super) fn renew_by(&self, renewal: Renewal) {
        self.renewal.replace(Some(renewal));
    }

    /// New credentials, if they are to be had.
    pub(super) fn new_credentials(&self) -> Option<Credentials> {
        let renewal = self.renewal.borrow().clone();
        renewal.and_then(|renewal| renewal())
    }
}
