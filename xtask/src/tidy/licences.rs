//! The licences of everything that is linked, against the list in deny.toml.

use serde_json::Value;

use super::Violation;
use super::tree::Tree;

/// Every package in the graph of dependencies can be had under licences of the list.
pub fn check(metadata: &Value, tree: &Tree) -> Vec<Violation> {
    let Some(allowed) = tree.file("deny.toml").and_then(|file| allow_list(&file.text)) else {
        return vec![Violation::new("deny.toml", 0, "[licenses] allow = [...] is missing")];
    };
    let mut violations = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name =
            format!("{} {}", package["name"].as_str().unwrap_or("?"), package["version"].as_str().unwrap_or("?"));
        let what = match package["license"].as_str() {
            None => format!("{name} states no licence"),
            Some(expression) => match permits(expression, &allowed) {
                Some(true) => continue,
                Some(false) => format!("{name} is under '{expression}', which the list does not allow"),
                None => format!("{name}: '{expression}' is not a licence expression"),
            },
        };
        violations.push(Violation::new("Cargo.lock", 0, what));
    }
    violations
}

fn allow_list(text: &str) -> Option<Vec<String>> {
    let policy = text.parse::<toml::Table>().ok()?;
    let names = policy.get("licenses")?.get("allow")?.as_array()?;
    names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Whether an SPDX expression can be met with the allowed licences; nothing where it is no
/// expression. The old `A/B` counts as `A OR B`.
fn permits(expression: &str, allowed: &[String]) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let met = any(&mut rest, allowed)?;
    rest.is_empty().then_some(met)
}

/// `term OR term ...`; AND binds more tightly, WITH most.
fn any(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut met = all(words, allowed)?;
    while let Some((&"OR", rest)) = words.split_first() {
        *words = rest;
        met |= all(words, allowed)?;
    }
    Some(met)
}

fn all(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut met = one(words, allowed)?;
    while let Some((&"AND", rest)) = words.split_first() {
        *words = rest;
        met &= one(words, allowed)?;
    }
    Some(met)
}

fn one(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let (&word, rest) = words.split_first()?;
    *words = rest;
    match word {
        "(" => {
            let met = any(words, allowed)?;
            let (&")", rest) = words.split_first()? else { return None };
            *words = rest;
            Some(met)
        }
        ")" | "OR" | "AND" | "WITH" => None,
        licence => {
            let mut name = licence.to_owned();
            if let [with @ "WITH", exception, rest @ ..] = *words {
                name = format!("{licence} {with} {exception}");
                *words = rest;
            }
            Some(allowed.contains(&name))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(licence: Value) -> usize {
        let tree =
            Tree::planted(&[("deny.toml", "[licenses]\nallow = ['MIT', 'Zlib', 'Apache-2.0 WITH LLVM-exception']")]);
        check(&json!({"packages": [{"name": "a", "version": "1.0.0", "license": licence}]}), &tree).len()
    }

    #[test]
    fn allowed_licences_pass() {
        let right = [
            "MIT",
            "MIT OR GPL-3.0-only",
            "GPL-2.0/MIT",
            "(GPL-2.0-only OR MIT) AND Zlib",
            "Apache-2.0 WITH LLVM-exception",
        ];
        for licence in right {
            assert_eq!(found(licence.into()), 0, "{licence}");
        }
    }

    #[test]
    fn planted_licences_are_found() {
        let wrong = [
            "GPL-3.0-only",
            "MIT AND GPL-2.0-only",
            "Apache-2.0",
            "Apache-2.0 WITH other",
            "(MIT",
            "MIT OR",
            "",
            "MIT Zlib",
        ];
        for licence in wrong {
            assert_eq!(found(licence.into()), 1, "{licence}");
        }
        assert_eq!(found(Value::Null), 1);
        assert_eq!(check(&json!({}), &Tree::planted(&[])).len(), 1);
    }
}
