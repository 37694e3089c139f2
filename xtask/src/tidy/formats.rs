//! A format's name stands in few files outside its own crate and its folder in `stack`.
//!
//! Counted are Rust files of libraries and programs, comments and tests left out, string literals
//! kept: a format is named by a literal as much as by a type. But a literal with spaces in it is a
//! sentence for people (help, an example, a message), which no new format has to touch; and a
//! paper's experiments (`lab/src/reproduce`) name the file systems that the paper compares. `xtask`
//! and `fuzz` are tests.

use super::Violation;
use super::bounds::FormatBound;
use super::rust_text;
use super::sources;
use super::tree::Tree;

/// One violation for each format that more files name than its bound allows, with their paths.
pub fn check(tree: &Tree, formats: &[FormatBound]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for format in formats {
        let files = naming(tree, format.name);
        if files.len() > format.files_max {
            let what = format!(
                "{} files outside its own places name {}; the bound is {}:\n    {}",
                files.len(),
                format.name,
                format.files_max,
                files.join("\n    ")
            );
            violations.push(Violation::new(super::BOUNDS, 0, what));
        }
    }
    violations
}

/// Formats whose bound may fall.
pub fn notes(tree: &Tree, formats: &[FormatBound]) -> Vec<Violation> {
    let counts = formats.iter().map(|format| (format.name, naming(tree, format.name).len(), format.files_max));
    counts
        .filter_map(|(name, count, bound)| super::may_fall(&format!("files that name {name}"), count, bound))
        .collect()
}

/// The files outside the format's own places that name it.
fn naming(tree: &Tree, name: &str) -> Vec<String> {
    let own = [
        format!("crates/{name}/"),
        format!("crates/stack/src/format/{name}"),
        // Its options of `mkfs`, and a command of its own.
        format!("crates/cli/src/args/mkfs/{name}"),
        format!("crates/cli/src/args/{name}.rs"),
        format!("crates/cli/src/image/{name}.rs"),
        "crates/lab/src/reproduce/".to_owned(),
    ];
    let files = sources::library_files(tree).filter(|file| !own.iter().any(|place| file.path.starts_with(place)));
    let naming = files.filter(|file| {
        names(&file.path, name)
            || names(&rust_text::without_sentences(&rust_text::source_without_tests(&file.text)), name)
    });
    naming.map(|file| file.path.clone()).collect()
}

/// Whether the text holds the name as a word, or as a part of an identifier in either style:
/// `fat`, `mount_fat`, `FatSpec` and `FAT`, but not `fatal`.
fn names(text: &str, name: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower.match_indices(name).any(|(at, _)| {
        let word = &text[at..at + name.len()];
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        let capital = word.starts_with(|c: char| c.is_ascii_uppercase());
        let shouted = capital && !word.contains(|c: char| c.is_ascii_lowercase());
        let begins = before.is_none_or(|c| !c.is_alphanumeric() || capital && !c.is_ascii_uppercase());
        let ends = after.is_none_or(|c| !(c.is_ascii_lowercase() || shouted && c.is_ascii_uppercase()));
        begins && ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAT: FormatBound = FormatBound { name: "fat", files_max: 1 };

    fn found(files: &[(&str, &str)]) -> usize {
        check(&Tree::planted(files), &[FAT]).len()
    }

    #[test]
    fn a_file_too_many_is_found() {
        let one = ("crates/cli/src/a.rs", "fn mount_fat() {}");
        assert_eq!(found(&[one]), 0);
        for (path, text) in [
            ("crates/cli/src/b.rs", "struct FatOptions;"),
            ("crates/cli/src/b.rs", "const FAT: u8 = 1;"),
            ("crates/cli/src/b.rs", "fn f() { g(\"fat\") }"),
            ("crates/stack/src/fat.rs", ""),
            ("crates/stack/src/image/fat/open.rs", ""),
        ] {
            assert_eq!(found(&[one, (path, text)]), 1, "{path}: {text}");
        }
    }

    #[test]
    fn own_places_tests_and_other_words_are_not_counted() {
        let one = ("crates/cli/src/a.rs", "use nandkit_fat::Fat;");
        for (path, text) in [
            ("crates/fat/src/lib.rs", "struct Fat;"),
            ("crates/stack/src/format/fat/mod.rs", "struct Fat;"),
            ("crates/stack/src/format/fat.rs", "struct Fat;"),
            ("crates/cli/tests/fat.rs", "fn fat() {}"),
            ("crates/cli/src/b.rs", "// fat\nfn fatal() { FATAL; Fatal }"),
            ("crates/cli/src/b.rs", "fn f() { g(\"expected fat or none\") }"),
            ("crates/lab/src/reproduce/p9/plan.rs", "const FAT: &str = \"fat\";"),
            ("crates/cli/src/b.rs", "#[cfg(test)]\nmod tests { fn fat() {} }"),
            ("docs/fat.md", "fat"),
            ("xtask/src/fat.rs", "fat"),
        ] {
            assert_eq!(found(&[one, (path, text)]), 0, "{path}: {text}");
        }
    }

    #[test]
    fn a_bound_that_may_fall_is_noted() {
        let tree = Tree::planted(&[("crates/cli/src/a.rs", "")]);
        assert_eq!(notes(&tree, &[FAT]).len(), 1);
        assert_eq!(notes(&Tree::planted(&[("crates/cli/src/a.rs", "fat")]), &[FAT]), []);
    }
}
