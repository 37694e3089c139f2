//! Flash dumps as devices: a file with the bytes of a flash becomes a [`nandkit_flash::Flash`].
//!
//! An [`Image`] is an opened file, and an [`ImageLayout`] describes how it stores the flash;
//! together they make a [`DumpFlash`].
//!
//! ```
//! use nandkit_flash_image::{DumpFlash, ImageLayout};
//! use nandkit_flash::{Flash, PageRead};
//! use nandkit_units::{Context, PageAddress};
//!
//! let dump = vec![0x5A; 2 * (2048 + 64) * 64];
//! let device = DumpFlash::from_bytes(dump, ImageLayout::nand_oob(128 << 10, 2048, 64)).unwrap();
//! assert_eq!(device.geometry().blocks, 2);
//! let mut bytes = [0; 4];
//! device.read(&Context::default(), PageAddress::new(1, 0), PageRead::bytes(2044, &mut bytes)).unwrap();
//! assert_eq!(bytes, [0x5A; 4]);
//! ```

pub mod android_sparse;
mod backing;
mod bad_blocks;
mod bytes;
mod changes;
#[cfg(test)]
mod crash_tests;
pub mod detect;
mod dump;
mod error;
mod holes;
mod image;
mod journal;
mod journal_file;
mod layout;
mod mmap;
pub mod motorola;
pub mod oob;
mod options;

mod overlay;
mod overlay_end;
mod pieces;
pub mod qcow2;
pub mod regions;
mod resident;
mod room;
#[cfg(test)]
mod shortened_tests;
mod store;
pub mod text;
mod touched;
mod unpacked;

pub use dump::{DumpFlash, DumpInfo, EccReport, UncorrectableCodeword};
pub use error::{ImageError, ImageErrorKind, Result};
pub use holes::Limits;
pub use image::Image;
pub use layout::{BadMarker, ImageLayout, OobPlacement};
pub use nandkit_block::Access;
pub use options::DumpOptions;
pub use overlay_end::{apply_overlay, discard_overlay, discard_unused_overlay};
pub use unpacked::unpack_stream;
