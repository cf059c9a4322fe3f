//! What a file task does for each command.
//!
//! 1. Its token is checked, and the session of the host that sent it is looked up ([`Call`]).
//! 2. A command with names has its request copied, once; all that follows looks at the copy (`request.rs`).
//! 3. Its operation runs on the session, as the caller that the request names.
//! 4. An answer goes to the host's buffer, and no more of it than was said is carried by the link (`buffer.rs`).
//!
//! | file | idea |
//! |---|---|
//! | `buffer.rs` | the host's buffer: bytes out of it, and into it |
//! | `authenticate.rs` | claims that a host shows |
//! | `request.rs` | the request of a command with names |
//! | `data.rs` | reading, writing, syncing, sizes and storage of open files |
//! | `near.rs` | the cache in the drive's memory |
//! | `vector/` | functions of bytes |
//! | `open.rs` | opening and closing |
//! | `directory.rs` | listings |
//! | `ask.rs` | path requests |
//! | `change.rs` | path changes, and attributes that are set |
//! | `lease.rs` | leases |
//! | `lock.rs` | locks |
//! | `convert.rs` | words of commands as those of file systems |

mod ask;
mod authenticate;
mod buffer;
mod change;
mod convert;
mod data;
mod directory;
mod lease;
mod lock;
mod near;
mod open;
mod request;
mod vector;

use std::rc::Rc;

use wharf_files::{Errno, FileError, Handle};
use wharf_runtime::OnCpu;
use wharf_wire::command::Command;
use wharf_wire::file::FileHandle;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::queue::Guest;
use wharf_wire::status::StatusCode;

use super::access::Authority;
use super::answer::{COMPLETION_BYTES, FileAnswer};
use super::changes::changes;
use super::locks::{QUEUE_CLOSES, session_of};
use super::sessions::Files;
use super::tasks::{At, FileCommand, FileWork};

/// Bytes that the link carries for a command.
const COMMAND_BYTES: u32 = 64;

/// Serves the commands of an opcode.
pub(super) struct Serves(pub(super) IoOpcode);

/// A command that is being served.
struct Call<'a> {
    at: At<'a>,
    command: Command,
    /// Who sent it, if that is not the owner of the drive.
    guest: Option<Guest>,
    files: Rc<Files>,
    /// Who sent it, where that is checked.
    authority: Option<Rc<Authority>>,
    now_ns: u64,
}

/// What a command came to that was done.
struct Done {
    result: u64,
    /// Bytes that went to the host's buffer.
    bytes: u32,
}

impl Done {
    fn result(result: u64) -> Done {
        Done { result, bytes: 0 }
    }
}

/// Why a command was not done.
enum Refused {
    Status(StatusCode),
    Files(FileError),
}

impl From<FileError> for Refused {
    fn from(error: FileError) -> Refused {
        Refused::Files(error)
    }
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Refused {
        Refused::Files(errno.into())
    }
}

impl From<StatusCode> for Refused {
    fn from(status: StatusCode) -> Refused {
        Refused::Status(status)
    }
}

type Served = Result<Done, Refused>;

impl FileCommand for Serves {
    fn run<'a>(&'a self, at: At<'a>) -> FileWork<'a> {
        // Each is as large as what it does, and no larger: reading takes a small part of what changing names takes.
        match self.0 {
            IoOpcode::ReadFile => work(at, data::read),
            IoOpcode::WriteFile => work(at, data::write),
            IoOpcode::CloseFile => work(at, open::close),
            IoOpcode::OpenFile => work(at, open::open),
            IoOpcode::SyncFile => work(at, data::sync),
            IoOpcode::HandleOperation => work(at, data::operate),
            IoOpcode::ReadDirectory => work(at, directory::list),
            IoOpcode::PathRequest => work(at, ask::serve),
            IoOpcode::PathChange => work(at, change::names),
            IoOpcode::SetFileAttributes => work(at, change::attributes),
            IoOpcode::LeaseFile => work(at, lease::lease),
            IoOpcode::TestLock => work(at, lock::test),
            IoOpcode::LockFile => Box::pin(lock::lock(at)),
            IoOpcode::ReadNear => work(at, near::read),
            IoOpcode::WriteNear => work(at, near::write),
            IoOpcode::EvictNear => work(at, near::evict),
            IoOpcode::Vector => work(at, vector::serve),
            IoOpcode::Authenticate => Box::pin(authenticate::authenticate(at)),
            _ => work(at, async |_: &Call<'_>| {
                Err(StatusCode::InvalidOpcode.into())
            }),
        }
    }

    fn is_long(&self) -> bool {
        self.0 == IoOpcode::Vector
    }
}

