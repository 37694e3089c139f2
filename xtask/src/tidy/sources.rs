//! Words that must not stand in the code of certain crates.

use std::collections::BTreeSet;

use super::Violation;
use super::house::Room;
use super::rust_text::{self, is_word};
use super::tree::{File, Tree};

/// A forbidden path or macro, and what to do instead.
struct Forbidden {
    word: &'static str,
    instead: &'static str,
}

const fn forbidden(word: &'static str, instead: &'static str) -> Forbidden {
    Forbidden { word, instead }
}

/// The files that may say `unsafe`: a file cannot be mapped into memory without, nor a cache line
/// be asked for; their comments say why that is sound here.
const MAPS_FILES: &str = "crates/flash-image/src/mmap.rs";
const PREFETCHES: &str = "crates/units/src/prefetch.rs";

/// Forbidden in every Rust file, tests included.
const EVERYWHERE: [Forbidden; 6] = [
    forbidden("unsafe", "the project is safe Rust throughout"),
    forbidden("unsafe_code", "the lint that forbids unsafe stays on"),
    forbidden("#[ignore", "a test runs, or it is not there; a long one is a soak"),
    forbidden("todo!", "what is not there is not begun"),
    forbidden("unimplemented!", "what is not there is not begun"),
    forbidden("dbg!", "it is for the working copy"),
];

/// Forbidden in library code outside the doors.
const OUTSIDE_DOORS: [Forbidden; 11] = [
    forbidden("std::time", "time is simulated: take it from the injected clock"),
    forbidden("Instant::now", "time is simulated: take it from the injected clock"),
    forbidden("SystemTime", "time is simulated: take it from the injected clock"),
    forbidden("thread::sleep", "time is simulated: nobody waits for it"),
    forbidden("println!", "only the doors write to the terminal"),
    forbidden("eprintln!", "only the doors write to the terminal"),
    forbidden("print!", "only the doors write to the terminal"),
    forbidden("eprint!", "only the doors write to the terminal"),
    forbidden("io::stdout", "only the doors write to the terminal"),
    forbidden("io::stderr", "only the doors write to the terminal"),
    forbidden("process::exit", "only the doors end the program"),
];

/// Forbidden in library code of crates that do not touch the operating system.
const OUTSIDE_SYSTEM: [Forbidden; 5] = [
    forbidden("std::fs", "the house gives this crate no files: take bytes or a device"),
    forbidden("std::process", "the house gives this crate no processes"),
    forbidden("std::env", "the house gives this crate no environment: take it from the spec"),
    forbidden("std::net", "the house gives this crate no network"),
    forbidden("std::os", "the house gives this crate nothing of one operating system"),
];

/// Forbidden words, by crate and kind of file.
pub fn check(tree: &Tree, house: &[Room]) -> Vec<Violation> {
    let tests = test_files(tree);
    let mut violations = Vec::new();
    for file in tree.files.iter().filter(|file| file.is(".rs")) {
        let excepted =
            |rule: &Forbidden| [MAPS_FILES, PREFETCHES].contains(&&*file.path) && rule.word.starts_with("unsafe");
        let mut rules: Vec<&Forbidden> = EVERYWHERE.iter().filter(|rule| !excepted(rule)).collect();
        find(file, &rust_text::code(&file.text), &rules, &mut violations);
        let Some(room) = library_room(&file.path, house) else { continue };
        if tests.contains(&file.path) {
            continue;
        }
        rules.clear();
        if !room.door {
            rules.extend(&OUTSIDE_DOORS);
        }
        if !room.system {
            rules.extend(&OUTSIDE_SYSTEM);
        }
        find(file, &rust_text::code_without_tests(&file.text), &rules, &mut violations);
    }
    violations
}

