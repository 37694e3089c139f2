//! Emulated NAND and NOR chips: rules, time per die and channel, wear, faults, power cuts.
//!
//! A [`ChipSpec`] describes a chip; [`presets`] contains real ones with a source for each figure. A
//! [`NandChip`] over a [`Store`] is the chip, behind the `flash` contract. The stored bytes stay
//! intact: faults are an overlay, drawn from the seed when a page is read.

mod bad_blocks;
mod bit_errors;
mod blocks;
mod channel_bookings;
mod chip;
mod copyback;
mod die_queues;
mod flaws;
pub mod image;
mod nor;
mod pacing;
mod power;
pub mod presets;
mod program;
mod read;
mod relocation;
mod rules;
mod sources;
mod spec;
mod spec_check;
mod spec_error;
mod statistics;
mod store;
mod timing;
mod wear;
mod words;

pub use chip::{AddressChip, ContentChip, DescribedChip, NandChip, ShadowChip};
pub use image::{ChipImage, ImageError};
pub use sources::Figure;
pub use spec::{
    BadBlockSpec, BitErrorSpec, ChipKind, ChipSpec, CopybackReach, DieOrder, EccSpec, EnduranceSpec, FailureSpec,
    GeometrySpec, MarkerPages, NorSpec, PageOrder, PageTimes, PlaneRule, RuleSpec, TimingSpec,
};
pub use spec_error::SpecError;
pub use statistics::{QueueCounters, QueueStatistics, ReadCounters, WriteCounters};
pub use store::{
    AddressStore, ContentStore, DescribedStore, NoContent, SavedPage, ShadowStore, SlotPage, Store, StoreKind,
};
pub use wear::FailureScript;
