//! Repair of JFFS2 volumes in images.

use nandkit_flash_image::{DumpFlash, Image};

use super::{Jffs2Format, bad_blocks, every_node, mount_dump, refuse_old_magic};
use crate::format::detected::DetectedFormat;
use crate::format::{Checked, FormatError, Opening, RepairFormat, Repaired, RepairedImage};

impl RepairFormat for Jffs2Format {
    fn repair(&self, image: Image, found: &DetectedFormat, how: &Opening<'_>) -> Result<Repaired, FormatError> {
        let copy = Image::from_bytes(image.bytes().to_vec(), None)?;
        let (mut output, _) = bad_blocks::weighed(DumpFlash::new(copy, found.layout.clone())?);
        let (device, bad) = bad_blocks::weighed(DumpFlash::new(image, found.layout.clone())?.into_read_only());
        refuse_old_magic(&device)?;
        let volume = mount_dump(device, found, &every_node(how.options))?;
        let repair = volume.repair(true, &mut output)?;
        let report = bad_blocks::reported(repair.before, bad.len(), bad_blocks::losses(bad, &volume));
        Ok(Repaired {
            checked: Checked { format: found.format.name(), report },
            kept: repair.kept,
            mended: repair.mended,
            dropped: repair.dropped,
            remaining: repair.remaining,
            image: RepairedImage::new(output.into_bytes().0),
        })
    }
}