/// What may panic in library code outside tests, counted per file: each place must be out of reach
/// of every input.
pub fn notes(tree: &Tree, house: &[Room]) -> Vec<Violation> {
    const PANICS: [&str; 5] = [".unwrap()", ".expect(", "panic!", "unreachable!", "assert!"];
    let tests = test_files(tree);
    let mut notes = Vec::new();
    for file in tree.files.iter().filter(|file| file.is(".rs") && !tests.contains(&file.path)) {
        if library_room(&file.path, house).is_none_or(|room| room.door || room.name == "testkit") {
            continue;
        }
        let code = rust_text::without_constant_checks(&rust_text::code_without_tests(&file.text));
        let lines = code.lines().enumerate().filter(|(_, line)| PANICS.iter().any(|word| contains(line, word)));
        let lines: Vec<String> = lines.map(|(number, _)| (number + 1).to_string()).collect();
        if !lines.is_empty() {
            notes.push(Violation::new(&file.path, 0, format!("may panic in lines {}", lines.join(", "))));
        }
    }
    notes
}

/// The room whose library holds the file: crates/NAME/src. Tests, benches and examples are driven
/// by people, and may look at a clock.
fn library_room<'a>(path: &str, house: &'a [Room]) -> Option<&'a Room> {
    let (name, rest) = path.strip_prefix("crates/")?.split_once('/')?;
    rest.starts_with("src/").then(|| house.iter().find(|room| room.name == name))?
}

/// Rust files below a `src` folder of crates and of `xtask`, but for those that only tests see.
pub fn source_files(tree: &Tree) -> impl Iterator<Item = &File> {
    let tests = test_files(tree);
    let is_source =
        |path: &str| path.starts_with("xtask/src/") || path.starts_with("crates/") && path.contains("/src/");
    tree.files.iter().filter(move |file| file.is(".rs") && is_source(&file.path) && !tests.contains(&file.path))
}

/// The [`source_files`] of crates, without those of `xtask`.
pub fn library_files(tree: &Tree) -> impl Iterator<Item = &File> {
    source_files(tree).filter(|file| file.path.starts_with("crates/"))
}

/// The files of modules that are declared under `#[cfg(test)]`.
fn test_files(tree: &Tree) -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for file in tree.files.iter().filter(|file| file.is(".rs")) {
        let (directory, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let stem = name.trim_end_matches(".rs");
        let inside = match stem {
            "lib" | "main" | "mod" => directory.to_owned(),
            _ => format!("{directory}/{stem}"),
        };
        for module in rust_text::test_modules(&file.text) {
            let (whole, under) = (format!("{inside}/{module}.rs"), format!("{inside}/{module}/"));
            let files = tree.files.iter().map(|file| &file.path);
            tests.extend(files.filter(|path| **path == whole || path.starts_with(&under)).cloned());
        }
    }
    tests
}

fn find(file: &File, code: &str, rules: &[&Forbidden], violations: &mut Vec<Violation>) {
    for (number, line) in code.lines().enumerate() {
        for rule in rules.iter().filter(|rule| contains(line, rule.word)) {
            violations.push(Violation::new(&file.path, number + 1, format!("{}: {}", rule.word, rule.instead)));
        }
    }
    // `use std::{fs, io}` names the module in two pieces.
    for rule in rules {
        let Some(module) = rule.word.strip_prefix("std::") else { continue };
        for (at, _) in code.match_indices("std::{") {
            let group = group_names(&code[at + "std::{".len()..]);
            if group.iter().any(|name| name == module) {
                let line = 1 + code[..at].matches('\n').count();
                violations.push(Violation::new(&file.path, line, format!("{}: {}", rule.word, rule.instead)));
            }
        }
    }
}

/// The first segments of the paths in a group of imports, up to its closing brace.
fn group_names(text: &str) -> Vec<String> {
    let (mut depth, mut names, mut name, mut first) = (0, Vec::new(), String::new(), true);
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(std::mem::take(&mut name));
                first = true;
            }
            ':' => first = false,
            c if depth == 0 && first && is_word(c) => name.push(c),
            _ => {}
        }
    }
    names.push(name);
    names
}

