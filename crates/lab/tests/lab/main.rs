//! What shows that a comparison can be trusted: every test replays whole workloads through whole
//! systems.
//!
//! | file | what would have to break for it to fail |
//! |---|---|
//! | `determinism.rs` | equal runs give equal files |
//! | `engines.rs` | virtual and real time run the same code to the same hits |
//! | `textbook.rs` | `clock` hits as the textbook's CLOCK does; no design has more hits than can be |
//! | `flash_policies.rs` | the policy of a flash cache hits as LRU does on real traces, and writes back less |
//! | `indexless.rs` | flash caches before a disk lose no byte, whatever policy and store |
//! | `littles_law.rs` | throughput times mean latency is what is under way, in every design |
//! | `faulty.rs` | a wrong read ends the run and is named |
//! | `interrupt.rs` | a stopped run reports what it did |
//! | `matrix.rs` | designs, drives, clients, depths and sizes go together |
//! | `reproduce.rs` | every figure of a reproduction can be made, and again alike |
//! | `files.rs` | file operations run on every design, one file or many, and every read is checked |
//! | `file_view.rs` | operations on files through clients of files, every read and every answer checked |
//! | `mixed_media.rs` | media that keep 64 bytes of what checked workloads write change no figure |
//! | `computing.rs` | what is computed on files is right, whoever computes |
//! | `discards.rs` | discards of a trace amid reads and writes of others, on every design |
//! | `arrival.rs` | open loops keep time, and every request has one client |

#![allow(missing_docs)]

mod arrival;
mod calibrate;
mod computing;
mod determinism;
mod discards;
mod engines;
mod faulty;
mod file_view;
mod files;
mod flash_caches;
mod flash_policies;
mod golden;
mod index_scaling;
mod indexless;
mod interrupt;
mod littles_law;
mod matrix;
mod mixed_media;
mod reproduce;
mod roles;
mod support;
mod textbook;
