//! Messages about unknown names that suggest the nearest known one.

use nandkit_units::suggest::{expected_in_words, nearest};

/// A sentence about an unknown name that suggests the nearest known one and lists all.
pub fn unknown(what: &str, name: &str, candidates: &[&str]) -> String {
    let all = candidates.join(", ");
    match nearest(name, candidates.iter().copied()) {
        Some(near) => format!("unknown {what} \"{name}\"; did you mean \"{near}\"? Known: {all}"),
        None => format!("unknown {what} \"{name}\"; expected one of: {all}"),
    }
}

/// Adds the nearest known name to serde's message about an unknown field or variant. Other
/// messages, and messages that already have a suggestion, are returned unchanged.
///
/// The form of serde's message: unknown field `x`, expected one of `a`, `b` (or: expected `a`).
pub fn explain(message: &str) -> String {
    // serde's message for a number where one of several names is expected.
    if message.contains("expected string only") {
        return "expected a name in quotes".to_string();
    }
    // serde names the expected number type in Rust terms.
    if let Some((said, what)) = message.trim_end().rsplit_once("expected ")
        && expected_in_words(what) != what
    {
        return format!("{said}expected {}", expected_in_words(what));
    }
    let (Some(start), Some(expected)) =
        (message.find("unknown field `").or_else(|| message.find("unknown variant `")), message.find("expected "))
    else {
        return message.to_string();
    };
    let name = message.get(start..).and_then(|rest| rest.split('`').nth(1)).unwrap_or_default();
    if message.contains("(did you mean `") {
        return message.to_string();
    }
    let candidates: Vec<&str> = message.get(expected..).unwrap_or_default().split('`').skip(1).step_by(2).collect();
    match nearest(name, candidates) {
        Some(near) => format!("{} (did you mean `{near}`?)", message.trim_end()),
        None => message.to_string(),
    }
}
