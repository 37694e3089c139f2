//! JFFS2 in the table of formats.

mod bad_blocks;
pub mod build;
mod change;
mod dump_handle;
mod history;
mod info;
mod mount;
mod placement;
mod probe;
mod repair;
pub mod spec;
mod volumes;

use nandkit_flash::Flash;
use nandkit_flash_image::regions::Signature;
use nandkit_flash_image::{DumpFlash, EccReport};
use nandkit_jffs2::layout::ByteOrder as Order;
use nandkit_jffs2::medium::{Cleanmarker, OOB_CLEANMARKER_SIZE};
use nandkit_jffs2::probe::{ERASE_SIZE_MIN, begins_with_node, has_old_magic, mixed_orders};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_units::{Clock, Context};
use nandkit_vfs::check::{Finding, Report};
use nandkit_vfs::{FileSystem, InodeNumber};
use toml::Table;

use self::spec::Jffs2Spec;
use super::detected::{DetectedFormat, View};
use super::emulate::{EmulateFormat, FormatSpec};
use super::history::History;
use super::{
    ByteOrder, ChangeFormat, FlashWriter, Format, FormatError, Keeps, Medium, MediumKind, OpenOptions, OpenVolume,
    Opened, Opening, RepairFormat, VolumeInfo, clock_at,
};
use crate::SpecError;
use crate::named::whole;

/// The format's name.
const NAME: &str = "jffs2";

/// The note about a volume with the old magic number.
const OLD_MAGIC: &str = "the nodes have the magic number 0x1984 of before 2001, which Linux does not mount: the volume can only be read; to change it, make a new one with `extract` and `mkfs jffs2`";

/// JFFS2 in the table of formats.
pub static FORMAT: Jffs2Format = Jffs2Format;

/// JFFS2.
pub struct Jffs2Format;

impl Format for Jffs2Format {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "JFFS2"
    }

    fn medium(&self) -> MediumKind {
        MediumKind::Flash
    }

    fn keeps(&self) -> Keeps {
        Keeps { history: true, ..Keeps::default() }
    }

    fn writer(&self) -> FlashWriter {
        FlashWriter::Cleanmarkers
    }

    fn probe(&self, view: &View<'_>) -> Vec<DetectedFormat> {
        probe::found(&FORMAT, view)
    }

    fn is_on_chip(&self, chip: &dyn Flash, context: &Context) -> bool {
        nandkit_jffs2::probe::is_on_chip(chip, context)
    }

    fn volumes(&self, device: &DumpFlash) -> Vec<(u64, Signature)> {
        volumes::signatures(device)
    }

    fn crosses(&self, device: &DumpFlash, place: u64) -> Option<u64> {
        volumes::crosses(device, place)
    }

    fn bytes_min(&self, beginning: &[u8]) -> u64 {
        if begins_with_node(beginning) { ERASE_SIZE_MIN.into() } else { 0 }
    }

    fn open(&self, medium: Medium, how: &Opening<'_>) -> Result<Opened, FormatError> {
        match medium {
            Medium::Dump(dump) => {
                let (device, bad) = bad_blocks::weighed(dump.device);
                let volume = mount_dump(device, &dump.found, how.options)?;
                let notes = bad_blocks::notes(&bad);
                let left_out = bad_blocks::losses(bad, &volume);
                Ok(Opened { volume: Box::new(WithoutBlocks { volume, left_out }), notes })
            }
            other => Ok(Opened::plain(mount_chip(other, how)?)),
        }
    }

    fn info(&self, medium: Medium, how: &Opening<'_>) -> Result<VolumeInfo, FormatError> {
        info::of(medium, how)
    }

    fn check(&self, medium: Medium, how: &Opening<'_>) -> Result<Report, FormatError> {
        match medium {
            Medium::Dump(dump) => {
                let (device, bad) = bad_blocks::weighed(dump.device);
                // If the file cannot be read, the mount fails and reports it.
                let ecc = device.ecc_report().ok().flatten();
                let volume = mount_dump(device, &dump.found, &every_node(how.options))?;
                let count = bad.len();
                let mut report = bad_blocks::reported(volume.check(true)?, count, bad_blocks::losses(bad, &volume));
                ecc.iter().for_each(|ecc| tell_ecc(ecc, &mut report));
                Ok(report)
            }
            other => Ok(mount_chip(other, how)?.check(true)?),
        }
    }

    fn change(&self) -> Option<&dyn ChangeFormat> {
        Some(self)
    }

    fn repair(&self) -> Option<&dyn RepairFormat> {
        Some(self)
    }

    fn emulate(&self) -> Option<&dyn EmulateFormat> {
        Some(self)
    }
}

impl EmulateFormat for Jffs2Format {
    fn parse(&self, table: Table) -> Result<Box<dyn FormatSpec>, SpecError> {
        let spec: Jffs2Spec = whole(table).map_err(|error| error.within("jffs2"))?;
        spec.check().map_err(|error| error.within("jffs2"))?;
        Ok(Box::new(spec))
    }
}

impl<F: Flash> OpenVolume for Jffs2<F> {
    fn fs(&self) -> &dyn FileSystem {
        self
    }

    fn damage(&self) -> Vec<(Option<InodeNumber>, Finding)> {
        Jffs2::damage(self).into_iter().map(|found| (found.inode, found)).collect()
    }

