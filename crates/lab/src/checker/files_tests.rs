//! The checkers of files against a plain file in memory, in random runs: what is right is let pass, however operations overlap, and
//! every planted fault is found.

use std::sync::Arc;

use wharf_runtime::{Rng, Seed};

use super::WrongRead;
use super::names::{Answer, Change as NameChange, NameChecker, Seen, State};
use super::objects::{Change, Look, Object, Objects};

const UNIT: u64 = 4096;

/// A file as units of 8 bytes, as it is.
#[derive(Clone, Default)]
struct Truth(Vec<u64>);

impl Truth {
    fn write(&mut self, first: usize, units: &[u64]) {
        if self.0.len() < first + units.len() {
            self.0.resize(first + units.len(), 0);
        }
        self.0[first..first + units.len()].copy_from_slice(units);
    }

    fn read(&self, first: usize, units: usize) -> Vec<u64> {
        let end = (first + units).min(self.0.len());
        self.0[first.min(end)..end].to_vec()
    }

    fn hole(&mut self, first: usize, units: usize) {
        let end = (first + units).min(self.0.len());
        self.0[first.min(end)..end].fill(0);
    }
}

fn words(data: &[u8]) -> Vec<u64> {
    let words = data.as_chunks::<8>().0.iter();
    words.map(|word| u64::from_le_bytes(*word)).collect()
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// What a task has under way.
enum Task {
    Write(Change, usize, Vec<u64>),
    Append(Change, Vec<u64>, Option<usize>),
    Cut(Change, usize),
    Hole(Change, usize, usize),
    Read(Look, usize, usize, Option<Vec<u64>>),
    Stat(Look, Option<usize>),
}

/// Begins something.
fn begin(rng: &mut Rng, objects: &Objects, object: &Object) -> Task {
    let (first, units) = (rng.below(150) as usize, 1 + rng.below(4) as usize);
    let (offset, length) = (first as u64 * UNIT, units as u64 * UNIT);
    let mut data = vec![0; units * 8];
    match rng.below(16) {
        0..5 => {
            let change = objects.begin_write(object, offset, length, &mut data);
            Task::Write(change, first, words(&data))
        }
        5..8 => {
            let change = objects.begin_append(object, length, &mut data);
            Task::Append(change, words(&data), None)
        }
        8 => Task::Cut(objects.begin_cut(object, offset), first),
        9 => Task::Hole(objects.begin_hole(object, offset, length), first, units),
        10 => Task::Stat(objects.begin_look(object), None),
        _ => Task::Read(objects.begin_look(object), first, units, None),
    }
}

/// Lets it happen.
fn happen(task: &mut Task, truth: &mut Truth) {
    match task {
        Task::Write(_, first, data) => truth.write(*first, data),
        Task::Append(_, data, at) => {
            *at = Some(truth.0.len());
            truth.write(truth.0.len(), data);
        }
        Task::Cut(_, units) => truth.0.resize(*units, 0),
        Task::Hole(_, first, units) => truth.hole(*first, *units),
        Task::Read(_, first, units, found) => *found = Some(truth.read(*first, *units)),
        Task::Stat(_, found) => *found = Some(truth.0.len()),
    }
}

fn end(task: Task, objects: &Objects, object: &Object) -> Result<(), WrongRead> {
    match task {
        Task::Write(change, first, data) => {
            let (offset, length) = (first as u64 * UNIT, data.len() as u64 * UNIT);
            objects.end_write(object, &change, offset, length);
            Ok(())
        }
        Task::Append(change, data, at) => {
            let offset = at.expect("it happened") as u64 * UNIT;
            objects.end_append(object, &change, offset, data.len() as u64 * UNIT)
        }
        Task::Cut(change, units) => {
            objects.end_zeros(object, &change, Some(units as u64 * UNIT));
            Ok(())
        }
        Task::Hole(change, ..) => {
            objects.end_zeros(object, &change, None);
            Ok(())
        }
        Task::Read(look, first, units, found) => {
            let found = found.expect("it happened");
            let asked = (first as u64 * UNIT, units as u64 * UNIT);
            let length = found.len() as u64 * UNIT;
            objects.end_read(object, look, asked, length, &bytes(&found))
        }
        Task::Stat(look, size) => {
            let size = size.expect("it happened") as u64 * UNIT;
            objects.end_look(object, look, size)
        }
    }
}

/// A run of several tasks; each operation happens at one instant between its begin and its end. `spoil` may change what is
/// read. Gives what the checker found.
fn run(
    seed: u64,
    tasks: usize,
    steps: u32,
    mut spoil: impl FnMut(&mut Task, &Truth, u32),
) -> Result<(), WrongRead> {
    let mut rng = Seed(seed).rng();
    let objects = Objects::new(true);
    let object = objects.object("/f", 0);
    let mut truth = Truth::default();
    let mut under_way: Vec<Option<(Task, bool)>> = (0..tasks).map(|_| None).collect();
    for step in 0..steps {
        let at = rng.below(tasks as u64) as usize;
        under_way[at] = match under_way[at].take() {
            None => Some((begin(&mut rng, &objects, &object), false)),
            Some((mut task, false)) => {
                happen(&mut task, &mut truth);
                spoil(&mut task, &truth, step);
                Some((task, true))
            }
            Some((task, true)) => {
                end(task, &objects, &object)?;
                None
            }
        };
    }
    Ok(())
}

#[test]
fn what_is_right_passes_however_operations_overlap() {
    for seed in 0..120 {
        let tasks = 1 + (seed % 6) as usize;
        run(seed, tasks, 1_500, |_, _, _| ())
            .unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}

/// Spoils the first read or look after some steps, in a run of one task; whatever is wrong then is found.
fn is_found(name: &str, mut fault: impl FnMut(&mut Task, &Truth, &[Truth]) -> bool) {
    let mut planted = 0;
    for seed in 0..20 {
        let (mut spoilt, mut before) = (false, Vec::new());
        let found = run(seed, 1, 2_000, |task, truth, step| {
            // In the last steps it may not come to its end.
            if (600..1_990).contains(&step) && !spoilt {
                spoilt = fault(task, truth, &before);
            }
            before.push(truth.clone());
        });
        planted += u32::from(spoilt);
        assert_eq!(found.is_err(), spoilt, "{name}, seed {seed}: {found:?}");
    }
    assert!(planted >= 10, "{name}: {planted}");
}

#[test]
fn a_stale_unit_is_found() {
    is_found("stale", |task, _, before| {
        let Task::Read(_, first, units, Some(found)) = task else {
            return false;
        };
        let old = before.iter().rev().map(|truth| truth.read(*first, *units));
        let mut old = old.filter(|old| old.len() == found.len() && old != found);
        match old.next() {
            Some(old) => {
                *found = old;
                true
            }
            None => false,
        }
    });
}

#[test]
fn a_lost_append_is_found() {
    let mut lost: Option<usize> = None;
    is_found("lost append", move |task, truth, _| {
        // An append that was acknowledged and never came: the next one is where it should have been.
        match (task, lost) {
            (Task::Append(_, data, _), None) => {
                lost = Some(data.len());
                false
            }
            (Task::Append(_, data, at), Some(units)) => {
                let place = truth.0.len() - data.len();
                *at = Some(place - units.min(place).max(1));
                lost = None;
                place > 0
            }
            _ => false,
        }
    });
}

#[test]
fn a_size_that_is_off_by_one_is_found() {
    is_found("size", |task, _, _| {
        let Task::Stat(_, Some(units)) = task else {
            return false;
        };
        *units += 1;
        true
    });
    is_found("end of a read", |task, truth, _| {
        let Task::Read(_, first, units, Some(found)) = task else {
            return false;
        };
        let ends_early = found.len() < *units && *first < truth.0.len();
        if ends_early {
            found.pop();
        }
        ends_early
    });
}

#[test]
fn zeros_after_a_cut_that_hold_something_are_found() {
    is_found("resurrected bytes", |task, _, before| {
        let Task::Read(_, first, _, Some(found)) = task else {
            return false;
        };
        let Some(at) = found.iter().position(|unit| *unit == 0) else {
            return false;
        };
        let old = before
            .iter()
            .rev()
            .filter_map(|truth| truth.0.get(*first + at));
        let old = old.copied().find(|unit| *unit != 0);
        found[at] = old.unwrap_or(0);
        old.is_some()
    });
}

#[test]
fn bytes_of_another_file_are_found_and_named() {
    let objects = Objects::new(true);
    let (one, other) = (objects.object("/one", 0), objects.object("/other", 0));
    let write = |object: &Arc<Object>| {
        let mut data = vec![0; 16];
        let change = objects.begin_write(object, 0, 2 * UNIT, &mut data);
        objects.end_write(object, &change, 0, 2 * UNIT);
        data
    };
    let (own, others) = (write(&one), write(&other));
    let read = |data: &[u8]| {
        let look = objects.begin_look(&one);
        objects.end_read(&one, look, (0, 2 * UNIT), 2 * UNIT, data)
    };
    read(&own).unwrap();
    let wrong = read(&others).unwrap_err().to_string();
    assert!(
        wrong.contains("page 0 of /one") && wrong.contains("write 2, to /other"),
        "{wrong}"
    );
    // Two units that have changed places.
    let swapped = [&own[8..], &own[..8]].concat();
    assert!(
        read(&swapped)
            .unwrap_err()
            .to_string()
            .contains("unit 1 of write 1, to /one")
    );
    assert!(
        read(&[7; 16])
            .unwrap_err()
            .to_string()
            .contains("no write left")
    );
}

#[test]
fn a_torn_sector_is_found() {
    let objects = Objects::new(false);
    let object = objects.object("/f", 0);
    let write = || {
        let mut data = vec![0; 512];
        let change = objects.begin_write(&object, 0, 512, &mut data);
        objects.end_write(&object, &change, 0, 512);
        data
    };
    let (old, mut new) = (write(), write());
    new[256..].copy_from_slice(&old[256..]);
    let look = objects.begin_look(&object);
    let wrong = objects.end_read(&object, look, (0, 512), 512, &new);
    assert!(wrong.unwrap_err().to_string().contains("a mixture"));
}

/// Appends that overlap may come in either order; at one place they may not.
#[test]
fn appends_at_one_place_are_found() {
    let objects = Objects::new(true);
    for (places, is_right) in [
        ([0, 1], true),
        ([1, 0], true),
        ([0, 0], false),
        ([0, 2], false),
    ] {
        let object = objects.object("/log", 0);
        let begun = [(); 2].map(|()| objects.begin_append(&object, UNIT, &mut [0; 8]));
        let ended = begun.iter().zip(places).try_for_each(|(change, place)| {
            objects.end_append(&object, change, place * UNIT, UNIT)
        });
        let look = objects.begin_look(&object);
        let ended = ended.and_then(|()| objects.end_look(&object, look, 2 * UNIT));
        assert_eq!(ended.is_ok(), is_right, "{places:?}");
    }
}

/// A name under way: what was begun, and its answer once it has happened.
enum Naming {
    Change(super::names::Ticket, NameChange, Option<Answer>),
    Look(super::names::Ticket, Option<Seen>),
}

#[test]
fn right_answers_of_names_pass_however_operations_overlap() {
    for seed in 0..100 {
        let mut rng = Seed(seed).rng();
        let mut names = NameChecker::new(&["/n".into()], vec![State::Absent]);
        let (mut truth, mut files) = (None, 10);
        let tasks = 1 + seed % 7;
        let mut under_way: Vec<Option<Naming>> = (0..tasks).map(|_| None).collect();
        for _ in 0..500 {
            let at = rng.below(tasks) as usize;
            under_way[at] = match under_way[at].take() {
                None if rng.chance(1, 3) => Some(Naming::Look(names.begin_look(0), None)),
                None => {
                    let exclusive = rng.chance(1, 2);
                    let change = match rng.below(3) {
                        0 => NameChange::Remove,
                        _ => NameChange::Create { exclusive },
                    };
                    Some(Naming::Change(names.begin(0, change), change, None))
                }
                Some(Naming::Look(ticket, None)) => {
                    let seen = truth.map_or(Seen::Nothing, Seen::File);
                    Some(Naming::Look(ticket, Some(seen)))
                }
                Some(Naming::Look(ticket, Some(seen))) => {
                    names
                        .end_look(ticket, seen)
                        .unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
                    None
                }
                Some(Naming::Change(ticket, change, None)) => {
                    let answer = match (change, truth) {
                        (NameChange::Remove, Some(_)) => Answer::Done,
                        (NameChange::Remove, None) => Answer::Missing,
                        (NameChange::Create { exclusive: true }, Some(_)) => Answer::Taken,
                        (_, Some(file)) => Answer::Found(file),
                        (_, None) => {
                            files += 1;
                            Answer::Made(files)
                        }
                    };
                    truth = match answer {
                        Answer::Done => None,
                        Answer::Made(file) => Some(file),
                        _ => truth,
                    };
                    Some(Naming::Change(ticket, change, Some(answer)))
                }
                Some(Naming::Change(ticket, _, Some(answer))) => {
                    names
                        .end(ticket, answer)
                        .unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
                    None
                }
            };
        }
        assert!(tasks > 6 || names.unchecked == 0, "seed {seed}");
    }
}

#[test]
fn a_name_that_comes_back_is_found() {
    let mut names = NameChecker::new(&["/n".into()], vec![State::File(3)]);
    let remove = names.begin(0, NameChange::Remove);
    names.end(remove, Answer::Done).unwrap();
    let look = names.begin_look(0);
    let wrong = names.end_look(look, Seen::File(3)).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "wrong answer of /n: File(3), expected Absent"
    );
}

#[test]
fn wrong_answers_of_names_are_found() {
    let begin = || NameChecker::new(&["/n".into()], vec![State::Absent]);
    let create = NameChange::Create { exclusive: true };
    // Two of those who make it cannot both have made it.
    let mut names = begin();
    let both = [(); 2].map(|()| names.begin(0, create));
    names.end(both[0], Answer::Made(7)).unwrap();
    assert!(names.end(both[1], Answer::Made(8)).is_err());
    // Who came after cannot find nothing.
    let mut names = begin();
    let first = names.begin(0, create);
    names.end(first, Answer::Made(7)).unwrap();
    let remove = names.begin(0, NameChange::Remove);
    assert!(names.end(remove, Answer::Missing).is_err());
    // Another file of the name.
    let mut names = begin();
    let first = names.begin(0, create);
    names.end(first, Answer::Made(7)).unwrap();
    let look = names.begin_look(0);
    assert!(names.end_look(look, Seen::File(8)).is_err());
    // While it is made, it may be there or not; the maker has it.
    let mut names = begin();
    let first = names.begin(0, create);
    for seen in [Seen::Nothing, Seen::Something] {
        let look = names.begin_look(0);
        names.end_look(look, seen).unwrap();
    }
    names.end(first, Answer::Made(7)).unwrap();
    let look = names.begin_look(0);
    assert!(names.end_look(look, Seen::Nothing).is_err());
    // What was withdrawn has changed nothing.
    let mut names = begin();
    let first = names.begin(0, NameChange::Arrive);
    names.withdraw(first);
    let look = names.begin_look(0);
    names.end_look(look, Seen::Nothing).unwrap();
}
