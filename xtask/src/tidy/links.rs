//! Links in the documents lead somewhere.

use std::collections::BTreeMap;

use super::Violation;
use super::tree::Tree;

/// Every relative link of every document leads to a file, a directory or a heading of the project.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.files.iter().filter(|file| file.is(".md")) {
        for (line, target) in links(&file.text) {
            if let Some(what) = broken(tree, &file.path, &target) {
                violations.push(Violation::new(&file.path, line, what));
            }
        }
    }
    violations
}

/// What is wrong with a link from the document at `from`; nothing for links out of the project,
/// which are not followed.
fn broken(tree: &Tree, from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let resolved = if path.is_empty() { from.to_owned() } else { resolve(from, path)? };
    if !tree.holds(&resolved) {
        return Some(format!("the link '{target}' leads nowhere: there is no {resolved}"));
    }
    let document = tree.file(&resolved).filter(|file| file.is(".md"));
    match document {
        Some(document) if !anchor.is_empty() && !anchors(&document.text).contains(&anchor.to_owned()) => {
            Some(format!("the link '{target}' leads nowhere: {resolved} has no heading for #{anchor}"))
        }
        _ => None,
    }
}

/// The path from the root on of `path` as seen from the document `from`; what leads out of the
/// project resolves to a name that is not there.
fn resolve(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." if parts.pop().is_none() => return Some(format!("{path} (outside the project)")),
            ".." => {}
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The targets of a document's links, with their lines: `[text](target)` and `[name]: target`,
/// outside code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        for (at, _) in line.match_indices("](") {
            if let Some((target, _)) = line[at + 2..].split_once(')') {
                // A title may follow: [text](target "title").
                links.extend(target.split_whitespace().next().map(|target| (number, target.to_owned())));
            }
        }
        if let Some((name, target)) = line.split_once("]: ")
            && name.starts_with('[')
        {
            links.extend(target.split_whitespace().next().map(|target| (number, target.to_owned())));
        }
    }
    links
}

/// The anchors of a document's headings, as GitHub makes them: lower case, spaces to hyphens,
/// punctuation dropped, repeats numbered.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect();
        let repeats = seen.entry(slug.clone()).or_default();
        anchors.push(if *repeats == 0 { slug } else { format!("{slug}-{repeats}") });
        *repeats += 1;
    }
    anchors
}

/// The lines outside fenced code, numbered from 1 on.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((number + 1, line))
    })
}

/// The line without what stands between backquotes.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        let files =
            [("docs/a.md", text), ("docs/guide/b.md", "# Two words, `code`!\n## Same\n## Same\n"), ("README.md", "")];
        check(&Tree::planted(&files)).len()
    }

    #[test]
    fn good_links_pass() {
        for text in [
            "[b](guide/b.md)",
            "[b](guide/b.md#two-words-code)",
            "[b](guide/b.md#same-1 \"title\")",
            "[r](../README.md) and [d](guide/)",
            "# Here\n[h](#here)",
            "[out](https://example.org/none)",
            "`[x](none.md)`",
            "```\n[x](none.md)\n```",
            "[b]\n\n[b]: guide/b.md",
        ] {
            assert_eq!(found(text), 0, "{text}");
        }
    }

    #[test]
    fn planted_links_are_found() {
        for text in [
            "[x](none.md)",
            "[x](guide/b.md#three)",
            "[x](guide/b.md#same-2)",
            "[x](#nowhere)",
            "[x](../../outside.md)",
            "[b]: guide/none.md",
            "[g](guide/b.md) [x](none.md)",
        ] {
            assert_eq!(found(text), 1, "{text}");
        }
    }
}
