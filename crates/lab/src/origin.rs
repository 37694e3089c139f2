//! The origins of the records in a results directory: which program made them, from which inputs.
//!
//! A record is a pure function of its spec and seed, so it names neither program nor inputs; but a
//! new build of the program, or a new trace in the same file, gives other records for the same
//! spec. A file beside the results therefore notes the origin of each record, which it identifies
//! by length and CRC-32. A record without an origin is not reused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nandkit_record::RunRecord;

use crate::ResultsError;

/// The origin of a record, as words without white space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The program that made the record.
    pub program: String,
    /// What the run took from outside its spec; [`Origin::NOTHING`] for nothing.
    pub inputs: String,
}

impl Origin {
    /// The inputs of a run that takes nothing from outside.
    pub(crate) const NOTHING: &'static str = "-";
}

/// Identifies a record: its `host_*` fields tell it from another making of the same run.
fn identity(record: &RunRecord) -> String {
    let line = record.to_line();
    format!("{}-{:08x}", line.len(), crc32fast::hash(line.as_bytes()))
}

/// The file of origins.
#[derive(Debug)]
pub(crate) struct Origins {
    path: PathBuf,
    known: BTreeMap<String, Origin>,
    /// Whether a stop left a torn line at the end.
    torn: bool,
}

impl Origins {
    pub(crate) const FILE_NAME: &'static str = "runs.origin";

    /// Reads the origins of a directory. A malformed line is ignored.
    pub(crate) fn open(directory: &Path) -> Result<Self, ResultsError> {
        let path = directory.join(Self::FILE_NAME);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(ResultsError::Io { action: "read", path, source }),
        };
        let torn = bytes.last().is_some_and(|last| *last != b'\n');
        // A torn line may look whole although a part of its last word is missing.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let text = String::from_utf8_lossy(bytes.get(..whole).unwrap_or_default());
        let mut known = BTreeMap::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if let [identity, program, inputs] = words.as_slice() {
                let origin = Origin { program: (*program).to_string(), inputs: (*inputs).to_string() };
                known.insert((*identity).to_string(), origin);
            }
        }
        Ok(Self { path, known, torn })
    }

    /// Where a record comes from, if that is known.
    pub(crate) fn of(&self, record: &RunRecord) -> Option<&Origin> {
        self.known.get(&identity(record))
    }

    /// Adds what a new record was made by.
    pub(crate) fn append(&mut self, record: &RunRecord, origin: &Origin) -> Result<(), ResultsError> {
        let identity = identity(record);
        // After a torn line the new entry begins on a line of its own.
        let start = if std::mem::take(&mut self.torn) { "\n" } else { "" };
        let line = format!("{start}{identity} {} {}\n", origin.program, origin.inputs);
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)
            .and_then(|mut file| file.write_all(line.as_bytes()).and_then(|()| file.sync_data()));
        written.map_err(|source| {
            self.torn = true;
            ResultsError::Io { action: "write results to", path: self.path.clone(), source }
        })?;
        self.known.insert(identity, origin.clone());
        Ok(())
    }

    /// Forgets all records but these.
    pub(crate) fn retain<'a>(&self, records: impl Iterator<Item = &'a RunRecord>) -> Result<(), ResultsError> {
        let kept: BTreeSet<String> = records.map(identity).collect();
        if !self.torn && self.known.keys().all(|identity| kept.contains(identity)) {
            return Ok(());
        }
        let text: String = self
            .known
            .iter()
            .filter(|(identity, _)| kept.contains(*identity))
            .map(|(identity, origin)| format!("{identity} {} {}\n", origin.program, origin.inputs))
            .collect();
        let temporary = self.path.with_extension("origin.new");
        let replaced = File::create(&temporary)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&temporary, &self.path));
        replaced.map_err(|source| {
            // A half-written file must not stay; the file of origins itself is as it was.
            let _ = fs::remove_file(&temporary);
            ResultsError::Io { action: "write results to", path: self.path.clone(), source }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    fn origin(program: &str) -> Origin {
        Origin { program: program.to_string(), inputs: Origin::NOTHING.to_string() }
    }

    #[test]
    fn origins_are_there_when_the_file_is_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut origins = Origins::open(directory.path()).unwrap();
        assert_eq!(origins.of(&record(1)), None);
        origins.append(&record(1), &origin("a")).unwrap();
        origins.append(&record(2), &origin("b")).unwrap();
        let origins = Origins::open(directory.path()).unwrap();
        assert_eq!((origins.of(&record(1)), origins.of(&record(2))), (Some(&origin("a")), Some(&origin("b"))));
        // Another making of the same run is another record.
        assert_eq!(origins.of(&RunRecord { host_time_ns: 7, ..record(1) }), None);
        origins.retain([record(2)].iter()).unwrap();
        let origins = Origins::open(directory.path()).unwrap();
        assert_eq!((origins.of(&record(1)), origins.of(&record(2))), (None, Some(&origin("b"))));
    }

    #[test]
    fn a_torn_line_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        Origins::open(directory.path()).unwrap().append(&record(1), &origin("program")).unwrap();
        let path = directory.path().join(Origins::FILE_NAME);
        let whole = fs::read_to_string(&path).unwrap();
        for cut in 0..whole.len() - 1 {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut origins = Origins::open(directory.path()).unwrap();
            assert_ne!(origins.of(&record(1)), Some(&origin("program")));
            origins.append(&record(2), &origin("b")).unwrap();
            assert_eq!(Origins::open(directory.path()).unwrap().of(&record(2)), Some(&origin("b")));
        }
    }
}
