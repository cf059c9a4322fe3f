//! What operations on names may answer.
//!
//! Each name is checked for itself. It leads to nothing, or to a file, which has a number. An operation takes effect at one instant between
//! its begin and its end; so if no two overlap on a name there is one right answer, and else there is an order in which all
//! answers are right, or something is wrong (linearizability; the search goes by operation, as in Lowe's "Testing for linearizability").
//!
//! 1. Of a name all *worlds* are kept that can be: what it leads to, and which of the operations under way have taken effect there, and
//!    with which answer.
//! 2. When an operation that changes the name ends, each world is gone on with in every way in which those under way can take
//!    effect; the ones stay in which it has, with that answer. If there is none, the answer is wrong.
//! 3. One that only looks sees what the name leads to in one of the worlds from its begin to its end.
//!
//! It is a necessary condition, name by name: a rename is two operations, one on each name. With more than
//! [`UNDER_WAY_MAX`] changes under way on a name anything may be, until one is seen alone.

use std::collections::{BTreeMap, BTreeSet};

/// Most changes under way on a name whose orders are gone through.
pub const UNDER_WAY_MAX: usize = 6;

/// What a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing.
    Absent,
    /// A file of this number.
    File(u64),
    /// A file that the operation of this number has made, and whose own number is not known yet.
    MadeBy(u64),
    /// Something; which file is not known.
    Something,
    /// Anything, or nothing.
    Unknown,
}

/// An operation that changes what a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A file is opened, and made if it is not there; or must not be there.
    Create {
        /// It must not be there.
        exclusive: bool,
    },
    /// The name goes.
    Remove,
    /// It goes to another name; or both were one file's, and stay.
    Leave {
        /// Whether files may have several names.
        has_links: bool,
    },
    /// What had another name has this one now.
    Arrive,
    /// Something is made, unless the name is taken: a directory, a link.
    Make,
    /// An empty directory goes.
    RemoveDirectory,
}

/// What an operation answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// Done; a removal, a rename.
    Done,
    /// A file of this number, which it has made.
    Made(u64),
    /// A file of this number, which was there.
    Found(u64),
    /// There is none.
    Missing,
    /// There is one already.
    Taken,
    /// A directory has entries.
    NotEmpty,
}

/// Of a world: what a name leads to, and the answers of operations under way that have taken effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    state: State,
    /// By operation, the answer; of a creation the number stands for the one that is made.
    effects: BTreeMap<u64, Answer>,
}

impl World {
    fn new(state: State) -> World {
        World {
            state,
            effects: BTreeMap::new(),
        }
    }
}

/// A look under way, and all that it may have seen.
#[derive(Debug)]
struct Look {
    number: u64,
    seen: BTreeSet<State>,
}

/// What is known of one name.
#[derive(Debug)]
struct Name {
    worlds: BTreeSet<World>,
    changes: BTreeMap<u64, Change>,
    looks: Vec<Look>,
    /// Operations under way when there were too many.
    lost: u32,
}

/// An operation on a name that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    name: u32,
    number: u64,
}

/// An answer that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("wrong answer of {name}: {found}, expected {expected}")]
pub struct WrongAnswer {
    /// The name.
    pub name: String,
    /// What may be.
    pub expected: String,
    /// What was answered.
    pub found: String,
}

/// The checker of all names.
#[derive(Debug)]
pub struct NameChecker {
    paths: Vec<Box<str>>,
    names: Vec<Name>,
    operations: u64,
    /// Operations that were not checked, as too many were under way.
    pub unchecked: u64,
}

impl Ticket {
    /// The name that it is of.
    pub fn name(&self) -> u32 {
        self.name
    }
}

impl NameChecker {
    /// Names by number, and what each leads to.
    pub fn new(paths: &[Box<str>], states: Vec<State>) -> NameChecker {
        assert_eq!(paths.len(), states.len());
        let name = |state| Name {
            worlds: BTreeSet::from([World::new(state)]),
            changes: BTreeMap::new(),
            looks: Vec::new(),
            lost: 0,
        };
        NameChecker {
            paths: paths.to_vec(),
            names: states.into_iter().map(name).collect(),
            operations: 0,
            unchecked: 0,
        }
    }

    /// An operation that changes a name begins.
    pub fn begin(&mut self, name: u32, change: Change) -> Ticket {
        self.operations += 1;
        let number = self.operations;
        let known = &mut self.names[name as usize];
        known.changes.insert(number, change);
        if known.changes.len() > UNDER_WAY_MAX || known.lost > 0 {
            known.lost = known.lost.max(known.changes.len() as u32);
            known.worlds = BTreeSet::from([World::new(State::Unknown)]);
        }
        known.show_looks();
        Ticket { name, number }
    }

