//! Text written by `blkparse`: `maj,min cpu seq time pid action RWBS lba + sectors [process]`, time
//! in s, address and size in sectors.
//!
//! A request appears once per action (queued, inserted, dispatched, completed, …), so exactly one
//! action is counted: Q (what the program asked for) if the first 256 KiB of the file have one, else D
//! (what was sent to the device), else I, else C; or the one that the user names.

use std::fmt;
use std::str::FromStr;

use super::{Parsed, Parser};
use crate::lines::trim_return;
use crate::parse::{Cursor, Fault, Reject, reject, request, sectors};
use crate::request::{Op, Request};

/// The event of a request that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlkAction {
    /// Q: the request entered the block layer.
    Queued,
    /// D: it was sent to the driver.
    Dispatched,
    /// I: it was put on the scheduler's queue.
    Inserted,
    /// C: it completed.
    Completed,
}

impl BlkAction {
    const BY_PREFERENCE: [BlkAction; 4] = [
        BlkAction::Queued,
        BlkAction::Dispatched,
        BlkAction::Inserted,
        BlkAction::Completed,
    ];

    /// The letter in the trace.
    pub fn letter(self) -> char {
        match self {
            BlkAction::Queued => 'Q',
            BlkAction::Dispatched => 'D',
            BlkAction::Inserted => 'I',
            BlkAction::Completed => 'C',
        }
    }
}

impl fmt::Display for BlkAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.letter())
    }
}

impl FromStr for BlkAction {
    type Err = String;

    fn from_str(text: &str) -> Result<BlkAction, String> {
        BlkAction::BY_PREFERENCE
            .into_iter()
            .find(|action| text.eq_ignore_ascii_case(&action.letter().to_string()))
            .ok_or_else(|| format!("no blkparse action \"{text}\": choose Q, D, I or C"))
    }
}

/// Beginnings of the lines of the summary that `blkparse` writes at its end.
const SUMMARY: [&[u8]; 14] = [
    b"CPU",
    b"Total (",
    b"Throughput (",
    b"Events (",
    b"Skips:",
    b"Reads Queued:",
    b"Read Dispatches:",
    b"Reads Requeued:",
    b"Reads Completed:",
    b"Read Merges:",
    b"Read depth:",
    b"IO unplugs:",
    b"PC Reads Queued:",
    b"PC Read Disp.:",
];

/// The stream is major · 2^20 + minor, as Linux numbers devices.
pub(super) struct Blkparse {
    action: BlkAction,
    forced: bool,
}

/// The fields of an event line before its address.
struct Event<'a> {
    time_ns: u64,
    device: u32,
    process: u32,
    action: &'a [u8],
}

impl Blkparse {
    pub fn new(action: Option<BlkAction>) -> Blkparse {
        Blkparse {
            action: action.unwrap_or(BlkAction::Queued),
            forced: action.is_some(),
        }
    }
}

fn event<'a>(c: &mut Cursor<'a>) -> Result<Event<'a>, Reject> {
    c.blanks();
    let major = c.uint("device")?;
    c.comma("device")?;
    let minor = c.uint("device")?;
    if major >= 1 << 12 || minor >= 1 << 20 {
        return reject("device", Fault::TooLarge);
    }
    c.gap("cpu")?;
    c.uint("cpu")?;
    c.gap("sequence")?;
    c.uint("sequence")?;
    c.gap("time")?;
    let time = c.decimal("time")?;
    if !time.has_point {
        return reject("time", Fault::NoPoint);
    }
    c.gap("pid")?;
    let process = c.uint32("pid")?;
    c.gap("action")?;
    let action = c.word("action")?;
    if action.len() > 2 || !action.iter().all(u8::is_ascii_alphabetic) {
        return reject("action", Fault::Unexpected);
    }
    let device = (major << 20 | minor) as u32;
    Ok(Event {
        time_ns: time.to_ns(1_000_000_000, "time")?,
        device,
        process,
        action,
    })
}

fn is_summary(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    line.is_empty() || SUMMARY.iter().any(|beginning| line.starts_with(beginning))
}

