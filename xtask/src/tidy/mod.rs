//! `cargo xtask tidy`: the rules that the compiler does not know.
//!
//! Each rule is a function from plain data to a list of [`Violation`]s in a file of its own, and
//! its tests plant violations.

mod bounds;
mod circles;
mod claims;
mod edges;
mod faces;
mod formats;
mod homes;
mod house;
mod leftovers;
mod lengths;
mod licences;
mod links;
mod manifests;
mod prose;
mod rust_text;
mod sources;
mod subjects;
mod tree;

use std::fmt;
use std::path::Path;

use anyhow::Result;

use crate::options::Options;
use crate::process;
use bounds::{
    CIRCLES, COMMENT_COLUMNS, FORMATS, JUDGES_ELSEWHERE_MAX, LONG_COMMENTS_MAX, LONG_PROSE_MAX, PATHS_OUTSIDE_MAX,
    PUBLIC_MODULES_MAX, PUBLIC_MODULES_MORE, SAME_DOCS_MAX, SUBJECT_COLUMNS, SUBJECTS_SINCE,
};
use tree::Tree;

/// The file that holds the bounds.
const BOUNDS: &str = "xtask/src/tidy/bounds.rs";

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

/// Applies every rule to the tree at `root` and prints what they find; true where nothing is
/// violated.
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

/// A note where a count is below its bound: the bound may fall.
fn may_fall(what: &str, count: usize, bound: usize) -> Option<Violation> {
    (count < bound).then(|| Violation::new(BOUNDS, 0, format!("{what}: {count}, the bound of {bound} may fall")))
}

type Findings = Vec<(&'static str, Vec<Violation>)>;

/// The findings of each rule, and the notes: places worth a look that do not break a rule.
fn apply(root: &Path) -> Result<(Findings, Vec<Violation>)> {
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
        ("formats", formats::check(&tree, FORMATS)),
        ("faces", faces::check(&tree, PUBLIC_MODULES_MAX, PUBLIC_MODULES_MORE)),
        ("circles", circles::check(&tree, CIRCLES)),
        ("judges", homes::check_judges(&tree, JUDGES_ELSEWHERE_MAX)),
        ("paths", homes::check_paths(&tree, PATHS_OUTSIDE_MAX)),
        ("modules", homes::check_modules(&tree)),
        ("comments", prose::check_columns(&tree, COMMENT_COLUMNS, LONG_COMMENTS_MAX)),
        ("docs", prose::check_same(&tree, SAME_DOCS_MAX)),
        ("vague docs", prose::check_vague(&tree)),
        ("prose", prose::check_documents(&tree, COMMENT_COLUMNS, LONG_PROSE_MAX)),
        ("subjects", subjects::check(&subjects::read(root, SUBJECTS_SINCE), SUBJECT_COLUMNS)),
    ];
    let mut notes = lengths::notes(&tree);
    notes.extend(sources::notes(&tree, house::HOUSE));
    notes.extend(formats::notes(&tree, FORMATS));
    notes.extend(faces::notes(&tree, PUBLIC_MODULES_MORE));
    notes.extend(circles::notes(&tree, CIRCLES));
    notes.extend(homes::notes(&tree, JUDGES_ELSEWHERE_MAX, PATHS_OUTSIDE_MAX));
    notes.extend(prose::notes(&tree, COMMENT_COLUMNS, (LONG_COMMENTS_MAX, LONG_PROSE_MAX, SAME_DOCS_MAX)));
    Ok((found, notes))
}
