//! ASCII traces of MQSim (umn-cris/MQSim, traces/README.md; CMU-SAFARI/MQSim):
//! `arrival_time device LBA sectors type`, separated by blanks.
//!
//! LBA and length are in sectors of 512 bytes; type 0 is a write and 1 a read. The unit of time is
//! not in the trace but in MQSim's workload file, whose examples use nanoseconds; the parameter
//! `time_unit` selects another. Each device is a name of its own.

use nandkit_units::Nanos;

use super::fields::{Grammar, SECTOR, Separator, SinceFirst, begins_number, range};
use super::grammar::{Format, Line, LineParser, Malformed, Parsed, TimeUnit, TraceFormat};

const GRAMMAR: Grammar<5> = Grammar {
    separator: Separator::Blanks,
    fields: ["arrival time", "device", "LBA", "number of sectors", "type"],
    open: false,
    heading: "",
    expected: "MQSim's \"TIME DEVICE LBA SECTORS TYPE\" (sectors of 512 bytes, type 0 for a write, 1 for a read)",
};

/// The table's entry.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    format: Format::Mqsim,
    key: "mqsim",
    label: "MQSim's text",
    line: "\"4851300 1 524288 16 0\" (MQSim)",
    resembles: |line| GRAMMAR.resembles(line, |fields| begins_number(fields[0]) && !fields[0].contains(',')),
    parser: |spec| Box::new(Parser { first: SinceFirst::new(), unit: spec.time_unit }),
};

/// Reads the lines.
#[derive(Debug)]
struct Parser {
    first: SinceFirst,
    unit: TimeUnit,
}

impl LineParser for Parser {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Malformed> {
        let [stamp, device, lba, sectors, kind] = GRAMMAR.split(line)?;
        device.number()?;
        let stamp = stamp.number()?;
        let kind = kind.kind("1", "0")?;
        let (offset, length) = range((&lba, SECTOR), (&sectors, SECTOR))?;
        let time = self.unit.span(self.first.since(stamp), Nanos);
        Ok(Line::Operation(Parsed { name: device.text, kind, offset, length, time }))
    }
}
