//! From the media to a file system: superblock, journal, state.
//!
//! 1. The superblock, or its copy if the first is not whole.
//! 2. The newer of the journal's headers: where the first group is that may not be at home.
//! 3. Walk the groups from there on, up to the first that is not whole. What was given back is
//!    noted: no image of it from this or an earlier group must be written home, as the page may
//!    hold a file's bytes by now.
//! 4. Nothing behind that may be newer: a record of a later group means that a group in the middle
//!    was lost, which is damage and not the end of the journal.
//! 5. Walk again, and write the images home; flush; then move the journal's beginning behind them.
//! 6. Write a superblock or a header of the journal again that is damaged, where the other is whole.
//!
//! A power cut at any point leaves everything as it was, or the same to be done again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::commit::write_home;
use super::journal::{self, Descriptor, Record, Tail};
use super::layout::{Geometry, SUPERBLOCK_PAGE, Superblock};
use super::page::{self, Image, Kind, Wanted};
use crate::errno::Fault;
use crate::pages::{PAGE_BYTES, PageBytes, Pages, Run};

/// Pages that are looked through at once.
const SCAN_PAGES: u64 = 256;

/// A group as it is in the ring.
struct Loaded {
    images: Vec<(u64, Image)>,
    given_back: Vec<u64>,
    pages: u64,
    transaction: u64,
}

/// What was done to bring the media up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Groups that were replayed.
    pub groups: u64,
    /// Images that were written home.
    pub images: u64,
    /// Superblocks and headers of the journal that were damaged, and were written again from the
    /// other one.
    pub mended: u64,
}

/// Reads the superblock.
///
/// # Errors
/// Of the media, and if neither the superblock nor its copy is whole.
pub async fn geometry<P: Pages>(pages: &P) -> Result<Geometry, Fault> {
    let mut first = Err(page::damaged(SUPERBLOCK_PAGE, "there are too few pages"));
    for number in [Some(SUPERBLOCK_PAGE), pages.pages().checked_sub(1)] {
        let Some(number) = number else { continue };
        let mut bytes = [0; PAGE_BYTES];
        let read = pages.read(&[Run::one(number)], &mut bytes).await;
        let found = read.and_then(|()| Geometry::from_superblock(&bytes, number, pages.pages()));
        match found {
            Ok(geometry) if number == SUPERBLOCK_PAGE || geometry.superblock_copy() == number => {
                return Ok(geometry);
            }
            other if number == SUPERBLOCK_PAGE => first = other,
            _ => {}
        }
    }
    first
}

/// Brings the media up to date with the journal, which is empty then; where it begins.
///
/// # Errors
/// Of the media, and of damage in the journal.
pub async fn replay<P: Pages>(pages: &P, geometry: &Geometry) -> Result<(Tail, Replayed), Fault> {
    let mut headers = vec![0; 2 * PAGE_BYTES];
    let run = Run::new(geometry.journal.first, 2);
    pages.read(&[run], &mut headers).await?;
    let tail = Tail::newer(&headers, geometry)?;
    let ring = Ring { pages, geometry };
    let (end, given_back) = ring.walk(tail).await?;
    if let Some(page) = ring.newer_record(end.group).await? {
        return Err(page::damaged(
            page,
            "a group of the journal before it is lost",
        ));
    }
    let mut replayed = ring.write_home(tail, end, &given_back).await?;
    replayed.mended = mend_superblocks(pages, geometry).await?;
    let is_header_lost = Tail::whole(&headers, geometry) < 2;
    replayed.mended += u64::from(is_header_lost);
    if replayed.groups == 0 && !is_header_lost {
        return Ok((tail, replayed));
    }
    // The next header goes where the other one is, or should be.
    pages.flush().await?;
    let end = Tail {
        serial: tail.serial + 1,
        ..end
    };
    let (number, header) = end.to_page(geometry);
    pages.write(&[Run::one(number)], &header[..]).await?;
    pages.flush().await?;
    Ok((end, replayed))
}