/// Does what a command asks for in its session, and answers.
fn work<'a>(at: At<'a>, serve: impl AsyncFnOnce(&Call<'_>) -> Served + 'a) -> FileWork<'a> {
    Box::pin(async move {
        let served = match Call::new(at).await {
            Ok(call) => serve(&call).await,
            Err(refused) => Err(refused),
        };
        answer(served)
    })
}

fn answer(served: Served) -> FileAnswer {
    match served {
        Ok(done) => FileAnswer {
            to_host_bytes: COMPLETION_BYTES + done.bytes,
            ..FileAnswer::done(done.result)
        },
        Err(refused) => refused.answer(),
    }
}

impl Refused {
    fn answer(self) -> FileAnswer {
        match self {
            Refused::Status(status) => FileAnswer {
                to_host_bytes: COMPLETION_BYTES,
                ..FileAnswer::failed(status)
            },
            Refused::Files(error) => FileAnswer::errno(error.errno()),
        }
    }
}

impl<'a> Call<'a> {
    /// Checks who sent it, and finds the session of that host.
    async fn new(at: At<'a>) -> Result<Call<'a>, Refused> {
        let mut call = Call::unchecked(at).await?;
        let (access, token) = (at.firmware.access(), call.command.token());
        let check = || access.check(call.host(), token, call.now_ns);
        call.authority = match access.work(call.host()) {
            Some(op) => at.core.cpu.work(op, check)?,
            None => check()?,
        };
        if let Some(own) = &call.authority {
            call.check_change(own)?;
        }
        Ok(call)
    }

    /// The same, whoever sent it.
    async fn unchecked(at: At<'a>) -> Result<Call<'a>, FileError> {
        let fs = at.file_system().await?;
        let now_ns = at.firmware.now_ns(at.core.cpu.now());
        let (guest, command) = at.with_slot(|slot| (slot.guest, slot.command));
        let (firmware, number) = (at.firmware, guest.map(|guest| guest.number));
        let shared = (&fs, firmware.leases(), firmware.near());
        let files = firmware.sessions().of(shared, number, now_ns).await?;
        Ok(Call {
            command,
            guest,
            at,
            files,
            authority: None,
            now_ns,
        })
    }
}

impl Call<'_> {
    /// The number of the host that sent it.
    fn host(&self) -> u32 {
        session_of(self.guest)
    }

    /// Refuses what changes something, for who may change nothing.
    fn check_change(&self, own: &Authority) -> Result<(), Errno> {
        match own.reads_only() && changes(&self.command) {
            true => Err(Errno::EROFS),
            false => Ok(()),
        }
    }

    /// What a host keeps that was written, or the drive's cache, goes to the media some time.
    fn begin_ageing(&self) {
        let firmware = self.at.firmware;
        let (leases, near) = (firmware.leases().clone(), firmware.near().clone());
        if !leases.begins_ageing() {
            return;
        }
        let (cpu, files) = (&self.at.core.cpu, self.files.clone());
        let ages = async move { leases.age(files.file_system().below(), &near).await };
        cpu.spawn("ages what was written", OnCpu::new(cpu, ages));
    }

    /// Whether who sent it has been sent away since.
    fn is_revoked(&self) -> bool {
        self.authority.as_ref().is_some_and(|own| own.is_revoked())
    }

    /// Whether its queue is to be deleted, which waits for it.
    fn queue_closes(&self) -> bool {
        self.at.with_slot(|slot| slot.note == QUEUE_CLOSES)
    }

    /// The command's handle, if it is one of this host's.
    fn handle(&self) -> Result<Handle, StatusCode> {
        self.known(self.command.file_handle())
    }

    fn known(&self, handle: FileHandle) -> Result<Handle, StatusCode> {
        let handle = Handle {
            index: handle.index,
            generation: handle.generation,
        };
        match self.files.is_open(handle) {
            true => Ok(handle),
            false => Err(StatusCode::HandleInvalid),
        }
    }
}
