//! Attaching to a store that another process owns: the guest's side.
//!
//! The owner hands over memory and says what is in it ([`handshake`](super::handshake)); from that the guest makes
//! the same things as the owner's own clients have: a design, a volume, a client.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SendFlags, send};
use wharf_host::admin::DriveFacts;
use wharf_host::boot::Ready;
use wharf_host::design::Principal;
use wharf_host::guest::{SharedDesign, Writers};
use wharf_host::stor::Credentials;
use wharf_wire::dma::DmaSpace;
use wharf_wire::identify::FeatureSet;
use wharf_wire::memory::SharedMemory;
use wharf_wire::shared_queue::SharedQueue;

use super::StoreError;
use super::handshake::{self, Ask, Head, NO_SLOT, SlotPlan};
use super::options::driver;
use super::system::ClientSlot;

/// How long it is waited for an answer that is short.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// What a guest's client is made of.
pub(super) struct Attached<D> {
    /// While it is open, the guest has its slot.
    pub(super) connection: Arc<UnixStream>,
    pub(super) design: Arc<D>,
    pub(super) space: Arc<DmaSpace>,
    pub(super) ready: Ready,
    pub(super) slot: ClientSlot,
    /// Its queue pairs.
    pub(super) queues: Vec<SharedQueue>,
    /// Who the owner says that this process is, where that matters.
    pub(super) credentials: Option<Credentials>,
    /// The number of the owner's sharing.
    pub(super) sharing: u32,
    /// What all of its drives can do.
    pub(super) features: FeatureSet,
}

/// Asks for a slot at the store that is shared at `path`.
pub(super) fn attach<D: SharedDesign>(path: &Path) -> Result<Attached<D>, StoreError> {
    let unreachable = |source| StoreError::Unreachable {
        path: path.to_path_buf(),
        source,
    };
    let connection = Arc::new(connected(path, &Ask::attach()).map_err(unreachable)?);
    let (head, facts, descriptors) = handshake::receive(&connection).map_err(unreachable)?;
    check::<D>(path, &head, &facts)?;
    let credentials = match head.has_claims {
        0 => None,
        _ => Some(handshake::receive_claims(&connection).map_err(unreachable)?),
    };
    let (config, told) = (head.config(), D::Config::default());
    let needs = D::needs(&config, &told);
    let plan = SlotPlan::new(head.drives, head.depth, needs.attached_pages);
    let mut parts = D::shared_parts(&config);
    parts.push((plan.bytes(), Writers::Guest(head.guest)));
    if descriptors.len() != parts.len() {
        return Err(StoreError::NotUnderstood { path: path.into() });
    }
    let map = |(file, (bytes, writers)): (OwnedFd, (usize, Writers))| {
        let file = out_of_the_way(file);
        let memory = match writers.have(head.guest) {
            true => SharedMemory::open(file, bytes),
            false => SharedMemory::open_to_read(file, bytes),
        };
        memory.map(Arc::new)
    };
    let memories = descriptors.into_iter().zip(parts).map(map);
    let memories = memories.collect::<Result<Vec<_>, _>>()?;
    let (own, shared) = memories.split_last().expect("the slot's comes last");
    let space = DmaSpace::within(own, plan.pages_offset(), plan.pages());
    let design = Arc::new(D::attach(&config, &told, &space, shared, head.guest)?);
    let shared_queue = |drive| SharedQueue::new(own, plan.queue_offset(drive), head.depth);
    let shared_queues: Vec<_> = (0..facts.len()).map(shared_queue).collect();
    let queue = |queue: &SharedQueue| {
        let waking = connection.clone();
        queue.host_end(Box::new(move || {
            // If it cannot be sent, the drives' thread wakes by itself soon, or is gone.
            let _ = send(&*waking, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }))
    };
    let slot = ClientSlot {
        index: head.clients - head.guests + head.guest,
        principal: Principal {
            process: 1 + head.guest,
        },
        queues: shared_queues.iter().map(queue).collect(),
        driver: driver(needs.bunch),
        has_files: needs.bunch,
    };
    let features = facts.iter().fold(u64::MAX, |all, one| all & one.features.0);
    Ok(Attached {
        features: FeatureSet(features),
        design,
        space,
        ready: Ready::of(facts, head.stripe_pages),
        queues: shared_queues,
        slot,
        connection,
        credentials,
        sharing: head.sharing,
    })
}

/// Asks the owner of the store that is shared at `path` who this process is now, which is attached there with `old`. Nothing if it
/// does not say.
pub(crate) fn renew(path: &Path, old: &Credentials) -> Option<Credentials> {
    let connection = asked(path, &Ask::renew(old)).ok()?;
    let new = handshake::receive_claims(&connection).ok()?;
    (new.claims.guest == old.claims.guest).then_some(new)
}

/// A connection to the owner of the store that is shared at `path`, where it is said what this process wants.
fn connected(path: &Path, ask: &Ask) -> io::Result<UnixStream> {
    let connection = UnixStream::connect(path)?;
    let connection = UnixStream::from(out_of_the_way(connection.into()));
    handshake::ask(&connection, ask)?;
    Ok(connection)
}

/// The same, for an answer that is short: it is not waited for for long.
pub(super) fn asked(path: &Path, ask: &Ask) -> io::Result<UnixStream> {
    let connection = connected(path, ask)?;
    connection.set_read_timeout(Some(ANSWER_TIME))?;
    Ok(connection)
}

/// The same, under a number that programs do not count on: their own files get the lowest ones.
fn out_of_the_way(descriptor: OwnedFd) -> OwnedFd {
    const LEAST: i32 = 800;
    // Where the system allows so few, it keeps its number.
    rustix::io::fcntl_dupfd_cloexec(&descriptor, LEAST).unwrap_or(descriptor)
}

/// Refuses what the owner says if it makes no sense here.
fn check<D: SharedDesign>(
    path: &Path,
    head: &Head,
    facts: &[DriveFacts],
) -> Result<(), StoreError> {
    let path = || path.to_path_buf();
    if !head.is_understood() {
        return Err(StoreError::NotUnderstood { path: path() });
    }
    if head.design != handshake::name(D::NAME) {
        let bytes = head.design.iter().copied().filter(|byte| *byte != 0);
        let found = String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned();
        let (path, design) = (path(), D::NAME);
        return Err(StoreError::OtherDesign {
            path,
            found,
            design,
        });
    }
    if head.outcome == NO_SLOT {
        let (path, guests) = (path(), head.guests);
        return Err(StoreError::NoSlotLeft { path, guests });
    }
    let is_sound = !facts.is_empty()
        && head.stripe_pages > 0
        && head.guest < head.guests
        && head.guests <= head.clients
        && (2..=wharf_wire::queue::DEPTH_MAX).contains(&head.depth);
    match is_sound {
        true => Ok(()),
        false => Err(StoreError::NotUnderstood { path: path() }),
    }
}
