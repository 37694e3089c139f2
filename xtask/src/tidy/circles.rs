//! Modules of a crate that need each other in a circle.
//!
//! A module needs another where its file names an item of the other: by `use` or by a path that
//! begins with `crate`, `self`, `super` or a child. Names that are handed on by `use` are followed
//! to the module that defines them. Only siblings form circles: what lies below a module counts as
//! the module, and a parent and its child may need each other.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::bounds::AllowedCircle;
use super::rust_text::{self, is_word};
use super::sources;
use super::tree::Tree;

/// A path of names; a module's begins behind the crate's root.
type Names = Vec<String>;

/// Circles that no row of `allowed` covers.
pub fn check(tree: &Tree, allowed: &[AllowedCircle]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for circle in circles(tree) {
        let covers = |row: &AllowedCircle| {
            row.room == circle.room && circle.modules.iter().all(|module| row.modules.contains(&&**module))
        };
        if !allowed.iter().any(covers) {
            let what =
                format!("modules in a circle: {}\n    {}", circle.modules.join(", "), circle.edges.join("\n    "));
            violations.push(Violation::new(&circle.source, 0, what));
        }
    }
    violations
}

/// Rows of `allowed` that name a module which is in no circle any more.
pub fn notes(tree: &Tree, allowed: &[AllowedCircle]) -> Vec<Violation> {
    let circles = circles(tree);
    let in_circle = |room: &str, module: &str| {
        let of_room = circles.iter().filter(|circle| circle.room == room);
        of_room.flat_map(|circle| &circle.modules).any(|name| name == module)
    };
    let rows = allowed.iter().flat_map(|row| row.modules.iter().map(move |module| (row, *module)));
    rows.filter(|(row, module)| !in_circle(row.room, module))
        .map(|(row, module)| {
            let what = format!("{}: {module} is in no circle any more ({}): drop it", row.room, row.why);
            Violation::new(super::BOUNDS, 0, what)
        })
        .collect()
}

/// Siblings that need each other.
struct Circle {
    room: String,
    /// The crate's source folder.
    source: String,
    /// The siblings, by their paths: `write::data`.
    modules: Vec<String>,
    /// The edges between modules: which needs which, with a file that shows it.
    edges: Vec<String>,
}

fn circles(tree: &Tree) -> Vec<Circle> {
    let mut by_source: BTreeMap<&str, Vec<Module>> = BTreeMap::new();
    for file in sources::source_files(tree) {
        let Some((source, module)) = module_of(&file.path) else { continue };
        by_source.entry(source).or_default().push(Module::read(module, &file.path, &file.text));
    }
    by_source.into_iter().flat_map(|(source, modules)| Crate::new(source, modules).circles()).collect()
}

/// The source folder and the module of a file: `crates/a/src/b/c.rs` is `b::c` of `crates/a/src`.
fn module_of(path: &str) -> Option<(&str, Names)> {
    let at = path.find("/src/")? + "/src".len();
    let (source, inside) = (&path[..at], path[at + 1..].strip_suffix(".rs")?);
    let mut names: Names = inside.split('/').map(str::to_owned).collect();
    if matches!(names.last().map(String::as_str), Some("mod")) || ["lib", "main"].contains(&inside) {
        names.pop();
    }
    (!inside.starts_with("bin/")).then_some((source, names))
}

/// One file.
struct Module {
    names: Names,
    file: String,
    /// The names that the file's `use` declarations bring in, with their paths.
    uses: Vec<(String, Names)>,
    /// Other paths in its code.
    paths: Vec<Names>,
}

impl Module {
    fn read(names: Names, file: &str, text: &str) -> Self {
        let code = rust_text::code_without_tests(text);
        let (mut uses, mut paths) = (Vec::new(), Vec::new());
        let mut rest = code.as_str();
        while let Some((before, declaration, after)) = next_use(rest) {
            find_paths(before, &mut paths);
            expand(&Names::new(), declaration, &mut uses);
            rest = after;
        }
        find_paths(rest, &mut paths);
        Self { names, file: file.to_owned(), uses, paths }
    }
}

/// The text before the next `use` declaration, the declaration, and the text after it.
fn next_use(code: &str) -> Option<(&str, &str, &str)> {
    for (at, _) in code.match_indices("use ") {
        if code[..at].chars().next_back().is_some_and(is_word) {
            continue;
        }
        let end = at + code[at..].find(';')?;
        // `use<'a>` in a type, or the word in a macro, has no path behind it.
        if code[at..end].contains(['(', '=', '<']) {
            continue;
        }
        return Some((&code[..at], &code[at + "use ".len()..end], &code[end + 1..]));
    }
    None
}

