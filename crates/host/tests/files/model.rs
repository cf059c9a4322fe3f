//! A file system as maps from whole paths: slow and plain, and unlike the one that is tested.

use std::collections::{BTreeMap, BTreeSet};

use wharf_host::files::Errno::{self, *};

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    Directory,
    File(usize),
    Symlink(String),
}

/// All names by their whole, plain paths; the root is the empty one.
#[derive(Debug, Clone)]
pub struct Model {
    pub objects: BTreeMap<String, Object>,
    /// Contents of files; those that were removed stay for who has them open.
    pub contents: Vec<Vec<u8>>,
}

/// The plain path of a name, and whether something else than a name was last, or a slash.
struct Place {
    plain: String,
    is_name: bool,
    is_dot: Option<bool>,
    slash: bool,
}

impl Model {
    pub fn new() -> Model {
        Model {
            objects: BTreeMap::from([(String::new(), Object::Directory)]),
            contents: Vec::new(),
        }
    }

    fn is_directory(&self, plain: &str) -> bool {
        self.objects.get(plain) == Some(&Object::Directory)
    }

    fn parent(plain: &str) -> String {
        plain
            .rsplit_once('/')
            .map_or("", |(parent, _)| parent)
            .into()
    }

    /// `follow`: what is done with a link at the end: 0 it is what is meant, 1 followed before a slash, 2 followed.
    fn place(&self, path: &str, follow: u32, budget: &mut u32) -> Result<Place, Errno> {
        if path.is_empty() {
            return Err(ENOENT);
        }
        self.place_from(String::new(), path, follow, budget)
    }

    fn place_from(
        &self,
        start: String,
        path: &str,
        follow: u32,
        budget: &mut u32,
    ) -> Result<Place, Errno> {
        let slash = path.ends_with('/');
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let mut at = if path.starts_with('/') {
            String::new()
        } else {
            start
        };
        for (index, part) in parts.iter().enumerate() {
            if !self.is_directory(&at) {
                return Err(if self.objects.contains_key(&at) {
                    ENOTDIR
                } else {
                    ENOENT
                });
            }
            let is_last = index + 1 == parts.len();
            if *part == "." || *part == ".." {
                if *part == ".." {
                    at = Model::parent(&at);
                }
                if is_last {
                    return Ok(Place {
                        plain: at,
                        is_name: false,
                        is_dot: Some(*part == "."),
                        slash,
                    });
                }
                continue;
            }
            if part.len() > 255 {
                return Err(ENAMETOOLONG);
            }
            let here = format!("{at}/{part}");
            let follows = !is_last || follow == 2 || follow == 1 && slash;
            if let Some(Object::Symlink(target)) = self.objects.get(&here)
                && follows
            {
                *budget = budget.checked_sub(1).ok_or(ELOOP)?;
                let rest = parts[index + 1..].join("/");
                let tail = if slash { "/" } else { "" };
                let joined = if rest.is_empty() {
                    format!("{target}{tail}")
                } else {
                    format!("{target}/{rest}{tail}")
                };
                return self.place_from(at, &joined, follow, budget);
            }
            if is_last {
                return Ok(Place {
                    plain: here,
                    is_name: true,
                    is_dot: None,
                    slash,
                });
            }
            at = here;
        }
        Ok(Place {
            plain: at,
            is_name: false,
            is_dot: None,
            slash,
        })
    }

    fn at(&self, path: &str, follow: u32) -> Result<Place, Errno> {
        let place = self.place(path, follow, &mut 40)?;
        Ok(place)
    }

    fn existing(&self, path: &str, follow: bool) -> Result<String, Errno> {
        let place = self.at(path, if follow { 2 } else { 1 })?;
        match self.objects.get(&place.plain) {
            None => Err(ENOENT),
            Some(object) if place.slash && *object != Object::Directory => Err(ENOTDIR),
            Some(_) => Ok(place.plain),
        }
    }

    fn vacant(&self, path: &str, slash_is_fine: bool) -> Result<String, Errno> {
        let place = self.at(path, 0)?;
        match self.objects.get(&place.plain) {
            Some(_) => Err(EEXIST),
            None if place.slash && !slash_is_fine => Err(ENOENT),
            None => Ok(place.plain),
        }
    }

    /// Opens for reading and writing; the number of the content.
    pub fn open(
        &mut self,
        path: &str,
        [create, exclusive, cut]: [bool; 3],
    ) -> Result<usize, Errno> {
        let place = self.at(path, if create && exclusive { 0 } else { 2 })?;
        if create && place.slash {
            return Err(EISDIR);
        }
        let file = match self.objects.get(&place.plain) {
            None if create => {
                self.contents.push(Vec::new());
                let file = self.contents.len() - 1;
                self.objects.insert(place.plain, Object::File(file));
                return Ok(file);
            }
            None => return Err(ENOENT),
            Some(_) if create && exclusive => return Err(EEXIST),
            Some(Object::Directory) => return Err(EISDIR),
            Some(Object::Symlink(_)) => return Err(ELOOP),
            Some(Object::File(_)) if place.slash => return Err(ENOTDIR),
            Some(Object::File(file)) => *file,
        };
        if cut {
            self.contents[file].clear();
        }
        Ok(file)
    }

    pub fn mkdir(&mut self, path: &str) -> Result<(), Errno> {
        let plain = self.vacant(path, true)?;
        self.objects.insert(plain, Object::Directory);
        Ok(())
    }

