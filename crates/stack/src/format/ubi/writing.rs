//! UBI devices of images, attached for changes: of their volumes, or of the UBIFS in one.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nandkit_flash_image::{DumpFlash, Image, ImageLayout};
use nandkit_ubi::layout::{LAYOUT_LEBS, VolumeType, flag};
use nandkit_ubi::write::{MOVING_PEBS, UbiWriter, WriteOptions};
use nandkit_ubi::{Ubi, Volume};
use nandkit_units::Clock;
use nandkit_vfs::check::Finding;

use super::cut_off;
use crate::format::FormatError;
use crate::format::detected::DetectedFormat;
use crate::format::held_dump::HeldDump;

/// A device that is changed.
pub(super) type Writer = UbiWriter<HeldDump>;

/// An image grows at most by this factor without a word of the user.
const GROWTH_MAX: u32 = 64;

/// PEBs that the volumes of a device reserve, with those that UBI needs itself.
pub(super) fn blocks_promised(image: &Image, found: &DetectedFormat, clock: Clock) -> Result<u32, FormatError> {
    let ubi = Ubi::attach(image.view(found.layout.clone())?, clock)?;
    let volumes: u64 = ubi.volumes().iter().map(|volume| u64::from(volume.record.reserved_pebs)).sum();
    // A table that is damaged may promise anything.
    let promised = volumes + u64::from(LAYOUT_LEBS) + u64::from(MOVING_PEBS);
    Ok(u32::try_from(promised).unwrap_or(0).min(ubi.counts().total.saturating_mul(GROWTH_MAX)))
}

/// A device attached for changes.
pub(super) struct Attached {
    /// The device.
    pub writer: Writer,
    /// What attaching found.
    pub damage: Vec<Finding>,
    /// While this is set, nothing is written to the file.
    pub held: Arc<AtomicBool>,
}

/// Attaches a device for changes. `in_place`: the file itself is changed, by each sync.
pub(super) fn attach(
    image: Image,
    found: &DetectedFormat,
    in_place: bool,
    clock: Clock,
) -> Result<Attached, FormatError> {
    let dump = DumpFlash::new(image, found.layout.clone())?;
    let cut = cut_off(&dump);
    let held = Arc::new(AtomicBool::new(in_place));
    let layer = |dump| HeldDump::new(dump, &held, in_place);
    let mut ubi = Ubi::attach(layer(dump), clock.clone())?;
    let unit = found.layout.write_unit;
    let vid_offset = ubi.geometry().vid_offset;
    let is_in_unit = unit > 0 && vid_offset % unit > 0;
    if is_in_unit || !ubi.marked().is_empty() {
        // Headers in one page mean sub-pages; intact headers prove a marked block good.
        let good: Vec<u32> = ubi.marked().iter().map(|peb| peb.0).collect();
        let unit = if is_in_unit { 1 << vid_offset.trailing_zeros() } else { unit };
        let layout = ImageLayout { write_unit: unit, ..found.layout.clone() };
        let image = ubi.into_flash().into_dump().into_image();
        let dump = DumpFlash::new(image, layout)?.with_good_blocks(&good);
        ubi = Ubi::attach(layer(dump), clock)?;
    }
    let mut damage = ubi.damage().to_vec();
    damage.extend(cut.map(|(_, finding)| finding));
    let writer = UbiWriter::new(ubi, WriteOptions { keeps_blank: true, ..WriteOptions::default() })?;
    Ok(Attached { writer, damage, held })
}

/// Gives a volume that is to take the whole flash what is available, as Linux does when it attaches
/// a device for the first time.
pub(super) fn resize_as_asked(writer: &mut Writer, number: u32) -> Result<(), FormatError> {
    let of_number = |volume: &&Volume| volume.number == number;
    let Some(volume) = writer.ubi().volumes().iter().find(of_number) else { return Ok(()) };
    let available = writer.available_pebs();
    let is_asked = volume.record.flags & flag::AUTORESIZE != 0 && volume.record.volume_type == VolumeType::Dynamic;
    if !is_asked || available == 0 {
        return Ok(());
    }
    let lebs = u64::from(volume.record.reserved_pebs) + u64::from(available);
    let bytes = lebs * u64::from(volume.leb_size);
    Ok(writer.resize_volume(number, bytes)?)
}
