//! Where a page of NAND keeps data, ECC, free bytes and bad-block marks: [`OobLayout`].
//!
//! A controller decides how a page lies on the flash; a raw dump shows it so. Layouts are data: the
//! files of `specs/oob`, each with its sources, or one of your own ([`OobLayout::from_toml`]).
//! A page read through its layout is data bytes, corrected, and the OOB as a driver shows it: the
//! bad-block mark where the convention has it, the free bytes where the layout says.

mod bits;
mod layout;
mod page;
mod presets;
mod search;
mod spec;

pub use layout::OobLayout;
pub use page::{CodewordState, PageContent};
pub use presets::{all, named};
pub use search::{LayoutMatch, find, try_layout};
