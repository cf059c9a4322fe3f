//! What clap refuses, in one line as all other mistakes are told.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The line about arguments that clap refuses; nothing if it is help or a version that was asked for.
pub(super) fn line(error: &clap::Error) -> Option<String> {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => return None,
        ErrorKind::ValueValidation => {
            if let Some(line) = validation(error) {
                return Some(line);
            }
        }
        _ => {}
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let ends = [
        text.find("\n\nUsage:"),
        text.find("\n\nFor more information"),
    ];
    let end = ends.into_iter().flatten().min().unwrap_or(text.len());
    let words = text[..end].split_whitespace().collect::<Vec<_>>().join(" ");
    // clap sets its tips apart by lines; that anything can be a value is none.
    let words = words.replace(" tip: ", "; ");
    let words = words
        .split("; to pass '")
        .next()
        .unwrap_or(&words)
        .to_string();
    match error.kind() {
        ErrorKind::InvalidValue => Some(words),
        _ => Some(format!("{words} (--help shows how)")),
    }
}

/// What clap says first, without its name for it and its tips: for who shows errors in another place than a terminal.
pub(super) fn first(error: &clap::Error) -> String {
    let text = error.to_string();
    let said = text.split("\n\n").next().unwrap_or_default();
    let said = said.strip_prefix("error: ").unwrap_or(said);
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `--cache: 'x' is not a size: ...`: what a value parser says, behind the option.
fn validation(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let said = std::error::Error::source(error)?.to_string();
    match argument
        .split_whitespace()
        .next()
        .filter(|name| name.starts_with('-'))
    {
        Some(option) => Some(format!("{option}: {said}")),
        None => Some(said),
    }
}
