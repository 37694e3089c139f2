//! F2FS volumes in images, mounted for reading.

pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod info;
pub(crate) mod mount;
pub(crate) mod recovery;
pub(crate) mod spec;
pub(crate) mod write;

use std::path::{Path, PathBuf};

use nandkit_f2fs::FindingKind;
use nandkit_f2fs::layout::superblock::SUPERBLOCK_OFFSET;
use nandkit_f2fs::layout::{MAGIC, Superblock};
use nandkit_flash::Look as _;
use nandkit_flash_image::regions::Signature;
use nandkit_flash_image::{DumpFlash, DumpOptions, Image};
use nandkit_vfs::{ErrorKind, FsError, InodeNumber};
use toml::Table;

use self::recovery::{Mounted, SharedDump, failed, replay, waits};
use self::spec::F2fsSpec;
use crate::StackError;
use crate::format::emulate::{EmulateFormat, FormatSpec};
use crate::format::sectors::DumpSectors;
use crate::format::{Finding, Format, MediumKind, OpenOptions, sparse, wrong};
use crate::named::whole;

/// F2FS in the table of formats.
pub static FORMAT: F2fsFormat = F2fsFormat;

/// F2FS.
pub struct F2fsFormat;

impl Format for F2fsFormat {
    fn name(&self) -> &'static str {
        "f2fs"
    }

    fn title(&self) -> &'static str {
        "F2FS"
    }

    fn medium(&self) -> MediumKind {
        MediumKind::Blocks
    }

    fn emulate(&self) -> Option<&dyn EmulateFormat> {
        Some(self)
    }
}

impl EmulateFormat for F2fsFormat {
    fn parse(&self, table: Table) -> Result<Box<dyn FormatSpec>, String> {
        let spec: F2fsSpec = whole(table).map_err(|error| format!("in f2fs: {error}"))?;
        spec.check().map_err(|error| format!("in f2fs: {error}"))?;
        Ok(Box::new(spec))
    }
}

/// Bytes of a block of nearly every volume.
const BLOCK_SIZE: usize = 4096;

/// The devices of a volume: the image's part that was chosen, then the further files that were named.
pub(crate) fn devices(first: DumpFlash, options: &OpenOptions) -> Result<Vec<DumpSectors>, StackError> {
    expect_order(&device_names(&first), &options.devices)?;
    let mut devices = vec![DumpSectors::new(first)];
    for path in &options.devices {
        let how = DumpOptions { resident_max: options.resident_max, ..DumpOptions::read_only() };
        let failed = |error| wrong(path, error);
        let image = Image::open(path, &how).map_err(failed)?;
        let plain = OpenOptions { resident_max: options.resident_max, ..OpenOptions::default() };
        let (image, _) = sparse::unpacked(path, image, &plain)?;
        let layout = DumpSectors::layout_of_blocks(image.bytes().len() as u64, 0, None).map_err(failed)?;
        let device = DumpFlash::new(image, layout).map_err(failed)?;
        devices.push(DumpSectors::new(device.into_read_only()));
    }
    Ok(devices)
}

/// Refuses further devices of which one has the name that the superblock has for another place: their bytes would be those of other files.
fn expect_order(named: &[String], devices: &[PathBuf]) -> Result<(), StackError> {
    for (place, path) in (1..).zip(devices) {
        let is_it = |name: &String| Path::new(name).file_name().is_some_and(|name| Some(name) == path.file_name());
        if named.get(place).is_some_and(|own| !is_it(own))
            && let Some(other) = named.iter().position(is_it)
        {
            let order = named.get(1..).unwrap_or_default().join(", ");
            let detail = format!(
                "the volume has a device of this name in place {other}, and --devices has it in place {place}; expected them in this order: {order}"
            );
            return Err(wrong(path, detail));
        }
    }
    Ok(())
}

/// Mounts a volume for reading, as [`OpenOptions::no_recovery`] says.
pub(crate) fn mount(path: &Path, first: DumpFlash, options: &OpenOptions) -> Result<Mounted, StackError> {
    let named = device_names(&first);
    let devices: Vec<SharedDump> = devices(first, options)?.into_iter().map(SharedDump::new).collect();
    Mounted::new(&devices, !options.no_recovery).map_err(|error| wrong(path, told(&error, &named)))
}

