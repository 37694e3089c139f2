//! Reads a trace line by line: decompression, recognition of the format, line numbers.

use std::io::{BufRead, BufReader, Cursor, Read};

use nandkit_units::Nanos;

use super::{Trace, blkparse, iolog, msr};
use crate::calls::MAGIC;
use crate::error::{Result, WorkloadError};
use crate::operation::BlockOperationKind;
use crate::parameters::choices;

choices! {
    /// A trace's format.
    pub enum Format {
        /// Told by the first line.
        Auto = "auto",
        /// fio's iolog, version 2 or 3.
        Iolog = "iolog",
        /// CSV of the MSR Cambridge traces (SNIA IOTTA 388).
        Msr = "msr",
        /// Default text of blkparse.
        Blkparse = "blkparse",
        /// Calls of files, which `nandkit exec --record` writes.
        Calls = "calls",
    }
}

/// Longest line; the formats need a few hundred bytes.
const LINE_MAX: u64 = 4096;

/// Most bytes of blank lines in a row. No recorder writes any; a small compressed file may hold them by the gigabyte.
const BLANK_MAX: u64 = 1 << 20;

/// How many lines pass between two questions whether to stop.
const LINES_PER_QUESTION: u32 = 1024;

/// One operation of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOperation {
    /// Which of the trace's names (files, disks), counted from 0 in the order of their first operation.
    pub name: u32,
    /// What to do; a flush has no place.
    pub kind: BlockOperationKind,
    /// First byte.
    pub offset: u64,
    /// Bytes, at most 4 GiB.
    pub length: u64,
    /// Instant, counted from the trace's start; never before that of the operation before.
    pub time: Nanos,
    /// The line, from 1.
    pub line: u64,
}

/// A line that is not of the format.
#[derive(Debug)]
pub(super) struct Malformed {
    pub found: String,
    pub expected: &'static str,
}

/// An operation as a parser finds it.
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
    /// Reads one line, which is not blank.
    fn parse<'a>(&mut self, line: &'a str) -> std::result::Result<Line<'a>, Malformed>;
}

/// Checks what all formats share: the end is in the range of numbers, and the length is one that can be replayed.
pub(super) fn checked_range(offset: u64, length: u64, expected: &'static str) -> std::result::Result<(), Malformed> {
    if length <= 1 << 32 && offset.checked_add(length).is_some_and(|end| end <= 1 << 62) {
        return Ok(());
    }
    Err(Malformed { found: format!("offset {offset} and length {length} are too large"), expected })
}

/// Latest instant of an operation, counted from the first: a century. Behind it simulated time would end.
pub(crate) const LATEST: Nanos = Nanos(100 * 366 * 86_400 * 1_000_000_000);

/// What some editors put before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

fn checked_time<'a>(line: Line<'a>, text: &str) -> std::result::Result<Line<'a>, Malformed> {
    match line {
        Line::Operation(Parsed { time, .. }) if time > LATEST => {
            let found = format!("\"{}\" is more than a century after the first operation", shortened(text));
            Err(Malformed { found, expected: "time stamps of one clock" })
        }
        line => Ok(line),
    }
}

/// A trace being read.
pub struct TraceReader {
    file: String,
    input: Box<dyn BufRead + Send>,
    parser: Box<dyn LineParser>,
    buffer: Vec<u8>,
    line: u64,
    /// The line in the buffer is still to be parsed: it told the format.
    pending: bool,
    names: Vec<String>,
    last: Nanos,
    over: bool,
    /// Since `stop` was last asked.
    lines_unasked: u32,
}

