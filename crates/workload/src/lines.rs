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
    /// A line longer than the buffer, passed over; its beginning.
    TooLong(&'a [u8]),
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
        Lines { reader, buffer, start: 0, end: 0, at_end: false, count: 0 }
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

    /// Discards the rest of a line that fills the buffer.
    fn pass_long_line(&mut self) -> io::Result<Option<Line<'_>>> {
        const HEAD_BYTES: usize = 256;
        let mut head = [0; HEAD_BYTES];
        head.copy_from_slice(&self.buffer[..HEAD_BYTES]);
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
        // The buffer's own front may be in use again: the head goes to a place of its own.
        self.head_of_long_line(head)
    }
}
