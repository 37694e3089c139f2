//! Reads a trace line by line: decompression, recognition of the format, line numbers.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Cursor, Read};

use nandkit_units::Nanos;

use super::grammar::{Format, Line, LineParser, Malformed, Parsed, shortened};
use super::only::OnlyName;
use super::{Trace, formats};
use crate::error::{Result, WorkloadError};
use crate::operation::BlockOperationKind;

/// Longest line; the formats need a few hundred bytes.
const LINE_MAX: u64 = 4096;

/// Most bytes of blank lines in a row. No recorder writes any; a small compressed file may hold
/// them by the gigabyte.
const BLANK_MAX: u64 = 1 << 20;

/// How many lines pass between two questions whether to stop.
const LINES_PER_QUESTION: u32 = 1024;

/// One operation of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOperation {
    /// Which of the trace's names (files, disks), counted from 0 in the order of their first
    /// operation.
    pub name: u32,
    /// What to do; a flush has no place.
    pub kind: BlockOperationKind,
    /// First byte.
    pub offset: u64,
    /// Bytes, at most 4 GiB.
    pub length: u64,
    /// Instant, counted from the trace's start, with `only` from its first operation; never before
    /// that of the operation before.
    pub time: Nanos,
    /// The line, from 1.
    pub line: u64,
}

/// Latest instant of an operation, counted from the first: a century. Behind it simulated time
/// would end.
pub(crate) const LATEST: Nanos = Nanos(100 * 366 * 86_400 * 1_000_000_000);

/// The byte order mark that some editors put before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

fn checked_time<'a>(line: Line<'a>, text: &str) -> std::result::Result<Line<'a>, Malformed> {
    match line {
        Line::Operation(Parsed { time, .. }) if time > LATEST => {
            let found = format!("\"{}\" is more than a century after the first operation", shortened(text));
            Err(Malformed { column: None, found, expected: "time stamps of one clock" })
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
    /// Lines with their numbers that are still to be parsed: the format was found from them.
    ahead: VecDeque<(u64, Vec<u8>)>,
    /// The error of reading on after the lines in `ahead`.
    deferred: Option<WorkloadError>,
    only: OnlyName,
    names: Names,
    /// With `only`, a few of the names that it leaves out, for a message.
    left_out: Vec<String>,
    last: Nanos,
    /// With `only`, the instant of the first operation on that name, from which its time counts.
    origin: Option<Nanos>,
    over: bool,
    /// Lines read since `stop` was last asked.
    lines_unasked: u32,
}

impl TraceReader {
    /// Begins to read; `file` is for messages.
    pub fn new(spec: &Trace, input: Box<dyn Read + Send>) -> Result<Self> {
        let file = spec.file.clone();
        let input = decompressed(input).map_err(|source| unreadable(&file, source))?;
        let mut reader = Self {
            file,
            input,
            parser: Box::new(NoParser),
            buffer: Vec::new(),
            line: 0,
            ahead: VecDeque::new(),
            deferred: None,
            only: spec.only.clone(),
            names: Names::default(),
            left_out: Vec::new(),
            last: Nanos::ZERO,
            origin: None,
            over: false,
            lines_unasked: 0,
        };
        let format = match spec.format {
            Format::Auto => reader.detect(spec)?,
            format => format,
        };
        reader.parser = formats::parser(format, spec).ok_or_else(|| calls(&reader.file))?;
        Ok(reader)
    }

    /// Finds the format from the first lines that are not blank, which stay to be parsed.
    fn detect(&mut self, spec: &Trace) -> Result<Format> {
        if !self.read_line()? {
            let detail = format!("the trace is empty; expected {}", formats::labels());
            return Err(WorkloadError::Input { path: self.file.clone(), detail, source: None });
        }
        let first = (self.line, std::mem::take(&mut self.buffer));
        let decisive = formats::told_by_first_line(&String::from_utf8_lossy(&first.1));
        self.ahead.push_back(first);
        if let Some(format) = decisive {
            return Ok(format);
        }
        self.look_ahead();
        let lines: Vec<_> = self.ahead.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes)).collect();
        let texts: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        let detected = formats::detect(&texts, spec);
        self.line = self.ahead.front().map_or(self.line, |(line, _)| *line);
        detected.map_err(|(found, expected)| WorkloadError::Trace {
            file: self.file.clone(),
            line: self.line,
            found,
            expected,
        })
    }

    /// Reads lines by which the format is found. An error waits until the lines before it are
    /// parsed.
    fn look_ahead(&mut self) {
        while self.ahead.len() < formats::LINES {
            match self.read_line() {
                Ok(true) => self.ahead.push_back((self.line, std::mem::take(&mut self.buffer))),
                Ok(false) => break,
                Err(error) => {
                    self.deferred = Some(error);
                    break;
                }
            }
        }
    }

    /// Brings the next line that is not blank into the buffer; false at the end.
    fn next_line(&mut self) -> Result<bool> {
        if let Some((line, bytes)) = self.ahead.pop_front() {
            (self.line, self.buffer) = (line, bytes);
            return Ok(true);
        }
        match self.deferred.take() {
            Some(error) => Err(error),
            None => self.read_line(),
        }
    }

    fn malformed(&self, malformed: Malformed) -> WorkloadError {
        let Malformed { column, found, expected } = malformed;
        let found = match column {
            Some(column) => format!("column {}: {found}", column + self.indentation()),
            None => found,
        };
        WorkloadError::Trace { file: self.file.clone(), line: self.line, found, expected: expected.to_string() }
    }

    /// Characters before the text of the line in the buffer: parsers are not given them.
    fn indentation(&self) -> usize {
        let text = String::from_utf8_lossy(&self.buffer);
        text.chars().take_while(|character| character.is_whitespace()).count()
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
                return Err(self.malformed(Malformed {
                    column: None,
                    found,
                    expected: "lines of less than 4096 bytes",
                }));
            }
            if !self.buffer.trim_ascii().is_empty() {
                return Ok(true);
            }
            blank += read as u64;
            if blank > BLANK_MAX {
                let found = format!("more than {BLANK_MAX} bytes of blank lines");
                return Err(self.malformed(Malformed { column: None, found, expected: "operations" }));
            }
        }
    }

    /// The next operation; `None` at the end.
    pub fn next_operation(&mut self) -> Result<Option<TraceOperation>> {
        self.next_unless(&|| false)
    }

    /// The next operation; `None` at the end. Errors: [`WorkloadError::Cancelled`] if `stop` says
    /// so in between.
    pub(super) fn next_unless(&mut self, stop: &dyn Fn() -> bool) -> Result<Option<TraceOperation>> {
        while !self.over {
            self.lines_unasked += 1;
            if self.lines_unasked >= LINES_PER_QUESTION {
                self.lines_unasked = 0;
                if stop() {
                    return Err(WorkloadError::Cancelled { operations: 0 });
                }
            }
            if !self.next_line()? {
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
            if !self.only.takes(parsed.name) {
                if self.left_out.len() < LEFT_OUT_MAX {
                    let name = shortened(parsed.name);
                    if !self.left_out.contains(&name) {
                        self.left_out.push(name);
                    }
                }
                continue;
            }
            let origin = *self.origin.get_or_insert(if self.only.is_all() { Nanos::ZERO } else { self.last });
            let Parsed { kind, offset, length, .. } = parsed;
            let Some(name) = self.names.number_of(parsed.name) else {
                let found = format!("more than {NAMES_MAX} names");
                let expected = "a trace of fewer files or disks, or only=NAME for one of them";
                return Err(self.malformed(Malformed { column: None, found, expected }));
            };
            let time = self.last.since(origin);
            return Ok(Some(TraceOperation { name, kind, offset, length, time, line: self.line }));
        }
        self.over = true;
        Ok(None)
    }
}

