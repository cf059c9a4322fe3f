//! Claims that a host shows.

use super::super::access::CLAIMS_BYTES_MAX;
use super::{At, Call, Done, FileAnswer, answer};
use wharf_wire::status::StatusCode;

/// The one command for files whose token is not that of the host: it is to become that.
pub(super) async fn authenticate(at: At<'_>) -> FileAnswer {
    let call = match Call::unchecked(at).await {
        Ok(call) => call,
        Err(error) => return answer(Err(error.into())),
    };
    let served = call.take_claims().await;
    answer(served.map_err(Into::into))
}

impl Call<'_> {
    /// They are copied once: what is checked is what counts.
    async fn take_claims(&self) -> Result<Done, StatusCode> {
        let access = self.at.firmware.access();
        if !access.has_key() {
            return Err(StatusCode::TokenInvalid);
        }
        let bytes = self.buffer_bytes();
        if bytes > CLAIMS_BYTES_MAX {
            return Err(StatusCode::InvalidField);
        }
        let mut claims = vec![0; bytes];
        self.copy_out(0, &mut claims)?;
        self.carry(super::COMMAND_BYTES as usize + bytes).await;
        access.authenticate(self.host(), &claims, self.command.token(), self.now_ns)?;
        Ok(Done::result(0))
    }
}
