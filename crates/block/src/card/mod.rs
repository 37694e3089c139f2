//! Memory cards in time: a model of SD cards by curves and open units.
//!
//! A card is a controller with one flash chip and very little memory. The cost of a request depends
//! on its size, on whether it continues an earlier one, and, for writes, on whether the card has
//! the target unit open. [`CardSpec`] holds these figures, each with its source; [`presets`]
//! contains real cards; [`Card`] makes any device take the time that the card would take.
//!
//! ```
//! use nandkit_block::BlockDevice;
//! use nandkit_block::card::{Card, Pattern, presets};
//! use nandkit_units::{Context, Lba, Payload};
//!
//! let spec = presets::load("sd-wintec-6")?;
//! let mut card = Card::in_memory(&spec)?;
//! // The first write of 4 KiB far from any other: random, and it opens a unit. Nothing had to be closed for it.
//! let context = Context::default();
//! let done = card.write(&context, Lba(1000), Payload::Bytes(&[7; 4096]))?;
//! assert_eq!(done.completed, spec.write_time(Pattern::Random, 4096));
//! // As a benchmark of random writes sees it, each closes a unit: P5 prints 0.01 MB/s.
//! assert_eq!(spec.spread_write_time(4096).0 / 1_000_000, 409);
//! assert_eq!(card.counters().units_opened, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is left out
//!
//! Wear, faults and power cuts, which belong to chips ([`crate::wrap::CutDevice`] over a card
//! simulates cuts); background work; faster handling of the file allocation table, which many cards
//! have; caches that speed up the first writes after a pause.

/// The guide's code, compiled and run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guide/cards.md")]
struct Guide;

mod counters;
mod curve;
mod open_units;
pub mod presets;
mod spec;
mod spec_check;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nandkit_units::{Content, Context, Done, Lba, Nanos, Payload, Pieces, ReadInto, StatisticValue, Statistics};

pub use counters::{CardCounters, PatternCounters};
pub use curve::Curve;
pub use spec::{CardGeometry, CardSpec, CardTiming, CurveSpec, OpenUnitSpec, Pattern};
pub use spec_check::{CardFigure, CardSpecError};

use crate::wrap::{forward_extents, no_capability, offer_capabilities, remap_limits};
use crate::{
    BlockDevice, BlockError, BlockGeometry, ErrorKind, Operation, RamDevice, Remap, RemapLimits, Result, Trim,
};
use open_units::OpenUnits;

/// The state of a card between requests.
#[derive(Clone, Debug, Default)]
struct State {
    busy_until: Nanos,
    read_end: Option<u64>,
    units: OpenUnits,
    counters: CardCounters,
}

impl State {
    /// The end of a request that occupies the card for `span`. Time taken by the device below runs
    /// in parallel.
    fn serve(&mut self, context: &Context, span: Nanos, below: Done) -> Done {
        let start = self.busy_until.max(context.issued);
        let end = (start + span).max(below.completed);
        self.counters.waiting_time += start.since(context.issued);
        self.busy_until = end;
        Done { completed: end, busy: end.since(start), corrected_bits: below.corrected_bits }
    }
}

/// A device with the timing of a memory card. Content, capabilities, capacity and sectors are those
/// of the device below.
///
/// The card executes one request at a time: each starts when it is issued, or when its predecessor
/// ends. A flush ends with the last request and takes no time, because a card's write ends only
/// when its bytes are safe. Failed and empty requests take no time. Reads on several threads are
/// served in order of arrival. Cost: a lock, a search in a curve, and a comparison per open unit.
#[derive(Debug)]
pub struct Card<D> {
    inner: D,
    spec: Arc<CardSpec>,
    geometry: BlockGeometry,
    remap_limits: RemapLimits,
    state: Mutex<State>,
}

impl<D: Clone> Clone for Card<D> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            spec: Arc::clone(&self.spec),
            geometry: self.geometry,
            remap_limits: self.remap_limits,
            state: Mutex::new(self.locked().clone()),
        }
    }
}

impl Card<RamDevice> {
    /// An empty card in memory with the spec's capacity. Errors: those of [`Card::new`].
    pub fn in_memory(spec: &CardSpec) -> Result<Self> {
        check(spec)?;
        Self::new(spec, RamDevice::new(spec.geometry())?)
    }
}

impl<D> Card<D> {
    fn locked(&self) -> MutexGuard<'_, State> {
        // No code under the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The card's activity so far.
    pub fn counters(&self) -> CardCounters {
        self.locked().counters
    }

    /// The number of open units.
    pub fn open_units(&self) -> usize {
        self.locked().units.count()
    }

    /// The time at which the last request ends.
    pub fn busy_until(&self) -> Nanos {
        self.locked().busy_until
    }

    /// The spec of the card.
    pub fn spec(&self) -> &CardSpec {
        &self.spec
    }

    /// The device below.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// The device below; requests made directly to it take no card time.
    pub const fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Unwraps the device below.
    pub fn into_inner(self) -> D {
        self.inner
    }
}

fn check(spec: &CardSpec) -> Result<()> {
    spec.check().map_err(|error| BlockError::new(ErrorKind::Unfit, Operation::Open, Lba(0), error.to_string()))
}