impl TraceReader {
    /// Begins to read; `file` is for messages.
    pub fn new(spec: &Trace, input: Box<dyn Read + Send>) -> Result<Self> {
        let file = spec.file.clone();
        let input = decompressed(input).map_err(|source| unreadable(&file, source))?;
        let parser: Box<dyn LineParser> = Box::new(blkparse::Parser::new(spec.action));
        let mut reader = Self {
            file,
            input,
            parser,
            buffer: Vec::new(),
            line: 0,
            pending: false,
            names: Vec::new(),
            last: Nanos::ZERO,
            over: false,
            lines_unasked: 0,
        };
        let format = match spec.format {
            Format::Auto => reader.detect()?,
            format => format,
        };
        match format {
            Format::Iolog => reader.parser = Box::new(iolog::Parser::new(spec.time_unit)),
            Format::Msr => reader.parser = Box::new(msr::Parser::new()),
            Format::Calls => return Err(calls(&reader.file)),
            Format::Auto | Format::Blkparse => {}
        }
        Ok(reader)
    }

    /// Tells the format by the first line that is not blank.
    fn detect(&mut self) -> Result<Format> {
        if !self.read_line()? {
            let detail =
                "the trace is empty; expected fio's iolog, the CSV of MSR Cambridge, or blkparse's text".to_string();
            return Err(WorkloadError::Input { path: self.file.clone(), detail, source: None });
        }
        self.pending = true;
        let line = String::from_utf8_lossy(&self.buffer);
        let first = line.split_whitespace().next().unwrap_or("");
        if line.as_bytes().starts_with(MAGIC) {
            Ok(Format::Calls)
        } else if line.trim_start().starts_with("fio version") {
            Ok(Format::Iolog)
        } else if line.matches(',').count() == 6 {
            Ok(Format::Msr)
        } else if blkparse::device(first).is_some() {
            Ok(Format::Blkparse)
        } else {
            let found = format!("\"{}\" begins no known format", shortened(&line));
            let expected = "\"fio version 2 iolog\", a line of 7 fields with commas (MSR Cambridge), or a blkparse line such as \
                            \"8,0 3 1 0.000000000 697 Q W 223490 + 8 [name]\"; or give format=iolog, msr or blkparse";
            Err(self.malformed(Malformed { found, expected }))
        }
    }

    fn malformed(&self, malformed: Malformed) -> WorkloadError {
        let Malformed { found, expected } = malformed;
        WorkloadError::Trace { file: self.file.clone(), line: self.line, found, expected: expected.to_string() }
    }

    /// Reads the next line that is not blank into the buffer; false at the end.
    fn read_line(&mut self) -> Result<bool> {
        let mut blank = 0;
        loop {
            self.buffer.clear();
            let mut limited = (&mut self.input).take(LINE_MAX);
            let read = limited.read_until(b'\n', &mut self.buffer).map_err(|source| unreadable(&self.file, source))?;
            if read == 0 {
                return Ok(false);
            }
            self.line += 1;
            if self.line == 1 && self.buffer.starts_with(BYTE_ORDER_MARK) {
                self.buffer.drain(..BYTE_ORDER_MARK.len());
            }
            if read as u64 == LINE_MAX && self.buffer.last() != Some(&b'\n') {
                let found = format!("\"{}\" goes on", shortened(&String::from_utf8_lossy(&self.buffer)));
                return Err(self.malformed(Malformed { found, expected: "lines of less than 4096 bytes" }));
            }
            if !self.buffer.trim_ascii().is_empty() {
                return Ok(true);
            }
            blank += read as u64;
            if blank > BLANK_MAX {
                let found = format!("more than {BLANK_MAX} bytes of blank lines");
                return Err(self.malformed(Malformed { found, expected: "operations" }));
            }
        }
    }

    /// The next operation; `None` at the end.
    pub fn next_operation(&mut self) -> Result<Option<TraceOperation>> {
        self.next_unless(&|| false)
    }