/// Writes the superblock again, or its copy, if one of them is not what it should be; how many.
async fn mend_superblocks<P: Pages>(pages: &P, geometry: &Geometry) -> Result<u64, Fault> {
    let places = [SUPERBLOCK_PAGE, geometry.superblock_copy()];
    let mut made_ns = None;
    let mut lost = Vec::new();
    for number in places {
        let mut bytes = [0; PAGE_BYTES];
        let read = pages.read(&[Run::one(number)], &mut bytes).await;
        let found = read.and_then(|()| Geometry::from_superblock(&bytes, number, pages.pages()));
        match found {
            Ok(found) if found == *geometry => {
                made_ns = Some(page::of::<Superblock>(&bytes).made_ns.get());
            }
            _ => lost.push(number),
        }
    }
    let made_ns = made_ns.ok_or(page::damaged(SUPERBLOCK_PAGE, "the superblock went away"))?;
    for number in &lost {
        let image = geometry.superblock(*number, made_ns);
        pages.write(&[Run::one(*number)], &image[..]).await?;
    }
    if !lost.is_empty() {
        pages.flush().await?;
    }
    Ok(lost.len() as u64)
}

/// The ring of a journal.
struct Ring<'a, P> {
    pages: &'a P,
    geometry: &'a Geometry,
}

