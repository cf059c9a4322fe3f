//! Commands for files, as a host sends them: each on the next of its queues.

use std::cell::Cell;

use wharf_files::{Caller, Errno};
use wharf_wire::command::Command;
use wharf_wire::file::{
    Caller as WireCaller, FileHandle, Names, OpenAnswer, OpenMode, RequestHead, Start,
};
use wharf_wire::status::StatusCode;
use zerocopy::FromBytes;

use crate::support::host::{Host, code};

/// Pages of the largest buffer.
const BUFFER_PAGES: u32 = 256;

const PAGE: usize = 4096;

/// A host that speaks of files.
pub struct Asker {
    pub host: Host,
    turn: Cell<usize>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    pub status: StatusCode,
    pub result: u64,
}

impl Reply {
    /// The result, or the number of the error.
    pub fn done(self) -> Result<u64, i32> {
        match self.status {
            StatusCode::Success => Ok(self.result),
            StatusCode::FileError => Err(self.result as i32),
            StatusCode::HandleInvalid => Err(Errno::EBADF.number()),
            status => panic!("answered {status:?}"),
        }
    }
}

/// The head of a request of a caller's.
pub fn head(caller: &Caller) -> RequestHead {
    RequestHead::of(WireCaller {
        uid: caller.uid,
        gid: caller.gid,
        groups: &caller.groups,
    })
}

/// Names of a request with one path, from the root.
pub fn path(path: &[u8]) -> Names<'_> {
    Names {
        path: (Start::ROOT, path),
        path2: (Start::ROOT, b""),
        value: b"",
    }
}

/// A file is read and written, and made if it is not there.
pub const UPDATE: OpenMode = OpenMode {
    read: true,
    write: true,
    create: true,
    exclusive: false,
    truncate: false,
    append: false,
    directory: false,
    no_follow: false,
};

impl Asker {
    pub fn new(host: Host) -> Asker {
        Asker {
            host,
            turn: Cell::new(0),
        }
    }

    /// Opens a file of root's.
    pub async fn open(&mut self, mode: OpenMode, name: &[u8]) -> OpenAnswer {
        let mut head = head(&Caller::root());
        head.mode = 0o644;
        let command = Command::open_file(1, mode, 8192);
        let opened = self.ask(command, head, &path(name)).await;
        assert_eq!(opened.done(), Ok(0));
        let bytes = self.got(size_of::<OpenAnswer>());
        let answer = OpenAnswer::read_from_bytes(&bytes);
        answer.expect("an answer")
    }

    /// The same, for its handle alone.
    pub async fn file(&mut self, mode: OpenMode, name: &[u8]) -> FileHandle {
        FileHandle::from_raw(self.open(mode, name).await.handle)
    }

    /// Writes bytes to the buffer, from its byte `at` on, where a page begins.
    pub fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at.is_multiple_of(PAGE), "a page begins there");
        for (nth, part) in bytes.chunks(PAGE).enumerate() {
            self.put_within(at + nth * PAGE, part);
        }
    }

    fn put_within(&self, at: usize, bytes: &[u8]) {
        // SAFETY: no command in flight names the page.
        let page = unsafe { self.host.data.page_mut(at / PAGE) };
        page[at % PAGE..at % PAGE + bytes.len()].copy_from_slice(bytes);
    }

    /// Bytes of the buffer.
    pub fn got(&self, bytes: usize) -> Vec<u8> {
        let mut all = Vec::new();
        for page in 0..bytes.div_ceil(PAGE) {
            // SAFETY: no command in flight names the page.
            all.extend_from_slice(unsafe { self.host.data.page_mut(page) });
        }
        all.truncate(bytes);
        all
    }

    /// A command whose data pointers are those of the buffer, if it moves data.
    pub fn aimed(&self, command: Command) -> Command {
        let bytes = command.file_bytes();
        let pages = bytes.div_ceil(PAGE as u32).clamp(1, BUFFER_PAGES);
        self.host.aim(command, pages, 0, 0)
    }

    /// Sends a command as it is, and waits for its end.
    pub async fn send(&mut self, command: Command) -> Reply {
        let queue = self.turn.get();
        self.turn.set((queue + 1) % self.host.queues.len());
        let cid = self.host.send(queue, command);
        let found = self.host.next(queue).await;
        assert_eq!(found.cid, cid, "the answer to another command");
        Reply {
            status: code(&found),
            result: found.wide_result(),
        }
    }

    /// Sends a command with a request in its buffer.
    pub async fn ask(&mut self, command: Command, head: RequestHead, names: &Names<'_>) -> Reply {
        let request = head.with_names(names).expect("it can be said");
        self.put(0, &request);
        let command = self.aimed(command);
        self.send(command).await
    }
}
