//! A crate shows few modules: its face is what its `lib.rs` exports.

use super::Violation;
use super::rust_text::{self, is_word};
use super::tree::Tree;

/// Crates whose `lib.rs` declares more public modules than `most`, or than their own row of `more`
/// allows. A module behind a feature (`testing`) is not counted.
pub fn check(tree: &Tree, most: usize, more: &[(&str, usize, &str)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, room, modules) in faces(tree) {
        let bound = more.iter().find(|(name, ..)| *name == room).map_or(most, |(_, bound, _)| *bound);
        if modules.len() > bound {
            let what = format!("{} public modules; the bound is {bound}: {}", modules.len(), modules.join(", "));
            violations.push(Violation::new(path, 0, what));
        }
    }
    violations
}

/// Notes on exceptions whose bound may fall or that are no longer needed.
pub fn notes(tree: &Tree, more: &[(&str, usize, &str)]) -> Vec<Violation> {
    let faces = faces(tree);
    let counted = |room: &str| faces.iter().find(|(_, name, _)| *name == room).map_or(0, |(.., modules)| modules.len());
    more.iter()
        .filter_map(|(room, bound, _)| super::may_fall(&format!("public modules of {room}"), counted(room), *bound))
        .collect()
}

/// `lib.rs`, crate and public modules of every crate.
fn faces(tree: &Tree) -> Vec<(&str, &str, Vec<String>)> {
    let libraries = tree.files.iter().filter_map(|file| {
        let room = file.path.strip_prefix("crates/")?.strip_suffix("/src/lib.rs")?;
        Some((&*file.path, room, public_modules(&file.text)))
    });
    libraries.collect()
}

/// The modules that the source declares `pub`, but for those behind a feature.
fn public_modules(source: &str) -> Vec<String> {
    let code = rust_text::code_without_tests(source);
    let mut modules = Vec::new();
    let mut behind_feature = false;
    for line in code.lines().map(str::trim) {
        if line.starts_with("#[cfg(feature") {
            behind_feature = true;
        } else if let Some(rest) = line.strip_prefix("pub mod ") {
            if !behind_feature {
                modules.push(rest.chars().take_while(|c| is_word(*c)).collect());
            }
            behind_feature = false;
        } else if !line.is_empty() && !line.starts_with("#[") {
            behind_feature = false;
        }
    }
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "crates/a/src/lib.rs";

    #[test]
    fn a_module_too_many_is_found() {
        let found = |text: &str, more: &[(&str, usize, &str)]| check(&Tree::planted(&[(LIB, text)]), 2, more).len();
        let three = "pub mod a;\n/// Doc.\npub mod b;\npub mod c {\n}\n";
        assert_eq!(found("pub mod a;\npub mod b;\nmod c;\npub(crate) mod d;\n", &[]), 0);
        assert_eq!(found(three, &[]), 1);
        assert_eq!(found(three, &[("a", 3, "why")]), 0);
        assert_eq!(found(three, &[("b", 3, "why")]), 1);
    }

    #[test]
    fn modules_for_tests_are_not_counted() {
        for text in [
            "#[cfg(feature = \"testing\")]\npub mod a;\n",
            "#[cfg(test)]\npub mod a;\n",
            "#[cfg(feature = \"testing\")]\n#[doc(hidden)]\npub mod a;\n",
            "// pub mod a;\n",
        ] {
            assert_eq!(check(&Tree::planted(&[(LIB, text)]), 0, &[]), [], "{text}");
        }
        assert_eq!(public_modules("#[cfg(feature = \"x\")]\npub mod a;\npub mod b;\n"), ["b"]);
    }

    #[test]
    fn an_exception_that_may_fall_is_noted() {
        let tree = Tree::planted(&[(LIB, "pub mod a;\n")]);
        assert_eq!(notes(&tree, &[("a", 1, "why")]), []);
        assert_eq!(notes(&tree, &[("a", 2, "why")]).len(), 1);
    }
}
