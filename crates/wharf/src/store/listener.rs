//! The listener: lets other processes in, and notices when they are gone.
//!
//! A task on a thread of its own that waits for a socket. Guests connect, and say what they want (`asks.rs`); each gets a slot, if one
//! is free, and its connection stays open as long as the guest lives: when it closes, by a call or by
//! the end of the process, the guest is dismissed. Each gets descriptors by which it can write what it
//! is to write, and no more. On the connection comes nothing but single bytes, by which a guest asks to
//! be heard where its queue pairs say that the drives' thread sleeps.
//!
//! Only processes of the same user, and root's, are let in, but for a drive with files: there the permissions of the socket say who may
//! come, and the broker (`broker.rs`) says to the drive who each is. What else they may want is in `answers.rs`.

use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use wharf_host::admin::AdminError;
use wharf_host::guest::{SharedDesign, Writers};
use wharf_runtime::{Background, CostTable, Cpu, Idle, Machine, Sender, Side};
use wharf_wire::memory::{MemoryError, SharedMemory};
use wharf_wire::queue::Guest;

use super::asks::Asks;
use super::broker::Broker;
use super::guests::{GuestSlots, Order};
use super::handshake::{self, DriveLine, Head, NO_SLOT};
use super::peer::Peer;

/// How often it is looked whether a drive with files knows what time it is.
const CLOCK_PERIOD: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// Processes that are let in at a time, before those are heard that are here.
const ACCEPTED_AT_A_TIME: usize = 64;

/// How long it is waited when nobody can be let in for want of descriptors.
const NO_ROOM_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// How long it is waited before anybody is let in where a process that is gone has left its socket: longer than a guest
/// uses what it keeps without a look whether that process is there (a tick of the kernel's coarse clock, 10 ms at most).
const LEFT_PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// How the listener has the boot task admit and dismiss guests.
pub(super) struct Orders {
    pub(super) orders: Sender<Order>,
    pub(super) done: mpsc::Receiver<Result<(), AdminError>>,
}

impl Orders {
    /// Has an order carried out. An error without a cause: the drives have stopped.
    pub(super) fn give(&mut self, cpu: &Cpu, order: Order) -> Result<(), Option<AdminError>> {
        let pushed = self.orders.push(cpu, order);
        assert!(pushed.is_ok(), "one order at a time");
        self.done.recv().map_err(|_| None)?.map_err(Some)
    }
}

/// What a guest is told, and what it is given.
pub(super) struct Welcome<D> {
    pub(super) design: Arc<D>,
    pub(super) head: Head,
    pub(super) drives: Vec<DriveLine>,
    /// What all share, and who writes to it.
    pub(super) memories: Vec<(Arc<SharedMemory>, Writers)>,
    /// Firmware cores of a drive.
    pub(super) cores: u32,
    pub(super) own_clients: u32,
    /// Says who guests are, of a drive with files. Such a drive has a clock that follows the system's.
    pub(super) broker: Option<Broker>,
    /// Permission bits of the socket.
    pub(super) socket_mode: u32,
}

/// A listener that works. Dropping it dismisses all guests.
pub(super) struct Listener {
    background: Option<Background>,
    /// Closed to tell it to end.
    stop: Option<UnixStream>,
    ended: mpsc::Receiver<usize>,
}

/// Who has a slot.
pub(super) enum Taken {
    Free,
    /// Who came, by this connection.
    By(UnixStream, Peer),
    /// The drives could not take back what its last guest held, or there is no memory for another.
    Lost,
}

pub(super) struct Door<D> {
    pub(super) cpu: Cpu,
    listener: UnixListener,
    path: PathBuf,
    stop: UnixStream,
    pub(super) orders: Orders,
    pub(super) welcome: Welcome<D>,
    asks: Asks,
    slots: Arc<GuestSlots>,
    pub(super) taken: Vec<Taken>,
    /// The connections of guests, for the kernel to say which of thousands have something to be read.
    guests: OwnedFd,
    /// Room for what it says.
    heard: Vec<epoll::Event>,
    /// False if the drive has not taken the broker's key.
    is_open: bool,
}