    fn history(&self) -> Option<&dyn History> {
        Some(self)
    }
}

/// A volume of a dump, and the losses by blocks that are left out.
struct WithoutBlocks {
    volume: Jffs2<Box<dyn Flash>>,
    left_out: Vec<Finding>,
}

impl OpenVolume for WithoutBlocks {
    fn fs(&self) -> &dyn FileSystem {
        &self.volume
    }

    fn damage(&self) -> Vec<(Option<InodeNumber>, Finding)> {
        let left_out = self.left_out.iter().map(|found| (found.inode, found.clone()));
        left_out.chain(OpenVolume::damage(&self.volume)).collect()
    }

    fn history(&self) -> Option<&dyn History> {
        Some(&self.volume)
    }
}

/// Adds the ECC statistics of a dump to a report. The findings name the affected files.
fn tell_ecc(ecc: &EccReport, report: &mut Report) {
    report.counts.push(("ecc_bits_corrected", ecc.corrected_bits));
    report.counts.push(("ecc_codewords_corrected", ecc.corrected));
    report.counts.push(("ecc_codewords_uncorrectable", ecc.uncorrectable));
    if ecc.corrected + ecc.uncorrectable > 0 {
        report.notes.push(format!(
            "by the OOB layout {}, {} bits of {} code words were corrected, and {} code words have more bit errors than it can correct",
            ecc.layout.name(),
            ecc.corrected_bits,
            ecc.corrected,
            ecc.uncorrectable
        ));
    }
}

/// Refuses a device with nodes of both byte orders: these are parts of different volumes, and only
/// one can be opened.
fn refuse_mixed(device: &DumpFlash) -> Result<(), FormatError> {
    let Some(mixed) = mixed_orders(device) else { return Ok(()) };
    let at = |place: Option<u64>| place.map_or_else(String::new, |place| format!(" (the first at {place:#x})"));
    let ([little, big], [first_little, first_big]) = (mixed.blocks, mixed.first.map(at));
    Err(FormatError::Unfit(format!(
        "mixed byte orders: {little} blocks begin with a little-endian node{first_little} and {big} with a big-endian one{first_big}, and in the {} blocks looked at {} nodes are of \
         another order than those before them; expected `offset` and `size` of one volume, or `byte_order`",
        mixed.sampled, mixed.foreign
    )))
}

/// The options with summaries ignored, so that every node is read.
fn every_node(options: &OpenOptions) -> OpenOptions {
    OpenOptions { no_summaries: true, ..options.clone() }
}

/// Mounts a dump for reading.
fn mount_dump(
    device: DumpFlash,
    found: &DetectedFormat,
    options: &OpenOptions,
) -> Result<Jffs2<Box<dyn Flash>>, FormatError> {
    if options.byte_order.is_none() {
        refuse_mixed(&device)?;
    }
    let has_old_magic = has_old_magic(&device);
    let order = order_of(options.byte_order.or(found.detection.byte_order));
    let cleanmarker = cleanmarker_on_nand(&device);
    mount(Box::new(device), clock_at(0), MountOptions { order, has_old_magic, cleanmarker, ..for_reading(options) })
}

/// No cleanmarkers if ECC takes their place in the OOB; otherwise they are where Linux puts them.
fn cleanmarker_on_nand(device: &DumpFlash) -> Option<Cleanmarker> {
    let layout = device.oob_layout()?;
    let Cleanmarker::Oob { offset } = Cleanmarker::of_nand(layout.page_size(), layout.oob_size()) else { return None };
    let mut bytes = (0..OOB_CLEANMARKER_SIZE).map(|byte| offset as usize + byte);
    (!bytes.all(|byte| layout.keeps_oob(byte))).then_some(Cleanmarker::None)
}

/// Mounts the bare flash of a chip for reading.
fn mount_chip(medium: Medium, how: &Opening<'_>) -> Result<Jffs2<Box<dyn Flash>>, FormatError> {
    let Medium::Flash(chip) = medium else {
        return Err(FormatError::Unfit("this is a block device; expected bare flash".to_owned()));
    };
    let options = every_node(how.options);
    let order = order_of(options.byte_order);
    mount(chip, how.clock.clone(), MountOptions { order, ..for_reading(&options) })
}

fn order_of(order: Option<ByteOrder>) -> Option<Order> {
    order.map(|order| match order {
        ByteOrder::Little => Order::Little,
        ByteOrder::Big => Order::Big,
    })
}

fn for_reading(options: &OpenOptions) -> MountOptions {
    let use_summaries = !options.no_summaries;
    MountOptions { read_only: true, use_summaries, parallel: true, ..MountOptions::default() }
}

/// Mounts a device. It is a trait object, so that JFFS2 is compiled only once.
fn mount(device: Box<dyn Flash>, clock: Clock, options: MountOptions) -> Result<Jffs2<Box<dyn Flash>>, FormatError> {
    let volume = Jffs2::mount(device, clock, options)?;
    // Contradictions are found at the mount, so that every command knows them.
    volume.witness_contradictions()?;
    Ok(volume)
}

/// Refuses changes of a volume with the old magic number, which Linux does not mount.
fn refuse_old_magic(device: &DumpFlash) -> Result<(), FormatError> {
    match has_old_magic(device) {
        true => Err(FormatError::Unfit(OLD_MAGIC.to_owned())),
        false => Ok(()),
    }
}
