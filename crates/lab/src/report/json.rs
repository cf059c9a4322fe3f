//! The comparison as a JSON file, in the format of `docs/report-schema.md`.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::result::{BENCH_SCHEMA, Comparison, SCHEMA};

/// Why a report could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The file could not be written.
    #[error("cannot write the report {}: {source}; give --json a path that can be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file could not be read.
    #[error("cannot read the report {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The text is no JSON, or lacks a field that the format requires.
    #[error("not a report in the format {SCHEMA}: {0}")]
    Syntax(#[from] serde_json::Error),
    /// The text is a report of another version, or of something else.
    #[error(
        "the report's \"schema\" is {found:?}, this program reads {SCHEMA:?}: \
         write the report again with `wharf compare --json`"
    )]
    Schema {
        /// The `schema` found, empty if there was none.
        found: String,
    },
}

/// The comparison as JSON text, indented, with a line feed at its end.
///
/// Fields come in the order of `docs/report-schema.md`, maps by key: equal comparisons give equal
/// bytes.
pub fn to_string(comparison: &Comparison) -> String {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, Indented::default());
    comparison
        .serialize(&mut serializer)
        .expect("plain data with string keys");
    text.push(b'\n');
    String::from_utf8(text).expect("serde_json writes UTF-8")
}

/// Reads a comparison back from JSON text; unknown fields are passed over.
///
/// # Errors
///
/// [`JsonError::Schema`] when the text is of another format or version, [`JsonError::Syntax`] when
/// it is no JSON or lacks a field.
pub fn from_str(text: &str) -> Result<Comparison, JsonError> {
    // The version comes first: a field missing from another version is not the user's mistake.
    let value: serde_json::Value = serde_json::from_str(text)?;
    let found = value
        .get("schema")
        .and_then(|schema| schema.as_str())
        .unwrap_or_default();
    if ![SCHEMA, BENCH_SCHEMA].contains(&found) {
        return Err(JsonError::Schema {
            found: found.to_owned(),
        });
    }
    Ok(serde_json::from_str(text)?)
}

/// Writes a comparison to a file, replacing what was there.
///
/// # Errors
///
/// [`JsonError::Write`].
pub fn write(path: &Path, comparison: &Comparison) -> Result<(), JsonError> {
    std::fs::write(path, to_string(comparison)).map_err(|source| JsonError::Write {
        path: path.to_owned(),
        source,
    })
}

/// Reads a comparison from a file.
///
/// # Errors
///
/// [`JsonError::Read`], and those of [`from_str`].
pub fn read(path: &Path) -> Result<Comparison, JsonError> {
    let text = std::fs::read_to_string(path).map_err(|source| JsonError::Read {
        path: path.to_owned(),
        source,
    })?;
    from_str(&text)
}

/// Arrays and objects nested deeper than this stay on one line: the points of a curve.
const LINES_TO_DEPTH: usize = 4;

/// One line for each field, but also one line for each point of a curve, of which there are
/// hundreds.
#[derive(Default)]
struct Indented {
    depth: usize,
    has_value: bool,
}

impl Indented {
    fn open<W: ?Sized + io::Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.has_value = false;
        out.write_all(bracket)
    }

    fn close<W: ?Sized + io::Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        let on_lines = self.depth <= LINES_TO_DEPTH && self.has_value;
        self.depth -= 1;
        self.has_value = true;
        if on_lines {
            self.line(out)?;
        }
        out.write_all(bracket)
    }

    fn separate<W: ?Sized + io::Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if !first {
            out.write_all(b",")?;
        }
        match self.depth <= LINES_TO_DEPTH {
            true => self.line(out),
            false if first => Ok(()),
            false => out.write_all(b" "),
        }
    }

    fn line<W: ?Sized + io::Write>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(b"  "))
    }
}

