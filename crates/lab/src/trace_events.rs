//! Operations of a chip in the trace-event format, which Perfetto and Chromium open
//! (<https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>): tracks of
//! dies, of channels, and of the layers' causes.

use std::fmt::Write as _;
use std::io::{self, Write};

use nandkit_flash::wrap::{FlashAction, FlashEvent};
use nandkit_units::{BlockIndex, Done, FlashGeometry};

/// Processes of the format are groups of tracks here.
const DIES: u32 = 1;
const CHANNELS: u32 = 2;
const CAUSES: u32 = 3;

/// Events that a file holds at the most; viewers load some hundred megabytes.
pub const EVENTS_MAX: u64 = 1_000_000;

/// Writes operations while they happen.
pub struct TraceEvents<W> {
    out: W,
    geometry: FlashGeometry,
    /// Bus transfer of one byte, in picoseconds.
    bus_ps_per_byte: u64,
    written: u64,
    left_out: u64,
    failed: Option<io::Error>,
    line: String,
}

/// Counts of the operations written and left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEnd {
    /// Operations in the file.
    pub written: u64,
    /// Operations left out after the file was full.
    pub left_out: u64,
}

impl<W: Write> TraceEvents<W> {
    /// Begins the file with the names of the tracks. Errors: the errors of `out`.
    pub fn begin(mut out: W, geometry: FlashGeometry, bus_ps_per_byte: u64) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        let mut named = Vec::new();
        for (process, name) in [(DIES, "dies"), (CHANNELS, "channels"), (CAUSES, "layers, by cause")] {
            named.push(("process_name", process, 0, name.to_string()));
        }
        named.extend((0..geometry.dies).map(|die| ("thread_name", DIES, die, format!("die {die}"))));
        let channels =
            (0..geometry.channels).map(|channel| ("thread_name", CHANNELS, channel, format!("channel {channel}")));
        named.extend(channels);
        for (at, (kind, process, track, name)) in named.into_iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(
                out,
                "{comma}\n{{\"name\":\"{kind}\",\"ph\":\"M\",\"pid\":{process},\"tid\":{track},\"args\":{{\"name\":\"{name}\"}}}}"
            )?;
        }
        Ok(Self { out, geometry, bus_ps_per_byte, written: 0, left_out: 0, failed: None, line: String::new() })
    }

    /// Adds an operation. [`TraceEvents::finish`] returns the first error of writing.
    pub fn add(&mut self, event: &FlashEvent) {
        let Ok(done) = event.result else { return };
        let Some(place) = place(&event.action) else { return };
        if self.written == EVENTS_MAX {
            self.left_out += 1;
            return;
        }
        if self.failed.is_some() {
            return;
        }
        self.line.clear();
        self.describe(event, &done, place);
        self.written += 1;
        self.failed = self.out.write_all(self.line.as_bytes()).err();
    }

    fn describe(&mut self, event: &FlashEvent, done: &Done, (name, block, page, bytes): Described) {
        let cause = event.context.counted_cause();
        let die = self.geometry.die_of(block);
        let (end, busy) = (done.completed.0, done.busy.0);
        let begin = end.saturating_sub(busy);
        let page = page.map_or_else(String::new, |page| format!(",\"page\":{page}"));
        let line = &mut self.line;
        let complete = |line: &mut String, track: (u32, u32), name: &str, (from, to): (u64, u64)| {
            let _ = write!(
                line,
                ",\n{{\"name\":\"{name}\",\"cat\":\"{}\",\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{{\"block\":{}{page},\"bytes\":{bytes}}}}}",
                cause.name(),
                track.0,
                track.1,
                Micros(from),
                Micros(to - from),
                block.0
            );
        };
        complete(line, (DIES, die), name, (begin, end));
        let transfer = (bytes.saturating_mul(self.bus_ps_per_byte) / 1000).min(busy);
        // A read moves its bytes at its end, a program at its beginning.
        let moved = match event.action {
            _ if transfer == 0 => None,
            FlashAction::Read { .. } => Some((end - transfer, end)),
            FlashAction::Program { .. } => Some((begin, begin + transfer)),
            _ => None,
        };
        if let Some(moved) = moved {
            complete(line, (CHANNELS, self.geometry.channel_of(die)), name, moved);
        }
        // From when a layer asked until it was done, waiting included: these overlap, and a viewer
        // puts those of one name on tracks of their own.
        for (phase, at) in [("b", event.context.issued.0), ("e", end)] {
            let _ = write!(
                line,
                ",\n{{\"name\":\"{0}\",\"cat\":\"{0}\",\"ph\":\"{phase}\",\"id\":{1},\"pid\":{CAUSES},\"ts\":{2},\"args\":{{\"operation\":\"{name}\"}}}}",
                cause.name(),
                event.number,
                Micros(at)
            );
        }
    }

    /// Ends the file. Errors: the first error of `out`.
    pub fn finish(mut self) -> io::Result<TraceEnd> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(TraceEnd { written: self.written, left_out: self.left_out })
    }
}

