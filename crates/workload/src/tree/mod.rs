//! `tree:DIR`: a real directory copied in, changed, read back and compared byte for byte.

pub mod source;

use std::collections::BTreeSet;

use nandkit_units::random::Random;

use crate::error::{Result, SpecError, WorkloadError};
use crate::operation::{FileData, FileOperation, FileSlot, FileWorkload, Phase};
use crate::parameters::{choices, parameters};
use crate::script::Script;
use source::{TreeEntry, TreeSource};

choices! {
    /// How the names of the directory are copied.
    pub enum Names {
        /// Unchanged; a file system that cannot hold a name refuses it.
        Keep = "keep",
        /// Characters other than letters, digits, `.`, `-` and `_` become `_`, and names that
        /// differ in case only are told apart.
        Portable = "portable",
    }
}

parameters! {
    /// Parameters of `tree`. Copying is the fill; the changes and the reading of all files are
    /// measured.
    pub struct Tree as "tree" {
        /// The directory. Symbolic links and special files in it are left out.
        dir: String = String::new(), "a path";
        /// keep, or portable (for file systems that cannot hold every name, such as FAT).
        names: Names = Names::Keep, ();
        /// Rounds of changes.
        rounds: u64 = 4, 0..=1 << 20;
        /// Share of the files that a round changes: a quarter each is appended to, rewritten in
        /// part, renamed, removed.
        share: f64 = 0.25, 0.0..=1.0;
        /// Largest number of bytes of an append or a rewrite.
        change: u64 = 16 << 10, 1..=1 << 20;
        /// Whether all files are read at the end of the measured phase.
        read: bool = true, ();
    }
}

impl Tree {
    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        if self.dir.is_empty() {
            return Err(SpecError::Missing { workload: "tree", key: "dir", placeholder: "DIR" });
        }
        Ok(())
    }
}

/// Bytes of each read, and of each write of the copy.
const PIECE: u64 = 64 << 10;

#[derive(Clone, Debug)]
struct File {
    slot: FileSlot,
    parent: FileSlot,
    size: u64,
}

/// The beginning of the names of renamed files.
const RENAMED: &str = "renamed-";

/// The slot of the source's entry with this number.
const fn slot(number: usize) -> FileSlot {
    FileSlot(number as u32 + 1)
}

/// The stream of operations.
pub struct TreeFiles {
    spec: Tree,
    source: Box<dyn TreeSource>,
    names: Vec<Vec<u8>>,
    random: Random,
    script: Script,
    phase: Phase,
    /// Entries copied.
    copied: usize,
    files: Vec<File>,
    round: u64,
    renamed: u64,
    /// The source's own names of the form that renamed files get, in lower case, with their
    /// directories.
    taken: BTreeSet<(FileSlot, Vec<u8>)>,
    /// Files read at the end.
    read: usize,
}

impl TreeFiles {
    /// Makes the stream from a checked spec and a source.
    pub fn new(spec: Tree, source: Box<dyn TreeSource>, seed: u64, free_bytes: u64) -> Result<Self> {
        let total = source.entries().iter().filter_map(|entry| entry.size).fold(0, u64::saturating_add);
        if total > free_bytes {
            let advice = "use a smaller directory or a larger device".to_string();
            return Err(WorkloadError::DoesNotFit { workload: "tree", needed: total, available: free_bytes, advice });
        }
        let names = match spec.names {
            Names::Keep => source.entries().iter().map(|entry| entry.name.clone()).collect(),
            Names::Portable => portable_names(source.entries()),
        };
        let parents = source.entries().iter().map(|entry| entry.parent.map_or(FileSlot::ROOT, slot));
        let lower = names.iter().map(|name| name.to_ascii_lowercase());
        let taken = parents.zip(lower).filter(|(_, name)| name.starts_with(RENAMED.as_bytes())).collect();
        Ok(Self {
            spec,
            taken,
            source,
            names,
            random: Random::new(seed, "tree"),
            script: Script::default(),
            phase: Phase::Fill,
            copied: 0,
            files: Vec::new(),
            round: 0,
            renamed: 0,
            read: 0,
        })
    }

    /// How many entries of the source were left out.
    pub fn skipped(&self) -> u64 {
        self.source.skipped()
    }

    /// Copies the next entry; false at the end.
    fn copy_next(&mut self) -> bool {
        let number = self.copied;
        let (Some(entry), Some(name)) = (self.source.entries().get(number), self.names.get(number)) else {
            return false;
        };
        self.copied += 1;
        let parent = entry.parent.map_or(FileSlot::ROOT, slot);
        if let Some(size) = entry.size {
            self.script.create(slot(number), parent, name.clone());
            let mut offset = 0;
            while offset < size {
                let length = PIECE.min(size - offset);
                let data = FileData::Original { number: number as u32, offset };
                self.script.write_data(slot(number), offset, length, data);
                offset += length;
            }
            self.files.push(File { slot: slot(number), parent, size });
        } else {
            self.script.make_directory(slot(number), parent, name.clone());
        }
        if self.copied == self.source.entries().len() {
            self.script.sync(None);
        }
        true
    }

    /// A name that no other file of the directory has, now or later.
    fn free_name(&mut self, parent: FileSlot) -> String {
        loop {
            self.renamed += 1;
            let name = format!("{RENAMED}{:08}", self.renamed);
            if !self.taken.contains(&(parent, name.as_bytes().to_vec())) {
                return name;
            }
        }
    }

