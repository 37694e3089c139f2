//! Flash devices over other flash devices. Each is a [`Flash`](crate::Flash) itself and hands the capabilities of the device below through.
//!
//! | wrapper | what it adds |
//! | --- | --- |
//! | [`TraceFlash`] | every operation, with context and result, to a sink or ring |
//! | [`StatsFlash`] | counters per cause and area, erase counts per block |
//! | [`FaultFlash`] | scripted failures and damaged reads |
//! | [`CutFlash`] | power cuts by plan |
//! | [`WitnessFlash`] | an observer before each change, for exhaustive cut search |
//! | [`ReadOnlyFlash`] | refusal of every change |
//! | [`OffsetFlash`] | a window of blocks |

mod counters;
mod cut;
mod cut_plan;
mod fault;
mod offset;
mod read_only;
mod stats;
mod trace;
mod witness;

pub use counters::{CauseCounters, EraseDistribution, FlashCounters, FlashSnapshot};
pub use cut::CutFlash;
pub use cut_plan::{Cut, CutMoment, CutOutcome, CutPlan, ParseCutError};
pub use fault::{Fault, FaultEffect, FaultFlash, FaultWhen};
pub use offset::OffsetFlash;
pub use read_only::ReadOnlyFlash;
pub use stats::StatsFlash;
pub use trace::{FlashAction, FlashEvent, FlashTraceRing, FlashTraceSink, TraceFlash};
pub use witness::{WitnessFlash, WitnessStep};

use nandkit_units::PageAddress;

use crate::{ErrorKind, FlashError, Operation};

/// The answer of a wrapper whose capability was called although the device below lost it; cannot happen with a device that keeps its
/// capabilities, as the contract asks.
#[cold]
fn no_capability(operation: Operation, at: PageAddress) -> FlashError {
    FlashError::new(ErrorKind::Misuse, operation, at, "the device below does not offer this capability")
}

/// The two methods with which a wrapper offers itself for the capabilities of the device in its field `inner`.
macro_rules! offer_capabilities {
    () => {
        #[inline]
        fn copyback(&mut self) -> Option<&mut dyn $crate::Copyback> {
            if self.inner.copyback().is_some() { Some(self) } else { None }
        }
        #[inline]
        fn multi_plane(&mut self) -> Option<&mut dyn $crate::MultiPlane> {
            if self.inner.multi_plane().is_some() { Some(self) } else { None }
        }
        #[inline]
        fn pacing(&mut self) -> Option<&mut dyn nandkit_units::Pacing> {
            self.inner.pacing()
        }
    };
}
pub(crate) use offer_capabilities;
