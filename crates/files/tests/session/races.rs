//! Sessions that take turns in the middle of their operations: what was seen is not so any more
//! when something is done.

use std::cell::RefCell;
use std::rc::Rc;

use wharf_files::Errno::{self, *};
use wharf_files::block_on;
use wharf_files::model::Model;
use wharf_files::testing::program::callers;
use wharf_files::testing::random::Steps;
use wharf_files::testing::subject::{Subject, Users};
use wharf_files::testing::taste::Taste;
use wharf_files::testing::turns::{TakingTurns, Task, interleave};
use wharf_files::testing::view::view;
use wharf_files::vfs::{Session, SessionLimits, Target};
use wharf_files::{Caller, FileSystem, Kind, OpenFlags, Place, Rename};
use wharf_runtime::Seed;

use crate::{NEW, NOW_NS, errno, make, new_root, path, session, target};

type Turns = Rc<TakingTurns<Rc<Model>>>;

fn taking_turns(model: &Rc<Model>) -> Turns {
    Rc::new(TakingTurns::new(model.clone()))
}

fn user(turns: &Turns, uid: u32) -> Session<Turns> {
    let caller = Caller::user(uid, uid);
    Session::new(turns.clone(), caller, SessionLimits::default())
}

/// Answers of tasks, in the order in which they came.
type Answers = RefCell<Vec<(&'static str, Result<(), Errno>)>>;

fn answer<'a, T>(
    answers: &'a Answers,
    name: &'static str,
    operation: impl Future<Output = Result<T, wharf_files::FileError>> + 'a,
) -> Task<'a> {
    Box::pin(async move {
        let answer = errno(operation.await);
        answers.borrow_mut().push((name, answer));
    })
}

fn answer_of(answers: &Answers, name: &str) -> Result<(), Errno> {
    let answers = answers.borrow();
    let found = answers.iter().find(|(of, _)| *of == name);
    found.expect("all have ended").1
}

/// In a sticky directory a user removes his file; at the same time another one puts his own in its
/// place.
#[test]
fn nobody_removes_what_became_somebody_elses() {
    let (mut removed, mut refused) = (0, 0);
    for seed in 0..500 {
        let model = new_root();
        block_on(async {
            let root = session(&model, Caller::root());
            root.mkdir(NOW_NS, path("/t"), 0o777).await.unwrap();
            root.chmod(NOW_NS, target("/t"), 0o1777).await.unwrap();
            make(&session(&model, Caller::user(5, 5)), "/t/x", b"").await;
            make(&session(&model, Caller::user(6, 6)), "/t/y", b"").await;
        });
        let turns = taking_turns(&model);
        let (five, six, root) = (user(&turns, 5), user(&turns, 6), user(&turns, 0));
        let answers = Answers::default();
        let how = Rename::Exchange;
        let remove = five.unlink(NOW_NS, path("/t/x"));
        let replace = root.rename(NOW_NS, path("/t/x"), path("/t/y"), how);
        let tasks = vec![
            answer(&answers, "remove", remove),
            answer(&answers, "exchange", replace),
        ];
        interleave(tasks, &mut Seed(seed).rng());
        drop(six);
        let left = block_on(view(&*model)).unwrap();
        let owners = left.0.values().map(|seen| seen.look.owner.uid);
        assert!(owners.into_iter().any(|uid| uid == 6), "seed {seed}");
        match answer_of(&answers, "remove") {
            Ok(()) => removed += 1,
            errno => {
                assert_eq!(errno, Err(EPERM), "seed {seed}");
                refused += 1;
            }
        }
    }
    assert!(removed > 20 && refused > 20, "{removed} {refused}");
}

#[test]
fn of_two_who_make_the_same_name_one_makes_it() {
    for seed in 0..300 {
        let model = new_root();
        let turns = taking_turns(&model);
        let (one, two) = (user(&turns, 5), user(&turns, 0));
        let answers = Answers::default();
        let exclusive = seed % 2 == 0;
        let flags = if exclusive { NEW } else { OpenFlags::CREATE };
        let tasks = vec![
            answer(&answers, "one", one.open(NOW_NS, path("/f"), flags, 0o666)),
            answer(&answers, "two", two.open(NOW_NS, path("/f"), flags, 0o666)),
            answer(&answers, "three", two.mkdir(NOW_NS, path("/d"), 0o755)),
            answer(&answers, "four", two.mkdir(NOW_NS, path("/d"), 0o755)),
        ];
        interleave(tasks, &mut Seed(seed).rng());
        let both = [answer_of(&answers, "one"), answer_of(&answers, "two")];
        match exclusive {
            true => assert!(both.contains(&Ok(())) && both.contains(&Err(EEXIST))),
            // Who finds it made meanwhile opens it.
            false => assert_eq!(both, [Ok(()), Ok(())], "seed {seed}"),
        }
        let both = [answer_of(&answers, "three"), answer_of(&answers, "four")];
        assert!(both.contains(&Ok(())) && both.contains(&Err(EEXIST)));
    }
}

/// `a` into `b` and `b` into `a`: one of the two, or both would be gone.
#[test]
fn directories_never_come_into_each_other() {
    let mut both_refused = 0;
    for seed in 0..500 {
        let model = new_root();
        block_on(async {
            let root = session(&model, Caller::root());
            for name in ["/a", "/b", "/a/c", "/b/d"] {
                root.mkdir(NOW_NS, path(name), 0o755).await.unwrap();
            }
        });
        let turns = taking_turns(&model);
        let root = user(&turns, 0);
        let answers = Answers::default();
        let how = Rename::Replace;
        let into_b = root.rename(NOW_NS, path("/a"), path("/b/d/a"), how);
        let into_a = root.rename(NOW_NS, path("/b"), path("/a/c/b"), how);
        let tasks = vec![answer(&answers, "a", into_b), answer(&answers, "b", into_a)];
        interleave(tasks, &mut Seed(seed).rng());
        let done = ["a", "b"].map(|name| answer_of(&answers, name));
        let left = block_on(view(&*model)).unwrap();
        assert_eq!(left.0.len(), 5, "seed {seed}: {done:?}");
        assert!(done.contains(&Ok(())), "seed {seed}: {done:?}");
        both_refused += u32::from(!done.contains(&Ok(())));
    }
    assert_eq!(both_refused, 0);
}

