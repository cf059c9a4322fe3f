//! Builds systems from one configuration, replays workloads, compares designs, reports.
//!
//! | file | idea |
//! |---|---|
//! | [`config`] | drives, hosts and costs: presets, files, `--set` |
//! | [`input`] | traces and generators as one list of requests, dealt out to clients |
//! | [`designs`] | the designs by name |
//! | [`prepare`] | what drives hold when a run begins |
//! | [`replay`] | one design: machine, clients, account |
//! | [`checker`] | every read against the last write |
//! | [`compare`] | all designs in turn |
//! | [`result`], [`report`] | the figures, as data, table, JSON and page |
//! | [`curves`] | what replacement policies hit of a trace, over the size of a cache |
//! | [`calibrate`] | what each operation costs on this machine; predictions beside measurements |
//! | [`reproduce`] | a paper's figures, obtained here |
//! | [`sweep`] | every combination of some values, on threads and on machines that share a directory |
//! | [`progress`] | the line on the terminal |

pub mod calibrate;
pub mod checker;
pub mod compare;
pub mod config;
pub mod curves;
pub mod designs;
pub mod input;
pub mod prepare;
pub mod progress;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod result;
pub mod sweep;