/// Nanoseconds, written in the format's unit.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Name, block, page and bytes of an operation.
type Described = (&'static str, BlockIndex, Option<u32>, u64);

/// Name, block, page and bytes of an operation that occupies a die; `None` for others.
fn place(action: &FlashAction) -> Option<Described> {
    let bytes = |data: u32, oob: u32| u64::from(data) + u64::from(oob);
    match *action {
        FlashAction::Read { at, data_length, oob_length, .. } => {
            Some(("read", at.block, Some(at.page), bytes(data_length, oob_length)))
        }
        FlashAction::Program { at, data_length, oob_length, .. } => {
            Some(("program", at.block, Some(at.page), bytes(data_length, oob_length)))
        }
        FlashAction::Copy { to, .. } => Some(("copy", to.block, Some(to.page), 0)),
        FlashAction::Erase { block } => Some(("erase", block, None, 0)),
        FlashAction::MarkBad { .. } | FlashAction::Sync => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandkit_units::{Context, Nanos, PageAddress};
    use serde_json::Value;

    fn events(adding: impl FnOnce(&mut TraceEvents<&mut Vec<u8>>)) -> (Vec<Value>, TraceEnd) {
        let mut out = Vec::new();
        let geometry = FlashGeometry { dies: 2, channels: 2, blocks: 8, ..FlashGeometry::default() };
        let mut trace = TraceEvents::begin(&mut out, geometry, 25_000).unwrap();
        adding(&mut trace);
        let end = trace.finish().unwrap();
        let whole: Value = serde_json::from_slice(&out).unwrap();
        let all = whole["traceEvents"].as_array().unwrap();
        (all.iter().filter(|event| event["ph"] != "M").cloned().collect(), end)
    }

    fn event(number: u64, action: FlashAction, completed: u64, busy: u64) -> FlashEvent {
        let done = Done { completed: Nanos(completed), busy: Nanos(busy), corrected_bits: 0 };
        FlashEvent { number, action, context: Context::at(Nanos(1_000)), result: Ok(done) }
    }

    #[test]
    fn a_read_is_on_its_die_its_channel_and_its_cause() {
        let read = FlashAction::Read { at: PageAddress::new(3, 7), column: 0, data_length: 2000, oob_length: 0 };
        let (all, end) = events(|trace| trace.add(&event(5, read, 300_500, 200_000)));
        assert_eq!(end, TraceEnd { written: 1, left_out: 0 });
        let span = |event: &Value| (event["pid"].as_u64(), event["ts"].as_f64(), event["dur"].as_f64());
        assert_eq!(span(&all[0]), (Some(1), Some(100.5), Some(200.0)));
        // 2,000 bytes of 25 ns each, at the end.
        assert_eq!(span(&all[1]), (Some(2), Some(250.5), Some(50.0)));
        assert_eq!((all[0]["name"].as_str(), all[0]["args"]["page"].as_u64()), (Some("read"), Some(7)));
        assert_eq!((all[2]["ts"].as_f64(), all[3]["ts"].as_f64()), (Some(1.0), Some(300.5)));
    }

    #[test]
    fn an_erase_moves_nothing_and_a_sync_is_no_operation_of_a_die() {
        let (all, _) = events(|trace| {
            trace.add(&event(0, FlashAction::Sync, 9, 0));
            trace.add(&event(1, FlashAction::Erase { block: BlockIndex(2) }, 2_000_000, 1_500_000));
        });
        assert_eq!(all.iter().map(|event| event["ph"].as_str().unwrap()).collect::<String>(), "Xbe");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let is_event = bytes.starts_with(b",\n{\"name\":\"erase");
                if is_event { Err(io::ErrorKind::StorageFull.into()) } else { Ok(bytes.len()) }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut trace = TraceEvents::begin(Full, FlashGeometry::default(), 0).unwrap();
        trace.add(&event(1, FlashAction::Erase { block: BlockIndex(0) }, 2, 1));
        assert_eq!(trace.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
