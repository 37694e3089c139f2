//! Resizing of volumes in images.

use std::sync::Arc;

use nandkit_flash_image::Image;

use super::FormatError;
use super::detected::DetectedFormat;

/// The resize operation of a format.
pub trait ResizeFormat: Sync {
    /// Plans the change of a volume to at most `bytes`, and changes nothing. Errors: the size is
    /// too small (the error names the smallest possible one); the volume cannot be resized.
    fn plan(&self, image: &Image, found: &DetectedFormat, bytes: u64) -> Result<ResizePlan, FormatError>;
}

/// A planned change of a volume's size.
pub struct ResizePlan {
    /// Bytes to write over the volume, by offset.
    pub patches: Vec<(u64, Arc<[u8]>)>,
    /// Current size of the volume in bytes.
    pub bytes_before: u64,
    /// Size of the volume in bytes after the patches.
    pub bytes: u64,
    /// Bytes of data and metadata that move.
    pub bytes_moved: u64,
}