    fn change_round(&mut self) {
        self.round += 1;
        let mut kept = Vec::with_capacity(self.files.len());
        for mut file in std::mem::take(&mut self.files) {
            if !self.random.chance(self.spec.share) {
                kept.push(file);
                continue;
            }
            let length = self.random.between(1, self.spec.change);
            match self.random.below(4) {
                0 => {
                    self.script.open(file.slot);
                    self.script.write(file.slot, file.size, length);
                    file.size += length;
                }
                1 => {
                    let length = length.min(file.size);
                    let offset = self.random.below(file.size - length + 1);
                    self.script.open(file.slot);
                    if length > 0 {
                        self.script.write(file.slot, offset, length);
                    }
                }
                2 => {
                    let name = self.free_name(file.parent);
                    self.script.rename(file.slot, file.parent, name);
                }
                _ => {
                    self.script.remove(file.slot);
                    continue;
                }
            }
            kept.push(file);
        }
        self.files = kept;
        self.script.sync(None);
    }

    /// Puts the next operations into the script; false at the end of the phase.
    fn advance(&mut self) -> bool {
        match self.phase {
            Phase::Fill => self.copy_next(),
            Phase::Age => false,
            Phase::Measure if self.round < self.spec.rounds => {
                self.change_round();
                true
            }
            Phase::Measure if self.spec.read => {
                let Some(file) = self.files.get(self.read) else { return false };
                self.read += 1;
                self.script.open(file.slot);
                self.script.read_in_pieces(file.slot, file.size, PIECE);
                true
            }
            Phase::Measure => false,
        }
    }
}

/// Names that any file system can hold, different in each directory also where case does not count.
fn portable_names(entries: &[TreeEntry]) -> Vec<Vec<u8>> {
    let mut taken: BTreeSet<(Option<usize>, String)> = BTreeSet::new();
    let mut names = Vec::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let mut name: String =
            entry.name.iter().map(|byte| if allowed(byte) { char::from(*byte) } else { '_' }).take(200).collect();
        let plain = name.trim_end_matches('.').len();
        name.truncate(plain);
        let key = |name: &str| (entry.parent, name.to_ascii_lowercase());
        if name.is_empty() || taken.contains(&key(&name)) {
            name = format!("{name}_{number}");
        }
        while !taken.insert(key(&name)) {
            name.push('_');
        }
        names.push(name.into_bytes());
    }
    names
}

impl FileWorkload for TreeFiles {
    fn begin(&mut self, phase: Phase) -> Option<u64> {
        self.phase = phase;
        None
    }

    fn next_operation(&mut self) -> Result<Option<FileOperation>> {
        loop {
            if let Some(operation) = self.script.next() {
                return Ok(Some(operation));
            }
            if !self.advance() {
                return Ok(None);
            }
        }
    }

    fn original(&mut self, number: u32, offset: u64, into: &mut [u8]) -> Result<()> {
        self.source.read(number as usize, offset, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Given(Vec<TreeEntry>);

    impl TreeSource for Given {
        fn entries(&self) -> &[TreeEntry] {
            &self.0
        }
        fn read(&mut self, _: usize, _: u64, into: &mut [u8]) -> Result<()> {
            into.fill(0);
            Ok(())
        }
        fn identify(&self, _: &mut dyn FnMut(&[u8])) {}
    }

    #[test]
    fn the_copying_ends_with_one_sync_whatever_comes_last() {
        let entry = |name: &str, size| TreeEntry { parent: None, name: name.as_bytes().to_vec(), size };
        for sizes in [[Some(1), None], [None, Some(1)], [None, None]] {
            let entries = vec![entry("a", sizes[0]), entry("b", sizes[1])];
            let mut files = TreeFiles::new(Tree::default(), Box::new(Given(entries)), 1, 1 << 20).unwrap();
            files.begin(Phase::Fill);
            let operations: Vec<_> = std::iter::from_fn(|| files.next_operation().unwrap()).collect();
            let is_sync = |operation: &FileOperation| matches!(operation, FileOperation::Sync { slot: None });
            assert!(is_sync(operations.last().unwrap()), "{operations:?}");
            assert_eq!(operations.iter().filter(|operation| is_sync(operation)).count(), 1);
        }
    }

    #[test]
    fn a_renamed_file_gets_no_name_of_another() {
        let entry = |parent, name: &str, size| TreeEntry { parent, name: name.as_bytes().to_vec(), size };
        let mut entries = vec![entry(None, "d", None)];
        for number in 1..=20 {
            entries.push(entry(None, &format!("Renamed-{number:08}"), Some(0)));
            entries.push(entry(Some(0), &format!("renamed-{number:08}"), Some(0)));
        }
        let spec = Tree { share: 1.0, rounds: 2, ..Tree::default() };
        let mut files = TreeFiles::new(spec, Box::new(Given(entries)), 1, 1 << 20).unwrap();
        let mut targets = Vec::new();
        for phase in [Phase::Fill, Phase::Measure] {
            files.begin(phase);
            while let Some(operation) = files.next_operation().unwrap() {
                if let FileOperation::Rename { name, .. } = operation {
                    targets.push(String::from_utf8(name).unwrap());
                }
            }
        }
        assert!(targets.len() > 5 && targets.iter().all(|name| name.as_str() > "renamed-00000020"), "{targets:?}");
    }

    #[test]
    fn portable_names_are_free_of_what_fat_refuses() {
        let entry = |name: &str| TreeEntry { parent: None, name: name.as_bytes().to_vec(), size: Some(0) };
        let entries = ["README", "readme", "a:b", "a?b", "dots...", "...", "ok.txt", "\u{e4}"].map(entry);
        let names: Vec<String> =
            portable_names(&entries).into_iter().map(|name| String::from_utf8(name).unwrap()).collect();
        assert_eq!(names, ["README", "readme_1", "a_b", "a_b_3", "dots", "_5", "ok.txt", "__"]);
    }
}