impl Parser for Blkparse {
    fn prepare(&mut self, sample: &[u8]) {
        if self.forced {
            return;
        }
        let mut seen = [false; 4];
        for line in sample.split(|&b| b == b'\n') {
            if let Ok(event) = event(&mut Cursor::new(trim_return(line))) {
                for (seen, action) in seen.iter_mut().zip(BlkAction::BY_PREFERENCE) {
                    *seen |= event.action == [action.letter() as u8];
                }
            }
        }
        if let Some(best) = seen.iter().position(|&seen| seen) {
            self.action = BlkAction::BY_PREFERENCE[best];
        }
    }

    fn parse(&mut self, line: &[u8]) -> Result<Parsed, Reject> {
        if is_summary(line) {
            return Ok(Parsed::Skip);
        }
        let mut c = Cursor::new(line);
        let event = event(&mut c)?;
        if event.action != [self.action.letter() as u8] {
            return Ok(Parsed::Skip);
        }
        c.gap("rwbs")?;
        let rwbs = c.word("rwbs")?;
        // A barrier or a flush comes first ("FWFS"), then what is done: R, W, D (discard, also
        // "DE", the secure one), N (none).
        let op = match rwbs.iter().find(|b| b"RWDN".contains(b)) {
            Some(b'R') => Op::Read,
            Some(b'W') => Op::Write,
            Some(b'D') => Op::Discard,
            Some(_) => return Ok(Parsed::Skip),
            None if rwbs.contains(&b'F') => return Ok(Parsed::Skip),
            None => return reject("rwbs", Fault::Unexpected),
        };
        c.gap("lba")?;
        if matches!(c.rest(), [b'[', ..]) {
            return Ok(Parsed::Skip);
        }
        let lba = c.uint("lba")?;
        c.gap("+")?;
        if c.word("+")? != b"+" {
            return reject("+", Fault::Missing);
        }
        c.gap("sectors")?;
        let count = c.uint("sectors")?;
        let (offset, bytes) = (sectors(lba, "lba")?, sectors(count, "sectors")?);
        let parsed = request(event.time_ns, op, offset, bytes, event.device)?;
        Ok(Parsed::Request(Request {
            process: event.process,
            ..parsed
        }))
    }

    fn notes(&self) -> Vec<String> {
        let how = if self.forced {
            "as asked"
        } else {
            "chosen by the events present"
        };
        vec![format!("only {} events are counted ({how})", self.action)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(action: BlkAction, line: &[u8]) -> Result<Parsed, Reject> {
        Blkparse::new(Some(action)).parse(line)
    }

    #[test]
    fn one_action_counts_and_others_pass() {
        let line = b"  8,16   0  4  0.000017985  5314  D  WS 16 + 8 [java]";
        let want = Request {
            time_ns: 17_985,
            offset: 8192,
            bytes: 4096,
            stream: 8 << 20 | 16,
            process: 5314,
            op: Op::Write,
        };
        assert_eq!(
            parse(BlkAction::Dispatched, line),
            Ok(Parsed::Request(want))
        );
        assert_eq!(parse(BlkAction::Queued, line), Ok(Parsed::Skip));
    }

    #[test]
    fn flushes_messages_and_the_summary_are_no_requests() {
        for line in [
            &b"8,16 0 4 0.5 5314 D FN [java]"[..],
            b"8,16 0 4 0.5 5314 D FWS [java]",
            b"8,16 0 0 0.5 0 m N cfq message",
            b"CPU0 (8,16):",
            b" Reads Queued:           0,        0KiB\t Writes Queued: 0",
            b"",
        ] {
            assert_eq!(
                parse(BlkAction::Dispatched, line),
                Ok(Parsed::Skip),
                "{line:?}"
            );
        }
        assert!(
            parse(
                BlkAction::Dispatched,
                b"8,16 0 4 0.5 5314 D XX 16 + 8 [java]"
            )
            .is_err()
        );
        assert!(parse(BlkAction::Dispatched, b"8,16 0 4 0.5 5314 D R 16 8 [java]").is_err());
    }
}