/// Whether `word` stands in the line as a whole, not as part of a longer name.
fn contains(line: &str, word: &str) -> bool {
    let word_like = |c: Option<char>| c.is_some_and(is_word);
    line.match_indices(word).any(|(at, _)| {
        let starts_inside = word_like(word.chars().next()) && word_like(line[..at].chars().next_back());
        let ends_inside = word_like(word.chars().next_back()) && word_like(line[at + word.len()..].chars().next());
        !starts_inside && !ends_inside
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::house::HOUSE;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::planted(&[(path, text)]), HOUSE).len()
    }

    #[test]
    fn planted_words_are_found() {
        for text in [
            "use std::time::Duration;",
            "use std::{fmt, time::Duration};",
            "use std::{\n    fmt,\n    fs,\n};",
            "let now = Instant::now();",
            "fn f() { println!(\"a\") }",
            "fn f() { unsafe { g() } }",
            "#![allow(unsafe_code)]",
            "fn f() { todo!() }",
            "#[ignore]\nfn f() {}",
            "#[ignore = \"slow\"]\nfn f() {}",
            "std::fs::read(path)",
            "std::process::exit(1)",
        ] {
            assert!(found("crates/ftl/src/lib.rs", text) >= 1, "{text}");
        }
    }

    #[test]
    fn what_only_looks_alike_passes() {
        for text in [
            "// println! and unsafe",
            "let text = \"std::time\";",
            "let unsafe_count = 1;",
            "let my_println = 2;",
            "use std::{fmt, io};",
            "use std::fmt::Write;",
            "#[cfg(test)]\nmod tests { fn f() { println!(\"seen\") } }",
        ] {
            assert_eq!(found("crates/ftl/src/lib.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn rooms_differ() {
        assert_eq!(found("crates/cli/src/main.rs", "println!(\"a\"); std::time::Instant::now();"), 0);
        assert_eq!(found("crates/block/src/file.rs", "std::fs::read(path)"), 0);
        assert!(found("crates/lab/src/run.rs", "std::time::Instant::now()") >= 1);
        assert_eq!(found("crates/ftl/tests/cuts.rs", "println!(\"a\")"), 0);
        assert_eq!(found("crates/ftl/benches/speed.rs", "std::time::Instant::now()"), 0);
        assert_eq!(found("crates/ftl/tests/cuts.rs", "#[ignore]"), 1);
        assert_eq!(found("crates/cli/src/main.rs", "unsafe {}"), 1);
        assert_eq!(found("crates/flash-image/src/dump.rs", "unsafe {}"), 1);
        assert_eq!(found(MAPS_FILES, "#![allow(unsafe_code)]\nunsafe {}"), 0);
        assert_eq!(found(PREFETCHES, "#![allow(unsafe_code)]\nunsafe {}"), 0);
        assert_eq!(found(MAPS_FILES, "fn f() { todo!() }"), 1);
    }

    #[test]
    fn what_may_panic_is_noted() {
        let noted = |path, text| notes(&Tree::planted(&[(path, text)]), HOUSE).len();
        assert_eq!(noted("crates/ftl/src/lib.rs", "fn f() { x.unwrap(); }\nfn g() { y.expect(\"z\") }"), 1);
        assert_eq!(
            noted(
                "crates/ftl/src/lib.rs",
                "const _: () = assert!(true);\nfn f() { x.unwrap_or(0); debug_assert!(y); }"
            ),
            0
        );
        assert_eq!(noted("crates/ftl/src/lib.rs", "#[cfg(test)]\nmod tests { fn f() { x.unwrap() } }"), 0);
        assert_eq!(noted("crates/ftl/tests/a.rs", "fn f() { x.unwrap() }"), 0);
    }

    #[test]
    fn test_modules_in_files_of_their_own_are_tests() {
        let text = "fn f() { println!(\"a\") }";
        let tree = |declaration: &str| {
            let files = [("crates/ftl/src/map.rs", declaration), ("crates/ftl/src/map/checks.rs", text)];
            check(&Tree::planted(&files), HOUSE).len()
        };
        assert_eq!(tree("#[cfg(test)]\nmod checks;"), 0);
        assert_eq!(tree("mod checks;"), 1);
    }
}
