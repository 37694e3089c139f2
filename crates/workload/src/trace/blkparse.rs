//! The default text of blkparse (blkparse(1), section "Default output"):
//! `MAJOR,MINOR CPU SEQUENCE SECONDS.NANOSECONDS PID ACTION RWBS SECTOR + SECTORS [NAME]`, sectors
//! of 512 bytes.
//!
//! A request has several events on its way; one of them is replayed, Q (queued) unless another is
//! asked for. The summary at the end is skipped.

use nandkit_units::Nanos;

use super::grammar::{Format, Line, LineParser, Malformed, Parsed, TraceFormat, checked_range, shortened};
use crate::operation::BlockOperationKind;
use crate::parameters::choices;

choices! {
    /// Which event of a request is replayed.
    pub enum Action {
        /// Q: the block layer has received the request.
        Queued = "q",
        /// D: the request, perhaps merged with others, was given to the driver.
        Issued = "d",
    }
}

const GRAMMAR: &str = "MAJOR,MINOR CPU SEQUENCE SECONDS.NANOSECONDS PID ACTION RWBS SECTOR + SECTORS [NAME], for example \
                       \"8,0 3 1 0.000000000 697 Q W 223490 + 8 [kjournald]\"";

/// The table's entry.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    format: Format::Blkparse,
    key: "blkparse",
    label: "blkparse's text",
    line: "\"8,0 3 1 0.000000000 697 Q W 223490 + 8 [name]\" (blkparse)",
    resembles: |line| line.split_whitespace().next().and_then(device).is_some(),
    parser: |spec| Box::new(Parser::new(spec.action)),
};

/// Whether the text is a device: `MAJOR,MINOR`.
pub(super) fn device(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(',')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Seconds with a fraction of up to 9 digits.
fn instant(text: &str) -> Option<Nanos> {
    let (seconds, fraction) = text.split_once('.')?;
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    Some(Nanos::from_secs(seconds.parse().ok()?) + Nanos(fraction.parse::<u64>().ok()? * scale))
}

/// Reads blkparse's text.
#[derive(Debug)]
pub(super) struct Parser {
    action: Action,
    first: Option<Nanos>,
}

impl Parser {
    pub const fn new(action: Action) -> Self {
        Self { action, first: None }
    }
}

/// The operation that the RWBS field asks for; `None` for requests that move no data (N and
/// others).
fn kind_of(rwbs: &str, sectors: u64) -> Option<BlockOperationKind> {
    let letters = rwbs.bytes();
    if letters.clone().any(|letter| letter == b'D') {
        Some(BlockOperationKind::Trim)
    } else if rwbs.starts_with('F') && sectors == 0 {
        Some(BlockOperationKind::Flush)
    } else if letters.clone().any(|letter| letter == b'W') {
        Some(BlockOperationKind::Write)
    } else if letters.clone().any(|letter| letter == b'R') {
        Some(BlockOperationKind::Read)
    } else {
        None
    }
}

impl LineParser for Parser {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Malformed> {
        let wrong = |what: &str| Malformed {
            column: None,
            found: format!("\"{}\" {what}", shortened(line)),
            expected: GRAMMAR,
        };
        if line.starts_with("CPU") || line.starts_with("Total (") || line.starts_with("Throughput ") {
            return Ok(Line::End);
        }
        let mut fields = line.split_whitespace();
        let mut next = |what: &'static str| fields.next().ok_or_else(|| wrong(&format!("ends before the {what}")));
        let name = next("device")?;
        if device(name).is_none() {
            return Err(wrong("begins with no device"));
        }
        next("CPU")?.parse::<u32>().map_err(|_| wrong("has no number of a CPU"))?;
        next("sequence number")?.parse::<u64>().map_err(|_| wrong("has no sequence number"))?;
        let time = instant(next("time")?).ok_or_else(|| wrong("has no time in seconds with a fraction"))?;
        next("process")?.parse::<i64>().map_err(|_| wrong("has no number of a process"))?;
        let action = next("action")?;
        let counts = match self.action {
            Action::Queued => action == "Q",
            Action::Issued => action == "D",
        };
        if !counts {
            return Ok(Line::Nothing);
        }
        let rwbs = next("RWBS")?;
        let Some(sector) = fields.next() else {
            // A flush may have no sector.
            if kind_of(rwbs, 0) == Some(BlockOperationKind::Flush) {
                let kind = BlockOperationKind::Flush;
                return Ok(Line::Operation(Parsed { name, kind, offset: 0, length: 0, time: self.since_first(time) }));
            }
            return Err(wrong("ends before the sector"));
        };
        let (plus, sectors) = (fields.next(), fields.next());
        if plus != Some("+") {
            // Requests that do not read or write sectors have a number of bytes and the command, or
            // only the process.
            let is_command = plus.is_some_and(|text| text.starts_with('(')) || sector.starts_with('[');
            if is_command && kind_of(rwbs, 0) == Some(BlockOperationKind::Flush) {
                let kind = BlockOperationKind::Flush;
                return Ok(Line::Operation(Parsed { name, kind, offset: 0, length: 0, time: self.since_first(time) }));
            }
            return if is_command { Ok(Line::Nothing) } else { Err(wrong("has no \"+\" behind the sector")) };
        }
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number <= 1 << 53);
        let sector = number(sector).ok_or_else(|| wrong("has no number of a sector"))?;
        let sectors = sectors.and_then(number).ok_or_else(|| wrong("has no number of sectors behind the \"+\""))?;
        let Some(kind) = kind_of(rwbs, sectors) else { return Ok(Line::Nothing) };
        let (offset, length) = if kind == BlockOperationKind::Flush { (0, 0) } else { (sector * 512, sectors * 512) };
        checked_range(offset, length, GRAMMAR)?;
        Ok(Line::Operation(Parsed { name, kind, offset, length, time: self.since_first(time) }))
    }
}

impl Parser {
    fn since_first(&mut self, time: Nanos) -> Nanos {
        time.since(*self.first.get_or_insert(time))
    }
}