#[test]
fn no_append_is_lost_or_written_over() {
    for seed in 0..50 {
        let model = new_root();
        block_on(make(&session(&model, Caller::root()), "/log", b""));
        let turns = taking_turns(&model);
        let users: Vec<_> = (0..4).map(|_| user(&turns, 0)).collect();
        let append = OpenFlags {
            append: true,
            ..OpenFlags::UPDATE
        };
        let tasks = users.iter().zip(1u8..).map(|(user, byte)| -> Task<'_> {
            Box::pin(async move {
                let log = user.open(NOW_NS, path("/log"), append, 0).await.unwrap();
                for _ in 0..20 {
                    let (place, bytes) = (Place::At(0), [byte; 7]);
                    let written = user.write(NOW_NS, log.handle, place, &bytes).await;
                    assert_eq!(written.unwrap().bytes, 7);
                }
                user.close(log.handle).await.unwrap();
            })
        });
        interleave(tasks.collect(), &mut Seed(seed).rng());
        let left = block_on(view(&*model)).unwrap();
        let bytes = &left.0[&b"/log"[..]].pages[&0];
        assert_eq!(bytes.len(), 4 * 20 * 7);
        for part in bytes.chunks(7) {
            assert!(part.iter().all(|byte| *byte == part[0]), "seed {seed}");
        }
    }
}

/// An entry that is there all the time is listed once, whatever is made and removed beside it.
#[test]
fn a_listing_has_what_was_there_throughout_once() {
    for seed in 0..100 {
        let model = new_root();
        block_on(async {
            let root = session(&model, Caller::root());
            for number in 0..20 {
                make(&root, &format!("/stays-{number}"), b"").await;
                make(&root, &format!("/goes-{number}"), b"").await;
            }
        });
        let turns = taking_turns(&model);
        let (lister, other) = (user(&turns, 0), user(&turns, 0));
        let listed = RefCell::new(Vec::new());
        let list: Task<'_> = Box::pin(async {
            let opened = lister
                .open(NOW_NS, path("/"), OpenFlags::DIRECTORY, 0)
                .await;
            let handle = opened.unwrap().handle;
            let (mut all, mut cookie, mut is_end) = (Vec::new(), 0, false);
            while !is_end {
                is_end = lister.list(handle, cookie, 3, &mut all).await.unwrap();
                cookie = all.last().map_or(cookie, |entry| entry.cookie);
            }
            let names = all.into_iter().map(|entry| entry.name.to_vec());
            *listed.borrow_mut() = names.collect();
        });
        let change: Task<'_> = Box::pin(async {
            for number in 0..20 {
                let goes = format!("/goes-{number}");
                other.unlink(NOW_NS, path(&goes)).await.unwrap();
                let comes = format!("/comes-{number}");
                other.mkdir(NOW_NS, path(&comes), 0o700).await.unwrap();
            }
        });
        interleave(vec![list, change], &mut Seed(seed).rng());
        let mut listed = listed.take();
        listed.retain(|name| name.starts_with(b"stays-"));
        listed.sort();
        listed.dedup();
        assert_eq!(listed.len(), 20, "seed {seed}");
    }
}

/// Whatever users do at the same time, the tree is one afterwards, and nobody gets an answer that
/// nobody gives.
#[test]
fn random_programs_beside_each_other_leave_a_tree() {
    for seed in 0..60 {
        let model = new_root();
        let turns = taking_turns(&model);
        let mut users: Vec<_> = (0..4)
            .map(|_| Users::new(&turns, &callers(), SessionLimits::default()))
            .collect();
        let tasks = users
            .iter_mut()
            .zip(0..)
            .map(|(users, number)| -> Task<'_> {
                let rng = Seed(seed).index(number).rng();
                let program = Steps::new(rng, Taste::default()).program(80);
                Box::pin(async move {
                    for step in &program {
                        let answer = users.step(step, NOW_NS).await;
                        assert!(!answer.is(ESTALE), "{step}");
                    }
                    users.close_all().await.unwrap();
                })
            });
        interleave(tasks.collect(), &mut Seed(seed).rng());
        assert!(turns.turns() > 500);
        check_tree(&model);
    }
}

/// Links are as many as there are names, and directories are where their `..` says.
fn check_tree(model: &Rc<Model>) {
    let all = block_on(view(&**model)).unwrap();
    for (path, seen) in &all.0 {
        let names = all.0.values().filter(|other| other.number == seen.number);
        let below = all.0.iter().filter(|(other, found)| {
            let parent = other.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            let parent = if parent == 0 { b"/" } else { &other[..parent] };
            found.look.kind == Kind::Directory && parent == &path[..] && other.len() > 1
        });
        let links = match seen.look.kind {
            Kind::Directory => 2 + below.count(),
            _ => names.count(),
        };
        assert_eq!(seen.look.links as usize, links, "{}", path.escape_ascii());
        if seen.look.kind == Kind::Directory {
            let parent = block_on(model.lookup(seen.number, b"..")).unwrap();
            assert!(parent.is_directory());
        }
        let session = session(model, Caller::root());
        let found = block_on(session.stat(Target::Path((&path[..]).into(), false)));
        assert_eq!(found.unwrap().number, seen.number);
    }
}
