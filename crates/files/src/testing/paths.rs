//! Random paths: most lead to what there is, some are odd.

use wharf_runtime::Rng;

use super::program::Bytes;
use super::taste::Taste;

const NAMES: [&[u8]; 5] = [b"a", b"b", b"c", b"d\xff", b"e e"];

/// Makes random paths.
pub(super) struct Paths {
    pub(super) rng: Rng,
    pub(super) taste: Taste,
    /// Paths where earlier steps have made something; the newest last.
    pub(super) made: Vec<Bytes>,
    /// Paths where they have made directories.
    pub(super) directories: Vec<Bytes>,
}

impl Paths {
    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.rng.below(all.len() as u64) as usize]
    }

    pub(super) fn name(&mut self) -> Bytes {
        if self.taste.is_odd && self.rng.chance(1, 60) {
            let bytes = self.one_of(&[255, 256]);
            return vec![b'n'; bytes];
        }
        self.one_of(&NAMES).to_vec()
    }

    pub(super) fn known(&mut self, of_directories: bool) -> Option<Bytes> {
        let list = match of_directories {
            true => &self.directories,
            false => &self.made,
        };
        let count = list.len() as u64;
        (count > 0).then(|| list[self.rng.below(count) as usize].clone())
    }

    /// A path to something, mostly.
    pub(super) fn path(&mut self) -> Bytes {
        let of_directories = self.rng.chance(1, 4);
        match self.rng.chance(3, 4).then(|| self.known(of_directories)) {
            Some(Some(mut path)) => {
                if self.rng.chance(1, 40) {
                    path.push(b'/');
                }
                path
            }
            _ => self.any_path(),
        }
    }

    /// A path where nothing is, mostly.
    pub(super) fn new_path(&mut self) -> Bytes {
        match self.rng.chance(1, 2).then(|| self.known(true)) {
            Some(Some(directory)) => {
                let name = self.name();
                [&directory[..], b"/", &name].concat()
            }
            _ => self.any_path(),
        }
    }

    /// Any path: mostly one or two names.
    pub(super) fn any_path(&mut self) -> Bytes {
        let rng = &mut self.rng;
        if self.taste.is_odd && rng.chance(1, 100) {
            return match rng.below(4) {
                0 => Vec::new(),
                1 if self.taste.is_rooted => b"/".to_vec(),
                2 => b"a/".repeat(2047),
                _ => b"./".repeat(2047 + rng.below(3) as usize),
            };
        }
        let is_absolute = self.taste.is_rooted && rng.chance(3, 4);
        let mut path = Vec::new();
        if is_absolute {
            path.push(b'/');
        }
        let depth = 1 + self.one_of(&[0, 0, 0, 0, 1, 1, 2, 3]);
        for level in 0..depth {
            if level > 0 {
                path.push(b'/');
            }
            match self.rng.below(40) {
                0 => path.extend_from_slice(b"."),
                1 if self.taste.is_rooted => path.extend_from_slice(b".."),
                2 if !path.is_empty() || is_absolute => path.extend_from_slice(b"/"),
                _ => path.extend_from_slice(&self.name()),
            }
        }
        if self.rng.chance(1, 25) {
            path.push(b'/');
        }
        match path.is_empty() {
            true => b".".to_vec(),
            false => path,
        }
    }

    /// What a symbolic link leads to: mostly something beside it.
    pub(super) fn link_target(&mut self) -> Bytes {
        match self.rng.below(20) {
            0 if self.taste.is_odd => Vec::new(),
            1 if self.taste.is_odd => vec![b'/'; 4096],
            2 if self.taste.is_odd && self.taste.is_rooted => b"/".to_vec(),
            3 if self.taste.is_odd && self.taste.is_rooted => b"..".to_vec(),
            4 => [&self.name()[..], b"/"].concat(),
            5..10 => self.path(),
            _ => self.name(),
        }
    }
}
