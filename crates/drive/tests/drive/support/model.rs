//! What each page may hold: slow, and obvious from the command set's section 9.
//!
//! A page is a list of *versions*, one for each command that ever changed it. A version has begun
//! (its command was sent), may have ended (its completion was seen), and may be durable. Then:
//!
//! * **Powered**, a read may return any version that was not overtaken before the read began. A
//!   version is overtaken when a later one is known to be in place: one that began after this one
//!   had ended, and that was acknowledged or returned by a read.
//! * **After a power cut**, a page may hold any version except those that a durable one began
//!   after the end of.
//!
//! Time here is a counter of events. Value 0 is zeros: never written, or deallocated. [`HELD_ZEROS`] is zeros of a
//! page that is allocated: they read alike, and are told apart by what is allocated.

/// The value of a page that was set to zeros and stays allocated.
pub const HELD_ZEROS: u64 = u64::MAX - 1;

/// What a page with this value reads as.
fn read_as(value: u64) -> u64 {
    match value {
        HELD_ZEROS => 0,
        value => value,
    }
}

/// A moment: the number of an event.
pub type Moment = u64;

#[derive(Debug, Clone)]
struct Version {
    value: u64,
    begun: Moment,
    ended: Option<Moment>,
    acknowledged: bool,
    durable: bool,
    overtaken: Option<Moment>,
}

fn list(versions: &[Version]) -> String {
    let line = |version: &Version| format!("\n  {version:?}");
    versions.iter().map(line).collect()
}

/// One version, named.
#[derive(Debug, Clone, Copy)]
pub struct Handle {
    page: usize,
    index: usize,
}

/// All pages of a namespace.
#[derive(Debug)]
pub struct Model {
    pages: Vec<Vec<Version>>,
    now: Moment,
    /// Since when every acknowledged change is durable: the volatile write cache is off.
    write_through_since: Option<Moment>,
}

impl Model {
    /// `pages` pages of zeros.
    pub fn new(pages: u64, volatile_write_cache: bool) -> Model {
        let mut model = Model {
            pages: vec![Vec::new(); pages as usize],
            now: 0,
            write_through_since: None,
        };
        (0..pages).for_each(|page| model.set_known(page, 0));
        model.powered_on(volatile_write_cache);
        model
    }

    /// Number of pages.
    pub fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// The drive comes on with its cache as configured.
    pub fn powered_on(&mut self, volatile_write_cache: bool) {
        let now = self.tick();
        self.write_through_since = (!volatile_write_cache).then_some(now);
    }

    /// Another event.
    pub fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// A command that changes a page to `value` is sent.
    pub fn begin(&mut self, page: u64, value: u64) -> Handle {
        let begun = self.tick();
        let versions = &mut self.pages[page as usize];
        versions.push(Version {
            value,
            begun,
            ended: None,
            acknowledged: false,
            durable: false,
            overtaken: None,
        });
        Handle {
            page: page as usize,
            index: versions.len() - 1,
        }
    }

    /// The command's completion was seen.
    pub fn end(&mut self, handle: Handle, acknowledged: bool, forced: bool) {
        let now = self.tick();
        let version = &mut self.pages[handle.page][handle.index];
        let through = self
            .write_through_since
            .is_some_and(|since| since < version.begun);
        version.ended = Some(now);
        version.acknowledged = acknowledged;
        version.durable = acknowledged && (forced || through);
        if acknowledged {
            self.in_place(handle, now);
        }
    }

    /// A page was written in place: only a flush makes that durable.
    pub fn end_in_place(&mut self, handle: Handle) {
        let through = self.write_through_since.take();
        self.end(handle, true, false);
        self.write_through_since = through;
    }

    /// `handle`'s version, or a newer one, is what reads return from now on.
    fn in_place(&mut self, handle: Handle, now: Moment) {
        let begun = self.pages[handle.page][handle.index].begun;
        for version in &mut self.pages[handle.page] {
            if version.ended.is_some_and(|ended| ended < begun) && version.overtaken.is_none() {
                version.overtaken = Some(now);
            }
        }
    }

    /// A read that began at `begun` returned `value`.
    pub fn check_read(&mut self, page: u64, begun: Moment, value: u64) -> Result<(), String> {
        let now = self.tick();
        let versions = &self.pages[page as usize];
        let fits =
            |v: &Version| read_as(v.value) == value && v.overtaken.is_none_or(|at| at > begun);
        let mut found = versions.iter().enumerate().filter(|(_, v)| fits(v));
        match (found.next(), found.next()) {
            (None, _) => Err(format!(
                "page {page} reads {value:#x}, not one of {}",
                list(versions)
            )),
            (Some((index, _)), None) => {
                let handle = Handle {
                    page: page as usize,
                    index,
                };
                self.in_place(handle, now);
                Ok(())
            }
            // Zeros of several commands: no telling whose they are.
            (Some(_), Some(_)) => Ok(()),
        }
    }

    /// A command that was sent at `begun` has told whether a page is allocated.
    pub fn check_allocated(&mut self, page: u64, begun: Moment, told: bool) -> Result<(), String> {
        self.tick();
        let versions = &self.pages[page as usize];
        let fits = |v: &Version| (v.value != 0) == told && v.overtaken.is_none_or(|at| at > begun);
        match versions.iter().any(fits) {
            true => Ok(()),
            false => Err(format!(
                "page {page} is told to be allocated: {told}; {}",
                list(versions)
            )),
        }
    }

    /// A flush that was sent at `begun` was acknowledged.
    pub fn flushed(&mut self, begun: Moment) {
        (0..self.pages()).for_each(|page| self.made_durable(page, begun));
    }

    /// What was acknowledged of a page before `begun` is durable.
    pub fn made_durable(&mut self, page: u64, begun: Moment) {
        for version in &mut self.pages[page as usize] {
            version.durable |= version.acknowledged && version.ended.is_some_and(|at| at < begun);
        }
    }

    /// A set of the write cache was sent: from now on nothing is known of it.
    pub fn begin_set_write_cache(&mut self) -> Moment {
        self.write_through_since = None;
        self.tick()
    }

    /// It was acknowledged.
    pub fn end_set_write_cache(&mut self, begun: Moment, on: bool) {
        if !on {
            self.flushed(begun);
            self.write_through_since = Some(self.tick());
        }
    }

    /// True if the page may hold `value` after a power cut now.
    pub fn may_survive(&self, page: u64, value: u64) -> Result<(), String> {
        let versions = &self.pages[page as usize];
        let floor = versions
            .iter()
            .filter(|v| v.durable)
            .map(|v| v.begun)
            .max()
            .unwrap_or(0);
        let lost = |v: &Version| v.ended.is_some_and(|ended| ended < floor);
        if versions.iter().any(|v| v.value == value && !lost(v)) {
            return Ok(());
        }
        Err(format!(
            "page {page} holds {value:#x} after a power cut, not one of {}",
            list(versions)
        ))
    }

    /// The page was found to hold `value` after a power cut: that is durable.
    pub fn set_known(&mut self, page: u64, value: u64) {
        let now = self.tick();
        self.pages[page as usize] = vec![Version {
            value,
            begun: now,
            ended: Some(now),
            acknowledged: true,
            durable: true,
            overtaken: None,
        }];
    }
}
