//! Traces of Tencent's cloud block storage (SNIA IOTTA 28064, README):
//! `Timestamp,Offset,Size,IOType,VolumeID`.
//!
//! The time stamp is in whole seconds, offset and size are in sectors of 512 bytes, and the type is
//! 0 for a read and 1 for a write. Each volume is a name of its own.

use nandkit_units::Nanos;

use super::fields::{Grammar, SECTOR, Separator, SinceFirst, begins_number, range};
use super::grammar::{Format, Line, LineParser, Malformed, Parsed, TraceFormat};

const GRAMMAR: Grammar<5> = Grammar {
    separator: Separator::Comma,
    fields: ["timestamp", "offset", "size", "type", "volume"],
    open: false,
    heading: "Timestamp,Offset,Size,IOType,VolumeID",
    expected: "Tencent's TIMESTAMP,OFFSET,SIZE,TYPE,VOLUME (time in seconds, offset and size in sectors of 512 bytes, \
               type 0 for a read, 1 for a write)",
};

/// The table's entry.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    format: Format::Tencent,
    key: "tencent",
    label: "Tencent's CSV",
    line: "\"1538323200,12910952,128,0,1063\" (Tencent)",
    resembles: |line| GRAMMAR.resembles(line, |fields| begins_number(fields[1]) && begins_number(fields[3])),
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
        let [stamp, offset, size, kind, volume] = GRAMMAR.split(line)?;
        volume.number()?;
        let kind = kind.kind("0", "1")?;
        let (offset, length) = range((&offset, SECTOR), (&size, SECTOR))?;
        let time = Nanos::from_secs(self.first.since(stamp.number()?));
        Ok(Line::Operation(Parsed { name: volume.text, kind, offset, length, time }))
    }
}