impl<P: Pages> Ring<'_, P> {
    async fn read(&self, at: u64, pages: u64) -> Result<Vec<u8>, Fault> {
        let runs = journal::ring_runs(self.geometry, at % self.geometry.ring_pages(), pages);
        let mut bytes = vec![0; pages as usize * PAGE_BYTES];
        self.pages.read(&runs, &mut bytes).await?;
        Ok(bytes)
    }

    /// The place of the ring's end, and what was given back, with the last group that did so.
    async fn walk(&self, tail: Tail) -> Result<(Tail, BTreeMap<u64, u64>), Fault> {
        let (mut end, mut given_back) = (tail, BTreeMap::new());
        let mut used = 0;
        while let Some(loaded) = self.load(end.group, end.at).await? {
            used += loaded.pages;
            if used > self.geometry.ring_pages() || loaded.transaction < end.transaction {
                let page = journal::ring_page(self.geometry, end.at);
                return Err(page::damaged(
                    page,
                    "the groups of the journal do not fit together",
                ));
            }
            given_back.extend(loaded.given_back.iter().map(|page| (*page, end.group)));
            end.at = (end.at + loaded.pages) % self.geometry.ring_pages();
            end.group += 1;
            end.transaction = loaded.transaction;
        }
        Ok((end, given_back))
    }

    /// A group, if it was committed.
    async fn load(&self, group: u64, at: u64) -> Result<Option<Loaded>, Fault> {
        let ring = self.geometry.ring_pages();
        let mut whole = Vec::new();
        let (mut images, mut given_back) = (Vec::new(), Vec::new());
        for section in 0.. {
            let done = (whole.len() / PAGE_BYTES) as u64;
            let place = journal::ring_page(self.geometry, at + done);
            let head = self.read(at + done, 1).await?;
            let head: &PageBytes = head.as_slice().try_into().expect("it is one page");
            if section > 0 && self.is_of(head, Kind::Record, place, group) {
                let record: &Record = page::of(head);
                if record.pages.get() != done || record.crc.get() != page::crc(&whole) {
                    return Err(page::damaged(
                        place,
                        "the group before the record is not whole",
                    ));
                }
                let transaction = record.transaction.get();
                self.check_images(place, &images, transaction)?;
                return Ok(Some(Loaded {
                    images,
                    given_back,
                    pages: done + 1,
                    transaction,
                }));
            }
            let descriptor: &Descriptor = page::of(head);
            let is_next = self.is_of(head, Kind::Descriptor, place, group)
                && descriptor.section.get() == section;
            if !is_next {
                return Ok(None);
            }
            let count = u64::from(descriptor.images.get());
            let given = usize::from(descriptor.given_back.get());
            if count as usize + given > journal::ENTRIES || done + count + 2 > ring {
                return Err(page::damaged(place, "it lists more than there can be"));
            }
            let bytes = self.read(at + done + 1, count).await?;
            let pages = bytes.as_chunks::<PAGE_BYTES>().0;
            let homes = descriptor.entries.iter().map(|entry| entry.get());
            images.extend(homes.zip(pages).map(|(home, page)| (home, Arc::new(*page))));
            let entries = descriptor.entries.iter().skip(count as usize).take(given);
            given_back.extend(entries.map(|entry| entry.get()));
            whole.extend_from_slice(head);
            whole.extend_from_slice(&bytes);
        }
        Ok(None)
    }

    fn is_of(&self, bytes: &PageBytes, kind: Kind, place: u64, group: u64) -> bool {
        let wanted = journal::wanted(self.geometry, kind, place);
        page::head(bytes).generation.get() == group && page::check(bytes, wanted).is_ok()
    }

    /// Whether all images belong where the journal says that they belong.
    fn check_images(
        &self,
        place: u64,
        images: &[(u64, Image)],
        transaction: u64,
    ) -> Result<(), Fault> {
        for (home, image) in images {
            let kind = Kind::of_raw(page::head(image).kind.get());
            let is_of_journal = (self.geometry.journal.first..self.geometry.journal.end())
                .contains(home)
                || *home == SUPERBLOCK_PAGE
                || *home >= self.geometry.superblock_copy();
            let Some(kind) = kind.filter(|_| !is_of_journal && transaction <= u64::MAX / 2) else {
                return Err(page::damaged(
                    place,
                    "it has an image of no page of metadata",
                ));
            };
            page::check(
                image,
                Wanted {
                    kind,
                    number: *home,
                    file_system: self.geometry.file_system,
                    generation_max: transaction,
                },
            )?;
        }
        Ok(())
    }

    /// A page with a record of `group` or a later one.
    async fn newer_record(&self, group: u64) -> Result<Option<u64>, Fault> {
        let ring = self.geometry.ring_pages();
        for at in (0..ring).step_by(SCAN_PAGES as usize) {
            let bytes = self.read(at, SCAN_PAGES.min(ring - at)).await?;
            for (place, bytes) in (at..).zip(bytes.as_chunks::<PAGE_BYTES>().0) {
                let header = page::head(bytes);
                let number = journal::ring_page(self.geometry, place);
                let wanted = journal::wanted(self.geometry, Kind::Record, number);
                if header.kind.get() == Kind::Record.raw()
                    && header.generation.get() >= group
                    && page::check(bytes, wanted).is_ok()
                {
                    return Ok(Some(number));
                }
            }
        }
        Ok(None)
    }

    /// Writes home what the groups from `tail` to `end` hold.
    async fn write_home(
        &self,
        tail: Tail,
        end: Tail,
        given_back: &BTreeMap<u64, u64>,
    ) -> Result<Replayed, Fault> {
        let (mut at, mut replayed) = (tail.at, Replayed::default());
        for group in tail.group..end.group {
            let Some(mut loaded) = self.load(group, at).await? else {
                let page = journal::ring_page(self.geometry, at);
                return Err(page::damaged(page, "a group of the journal went away"));
            };
            loaded
                .images
                .retain(|(home, _)| given_back.get(home).is_none_or(|last| *last < group));
            loaded.images.sort_unstable_by_key(|(home, _)| *home);
            write_home(self.pages, &loaded.images).await?;
            replayed.groups += 1;
            replayed.images += loaded.images.len() as u64;
            at = (at + loaded.pages) % self.geometry.ring_pages();
        }
        Ok(replayed)
    }
}
