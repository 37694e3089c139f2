//! Volumes in images whose size is changed.

use std::sync::Arc;

use nandkit_flash_image::Image;

use super::FormatError;
use super::detected::DetectedFormat;

/// What a format has for volumes whose size is changed.
pub trait ResizeFormat: Sync {
    /// What is to be changed so that a volume has so many bytes at most. Nothing is changed.
    /// Errors: a size that does not do, with the least that does; a volume that cannot be resized.
    fn plan(&self, image: &Image, found: &DetectedFormat, bytes: u64) -> Result<ResizePlan, FormatError>;
}

/// A planned change of a volume's size.
pub struct ResizePlan {
    /// What is put over the volume, by its byte.
    pub patches: Vec<(u64, Arc<[u8]>)>,
    /// Bytes of the volume as it is.
    pub bytes_before: u64,
    /// Bytes of the volume once the patches are in place.
    pub bytes: u64,
    /// Bytes of files and of what describes them that have another place.
    pub bytes_moved: u64,
}
