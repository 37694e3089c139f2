//! The files of the project: what git tracks, and what it would track.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use crate::process;

/// One text file.
#[derive(Debug)]
pub struct File {
    /// From the root on, with slashes.
    pub path: String,
    /// Its content; empty for files that are not text.
    pub text: String,
    /// Its length.
    pub bytes: u64,
}

impl File {
    /// Whether the name ends so, dot included.
    pub fn is(&self, extension: &str) -> bool {
        self.path.ends_with(extension)
    }
}

/// All files of the project, in the order of their paths.
#[derive(Debug, Default)]
pub struct Tree {
    /// The files.
    pub files: Vec<File>,
    directories: BTreeSet<String>,
}

/// Directories that a walk without git leaves out.
const NOT_OURS: [&str; 3] = [".git", "target", "corpus"];

impl Tree {
    /// Reads the tree at `root`: what git tracks and what it does not ignore, or, where there is no
    /// git, every file outside build directories.
    pub fn read(root: &Path) -> Result<Self> {
        let mut git = std::process::Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
        let paths: BTreeSet<String> = match process::output(&mut git) {
            Ok(list) => list.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect(),
            Err(_) => {
                let mut paths = BTreeSet::new();
                walk(root, "", &mut paths)?;
                paths
            }
        };
        let mut files = Vec::new();
        for path in paths {
            let full = root.join(&path);
            // A file that was removed, but not from the index, is gone.
            if !full.is_file() {
                continue;
            }
            let bytes = std::fs::read(&full).with_context(|| format!("cannot read {}", full.display()))?;
            let length = bytes.len() as u64;
            let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).unwrap_or_default();
            files.push(File { path, text, bytes: length });
        }
        Ok(Self::of(files))
    }

    fn of(files: Vec<File>) -> Self {
        let mut directories = BTreeSet::new();
        for file in &files {
            let mut path = file.path.as_str();
            while let Some((directory, _)) = path.rsplit_once('/') {
                directories.insert(directory.to_owned());
                path = directory;
            }
        }
        Self { files, directories }
    }

    /// The file at `path`.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether a file or a directory of the project is at `path`.
    pub fn holds(&self, path: &str) -> bool {
        path.is_empty() || self.directories.contains(path) || self.file(path).is_some()
    }

    /// A tree of planted files.
    #[cfg(test)]
    pub fn planted(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
            bytes: text.len() as u64,
        };
        Self::of(files.iter().map(file).collect())
    }
}

fn walk(root: &Path, under: &str, paths: &mut BTreeSet<String>) -> Result<()> {
    let directory = root.join(under);
    for entry in std::fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if under.is_empty() { name.clone() } else { format!("{under}/{name}") };
        if entry.file_type()?.is_dir() {
            if !NOT_OURS.contains(&name.as_str()) && !name.starts_with("target-") {
                walk(root, &path, paths)?;
            }
        } else {
            paths.insert(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_and_the_walk_both_find_the_sources() {
        let root = process::root();
        let tree = Tree::read(&root).unwrap();
        assert!(tree.file("xtask/src/tidy/tree.rs").is_some_and(|file| file.text.contains("fn walk")));
        assert!(tree.holds("xtask/src") && tree.holds("") && !tree.holds("xtask/nothing"));
        assert!(!tree.files.iter().any(|file| file.path.starts_with("target/")));
        let mut walked = BTreeSet::new();
        walk(&root.join("xtask"), "", &mut walked).unwrap();
        assert!(walked.contains("src/tidy/tree.rs"));
    }
}
