//! The server: lets clients in, gives each its thread, and ends all of them.
//!
//! 1. A thread accepts. Each connection gets a thread of its own, on which hands are shaken.
//! 2. Where each connection has a seat, that thread serves it. Where one thread serves all, the connection is
//!    sent there, and its own thread ends.
//! 3. [`Server::stop`] lets nobody in any more and closes the receiving side of every connection: what
//!    has come is done and answered, then each ends. Who does not take its replies is cut off.
//! 4. In the end the export makes everything durable.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::Shutdown;
use wharf_runtime::clock::Clock;
use wharf_runtime::sync::{AtomicBool, Ordering};
use wharf_runtime::worker::Worker;

use crate::buffer::BufferPool;
use crate::connection::{Connection, Turn};
use crate::export::{Export, Placement};
use crate::handshake::{Encryption, shake_hands};
use crate::limits::Limits;
use crate::listen::Listener;
use crate::metrics::{Meter, Metrics};
use crate::serve::{Mailbox, serve};
use crate::session::Session;
use crate::wait::{Bell, Interest, wait};

/// How long the server waits before it accepts again, when the system has no descriptors left.
const PAUSE_NS: u64 = 50_000_000;

/// What is served to whom.
pub struct ServerOptions {
    /// Where clients come in.
    pub listeners: Vec<Listener>,
    /// What they get.
    pub export: Arc<dyn Export>,
    /// What they may cost.
    pub limits: Limits,
    /// Certificates, and whether clients must use them.
    #[cfg(feature = "tls")]
    pub tls: Option<(crate::tls::TlsConfig, bool)>,
    /// Says on standard error why clients were sent away.
    pub verbose: bool,
}

impl ServerOptions {
    /// An export behind listeners, without encryption, with the limits that are the default.
    pub fn new(listeners: Vec<Listener>, export: Arc<dyn Export>) -> ServerOptions {
        ServerOptions {
            listeners,
            export,
            limits: Limits::default(),
            #[cfg(feature = "tls")]
            tls: None,
            verbose: false,
        }
    }
}

/// What its threads share.
struct Shared {
    export: Arc<dyn Export>,
    limits: Limits,
    encryption: Encryption,
    verbose: bool,
    metrics: Arc<Metrics>,
    /// Nobody is let in any more.
    stopping: AtomicBool,
    bell: Bell,
    mailbox: Option<Mailbox>,
    connections: Mutex<Connections>,
}

/// Connections by number: their sockets while they live.
#[derive(Default)]
struct Connections {
    sockets: BTreeMap<u64, Arc<OwnedFd>>,
    threads: BTreeMap<u64, Worker>,
    /// Threads that have ended, or are about to.
    ended: Vec<u64>,
    next: u64,
}

/// How the thread that serves all began and ended.
type Told = mpsc::Receiver<Result<(), String>>;

/// A server that runs.
pub struct Server {
    shared: Arc<Shared>,
    acceptor: Option<Worker>,
    /// The thread that serves all, where there is one, and how it ended.
    one: Option<(Worker, Mutex<Told>)>,
}

