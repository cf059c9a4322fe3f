//! Curves as a table: a line for each size, a column for each policy.

use std::fmt;

use super::Curves;
use crate::report::format;
use crate::report::table::aligned;

impl fmt::Display for Curves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies = self.policies();
        let heads = ["size", "pages", "share, %"];
        let heads: Vec<&str> = heads.into_iter().chain(policies.iter().copied()).collect();
        let lines = self.sizes().into_iter().map(|pages| {
            let of_size = || self.rows.iter().filter(|row| row.cache_pages == pages);
            let share = of_size().next().map_or(0.0, |row| row.cache_share);
            let size = format::bytes(pages * self.page_bytes);
            let first = [size, format::grouped(pages), format::percent(share)];
            let ratios = policies.iter().map(|policy| {
                let row = of_size().find(|row| row.policy == *policy);
                row.map_or(String::new(), |row| format!("{:.4}", row.hit_ratio))
            });
            first.into_iter().chain(ratios).collect::<Vec<String>>()
        });
        writeln!(f, "{}: {}", self.trace, self.heading())?;
        writeln!(f)?;
        writeln!(f, "{}", aligned(&heads, lines, 1, 2))?;
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
    pub(super) fn policies(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.policy) {
                names.push(row.policy);
            }
        }
        names
    }

    /// The sizes in pages, the least first.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.rows.iter().map(|row| row.cache_pages).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}
