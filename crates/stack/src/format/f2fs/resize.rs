//! Resizing of F2FS volumes.

use nandkit_flash_image::Image;

use super::F2fsFormat;
use super::devices::{device_names, told};
use super::recovery::boxed;
use crate::format::detected::DetectedFormat;
use crate::format::resize::{ResizeFormat, ResizePlan};
use crate::format::sectors::DumpSectors;
use crate::format::{FormatError, clock_at};

impl ResizeFormat for F2fsFormat {
    fn plan(&self, image: &Image, found: &DetectedFormat, bytes: u64) -> Result<ResizePlan, FormatError> {
        let view = image.view(found.layout.clone())?;
        let names = device_names(&view);
        if !names.is_empty() {
            let names = names.join(", ");
            return Err(FormatError::Unfit(format!("the F2FS volume spans several devices ({names})")));
        }
        let planned = nandkit_f2fs::check::resize(boxed(DumpSectors::new(view)), clock_at(0), bytes);
        let planned = planned.map_err(|error| told(&error, &[]))?;
        let size = u64::from(planned.block_size);
        Ok(ResizePlan {
            patches: planned.blocks.into_iter().map(|(at, block)| (u64::from(at.0) * size, block)).collect(),
            bytes_before: planned.bytes_before,
            bytes: planned.bytes,
            bytes_moved: planned.moved * size,
        })
    }
}
