//! The spec of a memory card, with a source for each figure.
//!
//! Specs are read from TOML: see `docs/guide/cards.md`. The `[sources]` table names the source of
//! each figure (`"timing.command_ns"`) or of a whole section (`"timing"`), or says that it is an
//! assumption.

use std::collections::BTreeMap;

use nandkit_units::Nanos;
use serde::{Deserialize, Serialize};

use super::curve::Curve;
use crate::BlockGeometry;

/// A memory card as its host sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CardSpec {
    /// Short name, as used for presets.
    pub name: String,
    /// A one-line title for people.
    pub title: String,
    /// Sizes of the card.
    pub geometry: CardGeometry,
    /// The card's times by request size.
    pub curves: CurveSpec,
    /// Times that do not depend on the request.
    pub timing: CardTiming,
    /// The units in which the card recycles, and how many it writes at a time.
    pub open_units: OpenUnitSpec,
    /// The source of each figure, keyed by figure (`"timing.command_ns"`) or by section
    /// (`"timing"`); the text starts with the word `assumption` if there is no source.
    pub sources: BTreeMap<String, String>,
}

/// Sizes of a card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CardGeometry {
    /// Capacity in bytes. Only devices made for the card alone have this size; a [`super::Card`]
    /// over another device has that device's.
    pub capacity: u64,
    /// Sector size in bytes; 512 on every SD card.
    pub sector_size: u32,
    /// Bytes that the card programs at once, without reading first. A power of two.
    pub page_size: u32,
}

impl Default for CardGeometry {
    fn default() -> Self {
        Self { capacity: 1 << 30, sector_size: 512, page_size: 16_384 }
    }
}

/// Request times in nanoseconds by size in bytes, without command overhead and merges.
///
/// A read is sequential if it starts at the end of the last read; a write, if it starts at the
/// written end of an open unit, or at the start of a unit that is not open. All others are random.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CurveSpec {
    /// Reads that continue where the last one ended.
    pub read_sequential: Curve,
    /// Other reads.
    pub read_random: Curve,
    /// Writes that continue in an open unit.
    pub write_sequential: Curve,
    /// Other writes, after their unit is opened.
    pub write_random: Curve,
}

/// Times that do not depend on the request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CardTiming {
    /// Added to each request: command, response, firmware. 0 if the curves include it.
    pub command_ns: u64,
    /// Bus transfer time per byte, in picoseconds: no request is faster than its bytes on the bus.
    /// 0 means no limit.
    pub bus_ps_per_byte: u64,
    /// Time of a trim of any length, besides the command.
    pub trim_ns: u64,
}

/// Allocation units (SD Physical Layer Specification, 4.13.1.1): the card writes to a few of them
/// at a time, and merges a unit when it closes it.
///
/// A write to a unit that is not open opens it. If `count` units are open already, the least
/// recently written one is closed first. Closing has one of three costs:
///
/// * nothing, if the unit was written completely and in order;
/// * a share of `merge_ns` for the bytes not written since it was opened, which are copied, if the
///   unit was written in ascending order;
/// * the whole of `merge_ns`, if anything was written below the highest written byte.
///
/// A unit that has been written completely in order is closed at once. These are the switch,
/// partial and full merges of log-block translation layers (P4; Kim et al., IEEE Trans. Consumer
/// Electronics 48(2), 2002). Arnd Bergmann, "Optimizing Linux with cheap flash drives"
/// (lwn.net/Articles/428584), describes the behaviour of cards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OpenUnitSpec {
    /// Size of a unit in bytes.
    pub size: u64,
    /// Most open units.
    pub count: u32,
    /// Time of copying a whole unit and erasing the old one. 0 if closing is free.
    pub merge_ns: u64,
}

impl Default for OpenUnitSpec {
    fn default() -> Self {
        Self { size: 4 << 20, count: 1, merge_ns: 0 }
    }
}

/// Whether a request continues an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// It starts where an earlier one ended.
    Sequential,
    /// It starts elsewhere.
    Random,
}

impl CardSpec {
    /// The geometry of a device that is only this card: whole sectors of its capacity.
    pub fn geometry(&self) -> BlockGeometry {
        let CardGeometry { capacity, sector_size, page_size } = self.geometry;
        BlockGeometry {
            sector_size,
            sectors: capacity / u64::from(sector_size.max(1)),
            preferred_size: page_size.max(sector_size),
            recycling_size: self.open_units.size,
        }
    }

    /// `Tr(n)`: the time of a read of this many bytes, from command to last byte, on an idle card.
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

    /// `Tw(n)` as measured by a benchmark of random writes over the whole card (P1's figure 5):
    /// each write opens a unit, and closes one that an earlier write opened. A write of at least a
    /// unit is assumed to start at a unit boundary.
    pub fn spread_write_time(&self, bytes: u64) -> Nanos {
        if bytes >= self.open_units.size {
            return self.write_time(Pattern::Sequential, bytes);
        }
        self.write_time(Pattern::Random, bytes) + self.merge_time(bytes)
    }

    /// The time of closing a unit with `written` bytes written in ascending order since it was
    /// opened.
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
