//! Showing the drive who this client is, at first and again.

use wharf_wire::command::Command;
use zerocopy::IntoBytes;

use super::credentials::{Credentials, Renewal};
use super::placement::About;
use super::{Inner, StorClient};
use crate::files::FileError;
use crate::volume::NAMESPACE;

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
        self.inner.access.renew_by(renewal);
    }
}

impl Inner {
    async fn authenticate(&self, new: &Credentials) -> Result<(), FileError> {
        let bytes = [new.claims.as_bytes(), new.groups.as_bytes()].concat();
        let mut buffer = self.buffer(bytes.len()).await;
        buffer.put(&bytes);
        let show = Command::authenticate(NAMESPACE, bytes.len() as u32).with_token(new.token);
        buffer.send_once(About::Names(0), show).await?;
        self.access.set(new);
        Ok(())
    }

    /// Gets new credentials, and shows them; whether the drive believes them.
    pub(super) async fn renew(&self) -> bool {
        match self.access.new_credentials() {
            Some(new) => self.authenticate(&new).await.is_ok(),
            None => false,
        }
    }
}
