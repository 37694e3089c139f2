//! Every claim id that is named anywhere is in the list of claims.

use std::collections::BTreeSet;

use super::Violation;
use super::rust_text::{self, is_word};
use super::tree::Tree;

/// The list of claims: a table row `| id | text |` for each.
const LIST: &str = "docs/guide/claims.md";

/// The papers. Each has claims.
const PAPERS: [char; 5] = ['1', '2', '3', '4', '5'];

/// Ids in documents, sources, specs and scripts are ids of the list; the list names each once and
/// says something of it.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let Some(list) = tree.file(LIST) else {
        return vec![Violation::new(LIST, 0, "is missing: the list of claims")];
    };
    let mut violations = Vec::new();
    let mut known = BTreeSet::new();
    for (number, line) in list.text.lines().enumerate() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let Some(id) = cells.first().filter(|cell| ids(cell).first() == Some(*cell)) else { continue };
        if !known.insert((*id).to_owned()) {
            violations.push(Violation::new(LIST, number + 1, format!("{id} is listed twice")));
        }
        if cells.get(1).is_none_or(|text| text.is_empty()) {
            violations.push(Violation::new(LIST, number + 1, format!("{id} has no text")));
        }
    }
    for paper in PAPERS {
        if !known.iter().any(|id| id.chars().nth(1) == Some(paper)) {
            violations.push(Violation::new(LIST, 0, format!("holds no claim of P{paper}")));
        }
    }
    let named_in = [".md", ".rs", ".toml", ".json", ".jsonl", ".sh", ".html"];
    for file in tree.files.iter().filter(|file| named_in.iter().any(|extension| file.is(extension))) {
        // Tests may plant what they like.
        if file.path.contains("/tests/") {
            continue;
        }
        let text = if file.is(".rs") { rust_text::source_without_tests(&file.text) } else { file.text.clone() };
        for (number, line) in text.lines().enumerate() {
            for id in ids(line).into_iter().filter(|id| !known.contains(*id)) {
                violations.push(Violation::new(&file.path, number + 1, format!("{id} is no claim of {LIST}")));
            }
        }
    }
    violations
}

/// The claim ids of a line: P, a digit, a point, and a number or F.
fn ids(line: &str) -> Vec<&str> {
    let mut ids = Vec::new();
    for (at, _) in line.match_indices('P') {
        let rest = &line.as_bytes()[at + 1..];
        let digits = match rest {
            [b'0'..=b'9', b'.', b'F', ..] => 1,
            [b'0'..=b'9', b'.', tail @ ..] => tail.iter().take_while(|byte| byte.is_ascii_digit()).count(),
            _ => 0,
        };
        let end = at + 3 + digits;
        let inside = |c: Option<char>| c.is_some_and(is_word);
        if digits > 0 && !inside(line[..at].chars().next_back()) && !inside(line[end..].chars().next()) {
            ids.push(&line[at..end]);
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An id that is put together here, so that this file names none that the list lacks.
    fn id(paper: u32, claim: &str) -> String {
        format!("P{paper}.{claim}")
    }

    fn list() -> String {
        (1..=5).map(|paper| format!("| {} | text |\n", id(paper, "1"))).collect()
    }

    fn found(list: &str, path: &str, text: &str) -> usize {
        check(&Tree::planted(&[(LIST, list), (path, text)])).len()
    }

    #[test]
    fn planted_ids_are_found() {
        for path in ["README.md", "crates/cli/src/p4.rs", "specs/experiments/p4.toml"] {
            assert_eq!(found(&list(), path, &format!("see {} and ({}).", id(4, "1"), id(1, "1"))), 0);
            assert_eq!(found(&list(), path, &format!("see {}", id(4, "9"))), 1, "{path}");
            assert_eq!(found(&list(), path, &format!("see {}, {}", id(4, "F"), id(9, "12"))), 2, "{path}");
        }
    }

    #[test]
    fn tests_may_plant_ids() {
        let text = format!("#[cfg(test)]\nmod tests {{ fn f() {{ \"{}\" }} }}\n", id(4, "9"));
        assert_eq!(found(&list(), "crates/lab/src/lib.rs", &text), 0);
        assert_eq!(found(&list(), "crates/lab/tests/a.rs", &text.replace("#[cfg(test)]", "")), 0);
        assert_eq!(found(&list(), "crates/lab/src/lib.rs", &text.replace("#[cfg(test)]", "")), 1);
    }

    #[test]
    fn what_only_looks_alike_passes() {
        for text in ["EP4.1", "P4.1x", "P4.", "P44.1", "P4.Fine", "mP4.2"] {
            assert!(ids(text).is_empty(), "{text}");
        }
        assert_eq!(ids(&format!("{}-{}", id(4, "1"), id(4, "62"))), [id(4, "1"), id(4, "62")]);
    }

    #[test]
    fn the_list_itself_is_held_to_its_form() {
        let double = format!("{}| {} | again |\n", list(), id(3, "1"));
        let silent = format!("{}| {} | |\n", list(), id(3, "2"));
        let four: String = list().lines().take(4).map(|line| format!("{line}\n")).collect();
        for (text, what) in [(double, "twice"), (silent, "no text"), (four, "P5")] {
            let found = check(&Tree::planted(&[(LIST, &text)]));
            assert!(found.len() == 1 && found[0].what.contains(what), "{found:?}");
        }
        assert_eq!(check(&Tree::planted(&[])).len(), 1);
    }
}
