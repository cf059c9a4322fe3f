//! What threads do to one frame, in every interleaving.

use wharf_runtime::sync::Arc;

use super::*;

/// A frame with a "page" of two words: relaxed atomics stand for plain bytes.
struct Frame {
    word: FrameWord,
    bytes: [AtomicU64; 2],
    /// What the drive has.
    stored: AtomicU64,
}

const OLD: u64 = 1;
const NEW: u64 = 2;
const OTHER: u64 = 3;

fn here() -> PageKey {
    PageKey::new(0, 10)
}

fn elsewhere() -> PageKey {
    PageKey::new(0, 20)
}

impl Frame {
    /// The page `here`, clean, with the bytes `OLD`.
    fn filled() -> Arc<Frame> {
        let frame = Arc::new(Frame {
            word: FrameWord::free(),
            bytes: [0, 0].map(AtomicU64::new),
            stored: AtomicU64::new(OLD),
        });
        frame.word.begin(here(), 0);
        frame.fill(OLD);
        frame
    }

    fn put(&self, value: u64) {
        self.bytes
            .iter()
            .for_each(|half| half.store(value, Ordering::Relaxed));
    }

    fn get(&self) -> [u64; 2] {
        [0, 1].map(|half| self.bytes[half].load(Ordering::Relaxed))
    }

    /// The end of a transfer from the drive.
    fn fill(&self, value: u64) {
        self.put(value);
        self.word.change(FILLED, 0);
        self.word.unpin();
    }

    /// Gives the frame to another page, if it may go.
    fn exchange(&self) -> bool {
        let is_taken = self.word.take();
        if is_taken {
            self.word.empty();
            self.word.begin(elsewhere(), 0);
            self.fill(OTHER);
        }
        is_taken
    }

    /// Writes `NEW`, if the page is here and not on its way to the drive.
    fn write(&self) -> bool {
        if !self.word.try_pin(here()) {
            return false;
        }
        self.word.lock();
        let may = self.word.state() & WRITEBACK == 0;
        if may {
            self.put(NEW);
            self.word.change(DIRTY, 0);
        }
        self.word.unlock();
        self.word.unpin();
        may
    }

    /// Writes the page back, if it is here and dirty.
    fn flush(&self) {
        if !self.word.try_pin(here()) {
            return;
        }
        self.word.lock();
        let is_claimed = self.word.state() & (DIRTY | WRITEBACK) == DIRTY;
        if is_claimed {
            self.word.change(WRITEBACK, DIRTY);
        }
        self.word.unlock();
        if is_claimed {
            let [first, second] = self.get();
            assert_eq!(first, second, "what the drive reads does not change");
            self.stored.store(first, Ordering::Relaxed);
            self.word.change(0, WRITEBACK);
        }
        self.word.unpin();
    }

    fn read(&self) -> (Copied, [u64; 2]) {
        let mut out = [0; 2];
        let copied = self.word.read(here(), || out = self.get());
        (copied, out)
    }
}

fn model<const N: usize>(threads: [fn(&Frame); N], main: fn(&Frame), check: fn(&Frame)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let frame = Frame::filled();
        let spawn = |other: fn(&Frame)| {
            let frame = frame.clone();
            loom::thread::spawn(move || other(&frame))
        };
        let threads = threads.map(spawn);
        main(&frame);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        check(&frame);
        assert_eq!(pins(frame.word.state()), 0, "pins are taken off");
    });
}

#[test]
fn a_reader_gets_the_bytes_of_the_page_it_asked_for() {
    let main = |frame: &Frame| match frame.read() {
        (Copied::Done(_), bytes) => assert_eq!(bytes, [OLD, OLD]),
        (Copied::Moved | Copied::Unfilled, _) => {}
    };
    let exchange = |frame: &Frame| assert!(frame.exchange());
    model([exchange], main, |frame| {
        assert_eq!(frame.get(), [OTHER, OTHER])
    });
}

#[test]
fn a_reader_sees_whole_writes_or_none() {
    let main = |frame: &Frame| {
        let (copied, bytes) = frame.read();
        assert!(matches!(copied, Copied::Done(_)));
        assert!(matches!(bytes, [OLD, OLD] | [NEW, NEW]), "{bytes:?}");
    };
    let write = |frame: &Frame| assert!(frame.write());
    model([write], main, |frame| assert_eq!(frame.get(), [NEW, NEW]));
}

#[test]
fn a_pinned_page_stays_and_a_page_that_has_gone_is_not_pinned() {
    let main = |frame: &Frame| {
        if frame.word.try_pin(here()) {
            assert_eq!(frame.get(), [OLD, OLD]);
            assert_eq!(frame.word.key(), Some(here()));
            frame.word.unpin();
        }
    };
    let exchange = |frame: &Frame| {
        frame.exchange();
    };
    model([exchange, exchange], main, |_| {});
}

#[test]
fn the_newest_write_is_with_the_drive_or_its_page_is_dirty() {
    let main = |frame: &Frame| {
        frame.write();
        frame.flush();
    };
    let flush = |frame: &Frame| {
        frame.flush();
        frame.flush();
    };
    let check = |frame: &Frame| {
        let is_dirty = frame.word.state() & DIRTY != 0;
        let [newest, _] = frame.get();
        assert!(is_dirty || frame.stored.load(Ordering::Relaxed) == newest);
    };
    model([flush], main, check);
}

#[test]
fn a_page_that_is_being_written_does_not_leave_with_the_write() {
    let main = |frame: &Frame| {
        if frame.write() {
            assert_eq!(frame.word.key(), Some(here()));
            assert_eq!(frame.read().1, [NEW, NEW]);
        }
    };
    let exchange = |frame: &Frame| {
        frame.exchange();
    };
    let check = |frame: &Frame| match frame.word.key() {
        Some(key) if key == here() => assert!(frame.word.state() & DIRTY != 0),
        _ => assert_eq!(frame.get(), [OTHER, OTHER]),
    };
    model([exchange], main, check);
}

#[test]
fn a_frame_that_is_taken_back_is_free_whoever_looked_there() {
    let main = |frame: &Frame| {
        if frame.word.try_pin(here()) {
            assert_eq!(frame.word.key(), Some(here()));
            frame.word.unpin();
        }
    };
    let cancel = |frame: &Frame| {
        if frame.word.take() {
            frame.word.empty();
            frame.word.begin(elsewhere(), 0);
            frame.word.cancel();
            assert_eq!(frame.word.key(), None);
        }
    };
    model([cancel], main, |_| {});
}
