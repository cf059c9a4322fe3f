//! Paths that lead out of the drive by a symbolic link.
//!
//! The drive walks paths itself. A link to an absolute path leads it nowhere (`EREMOTE`): the path is one of the machine's. So
//! the call is made once more, with its paths resolved here, component by component: first but for the last component, and
//! then, if the call follows that too, all of it. That is slow, and seldom.

use std::cell::Cell;
use std::ffi::CString;

use crate::calls::names::read_link;
use crate::drive::setup;
use crate::errno::{Errno, Outcome};
use crate::find::{Found, Spot};
use crate::place::Leads;

/// Symbolic links that a path leads through at most.
const LINKS_MAX: u32 = 40;

/// How far paths are resolved before the drive is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolve {
    /// Not at all: the drive does it.
    Not,
    /// But for the last component.
    Parents,
    /// Whole.
    All,
}

thread_local! {
    static HOW: Cell<Resolve> = const { Cell::new(Resolve::Not) };
    static HAS_LEFT: Cell<bool> = const { Cell::new(false) };
}

/// The drive has said that a path leads out of it.
pub(crate) fn left() {
    HAS_LEFT.set(true);
}

/// Makes a call; again with its paths resolved, if they lead out of the drive.
#[inline(always)]
pub(crate) fn call<T>(make: impl Fn() -> T) -> T {
    let made = make();
    match HAS_LEFT.get() {
        false => made,
        true => again(make, made),
    }
}

#[cold]
fn again<T>(make: impl Fn() -> T, mut made: T) -> T {
    for how in [Resolve::Parents, Resolve::All] {
        if !HAS_LEFT.replace(false) || HOW.get() != Resolve::Not {
            break;
        }
        HOW.set(how);
        made = make();
        HOW.set(Resolve::Not);
    }
    if HAS_LEFT.replace(false) {
        // It cannot be resolved: links lead in a circle.
        crate::errno::set(Errno(libc::ELOOP));
    }
    made
}

/// A path of the drive, as far resolved as is to be.
pub(crate) fn resolved(spot: Spot) -> Found {
    let how = HOW.replace(Resolve::Not);
    let found = match how {
        Resolve::Not => Found::Drive(spot),
        _ => resolve(&spot, how).unwrap_or(Found::Drive(spot)),
    };
    HOW.set(how);
    found
}

/// Resolves the links of a path. What is not there ends it: the rest is as it was.
pub(crate) fn resolve(spot: &Spot, how: Resolve) -> Outcome<Found> {
    let mut rest: Vec<Vec<u8>> = parts(&spot.text());
    let mut done: Vec<Vec<u8>> = Vec::new();
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == b".." {
            if done.pop().is_none() {
                return above(rest);
            }
            continue;
        }
        done.push(part);
        if rest.is_empty() && how == Resolve::Parents {
            break;
        }
        let target = match read_link(&Spot::at_root(&done.join(&b'/'))) {
            Ok(target) => target,
            Err(Errno(libc::EINVAL)) => continue,
            Err(_) => break,
        };
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno(libc::ELOOP));
        }
        done.pop();
        if target.first() == Some(&b'/') {
            done.clear();
            let place = &setup().ok_or(Errno(libc::ENOENT))?.place;
            match place.of(&target) {
                Leads::Inside(inside) => rest.extend(parts(&inside)),
                Leads::Outside | Leads::Out(_) => {
                    rest.reverse();
                    let behind = rest.join(&b'/');
                    let whole = match behind.is_empty() {
                        true => target,
                        false => [&target[..], b"/", &behind].concat(),
                    };
                    return Ok(Found::Elsewhere(
                        CString::new(whole).map_err(|_| Errno(libc::EINVAL))?,
                    ));
                }
            }
        } else {
            rest.extend(parts(&target));
        }
    }
    rest.reverse();
    done.extend(rest);
    Ok(Found::Drive(Spot::at_root(&done.join(&b'/'))))
}

/// Where the rest of a path leads from above the root of the drive.
fn above(mut rest: Vec<Vec<u8>>) -> Outcome<Found> {
    rest.reverse();
    let place = &setup().ok_or(Errno(libc::ENOENT))?.place;
    let whole = [place.text(), b"/../", &rest.join(&b'/')].concat();
    match place.of(&whole) {
        Leads::Inside(inside) => Ok(Found::Drive(Spot::at_root(&inside))),
        Leads::Out(path) => Ok(Found::Elsewhere(
            CString::new(path).map_err(|_| Errno(libc::EINVAL))?,
        )),
        Leads::Outside => Err(Errno(libc::ENOENT)),
    }
}

/// The components of a path, the last one first.
fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    let all = path.rsplit(|byte| *byte == b'/');
    let all = all.filter(|part| !part.is_empty() && *part != b".");
    all.map(<[u8]>::to_vec).collect()
}
