//! All that a directory has.

use wharf_files::vfs::{At, Service, Target};
use wharf_files::{Attributes, By, DirectoryEntry, FileError, LIST_START, OpenFlags};

/// Entries that are asked for at once.
const ENTRIES: usize = 256;

/// All entries of a directory, with the attributes of each.
pub(super) async fn entries<S: Service>(
    inner: &S,
    by: By<'_>,
    directory: u64,
) -> Result<Vec<(DirectoryEntry, Attributes)>, FileError> {
    let opened = inner
        .open(by, At::number(directory), OpenFlags::DIRECTORY, 0)
        .await?;
    let (mut listed, mut cookie) = (Vec::new(), LIST_START);
    loop {
        let is_last = inner
            .list(opened.handle, cookie, ENTRIES, &mut listed)
            .await?;
        match listed.last() {
            Some(last) if !is_last => cookie = last.cookie,
            _ => break,
        }
    }
    inner.close(opened.handle).await?;
    let mut found = Vec::with_capacity(listed.len());
    for entry in listed {
        let target = Target::Path(At::number(entry.number), false);
        let attributes = inner.stat(by, target).await?;
        found.push((entry, attributes));
    }
    Ok(found)
}
