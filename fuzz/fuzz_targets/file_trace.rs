//! Any bytes as a trace of operations on files: read up to the first mistake, never a panic; what was read is written, and read
//! again alike.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wharf_workload::fuzz::parse_file_trace;

fuzz_target!(|data: &[u8]| {
    parse_file_trace(data);
    // Most bytes have no header.
    let text = [b"# wharf file trace 1\n", data].concat();
    parse_file_trace(&text);
});
