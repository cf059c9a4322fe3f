//! What cores ask each other for: the block device's own commands.

use super::flush::Flush;
use super::ranges::DatasetManagement;
use super::read::Read;
use super::write::Write;
use crate::core::{Asked, Serve};

/// Pages go to where the request says.
pub(in crate::features) static READ: &dyn Serve = &Asked(Read);

/// Pages come from there.
pub(in crate::features) static WRITE: &dyn Serve = &Asked(Write);

/// What was written before survives.
pub(in crate::features) static FLUSH: &dyn Serve = &Asked(Flush);

/// Pages are deallocated.
pub(in crate::features) static DEALLOCATE: &dyn Serve = &Asked(DatasetManagement);
