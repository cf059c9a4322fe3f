//! Which commands change something.

use wharf_wire::command::Command;
use wharf_wire::file::{Evict, HandleOperation, PathRequest};
use wharf_wire::opcode::IoOpcode;

/// Whether a command changes something besides when files were read.
pub(super) fn changes(command: &Command) -> bool {
    use PathRequest::{Link, MakeDirectory, MakeSpecial, MakeSymlink};
    match command.io_opcode() {
        Some(
            IoOpcode::WriteFile
            | IoOpcode::WriteNear
            | IoOpcode::PathChange
            | IoOpcode::SetFileAttributes,
        ) => true,
        Some(IoOpcode::EvictNear) => command.evict_kind() == Some(Evict::Drop),
        Some(IoOpcode::OpenFile) => {
            let mode = command.open_mode();
            mode.write || mode.create || mode.truncate
        }
        Some(IoOpcode::PathRequest) => matches!(
            command.path_request_kind(),
            Some(MakeDirectory | MakeSpecial | MakeSymlink | Link)
        ),
        Some(IoOpcode::HandleOperation) => !matches!(
            command.handle_operation_kind(),
            Some(HandleOperation::SeekData | HandleOperation::SeekHole)
        ),
        _ => false,
    }
}