impl Server {
    /// Starts serving.
    ///
    /// # Errors
    /// If the export gives no seat, or the system no thread.
    pub fn start(options: ServerOptions) -> Result<Server, String> {
        let failed = |error: io::Error| format!("cannot start to serve: {error}");
        let mailbox = match options.export.placement() {
            Placement::ThreadPerConnection => None,
            Placement::OneThread => Some(Mailbox::new().map_err(failed)?),
        };
        let encryption = Encryption {
            #[cfg(feature = "tls")]
            rule: match &options.tls {
                None => crate::negotiate::Tls::Off,
                Some((_, false)) => crate::negotiate::Tls::Offered,
                Some((_, true)) => crate::negotiate::Tls::Required,
            },
            #[cfg(feature = "tls")]
            config: options.tls.map(|(config, _)| config),
            #[cfg(not(feature = "tls"))]
            rule: crate::negotiate::Tls::Off,
        };
        let shared = Arc::new(Shared {
            export: options.export,
            limits: options.limits,
            encryption,
            verbose: options.verbose,
            metrics: Arc::default(),
            stopping: AtomicBool::new(false),
            bell: Bell::new().map_err(failed)?,
            mailbox,
            connections: Mutex::default(),
        });
        shared.metrics.tell_of(shared.export.clone());
        let mut server = Server {
            shared: shared.clone(),
            acceptor: None,
            one: None,
        };
        if shared.mailbox.is_some() {
            let (tell, told) = mpsc::channel();
            let of_one = shared.clone();
            let body = move || serve_all(&of_one, &tell);
            let worker = Worker::spawn("nbd", body).map_err(failed)?;
            // The first word is whether there is a seat.
            told.recv()
                .map_err(|_| "the thread that serves has ended".to_string())??;
            server.one = Some((worker, Mutex::new(told)));
        }
        let listeners = options.listeners;
        for listener in &listeners {
            listener.set_nonblocking().map_err(failed)?;
        }
        let body = move || accept_all(&shared, &listeners);
        server.acceptor = Some(Worker::spawn("nbd accept", body).map_err(failed)?);
        Ok(server)
    }

    /// What it did so far.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.shared.metrics.clone()
    }

    /// Ends all connections, and makes what they wrote durable.
    ///
    /// # Errors
    /// If it is not durable.
    pub fn stop(mut self) -> Result<(), String> {
        self.end()
    }

    fn end(&mut self) -> Result<(), String> {
        // Release, with the Acquire of those who look.
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.bell.ring();
        let Some(acceptor) = self.acceptor.take() else {
            return Ok(());
        };
        // It has closed the listeners and told every connection when it ends.
        drop(acceptor);
        let mut result = Ok(());
        if let Some((worker, told)) = self.one.take() {
            if let Some(mailbox) = &self.shared.mailbox {
                mailbox.close();
            }
            drop(worker);
            let told = told.into_inner().unwrap_or_else(PoisonError::into_inner);
            // A thread that has panicked is joined above, and its panic goes on here.
            result = told.recv().unwrap_or(Ok(()));
        }
        result.and(self.shared.export.close())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Who wants to know of errors calls `stop`.
        let _ = self.end();
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn tell(&self, text: &str) {
        if self.verbose {
            eprintln!("wharf: nbd: {text}");
        }
    }

    fn turn<'a>(&'a self, meter: &'a Meter) -> Result<Turn<'a>, String> {
        Ok(Turn {
            seat: self.export.seat()?,
            pool: BufferPool::default(),
            meter,
            clock: Clock::start(),
            limits: self.limits,
            runs: Vec::new(),
        })
    }

    /// A connection is gone.
    fn forget(&self, number: u64) {
        self.connections().sockets.remove(&number);
        self.metrics.connection_ends();
        self.bell.ring();
    }
}

