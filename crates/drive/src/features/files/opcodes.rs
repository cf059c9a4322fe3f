//! The commands, and what is checked of each before anything happens.
//!
//! The controller checks all that is in the command itself, and that its buffer is memory of the host; then the
//! command goes to a core. What its request says is checked there (`serve/`).

use std::cell::Cell;

use wharf_wire::command::Command;
use wharf_wire::file::{
    Claims, FileAttributes, FileLock, LockOperation, PathRequest, REQUEST_HEAD_BYTES,
    VECTOR_HEAD_BYTES, byte_transfer,
};
use wharf_wire::opcode::{DataDirection, IoOpcode};
use wharf_wire::prp::PrpError;
use wharf_wire::status::StatusCode;

use super::serve::Serves;
use super::tasks::{FileHandler, start};
use crate::controller::{Controller, Handler, IoCommand, MDTS};
use crate::core::{Core, Serve, Step};

/// What an opcode stands for.
pub(super) struct FileOpcode {
    opcode: IoOpcode,
    handler: FileHandler,
}

macro_rules! opcodes {
    ($($opcode:ident)*) => {
        /// All commands for files.
        pub(super) static OPCODES: &[FileOpcode] = &[$(FileOpcode {
            opcode: IoOpcode::$opcode,
            handler: FileHandler(&Serves(IoOpcode::$opcode)),
        },)*];
    };
}

opcodes! {
    CloseFile WriteFile ReadFile OpenFile SyncFile PathChange ReadDirectory PathRequest HandleOperation SetFileAttributes
    LeaseFile TestLock LockFile Authenticate WriteNear ReadNear EvictNear Vector
}

/// Whose turn it is to serve a command that no core is named for: vectors, which keep a core for long, have turns of their own. With one
/// turn for all, hosts that send a vector and then a read would have all vectors on every other core.
#[derive(Default)]
pub(super) struct Turn {
    vectors: Cell<u32>,
    others: Cell<u32>,
}

impl FileOpcode {
    pub(super) fn raw(&self) -> u8 {
        self.opcode.raw()
    }

    /// Refuses fields without a meaning.
    fn check_fields(&self, command: &Command) -> Result<(), StatusCode> {
        let is_known = match self.opcode {
            IoOpcode::PathRequest => command.path_request_kind().is_some_and(|kind| {
                use PathRequest::{Access, GetXattr, ListXattrs, Stat};
                !command.is_by_handle() || matches!(kind, Stat | Access | GetXattr | ListXattrs)
            }),
            IoOpcode::PathChange => {
                command.path_change_kind().is_some() && command.rename_mode().is_some()
            }
            IoOpcode::SyncFile => command.syncs_all() || !command.leaves_files(),
            IoOpcode::HandleOperation => command.handle_operation_kind().is_some(),
            IoOpcode::SetFileAttributes => {
                command.attribute_operation().is_some() && command.xattr_mode().is_some()
            }
            IoOpcode::LeaseFile => {
                command.file_bytes() as usize >= size_of::<FileAttributes>()
                    && command.lease_word().is_multiple_of(8)
            }
            IoOpcode::EvictNear => command.evict_kind().is_some(),
            IoOpcode::Vector => command.file_bytes() as usize >= VECTOR_HEAD_BYTES,
            IoOpcode::TestLock => command.file_bytes() as usize >= size_of::<FileLock>(),
            IoOpcode::LockFile => is_lock(command),
            IoOpcode::Authenticate => command.file_bytes() as usize >= size_of::<Claims>(),
            _ => true,
        };
        match is_known {
            true => Ok(()),
            false => Err(StatusCode::InvalidField),
        }
    }

    fn has_request(&self) -> bool {
        use IoOpcode::{OpenFile, PathChange, PathRequest, SetFileAttributes};
        matches!(
            self.opcode,
            OpenFile | PathChange | PathRequest | SetFileAttributes
        )
    }

    /// Checks that the whole buffer is memory of the host, and keeps where.
    fn check_buffer(&self, controller: &Controller, command: &Command) -> Result<(), StatusCode> {
        let bytes = command.file_bytes();
        if self.has_request() && (bytes as usize) < REQUEST_HEAD_BYTES {
            return Err(StatusCode::InvalidField);
        }
        let moves = DataDirection::of(self.raw()) != DataDirection::None && bytes > 0;
        let (pages, dma) = match moves {
            true => {
                let transfer = byte_transfer(command.prp1, bytes).map_err(PrpError::status)?;
                (transfer.pages, controller.dma())
            }
            false => (0, controller.dma()),
        };
        if pages > 1 << MDTS {
            return Err(StatusCode::InvalidField);
        }
        let check = |address| match dma.page(address) {
            Ok(_) => Ok(()),
            Err(_) => Err(StatusCode::DataTransferError),
        };
        let pointed = command.with_page_of_prp1();
        let mut slots = controller.slots().borrow_mut();
        slots.walk(&pointed, pages, |at| dma.read_prp(at), check)
    }

    /// The core that serves a command.
    fn core(&self, controller: &Controller, qid: u16) -> u32 {
        controller.core_of(qid).unwrap_or_else(|| {
            let turn = controller.state::<Turn>();
            let turn = match self.opcode {
                IoOpcode::Vector => &turn.vectors,
                _ => &turn.others,
            };
            turn.replace((turn.get() + 1) % controller.cores().len() as u32)
        })
    }
}

/// Whether the fields of a lock command have a meaning.
fn is_lock(command: &Command) -> bool {
    use LockOperation::{LockExclusive, LockShared, ReleaseOwner};
    let Some(operation) = command.lock_operation() else {
        return false;
    };
    let (is_whole, waits) = (command.is_of_whole_file(), command.lock_waits());
    let has_range = !is_whole && operation != ReleaseOwner;
    let is_range = command.file_offset() <= command.lock_last();
    (is_range || !has_range)
        && (!waits || matches!(operation, LockShared | LockExclusive))
        && (!command.detects_deadlocks() || (waits && !is_whole))
}

impl Serve for FileOpcode {
    fn serve(&self, core: &Core, job: u32) -> Step {
        self.handler.serve(core, job)
    }
}

impl Handler for FileOpcode {}

impl IoCommand for FileOpcode {
    fn start(
        &'static self,
        controller: &mut Controller,
        qid: u16,
        command: Command,
    ) -> Result<(), StatusCode> {
        self.check_fields(&command)?;
        self.check_buffer(controller, &command)?;
        let core = self.core(controller, qid);
        start(controller, &self.handler, qid, command, core);
        Ok(())
    }
}
