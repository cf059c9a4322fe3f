//! Parsing of fields straight from bytes: no regular expressions, no `String` per line.
//!
//! A [`Cursor`] walks over one line. Each method either consumes a field and returns it, or says
//! which field is wrong and how; none panics or overflows whatever the bytes are.

use std::fmt;

use crate::request::{
    ADDRESS_BYTES_MAX, DISCARD_BYTES_MAX, Op, REQUEST_BYTES_MAX, Request, SECTOR_BYTES,
};

/// How a field is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The line ends before the field.
    Missing,
    /// The field does not begin with a digit.
    NotANumber,
    /// The number does not fit what it stands for.
    TooLarge,
    /// The number must not be 0.
    Zero,
    /// The value is none that the format allows.
    Unexpected,
    /// The field must be a decimal number with a point.
    NoPoint,
    /// Not a whole number of 512-byte sectors.
    NotWholeSectors,
    /// No comma stands before the field.
    NoComma,
    /// No blank stands before the field.
    NoBlank,
    /// Something follows where the line should end.
    TrailingText,
    /// The line is longer than any line of a trace.
    LineTooLong,
}

/// A line refused: the field and its fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reject {
    /// Name of the field.
    pub field: &'static str,
    /// What is wrong with it.
    pub fault: Fault,
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.fault {
            Fault::Missing => "is missing",
            Fault::NotANumber => "is not a number",
            Fault::TooLarge => "is too large",
            Fault::Zero => "is 0",
            Fault::Unexpected => "is none that the format allows",
            Fault::NoPoint => "has no decimal point",
            Fault::NotWholeSectors => "is not a multiple of 512",
            Fault::NoComma => "is not set off by a comma",
            Fault::NoBlank => "is not set off by a blank",
            Fault::TrailingText => "is followed by further text",
            Fault::LineTooLong => "is too long",
        };
        write!(f, "{} {what}", self.field)
    }
}

/// Shorthand for an `Err` of a field.
pub(crate) fn reject<T>(field: &'static str, fault: Fault) -> Result<T, Reject> {
    Err(Reject { field, fault })
}

/// A decimal number as digits before and after the point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decimal {
    whole: u64,
    /// Billionths.
    nano: u64,
    /// Whether a point was there.
    pub has_point: bool,
}

impl Decimal {
    /// The value times `unit_ns` (1 for ns, 10^9 for s), rounded down.
    pub fn to_ns(self, unit_ns: u64, field: &'static str) -> Result<u64, Reject> {
        self.whole
            .checked_mul(unit_ns)
            .and_then(|ns| ns.checked_add(self.nano * unit_ns / 1_000_000_000))
            .filter(|&ns| ns != Request::NO_TIME)
            .ok_or(Reject {
                field,
                fault: Fault::TooLarge,
            })
    }
}

