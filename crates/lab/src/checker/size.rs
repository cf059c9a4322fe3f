//! What the size of a file may be while operations that change it overlap.

/// What an operation does to the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SizeChange {
    /// It is at least this.
    Extend(u64),
    /// So much more.
    Append(u64),
    /// It is this.
    Cut(u64),
}

/// A look at the size under way, and the bounds since it began.
#[derive(Debug, Clone, Copy)]
struct Looking {
    began: u64,
    least: u64,
    most: u64,
    /// Whether something that changes the size was under way meanwhile.
    is_disturbed: bool,
}

/// An append that has ended: its interval in time, and its bytes.
#[derive(Debug, Clone, Copy)]
struct Appended {
    ended: u64,
    first: u64,
    end: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    least: u64,
    most: u64,
    /// Operations under way that change it.
    changing: u32,
    /// Bytes of the appends among them.
    appending: u64,
    /// The upper bound when the first of them began.
    most_before: u64,
    /// Whether one of them, or one that has overlapped them, is a cut.
    is_cut: bool,
    /// Whether several have overlapped.
    are_several: bool,
    looking: Vec<Looking>,
    /// Appends that may have overlapped one under way.
    appended: Vec<Appended>,
}

impl Sizes {
    pub(super) fn new(bytes: u64) -> Sizes {
        Sizes {
            least: bytes,
            most: bytes,
            ..Sizes::default()
        }
    }

    /// The bounds are wider.
    fn widen(&mut self, least: u64, most: u64) {
        self.least = self.least.min(least);
        self.most = self.most.max(most);
        for looking in &mut self.looking {
            looking.least = looking.least.min(self.least);
            looking.most = looking.most.max(self.most);
        }
    }

    /// Something that changes the size begins; gives the least size now.
    pub(super) fn begin(&mut self, change: SizeChange) -> u64 {
        let least = self.least;
        if self.changing == 0 {
            self.most_before = self.most;
            (self.is_cut, self.are_several) = (false, false);
            self.appended.clear();
        }
        self.are_several |= self.changing > 0;
        self.changing += 1;
        self.looking
            .iter_mut()
            .for_each(|looking| looking.is_disturbed = true);
        match change {
            // Appends under way may come behind it.
            SizeChange::Extend(end) => self.widen(self.least, end + self.appending),
            SizeChange::Append(bytes) => {
                self.appending += bytes;
                self.widen(self.least, self.most + bytes);
            }
            SizeChange::Cut(bytes) => {
                self.is_cut = true;
                self.widen(bytes, bytes + self.appending);
            }
        }
        least
    }

    pub(super) fn end(&mut self, change: SizeChange) {
        self.changing -= 1;
        match change {
            SizeChange::Extend(end) if !self.is_cut => self.least = self.least.max(end),
            SizeChange::Cut(bytes) if !self.are_several => {
                (self.least, self.most) = (bytes, bytes);
            }
            _ => {}
        }
        if self.changing == 0 && !self.is_cut {
            // All of them are known.
            self.most = self.most_before.max(self.least);
        }
    }

    /// An append has ended at `offset` that began when the size was `least_then` or more; what is wrong with that, if something is: what
    /// is expected, and what was found.
    pub(super) fn end_append(
        &mut self,
        (began, now): (u64, u64),
        least_then: u64,
        offset: u64,
        bytes: u64,
    ) -> Result<(), (String, String)> {
        let end = offset + bytes;
        self.appending -= bytes;
        let found = || format!("an append of {bytes} bytes at byte {offset}");
        let meets =
            |other: &Appended| other.ended > began && other.first < end && offset < other.end;
        let twice = self.appended.iter().find(|other| meets(other)).copied();
        if let (Some(other), false) = (twice, self.is_cut) {
            let expected = format!(
                "none where another one wrote bytes {} to {}",
                other.first, other.end
            );
            return Err((expected, found()));
        }
        let is_alone = !self.are_several;
        let (least, most) = (self.least, self.most.saturating_sub(bytes));
        let is_possible = match is_alone {
            true => (least..=most).contains(&offset),
            // Others may have come before it or after; but none cuts off what was there when it began.
            false => offset <= most && (self.is_cut || offset >= least_then),
        };
        if !is_possible {
            return Err((format!("one at byte {}", range(least, most)), found()));
        }
        self.appended.push(Appended {
            ended: now,
            first: offset,
            end,
        });
        if is_alone {
            (self.least, self.most) = (end, end);
            self.most_before = end;
        }
        self.end(SizeChange::Extend(end));
        Ok(())
    }

    pub(super) fn begin_look(&mut self, began: u64) {
        self.looking.push(Looking {
            began,
            least: self.least,
            most: self.most,
            is_disturbed: self.changing > 0,
        });
    }

    /// A look has ended. `judge` says of the bounds whether what it found lies within, and which size it was if that is known. Else the
    /// bounds are given back.
    pub(super) fn end_look(
        &mut self,
        began: u64,
        judge: impl FnOnce(u64, u64) -> (bool, Option<u64>),
    ) -> Result<(), String> {
        let at = self
            .looking
            .iter()
            .position(|looking| looking.began == began);
        let looking = self.looking.swap_remove(at.expect("it has begun"));
        let (is_right, size) = judge(looking.least, looking.most);
        if !is_right {
            return Err(format!("{} bytes", range(looking.least, looking.most)));
        }
        if let Some(size) = size
            && !looking.is_disturbed
        {
            (self.least, self.most) = (size, size);
        }
        Ok(())
    }
}

fn range(least: u64, most: u64) -> String {
    match least == most {
        true => least.to_string(),
        false => format!("{least} to {most}"),
    }
}
