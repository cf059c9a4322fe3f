//! The comparisons as a document.

use std::fmt::Write;

use super::{Fidelity, FilePair, Pair};
use crate::calibrate::machine;

/// What a reader has to know, before the tables.
const METHOD: &str = "\
Virtual time is worth what its predictions are worth. Here each design serves the same requests twice: in
virtual time, with the costs measured on this machine minutes before, and for real on polling threads, by the
same code. The error is prediction over measurement, less one.

Requests are 4 KiB, one in flight for each client, pages at random. Filling the caches counts for
nothing: every figure is the difference of a run with the requests that count and one without them. The drive keeps its data in
RAM, without checksums, and is software on one processor as fast as the host's (`firmware.platform`); it has a thread of its own, which
sleeps where all requests hit, so that two clients have two processors to themselves. The manager of `tri` and the drive share a thread. Pages may stay dirty, so that nothing is written back. Reads are not checked here, because the check would be
measured too. What stands beside the design `kernel` is the machine's kernel: `pread` and `pwrite` on a file, under the same client; its pages
to be missed were taken out of the page cache (`posix_fadvise`), the memory it may use is not bounded, and the model's
drive takes as long as an uncached read of the real device.
";

/// The same of operations on files, with the head of their table.
const FILES: &str = "
## Operations on files

One after the other, by one client. What is predicted is the design `ext4-model`: wfs on the host, above the model of the kernel's
page cache, with a system call for each operation. What is measured is this machine's ext4 on a loop device over memory, the
fastest of several rounds. The model's drive answers at once, and nothing stands for the loop device's own thread, which an `fsync`
waits for: of the last row the prediction is a lower bound.

| operation | predicted, ns | measured | ratio | error |
|---|---:|---:|---:|---:|";

fn file_row(pair: &FilePair) -> String {
    format!(
        "| {} | {:.0} | {:.0} | {:.2} | {:+.0} % |",
        pair.operation,
        pair.predicted_ns,
        pair.measured_ns,
        pair.predicted_ns / pair.measured_ns,
        pair.error() * 100.0,
    )
}

impl Fidelity {
    /// The document, for measurements made on `date` by the program of `commit`.
    pub fn to_markdown(&self, date: &str, commit: &str) -> String {
        let mut text = String::new();
        let mut line = |line: &str| writeln!(text, "{line}").expect("a string grows");
        line("# Fidelity: predictions beside measurements\n");
        line("Made by `wharf calibrate --fidelity FILE`, not edited by hand.\n");
        line(&format!(
            "Machine: {}. Date: {date}. Commit: {commit}.\n",
            machine()
        ));
        line(METHOD);
        let mut title = "";
        for pair in &self.pairs {
            if pair.scenario != title {
                title = pair.scenario;
                line(&heading(title));
            }
            line(&row(pair));
        }
        if !self.files.is_empty() {
            line(FILES);
            self.files.iter().for_each(|pair| line(&file_row(pair)));
        }
        if !self.left_out.is_empty() {
            line("\n## Not run\n");
            self.left_out
                .iter()
                .for_each(|why| line(&format!("* {why}")));
        }
        text
    }
}

fn heading(title: &str) -> String {
    let mut chars = title.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    let title = first.unwrap_or_default() + chars.as_str();
    format!(
        "\n## {title}\n\n\
         | design | clients | predicted, requests/s | measured | error | predicted mean latency, µs | measured | error |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|"
    )
}

fn row(pair: &Pair) -> String {
    let (rate, latency) = pair.errors();
    format!(
        "| `{}` | {} | {:.0} | {:.0} | {:+.0} % | {:.3} | {:.3} | {:+.0} % |",
        pair.design,
        pair.clients,
        pair.predicted.requests_per_s,
        pair.measured.requests_per_s,
        rate * 100.0,
        pair.predicted.mean_latency_us,
        pair.measured.mean_latency_us,
        latency * 100.0,
    )
}

#[cfg(test)]
mod tests {
    use super::super::Speed;
    use super::*;

    #[test]
    fn a_row_has_both_figures_and_their_errors() {
        let speed = |requests_per_s, mean_latency_us| Speed {
            requests_per_s,
            mean_latency_us,
        };
        let pair = Pair {
            scenario: "all reads hit",
            design: "clock".into(),
            clients: 2,
            predicted: speed(1_100_000.0, 0.9),
            measured: speed(1_000_000.0, 1.0),
        };
        let fidelity = Fidelity {
            pairs: vec![pair],
            files: vec![FilePair {
                operation: "`stat`",
                predicted_ns: 1100.0,
                measured_ns: 1000.0,
            }],
            left_out: vec!["`tri`: no processor".into()],
        };
        let text = fidelity.to_markdown("2026-01-02", "abc");
        assert!(text.contains("\n## All reads hit\n"), "{text}");
        assert!(
            text.contains("| `clock` | 2 | 1100000 | 1000000 | +10 % | 0.900 | 1.000 | -10 % |"),
            "{text}"
        );
        assert!(
            text.contains("|---:|\n| `stat` | 1100 | 1000 | 1.10 | +10 % |\n"),
            "{text}"
        );
        assert!(text.contains("Date: 2026-01-02. Commit: abc."));
        assert!(text.ends_with("## Not run\n\n* `tri`: no processor\n"));
    }
}