/// Adds each name of a `use` tree with its whole path.
fn expand(prefix: &Names, text: &str, uses: &mut Vec<(String, Names)>) {
    let text = text.trim();
    if let Some(open) = text.find('{') {
        let mut prefix = prefix.clone();
        prefix.extend(segments(&text[..open]));
        let inside = text[open + 1..].strip_suffix('}').unwrap_or(&text[open + 1..]);
        parts(inside).into_iter().for_each(|part| expand(&prefix, part, uses));
        return;
    }
    let (path, name) = text.split_once(" as ").map_or((text, None), |(path, name)| (path, Some(name.trim())));
    let mut path: Names = prefix.iter().cloned().chain(segments(path)).collect();
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let Some(last) = path.last() else { return };
    uses.push((name.unwrap_or(last).to_owned(), path));
}

/// The parts of a group, at its commas.
fn parts(inside: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_usize, 0, Vec::new());
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn segments(path: &str) -> impl Iterator<Item = String> {
    path.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Adds the paths `a::b::c` of the code.
fn find_paths(code: &str, paths: &mut Vec<Names>) {
    let in_path = |c: char| is_word(c) || c == ':';
    for path in code.split(|c| !in_path(c)).filter(|path| path.contains("::") && !path.starts_with(':')) {
        paths.push(segments(path).collect());
    }
}

/// A crate's modules, by their paths.
struct Crate<'a> {
    source: &'a str,
    modules: BTreeMap<Names, Module>,
}

impl<'a> Crate<'a> {
    fn new(source: &'a str, modules: Vec<Module>) -> Self {
        Self { source, modules: modules.into_iter().map(|module| (module.names.clone(), module)).collect() }
    }

    /// The module that defines what `path` means in `from`; nothing for paths out of the crate.
    fn target(&self, from: &Names, path: &[String], depth: usize) -> Option<Names> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Names::new(),
            "self" => from.clone(),
            "super" => enclosing(from)?,
            _ => return Some(self.follow(self.step(from, first, depth)?, rest, depth)),
        };
        while let [next, behind @ ..] = rest
            && next == "super"
        {
            (at, rest) = (enclosing(&at)?, behind);
        }
        Some(self.follow(at, rest, depth))
    }

    /// Goes down from a module along the rest of a path, as far as it names modules.
    fn follow(&self, mut at: Names, rest: &[String], depth: usize) -> Names {
        for name in rest {
            match self.step(&at, name, depth) {
                Some(next) => at = next,
                None => break,
            }
        }
        at
    }

    /// Where a name of a module leads: to its child, or to where a `use` of it points.
    fn step(&self, at: &Names, name: &str, depth: usize) -> Option<Names> {
        let child: Names = at.iter().cloned().chain([name.to_owned()]).collect();
        if self.modules.contains_key(&child) {
            return Some(child);
        }
        let (_, path) = self.modules.get(at)?.uses.iter().find(|(known, _)| known == name)?;
        if depth == 0 { None } else { self.target(at, path, depth - 1) }
    }

    /// Every edge between siblings, by their parent, with a file that makes it.
    fn edges(&self) -> BTreeMap<Names, BTreeMap<(String, String), String>> {
        const USES_DEEP: usize = 8;
        let mut edges: BTreeMap<Names, BTreeMap<(String, String), String>> = BTreeMap::new();
        for (from, module) in &self.modules {
            for path in module.uses.iter().map(|(_, path)| path).chain(&module.paths) {
                let Some(to) = self.target(from, path, USES_DEEP) else { continue };
                let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                let (Some(a), Some(b)) = (from.get(common), to.get(common)) else { continue };
                let siblings = edges.entry(from[..common].to_vec()).or_default();
                siblings
                    .entry((a.clone(), b.clone()))
                    .or_insert_with(|| format!("{}: {}", module.file, path.join("::")));
            }
        }
        edges
    }

    fn circles(&self) -> Vec<Circle> {
        let mut circles = Vec::new();
        for (parent, edges) in self.edges() {
            let mut left: BTreeSet<&str> = edges.keys().map(|(from, _)| from.as_str()).collect();
            while let Some(start) = left.pop_first() {
                let back = |other: &&str| reachable(other, &edges).contains(start);
                let circle: BTreeSet<&str> = reachable(start, &edges).into_iter().filter(back).collect();
                left.retain(|name| !circle.contains(name));
                if circle.len() > 1 {
                    circles.push(self.circle(&parent, &circle, &edges));
                }
            }
        }
        circles
    }

    fn circle(&self, parent: &Names, members: &BTreeSet<&str>, edges: &BTreeMap<(String, String), String>) -> Circle {
        let whole = |name: &&str| parent.iter().map(String::as_str).chain([*name]).collect::<Vec<_>>().join("::");
        let inside = edges.iter().filter(|((from, to), _)| members.contains(&**from) && members.contains(&**to));
        let source = self.source.to_owned();
        Circle {
            room: source.trim_start_matches("crates/").trim_end_matches("/src").to_owned(),
            modules: members.iter().map(whole).collect(),
            edges: inside.map(|((from, to), what)| format!("{from} -> {to} ({what})")).collect(),
            source,
        }
    }
}

