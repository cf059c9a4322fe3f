//! Open files by handles: places that are used again, each time with another generation.

use crate::errno::Errno;
use crate::flags::Handle;

/// What is open, by handle. A handle that was closed is not one again for 2^32 openings of its
/// place.
#[derive(Debug)]
pub struct HandleTable<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
    most: usize,
    first_generation: u32,
}

impl<T> HandleTable<T> {
    /// An empty table for at most `most` handles, whose first generations are `first_generation`.
    pub fn new(most: usize, first_generation: u32) -> HandleTable<T> {
        HandleTable {
            places: Vec::new(),
            free: Vec::new(),
            most,
            first_generation,
        }
    }

    /// Whether one more can be opened.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() || self.places.len() < self.most
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Enters something.
    ///
    /// # Errors
    /// `ENFILE` if there is no room: it is given back.
    pub fn insert(&mut self, open: T) -> Result<Handle, (Errno, T)> {
        if !self.has_room() {
            return Err((Errno::ENFILE, open));
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((self.first_generation, None));
            self.places.len() as u32 - 1
        });
        let (generation, place) = &mut self.places[index as usize];
        *place = Some(open);
        Ok(Handle {
            index,
            generation: *generation,
        })
    }

    /// What a handle stands for.
    ///
    /// # Errors
    /// `EBADF` if it stands for nothing, or does not any more.
    #[inline]
    pub fn get(&self, handle: Handle) -> Result<&T, Errno> {
        match self.places.get(handle.index as usize) {
            Some((generation, Some(open))) if *generation == handle.generation => Ok(open),
            _ => Err(Errno::EBADF),
        }
    }

    /// Takes out what a handle stands for.
    ///
    /// # Errors
    /// As [`HandleTable::get`].
    pub fn remove(&mut self, handle: Handle) -> Result<T, Errno> {
        self.get(handle)?;
        let (generation, place) = &mut self.places[handle.index as usize];
        *generation = generation.wrapping_add(1);
        self.free.push(handle.index);
        place.take().ok_or(Errno::EBADF)
    }

    /// Takes out everything.
    pub fn drain(&mut self) -> Vec<T> {
        let mut all = Vec::new();
        for (index, (generation, place)) in self.places.iter_mut().enumerate() {
            if let Some(open) = place.take() {
                *generation = generation.wrapping_add(1);
                self.free.push(index as u32);
                all.push(open);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_that_was_closed_stands_for_nothing() {
        let mut table = HandleTable::new(2, u32::MAX);
        let first = table.insert('a').unwrap();
        let second = table.insert('b').unwrap();
        assert_eq!(table.insert('c'), Err((Errno::ENFILE, 'c')));
        assert_eq!(table.remove(first), Ok('a'));
        assert_eq!(table.remove(first), Err(Errno::EBADF));
        let third = table.insert('d').unwrap();
        assert_eq!(third.index, first.index);
        assert_eq!(table.get(first), Err(Errno::EBADF));
        assert_eq!((table.get(second), table.get(third)), (Ok(&'b'), Ok(&'d')));
        let unknown = Handle {
            index: 9,
            generation: 0,
        };
        assert_eq!(table.get(unknown), Err(Errno::EBADF));
        assert_eq!(table.count(), 2);
        assert_eq!(table.drain(), ['d', 'b']);
        assert_eq!((table.count(), table.get(second)), (0, Err(Errno::EBADF)));
    }
}
