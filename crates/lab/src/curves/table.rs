//! Curves as a table: a line for each size, a column for each policy.

use std::collections::BTreeMap;
use std::fmt;

use super::Curves;
use crate::report::format;
use crate::report::table::aligned;

impl fmt::Display for Curves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.trace, self.heading())?;
        writeln!(f)?;
        let lines = self.lines().into_iter();
        writeln!(f, "{}", aligned(&self.heads(), lines, 1, 2))?;
        write!(
            f,
            "Hit ratios: the share of uses of a page that found it in the cache."
        )
    }
}

impl Curves {
    /// What was looked at.
    pub(super) fn heading(&self) -> String {
        let of = match self.sample < 1.0 {
            true => format!(", of which {} were looked at", format::percent(self.sample)),
            false => String::new(),
        };
        format!(
            "{} requests use {} pages of 4 KiB ({}) {} times{of}",
            format::grouped(self.requests),
            format::grouped(self.distinct_pages),
            format::bytes(self.distinct_pages * self.page_bytes),
            format::grouped(self.page_touches),
        )
    }

    /// The policies, in the order in which they were asked for.
    fn policies(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.policy) {
                names.push(row.policy);
            }
        }
        names
    }

    /// A line for each size, the least first: how large that is, in pages, by the pages that are used, and what each policy hits.
    pub(super) fn lines(&self) -> Vec<Vec<String>> {
        let mut lines: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for row in &self.rows {
            let line = lines.entry(row.cache_pages).or_insert_with(|| {
                vec![
                    format::bytes(row.cache_bytes),
                    format::grouped(row.cache_pages),
                    format::percent(row.cache_share),
                ]
            });
            line.push(format!("{:.4}", row.hit_ratio));
        }
        lines.into_values().collect()
    }

    /// What stands above these lines.
    pub(super) fn heads(&self) -> Vec<&'static str> {
        let first = ["size", "pages", "share, %"].into_iter();
        first.chain(self.policies()).collect()
    }
}
