//! The parts that processes have written, as one trace.
//!
//! Each process has a file of its own, whose lines are in the order of their times. Who is killed amid a line leaves a part of it at the end,
//! which is passed over. Files are opened when their first line is due, and closed at their end: at a time as many are open as there were
//! processes that recorded then.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::Summary;

/// What stands in a part for an operation that traces have no word for.
pub(super) const LEFT_OUT: &str = "# left out\n";

/// A part, and its next line.
struct Part {
    path: PathBuf,
    lines: Option<BufReader<File>>,
    line: String,
    time_ns: u64,
}

impl Part {
    /// Reads the next operation; false at the end.
    fn next(&mut self, summary: &mut Summary) -> io::Result<bool> {
        if self.lines.is_none() {
            self.lines = Some(BufReader::new(File::open(&self.path)?));
        }
        let lines = self.lines.as_mut().expect("it is open");
        loop {
            self.line.clear();
            lines.read_line(&mut self.line)?;
            if !self.line.ends_with('\n') {
                return Ok(false);
            }
            if self.line == LEFT_OUT {
                summary.left_out += 1;
            }
            if !self.line.starts_with('#') {
                break;
            }
        }
        let time = self.line.split(' ').next().unwrap_or_default();
        // In order, whatever it says: of a thread nothing passes anything.
        self.time_ns = time.parse().unwrap_or(0).max(self.time_ns);
        Ok(true)
    }
}

/// Adds what the parts in a directory say to a trace, in the order of times, and says how much that was.
///
/// # Errors
/// Of the files.
pub fn gather(directory: &Path, out: &File) -> io::Result<Summary> {
    let mut out = BufWriter::new(out);
    let mut summary = Summary::default();
    let mut parts = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let mut part = Part {
            path: entry?.path(),
            lines: None,
            line: String::new(),
            time_ns: 0,
        };
        let mut left_out = Summary::default();
        match part.next(&mut left_out)? {
            true => {
                // Opened anew when it is due, and counted then.
                part.lines = None;
                parts.push(part);
            }
            false => summary.left_out += left_out.left_out,
        }
    }
    let due = |parts: &[Part], at: usize| Reverse((parts[at].time_ns, at));
    let mut waiting: BinaryHeap<_> = (0..parts.len()).map(|at| due(&parts, at)).collect();
    while let Some(Reverse((_, at))) = waiting.pop() {
        let part = &mut parts[at];
        if part.lines.is_none() {
            part.next(&mut summary)?;
        }
        out.write_all(part.line.as_bytes())?;
        summary.operations += 1;
        match part.next(&mut summary)? {
            true => waiting.push(due(&parts, at)),
            false => parts[at].lines = None,
        }
    }
    out.flush()?;
    Ok(summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_one_trace_in_the_order_of_times_without_halves_of_lines() {
        let place = tempfile::tempdir().unwrap();
        let parts = place.path().join("parts");
        std::fs::create_dir(&parts).unwrap();
        let head = "# wharf file trace 1\n";
        for (name, text) in [
            ("1", "5 1 stat /a\n# left out\n7 1 mkdir /b\n9 1 rmd"),
            ("2", "6 2 stat /c\n6 2 stat /d\n"),
            ("3", "# left out\n"),
            ("4", "# left out\n8 4 open"),
            ("5", ""),
            ("6", "# left out\n1 6 stat /e\n"),
        ] {
            std::fs::write(parts.join(name), [head, text].concat()).unwrap();
        }
        let path = place.path().join("trace");
        let mut out = File::create_new(&path).unwrap();
        out.write_all(head.as_bytes()).unwrap();
        let summary = gather(&parts, &out).unwrap();
        assert_eq!((summary.operations, summary.left_out), (5, 4));
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            format!("{head}1 6 stat /e\n5 1 stat /a\n6 2 stat /c\n6 2 stat /d\n7 1 mkdir /b\n")
        );
    }
}
