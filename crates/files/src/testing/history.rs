//! What a file system may be after a power cut: what a model was after some number of steps, with
//! pages of files that are old or new.

use std::collections::BTreeMap;

use super::program::{Operation, Step};
use super::view::{Likeness, Seen, View};
use crate::arguments::Sync;
use crate::limits::PAGE_BYTES;

/// What there was after each step of a program, from before the first one on, and what was durable
/// by then.
///
/// `states[n]` is what could be seen after `n` steps. *From* is a number of steps that must be
/// there after a cut.
#[derive(Debug, Default)]
pub struct History {
    /// Whether all that a step does is durable when it is done, bytes too.
    is_immediate: bool,
    states: Vec<State>,
    /// For each number of steps: from how many on the tree may be, and each file.
    durable: Vec<Durable>,
}

/// What could be seen after some steps.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// By path.
    pub view: View,
    /// What had no name any more, and was open: a cut may bring its name back, and then its bytes may
    /// be those that were written meanwhile.
    pub nameless: Vec<Seen>,
}

impl State {
    fn of_number(&self, number: u64) -> Option<&Seen> {
        let mut all = self.view.0.values().chain(&self.nameless);
        all.find(|seen| seen.number == number)
    }
}

#[derive(Debug, Clone, Default)]
struct Durable {
    tree_from: usize,
    all_files_from: usize,
    /// By the number that the file has in the model.
    file_from: BTreeMap<u64, usize>,
}

impl History {
    /// Before the first step, where everything is durable.
    pub fn new(view: View) -> History {
        let nameless = Vec::new();
        History {
            is_immediate: false,
            states: vec![State { view, nameless }],
            durable: vec![Durable::default()],
        }
    }

    /// The same, of what makes each step durable before it is done.
    pub fn of_immediate(view: View) -> History {
        History {
            is_immediate: true,
            ..History::new(view)
        }
    }

    /// A step was done and left `state` behind; of a step that makes a file durable `number` is its
    /// number.
    pub fn push(&mut self, step: &Step, is_done: bool, number: Option<u64>, state: State) {
        let mut durable = self.durable.last().cloned().unwrap_or_default();
        self.states.push(state);
        let steps = self.states.len() - 1;
        match (&step.operation, number) {
            _ if self.is_immediate => {
                durable.tree_from = steps;
                durable.all_files_from = steps;
            }
            _ if !is_done => {}
            (Operation::SyncAll, _) => {
                durable.tree_from = steps;
                durable.all_files_from = steps;
                durable.file_from.clear();
            }
            (Operation::Sync { what, .. }, Some(number)) => {
                durable.file_from.insert(number, steps);
                let from = match what {
                    Sync::All => steps,
                    Sync::Data => self.shape_from(number),
                };
                durable.tree_from = durable.tree_from.max(from);
            }
            _ => {}
        }
        self.durable.push(durable);
    }

    /// The number of steps after which a file's size, and which of its pages there are, were as
    /// they are now.
    fn shape_from(&self, number: u64) -> usize {
        let shape = |state: &State| {
            let seen = state.of_number(number)?;
            Some((
                seen.look.bytes,
                seen.pages.keys().copied().collect::<Vec<_>>(),
            ))
        };
        let last = self.states.len() - 1;
        let now = shape(&self.states[last]);
        let mut from = last;
        while from > 0 && now.is_some() && shape(&self.states[from - 1]) == now {
            from -= 1;
        }
        match now {
            None => 0,
            Some(_) => from,
        }
    }

    /// How many steps there were.
    pub fn steps(&self) -> usize {
        self.states.len() - 1
    }

    /// Whether `found` may be there after a cut when `done` steps were done, and no more than
    /// `begun` begun; else what is wrong with it, for each number of steps that it could have been.
    ///
    /// # Errors
    /// What is wrong.
    pub fn judge(&self, found: &View, done: usize, begun: usize) -> Result<usize, String> {
        let durable = &self.durable[done];
        let mut wrong = String::new();
        for steps in (durable.tree_from..=begun.min(self.steps())).rev() {
            let state = &self.states[steps];
            let unlike = found
                .unlike(&state.view, Likeness::TREE)
                .map(|unlike| unlike.to_string())
                .or_else(|| self.bytes_unlike(found, &state.view, durable, begun));
            match unlike {
                None => return Ok(steps),
                Some(unlike) => wrong += &format!("\n  not as after {steps} steps: {unlike}"),
            }
        }
        Err(wrong)
    }

    /// The first page that it may not be, of a tree that is as `state`.
    fn bytes_unlike(
        &self,
        found: &View,
        state: &View,
        durable: &Durable,
        begun: usize,
    ) -> Option<String> {
        let files = found.0.iter().zip(state.0.values());
        for ((path, found), state) in files {
            let from = durable
                .file_from
                .get(&state.number)
                .map_or(durable.all_files_from, |from| *from);
            let last = (found.look.bytes).div_ceil(PAGE_BYTES);
            let pages = self.pages_since(state.number, from, begun);
            let pages = pages.chain(found.pages.keys().copied().filter(|page| *page < last));
            for page in pages {
                if let Some(what) = self.page_unlike(found, state.number, page, (from, begun)) {
                    return Some(format!("{}: page {page} {what}", path.escape_ascii()));
                }
            }
        }
        None
    }

    fn files_since(
        &self,
        number: u64,
        from: usize,
        begun: usize,
    ) -> impl Iterator<Item = Option<&Seen>> {
        let states = &self.states[from..=begun.min(self.steps())];
        let seen = states.iter().map(move |state| state.of_number(number));
        // A file that is not there yet has no bytes; one that was removed, those that it had.
        seen.scan(false, |was_there, seen| {
            *was_there |= seen.is_some();
            Some(seen.map(Some).or((!*was_there).then_some(None)))
        })
        .flatten()
    }

    fn pages_since(&self, number: u64, from: usize, begun: usize) -> impl Iterator<Item = u64> {
        let mut pages: Vec<u64> = self
            .files_since(number, from, begun)
            .flatten()
            .flat_map(|seen| seen.pages.keys().copied())
            .collect();
        pages.sort_unstable();
        pages.dedup();
        pages.into_iter()
    }

    /// Says so if a page is none of what it was since it was durable.
    fn page_unlike(
        &self,
        found: &Seen,
        number: u64,
        page: u64,
        (from, begun): (usize, usize),
    ) -> Option<String> {
        let start = page * PAGE_BYTES;
        let length = found.look.bytes.saturating_sub(start).min(PAGE_BYTES) as usize;
        let whole = |bytes: Option<&Vec<u8>>| {
            let mut whole = bytes.cloned().unwrap_or_default();
            whole.resize(PAGE_BYTES as usize, 0);
            whole.truncate(length);
            whole
        };
        let is = whole(found.pages.get(&page));
        let mut files = self.files_since(number, from, begun);
        let is_one = files.any(|seen| is == whole(seen.and_then(|seen| seen.pages.get(&page))));
        let first = &is[..is.len().min(8)];
        (!is_one).then(|| format!("is none of what it was since step {from}: {first:?}"))
    }
}
