//! Any bytes as a trace: read or refused, never a panic. The first byte chooses the reader, or the
//! search for the right one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wharf_workload::Format;
use wharf_workload::fuzz::parse_any;

/// Layouts that no format with a name has.
const LAYOUTS: [&str; 2] = [
    "ascii:time=s,offset=page,size=byte,read=0",
    "ascii:time=us,offset=byte,size=page,read=1",
];

fuzz_target!(|data: &[u8]| {
    let Some((choice, trace)) = data.split_first() else {
        return;
    };
    let named = Format::NAMED.len();
    let format = match usize::from(*choice) % (named + LAYOUTS.len() + 1) {
        index if index < named => Some(Format::NAMED[index]),
        index if index < named + LAYOUTS.len() => {
            Some(LAYOUTS[index - named].parse().expect("a layout"))
        }
        _ => None,
    };
    parse_any(trace, format);
});
