//! Block devices over other block devices. Each passes on the capabilities of the device below.
//!
//! | wrapper | what it adds |
//! | --- | --- |
//! | [`TraceDevice`] | every request, with context and result, to a sink |
//! | [`StatsDevice`] | counters per cause, request sizes, latencies |
//! | [`FaultDevice`] | scripted failures |
//! | [`CutDevice`] | power cuts by plan, with a volatile cache that loses what was not flushed |
//! | [`ReadOnlyDevice`] | refusal of every change |
//! | [`OverlayDevice`] | changes in memory, beside a device that stays as it is |

mod cut;
mod fault;
mod histogram;
mod overlay;
mod read_only;
mod stats;
mod trace;

pub use cut::{CutDevice, DeviceCutMoment, DeviceCutPlan, Survival};
pub use fault::{DeviceFault, DeviceFaultWhen, FaultDevice};
pub use histogram::{Histogram, HistogramSnapshot};
pub use overlay::OverlayDevice;
pub use read_only::ReadOnlyDevice;
pub use stats::{DeviceCounters, DeviceSnapshot, RequestCounters, RequestKind, StatsDevice};
pub use trace::{DeviceAction, DeviceEvent, TraceDevice};

use nandkit_units::Lba;

use crate::{BlockError, ErrorKind, Operation};

/// The error of a wrapper whose capability was called although the device below no longer has it.
#[cold]
pub(crate) fn no_capability(operation: Operation) -> BlockError {
    BlockError::new(ErrorKind::OutOfRange, operation, Lba(0), "the device below does not offer this capability")
}

/// Methods by which a wrapper offers the capabilities of the device in its field `inner`; those
/// that it adds nothing to come directly from the device.
macro_rules! offer_capabilities {
    () => {
        #[inline]
        fn trim(&mut self) -> Option<&mut dyn $crate::Trim> {
            if self.inner.trim().is_some() { Some(self) } else { None }
        }
        #[inline]
        fn pacing(&mut self) -> Option<&mut dyn nandkit_units::Pacing> {
            self.inner.pacing()
        }
        #[inline]
        fn remap(&mut self) -> Option<&mut dyn $crate::Remap> {
            if self.inner.remap().is_some() { Some(self) } else { None }
        }
    };
}
pub(crate) use offer_capabilities;

/// Extents and placements of the device below, which has the same sectors.
macro_rules! forward_extents {
    () => {
        fn extent(&self, at: nandkit_units::Lba, most: u64) -> $crate::Extent {
            self.inner.extent(at, most)
        }

        fn placement(&self, at: nandkit_units::Lba) -> Option<$crate::Placement> {
            self.inner.placement(at)
        }
    };
}
pub(crate) use forward_extents;

/// The remap limits of a device; zeroes if it has no remap. They never change, so wrappers query
/// them once.
pub(crate) fn remap_limits<D: crate::BlockDevice>(device: &mut D) -> crate::RemapLimits {
    device.remap().map_or_else(Default::default, |remap| remap.limits())
}
