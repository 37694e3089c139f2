//! Messages about unknown names, with the nearest right one.

use nandkit_units::suggest::{expected_in_words, nearest};

/// A sentence for a name that does not exist: the nearest right one, or all there are.
pub fn unknown(what: &str, name: &str, candidates: &[&str]) -> String {
    let all = candidates.join(", ");
    match nearest(name, candidates.iter().copied()) {
        Some(near) => format!("unknown {what} \"{name}\"; did you mean \"{near}\"? There are: {all}"),
        None => format!("unknown {what} \"{name}\"; expected one of: {all}"),
    }
}

/// Adds the nearest right name to a message of serde's about an unknown field or variant; other
/// messages stay as they are, also one that has it.
///
/// serde says: unknown field `x`, expected one of `a`, `b` (or: expected `a`).
pub fn explain(message: &str) -> String {
    // What serde says of a number where one of several names is wanted.
    if message.contains("expected string only") {
        return "expected a name in quotes".to_string();
    }
    // A number of another kind: serde names it as Rust does.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_messages_get_the_nearest_name() {
        assert_eq!(
            explain("unknown field `polcy`, expected one of `kind`, `policy`"),
            "unknown field `polcy`, expected one of `kind`, `policy` (did you mean `policy`?)"
        );
        assert_eq!(
            explain("unknown variant `contnt`, expected `content`"),
            "unknown variant `contnt`, expected `content` (did you mean `content`?)"
        );
        let explained = explain("unknown field `polcy`, expected one of `kind`, `policy`");
        assert_eq!(explain(&explained), explained, "said once");
        assert_eq!(explain("invalid type: string"), "invalid type: string");
        assert_eq!(
            explain("invalid value: integer `-1`, expected u16\n"),
            "invalid value: integer `-1`, expected a whole number from 0 to 65535"
        );
    }

    #[test]
    fn unknown_names_come_with_all_there_are() {
        assert_eq!(
            unknown("policy", "limt", &["merge", "limit"]),
            "unknown policy \"limt\"; did you mean \"limit\"? There are: merge, limit"
        );
    }
}
