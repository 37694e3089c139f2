//! The CSV of the MSR Cambridge traces (SNIA IOTTA 388):
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! The time stamp is a Windows file time (100 ns since 1601), offset and size are bytes. The
//! response time is not used. A host's disk is a name of its own: `host,disk`.

use nandkit_units::Nanos;

use super::grammar::{Format, Line, LineParser, Malformed, Parsed, TraceFormat, checked_range, shortened};
use crate::operation::BlockOperationKind;

const GRAMMAR: &str =
    "Timestamp,Hostname,DiskNumber,Read|Write,Offset,Size,ResponseTime (time in 100 ns, offset and size in bytes)";

/// The table's entry.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    format: Format::Msr,
    key: "msr",
    label: "the CSV of MSR Cambridge",
    line: "7 fields with commas (MSR Cambridge)",
    resembles: |line| line.matches(',').count() == 6,
    parser: |_| Box::new(Parser::new()),
};

/// Reads the CSV.
#[derive(Debug)]
pub(super) struct Parser {
    first: Option<u64>,
    lines: u64,
}

impl Parser {
    pub const fn new() -> Self {
        Self { first: None, lines: 0 }
    }
}

impl LineParser for Parser {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Malformed> {
        let wrong = |what: &str| Malformed {
            column: None,
            found: format!("\"{}\" {what}", shortened(line)),
            expected: GRAMMAR,
        };
        self.lines += 1;
        let fields: Vec<&str> = line.splitn(8, ',').map(str::trim).collect();
        let [stamp, host, disk, kind, offset, size, response] = fields[..] else {
            return Err(wrong(&format!("has not 7 fields but {}", line.split(',').count())));
        };
        // Some copies carry a line of headings.
        if self.lines == 1 && stamp.eq_ignore_ascii_case("timestamp") {
            return Ok(Line::Nothing);
        }
        let number = |text: &str, what: &str| {
            text.parse::<u64>().map_err(|_| wrong(&format!("has \"{}\" for the {what}", shortened(text))))
        };
        let stamp = number(stamp, "time stamp")?;
        number(disk, "number of the disk")?;
        number(response, "response time")?;
        let (offset, length) = (number(offset, "offset")?, number(size, "size")?);
        let kind = if kind.eq_ignore_ascii_case("read") {
            BlockOperationKind::Read
        } else if kind.eq_ignore_ascii_case("write") {
            BlockOperationKind::Write
        } else {
            return Err(wrong(&format!("has the unknown type {kind}")));
        };
        checked_range(offset, length, GRAMMAR)?;
        let first = *self.first.get_or_insert(stamp);
        let time = Nanos(stamp.saturating_sub(first).saturating_mul(100));
        // The name is the part of the line that holds host and disk.
        let start = line.find(',').map_or(0, |comma| comma + 1);
        let end = line.match_indices(',').nth(2).map_or(line.len(), |(comma, _)| comma);
        let name = line.get(start..end).unwrap_or(host);
        Ok(Line::Operation(Parsed { name, kind, offset, length, time }))
    }
}
