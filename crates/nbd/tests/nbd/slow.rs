//! Requests that end late and in any order: an export whose outcomes a test decides.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use wharf_nbd::wait::Bell;
use wharf_nbd::{
    Answer, Can, Errno, Export, ExportInfo, Job, Limits, Outcome, Placement, Seat, Tag, Waiting,
};

use crate::client::*;

/// What the test and the seats share.
#[derive(Default)]
pub struct Control {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Jobs that wait, in the order in which they came.
    begun: VecDeque<(Arc<Ends>, Tag, Job)>,
    begun_all: usize,
}

/// Where the outcomes of one seat go.
struct Ends {
    bell: Bell,
    ended: Mutex<Vec<(Tag, Outcome)>>,
}

impl Control {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test has panicked with it")
    }

    /// Jobs that came so far.
    pub fn begun(&self) -> usize {
        self.state().begun_all
    }

    /// Waits until so many jobs have come.
    pub fn wait_for(&self, jobs: usize) {
        let mut naps = 0;
        while self.begun() < jobs {
            naps += 1;
            assert!(naps < 60_000, "{} of {jobs} jobs have come", self.begun());
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    }

    /// Ends the job at this place of those that wait.
    pub fn end(&self, place: usize, errno: Option<Errno>) {
        let (ends, tag, job) = self.state().begun.remove(place).expect("it has begun");
        let outcome = match (errno, job) {
            (Some(errno), _) => Err(errno),
            (None, Job::Read { offset, mut buffer }) => {
                buffer.fill((offset >> 9) as u8);
                Ok(Answer::Buffer(buffer))
            }
            (None, _) => Ok(Answer::Nothing),
        };
        ends.ended.lock().expect("no panic").push((tag, outcome));
        ends.bell.ring();
    }
}

pub struct SlowExport {
    info: ExportInfo,
    control: Arc<Control>,
    placement: Placement,
}

impl SlowExport {
    pub fn new(size_bytes: u64, block_bytes: u32, can: Can) -> (Arc<SlowExport>, Arc<Control>) {
        SlowExport::placed(size_bytes, block_bytes, can, Placement::ThreadPerConnection)
    }

    pub fn placed(
        size_bytes: u64,
        block_bytes: u32,
        can: Can,
        placement: Placement,
    ) -> (Arc<SlowExport>, Arc<Control>) {
        let control = Arc::new(Control::default());
        let export = SlowExport {
            info: ExportInfo {
                name: String::new(),
                description: "slow".into(),
                size_bytes,
                block_bytes_min: block_bytes,
                block_bytes_preferred: 4096,
                can,
            },
            control: control.clone(),
            placement,
        };
        (Arc::new(export), control)
    }
}

impl Export for SlowExport {
    fn info(&self) -> &ExportInfo {
        &self.info
    }

    fn placement(&self) -> Placement {
        self.placement
    }

    fn seat(&self) -> Result<Box<dyn Seat + '_>, String> {
        Ok(Box::new(SlowSeat {
            export: self,
            ends: Arc::new(Ends {
                bell: Bell::new().expect("a descriptor"),
                ended: Mutex::default(),
            }),
            under_way: 0,
        }))
    }
}

struct SlowSeat<'a> {
    export: &'a SlowExport,
    ends: Arc<Ends>,
    under_way: usize,
}

impl Seat for SlowSeat<'_> {
    fn begin(&mut self, tag: Tag, job: Job) -> Option<Outcome> {
        let mut state = self.export.control.state();
        state.begun.push_back((self.ends.clone(), tag, job));
        state.begun_all += 1;
        self.under_way += 1;
        None
    }

    fn poll(&mut self, done: &mut dyn FnMut(Tag, Outcome)) {
        self.ends.bell.silence();
        let ended = std::mem::take(&mut *self.ends.ended.lock().expect("no panic"));
        self.under_way -= ended.len();
        ended
            .into_iter()
            .for_each(|(tag, outcome)| done(tag, outcome));
    }

    fn waiting(&self) -> Waiting {
        match self.under_way {
            0 => Waiting::Nothing,
            _ => Waiting::For([Some(self.ends.bell.descriptor()), None], None),
        }
    }
}

pub const ALL: Can = Can {
    write: true,
    flush: true,
    trim: true,
    zero: true,
    fast_zero: false,
    cache: true,
    status: false,
    multi_conn: false,
};