/// The parent of a module; the root has none.
fn enclosing(names: &[String]) -> Option<Names> {
    names.split_last().map(|(_, parent)| parent.to_vec())
}

/// The modules that can be reached from a module in one step or more.
fn reachable<'a>(from: &str, edges: &'a BTreeMap<(String, String), String>) -> BTreeSet<&'a str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        for (_, to) in edges.keys().filter(|(one, other)| one == at && one != other) {
            if seen.insert(to.as_str()) {
                open.push(to);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let paths: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("crates/x/src/{path}"), *text)).collect();
        let planted: Vec<(&str, &str)> = paths.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        circles(&Tree::planted(&planted)).into_iter().map(|circle| circle.modules).collect()
    }

    #[test]
    fn circles_are_found() {
        let pair = vec![vec!["a".to_owned(), "b".to_owned()]];
        for b in [
            "use crate::a::A;",
            "use super::a::A;",
            "use crate::{a::{self, A}, c};",
            "fn f() { crate::a::g() }",
            "use super::a as other;\nfn f() { other::g() }",
            "use crate::A;",
        ] {
            let files = [("lib.rs", "mod a; mod b;\npub use a::A;"), ("a.rs", "use crate::b::B;"), ("b.rs", b)];
            assert_eq!(found(&files), pair, "{b}");
        }
    }

    #[test]
    fn what_lies_below_counts_as_the_sibling() {
        let files = [
            ("a/mod.rs", ""),
            ("a/deep.rs", "use crate::b::B;"),
            ("b/mod.rs", ""),
            ("b/c.rs", "use crate::a::deep::D;"),
        ];
        assert_eq!(found(&files), [["a", "b"]]);
        let files = [("a/b.rs", "use super::c::C;"), ("a/c.rs", "use super::d::D;"), ("a/d.rs", "use super::b::B;")];
        assert_eq!(found(&files), [["a::b", "a::c", "a::d"]]);
    }

    #[test]
    fn ways_down_and_family_are_no_circles() {
        for files in [
            [("a.rs", "use crate::b::B;"), ("b.rs", "use std::fmt;")],
            [("a.rs", "use crate::b::B;"), ("b.rs", "// use crate::a::A;")],
            [("a.rs", "use crate::b::B;"), ("b.rs", "#[cfg(test)]\nmod tests { use crate::a::A; }")],
            [("a/mod.rs", "mod b;\npub use b::B;"), ("a/b.rs", "use super::A;")],
            [("lib.rs", "pub use a::A;"), ("a.rs", "use crate::L;")],
        ] {
            assert_eq!(found(&files), [[""; 0]; 0], "{files:?}");
        }
    }

    #[test]
    fn allowed_circles_pass_and_stale_rows_are_noted() {
        let tree =
            Tree::planted(&[("crates/x/src/a.rs", "use crate::b::B;"), ("crates/x/src/b.rs", "use crate::a::A;")]);
        let row = |modules| [AllowedCircle { room: "x", modules, why: "planted" }];
        assert_eq!(check(&tree, &[]).len(), 1);
        assert_eq!(check(&tree, &row(&["a"])).len(), 1);
        assert_eq!(check(&tree, &row(&["a", "b"])), []);
        assert_eq!(check(&tree, &[AllowedCircle { room: "y", ..row(&["a", "b"])[0] }]).len(), 1);
        assert_eq!(notes(&tree, &row(&["a", "b"])), []);
        assert_eq!(notes(&tree, &row(&["a", "b", "c"])).len(), 1);
    }
}
