//! Flash devices over other flash devices. Each is a [`Flash`](crate::Flash) itself and passes on
//! the capabilities of the device below.
//!
//! | wrapper | what it adds |
//! | --- | --- |
//! | [`TraceFlash`] | every operation, with context and result, to a sink |
//! | [`StatsFlash`] | counters per cause and area, erase counts per block |
//! | [`FaultFlash`] | scripted failures and damaged reads |
//! | [`CutFlash`] | power cuts by plan |

mod counters;
mod cut;
mod cut_plan;
mod fault;
mod stats;
mod trace;

pub use counters::{CauseCounters, EraseDistribution, FlashCounters, FlashSnapshot};
pub use cut::CutFlash;
pub use cut_plan::{Cut, CutMoment, CutOutcome, CutPlan, ParseCutError};
pub use fault::{Fault, FaultEffect, FaultFlash, FaultWhen};
pub use stats::StatsFlash;
pub use trace::{FlashAction, FlashEvent, TraceFlash};

use nandkit_units::PageAddress;

use crate::{ErrorKind, FlashError, Operation};

/// The error of a wrapper whose capability was called although the device below no longer has it.
/// It cannot happen with a device that keeps its capabilities, as the contract requires.
#[cold]
fn no_capability(operation: Operation, at: PageAddress) -> FlashError {
    FlashError::new(ErrorKind::Misuse, operation, at, "the device below does not offer this capability")
}

/// Methods that a wrapper forwards to the device in its field `inner`, whose capabilities it
/// offers.
macro_rules! forward_rest {
    () => {
        #[inline]
        fn geometry(&self) -> &nandkit_units::FlashGeometry {
            self.inner.geometry()
        }
        #[inline]
        fn is_bad(&self, block: nandkit_units::BlockIndex) -> bool {
            self.inner.is_bad(block)
        }
        #[inline]
        fn copyback(&mut self) -> Option<&mut dyn $crate::Copyback> {
            if self.inner.copyback().is_some() { Some(self) } else { None }
        }
        #[inline]
        fn pacing(&mut self) -> Option<&mut dyn nandkit_units::Pacing> {
            self.inner.pacing()
        }
    };
}
pub(crate) use forward_rest;
