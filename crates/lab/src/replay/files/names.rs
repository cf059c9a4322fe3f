//! Operations on names.

use std::collections::BTreeSet;

use wharf_host::files::{
    Attributes, DirectoryEntry, Errno, FileClient, FileError, Kind, LIST_START, OpenFlags, Rename,
};
use wharf_workload::files::{FileOp, FileOpKind};

use super::serve::{Served, right_error};
use super::{FileFault, State};
use crate::checker::names::{Answer, Change, Seen, Ticket};

/// Entries of a directory that are asked for at a time.
const ENTRIES: usize = 128;

impl<F: FileClient> State<F> {
    /// Whether it can be said what a name leads to.
    pub(super) fn foreseen(&self, name: u32) -> bool {
        !self.shared().plan.unforeseen[name as usize]
    }

    fn path(&self, name: u32) -> &[u8] {
        self.shared().plan.names.paths[name as usize].as_bytes()
    }

    /// Whether the directory of a name may be absent, or be none.
    fn may_lack_directory(&self, name: u32) -> bool {
        let parent = self.shared().plan.parents[name as usize];
        parent.is_some_and(|parent| {
            !self.foreseen(parent) || self.shared().names().may_be_absent(parent)
        })
    }

    /// A change of a name has failed: with an answer, or of something else that may be.
    pub(super) fn failed(&self, ticket: Ticket, error: FileError) -> Result<(), FileFault> {
        let answer = match error.errno() {
            Errno::ENOENT => Answer::Missing,
            Errno::EEXIST => Answer::Taken,
            Errno::ENOTEMPTY => Answer::NotEmpty,
            // A file where a directory is wanted, or the other way round.
            Errno::ENOTDIR | Errno::EISDIR | Errno::EINVAL | Errno::EPERM | Errno::EBUSY => {
                self.shared().names().withdraw(ticket);
                return Ok(());
            }
            _ => return Err(error.into()),
        };
        if answer == Answer::Missing && self.may_lack_directory(ticket.name()) {
            self.shared().names().withdraw(ticket);
            return Ok(());
        }
        Ok(self.shared().names().end(ticket, answer)?)
    }

    /// A look at a name has failed.
    pub(super) fn failed_look(&self, ticket: Ticket, error: FileError) -> Result<(), FileFault> {
        let mut names = self.shared().names();
        match error.errno() {
            Errno::ENOENT => Ok(names.end_look(ticket, Seen::Nothing)?),
            Errno::EISDIR => Ok(names.end_look(ticket, Seen::Something)?),
            Errno::ENOTDIR => {
                names.drop_look(ticket);
                Ok(())
            }
            _ => Err(error.into()),
        }
    }

    /// Begins a change, if what it does can be foreseen.
    fn begin(&self, name: u32, change: Change) -> Option<Ticket> {
        let foreseen = self.foreseen(name);
        foreseen.then(|| self.shared().names().begin(name, change))
    }

    /// Ends a change of one name.
    fn end(
        &self,
        ticket: Option<Ticket>,
        result: Result<(), FileError>,
    ) -> Result<Served, FileFault> {
        match (result, ticket) {
            (Ok(()), Some(ticket)) => {
                self.shared().names().end(ticket, Answer::Done)?;
                Ok(Served::default())
            }
            (Ok(()), None) => Ok(Served::default()),
            (Err(error), Some(ticket)) => {
                self.failed(ticket, error)?;
                Ok(Served::FAILED)
            }
            (Err(error), None) => {
                right_error(error)?;
                Ok(Served::FAILED)
            }
        }
    }

    /// Serves an operation on names.
    pub(super) async fn serve_name(&self, op: &FileOp) -> Result<Served, FileFault> {
        let (path, other) = (self.path(op.file), self.path(op.other));
        match op.kind {
            FileOpKind::Stat => self.stat(op.file).await,
            FileOpKind::List => self.list(op.file).await,
            FileOpKind::Rename => self.rename(op).await,
            FileOpKind::Remove => self.remove(op.file).await,
            FileOpKind::Mkdir => {
                let ticket = self.begin(op.file, Change::Make);
                self.end(ticket, self.files.mkdir(path, 0o755).await)
            }
            FileOpKind::Rmdir => {
                let ticket = self.begin(op.file, Change::RemoveDirectory);
                self.end(ticket, self.files.rmdir(path).await)
            }
            FileOpKind::Symlink => {
                let ticket = self.begin(op.file, Change::Make);
                self.end(ticket, self.files.symlink(other, path).await)
            }
            FileOpKind::Link => {
                let ticket = self.begin(op.other, Change::Make);
                let linked = self.files.link(path, other).await;
                // What is missing may be either.
                if let (Err(error), Some(ticket)) = (&linked, ticket)
                    && error.errno() == Errno::ENOENT
                {
                    self.shared().names().withdraw(ticket);
                    return Ok(Served::FAILED);
                }
                self.end(ticket, linked)
            }
            other => unreachable!("{other} is of an open file"),
        }
    }

    async fn remove(&self, name: u32) -> Result<Served, FileFault> {
        let shared = self.shared();
        let is_own = !shared.plan.shared[name as usize] && !shared.plan.has_links;
        let number = (is_own && self.foreseen(name)).then(|| shared.names().number(name));
        let ticket = self.begin(name, Change::Remove);
        let served = self.end(ticket, self.files.remove(self.path(name)).await)?;
        if let (Some(Some(number)), false) = (number, served.is_failed) {
            // Who has it open has its object too.
            shared.forget(number);
        }
        Ok(served)
    }