/// How many files or disks a trace may name. Tencent's has 5584 volumes.
const NAMES_MAX: usize = 8192;

/// Most names left out by `only` that a message tells.
const LEFT_OUT_MAX: usize = 8;

/// The trace's names, in the order of their first operation.
#[derive(Default)]
struct Names {
    numbers: BTreeMap<String, u32>,
    in_order: Vec<String>,
}

impl Names {
    /// The name's number, a new one for a new name; `None` where there are too many.
    fn number_of(&mut self, name: &str) -> Option<u32> {
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        let number = u32::try_from(self.in_order.len()).ok().filter(|number| (*number as usize) < NAMES_MAX)?;
        self.numbers.insert(name.to_string(), number);
        self.in_order.push(name.to_string());
        Some(number)
    }
}

/// Stands in until the format is known.
struct NoParser;

impl LineParser for NoParser {
    fn parse<'a>(&mut self, _: &'a str) -> std::result::Result<Line<'a>, Malformed> {
        Ok(Line::End)
    }
}

/// The summary of a trace that was read through.
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
        for (entry, name) in summary.names.iter_mut().zip(reader.names.in_order) {
            entry.0 = name;
        }
        if summary.operations == 0 && !reader.left_out.is_empty() {
            let more = if reader.left_out.len() < LEFT_OUT_MAX { "" } else { ", and perhaps others" };
            let (only, known) = (&reader.only, reader.left_out.join("; "));
            let detail = format!("holds no operation on {only}; expected for only: {known}{more}");
            return Err(WorkloadError::Input { path: spec.file.clone(), detail, source: None });
        }
        if summary.operations == 0 {
            let detail = "holds no operation to replay (a blkparse trace may have only action=d)".to_string();
            return Err(WorkloadError::Input { path: spec.file.clone(), detail, source: None });
        }
        Ok(summary)
    }
}

/// The error for a recording of calls of files where a trace of blocks is wanted.
fn calls(file: &str) -> WorkloadError {
    let detail = "holds calls of files, which run on file systems; expected a stack that has one, as jffs2".to_string();
    WorkloadError::Input { path: file.to_string(), detail, source: None }
}

pub(crate) fn unreadable(file: &str, source: std::io::Error) -> WorkloadError {
    WorkloadError::Input { path: file.to_string(), detail: format!("cannot be read: {source}"), source: Some(source) }
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
