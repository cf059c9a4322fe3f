//! Builds systems from one configuration, replays workloads, compares designs, reports.

pub mod config;
pub mod progress;
pub mod report;
pub mod result;
