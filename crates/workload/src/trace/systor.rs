//! The LUN traces of SYSTOR '17 (SNIA IOTTA 4964): CSV with the headings
//! `Timestamp,Response,IOType,LUN,Offset,Size`.
//!
//! Time stamp and response time are in seconds with a fraction, offset and size in bytes; the
//! response time is not used. Requests that are neither R nor W are skipped, and so are headings
//! after the first line, which occur where the files of several hours were joined. Each LUN is a
//! name of its own.

use nandkit_units::Nanos;

use super::fields::{Grammar, Separator, SinceFirst, is_word, range};
use super::grammar::{Format, Line, LineParser, Malformed, Parsed, TraceFormat};

const GRAMMAR: Grammar<6> = Grammar {
    separator: Separator::Comma,
    fields: ["timestamp", "response time", "type", "LUN", "offset", "size"],
    open: false,
    heading: "Timestamp,Response,IOType,LUN,Offset,Size",
    expected: "SYSTOR '17's TIMESTAMP,RESPONSE,R|W,LUN,OFFSET,SIZE (times in seconds, offset and size in bytes)",
};

/// Whether the text can be the type of a request, such as R or W.
fn is_type(text: &str) -> bool {
    text.is_empty() || is_word(text)
}

/// The table's entry.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    format: Format::Systor,
    key: "systor",
    label: "the CSV of SYSTOR '17",
    line: "\"Timestamp,Response,IOType,LUN,Offset,Size\" (SYSTOR '17)",
    resembles: |line| GRAMMAR.resembles(line, |fields| is_type(fields[2])),
    parser: |_| Box::new(Parser { first: SinceFirst::new() }),
};

/// Reads the lines.
#[derive(Debug)]
struct Parser {
    first: SinceFirst,
}

impl LineParser for Parser {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Malformed> {
        if GRAMMAR.is_heading(line) {
            return Ok(Line::Nothing);
        }
        let [stamp, response, kind, lun, offset, size] = GRAMMAR.split(line)?;
        let stamp = stamp.seconds()?;
        if !response.text.is_empty() {
            response.seconds()?;
        }
        if is_type(kind.text) && !["R", "W"].iter().any(|known| kind.text.eq_ignore_ascii_case(known)) {
            return Ok(Line::Nothing);
        }
        let kind = kind.kind("R", "W")?;
        lun.number()?;
        let (offset, length) = range((&offset, 1), (&size, 1))?;
        let time = Nanos(self.first.since(stamp.0));
        Ok(Line::Operation(Parsed { name: lun.text, kind, offset, length, time }))
    }
}
