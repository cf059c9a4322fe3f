//! What paths lead to, as far as it was asked for, under a lease of all names.
//!
//! Programs ask for the same names again and again, and most of all for those that are not there: a journal that a crash would
//! have left, a library in each folder of a list. One word says whether any other process has made, removed or renamed anything, or changed
//! permissions, since the lease was given. Whatever this process does to names itself forgets them all.
//!
//! The size and the times of a regular file are not kept here, as writing changes them: they are those of its own lease.

use rustc_hash::FxHashMap;
use wharf_files::vfs::{At, Start};
use wharf_files::{Attributes, Caller, Errno, Handle, Kind};
use wharf_wire::dma::DmaWord;

/// Names that are kept at most; with one more all are forgotten.
const NAMES_MAX: usize = 4096;

/// Longest path that is kept, in bytes.
const PATH_BYTES_MAX: usize = 256;

/// Questions without a lease before it is asked for: most programs ask for few names.
const QUESTIONS_FIRST: u32 = 3;

/// Most questions without a lease after one that was of no use.
const PAUSE_MAX: u32 = 256;

/// Where a path begins.
#[derive(PartialEq, Eq, Hash)]
enum From {
    Root,
    Handle(Handle),
    Number(u64),
}

/// What was asked.
#[derive(PartialEq, Eq, Hash)]
struct Question {
    from: From,
    path: Box<[u8]>,
    /// Whether a symbolic link at the end is followed.
    follow: bool,
    /// Whether the caller may do this; none if attributes are asked for.
    access: Option<u8>,
}

/// What was answered.
#[derive(Clone, Copy)]
pub(in crate::files) enum Answer {
    /// What is no regular file.
    Attributes(Attributes),
    /// The regular file of this number.
    File(u64),
    /// It may.
    May,
    /// There is nothing.
    Nothing,
}

impl Answer {
    /// What an answer to a question for attributes is kept as, if it is.
    pub(in crate::files) fn of_stat(found: Result<&Attributes, Errno>) -> Option<Answer> {
        match found {
            Ok(found) if found.kind == Kind::File => Some(Answer::File(found.number)),
            Ok(found) => Some(Answer::Attributes(*found)),
            Err(Errno::ENOENT) => Some(Answer::Nothing),
            Err(_) => None,
        }
    }

    /// The same of a question for access.
    pub(in crate::files) fn of_access(answer: Result<(), Errno>) -> Option<Answer> {
        match answer {
            Ok(()) => Some(Answer::May),
            Err(Errno::ENOENT) => Some(Answer::Nothing),
            Err(_) => None,
        }
    }
}

/// See the [module](self).
pub(in crate::files) struct Names {
    word: (DmaWord, u64),
    lease: u64,
    known: FxHashMap<Question, Answer>,
    /// Who asked.
    caller: Option<Caller>,
    /// Questions without a lease that are still to come, and that come next time.
    pause: u32,
    next_pause: u32,
    is_used: bool,
}

impl Names {
    pub(super) fn new(word: (DmaWord, u64)) -> Names {
        Names {
            word,
            lease: 0,
            known: FxHashMap::default(),
            caller: None,
            pause: QUESTIONS_FIRST,
            next_pause: 0,
            is_used: false,
        }
    }

    /// Whether what is kept is so, for this caller.
    fn is_valid(&mut self, caller: &Caller) -> bool {
        if self.caller.as_ref() != Some(caller) {
            self.caller = Some(caller.clone());
            self.forget();
        }
        self.lease != 0 && self.word.0.look() == self.lease
    }

    /// The address of the word by which a lease of all names is to be asked for, if there is none and it is time for that.
    pub(in crate::files) fn ask(&mut self, caller: &Caller) -> Option<u64> {
        if self.is_valid(caller) {
            return None;
        }
        self.forget();
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        Some(self.word.1)
    }

    /// What was answered.
    pub(in crate::files) fn answered(&mut self, lease: u64) {
        self.next_pause = match self.is_used {
            true => 0,
            false => (2 * self.next_pause + 1).min(PAUSE_MAX),
        };
        self.pause = self.next_pause;
        self.lease = lease;
        self.is_used = false;
        self.forget();
    }

    /// What is known.
    pub(in crate::files) fn find(
        &mut self,
        caller: &Caller,
        at: At<'_>,
        follow: bool,
        access: Option<u8>,
    ) -> Option<Answer> {
        if self.known.is_empty() || !self.is_valid(caller) {
            return None;
        }
        let question = question(at, follow, access)?;
        let found = self.known.get(&question).copied();
        self.is_used |= found.is_some();
        found
    }

    /// Keeps an answer that came just now.
    pub(in crate::files) fn learn(
        &mut self,
        caller: &Caller,
        at: At<'_>,
        follow: bool,
        access: Option<u8>,
        answer: Option<Answer>,
    ) {
        let (Some(answer), true) = (answer, self.is_valid(caller)) else {
            return;
        };
        if self.known.len() >= NAMES_MAX {
            self.forget();
        }
        if let Some(question) = question(at, follow, access) {
            self.known.insert(question, answer);
        }
    }

    /// This process has changed names itself.
    pub(in crate::files) fn forget(&mut self) {
        self.known.clear();
    }
}

fn question(at: At<'_>, follow: bool, access: Option<u8>) -> Option<Question> {
    let from = match at.from {
        Start::Root => From::Root,
        Start::Handle(handle) => From::Handle(handle),
        Start::Number(number) => From::Number(number),
    };
    (at.path.len() <= PATH_BYTES_MAX).then(|| Question {
        from,
        path: at.path.into(),
        follow,
        access,
    })
}
