//! The nearest right name for an unknown one, for messages.

/// The candidate that `name` most likely means: the nearest by edits (insertions, deletions,
/// changes, swaps), if any is near enough. Among equally near ones, prefers one with the same
/// letters, because a swap is the likelier mistake.
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
            let distance = if is_part { distance.min(reach) } else { distance };
            (distance, letters(&wanted) != letters(&other), reach, candidate)
        })
        .filter(|(distance, _, reach, _)| distance <= reach)
        .min_by_key(|(distance, differ, ..)| (*distance, *differ))
        .map(|(.., candidate)| candidate)
}

/// Rewords the expectation at the end of a serde message, such as `u32`, for people; anything else
/// is returned unchanged.
pub fn expected_in_words(what: &str) -> String {
    match what {
        "u8" => format!("a whole number from 0 to {}", u8::MAX),
        "u16" => format!("a whole number from 0 to {}", u16::MAX),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        "u64" => "a whole number, 0 or more".to_string(),
        "f32" | "f64" => "a number".to_string(),
        "a boolean" => "true or false".to_string(),
        what => what.to_string(),
    }
}

fn letters(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
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
        assert_eq!(nearest("hfc", ["hcc", "hcf", "hci"]), Some("hcf"), "a swap before a change");
    }
}
