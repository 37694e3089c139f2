//! What the crate's own tests look at besides its face.

use nandkit_flash::Flash;
use nandkit_vfs::Result;

use crate::Jffs2;
pub use crate::catalogue::{Catalogue, Owner};

/// Nodes as they lie on the flash, made from their fields.
pub mod encode {
    pub use crate::encode::*;
}

/// Bytes of nodes that are marked obsolete in place. Errors and cost as those of [`Jffs2::check`].
pub fn obsolete_bytes<F: Flash>(volume: &Jffs2<F>) -> Result<u64> {
    Ok(volume.survey(false)?.bytes.obsolete)
}
