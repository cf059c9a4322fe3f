//! The page for answers about what is allocated: one question has it at a time.

use crate::error::IoError;
use crate::group::Group;

/// Who has the page for answers.
#[derive(Default)]
pub(super) enum AnswerPage {
    #[default]
    Free,
    Taken,
    /// The drive was asked by this group and has not answered.
    Late(Group, IoError),
}
