//! Path changes, and attributes that are set: what has no answer but its status.

use wharf_wire::file::{AttributeOperation, PathChange, STAYS_ID, STAYS_MODE};
use wharf_wire::status::StatusCode;

use super::{Call, Done, Served, convert};

pub(super) async fn names(call: &Call<'_>) -> Served {
    let change = call.command.path_change_kind();
    let change = change.ok_or(StatusCode::InvalidField)?;
    let copied = call.request().await?;
    let request = copied.parse()?;
    let (files, now_ns) = (call.as_caller(&request)?, call.now_ns);
    let path = call.path(&request)?;
    match change {
        PathChange::Remove => files.unlink(now_ns, path).await?,
        PathChange::RemoveDirectory => files.rmdir(now_ns, path).await?,
        PathChange::Rename => {
            let mode = call.command.rename_mode();
            let how = convert::rename(mode.ok_or(StatusCode::InvalidField)?);
            let to = call.path2(&request)?;
            files.rename(now_ns, path, to, how).await?;
        }
        PathChange::Truncate => files.truncate(now_ns, path, request.head.size).await?,
    }
    Ok(Done::result(0))
}

pub(super) async fn attributes(call: &Call<'_>) -> Served {
    let operation = call.command.attribute_operation();
    let operation = operation.ok_or(StatusCode::InvalidField)?;
    let copied = call.request().await?;
    let request = copied.parse()?;
    let (files, now_ns, head) = (call.as_caller(&request)?, call.now_ns, request.head);
    let target = call.target(&request)?;
    match operation {
        AttributeOperation::Mode if head.mode == STAYS_MODE => {
            return Err(StatusCode::InvalidField.into());
        }
        AttributeOperation::Mode => files.chmod(now_ns, target, head.mode).await?,
        AttributeOperation::Owner => {
            let set = |id| (id != STAYS_ID).then_some(id);
            let (uid, gid) = (set(head.set_uid), set(head.set_gid));
            files.chown(now_ns, target, uid, gid).await?;
        }
        AttributeOperation::Times => {
            let accessed = convert::time(head.accessed_ns);
            let modified = convert::time(head.modified_ns);
            files.set_times(now_ns, target, accessed, modified).await?;
        }
        AttributeOperation::SetXattr => {
            let mode = call.command.xattr_mode();
            let how = convert::set_xattr(mode.ok_or(StatusCode::InvalidField)?);
            let (name, value) = (request.path2, request.value);
            files.set_xattr(now_ns, target, name, value, how).await?;
        }
        AttributeOperation::RemoveXattr => {
            files.remove_xattr(now_ns, target, request.path2).await?;
        }
    }
    Ok(Done::result(0))
}
