//! `cargo xtask tidy`: the rules that the compiler does not know.
//!
//! Each rule is a function from plain data to a list of [`Violation`]s in a file of its own, and its tests plant violations.

mod claims;
mod edges;
mod house;
mod leftovers;
mod lengths;
mod licences;
mod links;
mod manifests;
mod rust_text;
mod sources;
mod tree;

use std::fmt;
use std::path::Path;

use anyhow::Result;

use crate::options::Options;
use crate::process;
use tree::Tree;

/// One place where a rule does not hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, from the root on.
    pub path: String,
    /// The line, from 1 on; 0 where the whole file is meant.
    pub line: usize,
    /// What is wrong and what would be right.
    pub what: String,
}

impl Violation {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// The task.
pub fn run(arguments: &[String]) -> Result<bool> {
    Options::parse(arguments, &[], &[], 0)?;
    check(&process::root())
}

/// Applies every rule to the tree at `root` and prints what they find; true where nothing is violated.
pub fn check(root: &Path) -> Result<bool> {
    let (violations, notes) = apply(root)?;
    for note in &notes {
        println!("note: {note}");
    }
    let mut count = 0;
    for (rule, found) in &violations {
        for violation in found {
            println!("{rule}: {violation}");
            count += 1;
        }
    }
    match count {
        0 => println!("tidy: {} rules hold", violations.len()),
        _ => println!("tidy: {count} violations"),
    }
    Ok(count == 0)
}

type Found = Vec<(&'static str, Vec<Violation>)>;

/// What each rule finds, and the notes: places worth a look that fail nothing.
fn apply(root: &Path) -> Result<(Found, Vec<Violation>)> {
    let tree = Tree::read(root)?;
    let metadata = process::output(&mut process::cargo(&["metadata", "--format-version", "1", "--locked"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let found = vec![
        ("edges", edges::check(&metadata, house::HOUSE)),
        ("house on the page", edges::check_page(&tree, house::HOUSE)),
        ("outside crates", edges::check_outside(&metadata, house::OUTSIDE)),
        ("manifests", manifests::check(&tree)),
        ("licences", licences::check(&metadata, &tree)),
        ("sources", sources::check(&tree, house::HOUSE)),
        ("lengths", lengths::check(&tree)),
        ("links", links::check(&tree)),
        ("claims", claims::check(&tree)),
        ("leftovers", leftovers::check(&tree)),
    ];
    let mut notes = lengths::notes(&tree);
    notes.extend(sources::notes(&tree, house::HOUSE));
    Ok((found, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_tree_is_tidy() {
        let (found, _) = apply(&process::root()).unwrap();
        let violations: Vec<String> =
            found.iter().flat_map(|(rule, found)| found.iter().map(move |one| format!("{rule}: {one}"))).collect();
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }
}
