//! What is written down of members: before what, and over what they were.

use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use wharf_storage::array::{Array, ArrayError, Level, MemberState, superblock_of};
use wharf_storage::faulty::Loss;
use wharf_storage::{Channel, Completion, Full, Io, Op, StorageError, Target, TargetInfo};

use crate::model::contents;
use crate::support::{Bench, CHUNK_BYTES, flush, write};

const STRIPES: u64 = 12;
/// Superblocks lie below this.
const SUPERBLOCKS_END: u64 = 8192;

/// Holds writes of superblocks back while it is closed.
#[derive(Default)]
struct Gate {
    /// Whether it is closed, and whether somebody waits.
    state: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, closed: bool) {
        self.state.lock().expect("no panic").0 = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().expect("no panic");
        while state.0 {
            state.1 = true;
            self.changed.notify_all();
            state = self.changed.wait(state).expect("no panic");
        }
    }

    fn wait_for_somebody(&self) {
        let state = self.state.lock().expect("no panic");
        let waited = self.changed.wait_while(state, |state| !state.1);
        drop(waited.expect("no panic"));
    }
}

struct Gated {
    inner: Arc<dyn Target>,
    gate: Arc<Gate>,
}

impl Target for Gated {
    fn info(&self) -> &TargetInfo {
        self.inner.info()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        Ok(Box::new(GatedChannel {
            inner: self.inner.channel(depth)?,
            gate: self.gate.clone(),
        }))
    }
}

struct GatedChannel {
    inner: Box<dyn Channel>,
    gate: Arc<Gate>,
}

impl Channel for GatedChannel {
    fn depth(&self) -> usize {
        self.inner.depth()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    unsafe fn submit(&mut self, io: Io<'_>) -> Result<(), Full> {
        if io.op == Op::Write && io.offset < SUPERBLOCKS_END {
            self.gate.pass();
        }
        // SAFETY: the caller's promise.
        unsafe { self.inner.submit(io) }
    }

    fn poll(&mut self, done: &mut dyn FnMut(Completion)) -> usize {
        self.inner.poll(done)
    }

    fn wait(&mut self, min: usize, done: &mut dyn FnMut(Completion)) -> usize {
        self.inner.wait(min, done)
    }
}

/// A thread found a member failed that another was still writing down as failed, and acknowledged without it: a power cut
/// before the superblocks were durable would have brought the member back with old data.
#[test]
fn nothing_is_acknowledged_without_a_member_before_the_others_say_that_it_failed() {
    for (level, members) in [(Level::Raid5, 3), (Level::Raid10, 2), (Level::Raid10, 4)] {
        let bench = Bench::new(level, members, STRIPES, 5, 1);
        let gate = Arc::new(Gate::default());
        let mut targets = bench.targets();
        targets[1] = Arc::new(Gated {
            inner: targets[1].clone(),
            gate: gate.clone(),
        });
        let array = Array::open(&targets, false).expect("it opens");
        // Rows, so that every member has a part; marked as written, so that only superblocks come to the gate.
        let row = array.size_bytes() / STRIPES;
        let write_row = |number| write(&array, number * row, &vec![1; row as usize]);
        assert!(write_row(0) && write_row(1));
        bench.members[0].die();
        gate.set(true);
        let (ended, ends) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(write_row(0), "it goes on without"));
            gate.wait_for_somebody();
            scope.spawn(|| {
                assert!(write_row(1), "it goes on without");
                assert!(flush(&array), "it goes on without");
                ended.send(()).expect("it is heard");
            });
            let early = ends.recv_timeout(Duration::from_millis(50)).is_ok();
            let state = array.states()[0];
            gate.set(false);
            assert!(!early, "{level:?} of {members}");
            assert_eq!(state, MemberState::Active, "{level:?} of {members}");
        });
        assert_eq!(array.states()[0], MemberState::Failed);
        let told = superblock_of(&*bench.targets()[1]).expect("a member");
        assert_eq!(told.states[0], MemberState::Failed);
    }
}

