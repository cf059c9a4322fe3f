//! One command: pages for its data, its end, and what its error means.

use wharf_files::Errno;
use wharf_runtime::Op;
use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use super::Inner;
use super::pages::{PAGE, Pages};
use super::placement::About;
use crate::error::IoError;
use crate::files::FileError;
use crate::group::Group;

/// The pages of one command. Dropping it gives them back, once the drive is done with them.
pub(super) struct Buffer<'a> {
    inner: &'a Inner,
    group: Option<Group>,
    pages: Pages,
}

impl Inner {
    /// Pages for a command of so many bytes, at most [`Inner::bytes_max`].
    pub(super) async fn buffer(&self, bytes: usize) -> Buffer<'_> {
        let mut pages = self.spare.borrow_mut().pop().unwrap_or_default();
        let count = bytes.div_ceil(PAGE);
        if count > 0 {
            let Pages { numbers, addresses } = &mut pages;
            self.buffers
                .take(&self.cpu, count, numbers, addresses)
                .await;
        }
        Buffer {
            inner: self,
            group: None,
            pages,
        }
    }

    pub(super) fn release(&self, mut pages: Pages) {
        pages.addresses.clear();
        if !pages.numbers.is_empty() {
            self.buffers.give_back(&self.cpu, &mut pages.numbers);
        }
        self.spare.borrow_mut().push(pages);
    }

    /// Sends a command without data.
    pub(super) async fn send(&self, about: About, command: Command) -> Result<u64, FileError> {
        self.buffer(0).await.send(about, command).await
    }
}

impl Buffer<'_> {
    /// Copies bytes to the beginning of the pages.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        for (number, part) in self.pages.numbers.iter().zip(bytes.chunks(PAGE)) {
            // SAFETY: the page is this buffer's, which has nothing in flight: each command is waited for, and after a
            // timeout nobody touches it any more.
            let page = unsafe { self.inner.buffers.page_mut(*number) };
            let copy = || page[..part.len()].copy_from_slice(part);
            self.inner.cpu.work(Op::CopyPage, copy);
        }
    }

    /// Copies bytes from the beginning of the pages.
    pub(super) fn get(&self, out: &mut [u8]) {
        for (number, part) in self.pages.numbers.iter().zip(out.chunks_mut(PAGE)) {
            // SAFETY: as in `put`.
            let page = unsafe { self.inner.buffers.page_mut(*number) };
            let copy = || part.copy_from_slice(&page[..part.len()]);
            self.inner.cpu.work(Op::CopyPage, copy);
        }
    }

    /// Looks at the first bytes of a page.
    pub(super) fn look(&self, nth: usize, bytes: usize, look: impl FnOnce(&[u8])) {
        // SAFETY: as in `put`.
        let page = unsafe { self.inner.buffers.page_mut(self.pages.numbers[nth]) };
        self.inner.cpu.work(Op::CopyPage, || look(&page[..bytes]));
    }

    /// Changes a page.
    pub(super) fn change(&mut self, nth: usize, change: impl FnOnce(&mut [u8])) {
        // SAFETY: as in `put`.
        let page = unsafe { self.inner.buffers.page_mut(self.pages.numbers[nth]) };
        self.inner.cpu.work(Op::CopyPage, || change(page));
    }

    /// Sends a command that names these pages, and waits for its end; gives its result.
    ///
    /// One that comes too late for its token is sent again with a new one: it has changed nothing, and its pages are as they were.
    pub(super) async fn send(&mut self, about: About, command: Command) -> Result<u64, FileError> {
        let access = &self.inner.access;
        let ended = self.send_once(about, command.with_token(access.token()));
        match ended.await {
            Err(error) if is_expired(&error) => {
                if !Box::pin(self.inner.renew()).await {
                    return Err(Errno::EACCES.into());
                }
                let command = command.with_token(access.token());
                self.send_once(about, command).await
            }
            ended => ended,
        }
    }

    /// The same, with the token that it has.
    pub(super) async fn send_once(
        &mut self,
        about: About,
        command: Command,
    ) -> Result<u64, FileError> {
        let inner = self.inner;
        let lane = inner.lanes.place(about);
        let group = self.group.insert(lane.driver.groups().open());
        let kernel_path = inner.kernel_path.get();
        kernel_path.submit(&inner.cpu, 1);
        let slot = lane.driver.reserve().await;
        lane.driver
            .issue(slot, group, command, &self.pages.addresses);
        lane.driver.ring();
        let ended = match kernel_path.is_due() {
            true => kernel_path.sleep(&inner.cpu, group.wait(&inner.cpu)).await,
            false => group.wait(&inner.cpu).await,
        };
        kernel_path.complete(&inner.cpu, 1);
        ended.map_err(|error| meaning(error, group.last_result()))
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        let pages = std::mem::take(&mut self.pages);
        match self.group.take() {
            // After a timeout the drive may still read or write the pages.
            Some(group) if !group.is_quiet() => {
                self.inner.late.adopt(&self.inner.cpu, group, pages);
            }
            _ => self.inner.release(pages),
        }
    }
}

/// Whether a command came too late for its token.
fn is_expired(error: &FileError) -> bool {
    matches!(error, FileError::Io(IoError::Status { status, .. })
        if status.code() == Some(StatusCode::TokenExpired))
}

/// What the error of a command for files says to programs.
pub(super) fn meaning(error: IoError, result: u64) -> FileError {
    let IoError::Status { status, .. } = error else {
        return FileError::Io(error);
    };
    match status.code() {
        Some(StatusCode::FileError) => {
            let errno = i32::try_from(result).ok().and_then(Errno::of_number);
            match errno {
                // It says so by its storage, as others do.
                None | Some(Errno::EIO) => FileError::Io(error),
                Some(errno) => errno.into(),
            }
        }
        Some(StatusCode::HandleInvalid) => Errno::EBADF.into(),
        Some(StatusCode::LockHeld) => Errno::EAGAIN.into(),
        Some(StatusCode::TokenInvalid | StatusCode::TokenRevoked) => Errno::EACCES.into(),
        Some(StatusCode::AccessDenied) => Errno::EPERM.into(),
        _ => FileError::Io(error),
    }
}