    async fn rename(&self, op: &FileOp) -> Result<Served, FileFault> {
        let (path, other) = (self.path(op.file), self.path(op.other));
        if op.file == op.other {
            let renamed = self.files.rename(path, other, Rename::Replace).await;
            return self.end(None, renamed);
        }
        let has_links = self.shared().plan.has_links;
        let leave = self.begin(op.file, Change::Leave { has_links });
        let arrive = self.begin(op.other, Change::Arrive);
        let renamed = self.files.rename(path, other, Rename::Replace).await;
        let Err(error) = renamed else {
            self.end(leave, Ok(()))?;
            return self.end(arrive, Ok(()));
        };
        if let Some(arrive) = arrive {
            self.shared().names().withdraw(arrive);
        }
        let is_missing = error.errno() == Errno::ENOENT;
        match leave {
            // Missing is the file, or the directory that it was to go to.
            Some(leave) if is_missing && self.may_lack_directory(op.other) => {
                self.shared().names().withdraw(leave);
            }
            Some(leave) if is_missing => self.failed(leave, error)?,
            Some(leave) => {
                right_error(error)?;
                self.shared().names().withdraw(leave);
            }
            None => right_error(error)?,
        }
        Ok(Served::FAILED)
    }

    async fn stat(&self, name: u32) -> Result<Served, FileFault> {
        let shared = self.shared();
        let foreseen = self.foreseen(name);
        let ticket = foreseen.then(|| shared.names().begin_look(name));
        // The size is looked at if it is certain which file it is.
        let number = foreseen.then(|| shared.names().number(name)).flatten();
        let object = number.map(|number| {
            let object = shared.object(number, name);
            let look = shared.objects.begin_look(&object);
            (number, object, look)
        });
        let found: Result<Attributes, FileError> = self.files.stat(self.path(name), true).await;
        if let Some((number, object, look)) = object {
            match &found {
                // The size of a directory is whatever a file system says.
                Ok(found) if found.number == number && found.kind == Kind::File => {
                    shared.objects.end_look(&object, look, found.bytes)?;
                }
                _ => shared.objects.drop_look(&object, look),
            }
        }
        match (found, ticket) {
            (Ok(attributes), Some(ticket)) => {
                let seen = Seen::File(attributes.number);
                shared.names().end_look(ticket, seen)?;
                Ok(Served::default())
            }
            (Ok(_), None) => Ok(Served::default()),
            (Err(error), Some(ticket)) => {
                self.failed_look(ticket, error)?;
                Ok(Served::FAILED)
            }
            (Err(error), None) => {
                right_error(error)?;
                Ok(Served::FAILED)
            }
        }
    }

    /// Lists a directory: of each name in it that is known, whether it is there.
    async fn list(&self, name: u32) -> Result<Served, FileFault> {
        let shared = self.shared();
        let is_in = |other: &u32| {
            shared.plan.parents[*other as usize] == Some(name) && self.foreseen(*other)
        };
        let all = 0..shared.plan.names.paths.len() as u32;
        let looks: Vec<(u32, Ticket)> = match self.foreseen(name) {
            true => all
                .filter(is_in)
                .map(|other| (other, shared.names().begin_look(other)))
                .collect(),
            false => Vec::new(),
        };
        let ticket = self.foreseen(name).then(|| shared.names().begin_look(name));
        let listed = self.entries(name).await;
        let entries = match listed {
            Ok(entries) => entries,
            Err(error) => {
                looks
                    .into_iter()
                    .for_each(|(_, look)| shared.names().drop_look(look));
                match ticket {
                    Some(ticket) => self.failed_look(ticket, error)?,
                    None => right_error(error)?,
                }
                return Ok(Served::FAILED);
            }
        };
        let mut names = shared.names();
        if let Some(ticket) = ticket {
            names.end_look(ticket, Seen::Something)?;
        }
        let found: BTreeSet<&[u8]> = entries.iter().map(|entry| &*entry.name).collect();
        for (other, look) in looks {
            let path = self.path(other);
            let last = path
                .rsplit(|byte| *byte == b'/')
                .next()
                .expect("a path has parts");
            let seen = match found.contains(last) {
                true => Seen::Something,
                false => Seen::Nothing,
            };
            names.end_look(look, seen)?;
        }
        Ok(Served::default())
    }

    async fn entries(&self, name: u32) -> Result<Vec<DirectoryEntry>, FileError> {
        let opened = self
            .files
            .open(self.path(name), OpenFlags::DIRECTORY, 0)
            .await?;
        let (mut entries, mut cookie) = (Vec::new(), LIST_START);
        let listed = loop {
            let listed = self
                .files
                .list(opened.handle, cookie, ENTRIES, &mut entries)
                .await;
            match (listed, entries.last()) {
                (Ok(false), Some(last)) => cookie = last.cookie,
                (Ok(_), _) => break Ok(()),
                (Err(error), _) => break Err(error),
            }
        };
        self.files.close(opened.handle).await?;
        listed.map(|()| entries)
    }
}
