//! What names lead to, as far as it was seen.

use std::collections::BTreeMap;

/// A path from the root: `from` and then `name`, without what says nothing; `..` by text.
pub(super) fn tidy(from: &str, name: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in from.split('/').chain(name.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The names that were seen, and what each leads to.
#[derive(Default)]
pub(super) struct Tree {
    /// Of each number, the newest last.
    names: BTreeMap<u64, Vec<String>>,
    numbers: BTreeMap<String, u64>,
}

impl Tree {
    pub(super) fn name(&self, number: u64) -> Option<&str> {
        self.names.get(&number)?.last().map(String::as_str)
    }

    pub(super) fn learn(&mut self, number: u64, path: &str) {
        if self.numbers.get(path) != Some(&number) {
            self.forget(path);
            self.numbers.insert(path.into(), number);
            self.names.entry(number).or_default().push(path.into());
        }
    }

    pub(super) fn forget(&mut self, path: &str) {
        let Some(number) = self.numbers.remove(path) else {
            return;
        };
        let names = self.names.get_mut(&number).expect("it has this name");
        names.retain(|name| name != path);
        if names.is_empty() {
            self.names.remove(&number);
        }
    }

    /// What was moved has another name, and so has all that is below it.
    pub(super) fn moved(&mut self, from: &str, to: &str) {
        if from == to {
            return;
        }
        self.forget(to);
        let from_here = self.numbers.range(from.to_string()..);
        let moved = from_here.take_while(|(path, _)| path.starts_with(from));
        let moved: Vec<(String, u64)> = moved
            .filter(|(path, _)| matches!(path.as_bytes().get(from.len()), None | Some(b'/')))
            .map(|(path, number)| (path.clone(), *number))
            .collect();
        for (path, number) in moved {
            self.forget(&path);
            self.learn(number, &format!("{to}{}", &path[from.len()..]));
        }
    }
}