impl Listener {
    /// Listens at `path`.
    ///
    /// # Errors
    /// If the system refuses, or somebody else listens there.
    pub(super) fn start<D: SharedDesign>(
        path: &Path,
        orders: Orders,
        welcome: Welcome<D>,
        slots: Arc<GuestSlots>,
    ) -> Result<Listener, (std::io::Error, Orders)> {
        let made = UnixStream::pair().and_then(|pair| {
            let guests = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            Ok((listen(path, welcome.socket_mode)?, pair, guests))
        });
        let (listener, (stop, stopped), guests) = match made {
            Ok(made) => made,
            Err(error) => return Err((error, orders)),
        };
        let (tell_ended, ended) = mpsc::channel();
        let mut machine = Machine::new(CostTable::free(), false);
        let cpu = machine.add_cpu("listener", Side::Host, 1.0);
        let path = path.to_path_buf();
        machine.spawn(cpu, "listener", move |cpu| async move {
            let mut door = Door {
                taken: (0..slots.count()).map(|_| Taken::Free).collect(),
                guests,
                heard: Vec::with_capacity(slots.count()),
                is_open: true,
                cpu: cpu.clone(),
                stop: stopped,
                listener,
                path,
                orders,
                welcome,
                asks: Asks::default(),
                slots,
            };
            door.give_key();
            while door.wait() {
                cpu.yield_now().await;
            }
            let _ = tell_ended.send(door.close());
        });
        Ok(Listener {
            background: Some(machine.run_in_background(vec![vec![cpu]], Idle::default())),
            stop: Some(stop),
            ended,
        })
    }

    /// Ends it; gives how many guests there still were.
    pub(super) fn end(mut self) -> usize {
        self.stop_it()
    }

    fn stop_it(&mut self) -> usize {
        drop(self.stop.take());
        let left = self.ended.recv().unwrap_or(0);
        if let Some(background) = self.background.take() {
            background.stop();
        }
        left
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.background.is_some() && !std::thread::panicking() {
            self.stop_it();
        }
    }
}

