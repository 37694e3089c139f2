//! The table of trace formats, and the detection of a trace's format by its first lines.
//!
//! Each format counts the lines that its parser takes and those that only resemble it. The format
//! with most lines taken wins, then the one with most that resemble it; where two formats are
//! level, the user has to name the format.

use super::grammar::{Format, LineParser, TraceFormat, shortened};
use super::{Trace, alibaba, blkparse, iolog, mqsim, msr, spc, systor, tencent};
use crate::calls::MAGIC;

/// The formats.
const FORMATS: &[TraceFormat] = &[
    iolog::FORMAT,
    msr::FORMAT,
    blkparse::FORMAT,
    mqsim::FORMAT,
    spc::FORMAT,
    alibaba::FORMAT,
    tencent::FORMAT,
    systor::FORMAT,
];

/// How many lines the detection looks at.
pub(super) const LINES: usize = 32;

/// A parser of the format; `None` for calls of files, which are no trace of blocks.
pub(super) fn parser(format: Format, spec: &Trace) -> Option<Box<dyn LineParser>> {
    FORMATS.iter().find(|entry| entry.format == format).map(|entry| (entry.parser)(spec))
}

/// The usual names of the formats, for messages.
pub(super) fn labels() -> String {
    listed(FORMATS.iter().map(|entry| entry.label.to_string()))
}

/// A list for messages: `a, b or c`.
fn listed(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.collect();
    match items.pop() {
        Some(last) if items.is_empty() => last,
        Some(last) => format!("{} or {last}", items.join(", ")),
        None => String::new(),
    }
}

/// The format that the first line alone identifies, if one does.
pub(super) fn told_by_first_line(line: &str) -> Option<Format> {
    if line.as_bytes().starts_with(MAGIC) {
        return Some(Format::Calls);
    }
    (iolog::FORMAT.resembles)(line.trim_start()).then_some(Format::Iolog)
}

/// How well lines fit a format: how many its parser takes, and how many at least resemble it.
fn score(entry: &TraceFormat, lines: &[&str], spec: &Trace) -> (usize, usize) {
    let alike = lines.iter().filter(|line| (entry.resembles)(line));
    // A new parser for each line: one bad line says nothing about the next.
    let taken = alike.clone().filter(|line| (entry.parser)(spec).parse(line).is_ok()).count();
    (taken, alike.count())
}

/// Detects the format of a trace by its first lines. Errors: what was found, and what is expected.
pub(super) fn detect(lines: &[&str], spec: &Trace) -> Result<Format, (String, String)> {
    let scores: Vec<_> = FORMATS.iter().map(|entry| (score(entry, lines, spec), entry)).collect();
    let best = scores.iter().map(|(score, _)| *score).max().unwrap_or_default();
    if best == (0, 0) {
        let first = lines.first().copied().unwrap_or("");
        let shapes = listed(FORMATS.iter().map(|entry| entry.line.to_string()));
        let keys = listed(FORMATS.iter().map(|entry| entry.key.to_string()));
        let found = format!("\"{}\" begins no known format", shortened(first));
        return Err((found, format!("{shapes}; or give format={keys}")));
    }
    let candidates: Vec<_> = scores.iter().filter(|(score, _)| *score == best).map(|(_, entry)| *entry).collect();
    if let [entry] = candidates[..] {
        return Ok(entry.format);
    }
    let count = match lines.len() {
        1 => "the only line fits".to_string(),
        count => format!("the first {count} lines fit"),
    };
    let labels: Vec<&str> = candidates.iter().map(|entry| entry.label).collect();
    let found = format!("{count} {} equally well", labels.join(" and "));
    let keys = listed(candidates.iter().map(|entry| format!("format={}", entry.key)));
    Err((found, format!("{keys}, which says what the trace is")))
}
