//! Builds systems from one configuration, replays workloads, compares designs, reports.

pub mod progress;
pub mod report;
pub mod result;
