//! Places a trace's operations on a device or volume of another size.

use super::reader::TraceSummary;
use super::{Fit, Trace};
use crate::error::{Result, WorkloadError};

/// The step to which extents are rounded.
const ALIGNMENT: u64 = 4096;

/// The space that one of the trace's names gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// Bytes up to the end of the trace's last operation on the name, rounded up.
    extent: u64,
    /// Bytes that the name gets.
    pub size: u64,
    /// First byte of the region on the device; 0 on a file system.
    pub base: u64,
}

/// The regions of all the trace's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    fit: Fit,
    pub regions: Vec<Region>,
}

/// The error of a layout that does not fit: the bytes that all names together need.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge {
    pub needed: u64,
}

impl Layout {
    /// Lays the names out in `available` bytes.
    pub fn new(fit: Fit, summary: &TraceSummary, available: u64) -> std::result::Result<Self, TooLarge> {
        let extents: Vec<u64> =
            summary.names.iter().map(|(_, end)| end.next_multiple_of(ALIGNMENT).max(ALIGNMENT)).collect();
        let total = extents.iter().fold(0u64, |sum, extent| sum.saturating_add(*extent));
        // The last name's extent was rounded up, which the device need not follow.
        let last_end = summary.names.last().map_or(0, |(_, end)| *end);
        let needed = total.saturating_sub(extents.last().copied().unwrap_or(0)).saturating_add(last_end);
        let changes = match fit {
            Fit::None if needed > available => return Err(TooLarge { needed }),
            Fit::None => false,
            Fit::Wrap => needed > available,
            Fit::Scale => true,
        };
        if changes && available < ALIGNMENT.saturating_mul(extents.len() as u64) {
            return Err(TooLarge { needed: ALIGNMENT.saturating_mul(extents.len() as u64) });
        }
        let mut base = 0u64;
        let spare = available.saturating_sub(ALIGNMENT.saturating_mul(extents.len() as u64));
        let mut regions = Vec::with_capacity(extents.len());
        for extent in extents {
            let share = (u128::from(spare) * u128::from(extent) / u128::from(total.max(1))) as u64;
            let size = if changes { ALIGNMENT + share / ALIGNMENT * ALIGNMENT } else { extent.min(available - base) };
            regions.push(Region { extent, size, base });
            base += size;
        }
        Ok(Self { fit: if changes { fit } else { Fit::None }, regions })
    }

    /// The place of an operation on a name: offset from the region's start, and length.
    pub fn place(&self, name: u32, offset: u64, length: u64) -> Option<(Region, u64, u64)> {
        let region = *self.regions.get(name as usize)?;
        let length = length.min(region.size);
        let offset = match self.fit {
            Fit::None => offset,
            Fit::Wrap => offset % region.size.max(1),
            Fit::Scale => {
                let scaled = u128::from(offset) * u128::from(region.size) / u128::from(region.extent.max(1));
                scaled as u64 / step_of(offset, length) * step_of(offset, length)
            }
        };
        Some((region, offset.min(region.size - length), length))
    }
}

/// The power of two, from a sector to [`ALIGNMENT`], to which an operation's beginning and end are
/// aligned. Its new place keeps the alignment; otherwise a device with large sectors would have to
/// transfer more than the trace asks for.
fn step_of(offset: u64, length: u64) -> u64 {
    (1 << (offset | length | ALIGNMENT).trailing_zeros()).max(512)
}

/// What a trace is replayed on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ground {
    /// A whole block device.
    Blocks,
    /// A part of the free space of a file system.
    Files { free_bytes: u64 },
}

impl Ground {
    fn found(self, available: u64) -> String {
        match self {
            Self::Blocks => format!("the {available} bytes that the block device offers"),
            Self::Files { free_bytes } => {
                format!("{available} bytes, four fifths of the {free_bytes} that are free on the file system")
            }
        }
    }

    fn expected(self, needed: u64) -> String {
        match self {
            Self::Blocks => {
                format!("a device that offers at least {needed} bytes (a translation layer keeps some of its chip)")
            }
            Self::Files { .. } => format!(
                "a file system with at least {} bytes free",
                needed.saturating_add(needed / 4).saturating_add(8)
            ),
        }
    }
}