/// A volume as its checkpoint has it, and what is to be told: also what of the image the commands that read show besides.
pub(crate) fn inspect(
    path: &Path,
    first: DumpFlash,
    options: &OpenOptions,
) -> Result<(Mounted, Vec<String>), StackError> {
    let named = device_names(&first);
    let devices: Vec<SharedDump> = devices(first, options)?.into_iter().map(SharedDump::new).collect();
    let mut mounted = Mounted::new(&devices, false).map_err(|error| wrong(path, told(&error, &named)))?;
    if !options.no_recovery && waits(&mounted.findings) {
        mounted.findings.retain(|finding| finding.kind != FindingKind::NotReplayed);
        match replay(&devices) {
            Ok(replayed) => mounted.note = replayed.note(),
            Err(error) => mounted.findings.push(failed(&error)),
        }
    }
    let notes = notes(&mounted);
    Ok((mounted, notes))
}

/// An error with what can be done about it.
pub(crate) fn told(error: &FsError, devices: &[String]) -> String {
    if error.kind != ErrorKind::InvalidArgument || devices.is_empty() {
        return format!("the F2FS volume: {error}");
    }
    format!(
        "the F2FS volume: {error}; expected --devices with the files of all but the first, in this order: {}",
        devices.iter().skip(1).map(String::as_str).collect::<Vec<_>>().join(", ")
    )
}

/// The devices that the superblock names, in its order; none of a volume on one.
pub(crate) fn device_names(device: &DumpFlash) -> Vec<String> {
    let mut bytes = vec![0; 2 * BLOCK_SIZE];
    device.look_at(0, &mut bytes);
    let copies = [0, BLOCK_SIZE].into_iter();
    let superblock = copies.filter_map(|start| Superblock::of_block(bytes.get(start..)?));
    let superblock = superblock.into_iter().find(|superblock| superblock.magic.get() == MAGIC);
    let names = superblock.iter().flat_map(|superblock| &superblock.devices).map(|device| {
        let end = device.path.iter().position(|byte| *byte == 0).unwrap_or(device.path.len());
        String::from_utf8_lossy(device.path.get(..end).unwrap_or_default()).into_owned()
    });
    names.take_while(|name| !name.is_empty()).collect()
}

/// Whether something that a mount found is worth a sentence, and no damage: all that is read in spite of it is whole, or an error says that it is not.
const fn is_note(kind: FindingKind) -> bool {
    matches!(
        kind,
        FindingKind::Note
            | FindingKind::NotReplayed
            | FindingKind::Superblock
            | FindingKind::SuperblockChecksum
            | FindingKind::Unsupported
            | FindingKind::CutShort
    )
}

/// What mounting found that is worth knowing.
pub(crate) fn notes(mounted: &Mounted) -> Vec<String> {
    let found = mounted.findings.iter().filter(|found| is_note(found.kind)).map(ToString::to_string);
    mounted.note.iter().cloned().chain(found).collect()
}

/// What mounting found damaged.
pub(crate) fn damage(mounted: &Mounted) -> Vec<(Option<InodeNumber>, Finding)> {
    use nandkit_f2fs::blocks::Blocks;
    let block_size = mounted.volume.geometry().block_size() as u32;
    let damaged = mounted.findings.iter().filter(|found| !is_note(found.kind));
    damaged
        .map(|found| {
            let finding = found.clone().into_finding(block_size);
            (finding.inode, finding)
        })
        .collect()
}

/// The signature of a volume where a region of a dump begins: two superblocks that say the same of
/// its shape, in the first two blocks. One alone does not tell which of the two it is. Blocks of 16
/// KiB are left to partition tables.
pub(crate) fn signature(bytes: &[u8]) -> Option<Signature> {
    const BLOCK: usize = 4096;
    let number = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let start = SUPERBLOCK_OFFSET;
    let first = bytes.get(start..start + 128)?;
    if number(first, 0)? != MAGIC {
        return None;
    }
    let second = bytes.get(BLOCK + start..)?.get(..128)?;
    // The areas stand in bytes 12 to 108: sizes, then addresses.
    let same = first.get(8..108)? == second.get(8..108)? && number(second, 0)? == MAGIC;
    let (log_block, log_segment) = (number(first, 16)?, number(first, 20)?);
    let (segments, main) = (u64::from(number(first, 68)?), u64::from(number(first, 92)?));
    let blocks = main.checked_add(segments.checked_mul(512)?)?;
    (same && log_block == 12 && log_segment == 9).then(|| Signature::new("f2fs", "F2FS", Some(blocks << 12)))
}
