//! Addresses, sizes, geometry, simulated time, operation contexts, statistics, seeded random
//! streams, and the nearest of several names.
//!
//! All layers of nandkit use these terms. The crate depends on no other crate of nandkit and does
//! no I/O.

mod address;
mod byte_order;
mod clock;
mod content;
mod context;
mod fill;
mod geometry;
mod pacing;
mod prefetch;
pub mod random;
mod size;
mod statistics;
pub mod suggest;
pub mod toml_depth;
mod xorshift;

pub use address::{BlockIndex, Lba, PageAddress};
pub use byte_order::ByteOrder;
pub use clock::{Clock, Nanos};
pub use content::{
    Assembly, AssemblyPart, Content, Described, Description, Generator, Payload, Pieces, ReadInto, UnknownGenerator,
};
pub use context::{Area, Cause, Context, Done, Priority, Stream};
pub use fill::{is_erased, is_zeroed};
pub use geometry::{FlashGeometry, FlashKind, GeometryError};
pub use pacing::{Pacing, Ticket};
pub use prefetch::prefetch;
pub use size::{ParseSizeError, format_bytes, parse_size};
pub use statistics::{Better, StatisticDefinition, StatisticValue, Statistics};
