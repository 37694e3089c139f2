//! The nesting depth of a TOML text, checked before parsing.

/// Deepest accepted nesting. No spec has a tenth of it.
const DEPTH_MAX: usize = 64;

/// Whether brackets, and the segments of the keys before them, nest deeper than any spec does.
///
/// The parser limits the nesting of brackets and the segments of one key, at 80 each, but not their
/// product, which can exceed the stack when a table is traversed. For a text that is no TOML,
/// either answer is possible. Cost: proportional to the text.
pub fn nests_too_deep(text: &str) -> bool {
    // Dots since the last separator, for each open bracket: those of a key before its value, but
    // also those of a number, which do no harm.
    let mut open: Vec<usize> = vec![0];
    let mut rest = text;
    while let Some(found) = rest.find(['"', '\'', '#', '[', '{', ']', '}', ',', '.', '\n']) {
        let (_, from) = rest.split_at(found);
        let mut chars = from.chars();
        let Some(sign) = chars.next() else { break };
        rest = chars.as_str();
        match sign {
            '"' | '\'' => rest = behind_string(from),
            '#' => rest = from.find('\n').and_then(|end| from.get(end..)).unwrap_or(""),
            '[' | '{' => open.push(0),
            ']' | '}' if open.len() > 1 => drop(open.pop()),
            '.' => {
                if let Some(dots) = open.last_mut() {
                    *dots += 1;
                }
            }
            _ => {
                if let Some(dots) = open.last_mut() {
                    *dots = 0;
                }
            }
        }
        // The sum covers at most sixteen levels of brackets; more would be quadratic, and is too
        // deep anyway.
        if open.len() > 16 || open.iter().sum::<usize>() > DEPTH_MAX {
            return true;
        }
    }
    false
}

/// The text after the string at its beginning; empty if the string does not end.
fn behind_string(text: &str) -> &str {
    // Only basic strings have escapes.
    let (quote, escape) = if text.starts_with('"') { ("\"", '\\') } else { ("'", '\'') };
    let long = quote.repeat(3);
    let mark = if text.starts_with(&long) { long.as_str() } else { quote };
    let mut rest = text.get(mark.len()..).unwrap_or_default();
    while let Some(found) = rest.find(|sign| quote.starts_with(sign) || sign == escape) {
        rest = rest.get(found..).unwrap_or_default();
        if let Some(behind) = rest.strip_prefix(mark) {
            return behind;
        }
        let mut chars = rest.chars();
        if chars.next() == Some('\\') {
            chars.next();
        }
        rest = chars.as_str();
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_of_brackets_and_dots_is_bounded() {
        let key = ["a"; 79].join(".");
        let nested = |levels: usize| format!("x = {}1{}", format!("{{{key} = ").repeat(levels), "}".repeat(levels));
        assert!(nests_too_deep(&nested(1)) && nests_too_deep(&nested(70)));
        assert!(nests_too_deep(&format!("x = {}{}", "[".repeat(17), "]".repeat(17))));
        let dots = "1.5,".repeat(500);
        let brackets = "[".repeat(40);
        for harmless in [
            "[stack.device]\nx = {a.b = {c = 1}}\n".repeat(100),
            format!("x = [{dots}]"),
            format!("x = \"{brackets}\\\"{brackets}\" # {brackets}\ny = '{brackets}'\nz = \"\"\"\n\"{brackets}\"\"\""),
        ] {
            assert!(!nests_too_deep(&harmless), "{harmless}");
            toml::from_str::<toml::Table>(&harmless)
                .map_or_else(|error| assert!(error.message().contains("duplicate")), drop);
        }
    }
}
