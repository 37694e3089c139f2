//! The layout of NAND pages, with data, ECC, free bytes and bad-block marks: [`OobLayout`].
//!
//! The controller determines how a page is stored on the flash, and a raw dump has the same form.
//! Layouts are data: the files in `specs/oob`, each with its sources, or a custom one
//! ([`OobLayout::from_toml`]). A page read through its layout consists of corrected data bytes and
//! the OOB as a driver presents it: the bad-block mark at its conventional position, the free bytes
//! as the layout says.

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
