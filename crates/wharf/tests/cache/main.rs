//! `wharf cache` and `wharf serve nbd --cache --backing`, as commands on real files.

mod client;
mod devices;
mod full;
mod lives;
mod mistakes;
mod support;
