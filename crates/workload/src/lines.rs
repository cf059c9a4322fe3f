//! Lines of a byte stream through one buffer of fixed size: no allocation per line, and none
//! that grows with the input.

use std::io::{self, Read};

use memchr::memchr;

/// Bytes buffered. The first so many bytes are also the sample from which a format is told.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;

/// One line.
pub(crate) enum Line<'a> {
    /// The bytes of a line without its end (`\n` or `\r\n`).
    Text(&'a [u8]),
    /// A line longer than the buffer, passed over.
    TooLong,
}

/// Splits a reader into lines or records.
pub(crate) struct Lines {
    reader: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    at_end: bool,
    /// Lines given out so far.
    pub count: u64,
}

impl Lines {
    pub fn new(reader: Box<dyn Read + Send>) -> Lines {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Lines {
            reader,
            buffer,
            start: 0,
            end: 0,
            at_end: false,
            count: 0,
        }
    }

    /// Moves what is left to the front and fills the buffer behind it.
    fn refill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < self.buffer.len() && !self.at_end {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(n) => self.end += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The first bytes of the stream, and whether they are all of it. Only before the first line.
    pub fn sample(&mut self) -> io::Result<(&[u8], bool)> {
        debug_assert_eq!(self.count, 0, "the sample is taken before reading");
        self.refill()?;
        Ok((&self.buffer[..self.end], self.at_end))
    }

    /// The next line, or `None` at the end.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        if let Some(length) = memchr(b'\n', &self.buffer[self.start..self.end]) {
            return Ok(Some(self.take(length, 1)));
        }
        self.refill()?;
        if self.end == 0 {
            return Ok(None);
        }
        match memchr(b'\n', &self.buffer[..self.end]) {
            Some(length) => Ok(Some(self.take(length, 1))),
            None if self.at_end => Ok(Some(self.take(self.end, 0))),
            None => self.pass_long_line(),
        }
    }

    fn take(&mut self, length: usize, separator: usize) -> Line<'_> {
        let begin = self.start;
        self.start += length + separator;
        self.count += 1;
        Line::Text(trim_return(&self.buffer[begin..begin + length]))
    }

    /// Discards a line that fills the whole buffer, up to its end.
    fn pass_long_line(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            match memchr(b'\n', &self.buffer[self.start..self.end]) {
                Some(length) => {
                    self.start += length + 1;
                    break;
                }
                None => {
                    self.start = self.end;
                    self.refill()?;
                    if self.end == 0 {
                        break;
                    }
                }
            }
        }
        self.count += 1;
        Ok(Some(Line::TooLong))
    }

    /// The next `N` bytes as a record; fewer only at the end of the stream (then empty at last).
    pub fn next_record(&mut self, bytes: usize) -> io::Result<&[u8]> {
        if self.end - self.start < bytes {
            self.refill()?;
        }
        let begin = self.start;
        self.start = (begin + bytes).min(self.end);
        if self.start > begin {
            self.count += 1;
        }
        Ok(&self.buffer[begin..self.start])
    }
}

/// A line without the carriage return that Windows puts before its end.
pub(crate) fn trim_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(Box::new(io::Cursor::new(bytes.to_vec())));
        let mut out = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            out.push(match line {
                Line::Text(text) => Some(text.to_vec()),
                Line::TooLong => None,
            });
        }
        assert_eq!(lines.count, out.len() as u64);
        out
    }

    #[test]
    fn lines_end_with_newline_return_or_the_stream() {
        let text = |t: &[u8]| Some(t.to_vec());
        assert_eq!(all(b""), vec![]);
        assert_eq!(
            all(b"a\nb\r\n\nc"),
            vec![text(b"a"), text(b"b"), text(b""), text(b"c")]
        );
        assert_eq!(all(b"a\n"), vec![text(b"a")]);
    }

    #[test]
    fn a_line_longer_than_the_buffer_is_passed_over_and_counted_once() {
        let long = vec![b'x'; 3 * BUFFER_BYTES + 17];
        let input = [b"a\n", &long[..], b"\nb\n", &long[..]].concat();
        assert_eq!(
            all(&input),
            vec![Some(b"a".to_vec()), None, Some(b"b".to_vec()), None]
        );
    }

    #[test]
    fn lines_survive_the_edge_of_the_buffer() {
        let line = [vec![b'y'; 1000], b"\n".to_vec()].concat();
        let lines = all(&line.repeat(1000));
        assert_eq!(lines.len(), 1000);
        assert!(lines.iter().all(|l| l.as_ref().unwrap().len() == 1000));
    }

    #[test]
    fn records_are_whole_but_for_the_last() {
        let mut lines = Lines::new(Box::new(io::Cursor::new(vec![7; 32 * 10_000 + 5])));
        for _ in 0..10_000 {
            assert_eq!(lines.next_record(32).unwrap().len(), 32);
        }
        assert_eq!(lines.next_record(32).unwrap().len(), 5);
        assert!(lines.next_record(32).unwrap().is_empty());
        assert_eq!(lines.count, 10_001);
    }
}
