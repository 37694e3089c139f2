//! The results file of an experiment: JSON lines that survive a stop at any moment.
//!
//! Each record is appended with one write and made durable. A stop or a full disk may leave a torn
//! line after the last line feed; opening the file for appending cuts it off. If the disk is full
//! while a record is appended, the file is cut back to its last whole record.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nandkit_record::{RunRecord, read_lines};

/// Why results cannot be kept.
#[derive(Debug)]
pub enum ResultsError {
    /// The operating system refused.
    Io {
        /// The action that failed, in words for a message.
        action: &'static str,
        /// Which file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Another process keeps its records there at present.
    InUse {
        /// Which directory.
        directory: PathBuf,
    },
    /// The file holds something else than records.
    Foreign {
        /// Which file.
        path: PathBuf,
        /// The line and what is wrong with it.
        detail: String,
    },
}

impl fmt::Display for ResultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, path, source } if is_full(source) => write!(
                f,
                "cannot {action} {}: no room is left ({source}); free some space and run the same command again: finished runs are kept",
                path.display()
            ),
            Self::Io { action, path, source } => write!(f, "cannot {action} {}: {source}", path.display()),
            Self::InUse { directory } => write!(
                f,
                "{} is in use: another experiment keeps its records there; wait for its end, or name another directory",
                directory.display()
            ),
            Self::Foreign { path, detail } => {
                write!(f, "{}: {detail}; name another directory, or move the file away", path.display())
            }
        }
    }
}

impl std::error::Error for ResultsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::InUse { .. } | Self::Foreign { .. } => None,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}

/// A directory of results, taken for one experiment as long as this lives: two that append to the
/// same files would lose each other's records.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Takes the directory itself, which is made if need be and holds no other file for it.
    pub(crate) fn take(directory: &Path) -> Result<Self, ResultsError> {
        make_directory(directory)?;
        let opened = File::open(directory);
        let path = directory.to_path_buf();
        let file = opened.map_err(|source| ResultsError::Io { action: "open", path: path.clone(), source })?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(ResultsError::InUse { directory: path }),
            // Some file systems know no locks, of directories at least; that is no reason to
            // refuse.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self { _file: file }),
        }
    }
}

fn make_directory(directory: &Path) -> Result<(), ResultsError> {
    fs::create_dir_all(directory).map_err(|source| ResultsError::Io {
        action: "make the directory",
        path: directory.to_path_buf(),
        source,
    })
}

/// Where finished records go.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    file: File,
    length: u64,
    torn: bool,
}

impl Results {
    /// The name of the file within the directory of an experiment.
    pub const FILE_NAME: &'static str = "runs.jsonl";
    /// The name of the file to which records go that are no longer valid.
    pub const OLD_FILE_NAME: &'static str = "runs-old.jsonl";

    /// Opens or makes the results file of `directory`, which is made if need be, and returns it
    /// with the records that it holds.
    pub fn open(directory: &Path) -> Result<(Self, Vec<RunRecord>), ResultsError> {
        make_directory(directory)?;
        let path = directory.join(Self::FILE_NAME);
        let io = |action| {
            let path = path.clone();
            move |source| ResultsError::Io { action, path, source }
        };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(io("open"))?;
        // A device or a pipe of this name would never come to an end.
        if !file.metadata().map_err(io("open"))?.is_file() {
            let detail = "no regular file, expected a file of run records".to_string();
            return Err(ResultsError::Foreign { path, detail });
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io("read"))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let records = read_lines(bytes.get(..whole).unwrap_or_default())
            .map_err(|error| ResultsError::Foreign { path: path.clone(), detail: error.to_string() })?;
        if whole < bytes.len() && !looks_torn(bytes.get(whole..).unwrap_or_default()) {
            let line = records.len() + 1;
            return Err(ResultsError::Foreign { path, detail: format!("line {line}: no run record") });
        }
        let mut results = Self { path: path.clone(), file, length: whole as u64, torn: whole < bytes.len() };
        if results.torn {
            results.cut_back().map_err(io("take the torn last line off"))?;
        }
        results.file.seek(SeekFrom::Start(results.length)).map_err(io("read"))?;
        Ok((results, records))
    }