    /// It has ended.
    ///
    /// # Errors
    /// An answer that cannot be.
    pub fn end(&mut self, ticket: Ticket, answer: Answer) -> Result<(), WrongAnswer> {
        let known = &mut self.names[ticket.name as usize];
        if known.lost > 0 {
            self.unchecked += 1;
            known.forget(ticket.number);
            return Ok(());
        }
        let all = known.all_worlds();
        let number = ticket.number;
        let mut left: BTreeSet<World> = BTreeSet::new();
        let mut expected = BTreeSet::new();
        for mut world in all {
            let Some(effect) = world.effects.remove(&number) else {
                continue;
            };
            expected.insert(effect);
            if !agree(effect, answer) {
                continue;
            }
            if let Answer::Made(made) = answer {
                world.is_made(number, made);
            }
            left.insert(world);
        }
        if left.is_empty() {
            let expected = expected.iter().map(describe).collect::<Vec<_>>();
            return Err(self.wrong(ticket.name, expected.join(" or "), &answer));
        }
        known.worlds = left;
        known.changes.remove(&number);
        known.show_looks();
        Ok(())
    }

    /// It has failed, and changed nothing: what it could have failed of is for the caller to know.
    pub fn withdraw(&mut self, ticket: Ticket) {
        let known = &mut self.names[ticket.name as usize];
        known
            .worlds
            .retain(|world| !world.effects.contains_key(&ticket.number));
        if known.worlds.is_empty() {
            // It was seen, and is now said not to have been.
            known.worlds.insert(World::new(State::Unknown));
        }
        known.forget(ticket.number);
    }

    /// A look at a name begins: it is opened as it is there, asked for its attributes, listed.
    pub fn begin_look(&mut self, name: u32) -> Ticket {
        self.operations += 1;
        let number = self.operations;
        let known = &mut self.names[name as usize];
        known.looks.push(Look {
            number,
            seen: BTreeSet::new(),
        });
        known.show_looks();
        Ticket { name, number }
    }

    /// It has failed for another reason, and tells nothing.
    pub fn drop_look(&mut self, ticket: Ticket) {
        let known = &mut self.names[ticket.name as usize];
        known.looks.retain(|look| look.number != ticket.number);
    }

    /// The number of the file that a name leads to, if that is certain.
    pub fn number(&self, name: u32) -> Option<u64> {
        let known = &self.names[name as usize];
        let mut worlds = known.worlds.iter();
        match (worlds.next(), worlds.next(), known.changes.is_empty()) {
            (Some(world), None, true) => match world.state {
                State::File(number) => Some(number),
                _ => None,
            },
            _ => None,
        }
    }

    /// It has ended: with a file, whose number is known or not, or with nothing.
    ///
    /// # Errors
    /// An answer that cannot be.
    pub fn end_look(&mut self, ticket: Ticket, found: Seen) -> Result<(), WrongAnswer> {
        let known = &mut self.names[ticket.name as usize];
        let at = known
            .looks
            .iter()
            .position(|look| look.number == ticket.number);
        let look = known.looks.swap_remove(at.expect("it has begun"));
        if look.seen.iter().any(|state| found.may_be(*state)) {
            let is_alone = known.changes.is_empty() && known.worlds.len() == 1;
            let first = known.worlds.first().map(|world| world.state);
            // What was not known is known now.
            if let (true, Some(State::Something | State::Unknown), Some(state)) =
                (is_alone, first, found.state())
                && look.seen.len() == 1
            {
                known.worlds = BTreeSet::from([World::new(state)]);
            }
            return Ok(());
        }
        let expected = look
            .seen
            .iter()
            .map(|state| format!("{state:?}"))
            .collect::<Vec<_>>();
        Err(WrongAnswer {
            name: self.paths[ticket.name as usize].to_string(),
            expected: expected.join(" or "),
            found: format!("{found:?}"),
        })
    }

    /// Whether a name may lead to nothing now.
    pub fn may_be_absent(&self, name: u32) -> bool {
        let worlds = self.names[name as usize].all_worlds();
        let states = worlds.iter().map(|world| world.state);
        states
            .into_iter()
            .any(|state| matches!(state, State::Absent | State::Unknown))
    }

    fn wrong(&self, name: u32, expected: String, found: &Answer) -> WrongAnswer {
        WrongAnswer {
            name: self.paths[name as usize].to_string(),
            expected,
            found: describe(found),
        }
    }
}

/// What a look has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Nothing,
    /// Something.
    Something,
    /// The file of this number.
    File(u64),
}

