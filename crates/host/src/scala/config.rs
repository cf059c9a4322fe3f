//! What the designs whose drives keep the cache are told.

use crate::design::DesignError;
use crate::scala::shares::Shares;

/// Their table in a configuration.
const TABLE: &str = "scala";

crate::settings! {
    /// What the designs whose drives keep the cache are told.
    pub struct ScalaConfig {
        /// In which proportion the cache is divided among clients (`scala`, `hardware`): `equal`,
        /// or weights of the first clients, such as `4,2,1`, from 1 to 65535 each; up to 64 clients
        /// have one, others 1. A run with fewer clients is refused.
        pub shares: Shares = Shares::default();
        /// Clean pages leave the cache first while a drive collects garbage (`scala`).
        pub gc_aware: bool = true;
    }
}

impl ScalaConfig {
    /// Refuses shares of clients that there are not.
    pub(crate) fn check_clients(&self, clients: u32) -> Result<(), DesignError> {
        match self.shares.clients() {
            named if named <= clients => Ok(()),
            named => Err(DesignError::TooManyShares {
                table: TABLE,
                named,
                clients,
            }),
        }
    }
}