    /// Takes records out of the file and appends them to [`Results::OLD_FILE_NAME`] beside it;
    /// `keep` stay.
    pub fn set_aside(self, aside: &[RunRecord], keep: &[RunRecord]) -> Result<Self, ResultsError> {
        let old = self.path.with_file_name(Self::OLD_FILE_NAME);
        let text: String = aside.iter().map(|record| record.to_line() + "\n").collect();
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&old)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .map_err(|source| ResultsError::Io { action: "write results to", path: old, source })?;
        let directory = self.path.parent().map(Path::to_path_buf).unwrap_or_default();
        self.put_in_order(&[], keep)?;
        Self::open(&directory).map(|(results, _)| results)
    }

    /// Whether the file holds no record.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends a record and makes it durable. After an error the file ends with the last whole
    /// record.
    pub fn append(&mut self, record: &RunRecord) -> Result<(), ResultsError> {
        let line = record.to_line() + "\n";
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        match written {
            Ok(()) => {
                self.length += line.len() as u64;
                Ok(())
            }
            Err(source) => {
                // The first error is the one to tell; a torn line that cannot be taken off now is
                // taken off when the file is opened again.
                let _ = self.cut_back();
                Err(ResultsError::Io { action: "write results to", path: self.path.clone(), source })
            }
        }
    }

    /// Puts the file in the order of the experiment: first the records of `before` that are not in
    /// `records`, then `records`. The file is replaced as a whole or stays as it is.
    pub fn put_in_order(self, before: &[RunRecord], records: &[RunRecord]) -> Result<(), ResultsError> {
        let keys: BTreeSet<String> = records.iter().map(RunRecord::key).collect();
        let mut written = BTreeSet::new();
        let mut text = String::new();
        for record in before.iter().filter(|record| !keys.contains(&record.key())).chain(records) {
            if written.insert(record.key()) {
                text.push_str(&record.to_line());
                text.push('\n');
            }
        }
        let temporary = self.path.with_extension("jsonl.new");
        let replaced = File::create(&temporary)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&temporary, &self.path));
        replaced.map_err(|source| {
            // A half-written file must not stay; the records themselves are all in the results file
            // already.
            let _ = fs::remove_file(&temporary);
            ResultsError::Io { action: "write results to", path: self.path.clone(), source }
        })
    }

    /// Whether the file ended in an incomplete record when it was opened. Opening has cut it off.
    pub(crate) const fn was_torn(&self) -> bool {
        self.torn
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn cut_back(&mut self) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length))?;
        Ok(())
    }
}

/// Whether bytes may be the beginning of a record's line, so that nothing else is ever cut off a
/// file.
fn looks_torn(bytes: &[u8]) -> bool {
    const START: &[u8] = b"{\"schema\":";
    let length = bytes.len().min(START.len());
    bytes.get(..length) == START.get(..length) || nandkit_units::is_zeroed(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    #[test]
    fn records_are_there_when_the_file_is_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let (mut results, found) = Results::open(&directory.path().join("a/b")).unwrap();
        assert!(found.is_empty());
        results.append(&record(1)).unwrap();
        results.append(&record(2)).unwrap();
        let (_, found) = Results::open(&directory.path().join("a/b")).unwrap();
        assert_eq!(found, [record(1), record(2)]);
    }

    #[test]
    fn a_torn_last_line_is_taken_off_wherever_it_was_torn() {
        let line = record(2).to_line();
        for torn in [1, 5, 11, line.len() / 2, line.len()] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(Results::FILE_NAME);
            fs::write(&path, format!("{}\n{}", record(1).to_line(), &line[..torn])).unwrap();
            let (mut results, found) = Results::open(directory.path()).unwrap();
            assert_eq!(found, [record(1)]);
            results.append(&record(3)).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert_eq!(text, format!("{}\n{}\n", record(1).to_line(), record(3).to_line()));
        }
    }

    #[test]
    fn a_file_of_something_else_is_left_alone() {
        for foreign in ["hello\n", "hello", "{\"a\":1}\n"] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(Results::FILE_NAME);
            fs::write(&path, foreign).unwrap();
            let error = Results::open(directory.path()).unwrap_err().to_string();
            assert!(error.contains("runs.jsonl") && error.contains("line 1"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
        }
    }

    #[test]
    fn records_that_are_set_aside_are_in_the_other_file() {
        let directory = tempfile::tempdir().unwrap();
        let (mut results, _) = Results::open(directory.path()).unwrap();
        (1..=3).for_each(|seed| results.append(&record(seed)).unwrap());
        let mut results = results.set_aside(&[record(1)], &[record(2), record(3)]).unwrap();
        results.append(&record(4)).unwrap();
        results.set_aside(&[record(3)], &[record(2), record(4)]).unwrap();
        assert_eq!(Results::open(directory.path()).unwrap().1, [record(2), record(4)]);
        let old = fs::read(directory.path().join(Results::OLD_FILE_NAME)).unwrap();
        assert_eq!(read_lines(&*old).unwrap(), [record(1), record(3)]);
    }

    #[test]
    #[cfg(unix)]
    fn what_is_no_regular_file_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/zero", directory.path().join(Results::FILE_NAME)).unwrap();
        assert!(Results::open(directory.path()).unwrap_err().to_string().contains("no regular file"));
    }

    #[test]
    fn a_full_disk_is_told_and_leaves_whole_records() {
        // /dev/full answers every write as a full disk does.
        let Ok(file) = OpenOptions::new().read(true).write(true).open("/dev/full") else {
            panic!("this test needs /dev/full");
        };
        let mut results = Results { path: "/dev/full".into(), file, length: 0, torn: false };
        let error = results.append(&record(1)).unwrap_err().to_string();
        assert!(error.contains("no room is left") && error.contains("/dev/full"), "{error}");
    }
}
