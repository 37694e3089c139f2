//! Reading records back from JSON lines.

use std::fmt;
use std::io::BufRead;

use crate::run_record::{RunRecord, SCHEMA};

/// A line that is not a record: where it is, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub detail: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.detail)
    }
}

impl std::error::Error for ReadError {}

/// Reads records, one on each line; empty lines are passed over. The first bad line ends the
/// reading with an error that names it.
pub fn read_lines(reader: impl BufRead) -> Result<Vec<RunRecord>, ReadError> {
    let mut records = Vec::new();
    for (index, line) in reader.lines().enumerate() {
        let error = |detail: String| ReadError { line: index + 1, detail };
        let line = line.map_err(|source| error(format!("cannot be read: {source}")))?;
        if line.trim().is_empty() {
            continue;
        }
        let record: RunRecord = serde_json::from_str(&line).map_err(|source| {
            error(format!("no run record ({source}): expected one JSON object as `nandkit run` writes it"))
        })?;
        if record.schema != SCHEMA {
            return Err(error(format!(
                "a record of schema {}, expected schema {SCHEMA}: run the experiment again with this version",
                record.schema
            )));
        }
        records.push(record);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_record::testing::record;

    #[test]
    fn lines_are_read_back() {
        let text = format!("{}\n\n{}\n", record().to_line(), record().to_line());
        assert_eq!(read_lines(text.as_bytes()).unwrap(), vec![record(), record()]);
    }

    #[test]
    fn a_bad_line_is_named() {
        let good = record().to_line();
        let torn = &good[..good.len() / 2];
        let other_schema = good.replacen("\"schema\":1", "\"schema\":9", 1);
        for (bad, expected) in
            [(torn, "no run record"), ("{}", "missing field"), (other_schema.as_str(), "expected schema 1")]
        {
            let error = read_lines(format!("{good}\n{bad}\n").as_bytes()).unwrap_err();
            assert_eq!(error.line, 2);
            assert!(error.to_string().contains(expected), "{error}");
        }
        assert_eq!(read_lines(&b"\xFF\n"[..]).unwrap_err().line, 1);
    }
}