/// The error for a trace that does not fit. It names the first line beyond the end, which a second
/// reading of the trace finds.
pub(super) fn beyond(
    spec: &Trace,
    summary: &TraceSummary,
    reader: super::TraceReader,
    (ground, available): (Ground, u64),
    too_large: &TooLarge,
    stop: &dyn Fn() -> bool,
) -> WorkloadError {
    match first_beyond(summary, reader, available, stop) {
        Ok(Some((line, end))) => WorkloadError::Trace {
            file: spec.file.clone(),
            line,
            found: format!("the operation ends at byte {end}, beyond {}", ground.found(available)),
            expected: format!(
                "operations within it: use fit=wrap or fit=scale, or {}",
                ground.expected(too_large.needed)
            ),
        },
        Ok(None) => WorkloadError::DoesNotFit {
            workload: "trace",
            needed: too_large.needed,
            available,
            advice: format!("use {}", ground.expected(too_large.needed)),
        },
        Err(error) => error,
    }
}

/// The line of the first operation that ends beyond `available`, and that end on the device.
fn first_beyond(
    summary: &TraceSummary,
    mut reader: super::TraceReader,
    available: u64,
    stop: &dyn Fn() -> bool,
) -> Result<Option<(u64, u64)>> {
    let mut bases = Vec::with_capacity(summary.names.len());
    let mut base = 0u64;
    for (_, end) in &summary.names {
        bases.push(base);
        base = base.saturating_add(end.next_multiple_of(ALIGNMENT).max(ALIGNMENT));
    }
    for _ in 0..summary.operations {
        let Some(operation) = reader.next_unless(stop)? else { break };
        let base = bases.get(operation.name as usize).copied().unwrap_or(0);
        let end = base.saturating_add(operation.offset).saturating_add(operation.length);
        if end > available {
            return Ok(Some((operation.line, end)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(ends: &[u64]) -> TraceSummary {
        let names = ends.iter().enumerate().map(|(i, end)| (i.to_string(), *end)).collect();
        TraceSummary { names, operations: 1 }
    }

    #[test]
    fn nothing_ever_leaves_its_region() {
        for fit in [Fit::None, Fit::Scale, Fit::Wrap] {
            for available in [8192, 10_000, 65_536, 1 << 20, 1 << 30] {
                let ends = [100_000, 5_000];
                let Ok(layout) = Layout::new(fit, &summary(&ends), available) else {
                    assert!(fit == Fit::None && available < 109_096, "{fit:?} {available}");
                    continue;
                };
                for (name, end) in ends.iter().enumerate() {
                    for offset in (0..*end).step_by(509) {
                        let length = (end - offset).min(70_000);
                        let (region, at, length) = layout.place(name as u32, offset, length).unwrap();
                        assert!(at + length <= region.size && region.base + region.size <= available);
                    }
                }
            }
        }
    }

    #[test]
    fn what_fits_stays_where_it_is_and_may_reach_the_very_end() {
        let layout = Layout::new(Fit::Wrap, &summary(&[5000]), 5120).unwrap();
        assert_eq!(layout.place(0, 4608, 392).unwrap().1, 4608);
        assert_eq!(Layout::new(Fit::None, &summary(&[5000]), 4999), Err(TooLarge { needed: 5000 }));
    }

    #[test]
    fn scaling_leaves_the_amount_of_data_as_it_is() {
        let layout = Layout::new(Fit::Scale, &summary(&[1 << 30]), 300 * 131_072).unwrap();
        for operation in 0..2000u64 {
            for (step, length) in [(4096, 4096), (2048, 6144), (512, 512), (65_536, 16_384)] {
                let (_, at, _) = layout.place(0, operation * 7 % 1000 * step, length).unwrap();
                assert_eq!(at % step.min(length & length.wrapping_neg()).min(4096), 0, "{operation} {step} {length}");
            }
        }
    }

    #[test]
    fn scaling_keeps_the_order() {
        let layout = Layout::new(Fit::Scale, &summary(&[1 << 30]), 1 << 20).unwrap();
        let places: Vec<u64> = (0..1024).map(|i| layout.place(0, i << 20, 512).unwrap().1).collect();
        assert!(places.is_sorted() && places[1023] > 1_000_000);
    }
}