/// Where the superblocks cannot be written either, members stand as before, and nothing more is acknowledged: a flush
/// counted as done after the first I/O had failed.
#[test]
fn a_failure_that_cannot_be_written_down_stops_the_array() {
    for (level, members) in [(Level::Raid5, 3), (Level::Raid10, 2), (Level::Raid10, 4)] {
        let bench = Bench::new(level, members, STRIPES, 5, 2);
        let array = bench.open();
        let data = vec![1; (array.size_bytes() / STRIPES) as usize];
        assert!(write(&array, 0, &data));
        bench.members[0].die();
        bench.members[1].die();
        assert!(!write(&array, 0, &data), "{level:?} of {members}");
        bench.members[0].live();
        bench.members[1].live();
        assert!(array.states().iter().all(|s| *s == MemberState::Active));
        assert!(!write(&array, 0, &data), "{level:?} of {members}");
        assert!(
            level == Level::Raid5 || !flush(&array),
            "what is lost is not known"
        );
        assert!(array.close().is_err(), "it is not clean");
        let array = bench.open();
        assert!(
            write(&array, 0, &data) && flush(&array),
            "opened anew it is good"
        );
    }
}

/// Records of the journal from before a member failed were replayed on it when the same target had come back and been
/// rebuilt.
#[test]
fn a_member_that_comes_back_forgets_its_journal() {
    let bench = Bench::new(Level::Raid5, 3, 3, 60, 3);
    let array = bench.open();
    let mut data = vec![1; array.size_bytes() as usize];
    assert!(write(&array, 0, &data));
    bench.members[1].die();
    data.fill(2);
    assert!(write(&array, 0, &data));
    bench.members[1].live();
    array
        .replace(1, bench.targets()[1].clone())
        .expect("it fits");
    let rebuild = array.rebuild().expect("possible").expect("to do");
    rebuild.finish(&mut |_, _| {}).expect("it is filled");
    bench.power.cut();
    drop(array);
    bench.power.come_back();
    for member in &bench.members {
        member.settle(Loss::Nothing).expect("memory");
    }
    let array = bench.open();
    assert!(contents(&array) == data);
    let report = array.check(false, &mut |_, _| {}).expect("a check");
    assert_eq!(report.mismatches, 0);
}

/// The superblock of another array, which had seen more events, counted until both copies were overwritten.
#[test]
fn a_new_member_forgets_the_array_that_it_was_of() {
    let other = Bench::new(Level::Raid10, 2, STRIPES, 5, 4);
    for _ in 0..10 {
        other.open().close().expect("it closes");
    }
    let mut bench = Bench::new(Level::Raid5, 3, STRIPES, 5, 5);
    bench.members[2].die();
    let array = bench.open_without(&[2]);
    array
        .replace(2, other.targets()[0].clone())
        .expect("it fits");
    drop(array);
    bench.members[2] = other.members[0].clone();
    let array = bench.open();
    assert_eq!(array.states()[2], MemberState::Rebuilding);
    assert_eq!(array.size_bytes(), 2 * STRIPES * CHUNK_BYTES);
}

/// Two members were filled at a time with one mark between them: when the first was full, the second counted as full.
#[test]
fn a_member_is_not_taken_for_filled_because_another_was() {
    let bench = Bench::new(Level::Raid10, 4, STRIPES, 5, 6);
    let array = bench.open();
    let data = vec![1; array.size_bytes() as usize];
    assert!(write(&array, 0, &data));
    array.close().expect("it closes");
    let array = bench.open_without(&[0, 2]);
    let spares = [bench.spare(STRIPES), bench.spare(STRIPES)];
    array.replace(0, spares[0].clone()).expect("it fits");
    match array.replace(2, spares[1].clone()) {
        Err(ArrayError::Rebuilding(0)) => {}
        other => panic!("{other:?}"),
    }
    for (member, spare) in [(0, None), (2, Some(spares[1].clone()))] {
        if let Some(spare) = spare {
            array.replace(member, spare).expect("it fits");
        }
        let rebuild = array.rebuild().expect("possible").expect("to do");
        assert_eq!(rebuild.member(), member);
        rebuild.finish(&mut |_, _| {}).expect("it is filled");
    }
    let report = array.check(false, &mut |_, _| {}).expect("a check");
    assert_eq!(report.mismatches, 0);
    assert!(contents(&array) == data);
}
