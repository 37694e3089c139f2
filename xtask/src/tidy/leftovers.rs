//! Refuses leftovers: paths of one machine, marks of unfinished work and of failed merges, random
//! bytes.

use super::Violation;
use super::rust_text::is_word;
use super::tree::{File, Tree};

/// Directories that exist on one machine only. In pieces, so that this file does not hold them.
const MACHINE_PATHS: [&str; 5] =
    [concat!("/", "work/"), concat!("/", "tmp/"), concat!("/", "home/"), concat!("/", "root/"), concat!("/", "Users/")];

/// Marks of unfinished work. In pieces for the same reason.
const UNFINISHED: [&str; 4] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

/// Sources of bytes that are others in each run: a failure that they bring about never comes back,
/// and they bring some about by themselves. In pieces for the same reason. Guests of the kernel
/// jobs have nothing else.
const CHANCE: [&str; 2] = [concat!("/dev/u", "random"), concat!("/dev/", "random")];

/// The lines that a failed merge leaves.
const CONFLICT: [&str; 3] = [concat!("<<<<", "<<< "), concat!(">>>>", ">>> "), concat!("||||", "||| ")];

/// Leftovers in every text file.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &tree.files {
        for (number, line) in file.text.lines().enumerate() {
            let mut found = |what: String| violations.push(Violation::new(&file.path, number + 1, what));
            for path in MACHINE_PATHS.iter().filter(|path| stands_alone(line, path)) {
                found(format!(
                    "{path}... is a path of one machine: make it relative, or ask for a temporary directory"
                ));
            }
            for word in UNFINISHED.iter().filter(|word| is_source(file) && whole_word(line, word)) {
                found(format!("{word}: finish it, or describe it where the project plans"));
            }
            for device in CHANCE.iter().filter(|device| file.path.starts_with("crates/") && line.contains(*device)) {
                found(format!("{device}: the same bytes in each run, or none; scripts of tests have $NOISE"));
            }
            if CONFLICT.iter().any(|mark| line.starts_with(mark)) {
                found("the mark of a failed merge".into());
            }
            if is_source(file) && line.ends_with([' ', '\t', '\r']) {
                found("white space at the end of the line".into());
            }
        }
        if is_source(file) && !file.text.is_empty() && !file.text.ends_with('\n') {
            violations.push(Violation::new(&file.path, 0, "the last line has no end"));
        }
    }
    violations
}

/// Whether people write the file; goldens and fixtures may hold anything.
fn is_source(file: &File) -> bool {
    let written = [".rs", ".md", ".toml", ".sh", ".yml", ".yaml"].iter().any(|extension| file.is(extension));
    written && !file.path.starts_with("fixtures/") || file.path == ".ci/run"
}

/// Whether the path starts in the line, and is not the middle of a longer path or an address.
fn stands_alone(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| is_word(c) || matches!(c, '.' | '-' | '}' | '*' | '>' | '~' | '/'))
    })
}

fn whole_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let inside = |c: Option<char>| c.is_some_and(is_word);
        !inside(line[..at].chars().next_back()) && !inside(line[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::planted(&[(path, text)])).len()
    }

    #[test]
    fn planted_leftovers_are_found() {
        for path in MACHINE_PATHS {
            for text in
                [format!("see {path}a\n"), format!("\"{path}a\"\n"), format!("({path}a)\n"), format!("{path}\n")]
            {
                assert_eq!(found("docs/a.md", &text), 1, "{text}");
                assert_eq!(found("specs/a.json", &text), 1, "{text}");
            }
        }
        for word in UNFINISHED {
            assert_eq!(found("crates/a/src/lib.rs", &format!("// {word}: later\n")), 1, "{word}");
        }
        for device in CHANCE {
            assert_eq!(found("crates/a/tests/b.rs", &format!("\"head -c 5 {device}\"\n")), 1, "{device}");
            assert_eq!(found("xtask/src/a.rs", &format!("\"head -c 5 {device}\"\n")), 0, "{device}");
        }
        for mark in CONFLICT {
            assert_eq!(found("docs/a.txt", &format!("{mark}main\n")), 1, "{mark}");
        }
        assert_eq!(found("docs/a.md", "a \n"), 1);
        assert_eq!(found("docs/a.md", "a"), 1);
    }

    #[test]
    fn what_only_looks_alike_passes() {
        let [work, tmp, ..] = MACHINE_PATHS;
        let [todo, ..] = UNFINISHED;
        for text in [
            format!("docs{work}a\n"),
            format!("https://example.org{tmp}a\n"),
            format!("..{tmp}a\n"),
            format!("{todo}S\n"),
        ] {
            assert_eq!(found("docs/a.md", &text), 0, "{text}");
        }
        assert_eq!(found("fixtures/a.md", "a "), 0);
    }
}
