//! Comments and documents that can be read: short lines, and docs that say something where they
//! stand alone.

use super::Violation;
use super::tree::Tree;

/// First lines that name nothing: a reader of the item alone learns nothing from them.
const VAGUE: [&str; 28] = [
    "All.",
    "Always.",
    "Any.",
    "As well.",
    "Both.",
    "Here.",
    "How long.",
    "How many.",
    "How much.",
    "How.",
    "Kept.",
    "Later.",
    "Likewise.",
    "Neither.",
    "None.",
    "One.",
    "Only.",
    "Same.",
    "Shortly.",
    "That.",
    "There.",
    "These.",
    "What.",
    "When.",
    "Where.",
    "Which.",
    "Whose.",
    "Why.",
];

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

/// Doc comments whose whole first line is one of [`VAGUE`].
pub fn check_vague(tree: &Tree) -> Vec<Violation> {
    let vague = first_doc_lines(tree).filter(|(_, _, text)| VAGUE.contains(text));
    let what = |text| format!("the doc is \"{text}\", which names nothing: say what the item is");
    vague.map(|(path, number, text)| Violation::new(path, number, what(text))).collect()
}

/// More prose lines of over `columns` columns in documents than `most`.
pub fn check_documents(tree: &Tree, columns: usize, most: usize) -> Vec<Violation> {
    let lines = long_prose(tree, columns);
    if lines.len() <= most {
        return Vec::new();
    }
    let named = lines.iter().map(|(path, number)| format!("{path}:{number}")).collect::<Vec<_>>().join(" ");
    let what = format!("{} lines are longer than {columns} columns, the bound is {most}: {named}", lines.len());
    vec![Violation::new(super::BOUNDS, 0, what)]
}

/// Notes about bounds of this file that may fall.
pub fn notes(tree: &Tree, columns: usize, (long_max, prose_max, same_max): (usize, usize, usize)) -> Vec<Violation> {
    let long = super::may_fall("long comment lines", long_comments(tree, columns).len(), long_max);
    let prose = super::may_fall("long lines of prose", long_prose(tree, columns).len(), prose_max);
    let same = super::may_fall("docs that begin with \"The same\"", same_docs(tree).len(), same_max);
    long.into_iter().chain(prose).chain(same).collect()
}

/// Path and line of each comment line of more columns.
fn long_comments(tree: &Tree, columns: usize) -> Vec<(&str, usize)> {
    let is_long = |line: &str| line.trim_start().starts_with("//") && line.chars().count() > columns;
    numbered(tree).filter(|(_, _, line, _)| is_long(line)).map(|(path, number, ..)| (path, number)).collect()
}

/// Path and line of each long line of prose in documents. Tables, fenced blocks, headings, link
/// definitions and HTML comments do not count.
fn long_prose(tree: &Tree, columns: usize) -> Vec<(&str, usize)> {
    let mut long = Vec::new();
    for file in tree.files.iter().filter(|file| file.is(".md")) {
        let mut fenced = false;
        for (at, line) in file.text.lines().enumerate() {
            let text = line.trim_start();
            if ["```", "~~~"].iter().any(|fence| text.starts_with(fence)) {
                fenced = !fenced;
            } else if !fenced && !is_whole(text) && line.chars().count() > columns {
                long.push((&*file.path, at + 1));
            }
        }
    }
    long
}

/// Whether a line of a document cannot be wrapped.
fn is_whole(text: &str) -> bool {
    // `[name]: address`, not `[text](address)`.
    let is_definition = text.starts_with('[') && text.find(']').is_some_and(|at| text[at..].starts_with("]:"));
    ["|", "#", "<!--"].iter().any(|mark| text.starts_with(mark)) || is_definition
}

/// Path and line of each doc comment that begins with "The same".
fn same_docs(tree: &Tree) -> Vec<(&str, usize)> {
    let docs = first_doc_lines(tree).filter(|(_, _, text)| text.starts_with("The same"));
    docs.map(|(path, number, _)| (path, number)).collect()
}

/// Path, line and text of the first line of each doc comment.
fn first_doc_lines(tree: &Tree) -> impl Iterator<Item = (&str, usize, &str)> {
    let first = numbered(tree).filter(|(.., before)| doc_text(before).is_none());
    first.filter_map(|(path, number, line, _)| Some((path, number, doc_text(line)?)))
}

/// The text of a line of a doc comment.
fn doc_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    Some(text.trim())
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
    fn a_doc_of_a_vague_word_is_found() {
        for text in ["/// Whose.\nfn f() {}\n", "    /// Where.\n    at: u32,\n", "//! What.\n", "/// Likewise.\n"] {
            assert_eq!(check_vague(&tree(text)).len(), 1, "{text}");
        }
        for text in ["/// Where it is.\n", "// Where.\n", "/// The owner, and\n/// where.\n", "/// Words.\n/// What.\n"]
        {
            assert_eq!(check_vague(&tree(text)), [], "{text}");
        }
    }

    #[test]
    fn a_long_line_of_prose_too_many_is_found() {
        let page = |text: &str| Tree::planted(&[("docs/a.md", text)]);
        let long = "a ".repeat(15);
        for text in [long.clone(), format!("* {long}"), format!("```\n{long}\n```\n{long}"), format!("[a](b): {long}")]
        {
            assert_eq!(check_documents(&page(&text), 20, 0).len(), 1, "{text}");
            assert_eq!(check_documents(&page(&text), 20, 1), [], "{text}");
        }
        for mark in ["| ", "## ", "[a]: ", "<!-- ", "```\n"] {
            assert_eq!(check_documents(&page(&format!("{mark}{long}")), 20, 0), [], "{mark}");
        }
    }

    #[test]
    fn bounds_that_may_fall_are_noted() {
        assert_eq!(notes(&tree("/// The same.\n"), 5, (1, 0, 1)), []);
        assert_eq!(notes(&tree("fn f() {}\n"), 5, (1, 1, 1)).len(), 3);
    }
}
