//! Offering the nearest right name for an unknown one.

/// The candidate that `name` most likely means: the nearest by edits (insertions, deletions, changes, swaps), if it is near at all.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['_', '-', ' '], "");
    let wanted = plain(name);
    candidates
        .into_iter()
        .map(|candidate| {
            let other = plain(candidate);
            let is_part = wanted.len() >= 3 && (other.contains(&wanted) || wanted.contains(&other) && other.len() >= 3);
            let distance = strsim::damerau_levenshtein(&wanted, &other);
            let reach = wanted.chars().count().max(other.chars().count()).div_ceil(3);
            (if is_part { distance.min(reach) } else { distance }, reach, candidate)
        })
        .filter(|(distance, reach, _)| distance <= reach)
        .min_by_key(|(distance, ..)| *distance)
        .map(|(.., candidate)| candidate)
}

/// A sentence for a name that does not exist: the nearest right one, or all there are.
pub fn unknown(what: &str, name: &str, candidates: &[&str]) -> String {
    let all = candidates.join(", ");
    match nearest(name, candidates.iter().copied()) {
        Some(near) => format!("unknown {what} \"{name}\"; did you mean \"{near}\"? There are: {all}"),
        None => format!("unknown {what} \"{name}\"; expected one of: {all}"),
    }
}

/// Adds the nearest right name to a message of serde's about an unknown field or variant; other messages stay as they are.
///
/// serde says: unknown field `x`, expected one of `a`, `b` (or: expected `a`).
pub fn explain(message: &str) -> String {
    let (Some(start), Some(expected)) =
        (message.find("unknown field `").or_else(|| message.find("unknown variant `")), message.find("expected "))
    else {
        return message.to_string();
    };
    let name = message.get(start..).and_then(|rest| rest.split('`').nth(1)).unwrap_or_default();
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
    fn near_names_are_offered_and_far_ones_are_not() {
        let names = ["merge", "merge+migration", "limit", "macroscopic", "log_blocks"];
        for (wrong, right) in [
            ("mereg", Some("merge")),
            ("LIMIT", Some("limit")),
            ("macro", Some("macroscopic")),
            ("logblocks", Some("log_blocks")),
            ("migration", Some("merge+migration")),
            ("frobnicate", None),
            ("lmt", Some("limit")),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, names), right, "{wrong}");
        }
    }

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
        assert_eq!(explain("invalid type: string"), "invalid type: string");
    }

    #[test]
    fn unknown_names_come_with_all_there_are() {
        assert_eq!(
            unknown("policy", "limt", &["merge", "limit"]),
            "unknown policy \"limt\"; did you mean \"limit\"? There are: merge, limit"
        );
    }
}
