//! Which queue pair, and so which core of the drive, a command goes by.
//!
//! What computes on a file without writing, or reads much of it, keeps a core for long, and needs nothing that others have there: it goes to the
//! core of its client, where other commands of the file go to one, and to those behind it while that has another one of this client. Each
//! client begins with another core, so that as many as there are cores have one each; in turn they would meet again and again.

use std::cell::Cell;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::driver::Driver;

/// How commands are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// All of a file to the same one, by its number; names by the directory that they are in.
    #[default]
    ByInode,
    /// In turn.
    RoundRobin,
    /// To the one with the fewest commands of this client.
    LeastLoaded,
    /// Reads in turn, all else as by [`Placement::ByInode`].
    ReadSpread,
}

/// What a command is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// It reads the bytes of a file.
    Read(u64),
    /// It computes on bytes of files, or reads many, and writes none.
    Long,
    /// Anything else with a file.
    File(u64),
    /// Names in the directory with this hash.
    Names(u64),
}

/// Queue pairs, one for each core of the drive.
pub(super) struct Lanes {
    drivers: Vec<(Rc<Driver>, Cell<u32>)>,
    placement: Placement,
    turn: Cell<usize>,
    /// The one of what keeps a core for long.
    own: usize,
}

/// A queue pair that has one more command until this is dropped.
pub(super) struct Lane<'a> {
    pub(super) driver: &'a Driver,
    lanes: &'a Lanes,
    index: usize,
}

impl Lane<'_> {
    /// Leaves the command with the queue pair, for [`Lanes::end`].
    pub(super) fn leave(self) -> usize {
        let index = self.index;
        std::mem::forget(self);
        index
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        self.lanes.end(self.index);
    }
}

impl Lanes {
    /// The drivers of all queue pairs.
    pub(super) fn drivers(&self) -> impl Iterator<Item = &Rc<Driver>> {
        self.drivers.iter().map(|(driver, _)| driver)
    }

    /// Those of a client that begins its turns with one of them: clients that all began with the same one would stay together.
    pub(super) fn new(drivers: Vec<Rc<Driver>>, placement: Placement, first: u32) -> Lanes {
        assert!(!drivers.is_empty(), "a client has a queue pair");
        let turn = first as usize % drivers.len();
        let drivers = drivers.into_iter().map(|driver| (driver, Cell::new(0)));
        Lanes {
            drivers: drivers.collect(),
            placement,
            turn: Cell::new(turn),
            own: turn,
        }
    }

    /// The queue pair for a command.
    pub(super) fn place(&self, about: About) -> Lane<'_> {
        let count = self.drivers.len();
        let index = match (self.placement, about) {
            _ if count == 1 => 0,
            (Placement::LeastLoaded, _) => self.least_loaded(0),
            (Placement::RoundRobin, _) | (Placement::ReadSpread, About::Read(_)) => {
                let turn = self.turn.get();
                self.turn.set((turn + 1) % count);
                turn
            }
            (_, About::Long) => self.least_loaded(self.own),
            (_, About::Read(of) | About::File(of) | About::Names(of)) => spread(of, count),
        };
        let (driver, under_way) = &self.drivers[index];
        under_way.set(under_way.get() + 1);
        Lane {
            driver,
            lanes: self,
            index,
        }
    }

    /// A command of a queue pair, which was [left](Lane::leave) with it, has ended.
    pub(super) fn end(&self, index: usize) {
        let (_, under_way) = &self.drivers[index];
        under_way.set(under_way.get() - 1);
    }

    /// The one with the fewest commands; of several the first, from one of them on.
    fn least_loaded(&self, from: usize) -> usize {
        let count = self.drivers.len();
        let all = (from..from + count).map(|index| index % count);
        let least = all.min_by_key(|index| self.drivers[*index].1.get());
        least.unwrap_or(from)
    }
}

/// One of `count`, by a number: neighbours are spread evenly.
fn spread(number: u64, count: usize) -> usize {
    (number % count as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_each_other_go_to_all_in_turn() {
        let lanes: Vec<usize> = (5..13).map(|number| spread(number, 4)).collect();
        assert_eq!(lanes, [1, 2, 3, 0, 1, 2, 3, 0]);
    }
}
