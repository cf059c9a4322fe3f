//! Listings.

use wharf_files::Errno;
use wharf_wire::file::ListWriter;

use super::{COMMAND_BYTES, Call, Done, Served, convert};

/// Entries that are asked for at once: about a page of them.
const ENTRIES_AT_ONCE: usize = 100;

pub(super) async fn list(call: &Call<'_>) -> Served {
    let handle = call.handle()?;
    call.carry(COMMAND_BYTES as usize).await;
    let list = ListWriter::new(call.buffer_bytes());
    let mut list = list.ok_or(Errno::EINVAL)?;
    let mut cookie = call.command.file_offset();
    let mut entries = Vec::new();
    let is_end = 'all: loop {
        entries.clear();
        let is_end = call
            .files
            .list(handle, cookie, ENTRIES_AT_ONCE, &mut entries)
            .await?;
        for entry in &entries {
            let kind = convert::file_kind(entry.kind);
            if !list.push(entry.cookie, entry.number, kind, &entry.name) {
                break 'all false;
            }
            cookie = entry.cookie;
        }
        if is_end || entries.is_empty() {
            break true;
        }
    };
    if list.entries() == 0 && !is_end {
        return Err(Errno::EINVAL.into());
    }
    let bytes = list.finish(is_end);
    call.copy_in(&bytes)?;
    Ok(Done {
        result: bytes.len() as u64,
        bytes: bytes.len() as u32,
    })
}
