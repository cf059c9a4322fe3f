//! From the running group into the journal, and from there home.
//!
//! Commit, one at a time. Those who ask for one meanwhile wait; the first of them seals what has been
//! done until then, for all who have come by then, and they find it done.
//!
//! 1. seal the running group: what comes later belongs to the next;
//! 2. write its images behind the last group of the ring, with a checkpoint before if there is no
//!    room;
//! 3. flush: with them, what was written to files before becomes durable;
//! 4. write the record, and flush: now it counts;
//! 5. discard what it gave back, and only then let it be used again.
//!
//! Checkpoint: write all that is in the journal home, flush, move the journal's beginning to its
//! end by writing a header, flush. Nothing of the ring is written before that is durable.
//!
//! An error of the media in any of these steps ends all changes: the file system is read-only from
//! then on, as what memory holds and what the media hold may differ for ever.

use std::sync::Arc;

use wharf_runtime::Op;

use super::gates::{COMMITS, How};
use super::journal::{self, Tail};
use super::page::{self, Image};
use super::store::{Freed, GroupOfChanges, Store};
use crate::cost::work_n;
use crate::errno::Fault;
use crate::errno::FileError;
use crate::pages::{PAGE_BYTES, Pages, Run};

/// Most pages that are written home at once: 1 MiB.
const HOME_PAGES_AT_ONCE: usize = 256;

/// A group on its way.
struct Outgoing {
    group: u64,
    images: Vec<(u64, Image)>,
    freed: Vec<Freed>,
    transaction: u64,
}

impl Outgoing {
    fn given_back(&self) -> Vec<u64> {
        let metadata = self.freed.iter().filter(|freed| freed.was_metadata);
        metadata.flat_map(|freed| freed.run.iter()).collect()
    }
}

impl<P: Pages> Store<P> {
    /// Makes durable what was completed before: files' bytes and metadata.
    ///
    /// # Errors
    /// Of the media: from then on nothing is changed any more.
    pub async fn commit(&self) -> Result<(), FileError> {
        let seen = self.changing.with(|all| all.seals);
        let _turn = self.gates.enter(COMMITS, How::Alone).await;
        if let Some(fault) = self.changing.with(|all| all.failed) {
            return Err(fault.into());
        }
        // Somebody else sealed, and committed, after this was called.
        if self.changing.with(|all| all.seals) > seen {
            return Ok(());
        }
        let done = self.commit_now().await;
        if let Err(fault) = done {
            self.changing.with(|all| all.failed = Some(fault));
        }
        Ok(done?)
    }

    async fn commit_now(&self) -> Result<(), Fault> {
        let Some(mut outgoing) = self.seal() else {
            return self.pages.flush().await;
        };
        let given_back = outgoing.given_back();
        let total = journal::pages_of_group(outgoing.images.len(), given_back.len());
        let used = self.changing.with(|all| all.ring_used);
        if used + total > self.geometry.ring_pages() {
            self.checkpoint().await?;
        }
        self.write_group(&mut outgoing, &given_back, total).await?;
        let freed = outgoing.freed.clone();
        self.committed(outgoing, total);
        self.release(&freed).await;
        let is_much = self.changing.with(|all| {
            all.committed.len() > self.limits.committed_images
                || all.ring_used > self.geometry.ring_pages() / 2
        });
        match is_much {
            true => self.checkpoint().await,
            false => Ok(()),
        }
    }

    /// Takes what is running; `None` if that is nothing.
    fn seal(&self) -> Option<Outgoing> {
        let (group, transaction, freed, mut images) = self.changing.with(|all| {
            all.seals += 1;
            if all.running.is_empty() {
                return None;
            }
            let sealed = std::mem::take(&mut all.running);
            let images: Vec<_> = sealed.images.iter().map(|(n, i)| (*n, i.clone())).collect();
            let freed = sealed.freed.clone();
            all.sealed = Some(sealed);
            Some((all.next_group, all.transaction, freed, images))
        })?;
        images.sort_unstable_by_key(|(number, _)| *number);
        Some(Outgoing {
            group,
            images,
            freed,
            transaction,
        })
    }

