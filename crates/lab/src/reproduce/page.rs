//! A reproduction as pages that need nothing but themselves: one for each figure, and an index.

use std::fmt::Write as _;

use super::outcome::{Finding, FoundClaim, FoundPanel, Reproduction};
use super::plot;
use super::text::seeds;
use super::thumbnail;
use super::verdict::Verdict;
use crate::report::format;
use crate::report::html::{Escaped, STYLE};

/// What these pages need besides the report's style.
const MORE_STYLE: &str = "
table.claims { width: 100%; border-collapse: collapse; font-size: 14px; }
.claims th, .claims td { padding: 6px 14px 6px 0; text-align: left; vertical-align: top; border-top: 1px solid var(--line); }
.claims thead th { border-top: 0; border-bottom: 2px solid var(--strong-line); }
.claims td.value { white-space: nowrap; }
.claims small { display: block; color: var(--muted); font-size: 13px; max-width: 100ch; }
.verdict { padding: 1px 8px; border-radius: 9px; font-size: 12.5px; white-space: nowrap; color: #fff; }
.verdict.holds_closely { background: #005f47; }
.verdict.holds { background: #00795a; }
.verdict.direction_only { background: #8a5f00; }
.verdict.fails { background: #b3400a; }
.verdict.within_noise, .verdict.input,
.verdict.untested { background: #66727f; }
a { color: var(--s0); }
.chart .mark, .legend .mark { fill: var(--panel); stroke: var(--text); stroke-width: 1.6; }
.chart .full, .legend .full { fill: var(--text); stroke: var(--panel); stroke-width: 1; }
.thumb { display: block; width: 132px; height: 56px; margin-top: 3px; border-bottom: 1px solid var(--strong-line); }
section h3 { margin: 12px 0 0; font-size: 14px; }
@media (max-width: 620px) {
  .index thead { display: none; }
  .index tr, .index td { display: block; }
  .index td + td { border-top: 0; padding-top: 0; }
}
";

fn head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{STYLE}{MORE_STYLE}</style>\n</head>\n<body>\n<main>\n",
        Escaped(title)
    )
}

const TAIL: &str = "</main>\n</body>\n</html>\n";

/// The page of a figure.
pub fn page(finding: &Finding) -> String {
    let mut text = head(&format!("{} · {}", finding.name, finding.title));
    let ground = &finding.ground;
    let _ = write!(
        text,
        "<p class=\"kicker\"><a href=\"index.html\">wharf reproduce</a> · {} · section {} of {} · {}</p>\n\
         <h1>{}</h1>\n<p class=\"lede\">{}</p>\n<div class=\"facts\">",
        Escaped(&finding.name),
        Escaped(&finding.section),
        Escaped(&ground.cite),
        seeds(ground),
        Escaped(&finding.title),
        Escaped(counted(&finding.claims)),
    );
    for note in finding.notes.iter().chain(&ground.notes) {
        let _ = write!(text, "<p>{}.</p>", Escaped(sentence_case(note)));
    }
    text.push_str("</div>\n");
    plots(&mut text, finding);
    claims(&mut text, &finding.claims);
    values(&mut text, finding);
    let costs = &ground.cost_table;
    let _ = writeln!(
        text,
        "<footer>Simulated in virtual time with the cost table {} (measured on {}, {}, commit {}); program of commit {}. \
         The paper's figures are those that its text gives: {}.</footer>",
        Escaped(&costs.name),
        Escaped(&costs.machine),
        Escaped(&costs.date),
        Escaped(&costs.commit),
        Escaped(&ground.commit),
        Escaped(&ground.paper),
    );
    text + TAIL
}

/// How the claims of a figure fare, in a line.
pub(super) fn counted(claims: &[FoundClaim]) -> String {
    let count = |verdict| claims.iter().filter(|c| c.verdict == verdict).count() as u64;
    let parts = [
        (Verdict::HoldsClosely, "holds closely", "hold closely"),
        (Verdict::Holds, "holds", "hold"),
        (
            Verdict::DirectionOnly,
            "holds in direction, not in size",
            "hold in direction, not in size",
        ),
        (Verdict::WithinNoise, "is within noise", "are within noise"),
        (Verdict::Fails, "does not hold here", "do not hold here"),
        (Verdict::Untested, "is not tested", "are not tested"),
        (Verdict::Input, "is an input", "are inputs"),
    ];
    let said: Vec<String> = parts
        .iter()
        .map(|(verdict, one, more)| (count(*verdict), one, more))
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, more)| format!("{count} {}", if count == 1 { one } else { more }))
        .collect();
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    format!(
        "Of {} of the paper {}.",
        format::counted(claims.len() as u64, "claim"),
        format::listed(&said)
    )
}

/// A note as a sentence.
pub(super) fn sentence_case(note: &str) -> String {
    let mut letters = note.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn plots(text: &mut String, finding: &Finding) {
    let _ = writeln!(text, "<section>\n<h2>{}</h2>", Escaped(&finding.axis));
    for panel in &finding.panels {
        if !panel.title.is_empty() {
            let _ = writeln!(text, "<h3>{}</h3>", Escaped(&panel.title));
        }
        text.push_str(&plot::draw(
            panel,
            finding.plot,
            &finding.points,
            &finding.axis,
        ));
    }
    for (reason, cells) in &finding.gaps {
        let _ = writeln!(
            text,
            "<p class=\"hint\">{} without a value: {}.</p>",
            format::counted(u64::from(*cells), "cell"),
            Escaped(reason)
        );
    }
    text.push_str("</section>\n");
}

fn claims(text: &mut String, claims: &[FoundClaim]) {
    text.push_str(
        "<section class=\"long\">\n<h2>What the paper says, and what was found</h2>\n<div class=\"scroll\"><table class=\"claims\">\n\
         <thead><tr><th>claim</th><th>paper</th><th>here</th><th></th></tr></thead>\n<tbody>\n",
    );
    for claim in claims {
        let _ = writeln!(
            text,
            "<tr><td>{}<small>{}</small></td><td class=\"value\">{}</td><td class=\"value\">{}</td><td>{}</td></tr>",
            Escaped(&claim.text),
            Escaped(&claim.sentence),
            Escaped(&claim.paper),
            Escaped(&claim.ours),
            badge(claim.verdict)
        );
    }
    text.push_str("</tbody>\n</table></div>\n</section>\n");
}

fn badge(verdict: Verdict) -> String {
    let class = match verdict {
        Verdict::HoldsClosely => "holds_closely",
        Verdict::Holds => "holds",
        Verdict::DirectionOnly => "direction_only",
        Verdict::WithinNoise => "within_noise",
        Verdict::Fails => "fails",
        Verdict::Untested => "untested",
        Verdict::Input => "input",
    };
    format!(
        "<span class=\"verdict {class}\">{}</span>",
        verdict.as_str()
    )
}

fn values(text: &mut String, finding: &Finding) {
    text.push_str("<section class=\"long\">\n<h2>All values</h2>\n");
    for panel in &finding.panels {
        if !panel.title.is_empty() {
            let _ = writeln!(text, "<h3>{}</h3>", Escaped(&panel.title));
        }
        table(text, panel);
    }
    text.push_str("</section>\n");
}

fn table(text: &mut String, panel: &FoundPanel) {
    text.push_str("<div class=\"scroll\"><table class=\"figures\">\n<thead><tr><th></th>");
    for point in &panel.points {
        let _ = write!(text, "<th scope=\"col\">{}</th>", Escaped(point));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for series in &panel.series {
        let _ = write!(text, "<tr><th scope=\"row\">{}</th>", Escaped(&series.name));
        for value in &series.values {
            let _ = write!(text, "<td>{}</td>", format::optional(*value));
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table></div>\n");
}

/// What is not as it should be, which stands out.
fn problems(text: &mut String, reproduction: &Reproduction) {
    if reproduction.failures.is_empty() && !reproduction.interrupted {
        return;
    }
    text.push_str("<div class=\"notes\">");
    for failure in &reproduction.failures {
        let _ = write!(text, "<p>A run failed: {}.</p>", Escaped(failure));
    }
    if reproduction.interrupted {
        text.push_str("<p>Interrupted: figures show what was run until then.</p>");
    }
    text.push_str("</div>\n");
}

/// The index page: every figure with how its claims fare.
pub fn index(reproduction: &Reproduction) -> String {
    let ground = &reproduction.ground;
    let mut text = head(&format!("Reproduced: {}", ground.paper));
    let all: Vec<FoundClaim> = reproduction
        .findings
        .iter()
        .flat_map(|finding| finding.claims.clone())
        .collect();
    let _ = write!(
        text,
        "<p class=\"kicker\">wharf reproduce · {} · {}</p>\n<h1>{}</h1>\n<p class=\"lede\">{} {} made. {}.</p>\n<div class=\"facts\">",
        Escaped(&ground.cite),
        seeds(ground),
        Escaped(&ground.paper),
        counted(&all),
        format::counted(reproduction.runs as u64, "run"),
        Escaped(sentence_case(
            &reproduction.score.lines().replace('\n', "; ")
        )),
    );
    for note in &ground.notes {
        let _ = write!(text, "<p>{}.</p>", Escaped(sentence_case(note)));
    }
    text.push_str("</div>\n");
    problems(&mut text, reproduction);
    text.push_str(
        "<section class=\"long\">\n<table class=\"claims index\">\n\
         <thead><tr><th>figure</th><th>what it shows</th><th>claims</th></tr></thead>\n<tbody>\n",
    );
    for finding in &reproduction.findings {
        let _ = writeln!(
            text,
            "<tr><td><a href=\"{0}.html\">{0}{4}</a></td><td>{1}<small>{2}</small></td><td>{3}</td></tr>",
            Escaped(&finding.name),
            Escaped(&finding.title),
            Escaped(counted(&finding.claims)),
            finding
                .claims
                .iter()
                .take(BADGES_MAX)
                .map(|claim| badge(claim.verdict))
                .collect::<Vec<_>>()
                .join(" "),
            small(finding),
        );
    }
    text + "</tbody>\n</table>\n</section>\n" + TAIL
}

/// The first plot of a figure that has values, in small.
fn small(finding: &Finding) -> String {
    let panels = finding.panels.iter();
    let mut drawn = panels.map(|panel| thumbnail::draw(panel, finding.plot));
    drawn.find(|svg| !svg.is_empty()).unwrap_or_default()
}

/// Badges of one figure on the index: a table of sixty cells needs no more.
const BADGES_MAX: usize = 8;
