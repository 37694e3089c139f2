//! Checks that some things have one home: the judges are in `judges`, and test code is in its own
//! crate.

use std::collections::BTreeSet;

use super::Violation;
use super::rust_text;
use super::tree::{File, Tree};

/// The crate of the judges.
const JUDGES: &str = "crates/judges/";

/// Definitions and marks of "a checker has no complaint": whoever writes one judges on his own.
/// The marks stand in pieces, so that this file holds none.
const DEFINITION: &str = "fn must_be_sound";
const MARKS: [(&str, &str); 2] = [("[QUOTA", " WARNING]"), ("[AS", "SERT]")];

/// More definitions outside `judges` than `most`.
pub fn check_judges(tree: &Tree, most: usize) -> Vec<Violation> {
    over(judges(tree), most, "a definition of \"no complaint\" outside judges")
}

/// More `#[path]` attributes that leave their crate than `most`.
pub fn check_paths(tree: &Tree, most: usize) -> Vec<Violation> {
    over(paths(tree), most, "#[path] leaves its crate")
}

/// Modules that stand beside their folder, not in it as `mod.rs`.
pub fn check_modules(tree: &Tree) -> Vec<Violation> {
    let folders: BTreeSet<&str> = tree.files.iter().filter_map(|file| Some(file.path.rsplit_once('/')?.0)).collect();
    let sources = tree.files.iter().filter(|file| file.is(".rs") && file.path.contains("src/"));
    let beside = sources.filter(|file| file.path.strip_suffix(".rs").is_some_and(|path| folders.contains(path)));
    beside.map(|file| Violation::new(&file.path, 0, "stands beside its folder: in it, it is mod.rs")).collect()
}

/// Bounds that may fall.
pub fn notes(tree: &Tree, judges_max: usize, paths_max: usize) -> Vec<Violation> {
    let judges = super::may_fall("definitions of soundness outside judges", judges(tree).len(), judges_max);
    let paths = super::may_fall("#[path] attributes that leave their crate", paths(tree).len(), paths_max);
    judges.into_iter().chain(paths).collect()
}

/// Every place, where there are more than `most`.
fn over(places: Vec<(String, usize)>, most: usize, what: &str) -> Vec<Violation> {
    if places.len() <= most {
        return Vec::new();
    }
    let what = format!("{what} ({} in all, the bound is {most})", places.len());
    places.iter().map(|(path, line)| Violation::new(path, *line, &*what)).collect()
}

/// Files outside `judges` that define or spell out soundness, each at its first such line.
fn judges(tree: &Tree) -> Vec<(String, usize)> {
    let is_mark = |line: &str| MARKS.iter().any(|(first, last)| line.contains(&format!("{first}{last}")));
    let elsewhere = tree.files.iter().filter(|file| file.is(".rs") && !file.path.starts_with(JUDGES));
    let first = |file: &File| {
        let code = rust_text::code(&file.text);
        let text = rust_text::without_comments(&file.text);
        let mut lines = code.lines().zip(text.lines());
        Some((file.path.clone(), 1 + lines.position(|(code, text)| code.contains(DEFINITION) || is_mark(text))?))
    };
    elsewhere.filter_map(first).collect()
}

/// Where `#[path]` leads out of the crate that holds the file.
fn paths(tree: &Tree) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| file.is(".rs")) {
        let root = if file.path.starts_with("crates/") { 2 } else { 1 };
        let depth = file.path.split('/').count() - 1 - root;
        let text = rust_text::without_comments(&file.text);
        for (number, line) in text.lines().enumerate() {
            let Some(target) = line.trim().strip_prefix("#[path = \"") else { continue };
            if target.split('/').take_while(|part| *part == "..").count() > depth {
                found.push((file.path.clone(), number + 1));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_beside_its_folder_is_found() {
        let found = |path| check_modules(&Tree::planted(&[(path, ""), ("crates/a/src/b/c.rs", "")])).len();
        assert_eq!(["crates/a/src/b.rs", "crates/a/src/b/mod.rs", "crates/a/src/c.rs"].map(found), [1, 0, 0]);
    }

    #[test]
    fn a_judge_elsewhere_is_found() {
        let found = |path: &str, text: &str| check_judges(&Tree::planted(&[(path, text)]), 0).len();
        let [(first, last), ..] = MARKS;
        for text in ["fn must_be_sound(x: u8) {}".to_owned(), format!("f(\"{first}{last}\")")] {
            assert_eq!(found("crates/a/tests/b.rs", &text), 1, "{text}");
            assert_eq!(found("crates/judges/src/b.rs", &text), 0, "{text}");
            assert_eq!(found("crates/a/tests/b.rs", &format!("// {text}")), 0, "{text}");
        }
        assert_eq!(found("crates/a/tests/b.rs", "must_be_sound(x)"), 0);
    }

    #[test]
    fn a_path_out_of_the_crate_is_found() {
        let found = |path: &str, to: &str| {
            check_paths(&Tree::planted(&[(path, &*format!("#[path = \"{to}\"]\nmod a;\n"))]), 0).len()
        };
        assert_eq!(found("crates/a/tests/b.rs", "../examples/c.rs"), 0);
        assert_eq!(found("crates/a/src/b/c.rs", "../../tests/c.rs"), 0);
        assert_eq!(found("crates/a/tests/b.rs", "../../c/tests/c.rs"), 1);
        assert_eq!(found("crates/a/tests/b/mod.rs", "../../../c/tests/c.rs"), 1);
        assert_eq!(found("fuzz/fuzz_targets/a.rs", "../../crates/a/tests/ram.rs"), 1);
    }

    #[test]
    fn bounds_hold_and_may_fall() {
        let tree = Tree::planted(&[("crates/a/tests/b.rs", "fn must_be_sound() {}")]);
        assert_eq!(check_judges(&tree, 1), []);
        assert_eq!(notes(&tree, 1, 0), []);
        assert_eq!(notes(&tree, 2, 1).len(), 2);
    }
}