/// A listener at `path`, where a process that is gone may have left its socket.
fn listen(path: &Path, mode: u32) -> std::io::Result<UnixListener> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => match UnixStream::connect(path) {
            Err(refused) if refused.kind() == ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path)?;
                // Its guests may not have seen that it is gone, and use what they keep.
                let _ = poll(&mut [], Some(&LEFT_PAUSE));
                UnixListener::bind(path)?
            }
            _ => return Err(error),
        },
        other => other?,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl<D: SharedDesign> Door<D> {
    /// Waits for something to happen, and sees to it; false when it is to end.
    fn wait(&mut self) -> bool {
        let mut watched = vec![
            PollFd::new(&self.stop, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::new(&self.guests, PollFlags::IN),
        ];
        let asking = self.asks.streams();
        watched.extend(asking.map(|stream| PollFd::new(stream, PollFlags::IN)));
        let until = self.welcome.broker.is_some().then_some(&CLOCK_PERIOD);
        match poll(&mut watched, until) {
            Ok(0) => {
                let _ = self.orders.give(&self.cpu, Order::Clock);
                return true;
            }
            Ok(_) => {}
            Err(error) => return error == rustix::io::Errno::INTR,
        }
        let is_ready: Vec<bool> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
        if is_ready[0] {
            return false;
        }
        // First those who are here: one may have left for the one who comes.
        self.listen_to_guests();
        if is_ready[1] {
            self.accept();
        }
        for (stream, ask) in self.asks.take_ready() {
            self.listen_to_guests();
            self.answer(stream, &ask);
        }
        true
    }

    /// Lets some of those in who have connected, to hear what they want.
    fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_A_TIME {
            match self.listener.accept() {
                Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => self.asks.put(stream),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // There are no descriptors left, perhaps: who waits goes on waiting, and this thread does not spin.
                Err(_) => {
                    let _ = poll(&mut [], Some(&NO_ROOM_PAUSE));
                    return;
                }
            }
        }
    }

    /// Gives the drive the broker's key. Without it the broker could tell it nothing, and nobody gets in.
    fn give_key(&mut self) {
        if let Some(broker) = &self.welcome.broker {
            let given = self.orders.give(&self.cpu, Order::Key(broker.key()));
            self.is_open = given.is_ok();
        }
    }

    /// Has the drives hear guests that ask for it, and dismisses those that are gone.
    fn listen_to_guests(&mut self) {
        let mut heard = std::mem::take(&mut self.heard);
        let now = Timespec::default();
        if epoll::wait(&self.guests, spare_capacity(&mut heard), Some(&now)).is_ok() {
            for event in heard.drain(..) {
                self.listen_to({ event.data }.u64() as usize);
            }
        }
        self.heard = heard;
    }

    fn listen_to(&mut self, number: usize) {
        let Taken::By(stream, _) = &mut self.taken[number] else {
            return;
        };
        let mut bytes = [0; 64];
        match stream.read(&mut bytes) {
            Ok(0) => self.dismiss(number),
            Ok(_) => self.slots.hear(number),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.dismiss(number),
        }
    }

    /// Gives a guest a slot, or tells it that there is none.
    pub(super) fn admit(&mut self, stream: UnixStream, peer: Peer) {
        let free = self
            .taken
            .iter()
            .position(|taken| matches!(taken, Taken::Free));
        let free = free.filter(|_| self.is_open && self.may_have_one_more(&peer));
        let admitted = free.and_then(|number| Some((number, self.have_admitted(number)?)));
        let Some((number, memory)) = admitted else {
            let head = Head {
                outcome: NO_SLOT,
                ..self.welcome.head
            };
            // If it is gone already, nobody needs to know.
            let _ = handshake::send(&stream, &head, &[], &[], &[]);
            return;
        };
        self.welcome.design.admit(number as u32);
        let is_sent = self.send_welcome(&stream, &peer, number, memory).is_ok();
        let data = epoll::EventData::new_u64(number as u64);
        let is_heard = epoll::add(&self.guests, &stream, data, epoll::EventFlags::IN).is_ok();
        self.taken[number] = Taken::By(stream, peer);
        if !is_sent || !is_heard {
            self.dismiss(number);
        }
    }

    /// Whether another user's processes may have one more slot: one half of all is the most that each other user gets.
    fn may_have_one_more(&self, peer: &Peer) -> bool {
        if peer.owns_this() {
            return true;
        }
        let has = |taken: &&Taken| matches!(taken, Taken::By(_, other) if other.uid == peer.uid);
        self.taken.iter().filter(has).count() < self.taken.len().div_ceil(2)
    }

    fn send_welcome(
        &mut self,
        stream: &UnixStream,
        peer: &Peer,
        number: usize,
        memory: OwnedFd,
    ) -> io::Result<()> {
        let broker = self.welcome.broker.as_mut();
        let given = broker.map(|broker| broker.admit(number as u32, peer));
        let claims = given.transpose()?.as_ref().map(handshake::claims_bytes);
        let head = Head {
            guest: number as u32,
            has_claims: claims.is_some().into(),
            ..self.welcome.head
        };
        let mut descriptors = self.descriptors(number).map_err(io::Error::other)?;
        descriptors.push(memory);
        let descriptors: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
        let claims = claims.unwrap_or_default();
        handshake::send(stream, &head, &self.welcome.drives, &claims, &descriptors)
    }

    /// What a guest is handed of what all share, to write as far as it may.
    fn descriptors(&self, number: usize) -> Result<Vec<OwnedFd>, MemoryError> {
        let to =
            |(memory, writers): &(Arc<SharedMemory>, Writers)| match writers.have(number as u32) {
                true => memory.descriptor(),
                false => memory.descriptor_to_read(),
            };
        self.welcome.memories.iter().map(to).collect()
    }

    /// Has the drives admit a guest; gives the memory of its slot, if they do.
    fn have_admitted(&mut self, number: usize) -> Option<OwnedFd> {
        let memory = self.slots.renew(number).ok()?;
        if self.do_admit(number) {
            return Some(memory);
        }
        // It is renewed before anybody has it.
        let _ = self.slots.give_back(number);
        None
    }

    fn do_admit(&mut self, number: usize) -> bool {
        let index = self.welcome.own_clients + number as u32;
        let frames_max = self.welcome.design.frames_max(self.welcome.cores, index);
        frames_max.is_ok_and(|frames_max| {
            let number = number as u32;
            let order = Order::Admit(Guest { number, frames_max });
            self.orders.give(&self.cpu, order).is_ok()
        })
    }

    fn dismiss(&mut self, number: usize) {
        let guest = number as u32;
        if let Some(broker) = &mut self.welcome.broker {
            broker.forget(guest);
        }
        self.welcome.design.mend(Some(guest));
        let dismissed = self.orders.give(&self.cpu, Order::Dismiss(guest)).is_ok();
        if dismissed {
            self.welcome.design.forget(guest);
        }
        self.taken[number] = match dismissed && self.slots.give_back(number).is_ok() {
            true => Taken::Free,
            false => Taken::Lost,
        };
    }

    /// Sends everybody away; gives how many were still there.
    fn close(mut self) -> usize {
        let _ = std::fs::remove_file(&self.path);
        let mut left = 0;
        for number in 0..self.taken.len() {
            if let Taken::By(stream, _) = &self.taken[number] {
                left += usize::from(!has_hung_up(stream));
                self.dismiss(number);
            }
        }
        // What was written since by who had been dismissed before.
        self.welcome.design.mend(None);
        left
    }
}

/// True if the other process is gone, though what it sent before may not have been read yet.
pub(super) fn has_hung_up(stream: &UnixStream) -> bool {
    let mut watched = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec::default();
    poll(&mut watched, Some(&now)).is_ok() && !watched[0].revents().is_empty()
}
