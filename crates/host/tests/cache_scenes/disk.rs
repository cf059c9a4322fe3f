//! A disk that checks how it is used.

use super::*;

/// A page of the disk, and who uses it: so many readers, or a writer.
#[derive(Default)]
pub struct Place {
    pub stamp: AtomicU64,
    pub readers: AtomicU64,
    pub writers: AtomicU64,
}

pub struct Disk {
    pub places: Vec<Place>,
    /// Of each file: held by who cuts it, and by who brings pages in for others.
    pub gates: Vec<RwLock<()>>,
}

impl Disk {
    pub fn new() -> Disk {
        Disk {
            places: (0..FILES * PAGES).map(|_| Place::default()).collect(),
            gates: (0..FILES).map(|_| RwLock::new(())).collect(),
        }
    }

    pub fn place(&self, file: u32, page: u64) -> &Place {
        &self.places[(u64::from(file) * PAGES + page) as usize]
    }

    pub fn stamp(&self, file: u64, page: u64) -> u64 {
        self.place(file as u32, page).stamp.load(SeqCst)
    }
}

/// A thread's way to the disk.
pub struct Channel(pub Arc<Disk>);

/// A transfer that takes a while.
pub struct Moving {
    disk: Arc<Disk>,
    kind: Transfer,
    file: u32,
    pages: Vec<(u64, *mut u64)>,
    is_done: Cell<bool>,
}

impl Backing for Channel {
    type Sent = Moving;

    fn pages(&self, _: u32) -> u64 {
        PAGES
    }

    fn while_open(&self, file: u32, f: impl FnOnce()) {
        if let Ok(_gate) = self.0.gates[file as usize].try_read() {
            f();
        }
    }

    async fn begin(
        &self,
        _: &Cpu,
        kind: Transfer,
        file: u32,
        run: &Run,
        memory: &DmaRegion,
    ) -> Moving {
        let page = |(page, frame): (u64, &u32)| (page, memory.page_pointer(*frame as usize).cast());
        Moving {
            disk: self.0.clone(),
            kind,
            file,
            pages: (run.first..).zip(&run.frames).map(page).collect(),
            is_done: Cell::new(false),
        }
    }

    async fn flush(&self, _: &Cpu, _: u32) -> Result<(), IoError> {
        Ok(())
    }
}

impl Sent for Moving {
    async fn wait(&self, cpu: &Cpu) -> Result<(), IoError> {
        for &(page, bytes) in &self.pages {
            let place = self.disk.place(self.file, page);
            if matches!(self.kind, Transfer::Read) {
                place.readers.fetch_add(1, SeqCst);
                assert_eq!(
                    place.writers.load(SeqCst),
                    0,
                    "page {page} is read while it is written"
                );
                let stamp = place.stamp.load(SeqCst);
                cpu.yield_now().await;
                // SAFETY: the frame's own 8 bytes, which are the transfer's.
                unsafe { bytes.write(stamp) };
                place.readers.fetch_sub(1, SeqCst);
            } else {
                assert_eq!(
                    place.writers.fetch_add(1, SeqCst),
                    0,
                    "page {page} is written twice at a time"
                );
                // SAFETY: as above.
                let stamp = unsafe { bytes.read() };
                cpu.yield_now().await;
                // SAFETY: as above.
                assert_eq!(
                    stamp,
                    unsafe { bytes.read() },
                    "page {page} changes while it is written"
                );
                place.stamp.store(stamp, SeqCst);
                place.writers.fetch_sub(1, SeqCst);
            }
        }
        self.is_done.set(true);
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.is_done.get()
    }

    fn watch(&self, _: &Cpu) {}
}
