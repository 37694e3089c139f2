//! fio's iolog, versions 2 and 3 (fio 3.33, HOWTO section "Trace file format").
//!
//! ```text
//! v2: fio version 2 iolog                    v3: fio version 3 iolog
//!     NAME add|open|close                        TIME NAME add|open|close
//!     NAME read|write|trim OFFSET LENGTH         TIME NAME read|write|trim OFFSET LENGTH
//!     NAME sync|datasync [OFFSET LENGTH]         TIME NAME sync|datasync [OFFSET LENGTH]
//!     NAME wait MICROSECONDS [0]
//! ```
//! `wait` is the time since the wait before. Version 3 has a time stamp on every line instead.

use nandkit_units::Nanos;

use super::grammar::{Format, Line, LineParser, Malformed, Parsed, TimeUnit, TraceFormat, checked_range, shortened};
use crate::operation::BlockOperationKind;

const HEADER: &str = "\"fio version 2 iolog\" or \"fio version 3 iolog\" on the first line";
const VERSION_2: &str = "NAME add|open|close, NAME read|write|trim OFFSET LENGTH, NAME sync|datasync [OFFSET LENGTH], \
                         or NAME wait MICROSECONDS [0]; offset and length in bytes";
const VERSION_3: &str = "TIME NAME add|open|close, TIME NAME read|write|trim OFFSET LENGTH, or TIME NAME sync|datasync \
                         [OFFSET LENGTH]; offset and length in bytes";

/// The beginning of the first line in every version.
const BEGINNING: &str = "fio version";

/// The table's entry.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    format: Format::Iolog,
    key: "iolog",
    label: "fio's iolog",
    line: "\"fio version 2 iolog\" on the first line",
    resembles: |line| line.starts_with(BEGINNING),
    parser: |spec| Box::new(Parser::new(spec.time_unit)),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

/// Reads iologs.
#[derive(Debug)]
pub(super) struct Parser {
    unit: TimeUnit,
    version: Option<Version>,
    now: Nanos,
    first_stamp: Option<u64>,
}

impl Parser {
    pub const fn new(unit: TimeUnit) -> Self {
        Self { unit, version: None, now: Nanos::ZERO, first_stamp: None }
    }
}

impl LineParser for Parser {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Malformed> {
        let mut fields = line.split_whitespace();
        let Some(version) = self.version else {
            self.version = match line {
                "fio version 2 iolog" => Some(Version::Two),
                "fio version 3 iolog" => Some(Version::Three),
                _ => {
                    return Err(Malformed {
                        column: None,
                        found: format!("\"{}\"", shortened(line)),
                        expected: HEADER,
                    });
                }
            };
            return Ok(Line::Nothing);
        };
        let expected = if version == Version::Two { VERSION_2 } else { VERSION_3 };
        let wrong = |what: &str| Malformed { column: None, found: format!("\"{}\" {what}", shortened(line)), expected };
        if version == Version::Three {
            let stamp: u64 =
                fields.next().and_then(|text| text.parse().ok()).ok_or_else(|| wrong("begins with no time"))?;
            let first = *self.first_stamp.get_or_insert(stamp);
            self.now = self.now.max(self.unit.span(stamp.saturating_sub(first), Nanos::from_micros));
        }
        let name = fields.next().ok_or_else(|| wrong("has no name"))?;
        let action = fields.next().ok_or_else(|| wrong("has no action"))?;
        let mut number = || match fields.next() {
            None => Ok(None),
            Some(text) => text.parse::<u64>().map(Some).map_err(|_| wrong(&format!("has {text} for a number"))),
        };
        let (first, second, third) = (number()?, number()?, number()?);
        if third.is_some() || fields.next().is_some() {
            return Err(wrong("has too many fields"));
        }
        let kind = match (action, first, second) {
            ("add" | "open" | "close", None, None) => return Ok(Line::Nothing),
            ("wait", Some(wait), _) if version == Version::Two => {
                self.now += Nanos::from_micros(wait);
                return Ok(Line::Nothing);
            }
            ("sync" | "datasync", _, _) => {
                let kind = BlockOperationKind::Flush;
                return Ok(Line::Operation(Parsed { name, kind, offset: 0, length: 0, time: self.now }));
            }
            ("read", Some(_), Some(_)) => BlockOperationKind::Read,
            ("write", Some(_), Some(_)) => BlockOperationKind::Write,
            ("trim", Some(_), Some(_)) => BlockOperationKind::Trim,
            ("read" | "write" | "trim", _, _) => return Err(wrong("lacks offset or length")),
            ("add" | "open" | "close", _, _) => return Err(wrong("has too many fields")),
            _ => return Err(wrong(&format!("has the unknown action {action}"))),
        };
        let (offset, length) = (first.unwrap_or(0), second.unwrap_or(0));
        checked_range(offset, length, expected)?;
        Ok(Line::Operation(Parsed { name, kind, offset, length, time: self.now }))
    }
}
