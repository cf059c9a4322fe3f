//! Three views of one [`Comparison`](crate::result::Comparison): a table for the terminal, a JSON
//! file for programs, a page for people. Rows that took turns have a table of their own, [`rounds`].

pub(crate) mod behind;
mod figures;
mod files;
pub(crate) mod format;
pub mod html;
pub mod json;
pub mod rounds;
pub mod sample;
pub mod table;
