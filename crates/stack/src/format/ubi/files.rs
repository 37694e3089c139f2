//! Files of the UBIFS in a volume of UBI are changed.

use nandkit_flash_image::{DumpFlash, Image};
use nandkit_ubifs::Lebs;
use nandkit_vfs::Result;

use super::writing::{self, Attached};
use super::{UbiFormat, volume};
use crate::format::detected::DetectedFormat;
use crate::format::held_dump::HeldDump;
use crate::format::ubifs::{self, WritableLebs};
use crate::format::{ChangeFormat, Changing, FormatError, OpenedForChanges};

impl ChangeFormat for UbiFormat {
    fn compresses(&self) -> bool {
        true
    }

    fn fills_up(&self) -> bool {
        true
    }

    fn open(
        &self,
        image: Image,
        found: &DetectedFormat,
        how: &Changing<'_>,
    ) -> std::result::Result<OpenedForChanges, FormatError> {
        let compression = ubifs::compression(how.compression)?;
        let Attached { mut writer, damage, held } = writing::attach(image, found, how.in_place, how.clock.clone())?;
        let device = writer.ubi();
        let Some(index) = volume::chosen(device, how.options)? else {
            return Err(volume::none_to_change(device, how.options));
        };
        let (note, chosen) = (volume::note(device, index), device.volumes().get(index));
        let Some((number, name)) = chosen.map(|volume| (volume.number, volume.file_name.clone())) else {
            return Err(volume::none_to_change(device, how.options));
        };
        writing::resize_as_asked(&mut writer, number)?;
        let lebs = Box::new(WritableLebs::new(writer, number));
        let opened =
            ubifs::changing(lebs, dump_of, compression, &how.clock).map_err(|error| volume::of(&name, error))?;
        let bad = damage.into_iter().filter(|finding| !finding.is_harmless()).collect();
        let notes = note.into_iter().chain(opened.notes).collect();
        Ok(OpenedForChanges { notes, bad, held, ..opened })
    }
}

/// Ends the changes of a device.
fn dump_of(lebs: Box<dyn Lebs>) -> Option<Result<DumpFlash>> {
    let lebs: Box<WritableLebs<HeldDump>> = lebs.downcast()?;
    Some(lebs.into_device().finish().map(HeldDump::into_dump))
}