impl<D: BlockDevice> Card<D> {
    /// The card over `inner`, idle and without open units. Errors: `Unfit` if the spec is
    /// impossible, or its units are no multiple of the device's sectors.
    pub fn new(spec: &CardSpec, mut inner: D) -> Result<Self> {
        check(spec)?;
        let below = *inner.geometry();
        let (unit, sector) = (spec.open_units.size, below.sector_size);
        if !unit.is_multiple_of(u64::from(sector)) {
            let detail =
                format!("open_units.size is {unit}, expected whole sectors of the device, which are of {sector} bytes");
            return Err(BlockError::new(ErrorKind::Unfit, Operation::Open, Lba(0), detail));
        }
        let geometry = BlockGeometry {
            preferred_size: spec.geometry.page_size.max(below.preferred_size).max(sector),
            recycling_size: unit,
            ..below
        };
        let remap_limits = remap_limits(&mut inner);
        Ok(Self { inner, spec: Arc::new(spec.clone()), geometry, remap_limits, state: Mutex::default() })
    }

    /// The byte address of a sector.
    fn address(&self, at: Lba) -> u64 {
        at.0.saturating_mul(u64::from(self.geometry.sector_size))
    }

    /// The time of a read, given that of the device below.
    fn was_read(&self, context: &Context, at: Lba, bytes: u64, below: Done) -> Done {
        if bytes == 0 {
            return below;
        }
        let start = self.address(at);
        let mut state = self.locked();
        let pattern = if state.read_end == Some(start) { Pattern::Sequential } else { Pattern::Random };
        state.read_end = Some(start.saturating_add(bytes));
        let time = self.spec.read_time(pattern, bytes);
        state.counters.count_read(pattern, bytes, time);
        state.serve(context, time, below)
    }

    /// The time of a write, given that of the device below.
    fn was_written(&mut self, context: &Context, at: Lba, bytes: u64, below: Done) -> Done {
        if bytes == 0 {
            return below;
        }
        let start = self.address(at);
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let changes = state.units.write(&self.spec, start, bytes);
        let time = self.spec.write_time(changes.pattern, bytes);
        state.counters.count_write(&changes, bytes, time);
        state.serve(context, time + changes.merge_time, below)
    }

    fn remapped(&mut self, context: &Context, pairs: usize, below: Result<Done>) -> Result<Done> {
        let below = below?;
        if pairs == 0 {
            return Ok(below);
        }
        let time = Nanos(self.spec.timing.command_ns);
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.counters.count_remap((pairs as u64).saturating_mul(u64::from(self.remap_limits.unit)), time);
        Ok(state.serve(context, time, below))
    }
}

impl<D: BlockDevice> BlockDevice for Card<D> {
    #[inline]
    fn geometry(&self) -> &BlockGeometry {
        &self.geometry
    }

    fn read(&self, context: &Context, at: Lba, into: ReadInto<'_>) -> Result<Done> {
        let bytes = into.len() as u64;
        let below = self.inner.read(context, at, into)?;
        Ok(self.was_read(context, at, bytes, below))
    }

    fn read_parts(&self, context: &Context, at: Lba, unit: u32, into: &mut [Content]) -> Result<Done> {
        let bytes = u64::from(unit).saturating_mul(into.len() as u64);
        let below = self.inner.read_parts(context, at, unit, into)?;
        Ok(self.was_read(context, at, bytes, below))
    }

    fn write(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        let below = self.inner.write(context, at, data)?;
        Ok(self.was_written(context, at, data.len() as u64, below))
    }

    fn write_parts(&mut self, context: &Context, at: Lba, parts: &[Payload<'_>]) -> Result<Done> {
        let below = self.inner.write_parts(context, at, parts)?;
        Ok(self.was_written(context, at, Pieces::total(parts) as u64, below))
    }

    /// The card's own writes are safe when they end; the device below may buffer data.
    fn write_durable(&mut self, context: &Context, at: Lba, data: Payload<'_>) -> Result<Done> {
        let below = self.inner.write_durable(context, at, data)?;
        Ok(self.was_written(context, at, data.len() as u64, below))
    }

    fn flush(&mut self, context: &Context) -> Result<Done> {
        let below = self.inner.flush(context)?;
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.counters.flushes += 1;
        Ok(state.serve(context, Nanos::ZERO, below))
    }

    forward_extents!();

    #[inline]
    fn expect_write(&mut self, at: Lba) {
        self.inner.expect_write(at);
    }

    offer_capabilities!();
}

impl<D: BlockDevice> Trim for Card<D> {
    fn trim(&mut self, context: &Context, at: Lba, sectors: u64) -> Result<Done> {
        let below = match self.inner.trim() {
            Some(trim) => trim.trim(context, at, sectors)?,
            None => return Err(no_capability(Operation::Trim)),
        };
        if sectors == 0 {
            return Ok(below);
        }
        let bytes = sectors.saturating_mul(u64::from(self.geometry.sector_size));
        let time = Nanos(self.spec.timing.command_ns) + Nanos(self.spec.timing.trim_ns);
        let start = self.address(at);
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.units.trim(&self.spec, start, bytes);
        state.counters.count_trim(bytes, time);
        Ok(state.serve(context, time, below))
    }
}

impl<D: BlockDevice> Remap for Card<D> {
    fn limits(&self) -> RemapLimits {
        self.remap_limits
    }

    fn share(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        let below = match self.inner.remap() {
            Some(remap) => remap.share(context, pairs),
            None => Err(no_capability(Operation::Remap)),
        };
        self.remapped(context, pairs.len(), below)
    }

    fn remap_move(&mut self, context: &Context, pairs: &[(Lba, Lba)]) -> Result<Done> {
        let below = match self.inner.remap() {
            Some(remap) => remap.remap_move(context, pairs),
            None => Err(no_capability(Operation::Remap)),
        };
        self.remapped(context, pairs.len(), below)
    }
}

impl<D: Send + Sync> Statistics for Card<D> {
    fn collect(&self, sink: &mut dyn FnMut(&'static str, StatisticValue)) {
        self.counters().collect(sink);
    }
}