impl Formatter for Indented {
    fn begin_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }

    fn begin_array_value<W>(&mut self, out: &mut W, first: bool) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        self.separate(out, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open(out, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }

    fn begin_object_key<W>(&mut self, out: &mut W, first: bool) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        self.separate(out, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::report::sample;
    use crate::result::{FileOperation, WALL_CLOCK_FIELDS};

    #[test]
    fn what_is_written_is_read_back() {
        for c in [sample::seeded_comparison(8), sample::sparse_comparison()] {
            let text = to_string(&c);
            assert_eq!(from_str(&text).expect("own output"), c);
            assert_eq!(text, to_string(&c.clone()));
            assert!(
                text.starts_with("{\n  \"schema\": \"wharf.compare/3\",\n"),
                "{}",
                &text[..80]
            );
            assert!(text.ends_with("}\n"));
            let is_point =
                |line: &str| line.starts_with('[') && line.trim_end_matches(',').ends_with(']');
            assert!(
                text.lines().any(|line| is_point(line.trim_start())),
                "no point on a line"
            );
        }
    }

    #[test]
    fn what_is_no_report_of_this_version_is_refused_with_a_reason() {
        let newer = to_string(&sample::comparison(1)).replace("compare/3", "compare/4");
        let message = |text: &str| from_str(text).expect_err("refused").to_string();
        assert!(
            message(&newer).contains("\"wharf.compare/4\""),
            "{}",
            message(&newer)
        );
        assert!(
            message("{}").contains("reads \"wharf.compare/3\""),
            "{}",
            message("{}")
        );
        assert!(message("design,iops").contains("line 1 column 1"));
        let cut = to_string(&sample::comparison(1)).replace("\"config_hash\"", "\"hash\"");
        assert!(message(&cut).contains("`config_hash`"), "{}", message(&cut));
    }

    #[test]
    fn a_file_that_cannot_be_written_or_read_is_named() {
        let path = Path::new("/nonexistent/report.json");
        let written = write(path, &sample::comparison(1)).expect_err("no such directory");
        assert!(
            written.to_string().contains("/nonexistent/report.json"),
            "{written}"
        );
        let read = read(path).expect_err("no such file");
        assert!(
            read.to_string().contains("/nonexistent/report.json"),
            "{read}"
        );
    }

    /// The paths of all fields: `rows[].latency_us.p50`. The keys of free maps are not fields.
    fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) if !path.ends_with("parameters") && path != "rows[].spread" => {
                for (key, value) in fields {
                    let path = if path.is_empty() {
                        key.clone()
                    } else {
                        format!("{path}.{key}")
                    };
                    found.insert(path.clone());
                    paths(value, &path, found);
                }
            }
            Value::Array(items) => {
                items
                    .iter()
                    .for_each(|item| paths(item, &format!("{path}[]"), found));
            }
            _ => {}
        }
    }

    #[test]
    fn the_schema_document_lists_exactly_the_fields_that_are_written() {
        let mut written = BTreeSet::new();
        let mut of_files = sample::sparse_comparison();
        of_files.rows[0].names = 1;
        of_files.rows[0].file_operations = vec![FileOperation {
            operation: "append".into(),
            count: 1,
            failed: 0,
            per_second: 1.0,
            latency_us: of_files.rows[0].latency_us,
        }];
        let mut of_disks = sample::sparse_comparison();
        let account = &mut of_disks.rows[0].devices[0];
        (account.seeks, account.positioning_us) = (Some(1), Some(1.0));
        account.read_seeks = Some(1);
        let samples = [
            sample::seeded_comparison(2),
            sample::sparse_comparison(),
            of_files,
            of_disks,
        ];
        for c in samples {
            paths(
                &serde_json::to_value(&c).expect("plain data"),
                "",
                &mut written,
            );
        }
        let document = include_str!("../../../../docs/report-schema.md");
        // The report of a sweep comes after it, and has fields of its own.
        let end = document.find("\n# The report of a sweep as JSON");
        let documented: BTreeSet<String> = document[..end.expect("the last part")]
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
            .map(|(field, _)| field.to_owned())
            .collect();
        // The names of what designs report of themselves are theirs, not the format's.
        written.retain(|field| !field.starts_with("rows[].gauges."));
        assert_eq!(written, documented);
        for field in WALL_CLOCK_FIELDS {
            assert!(documented.contains(*field), "{field}");
        }
    }
}
