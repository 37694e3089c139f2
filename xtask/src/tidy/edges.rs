//! The edges between crates, as `cargo metadata` knows them, against the house.

use serde_json::Value;

use super::Violation;
use super::house::{Room, package};
use super::tree::Tree;

/// One dependency as a manifest states it.
struct Edge<'a> {
    to: &'a str,
    for_tests: bool,
}

/// Every edge between crates of the workspace is in the house, and so is every crate.
pub fn check(metadata: &Value, house: &[Room]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (name, manifest, edges) in members(metadata) {
        if name == "xtask" {
            // Its trials ask the outside judges of the tests, so that "sound" has one meaning.
            let inner = edges.iter().filter(|edge| is_ours(edge.to) && edge.to != "nandkit-judges");
            violations.extend(inner.map(|edge| {
                Violation::new(&manifest, 0, format!("xtask depends on {}: it checks the house from outside", edge.to))
            }));
            continue;
        }
        let Some(room) = house.iter().find(|room| package(room.name) == name) else {
            let what = format!("{name} is not in the house: add it to xtask/src/tidy/house.rs and ARCHITECTURE.md");
            violations.push(Violation::new(&manifest, 0, what));
            continue;
        };
        let expected = format!("crates/{}/Cargo.toml", room.name);
        if manifest != expected {
            violations.push(Violation::new(&manifest, 0, format!("{name} belongs into {expected}")));
        }
        for edge in edges.iter().filter(|edge| is_ours(edge.to)) {
            let listed = |rooms: &[&str]| rooms.iter().any(|room| package(room) == edge.to);
            let allowed = listed(room.uses) || edge.for_tests && listed(room.tests_use);
            // A crate's tests may name the crate itself.
            if !allowed && edge.to != name {
                let kind = if edge.for_tests { "in its tests " } else { "" };
                let what = format!("{name} {kind}depends on {}: the house allows only {}", edge.to, list(room, edge));
                violations.push(Violation::new(&manifest, 0, what));
            }
        }
    }
    violations
}