/// Lets clients in until the server stops, then waits for all of them to end.
fn accept_all(shared: &Arc<Shared>, listeners: &[Listener]) {
    let mut pause = None;
    while !shared.is_stopping() {
        let mut set: Vec<_> = match pause {
            None => listeners
                .iter()
                .map(|l| Interest::Read.on(l.descriptor()))
                .collect(),
            Some(_) => Vec::new(),
        };
        set.push(Interest::Read.on(shared.bell.descriptor()));
        wait(&mut set, pause.take()).expect("listeners can be waited for");
        shared.bell.silence();
        reap(shared);
        for listener in listeners {
            match listener.accept() {
                Ok(_) if shared.is_stopping() => {}
                Ok(socket) => let_in(shared, socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Clients that went while they waited, or no descriptors left: others come later.
                Err(_) => pause = Some(PAUSE_NS),
            }
        }
    }
    end_all(shared);
}

/// Joins threads that have ended.
fn reap(shared: &Shared) {
    let mut connections = shared.connections();
    let ended = std::mem::take(&mut connections.ended);
    let threads: Vec<_> = ended
        .into_iter()
        .filter_map(|number| connections.threads.remove(&number))
        .collect();
    drop(connections);
    drop(threads);
}

fn let_in(shared: &Arc<Shared>, socket: OwnedFd) {
    let socket = Arc::new(socket);
    let mut connections = shared.connections();
    if connections.sockets.len() >= shared.limits.connections as usize {
        shared.metrics.connection_refused();
        shared.tell("a client was sent away: there are as many connections as may be");
        return;
    }
    let number = connections.next;
    connections.next += 1;
    shared.metrics.connection_begins();
    let of_thread = (shared.clone(), socket.clone());
    let body = move || {
        let (shared, socket) = of_thread;
        welcome(&shared, number, socket);
        shared.connections().ended.push(number);
        shared.bell.ring();
    };
    match Worker::spawn("nbd client", body) {
        Ok(thread) => {
            connections.sockets.insert(number, socket);
            connections.threads.insert(number, thread);
        }
        Err(error) => {
            shared.metrics.connection_ends();
            shared.tell(&format!(
                "a client was sent away: no thread for it: {error}"
            ));
        }
    }
}

/// The life of a connection on its own thread.
fn welcome(shared: &Arc<Shared>, number: u64, socket: Arc<OwnedFd>) {
    let info = shared.export.info();
    let limit_ms = shared.limits.handshake_ms;
    let shaken = match shake_hands(socket, info, &shared.encryption, limit_ms) {
        Ok(Some(shaken)) => shaken,
        Ok(None) => return shared.forget(number),
        Err(error) => {
            shared.tell(&format!("a client was sent away in its handshake: {error}"));
            return shared.forget(number);
        }
    };
    let session = Session::new(info, shaken.agreed);
    let make = move || Connection::new(shaken.transport, session, &shaken.input);
    if let Some(mailbox) = &shared.mailbox {
        let of_connection = shared.clone();
        return mailbox.send(Box::new(move || {
            let mut connection = make();
            connection.on_end(move || of_connection.forget(number));
            connection
        }));
    }
    let meter = shared.metrics.meter();
    match shared.turn(&meter) {
        Ok(mut turn) => {
            serve(&mut turn, Some(make()), None, &mut |ended| {
                note_end(shared, ended)
            });
            if let Err(why) = turn.seat.close() {
                eprintln!("wharf: nbd: {why}");
            }
        }
        Err(why) => eprintln!("wharf: nbd: a client was sent away: {why}"),
    }
    shared.forget(number);
}

fn note_end(shared: &Shared, connection: &Connection) {
    if let Some(why) = connection.why() {
        shared.tell(&format!("a client was sent away: {why}"));
    }
}

/// The life of the thread that serves all connections.
fn serve_all(shared: &Shared, tell: &mpsc::Sender<Result<(), String>>) {
    let meter = shared.metrics.meter();
    let mut turn = match shared.turn(&meter) {
        Ok(turn) => turn,
        Err(why) => {
            // Whoever starts the server waits for this word.
            let _ = tell.send(Err(why));
            return;
        }
    };
    let _ = tell.send(Ok(()));
    let mailbox = shared.mailbox.as_ref();
    serve(&mut turn, None, mailbox, &mut |ended| {
        note_end(shared, ended)
    });
    let _ = tell.send(turn.seat.close());
}

/// Has all connections end: gently, and by force when their time is over.
fn end_all(shared: &Shared) {
    let clock = Clock::start();
    let limit_ns = u64::from(shared.limits.stop_ms) * 1_000_000;
    let mut how = Shutdown::Read;
    loop {
        let sockets: Vec<_> = shared.connections().sockets.values().cloned().collect();
        if sockets.is_empty() {
            break;
        }
        for socket in &sockets {
            // One that the client has closed is on its way out.
            let _ = rustix::net::shutdown(&**socket, how);
        }
        let left_ns = limit_ns.saturating_sub(clock.now_ns());
        if left_ns == 0 {
            how = Shutdown::Both;
        }
        let mut set = [Interest::Read.on(shared.bell.descriptor())];
        // Those that were told may have looked just before: told again.
        let nap_ns = left_ns.clamp(1_000_000, 100_000_000);
        wait(&mut set, Some(nap_ns)).expect("a bell can be waited for");
        shared.bell.silence();
    }
    let threads = std::mem::take(&mut shared.connections().threads);
    drop(threads);
}
