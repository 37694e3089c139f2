//! Files that a workload reads beside its spec, and a fingerprint that changes with them.

use std::io::{self, Read};

use crc32fast::Hasher;

use crate::error::Result;
use crate::{Inputs, WorkloadError, WorkloadSpec};

/// An input of a workload that its spec only names, and that may change while the spec stays the
/// same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outside<'a> {
    /// A trace or a load file, by its path.
    Trace(&'a str),
    /// A directory, by its path.
    Tree(&'a str),
}

impl WorkloadSpec {
    /// The input that the workload's spec names, if any.
    pub fn outside(&self) -> Option<Outside<'_>> {
        match self {
            Self::Trace(spec) => Some(Outside::Trace(&spec.file)),
            Self::Tree(spec) => Some(Outside::Tree(&spec.dir)),
            Self::Dbench(spec) => spec.file().map(Outside::Trace),
            _ => None,
        }
    }
}

impl Outside<'_> {
    /// A word that changes with the input: for a trace with its bytes, for a directory with the
    /// names, sizes and times of change of its entries. Errors: [`WorkloadError::Cancelled`] where
    /// the inputs are stopped meanwhile.
    pub fn fingerprint(&self, inputs: &dyn Inputs) -> Result<String> {
        let (kind, length, crc) = match self {
            Self::Trace(path) => {
                let failed = |source: io::Error| WorkloadError::Input {
                    path: (*path).to_string(),
                    detail: format!("cannot be read: {source}"),
                    source: Some(source),
                };
                let stop = || inputs.is_stopped();
                let (length, crc) = match inputs.open(path).and_then(|mut file| of_bytes(&mut file, &stop)) {
                    Err(_) if stop() => return Err(WorkloadError::Cancelled { operations: 0 }),
                    outcome => outcome.map_err(failed)?,
                };
                ("trace", length, crc)
            }
            Self::Tree(path) => {
                let tree = inputs.tree(path)?;
                let mut hasher = Hasher::new();
                tree.identify(&mut |bytes| hasher.update(bytes));
                ("tree", tree.entries().len() as u64, hasher.finalize())
            }
        };
        Ok(format!("{kind}-{length}-{crc:08x}"))
    }
}

/// Length and CRC-32 of everything that can be read, unless `stop` says so in between.
fn of_bytes(from: &mut dyn Read, stop: &dyn Fn() -> bool) -> io::Result<(u64, u32)> {
    let (mut hasher, mut length, mut buffer) = (Hasher::new(), 0_u64, vec![0; 1 << 16]);
    loop {
        if stop() {
            return Err(io::Error::other("stopped"));
        }
        match from.read(&mut buffer) {
            Ok(0) => return Ok((length, hasher.finalize())),
            Ok(read) => {
                hasher.update(buffer.get(..read).unwrap_or_default());
                length += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::HostInputs;

    #[test]
    fn a_trace_is_known_by_its_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t").display().to_string();
        let print = || Outside::Trace(&path).fingerprint(&HostInputs).unwrap();
        fs::write(&path, "123456789").unwrap();
        // The check value of CRC-32.
        assert_eq!(print(), "trace-9-cbf43926");
        fs::write(&path, "123456788").unwrap();
        assert_ne!(print(), "trace-9-cbf43926");
        assert!(Outside::Trace("nowhere").fingerprint(&HostInputs).unwrap_err().is_input());
    }

    #[test]
    fn a_directory_is_known_by_names_sizes_and_times() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display().to_string();
        let print = || Outside::Tree(&path).fingerprint(&HostInputs).unwrap();
        let mut seen = vec![print()];
        let mut step = |what: &str| {
            assert!(!seen.contains(&print()), "{what}");
            seen.push(print());
            assert_eq!(seen.last(), Some(&print()), "{what}");
        };
        let file = directory.path().join("a");
        fs::write(&file, "1234").unwrap();
        step("a new file");
        fs::rename(&file, directory.path().join("b")).unwrap();
        step("another name");
        fs::write(directory.path().join("b"), "12345").unwrap();
        step("another size");
        let open = fs::File::options().write(true).open(directory.path().join("b")).unwrap();
        let later = open.metadata().unwrap().modified().unwrap() + std::time::Duration::from_secs(1);
        open.set_modified(later).unwrap();
        step("another time");
        fs::create_dir(directory.path().join("d")).unwrap();
        step("a new directory");
        fs::rename(directory.path().join("b"), directory.path().join("d/b")).unwrap();
        step("another place");
    }

    #[test]
    fn generated_workloads_take_nothing_from_outside() {
        let outside = |text: &str| text.parse::<WorkloadSpec>().unwrap().outside().is_some();
        assert!(!outside("fax") && outside("tree:dir") && outside("trace:file"));
    }
}
