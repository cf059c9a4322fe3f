//! What a process says that connects to the owner of a store, and what the owner tells it.
//!
//! It says what it wants ([`Ask`]). One that wants to attach is answered by one message: a [`Head`], a [`DriveLine`] for each
//! drive, and descriptors: of the memory that all share, then of the slot's. Behind it, and as the answer to one that wants
//! new claims, come those ([`ClaimsLine`]), where the drive has files. Both processes are of one version, so it has no other format than that
//! of its structs.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use wharf_host::admin::DriveFacts;
use wharf_host::design::DesignConfig;
use wharf_host::driver::Driver;
use wharf_host::stor::Credentials;
use wharf_runtime::Holder;
use wharf_wire::dma::PAGE_BYTES;
use wharf_wire::file::{CLAIM_GROUPS_MAX, Claims, Revoke, Token};
use wharf_wire::identify::FeatureSet;
use wharf_wire::shared_queue::shared_queue_bytes;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Drives of a store that can be shared.
pub(super) const DRIVES_MAX: usize = 32;

/// Descriptors of a message: frames and frame table of each drive, the notes of each process, the slot.
const DESCRIPTORS_MAX: usize = 2 * DRIVES_MAX + 1 + Holder::GUESTS_MAX as usize + 1;

/// What a message begins with: the name, and the version of the format.
const MAGIC: [u8; 8] = *b"WHARFST3";

/// A text in so many bytes, zeros behind it.
pub(super) fn name<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let length = text.len().min(N);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

/// What was decided.
pub(super) const ADMITTED: u32 = 1;
/// Every slot is taken, or there is no memory for one.
pub(super) const NO_SLOT: u32 = 2;

/// It wants to attach.
pub(super) const ATTACH: u32 = 1;
/// It is attached, and wants new claims: those of who it is now.
pub(super) const RENEW: u32 = 2;

/// It wants to know which sessions there are.
pub(super) const LIST: u32 = 3;
/// It wants sessions taken back.
pub(super) const REVOKE: u32 = 4;
/// It wants the drive to have a new key.
pub(super) const NEW_KEY: u32 = 5;

/// The answer to one who wants something done: it is.
pub(super) const DONE: u32 = 1;
/// It is not.
pub(super) const NOT_DONE: u32 = 2;

/// What a process wants that connects.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Ask {
    magic: [u8; 8],
    /// One of those above.
    pub(super) what: u32,
    /// Which guest it is, if it is one that renews; the kind of what is to be revoked.
    pub(super) guest_or_kind: u32,
    /// The token that proves that it is that guest.
    pub(super) token: Token,
    /// What is to be revoked.
    pub(super) which: u64,
}

impl Ask {
    fn new(what: u32) -> Ask {
        Ask {
            magic: MAGIC,
            what,
            guest_or_kind: 0,
            token: Token::NONE,
            which: 0,
        }
    }

    /// It wants to attach.
    pub(super) fn attach() -> Ask {
        Ask::new(ATTACH)
    }

    /// It wants to know which sessions there are.
    pub(super) fn list() -> Ask {
        Ask::new(LIST)
    }

    /// It wants sessions taken back.
    pub(super) fn revoke(kind: Revoke, which: u64) -> Ask {
        Ask {
            guest_or_kind: kind.raw(),
            which,
            ..Ask::new(REVOKE)
        }
    }

    /// It wants the drive to have a new key.
    pub(super) fn new_key() -> Ask {
        Ask::new(NEW_KEY)
    }

    /// A guest wants new claims, which has these.
    pub(super) fn renew(old: &Credentials) -> Ask {
        Ask {
            guest_or_kind: old.claims.guest.saturating_sub(1),
            token: old.token,
            ..Ask::new(RENEW)
        }
    }

    /// Whether the other process speaks as this one does.
    pub(super) fn is_understood(&self) -> bool {
        self.magic == MAGIC
    }
}

/// Claims, before their groups.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct ClaimsLine {
    claims: Claims,
    token: Token,
}

/// What there is to know of the store and of the slot.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Head {
    pub(super) magic: [u8; 8],
    pub(super) version: [u8; 16],
    /// Name of the design.
    pub(super) design: [u8; 16],
    /// Bytes of all frames.
    pub(super) cache_bytes: u64,
    /// Pages of a stripe of the volume.
    pub(super) stripe_pages: u64,
    /// Clients of the store, with the guests.
    pub(super) clients: u32,
    /// slots for guests.
    pub(super) guests: u32,
    /// Which of them this is.
    pub(super) guest: u32,
    /// Entries of each ring.
    pub(super) depth: u32,
    /// Drives.
    pub(super) drives: u32,
    /// Whether there is a slot.
    pub(super) outcome: u32,
    /// Whether claims follow.
    pub(super) has_claims: u32,
    /// A number of this sharing's own: it is another one when the store is shared anew.
    pub(super) sharing: u32,
}

/// What there is to know of a drive.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct DriveLine {
    pages: u64,
    max_transfer_pages: u32,
    cores: u32,
    core_stripe_pages: u32,
    volatile_write_cache: u32,
    features: u64,
}