    /// The same, unless `stop` says so in between: then [`WorkloadError::Cancelled`].
    pub(super) fn next_unless(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<TraceOperation>> {
        while !self.over {
            self.lines_unasked += 1;
            if self.lines_unasked >= LINES_PER_QUESTION {
                self.lines_unasked = 0;
                if stop() {
                    return Err(WorkloadError::Cancelled { operations: 0 });
                }
            }
            if !std::mem::take(&mut self.pending) && !self.read_line()? {
                break;
            }
            let text = String::from_utf8_lossy(&self.buffer);
            let outcome = self.parser.parse(text.trim()).and_then(|line| checked_time(line, &text));
            let parsed = match outcome {
                Ok(Line::Nothing) => continue,
                Ok(Line::End) => break,
                Ok(Line::Operation(parsed)) => parsed,
                Err(malformed) => return Err(self.malformed(malformed)),
            };
            // Traces are nearly in order of time; an earlier stamp counts as now.
            self.last = self.last.max(parsed.time);
            let known = self.names.iter().position(|name| name == parsed.name);
            let name = known.unwrap_or(self.names.len());
            if known.is_none() {
                if name >= NAMES_MAX {
                    let found = format!("more than {NAMES_MAX} names");
                    let expected = "a trace of fewer files";
                    return Err(self.malformed(Malformed { found, expected }));
                }
                self.names.push(parsed.name.to_string());
            }
            return Ok(Some(TraceOperation {
                name: name as u32,
                kind: parsed.kind,
                offset: parsed.offset,
                length: parsed.length,
                time: self.last,
                line: self.line,
            }));
        }
        self.over = true;
        Ok(None)
    }
}

/// How many files or disks a trace may name.
const NAMES_MAX: usize = 4096;

/// What looking through a trace tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceSummary {
    /// The names with the greatest end of an operation on them.
    pub names: Vec<(String, u64)>,
    /// Operations, at most as many as are to be replayed.
    pub operations: u64,
}

impl TraceSummary {
    /// Looks through a trace, unless `stop` says so in between: then [`WorkloadError::Cancelled`].
    pub fn of(spec: &Trace, mut reader: TraceReader, stop: &dyn Fn() -> bool) -> Result<Self> {
        let mut summary = Self::default();
        let most = if spec.operations == 0 { u64::MAX } else { spec.operations };
        while summary.operations < most {
            let Some(operation) = reader.next_unless(stop)? else { break };
            summary.operations += 1;
            let index = operation.name as usize;
            if index >= summary.names.len() {
                summary.names.resize(index + 1, (String::new(), 0));
            }
            if let Some((_, end)) = summary.names.get_mut(index) {
                *end = (*end).max(operation.offset.saturating_add(operation.length));
            }
        }
        for (entry, name) in summary.names.iter_mut().zip(reader.names) {
            entry.0 = name;
        }
        if summary.operations == 0 {
            let detail = "holds no operation to replay (a blkparse trace may have only action=d)".to_string();
            return Err(WorkloadError::Input { path: spec.file.clone(), detail, source: None });
        }
        Ok(summary)
    }
}

/// What a recording of files is where a trace of blocks is wanted.
fn calls(file: &str) -> WorkloadError {
    let detail = "holds calls of files, which run on file systems; expected a stack that has one, as jffs2".to_string();
    WorkloadError::Input { path: file.to_string(), detail, source: None }
}

pub(crate) fn unreadable(file: &str, source: std::io::Error) -> WorkloadError {
    WorkloadError::Input { path: file.to_string(), detail: format!("cannot be read: {source}"), source: Some(source) }
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

/// Decompresses by the first bytes: gzip 1f 8b (RFC 1952), zstd 28 b5 2f fd (RFC 8878).
pub(crate) fn decompressed(mut input: Box<dyn Read + Send>) -> std::io::Result<Box<dyn BufRead + Send>> {
    let mut magic = Vec::new();
    input.by_ref().take(4).read_to_end(&mut magic)?;
    let is_gzip = magic.starts_with(&[0x1F, 0x8B]);
    let is_zstd = magic == [0x28, 0xB5, 0x2F, 0xFD];
    let whole = Cursor::new(magic).chain(input);
    Ok(if is_gzip {
        Box::new(BufReader::new(flate2::read::MultiGzDecoder::new(whole)))
    } else if is_zstd {
        Box::new(BufReader::new(zstd::stream::read::Decoder::new(whole)?))
    } else {
        Box::new(BufReader::new(whole))
    })
}