/// A position in one line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(line: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: line }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Passes over blanks and tabs.
    pub fn blanks(&mut self) {
        while let [b' ' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// A non-negative decimal integer.
    pub fn uint(&mut self, field: &'static str) -> Result<u64, Reject> {
        let mut value = 0u64;
        let mut digits = 0;
        while let [byte, rest @ ..] = self.rest {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            digits += 1;
            // 19 digits always fit.
            if digits > 19 {
                return reject(field, Fault::TooLarge);
            }
            value = value * 10 + u64::from(digit);
            self.rest = rest;
        }
        match (digits, self.rest.is_empty()) {
            (0, true) => reject(field, Fault::Missing),
            (0, false) => reject(field, Fault::NotANumber),
            _ => Ok(value),
        }
    }

    /// A non-negative integer below 2^32.
    pub fn uint32(&mut self, field: &'static str) -> Result<u32, Reject> {
        let value = self.uint(field)?;
        u32::try_from(value).map_err(|_| Reject {
            field,
            fault: Fault::TooLarge,
        })
    }

    /// A non-negative decimal number, with or without a point; digits past the ninth are cut.
    pub fn decimal(&mut self, field: &'static str) -> Result<Decimal, Reject> {
        let whole = self.uint(field)?;
        let [b'.', rest @ ..] = self.rest else {
            return Ok(Decimal {
                whole,
                nano: 0,
                has_point: false,
            });
        };
        self.rest = rest;
        let mut nano = 0;
        let mut scale = 100_000_000;
        while let [byte @ b'0'..=b'9', rest @ ..] = self.rest {
            nano += u64::from(byte - b'0') * scale;
            scale /= 10;
            self.rest = rest;
        }
        Ok(Decimal {
            whole,
            nano,
            has_point: true,
        })
    }

    /// A comma that must follow.
    pub fn comma(&mut self, field: &'static str) -> Result<(), Reject> {
        match self.rest {
            [b',', rest @ ..] => {
                self.rest = rest;
                Ok(())
            }
            [] => reject(field, Fault::Missing),
            _ => reject(field, Fault::NoComma),
        }
    }

    /// At least one blank or tab that must follow, before `field`.
    pub fn gap(&mut self, field: &'static str) -> Result<(), Reject> {
        match self.peek() {
            Some(b' ' | b'\t') => {
                self.blanks();
                Ok(())
            }
            Some(_) => reject(field, Fault::NoBlank),
            None => reject(field, Fault::Missing),
        }
    }

    /// The text up to the next comma (consumed) or the end.
    pub fn until_comma(&mut self, field: &'static str) -> Result<&'a [u8], Reject> {
        match self.rest.iter().position(|&b| b == b',') {
            Some(at) => {
                let text = &self.rest[..at];
                self.rest = &self.rest[at + 1..];
                Ok(text)
            }
            None => reject(field, Fault::Missing),
        }
    }

    /// A word: the bytes up to the next blank, tab or end; at least one.
    pub fn word(&mut self, field: &'static str) -> Result<&'a [u8], Reject> {
        let end = self
            .rest
            .iter()
            .position(|&b| b == b' ' || b == b'\t')
            .unwrap_or(self.rest.len());
        if end == 0 {
            return reject(field, Fault::Missing);
        }
        let word = &self.rest[..end];
        self.rest = &self.rest[end..];
        Ok(word)
    }

    /// Demands that nothing but blanks follows.
    pub fn finish(mut self, field: &'static str) -> Result<(), Reject> {
        self.blanks();
        if self.rest.is_empty() {
            Ok(())
        } else {
            reject(field, Fault::TrailingText)
        }
    }
}

/// Bytes of `sectors` 512-byte sectors, or a rejection of `field`.
pub(crate) fn sectors(sectors: u64, field: &'static str) -> Result<u64, Reject> {
    sectors.checked_mul(SECTOR_BYTES).ok_or(Reject {
        field,
        fault: Fault::TooLarge,
    })
}

/// Builds a request and checks what holds in every format: a size between 1 byte and 1 GiB (of a
/// discard: 4 GiB), an end within the address space. No process is known of it.
pub(crate) fn request(
    time_ns: u64,
    op: Op,
    offset: u64,
    bytes: u64,
    stream: u32,
) -> Result<Request, Reject> {
    if bytes == 0 {
        return reject("size", Fault::Zero);
    }
    let most = match op {
        Op::Discard => DISCARD_BYTES_MAX,
        _ => REQUEST_BYTES_MAX,
    };
    if bytes > most {
        return reject("size", Fault::TooLarge);
    }
    if offset > ADDRESS_BYTES_MAX - bytes {
        return reject("offset", Fault::TooLarge);
    }
    Ok(Request {
        time_ns,
        offset,
        bytes: bytes as u32,
        stream,
        process: Request::NO_PROCESS,
        op,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_near_the_edge_neither_wrap_nor_panic() {
        assert_eq!(
            Cursor::new(b"9999999999999999999").uint("n").unwrap(),
            9_999_999_999_999_999_999
        );
        assert_eq!(
            Cursor::new(b"18446744073709551615").uint("n"),
            reject("n", Fault::TooLarge)
        );
        assert_eq!(Cursor::new(b"").uint("n"), reject("n", Fault::Missing));
        assert_eq!(Cursor::new(b"-1").uint("n"), reject("n", Fault::NotANumber));
        assert!(request(0, Op::Read, u64::MAX - 5, 4096, 0).is_err());
        assert!(request(0, Op::Read, ADDRESS_BYTES_MAX - 4096, 4096, 0).is_ok());
        assert!(request(0, Op::Read, ADDRESS_BYTES_MAX - 4095, 4096, 0).is_err());
        assert!(sectors(u64::MAX, "lba").is_err());
    }

    #[test]
    fn decimals_become_nanoseconds_exactly() {
        let ns = |text: &[u8], unit| Cursor::new(text).decimal("t").unwrap().to_ns(unit, "t");
        assert_eq!(
            ns(b"1398403999.646690157", 1_000_000_000),
            Ok(1_398_403_999_646_690_157)
        );
        assert_eq!(ns(b"26.214000", 1_000_000), Ok(26_214_000));
        assert_eq!(ns(b"7.1234567899999", 1_000_000_000), Ok(7_123_456_789));
        assert_eq!(ns(b"5", 1), Ok(5));
        assert!(ns(b"9999999999999999999.9", 1_000_000_000).is_err());
    }
}
