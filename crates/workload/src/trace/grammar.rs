//! A format of traces: a name, lines that look like it, and a parser of lines.

use nandkit_units::Nanos;

use super::Trace;
use crate::operation::BlockOperationKind;
use crate::parameters::choices;

choices! {
    /// A trace's format.
    pub enum Format {
        /// Found from the first lines.
        Auto = "auto",
        /// fio's iolog, version 2 or 3.
        Iolog = "iolog",
        /// CSV of the MSR Cambridge traces (SNIA IOTTA 388).
        Msr = "msr",
        /// Default text of blkparse.
        Blkparse = "blkparse",
        /// ASCII traces of MQSim.
        Mqsim = "mqsim",
        /// SPC trace files (UMass Trace Repository).
        Spc = "spc",
        /// Alibaba's block traces.
        Alibaba = "alibaba",
        /// Tencent's cloud block storage (SNIA IOTTA 28064).
        Tencent = "tencent",
        /// LUN traces of SYSTOR '17 (SNIA IOTTA 4964).
        Systor = "systor",
        /// Calls of files, which `nandkit exec --record` writes.
        Calls = "calls",
    }
}

choices! {
    /// Unit of time stamps, for formats that do not say it.
    pub enum TimeUnit {
        /// What the format's own tools write.
        Auto = "auto",
        /// Microseconds.
        Micros = "us",
        /// Milliseconds.
        Millis = "ms",
        /// Nanoseconds.
        Nanos = "ns",
    }
}

impl TimeUnit {
    /// A count of units as a span; `usual` converts where the unit is the format's own.
    pub(super) fn span(self, count: u64, usual: fn(u64) -> Nanos) -> Nanos {
        match self {
            Self::Auto => usual(count),
            Self::Micros => Nanos::from_micros(count),
            Self::Millis => Nanos::from_millis(count),
            Self::Nanos => Nanos(count),
        }
    }
}

/// A format of the table in `formats`.
pub(super) struct TraceFormat {
    pub format: Format,
    /// The format's value of the parameter `format`.
    pub key: &'static str,
    /// The format's usual name, for messages.
    pub label: &'static str,
    /// An example of a line, for the message that no format was found.
    pub line: &'static str,
    /// Whether a line has the format's number of fields, and words where the format has words;
    /// their values may be wrong.
    pub resembles: fn(&str) -> bool,
    /// Makes a new parser.
    pub parser: fn(&Trace) -> Box<dyn LineParser>,
}

/// A line that is not of the format.
#[derive(Debug)]
pub(super) struct Malformed {
    /// The character of the line at which it is wrong, from 1, where one can be named.
    pub column: Option<usize>,
    pub found: String,
    pub expected: &'static str,
}

/// An operation as a parser reads it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parsed<'a> {
    pub name: &'a str,
    pub kind: BlockOperationKind,
    pub offset: u64,
    pub length: u64,
    pub time: Nanos,
}

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Nothing to replay.
    Nothing,
    /// An operation.
    Operation(Parsed<'a>),
    /// The operations are over; a summary follows.
    End,
}

/// A format's grammar.
pub(super) trait LineParser: Send {
    /// Reads one line, which is not blank and has no blanks around it.
    fn parse<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Malformed>;
}

/// Checks what all formats share: the end of the operation does not overflow, and its length can be
/// replayed.
pub(super) fn checked_range(offset: u64, length: u64, expected: &'static str) -> Result<(), Malformed> {
    if length <= 1 << 32 && offset.checked_add(length).is_some_and(|end| end <= 1 << 62) {
        return Ok(());
    }
    let found = format!("offset {offset} and length {length} are too large");
    Err(Malformed { column: None, found, expected })
}

/// The beginning of a text, for messages.
pub(crate) fn shortened(text: &str) -> String {
    let trimmed = text.trim();
    let mut short: String = trimmed.chars().take(60).collect();
    if short.len() < trimmed.len() {
        short.push_str("...");
    }
    short
}
