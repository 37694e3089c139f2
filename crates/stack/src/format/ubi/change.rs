//! Changes of volumes of UBI devices in images.

use nandkit_flash_image::{DumpFlash, Image};
use nandkit_ubi::layout::{VolumeType, flag};
use nandkit_ubi::write::NewVolume;
use nandkit_units::{Clock, format_bytes};
use nandkit_vfs::check::Finding;
use nandkit_vfs::{ErrorKind, FsError, Result};

use super::UbiFormat;
use super::writing::{self, Attached, Writer};
use crate::format::detected::DetectedFormat;
use crate::format::device_volumes::{ChangingVolumes, VolumeChange, VolumeToMake, VolumesFormat};
use crate::format::{FormatError, OpenOptions};

impl VolumesFormat for UbiFormat {
    fn open(
        &self,
        image: Image,
        found: &DetectedFormat,
        _options: &OpenOptions,
        clock: Clock,
    ) -> std::result::Result<Box<dyn ChangingVolumes>, FormatError> {
        let Attached { writer, damage, .. } = writing::attach(image, found, false, clock)?;
        Ok(Box::new(Device { writer, damage }))
    }
}

/// A device, and what attaching found.
struct Device {
    writer: Writer,
    damage: Vec<Finding>,
}

impl Device {
    fn number(&self, name: &str) -> Result<u32> {
        let volumes = self.writer.ubi().volumes();
        let found = volumes.iter().find(|volume| volume.file_name == name);
        let missing = || {
            let names: Vec<&str> = volumes.iter().map(|volume| volume.file_name.as_str()).collect();
            let expected = if names.is_empty() { "the device has none".to_owned() } else { names.join(", ") };
            FsError::new(ErrorKind::NotFound, format!("no volume is called '{name}'; expected one of: {expected}"))
        };
        found.map(|volume| volume.number).ok_or_else(missing)
    }

    /// What a volume is now, in words.
    fn described(&self, number: u32) -> String {
        let found = self.writer.ubi().volumes().iter().find(|volume| volume.number == number);
        found.map_or_else(String::new, |volume| {
            let lebs = volume.record.reserved_pebs;
            let room = format_bytes(u64::from(lebs) * u64::from(volume.leb_size));
            let kind = volume.record.volume_type.name();
            format!("volume {number} '{}', {kind}, {lebs} LEBs, room for {room}", volume.file_name)
        })
    }
}

impl ChangingVolumes for Device {
    fn damage(&self) -> Vec<Finding> {
        self.damage.clone()
    }

    fn available(&self) -> u64 {
        u64::from(self.writer.available_pebs()) * u64::from(self.writer.ubi().geometry().leb_size())
    }

    fn change(&mut self, change: VolumeChange<'_>) -> Result<String> {
        match change {
            VolumeChange::Make(volume) => {
                let number = self.writer.create_volume(&new_volume(volume))?;
                Ok(format!("made {}", self.described(number)))
            }
            VolumeChange::Remove(name) => {
                let number = self.number(name)?;
                let before = self.described(number);
                self.writer.remove_volume(number)?;
                Ok(format!("removed {before}"))
            }
            VolumeChange::Resize(name, bytes) => {
                let number = self.number(name)?;
                self.writer.resize_volume(number, bytes)?;
                Ok(format!("resized {}", self.described(number)))
            }
            VolumeChange::Rename(names) => {
                let numbered = names.iter().map(|(from, to)| Ok((self.number(from)?, to.as_bytes().to_vec())));
                let renames = numbered.collect::<Result<Vec<_>>>()?;
                self.writer.rename_volumes(&renames)?;
                let said: Vec<String> = names.iter().map(|(from, to)| format!("'{from}' to '{to}'")).collect();
                Ok(format!("renamed {}", said.join(", ")))
            }
            VolumeChange::Update(name, content, length) => {
                let number = self.number(name)?;
                self.writer.update_volume(number, content, length)?;
                Ok(format!("wrote {length} bytes to {}", self.described(number)))
            }
        }
    }

    fn finish(self: Box<Self>) -> Result<DumpFlash> {
        Ok(self.writer.finish()?.into_dump())
    }
}

fn new_volume(volume: VolumeToMake) -> NewVolume {
    NewVolume {
        number: volume.number,
        name: volume.name.into_bytes(),
        volume_type: if volume.is_static { VolumeType::Static } else { VolumeType::Dynamic },
        bytes: volume.bytes,
        alignment: volume.alignment,
        flags: if volume.skips_check { flag::SKIP_CHECK } else { 0 },
    }
}
