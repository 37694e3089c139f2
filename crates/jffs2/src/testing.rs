//! Internals for the crate's own tests.

use nandkit_flash::Flash;
use nandkit_vfs::Result;

use crate::Jffs2;
pub use crate::catalogue::{Catalogue, Owner};

/// Encoding nodes from their fields.
pub mod encode {
    pub use crate::encode::*;
}

/// Total length of nodes marked obsolete in place, in bytes. Errors and cost: those of
/// [`Jffs2::check`].
pub fn obsolete_bytes<F: Flash>(volume: &Jffs2<F>) -> Result<u64> {
    Ok(volume.survey(false)?.bytes.obsolete)
}
