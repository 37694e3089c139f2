//! Limits on the length of files and functions.

use super::Violation;
use super::rust_text;
use super::tree::Tree;

/// Lines of a file from which a note asks to split it.
const FILE_NOTE: usize = 600;
/// Largest number of lines of a file.
const FILE_LIMIT: usize = 700;
/// Lines of a function from which a note asks to split it.
const FUNCTION_NOTE: usize = 70;
/// Largest number of lines of the README, which is for a first look; the rest is in docs/guide.
const README_LIMIT: usize = 150;
/// Largest size of a file in bytes: fixtures are small, or made by a recipe.
const BYTES_LIMIT: u64 = 1 << 20;

/// Files that are too long.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &tree.files {
        let lines = file.text.lines().count();
        if file.is(".rs") && lines > FILE_LIMIT {
            let what = format!("{lines} lines; the limit is {FILE_LIMIT}, and {FILE_NOTE} the aim: one idea a file");
            violations.push(Violation::new(&file.path, 0, what));
        }
        if file.path == "README.md" && lines > README_LIMIT {
            let what = format!("{lines} lines; the limit is {README_LIMIT}: details belong into docs/guide");
            violations.push(Violation::new(&file.path, 0, what));
        }
        if file.bytes > BYTES_LIMIT {
            let what = format!("{} bytes; the limit is {BYTES_LIMIT}: keep the recipe, not the product", file.bytes);
            violations.push(Violation::new(&file.path, 0, what));
        }
    }
    violations
}

/// Files and functions that are getting long.
pub fn notes(tree: &Tree) -> Vec<Violation> {
    let mut notes = Vec::new();
    for file in tree.files.iter().filter(|file| file.is(".rs")) {
        let lines = file.text.lines().count();
        if lines > FILE_NOTE && lines <= FILE_LIMIT {
            notes.push(Violation::new(&file.path, 0, format!("{lines} lines; the aim is {FILE_NOTE}")));
        }
        for (name, line, length) in rust_text::functions(&file.text) {
            if length > FUNCTION_NOTE {
                let what = format!("fn {name} has {length} lines; the aim is {FUNCTION_NOTE}");
                notes.push(Violation::new(&file.path, line, what));
            }
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_fail_and_longish_ones_are_noted() {
        for (lines, violations, noted) in [(600, 0, 0), (601, 0, 1), (700, 0, 1), (701, 1, 0)] {
            let tree = Tree::planted(&[("crates/a/src/lib.rs", &"x\n".repeat(lines))]);
            assert_eq!((check(&tree).len(), notes(&tree).len()), (violations, noted), "{lines}");
        }
        assert!(check(&Tree::planted(&[("docs/a.md", &"x\n".repeat(2000))])).is_empty());
        assert_eq!(check(&Tree::planted(&[("fixtures/a.img", &"x".repeat(1 << 21))])).len(), 1);
    }

    #[test]
    fn a_long_readme_fails() {
        for (path, lines, violations) in [("README.md", 150, 0), ("README.md", 151, 1), ("docs/README.md", 151, 0)] {
            let tree = Tree::planted(&[(path, &"x\n".repeat(lines))]);
            assert_eq!(check(&tree).len(), violations, "{path}, {lines}");
        }
    }

    #[test]
    fn long_functions_are_noted() {
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "    x;\n".repeat(lines - 2));
        assert_eq!(notes(&Tree::planted(&[("a.rs", &function(70))])), []);
        let found = notes(&Tree::planted(&[("a.rs", &function(71))]));
        assert!(found.len() == 1 && found[0].what.contains("fn f has 71 lines"), "{found:?}");
    }
}