impl Seen {
    fn may_be(self, state: State) -> bool {
        match (self, state) {
            (_, State::Unknown) => true,
            (Seen::Nothing, state) => state == State::Absent,
            (_, State::Absent) => false,
            (Seen::File(found), State::File(number)) => found == number,
            _ => true,
        }
    }

    fn state(self) -> Option<State> {
        match self {
            Seen::Nothing => Some(State::Absent),
            Seen::Something => None,
            Seen::File(number) => Some(State::File(number)),
        }
    }
}

impl Name {
    /// All worlds that can be, by whatever order of the changes under way.
    fn all_worlds(&self) -> BTreeSet<World> {
        let mut all = self.worlds.clone();
        let mut new: Vec<World> = all.iter().cloned().collect();
        while let Some(world) = new.pop() {
            for (number, change) in &self.changes {
                if world.effects.contains_key(number) {
                    continue;
                }
                for (state, answer) in effects(world.state, *change, *number) {
                    let mut next = world.clone();
                    next.state = state;
                    next.effects.insert(*number, answer);
                    if all.insert(next.clone()) {
                        new.push(next);
                    }
                }
            }
        }
        all
    }

    /// Shows the looks under way what the name may lead to now.
    fn show_looks(&mut self) {
        if self.looks.is_empty() {
            return;
        }
        let states: BTreeSet<State> = self.all_worlds().iter().map(|world| world.state).collect();
        for look in &mut self.looks {
            look.seen.extend(&states);
        }
    }

    /// An operation is not under way any more, and nothing follows from it.
    fn forget(&mut self, number: u64) {
        self.changes.remove(&number);
        if self.changes.is_empty() {
            self.lost = 0;
        }
        self.show_looks();
    }
}

impl World {
    /// The number of a file that was made is known.
    fn is_made(&mut self, by: u64, number: u64) {
        if self.state == State::MadeBy(by) {
            self.state = State::File(number);
        }
        for effect in self.effects.values_mut() {
            if *effect == Answer::Found(UNKNOWN_BASE + by) {
                *effect = Answer::Found(number);
            }
        }
    }
}

/// Numbers from here on stand for files whose own number is not known: they name the operation that makes them.
const UNKNOWN_BASE: u64 = 1 << 62;

/// Stands for any file.
const ANY: u64 = u64::MAX;

/// What a change can do to a name in a state.
fn effects(state: State, change: Change, number: u64) -> Vec<(State, Answer)> {
    let found = match state {
        State::File(file) => file,
        State::MadeBy(by) => UNKNOWN_BASE + by,
        _ => ANY,
    };
    match (state, change) {
        (State::Unknown, change) => {
            let mut all = effects(State::Absent, change, number);
            all.extend(effects(State::Something, change, number));
            all
        }
        (State::Absent, Change::Create { .. }) => {
            vec![(State::MadeBy(number), Answer::Made(UNKNOWN_BASE + number))]
        }
        (state, Change::Create { exclusive: true }) => vec![(state, Answer::Taken)],
        (state, Change::Create { exclusive: false }) => vec![(state, Answer::Found(found))],
        (_, Change::Arrive) => vec![(State::Something, Answer::Done)],
        (State::Absent, Change::Make) => vec![(State::Something, Answer::Done)],
        (state, Change::Make) => vec![(state, Answer::Taken)],
        (State::Absent, _) => vec![(State::Absent, Answer::Missing)],
        (_, Change::Remove) => vec![(State::Absent, Answer::Done)],
        (state, Change::Leave { has_links }) => {
            let mut all = vec![(State::Absent, Answer::Done)];
            if has_links {
                all.push((state, Answer::Done));
            }
            all
        }
        (state, Change::RemoveDirectory) => {
            vec![(State::Absent, Answer::Done), (state, Answer::NotEmpty)]
        }
    }
}

/// Whether an answer is what an effect says, where that knows it.
fn agree(effect: Answer, answer: Answer) -> bool {
    match (effect, answer) {
        (Answer::Made(_), Answer::Made(_)) => true,
        (Answer::Found(expected), Answer::Found(found)) => {
            expected == found || expected >= UNKNOWN_BASE
        }
        (effect, answer) => effect == answer,
    }
}

fn describe(answer: &Answer) -> String {
    match answer {
        Answer::Done => "it is done".into(),
        Answer::Made(_) => "a new file".into(),
        Answer::Found(number) if *number >= UNKNOWN_BASE => "a file that was there".into(),
        Answer::Found(number) => format!("file {number}, which was there"),
        Answer::Missing => "there is none".into(),
        Answer::Taken => "there is one already".into(),
        Answer::NotEmpty => "it has entries".into(),
    }
}