#[test]
fn replies_come_in_the_order_in_which_jobs_end() {
    let (export, control) = SlowExport::new(1 << 20, 1, ALL);
    let place = Place::serving(export, Limits::default());
    let mut client = place.client(true, false);
    for cookie in 0..8 {
        client.request(READ, 0, cookie, cookie * 512, 512);
    }
    control.wait_for(8);
    for last in (0..8u64).rev() {
        control.end(last as usize, None);
        let reply = client.reply();
        assert_eq!(reply.cookie, last);
        assert_eq!(reply.bytes(last * 512, 512), vec![last as u8; 512]);
    }
}

#[test]
fn errors_of_the_storage_reach_the_client_by_their_numbers() {
    let (export, control) = SlowExport::new(1 << 20, 1, ALL);
    let place = Place::serving(export, Limits::default());
    for structured in [false, true] {
        let mut client = place.client(structured, false);
        for (errno, number) in [
            (Errno::Io, EIO),
            (Errno::NoSpace, ENOSPC),
            (Errno::Perm, EPERM),
            (Errno::NoMemory, 12),
        ] {
            for command in [READ, TRIM, FLUSH, ZEROES] {
                let before = control.begun();
                let len = if command == FLUSH { 0 } else { 512 };
                client.request(command, 0, 9, 0, len);
                control.wait_for(before + 1);
                control.end(0, Some(errno));
                assert_eq!(client.reply().error, number, "{command}");
            }
        }
    }
    assert_eq!(Errno::of_system(28), Errno::NoSpace);
    assert_eq!(
        Errno::of_system(122),
        Errno::NoSpace,
        "a quota is a full disk"
    );
    assert_eq!(
        Errno::of_system(27),
        Errno::NoSpace,
        "a file too large is a full disk"
    );
}

#[test]
fn a_disconnect_lets_what_is_under_way_end() {
    let (export, control) = SlowExport::new(1 << 20, 1, ALL);
    let place = Place::serving(export, Limits::default());
    let mut client = place.client(false, false);
    client.request(WRITE, 0, 1, 0, 4);
    client.send(b"data");
    client.request(FLUSH, 0, 2, 0, 0);
    client.request(DISC, 0, 3, 0, 0);
    control.wait_for(2);
    control.end(1, None);
    control.end(0, None);
    assert_eq!(client.reply().cookie, 2);
    assert_eq!(client.reply().cookie, 1);
    assert!(client.is_closed());
}

#[test]
fn what_is_under_way_for_a_client_that_is_gone_ends_and_harms_nobody() {
    for placement in [Placement::ThreadPerConnection, Placement::OneThread] {
        let (export, control) = SlowExport::placed(1 << 20, 1, ALL, placement);
        let place = Place::serving(export, Limits::default());
        let mut gone = place.client(true, false);
        let mut other = place.client(true, false);
        for cookie in 0..10 {
            gone.request(READ, 0, cookie, 0, 4096);
        }
        other.request(READ, 0, 77, 512, 512);
        control.wait_for(11);
        drop(gone);
        let mut third = place.client(true, false);
        third.request(READ, 0, 78, 1024, 512);
        control.wait_for(12);
        for _ in 0..12 {
            control.end(0, None);
        }
        assert_eq!(other.reply().cookie, 77);
        let reply = third.reply();
        assert_eq!(reply.cookie, 78);
        assert_eq!(reply.bytes(1024, 512), vec![2; 512]);
        drop((other, third));
        place.stop().expect("it ends");
    }
}

/// A client that sends and never reads had every request taken in.
#[test]
fn no_more_requests_are_taken_than_the_limits_say() {
    for (requests, bytes, taken) in [(4, 1 << 30, 4), (100, 8192, 2), (1, 1, 1)] {
        let (export, control) = SlowExport::new(1 << 20, 1, ALL);
        let limits = Limits {
            requests,
            bytes,
            ..Limits::default()
        };
        let place = Place::serving(export, limits);
        let mut client = place.client(true, false);
        for cookie in 0..20 {
            client.request(READ, 0, cookie, 0, 4096);
        }
        control.wait_for(taken);
        // Time for more to come, if they would.
        std::thread::park_timeout(std::time::Duration::from_millis(50));
        assert_eq!(control.begun(), taken, "{requests} {bytes}");
        for cookie in 0..20 {
            control.wait_for(cookie + 1);
            control.end(0, None);
            assert_eq!(client.reply().cookie, cookie as u64);
        }
        // Also for payloads, of which one alone may be more than the limit; all of them fit into the socket.
        for cookie in 0..3 {
            client.request(WRITE, 0, cookie, 0, 30_000);
            client.send(&[1; 30_000]);
        }
        for cookie in 0..3 {
            control.wait_for(20 + cookie + 1);
            control.end(0, None);
            assert_eq!(client.reply().cookie, cookie as u64);
        }
    }
}
