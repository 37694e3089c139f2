//! What a memory card is, and where each figure comes from.
//!
//! A spec is read from TOML: see `docs/guide/cards.md`. The `[sources]` table says for each figure
//! (`"timing.command_ns"`) or for a whole section (`"timing"`) where it comes from, or that it is
//! an assumption.

use std::collections::BTreeMap;

use nandkit_units::Nanos;
use serde::{Deserialize, Serialize};

use super::curve::Curve;
use crate::BlockGeometry;

/// A memory card as its host sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CardSpec {
    /// Short name, as presets are called by.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Sizes.
    pub geometry: CardGeometry,
    /// The card's times by request size.
    pub curves: CurveSpec,
    /// Times that do not depend on the card's memory.
    pub timing: CardTiming,
    /// The units in which the card recycles, and how many of them it writes at a time.
    pub open_units: OpenUnitSpec,
    /// Where each figure comes from: keyed by figure (`"timing.command_ns"`) or by section
    /// (`"timing"`); the word `assumption` begins a text where there is no source.
    pub sources: BTreeMap<String, String>,
}

/// Sizes of a card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CardGeometry {
    /// Bytes of the card. Only devices made for the card alone have this size; [`super::Card`] over
    /// another device has that device's.
    pub capacity: u64,
    /// Bytes of a sector; 512 on every SD card.
    pub sector_size: u32,
    /// Bytes that the card programs at once: what it writes without reading first. A power of two.
    pub page_size: u32,
}

impl Default for CardGeometry {
    fn default() -> Self {
        Self { capacity: 1 << 30, sector_size: 512, page_size: 16_384 }
    }
}

/// The card's time for one request by its size in bytes, in nanoseconds, without command and
/// merges.
///
/// A read is sequential where it begins at the end of the last read; a write, where it begins at
/// the point up to which an open unit has been written, or at the start of a unit that is not open.
/// Every other one is random.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CurveSpec {
    /// Reads that go on where the last one ended.
    pub read_sequential: Curve,
    /// Other reads.
    pub read_random: Curve,
    /// Writes that go on in an open unit.
    pub write_sequential: Curve,
    /// Other writes, once their unit is open.
    pub write_random: Curve,
}

/// Times that do not depend on the card's memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CardTiming {
    /// Added to each request: command, answer, firmware. 0 where the curves hold it.
    pub command_ns: u64,
    /// Bus transfer of one byte, in picoseconds: no request is faster than its bytes on the bus. 0
    /// for no limit.
    pub bus_ps_per_byte: u64,
    /// Time of one trim besides the command, whatever its length.
    pub trim_ns: u64,
}

/// Allocation units (SD Physical Layer Specification, 4.13.1.1): the card writes a few of them at a
/// time, and merges what it closes.
///
/// A write into a unit that is not open opens it. Where `count` are open already, the one written
/// longest ago is closed first. That is free where it was written in order from its start to its
/// end; costs the part of `merge_ns` that the bytes not written since it was opened are of the
/// unit, where it was written upwards, as these are copied; and `merge_ns` where something was
/// written below what had been written before. A unit that has been written whole in order is
/// closed at once. These are the switch, the partial and the full merge of log-block translation
/// layers (P4; Kim et al., IEEE Trans. Consumer Electronics 48(2), 2002). Arnd Bergmann,
/// "Optimizing Linux with cheap flash drives" (lwn.net/Articles/428584), tells how cards behave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OpenUnitSpec {
    /// Bytes of a unit.
    pub size: u64,
    /// How many units are open at most.
    pub count: u32,
    /// Time of copying a whole unit and erasing the old one. 0 where closing costs nothing.
    pub merge_ns: u64,
}

impl Default for OpenUnitSpec {
    fn default() -> Self {
        Self { size: 4 << 20, count: 1, merge_ns: 0 }
    }
}

/// Whether a request goes on where another one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// It does.
    Sequential,
    /// It begins elsewhere.
    Random,
}

impl CardSpec {
    /// The shape of a device that is this card and nothing else: whole sectors of its capacity.
    pub fn geometry(&self) -> BlockGeometry {
        let CardGeometry { capacity, sector_size, page_size } = self.geometry;
        BlockGeometry {
            sector_size,
            sectors: capacity / u64::from(sector_size.max(1)),
            preferred_size: page_size.max(sector_size),
            recycling_size: self.open_units.size,
        }
    }

    /// `Tr(n)`: the time of a read of this many bytes, from command to last byte, on a card that
    /// has nothing else to do.
    pub fn read_time(&self, pattern: Pattern, bytes: u64) -> Nanos {
        self.request_time(
            match pattern {
                Pattern::Sequential => &self.curves.read_sequential,
                Pattern::Random => &self.curves.read_random,
            },
            bytes,
        )
    }

    /// `Tw(n)` inside an open unit: the time of a write of this many bytes that closes no unit.
    pub fn write_time(&self, pattern: Pattern, bytes: u64) -> Nanos {
        self.request_time(
            match pattern {
                Pattern::Sequential => &self.curves.write_sequential,
                Pattern::Random => &self.curves.write_random,
            },
            bytes,
        )
    }

    /// `Tw(n)` as a benchmark of random writes over the whole card measures it (P1's figure 5):
    /// each write opens a unit, and closes one that such a write has opened. A write of at least a
    /// unit is taken to begin with one.
    pub fn spread_write_time(&self, bytes: u64) -> Nanos {
        if bytes >= self.open_units.size {
            return self.write_time(Pattern::Sequential, bytes);
        }
        self.write_time(Pattern::Random, bytes) + self.merge_time(bytes)
    }

    /// The time of closing a unit of which `written` bytes were written since it was opened,
    /// upwards.
    pub fn merge_time(&self, written: u64) -> Nanos {
        let OpenUnitSpec { size, merge_ns, .. } = self.open_units;
        let copied = u128::from(size.saturating_sub(written));
        let time_ns = u128::from(merge_ns) * copied / u128::from(size.max(1));
        Nanos(u64::try_from(time_ns).unwrap_or(u64::MAX))
    }

    fn request_time(&self, curve: &Curve, bytes: u64) -> Nanos {
        let bus_ps = u128::from(bytes) * u128::from(self.timing.bus_ps_per_byte);
        let bus_ns = u64::try_from(bus_ps.div_ceil(1000)).unwrap_or(u64::MAX);
        Nanos(self.timing.command_ns) + curve.time(bytes).max(Nanos(bus_ns))
    }
}
