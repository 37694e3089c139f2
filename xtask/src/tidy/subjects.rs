//! The first lines of commits: short, and one thought.

use std::path::Path;
use std::process::Command;

use super::Violation;
use crate::process;

/// Hash and subject of the commits behind `since`, merges left out; nothing where git has no such
/// commit: in a tree without history, or in a shallow clone.
pub fn read(root: &Path, since: &str) -> Vec<(String, String)> {
    let mut git = Command::new("git");
    git.args(["log", "--no-merges", "--format=%h %s", &format!("{since}..HEAD")]).current_dir(root);
    let text = process::output(&mut git).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once(' ')).map(|(hash, subject)| (hash.into(), subject.into())).collect()
}

/// Subjects that are longer than `columns`, or that hold two thoughts.
pub fn check(subjects: &[(String, String)], columns: usize) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (hash, subject) in subjects {
        let length = subject.chars().count();
        if length > columns {
            let what = format!("the subject has {length} characters, the limit is {columns}: {subject}");
            violations.push(Violation::new(hash, 0, what));
        }
        if subject.contains(';') {
            violations.push(Violation::new(hash, 0, format!("the subject has two thoughts: {subject}")));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_subjects_and_double_ones_are_found() {
        let found = |subject: &str| check(&[("abc".into(), subject.into())], 20).len();
        assert_eq!(found("ftl: count victims"), 0);
        assert_eq!(found("ftl: count victims by their age"), 1);
        assert_eq!(found("ftl: one; two"), 1);
    }

    #[test]
    fn a_history_that_is_not_there_holds_nothing() {
        assert_eq!(read(&process::root(), "no-such-commit-at-all"), []);
    }
}
