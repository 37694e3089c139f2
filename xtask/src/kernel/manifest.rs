//! The canonical listing of a tree, which guest and host make with the same program:
//! guest/manifest.c describes its lines.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::build::Kernel;
use crate::process;

/// What an entry's line holds behind the path, in the order of the fields.
const FIELDS: [&str; 12] =
    ["type", "mode", "uid", "gid", "size", "nlink", "mtime", "rdev", "target", "sha256", "xattrs", "first name"];

/// The place of `mtime` in it.
const MTIME: usize = 6;

/// How many differences are named before the rest is only counted.
const NAMED: usize = 20;

/// How much later a time may be where the clock is taken twice. The guest's clock may run fast on a
/// loaded host.
const LATER_SECONDS: i64 = 60;

/// A tree, by escaped path; "." is its root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest(BTreeMap<String, Vec<String>>);

impl Manifest {
    /// Lists a directory of the host. Only root sees all of it.
    pub fn of_directory(kernel: &Kernel, directory: &Path) -> Result<Self> {
        Self::parse(&process::output(Command::new(kernel.helper()).arg("manifest").arg(directory))?)
    }

    /// Reads a listing that the guest left in a file.
    pub fn of_file(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("the guest left no {}", file.display()))?;
        Self::parse(&text)
    }

    /// Takes a listing apart.
    pub fn parse(text: &str) -> Result<Self> {
        let mut entries = BTreeMap::new();
        for line in text.lines() {
            let mut fields = line.split('\t').map(str::to_owned);
            let path = fields.next().unwrap_or_default();
            let rest: Vec<String> = fields.collect();
            if rest.len() != FIELDS.len() || entries.insert(path, rest).is_some() {
                bail!("not a line of a manifest, or its path comes twice: {line}");
            }
        }
        if !entries.contains_key(".") {
            bail!("a manifest without a root");
        }
        Ok(Self(entries))
    }

    /// Removes the root's own line. An image need not describe the root, so that each reader has
    /// its own idea of its time and owner.
    pub fn without_root(mut self) -> Self {
        self.0.remove(".");
        self
    }

    /// Removes one entry.
    pub fn without(mut self, path: &str) -> Self {
        self.0.remove(path);
        self
    }

    /// The part below a directory of the root, whose own line becomes the root's.
    pub fn below(&self, directory: &str) -> Self {
        let relative = |path: &str| match path.strip_prefix(directory)? {
            "" => Some(".".to_owned()),
            rest => rest.strip_prefix('/').map(str::to_owned),
        };
        let first_name = |fields: &[String]| {
            let mut fields = fields.to_vec();
            if let Some(first) = fields.last_mut()
                && let Some(name) = relative(first)
            {
                *first = name;
            }
            fields
        };
        Self(self.0.iter().filter_map(|(path, fields)| Some((relative(path)?, first_name(fields)))).collect())
    }

    /// Removes the modification times of directories. mkfs.jffs2 puts a child's time into its
    /// directory entry, and Linux takes the time of the latest entry for the directory's where that
    /// is newer by version than the directory's own node.
    pub fn without_directory_times(mut self) -> Self {
        for fields in self.0.values_mut().filter(|fields| fields.first().is_some_and(|kind| kind == "d")) {
            if let Some(time) = fields.get_mut(MTIME) {
                "-".clone_into(time);
            }
        }
        self
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// In which entries and fields `other` differs, a line each; empty where the trees are the
    /// same.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (path, fields) in &self.0 {
            match other.0.get(path) {
                None => found.push(format!("{path}: only in the first")),
                Some(theirs) => {
                    let pairs =
                        FIELDS.iter().zip(fields.iter().zip(theirs)).filter(|(_, (ours, theirs))| ours != theirs);
                    found.extend(pairs.map(|(field, (ours, theirs))| format!("{path}: {field} {ours} / {theirs}")));
                }
            }
        }
        found.extend(
            other.0.keys().filter(|path| !self.0.contains_key(*path)).map(|path| format!("{path}: only in the second")),
        );
        found
    }

    /// This manifest with the modification times of `other` where those are a little later, as
    /// JFFS2 leaves them on the flash: an overwrite takes the time once for the inode in memory and
    /// once more, later, for the node (Linux 6.1, `generic_file_write_iter` and `jffs2_write_end`).
    pub fn with_later_times_of(mut self, other: &Self) -> Self {
        for (path, fields) in &mut self.0 {
            let theirs = other.0.get(path).and_then(|fields| fields.get(MTIME));
            let (Some(ours), Some(theirs)) = (fields.get_mut(MTIME), theirs) else { continue };
            let (Ok(before), Ok(after)) = (ours.parse::<i64>(), theirs.parse::<i64>()) else { continue };
            if (before..=before.saturating_add(LATER_SECONDS)).contains(&after) {
                ours.clone_from(theirs);
            }
        }
        self
    }

    /// An error that names the differences, if there are any. `what` says which two trees these
    /// are, the first first.
    pub fn must_equal(&self, other: &Self, what: &str) -> Result<()> {
        let differences = self.differences(other);
        if differences.is_empty() {
            return Ok(());
        }
        let named = differences.iter().take(NAMED).cloned().collect::<Vec<_>>().join("\n  ");
        bail!("{what}: {} differences\n  {named}", differences.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = ".\td\t0755\t0\t0\t-\t-\t7\t-\t-\t-\t-\t-\n";

    fn manifest(lines: &str) -> Manifest {
        Manifest::parse(&format!("{ROOT}{lines}")).unwrap()
    }

    #[test]
    fn every_field_counts() {
        let line = "a\tf\t0644\t1\t2\t3\t1\t5\t-\t-\tabc\t-\t-\n";
        let ours = manifest(line);
        assert!(ours.must_equal(&manifest(line), "same").is_ok());
        for field in 1..=FIELDS.len() {
            let changed: Vec<&str> = line
                .trim_end()
                .split('\t')
                .enumerate()
                .map(|(at, text)| if at == field { "?" } else { text })
                .collect();
            let theirs = manifest(&format!("{}\n", changed.join("\t")));
            assert_eq!(ours.differences(&theirs).len(), 1, "{}", FIELDS[field - 1]);
        }
        assert_eq!(ours.differences(&manifest("")), ["a: only in the first"]);
        assert_eq!(manifest("").differences(&ours), ["a: only in the second"]);
    }

    #[test]
    fn only_times_that_are_a_little_later_are_taken_over() {
        let at = |time: &str| manifest(&format!("a\tf\t0644\t1\t2\t3\t1\t{time}\t-\t-\tabc\t-\t-\n"));
        for (theirs, equal) in [("500", true), ("502", true), ("499", false), ("561", false)] {
            let ours = at("500").with_later_times_of(&at(theirs));
            assert_eq!(ours.must_equal(&at(theirs), "times").is_ok(), equal, "{theirs}");
        }
        assert!(at("500").with_later_times_of(&manifest("")).must_equal(&manifest(""), "gone").is_err());
    }

    #[test]
    fn a_part_is_what_a_list_of_that_directory_says() {
        let line = |path: &str, first: &str| format!("{path}\tf\t0644\t1\t2\t3\t2\t5\t-\t-\tabc\t-\t{first}\n");
        let directory = |path: &str| format!("{path}\td\t0755\t0\t0\t-\t-\t9\t-\t-\t-\t-\t-\n");
        let whole = format!("{}{}{}{}", directory("d"), line("d/a", "-"), line("d/b", "d/a"), line("dd", "-"));
        let part = format!("{}{}{}", directory("."), line("a", "-"), line("b", "a"));
        assert_eq!(manifest(&whole).below("d"), Manifest::parse(&part).unwrap());
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        for text in ["", "a\tf\n", &format!("{ROOT}{ROOT}")] {
            assert!(Manifest::parse(text).is_err(), "{text}");
        }
    }
}
