//! What page caches are put together of.
//!
//! A cache in the operating system and one in a program differ in their index, in what a frame's
//! word says, in who may dirty how many pages, and in what is paid for. What they do with these is
//! the same, and is here: each file is one idea, with a struct of its own fields where it has a
//! state. Traits say what a design chooses; each builds upon the one before, and is implemented for
//! what a CPU of the design has of its pages (`kernel/pages.rs`, `scale/pages.rs`). A client is
//! then the sum of the structs (`local.rs`).
//!
//! | file | idea | what the design chooses |
//! |---|---|---|
//! | [`common`], [`files`] | what all CPUs share; a file's index, cursor and failures | |
//! | [`tasks`] | tasks of a CPU, asleep and woken | |
//! | `pages` | holding a page, waiting for one | what states there are |
//! | [`frames`] | frames: words, lines, bytes | the word |
//! | [`index`] | page to frame, with tags | [`locked`], as in Linux ([`xarray`]), or [`concurrent`] |
//! | `transfers`, [`run`], [`backing`] | runs of pages to and from what lies below | how they end; what lies below |
//! | `write_back` | dirty pages to the drives | how a page is claimed |
//! | `writers`, [`direct_flush`] | writers that flush | thresholds, files, shares |
//! | `memory`, [`nodes`] | free frames | who leaves |
//! | [`replacement`], [`node_lists`] | which page leaves next | the policy |
//! | `reading`, [`readahead`], [`stride`] | pages that are missed, and those that are read ahead | how a page enters |
//! | [`kernel_path`], [`accounting`] | what is paid to the operating system | |
//! | [`per_frame`] | memory in proportion to a cache | |

pub mod accounting;
pub mod backing;
pub mod common;
pub mod concurrent;
pub mod direct_flush;
pub mod files;
pub mod frames;
pub mod index;
pub mod kernel_path;
pub mod locked;
pub(crate) mod memory;
pub mod node_lists;
pub mod nodes;
pub mod outside;
pub(crate) mod pages;
pub mod per_frame;
pub mod readahead;
pub(crate) mod reading;
pub mod replacement;
pub mod run;
pub mod stride;
pub mod tasks;
pub(crate) mod transfers;
pub(crate) mod write_back;
pub(crate) mod writers;
pub mod xarray;
