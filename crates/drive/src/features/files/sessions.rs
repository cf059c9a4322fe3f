//! What each host has open: one session for the host that owns the drive, one for each guest.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use wharf_files::vfs::{Session, SessionLimits};
use wharf_files::{Caller, FileError, FileSystem};

use super::leases::Leases;
use super::lines::FileSystemOfDrive;
use super::near::Near;
use super::watched::Watched;

/// Files that a host can have open.
pub const HANDLES_MAX: u32 = 1 << 16;

/// One host's open files. Callers are named by each request ([`Session::as_caller`]).
pub type Files = Session<Rc<Watched>>;

/// See the [module](self).
#[derive(Default)]
pub struct Sessions(RefCell<BTreeMap<Option<u32>, Rc<Files>>>);

impl Sessions {
    /// What a host has open: a guest's number, or none of the drive's owner.
    ///
    /// # Errors
    /// If the file system does not answer.
    pub(super) async fn of(
        &self,
        (fs, leases, near): (&Rc<FileSystemOfDrive>, &Rc<Leases>, &Rc<Near>),
        guest: Option<u32>,
        now_ns: u64,
    ) -> Result<Rc<Files>, FileError> {
        if let Some(known) = self.0.borrow().get(&guest) {
            return Ok(known.clone());
        }
        let id = fs.stat_fs().await?.id;
        let limits = SessionLimits {
            handles: HANDLES_MAX as usize,
            first_generation: generation(id, now_ns, guest),
            ..SessionLimits::default()
        };
        let host = guest.map_or(0, |guest| guest + 1);
        let watched = Rc::new(Watched::new(fs.clone(), leases.clone(), near.clone(), host));
        let new = || Rc::new(Session::new(watched, Caller::root(), limits));
        // Others may have come first.
        Ok(self.0.borrow_mut().entry(guest).or_insert_with(new).clone())
    }

    /// A host has left, or is sent away: what it had open is to be closed.
    pub fn take(&self, guest: Option<u32>) -> Option<Rc<Files>> {
        self.0.borrow_mut().remove(&guest)
    }
}

/// The generation of a session's first handles: handles of another host, or of before the drive lost power, are very
/// likely none of it. By SplitMix64 (Steele, Lea, Flood 2014).
fn generation(id: u64, now_ns: u64, guest: Option<u32>) -> u32 {
    let own = guest.map_or(0, |guest| u64::from(guest) + 1);
    let seed = id ^ now_ns.rotate_left(32) ^ own.rotate_left(16);
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as u32
}