    async fn write_group(
        &self,
        outgoing: &mut Outgoing,
        given_back: &[u64],
        total: u64,
    ) -> Result<(), Fault> {
        let (geometry, ring) = (&self.geometry, self.geometry.ring_pages());
        let at = self
            .changing
            .with(|all| (all.tail.at + all.ring_used) % ring);
        let (bytes, record) = work_n(Op::JournalPage, outgoing.images.len() as u32, || {
            for (_, image) in &mut outgoing.images {
                let generation = page::head(image).generation.get();
                page::seal(Arc::make_mut(image), generation);
            }
            journal::encode(
                geometry,
                outgoing.group,
                at,
                &outgoing.images,
                given_back,
                outgoing.transaction,
            )
        });
        let runs = journal::ring_runs(geometry, at, total - 1);
        self.pages.write(&runs, &bytes).await?;
        self.pages.flush().await?;
        let place = journal::ring_page(geometry, at + total - 1);
        self.pages.write(&[Run::one(place)], &record[..]).await?;
        self.pages.flush().await
    }

    /// The group is durable.
    fn committed(&self, outgoing: Outgoing, total: u64) {
        self.changing.with(|all| {
            all.sealed = None;
            all.next_group += 1;
            all.ring_used += total;
            for (number, image) in outgoing.images {
                all.kept.remove(number);
                all.committed.insert(number, image);
            }
            for freed in outgoing.freed.iter().filter(|freed| freed.was_metadata) {
                for number in freed.run.iter() {
                    all.committed.remove(&number);
                    all.kept.remove(number);
                }
            }
            // A page that is read just now may be one of those.
            all.epoch += 1;
        });
    }

    /// Lets what a durable group gave back be used again.
    async fn release(&self, freed: &[Freed]) {
        if freed.is_empty() {
            return;
        }
        let mut runs: Vec<Run> = freed.iter().map(|freed| freed.run).collect();
        runs.sort_unstable();
        // A page that cannot be discarded is used again all the same.
        let _ = self.pages.discard(&runs).await;
        self.changing
            .with(|all| runs.into_iter().for_each(|run| all.release(run)));
    }

    /// Writes home what is in the journal, and empties it.
    async fn checkpoint(&self) -> Result<(), Fault> {
        let mut images: Vec<(u64, Image)> = self.changing.with(|all| {
            all.epoch += 1;
            let committed = all.committed.iter();
            committed.map(|(n, image)| (*n, image.clone())).collect()
        });
        images.sort_unstable_by_key(|(number, _)| *number);
        write_home(&self.pages, &images).await?;
        self.pages.flush().await?;
        let tail = self.changing.with(|all| Tail {
            serial: all.tail.serial + 1,
            group: all.next_group,
            at: (all.tail.at + all.ring_used) % self.geometry.ring_pages(),
            transaction: all.transaction,
        });
        let (number, header) = tail.to_page(&self.geometry);
        self.pages.write(&[Run::one(number)], &header[..]).await?;
        self.pages.flush().await?;
        self.changing.with(|all| {
            all.epoch += 1;
            all.tail = tail;
            all.ring_used = 0;
            for (number, image) in images {
                all.committed.remove(&number);
                all.kept.put(number, image);
            }
        });
        Ok(())
    }

    /// Leaves the media so that nothing has to be replayed.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub async fn settle_all(&self) -> Result<(), FileError> {
        self.commit().await?;
        let _turn = self.gates.enter(COMMITS, How::Alone).await;
        let done = self.checkpoint().await;
        if let Err(fault) = done {
            self.changing.with(|all| all.failed = Some(fault));
        }
        Ok(done?)
    }
}

impl GroupOfChanges {
    /// Adds what a transaction changed.
    pub fn add(&mut self, images: Vec<(u64, Image)>, freed: &[Freed]) {
        self.images.extend(images);
        for freed in freed {
            self.freed.push(*freed);
            if freed.was_metadata {
                self.given_back += freed.run.pages as usize;
                freed.run.iter().for_each(|number| {
                    self.images.remove(&number);
                });
            }
        }
    }
}

/// Writes images, in order of their numbers, each to its home.
///
/// # Errors
/// Of the media.
pub async fn write_home<P: Pages>(pages: &P, images: &[(u64, Image)]) -> Result<(), Fault> {
    for images in images.chunks(HOME_PAGES_AT_ONCE) {
        let mut runs: Vec<Run> = Vec::new();
        let mut bytes = Vec::with_capacity(images.len() * PAGE_BYTES);
        for (number, image) in images {
            match runs.last_mut() {
                Some(run) if run.end() == *number => run.pages += 1,
                _ => runs.push(Run::one(*number)),
            }
            bytes.extend_from_slice(&image[..]);
        }
        pages.write(&runs, &bytes).await?;
    }
    Ok(())
}
