//! What a manager has under way: pages that come and leave, who waits for them, and write-backs.

/// Who wants a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    /// The client.
    pub(super) client: u32,
    /// Its ticket.
    pub(super) ticket: u32,
    /// It will overwrite the page whole.
    pub(super) fills: bool,
    /// When the manager took the request.
    pub(super) taken_ns: u64,
}

/// Who wants a page, in the order they asked: mostly one.
#[derive(Default)]
pub(super) struct Askers {
    pub(super) first: Option<Asker>,
    pub(super) more: Vec<Asker>,
}

impl Askers {
    /// The one who asked first.
    pub(super) fn first(&self) -> Option<&Asker> {
        self.first.as_ref()
    }

    /// How many.
    pub(super) fn count(&self) -> u32 {
        u32::from(self.first.is_some()) + self.more.len() as u32
    }

    pub(super) fn push(&mut self, asker: Asker) {
        match self.first {
            None => self.first = Some(asker),
            Some(_) => self.more.push(asker),
        }
    }

    /// Takes the one who asked first.
    pub(super) fn take_first(&mut self) -> Option<Asker> {
        let next = (!self.more.is_empty()).then(|| self.more.remove(0));
        std::mem::replace(&mut self.first, next)
    }

    /// All of them, in their order.
    pub(super) fn into_all(self) -> impl Iterator<Item = Asker> {
        self.first.into_iter().chain(self.more)
    }
}

/// A page that is coming or leaving.
#[derive(Default)]
pub(super) struct UnderWay {
    /// Who wants it meanwhile, in the order they asked.
    pub(super) askers: Askers,
    /// The drive does not answer: nobody should wait.
    pub(super) is_stuck: bool,
}

/// A page to be fetched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Want {
    /// The page.
    pub(super) page: u64,
    /// How often a frame for it was not to be had because of a failed write-back.
    pub(super) attempts: u32,
}

/// A page and the frame it gets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fetch {
    pub(super) want: Want,
    pub(super) frame: u32,
    /// The dirty page that is in the frame.
    pub(super) leaving: Option<u64>,
    /// The first who asked will overwrite it whole.
    pub(super) fills: bool,
}

/// What a command that timed out may still use.
pub(super) enum Held {
    /// A frame and the dirty page in it, which was to leave.
    Leaving(u32, u64),
    /// Frames, and the pages that were being read into them.
    Coming(Vec<(u32, u64)>),
    /// Frames, whose copies in these buffers were being written.
    Copies(Vec<u32>, Vec<u32>),
}

/// A write-back that was asked for.
pub(super) struct WriteBack {
    pub(super) asker: Asker,
    /// One page, or all.
    pub(super) page: Option<u64>,
}
