//! Alibaba's block traces (alibaba/block-traces, README):
//! `device_id,opcode,offset,length,timestamp`.
//!
//! The opcode is R or W, offset and length are in bytes, and the time stamp is in microseconds.
//! Each device is a name of its own.

use nandkit_units::Nanos;

use super::fields::{Grammar, Separator, SinceFirst, is_word, range};
use super::grammar::{Format, Line, LineParser, Malformed, Parsed, TraceFormat};

const GRAMMAR: Grammar<5> = Grammar {
    separator: Separator::Comma,
    fields: ["device", "opcode", "offset", "length", "timestamp"],
    open: false,
    heading: "device_id,opcode,offset,length,timestamp",
    expected: "Alibaba's DEVICE,R|W,OFFSET,LENGTH,TIMESTAMP (offset and length in bytes, time in microseconds)",
};

/// The table's entry.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    format: Format::Alibaba,
    key: "alibaba",
    label: "Alibaba's CSV",
    line: "\"419,W,8192,4096,1577808144360767\" (Alibaba)",
    resembles: |line| GRAMMAR.resembles(line, |fields| is_word(fields[1])),
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
        let [device, opcode, offset, length, stamp] = GRAMMAR.split(line)?;
        device.number()?;
        let kind = opcode.kind("R", "W")?;
        let (offset, length) = range((&offset, 1), (&length, 1))?;
        let time = Nanos::from_micros(self.first.since(stamp.number()?));
        Ok(Line::Operation(Parsed { name: device.text, kind, offset, length, time }))
    }
}
