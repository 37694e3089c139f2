//! Prose in lines that a terminal of the usual width holds.

/// Characters of a line.
pub const WIDTH: usize = 80;

/// A text whose lines are broken between words; words that are longer than a line stay whole.
pub fn fold(text: &str) -> String {
    text.lines().map(fold_line).collect::<Vec<_>>().join("\n")
}

fn fold_line(text: &str) -> String {
    let mut folded = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > WIDTH {
            folded.push('\n');
            used = 0;
        } else if used > 0 {
            folded.push(' ');
            used += 1;
        }
        folded.push_str(word);
        used += length;
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_a_terminal_unless_a_word_is() {
        let long = "x".repeat(90);
        let text = fold(&format!("{} {long} end\nnext", "word ".repeat(40)));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH || line == long), "{text}");
        assert_eq!(text.split_whitespace().count(), 43);
        assert!(text.ends_with("\nnext"));
    }
}
