//! An emulated drive behind the cache of a design.
//!
//! One thread has the client of the store and the drive with it, and serves all connections: a hit is a
//! function call, a miss is a task, and no request is handed to another thread, whose wake-up would
//! cost more than the drive does. Tasks of all connections run side by side while any is under way.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Mutex;

use wharf_host::design::{Client as _, Design};
use wharf_host::span::Extent;
use wharf_nbd::{
    Answer, Can, Data, Errno, Export, ExportInfo, Job, Outcome, Placement, Seat, Tag, Waiting,
};

use super::requests::{outcome, read, settle, write, zero};
use super::target::Serving;
use crate::store::{Client, StoreOptions};

/// How often tasks run before the sockets are looked at again.
const PASSES: u32 = 64;

/// See the module.
pub struct StoreExport<D: Design> {
    info: ExportInfo,
    options: StoreOptions,
    /// Whether the thread that serves has it.
    taken: Mutex<bool>,
    _design: PhantomData<fn() -> D>,
}

impl<D: Design> StoreExport<D> {
    /// Serves a store. It is opened once to see that it can be, and again by the thread that serves.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn new(options: StoreOptions, how: &Serving) -> Result<StoreExport<D>, String> {
        let client = Client::<D>::open_local(&options).map_err(|error| error.to_string())?;
        let size_bytes = client.bytes();
        client.close().map_err(|error| error.to_string())?;
        Ok(StoreExport {
            info: ExportInfo {
                name: how.name.clone(),
                description: format!("an emulated drive behind '{}'", D::NAME),
                size_bytes,
                block_bytes_min: 1,
                block_bytes_preferred: 4096,
                can: Can {
                    write: !how.read_only,
                    flush: true,
                    trim: true,
                    zero: true,
                    fast_zero: true,
                    cache: false,
                    status: false,
                    multi_conn: true,
                },
            },
            options,
            taken: Mutex::new(false),
            _design: PhantomData,
        })
    }
}

impl<D: Design> Export for StoreExport<D> {
    fn info(&self) -> &ExportInfo {
        &self.info
    }

    fn placement(&self) -> Placement {
        Placement::OneThread
    }

    fn seat(&self) -> Result<Box<dyn Seat + '_>, String> {
        let mut taken = self.taken.lock().unwrap_or_else(|p| p.into_inner());
        if std::mem::replace(&mut *taken, true) {
            return Err("the store has one seat".into());
        }
        let client = Client::<D>::open_local(&self.options).map_err(|error| error.to_string())?;
        Ok(Box::new(StoreSeat {
            client: Some(Rc::new(client)),
            state: Rc::default(),
        }))
    }
}

/// What tasks have ended with.
#[derive(Default)]
struct State {
    ended: RefCell<VecDeque<(Tag, Outcome)>>,
    under_way: Cell<usize>,
}

struct StoreSeat<D: Design> {
    client: Option<Rc<Client<D>>>,
    state: Rc<State>,
}

impl<D: Design> StoreSeat<D> {
    fn client(&self) -> &Rc<Client<D>> {
        self.client.as_ref().expect("it is there until the end")
    }

    /// Starts a task, whose outcome `poll` reports.
    fn spawn<F>(&self, tag: Tag, make: impl FnOnce(Rc<Client<D>>) -> F)
    where
        F: Future<Output = Outcome> + 'static,
    {
        let (state, future) = (self.state.clone(), make(self.client().clone()));
        state.under_way.set(state.under_way.get() + 1);
        self.client().spawn("nbd request", async move {
            let outcome = future.await;
            state.ended.borrow_mut().push_back((tag, outcome));
        });
    }
}

impl<D: Design> Seat for StoreSeat<D> {
    fn begin(&mut self, tag: Tag, job: Job) -> Option<Outcome> {
        let client = self.client().clone();
        match job {
            Job::Read { offset, mut buffer } => {
                let extent = Extent::new(offset, buffer.len() as u64);
                if buffer.is_empty() || client.client().read_now(extent, &mut buffer) {
                    return Some(Ok(Answer::Buffer(buffer)));
                }
                self.spawn(tag, |client| async move {
                    read(client.client(), offset, buffer).await
                });
            }
            Job::Write {
                offset,
                data: Data::Buffer(buffer),
                fua,
            } if !buffer.is_empty() => {
                let extent = Extent::new(offset, buffer.len() as u64);
                if !fua && client.client().write_now(extent, &buffer) {
                    return Some(Ok(Answer::Nothing));
                }
                self.spawn(tag, |client| async move {
                    let changed = write(client.client(), offset, &buffer).await;
                    settle(client.client(), changed, fua).await
                });
            }
            Job::Write { .. } | Job::Cache { .. } => return Some(Ok(Answer::Nothing)),
            Job::Flush => self.spawn(tag, |client| async move {
                outcome(client.client().flush().await)
            }),
            Job::Trim { len: 0, .. } | Job::Zero { len: 0, .. } => {
                return Some(Ok(Answer::Nothing));
            }
            Job::Trim { offset, len, fua } => self.spawn(tag, move |client| async move {
                let changed = client.client().discard(Extent::new(offset, len)).await;
                settle(client.client(), changed, fua).await
            }),
            Job::Zero { fast: true, .. } => return Some(Err(Errno::NotSupported)),
            Job::Zero {
                offset, len, fua, ..
            } => self.spawn(tag, move |client| async move {
                let changed = zero(client.client(), offset, len).await;
                settle(client.client(), changed, fua).await
            }),
            Job::Status { .. } => return Some(Err(Errno::NotSupported)),
        }
        None
    }

    fn poll(&mut self, done: &mut dyn FnMut(Tag, Outcome)) {
        if self.state.under_way.get() == 0 {
            return;
        }
        for _ in 0..PASSES {
            self.client().pass();
            if !self.state.ended.borrow().is_empty() {
                break;
            }
        }
        for (tag, outcome) in self.state.ended.take() {
            self.state.under_way.set(self.state.under_way.get() - 1);
            done(tag, outcome);
        }
    }

    fn waiting(&self) -> Waiting {
        match self.state.under_way.get() {
            0 => Waiting::Nothing,
            _ => Waiting::Busy,
        }
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(client) = self.client.take() else {
            return Ok(());
        };
        // Tasks that have ended are dropped by the next pass.
        client.pass();
        match Rc::try_unwrap(client) {
            Ok(client) => client.close().map_err(|error| error.to_string()),
            Err(_) => Err("requests of the store are still under way".into()),
        }
    }
}
