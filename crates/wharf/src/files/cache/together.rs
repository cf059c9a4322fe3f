//! What threads of this process ask of the drive while others of them change it.
//!
//! Problem: an answer that is kept has to be so when it is kept. That others have changed something a lease tells, but not that this
//! process has: its own changes end none of its leases. A thread may change a file after the drive has answered another one, and before that
//! one keeps the answer.
//!
//! 1. Who is going to keep an answer [asks](Together::ask) first. If this process has changed what is asked for from then on, or was
//!    amid changing it, the answer is not kept ([`Together::is_so`]).
//! 2. Who sends a change [begins](Together::begin) it, and [ends](Together::end) it when what is kept has it too. In between others may see it already,
//!    and so nothing that is kept of it is used ([`Together::changes_file`]).
//!
//! Both are few: as many as threads wait for commands.

/// What of the drive a change is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::files) enum Part {
    /// Bytes and attributes of the file of this number.
    File(u64),
    /// Names, and what a path leads to.
    Names,
    /// Any of these.
    All,
}

/// What somebody asks, until the answer is kept.
struct Question {
    number: u64,
    /// Of which file; none if it is asked what a path leads to, which may be any.
    file: Option<u64>,
    /// Nothing of its file, or of any, has changed.
    is_file_so: bool,
    /// No name has changed.
    are_names_so: bool,
}

impl Question {
    fn note(&mut self, part: Part) {
        match part {
            Part::File(number) => self.is_file_so &= self.file.is_some_and(|file| file != number),
            Part::Names => self.are_names_so = false,
            Part::All => (self.is_file_so, self.are_names_so) = (false, false),
        }
    }
}

/// The number of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::files) struct Asked(u64);

impl Asked {
    /// That of nobody, where nothing is kept.
    pub(in crate::files) const NONE: Asked = Asked(0);
}

/// See the [module](self).
#[derive(Default)]
pub(in crate::files) struct Together {
    questions: Vec<Question>,
    changes: Vec<Part>,
    count: u64,
}

impl Together {
    /// Somebody is about to ask for what is in a file, or what a path leads to.
    pub(in crate::files) fn ask(&mut self, file: Option<u64>) -> Asked {
        self.count += 1;
        let mut question = Question {
            number: self.count,
            file,
            is_file_so: true,
            are_names_so: true,
        };
        self.changes.iter().for_each(|part| question.note(*part));
        self.questions.push(question);
        Asked(self.count)
    }

    fn question(&self, asked: Asked) -> Option<&Question> {
        self.questions
            .iter()
            .find(|question| question.number == asked.0)
    }

    /// Whether what the drive has answered about bytes and attributes may be kept.
    pub(in crate::files) fn is_so(&self, asked: Asked) -> bool {
        self.question(asked)
            .is_some_and(|question| question.is_file_so)
    }

    /// The same of names.
    pub(in crate::files) fn are_names_so(&self, asked: Asked) -> bool {
        self.question(asked)
            .is_some_and(|question| question.are_names_so)
    }

    /// The answer is kept, or is not.
    pub(in crate::files) fn answered(&mut self, asked: Asked) {
        self.questions.retain(|question| question.number != asked.0);
    }

    /// A change is about to be sent.
    pub(in crate::files) fn begin(&mut self, part: Part) {
        self.note(part);
        self.changes.push(part);
    }

    /// What the drive has answered about a part before now, and is not kept yet, may not be so.
    pub(in crate::files) fn note(&mut self, part: Part) {
        self.questions
            .iter_mut()
            .for_each(|question| question.note(part));
    }

    /// It has ended.
    pub(in crate::files) fn end(&mut self, part: Part) {
        if let Some(at) = self.changes.iter().position(|change| *change == part) {
            self.changes.swap_remove(at);
        }
    }

    /// Whether a file is being changed.
    #[inline]
    pub(in crate::files) fn changes_file(&self, number: u64) -> bool {
        let is_it = |part: &Part| matches!(part, Part::All) || *part == Part::File(number);
        self.changes.iter().any(is_it)
    }

    /// Whether names are being changed.
    #[inline]
    pub(in crate::files) fn changes_names(&self) -> bool {
        let is_it = |part: &Part| !matches!(part, Part::File(_));
        self.changes.iter().any(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_not_kept_if_what_it_tells_of_was_changed_meanwhile_or_being_changed() {
        let cases = [
            (Part::File(7), [false, true], [false, true]),
            (Part::File(8), [true, true], [false, true]),
            (Part::Names, [true, false], [true, false]),
            (Part::All, [false, false], [false, false]),
        ];
        for (part, of_file, of_path) in cases {
            for begins_before in [false, true] {
                let mut all = Together::default();
                if begins_before {
                    all.begin(part);
                }
                let asked = [all.ask(Some(7)), all.ask(None)];
                if !begins_before {
                    all.begin(part);
                }
                all.end(part);
                let found = asked.map(|asked| [all.is_so(asked), all.are_names_so(asked)]);
                assert_eq!(found, [of_file, of_path], "{part:?}");
                asked.into_iter().for_each(|asked| all.answered(asked));
                // It has ended, and so may be kept what is asked for from now on.
                let asked = all.ask(None);
                assert!(all.is_so(asked) && all.are_names_so(asked));
                all.answered(asked);
                assert!(all.questions.is_empty() && all.changes.is_empty());
            }
        }
    }

    #[test]
    fn nothing_is_used_of_what_is_being_changed() {
        let mut all = Together::default();
        let look = |all: &Together| {
            [
                all.changes_file(7),
                all.changes_file(8),
                all.changes_names(),
            ]
        };
        assert_eq!(look(&all), [false; 3]);
        all.begin(Part::File(7));
        all.begin(Part::File(7));
        assert_eq!(look(&all), [true, false, false]);
        all.end(Part::File(7));
        assert_eq!(look(&all), [true, false, false], "the other one lasts");
        all.end(Part::File(7));
        all.begin(Part::Names);
        assert_eq!(look(&all), [false, false, true]);
        all.begin(Part::All);
        all.end(Part::Names);
        assert_eq!(look(&all), [true; 3]);
        all.end(Part::All);
        assert_eq!(look(&all), [false; 3]);
    }
}
