//! The word of a page under every interleaving.

use super::*;

const NAME: FilePage = FilePage { number: 7, page: 3 };

/// A page of two halves, which are always the same for who has the word.
struct Page {
    word: Word,
    halves: [AtomicU32; 2],
}

impl Page {
    fn new() -> Arc<Page> {
        let page = Page {
            word: Word::new(),
            halves: [AtomicU32::new(0), AtomicU32::new(0)],
        };
        page.word.show(NAME, 4096, true);
        Arc::new(page)
    }

    fn load(&self) -> Option<u32> {
        self.word.take((NAME, 8), SHOWN, READER).then(|| {
            let halves = [0, 1].map(|half: usize| self.halves[half].load(Ordering::Relaxed));
            assert_eq!(halves[0], halves[1], "half of a store");
            self.word.free(READER);
            halves[0]
        })
    }

    fn store(&self, value: u32) -> bool {
        let taken = self.word.take((NAME, 8), SHOWN | WRITABLE, HELD);
        if taken {
            self.put(value);
            self.word.free(HELD);
        }
        taken
    }

    fn put(&self, value: u32) {
        for half in &self.halves {
            half.store(value, Ordering::Relaxed);
        }
    }
}

#[test]
fn who_loads_sees_whole_stores() {
    loom::model(|| {
        let page = Page::new();
        let writer = {
            let page = page.clone();
            loom::thread::spawn(move || assert!(page.store(1)))
        };
        assert!(page.load().is_some());
        writer.join().unwrap();
        assert_eq!(page.load(), Some(1));
    });
}

/// What was stored before a page is hidden the drive has, and nothing is stored behind that.
#[test]
fn a_store_is_before_the_page_is_hidden_or_not_at_all() {
    loom::model(|| {
        let page = Page::new();
        let writer = {
            let page = page.clone();
            loom::thread::spawn(move || page.store(1))
        };
        page.word.alone(|_| 0);
        let found = page.halves[0].load(Ordering::Relaxed);
        // It is another page's memory from here on.
        page.put(9);
        let is_stored = writer.join().unwrap();
        assert_eq!(found == 1, is_stored);
        assert_eq!(page.halves[1].load(Ordering::Relaxed), 9);
        assert_eq!(page.load(), None);
    });
}

#[test]
fn a_page_that_shows_another_is_not_the_first_one() {
    loom::model(|| {
        let page = Page::new();
        let reader = {
            let page = page.clone();
            loom::thread::spawn(move || page.load())
        };
        page.word.alone(|_| 0);
        page.put(5);
        let other = FilePage { page: 4, ..NAME };
        assert!(page.word.show(other, 4096, false));
        assert!(matches!(reader.join().unwrap(), None | Some(0)));
    });
}