impl From<&DriveFacts> for DriveLine {
    fn from(facts: &DriveFacts) -> DriveLine {
        DriveLine {
            pages: facts.pages,
            max_transfer_pages: facts.max_transfer_pages,
            cores: facts.cores,
            core_stripe_pages: facts.core_stripe_pages,
            volatile_write_cache: u32::from(facts.volatile_write_cache),
            features: facts.features.0,
        }
    }
}

impl From<DriveLine> for DriveFacts {
    fn from(line: DriveLine) -> DriveFacts {
        DriveFacts {
            pages: line.pages,
            max_transfer_pages: line.max_transfer_pages,
            volatile_write_cache: line.volatile_write_cache != 0,
            cores: line.cores,
            core_stripe_pages: line.core_stripe_pages,
            features: FeatureSet(line.features),
        }
    }
}

impl Head {
    /// The message of a store of `design` that is configured so.
    pub(super) fn new(
        design: &str,
        config: &DesignConfig,
        depth: u32,
        stripe_pages: u64,
        sharing: u32,
    ) -> Head {
        Head {
            magic: MAGIC,
            version: name(env!("CARGO_PKG_VERSION")),
            design: name(design),
            cache_bytes: config.cache_bytes,
            stripe_pages,
            clients: config.clients,
            guests: config.guests,
            guest: 0,
            depth,
            drives: config.drives,
            outcome: ADMITTED,
            has_claims: 0,
            sharing,
        }
    }

    /// Whether the other process speaks as this one does.
    pub(super) fn is_understood(&self) -> bool {
        let version = name(env!("CARGO_PKG_VERSION"));
        self.magic == MAGIC && self.version == version && self.drives as usize <= DRIVES_MAX
    }

    /// How the owner has configured its design.
    pub(super) fn config(&self) -> DesignConfig {
        DesignConfig {
            cache_bytes: self.cache_bytes,
            clients: self.clients,
            guests: self.guests,
            drives: self.drives,
            ..DesignConfig::default()
        }
    }
}

/// Where things are in the memory of a slot: the queue pairs, one for each drive, then pages for lists.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotPlan {
    drives: usize,
    depth: u32,
    list_pages: usize,
}

impl SlotPlan {
    /// The plan for a client whose design needs `design_pages` pages.
    pub(super) fn new(drives: u32, depth: u32, design_pages: usize) -> SlotPlan {
        let of_drivers = drives as usize * Driver::list_pages_max(depth);
        SlotPlan {
            drives: drives as usize,
            depth,
            list_pages: design_pages + of_drivers,
        }
    }

    /// Byte at which the queue pair of a drive is.
    pub(super) fn queue_offset(&self, drive: usize) -> usize {
        drive * shared_queue_bytes(self.depth)
    }

    /// Byte from which on the pages are.
    pub(super) fn pages_offset(&self) -> usize {
        self.queue_offset(self.drives)
    }

    /// How many there are.
    pub(super) fn pages(&self) -> usize {
        self.list_pages
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> usize {
        self.pages_offset() + self.list_pages * PAGE_BYTES
    }
}

/// Bytes of claims, as they are sent.
pub(super) fn claims_bytes(given: &Credentials) -> Vec<u8> {
    let line = ClaimsLine {
        claims: given.claims,
        token: given.token,
    };
    [line.as_bytes(), given.groups.as_bytes()].concat()
}

/// Receives claims.
pub(super) fn receive_claims(mut stream: &UnixStream) -> std::io::Result<Credentials> {
    let mut line = ClaimsLine::new_zeroed();
    stream.read_exact(line.as_mut_bytes())?;
    let count = line.claims.group_count as usize;
    if count > CLAIM_GROUPS_MAX {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut groups = vec![0_u32; count];
    stream.read_exact(groups.as_mut_bytes())?;
    Ok(Credentials {
        claims: line.claims,
        groups,
        token: line.token,
    })
}

/// Says what this process wants.
pub(super) fn ask(mut stream: &UnixStream, ask: &Ask) -> std::io::Result<()> {
    stream.write_all(ask.as_bytes())
}

/// Sends a message, and bytes behind it.
pub(super) fn send(
    stream: &UnixStream,
    head: &Head,
    drives: &[DriveLine],
    behind: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> std::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        assert!(fits, "{} descriptors", descriptors.len());
    }
    let parts = [
        IoSlice::new(head.as_bytes()),
        IoSlice::new(drives.as_bytes()),
        IoSlice::new(behind),
    ];
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = sendmsg(stream, &parts, &mut ancillary, flags)?;
    match sent == size_of_val(head) + size_of_val(drives) + behind.len() {
        true => Ok(()),
        false => Err(std::io::ErrorKind::WriteZero.into()),
    }
}

/// Receives a message.
pub(super) fn receive(
    mut stream: &UnixStream,
) -> std::io::Result<(Head, Vec<DriveFacts>, Vec<OwnedFd>)> {
    let mut head = Head::new_zeroed();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(head.as_mut_bytes())];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let received = recvmsg(stream, &mut parts, &mut ancillary, flags)?;
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptors = descriptors.flatten().collect();
    if received.bytes != size_of::<Head>() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    let mut drives = Vec::new();
    if head.is_understood() && head.outcome == ADMITTED {
        drives.resize_with(head.drives as usize, DriveLine::new_zeroed);
        stream.read_exact(drives.as_mut_bytes())?;
    }
    let facts = drives.into_iter().map(DriveFacts::from).collect();
    Ok((head, facts, descriptors))
}