    pub fn symlink(&mut self, target: &str, path: &str) -> Result<(), Errno> {
        if target.is_empty() {
            return Err(ENOENT);
        }
        let plain = self.vacant(path, false)?;
        self.objects.insert(plain, Object::Symlink(target.into()));
        Ok(())
    }

    pub fn readlink(&self, path: &str) -> Result<String, Errno> {
        match &self.objects[&self.existing(path, false)?] {
            Object::Symlink(target) => Ok(target.clone()),
            _ => Err(EINVAL),
        }
    }

    pub fn link(&mut self, from: &str, to: &str) -> Result<(), Errno> {
        let from = self.existing(from, false)?;
        let to = self.vacant(to, false)?;
        let object = self.objects[&from].clone();
        if object == Object::Directory {
            return Err(EPERM);
        }
        self.objects.insert(to, object);
        Ok(())
    }

    pub fn rmdir(&mut self, path: &str) -> Result<(), Errno> {
        let place = self.at(path, 0)?;
        match place.is_dot {
            Some(true) => return Err(EINVAL),
            Some(false) => return Err(ENOTEMPTY),
            None if !place.is_name => return Err(EBUSY),
            None => {}
        }
        match self.objects.get(&place.plain) {
            None => return Err(ENOENT),
            Some(Object::Directory) => {}
            Some(_) => return Err(ENOTDIR),
        }
        if !self.names_in(&place.plain).is_empty() {
            return Err(ENOTEMPTY);
        }
        self.objects.remove(&place.plain);
        Ok(())
    }

    pub fn remove(&mut self, path: &str) -> Result<(), Errno> {
        let place = self.at(path, 0)?;
        match self.objects.get(&place.plain) {
            _ if !place.is_name => Err(EISDIR),
            None => Err(ENOENT),
            Some(Object::Directory) => Err(EISDIR),
            Some(_) if place.slash => Err(ENOTDIR),
            Some(_) => {
                self.objects.remove(&place.plain);
                Ok(())
            }
        }
    }

    pub fn rename(&mut self, from: &str, to: &str, replaces: bool) -> Result<(), Errno> {
        let (old, new) = (self.at(from, 0)?, self.at(to, 0)?);
        if !old.is_name {
            return Err(EBUSY);
        }
        if !new.is_name {
            return Err(if replaces { EBUSY } else { EEXIST });
        }
        let object = self.objects.get(&old.plain).cloned().ok_or(ENOENT)?;
        let target = self.objects.get(&new.plain).cloned();
        if target.is_some() && !replaces {
            return Err(EEXIST);
        }
        let is_directory = object == Object::Directory;
        if !is_directory && (old.slash || new.slash) {
            return Err(ENOTDIR);
        }
        let within =
            |inner: &str, outer: &str| inner == outer || inner.starts_with(&format!("{outer}/"));
        if is_directory && within(&Model::parent(&new.plain), &old.plain) {
            return Err(EINVAL);
        }
        if target.is_some() && within(&Model::parent(&old.plain), &new.plain) {
            return Err(ENOTEMPTY);
        }
        let same = match (&object, &target) {
            (Object::File(one), Some(Object::File(other))) => one == other,
            _ => old.plain == new.plain,
        };
        if same {
            return Ok(());
        }
        match &target {
            Some(Object::Directory) if !is_directory => return Err(EISDIR),
            Some(Object::Directory) if !self.names_in(&new.plain).is_empty() => {
                return Err(ENOTEMPTY);
            }
            Some(other) if is_directory && *other != Object::Directory => return Err(ENOTDIR),
            _ => {}
        }
        let moved: Vec<String> = self
            .objects
            .keys()
            .filter(|path| within(path, &old.plain))
            .cloned()
            .collect();
        for path in moved {
            let object = self.objects.remove(&path).expect("just listed");
            let tail = &path[old.plain.len()..];
            self.objects.insert(format!("{}{tail}", new.plain), object);
        }
        Ok(())
    }

    /// Names in a directory, by its plain path.
    pub fn names_in(&self, plain: &str) -> BTreeSet<String> {
        let below = format!("{plain}/");
        let names = self
            .objects
            .keys()
            .filter_map(|path| path.strip_prefix(&below));
        names
            .filter(|name| !name.contains('/'))
            .map(String::from)
            .collect()
    }

    pub fn list(&self, path: &str) -> Result<BTreeSet<String>, Errno> {
        let plain = self.existing(path, true)?;
        match self.objects[&plain] {
            Object::Directory => Ok(self.names_in(&plain)),
            _ => Err(ENOTDIR),
        }
    }

    /// What there is, its bytes, and how many names a file has.
    pub fn stat(&self, path: &str, follow: bool) -> Result<(Object, u64, usize), Errno> {
        let plain = self.existing(path, follow)?;
        let object = self.objects[&plain].clone();
        let bytes = match &object {
            Object::Directory => self.names_in(&plain).len(),
            Object::File(file) => self.contents[*file].len(),
            Object::Symlink(target) => target.len(),
        };
        let names = match &object {
            Object::Directory => {
                let directories = self.names_in(&plain).into_iter();
                2 + directories
                    .filter(|name| self.is_directory(&format!("{plain}/{name}")))
                    .count()
            }
            Object::File(_) => self
                .objects
                .values()
                .filter(|other| **other == object)
                .count(),
            // Several links with one target may be one, or not: the model does not tell.
            Object::Symlink(_) => 0,
        };
        Ok((object, bytes as u64, names))
    }
}