/// Outside crates that are bound to some rooms are used only there, or in tests.
pub fn check_outside(metadata: &Value, outside: &[(&str, &[&str], &str)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (name, manifest, edges) in members(metadata) {
        for edge in edges.iter().filter(|edge| !edge.for_tests && name != "xtask") {
            let Some((_, rooms, reason)) = outside.iter().find(|(outside, _, _)| *outside == edge.to) else { continue };
            if !rooms.iter().any(|room| package(room) == name) {
                violations.push(Violation::new(&manifest, 0, format!("{name} depends on {}: {reason}", edge.to)));
            }
        }
    }
    violations
}

/// Checks that ARCHITECTURE.md agrees with the house: it holds a row `| \`crate\` | what | may use
/// |` for each room.
pub fn check_page(tree: &Tree, house: &[Room]) -> Vec<Violation> {
    const PAGE: &str = "ARCHITECTURE.md";
    let mut violations = Vec::new();
    let text = tree.file(PAGE).map_or("", |file| file.text.as_str());
    for room in house {
        let start = format!("| `{}` |", room.name);
        let Some((number, row)) = text.lines().enumerate().find(|(_, line)| line.starts_with(&start)) else {
            violations.push(Violation::new(PAGE, 0, format!("lacks a row that starts with '{start}'")));
            continue;
        };
        let cell = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default().trim();
        let mut named: Vec<&str> = if cell == "nothing" { Vec::new() } else { cell.split(", ").collect() };
        let mut allowed = room.uses.to_vec();
        named.sort_unstable();
        allowed.sort_unstable();
        if named != allowed {
            let what = format!("{} may use {} by the house, {cell} by this row", room.name, allowed.join(", "));
            violations.push(Violation::new(PAGE, number + 1, what));
        }
    }
    violations
}

fn is_ours(name: &str) -> bool {
    name == "nandkit" || name.starts_with("nandkit-")
}

fn list(room: &Room, edge: &Edge<'_>) -> String {
    let tests: &[&str] = if edge.for_tests { room.tests_use } else { &[] };
    let names: Vec<&str> = room.uses.iter().chain(tests).copied().collect();
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}

/// Name, manifest (from the root on) and dependencies of every package of the workspace.
fn members(metadata: &Value) -> Vec<(&str, String, Vec<Edge<'_>>)> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let ids: Vec<&str> =
        metadata["workspace_members"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .filter(|package| package["id"].as_str().is_some_and(|id| ids.contains(&id)))
        .filter_map(|package| {
            let manifest = package["manifest_path"].as_str()?;
            let manifest = manifest.strip_prefix(root).unwrap_or(manifest).replace('\\', "/");
            let dependencies = package["dependencies"].as_array()?.iter();
            let edges = dependencies
                .filter_map(|edge| Some(Edge { to: edge["name"].as_str()?, for_tests: edge["kind"] == "dev" }))
                .collect();
            Some((package["name"].as_str()?, manifest.trim_start_matches('/').to_owned(), edges))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tidy::house::{HOUSE, OUTSIDE};

    /// Metadata of a workspace with one crate and these dependencies: (name, kind).
    fn planted(name: &str, directory: &str, edges: &[(&str, Option<&str>)]) -> Value {
        let dependencies: Vec<Value> = edges.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
        json!({
            "workspace_root": "/r",
            "workspace_members": ["one"],
            "packages": [{
                "id": "one", "name": name, "manifest_path": format!("/r/{directory}/Cargo.toml"), "dependencies": dependencies
            }]
        })
    }

    fn found(name: &str, edges: &[(&str, Option<&str>)]) -> usize {
        let directory = format!("crates/{}", name.trim_start_matches("nandkit-"));
        check(&planted(name, &directory, edges), HOUSE).len()
    }

    #[test]
    fn edges_of_the_house_pass() {
        assert_eq!(found("nandkit-fat", &[("nandkit-units", None), ("nandkit-block", None), ("zerocopy", None)]), 0);
        assert_eq!(found("nandkit-ftl", &[("nandkit-nand-sim", Some("dev")), ("nandkit-testkit", Some("dev"))]), 0);
        assert_eq!(found("nandkit", &[("nandkit-stack", None)]), 0);
    }

    #[test]
    fn planted_edges_are_found() {
        for (name, to) in [
            ("nandkit-fat", "nandkit-nand-sim"),
            ("nandkit-fat", "nandkit-ftl"),
            ("nandkit-fat", "nandkit-stack"),
            ("nandkit-cleaning", "nandkit-flash"),
            ("nandkit-report", "nandkit-lab"),
            ("nandkit-vfs", "nandkit-block"),
            ("nandkit-lab", "nandkit-ftl"),
            ("nandkit-cli", "nandkit-fat"),
            ("nandkit-ftl", "nandkit-nand-sim"),
            ("nandkit-ftl", "nandkit-testkit"),
            ("xtask", "nandkit-units"),
        ] {
            assert_eq!(found(name, &[(to, None)]), 1, "{name} -> {to}");
        }
        assert_eq!(found("nandkit-fat", &[("nandkit-nand-sim", Some("dev"))]), 1);
        assert_eq!(found("nandkit-fat", &[("nandkit-nand-sim", Some("build"))]), 1);
    }

    #[test]
    fn a_crate_unknown_or_misplaced_is_found() {
        assert_eq!(found("nandkit-attic", &[]), 1);
        assert_eq!(check(&planted("nandkit-fat", "crates/fatty", &[]), HOUSE).len(), 1);
    }

    #[test]
    fn the_page_says_what_the_house_says() {
        let house: Vec<Room> = HOUSE.iter().filter(|room| ["flash", "theory"].contains(&room.name)).copied().collect();
        let found = |page| check_page(&Tree::planted(&[("ARCHITECTURE.md", page)]), &house).len();
        assert_eq!(found("| `flash` | x | units |\n| `theory` | y | nothing |\n"), 0);
        assert_eq!(found("| `flash` | x | units, block |\n| `theory` | y | nothing |\n"), 1);
        assert_eq!(found("| `flash` | x | nothing |\n| `theory` | y | units |\n"), 2);
        assert_eq!(found("| `flash` | x | units |\n"), 1);
    }

    #[test]
    fn outside_crates_stay_in_their_rooms() {
        let found = |name, edge| check_outside(&planted(name, "crates/x", &[edge]), OUTSIDE).len();
        assert_eq!(found("nandkit-fat", ("fatfs", None)), 1);
        assert_eq!(found("nandkit-fat", ("fatfs", Some("dev"))), 0);
        assert_eq!(found("nandkit-ftl", ("anyhow", None)), 1);
        assert_eq!(found("nandkit-cli", ("anyhow", None)), 0);
        assert_eq!(found("nandkit-ftl", ("crc32fast", None)), 0);
    }
}
