//! Comments that can be read: short lines, and docs that say something where they stand alone.

use super::Violation;
use super::tree::Tree;

/// More comment lines of over `columns` columns than `most`.
pub fn check_columns(tree: &Tree, columns: usize, most: usize) -> Vec<Violation> {
    let lines = long_comments(tree, columns);
    if lines.len() <= most {
        return Vec::new();
    }
    let what = format!(
        "{} comment lines are longer than {columns} columns, the bound is {most}: wrap those that you add",
        lines.len()
    );
    vec![Violation::new(super::BOUNDS, 0, what)]
}

/// More docs that begin with "The same" than `most`.
pub fn check_same(tree: &Tree, most: usize) -> Vec<Violation> {
    let docs = same_docs(tree);
    if docs.len() <= most {
        return Vec::new();
    }
    let what = format!("{} docs begin with \"The same\", the bound is {most}: say it in this item's words", docs.len());
    vec![Violation::new(super::BOUNDS, 0, what)]
}

/// Bounds that may fall.
pub fn notes(tree: &Tree, (columns, long_max): (usize, usize), same_max: usize) -> Vec<Violation> {
    let long = super::may_fall("long comment lines", long_comments(tree, columns).len(), long_max);
    let same = super::may_fall("docs that begin with \"The same\"", same_docs(tree).len(), same_max);
    long.into_iter().chain(same).collect()
}

/// Path and line of each comment line of more columns.
fn long_comments(tree: &Tree, columns: usize) -> Vec<(&str, usize)> {
    let is_long = |line: &str| line.trim_start().starts_with("//") && line.chars().count() > columns;
    numbered(tree).filter(|(_, _, line, _)| is_long(line)).map(|(path, number, ..)| (path, number)).collect()
}

/// Path and line of each doc comment that begins so.
fn same_docs(tree: &Tree) -> Vec<(&str, usize)> {
    let is_doc = |line: &str| ["///", "//!"].iter().any(|mark| line.trim_start().starts_with(mark));
    let begins = |line: &str| line.trim_start().trim_start_matches(['/', '!']).trim_start().starts_with("The same");
    let docs = numbered(tree).filter(|(_, _, line, before)| is_doc(line) && begins(line) && !is_doc(before));
    docs.map(|(path, number, ..)| (path, number)).collect()
}

/// Path, number, text and previous line of every line of Rust.
fn numbered(tree: &Tree) -> impl Iterator<Item = (&str, usize, &str, &str)> {
    tree.files.iter().filter(|file| file.is(".rs")).flat_map(|file| {
        let before = std::iter::once("").chain(file.text.lines());
        file.text.lines().zip(before).enumerate().map(|(at, (line, before))| (&*file.path, at + 1, line, before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Tree {
        Tree::planted(&[("crates/a/src/lib.rs", text)])
    }

    #[test]
    fn a_long_comment_too_many_is_found() {
        let long = format!("    // {}\n", "a".repeat(20));
        assert_eq!(check_columns(&tree(&long), 20, 0).len(), 1);
        assert_eq!(check_columns(&tree(&long), 20, 1), []);
        assert_eq!(check_columns(&tree(&long), 27, 0), []);
        assert_eq!(check_columns(&tree(&format!("let a = \"{}\";\n", "a".repeat(20))), 20, 0), []);
    }

    #[test]
    fn a_doc_that_says_nothing_is_found() {
        for text in ["/// The same.\nfn f() {}\n", "    /// The same for bytes.\n", "//! The same.\n"] {
            assert_eq!(check_same(&tree(text), 0).len(), 1, "{text}");
            assert_eq!(check_same(&tree(text), 1), [], "{text}");
        }
        for text in ["/// Words.\n/// The same.\n", "// The same.\n", "/// Another.\n"] {
            assert_eq!(check_same(&tree(text), 0), [], "{text}");
        }
    }

    #[test]
    fn bounds_that_may_fall_are_noted() {
        assert_eq!(notes(&tree("/// The same.\n"), (5, 1), 1), []);
        assert_eq!(notes(&tree("fn f() {}\n"), (5, 1), 1).len(), 2);
    }
}
