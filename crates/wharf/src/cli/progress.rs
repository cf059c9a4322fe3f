//! `--progress`: what commands that take long say meanwhile on standard error.

use wharf_lab::progress::Shown;
pub(super) use wharf_lab::progress::Steps;

/// How progress is shown.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Progress {
    /// What is said meanwhile on standard error.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    progress: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum How {
    /// A bar on a terminal, nothing in a pipe.
    #[default]
    Auto,
    /// A line every ten seconds, for a log.
    Plain,
    /// Nothing.
    None,
}

impl Progress {
    /// Shows it so from here on.
    pub(super) fn begin(&self) {
        let shown = match self.progress {
            How::Auto => Shown::Auto,
            How::Plain => Shown::Plain,
            How::None => Shown::None,
        };
        shown.set();
    }

    /// Says one thing, unless nothing is to be said.
    pub(super) fn say(&self, line: &str) {
        if self.progress != How::None {
            eprintln!("{line}");
        }
    }
}
