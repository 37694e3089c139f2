//! SPC trace files (SPC Trace File Format Specification 1.0.1; the UMass Trace Repository has
//! some): `ASU,LBA,Size,Opcode,Timestamp`, and optional fields, which are not used.
//!
//! The LBA counts blocks of 512 bytes, the size is in bytes, the opcode is R or W in either case,
//! and the time stamp is in seconds with a fraction. Each application storage unit (ASU) is a name
//! of its own.

use nandkit_units::Nanos;

use super::fields::{Grammar, SECTOR, Separator, SinceFirst, is_word, range};
use super::grammar::{Format, Line, LineParser, Malformed, Parsed, TraceFormat};

const GRAMMAR: Grammar<5> = Grammar {
    separator: Separator::Comma,
    fields: ["ASU", "LBA", "size", "opcode", "timestamp"],
    open: true,
    heading: "",
    expected: "SPC's ASU,LBA,SIZE,R|W,TIMESTAMP (LBA in blocks of 512 bytes, size in bytes, time in seconds)",
};

/// The table's entry.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    format: Format::Spc,
    key: "spc",
    label: "SPC",
    line: "\"0,20941264,8192,W,0.551706\" (SPC)",
    resembles: |line| GRAMMAR.resembles(line, |fields| fields[3].len() == 1 && is_word(fields[3])),
    parser: |_| Box::new(Parser { first: SinceFirst::new() }),
};

/// Reads the lines.
#[derive(Debug)]
struct Parser {
    first: SinceFirst,
}

impl LineParser for Parser {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Malformed> {
        let [asu, lba, size, opcode, stamp] = GRAMMAR.split(line)?;
        asu.number()?;
        let (offset, length) = range((&lba, SECTOR), (&size, 1))?;
        let kind = opcode.kind("R", "W")?;
        let time = Nanos(self.first.since(stamp.seconds()?.0));
        Ok(Line::Operation(Parsed { name: asu.text, kind, offset, length, time }))
    }
}
