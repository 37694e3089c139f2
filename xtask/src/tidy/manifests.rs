//! What every crate's manifest says.

use super::Violation;
use super::tree::Tree;

/// Every crate takes the workspace's lints, edition and licence, and says in a line what it is.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let manifests = tree.files.iter().filter(|file| {
        file.path.ends_with("/Cargo.toml") && (file.path.starts_with("crates/") || file.path.starts_with("xtask/"))
    });
    for file in manifests {
        let Ok(manifest) = file.text.parse::<toml::Table>() else {
            violations.push(Violation::new(&file.path, 0, "is not TOML"));
            continue;
        };
        if !inherits(&manifest, &["lints", "workspace"]) {
            violations.push(Violation::new(&file.path, 0, "lacks '[lints] workspace = true'"));
        }
        for key in ["version", "edition", "rust-version", "license"] {
            if !inherits(&manifest, &["package", key, "workspace"]) {
                violations.push(Violation::new(&file.path, 0, format!("lacks '{key}.workspace = true'")));
            }
        }
        if manifest.get("package").is_none_or(|package| package.get("description").is_none()) {
            violations.push(Violation::new(&file.path, 0, "lacks a description: one line that says what the crate is"));
        }
    }
    violations.extend(check_readme(tree));
    violations
}

/// The README asks for the Rust version that the workspace asks for.
fn check_readme(tree: &Tree) -> Option<Violation> {
    let manifest = tree.file("Cargo.toml")?.text.parse::<toml::Table>().ok()?;
    let version = manifest.get("workspace")?.get("package")?.get("rust-version")?.as_str()?;
    let text = &tree.file("README.md")?.text;
    let asks = format!("version {version} or later");
    (!text.contains(&asks)).then(|| Violation::new("README.md", 0, format!("does not say '{asks}' of Rust")))
}

fn inherits(manifest: &toml::Table, keys: &[&str]) -> bool {
    let Some((first, rest)) = keys.split_first() else { return false };
    let mut value = manifest.get(*first);
    for key in rest {
        value = value.and_then(|value| value.get(key));
    }
    value.and_then(toml::Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "[package]\nname = 'a'\ndescription = 'b'\nversion.workspace = true\nedition.workspace = true\n\
        rust-version.workspace = true\nlicense.workspace = true\n[lints]\nworkspace = true\n";

    fn found(text: &str) -> usize {
        check(&Tree::planted(&[("crates/a/Cargo.toml", text)])).len()
    }

    #[test]
    fn the_readme_asks_for_the_right_version() {
        let found = |readme| {
            let manifest = "[workspace.package]\nrust-version = '1.89'\n";
            check(&Tree::planted(&[("Cargo.toml", manifest), ("README.md", readme)])).len()
        };
        assert_eq!(found("Rust, version 1.89 or later"), 0);
        assert_eq!(found("Rust, version 1.88 or later"), 1);
    }

    #[test]
    fn planted_omissions_are_found() {
        assert_eq!(found(RIGHT), 0);
        assert_eq!(found(&RIGHT.replace("[lints]\nworkspace = true", "")), 1);
        assert_eq!(found(&RIGHT.replace("workspace = true\n[lints]", "workspace = true\n[lints.rust]")), 1);
        assert_eq!(found(&RIGHT.replace("license.workspace = true", "license = 'MIT'")), 1);
        assert_eq!(found(&RIGHT.replace("description = 'b'\n", "")), 1);
        assert_eq!(found("["), 1);
    }
}
