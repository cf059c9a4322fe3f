//! Three views of one [`Comparison`](crate::result::Comparison): a table for the terminal, a JSON
//! file for programs, a page for people.

pub(crate) mod format;
pub mod html;
pub mod json;
pub mod sample;
pub mod table;
