//! JFFS2 in images: mounting, and what is damaged.

pub(crate) mod bad_blocks;
pub(crate) mod build;
pub(crate) mod mount;
pub(crate) mod placement;
pub(crate) mod spec;

use nandkit_flash::Flash;
use nandkit_flash_image::DumpFlash;
use nandkit_flash_image::regions::Signature;
use nandkit_jffs2::layout::ByteOrder as Order;
use nandkit_jffs2::{Jffs2, MountOptions, probe, versions};
use nandkit_units::Clock;
use nandkit_vfs::check::{Finding, Report};
use nandkit_vfs::{ErrorKind, FileKind, FsError, InodeNumber, Timestamp};
use toml::Table;

use self::spec::Jffs2Spec;
use crate::format::emulate::{EmulateFormat, FormatSpec};
use crate::format::history::{DeletedName, FileVersion, OldContent};
use crate::format::{ByteOrder, Checked, Format, MediumKind, OpenOptions, Repaired, RepairedImage, clock_at};
use crate::named::whole;

/// JFFS2 in the table of formats.
pub static FORMAT: Jffs2Format = Jffs2Format;

/// JFFS2.
pub struct Jffs2Format;

impl Format for Jffs2Format {
    fn name(&self) -> &'static str {
        "jffs2"
    }

    fn title(&self) -> &'static str {
        "JFFS2"
    }

    fn medium(&self) -> MediumKind {
        MediumKind::Flash
    }

    fn emulate(&self) -> Option<&dyn EmulateFormat> {
        Some(self)
    }
}

impl EmulateFormat for Jffs2Format {
    fn parse(&self, table: Table) -> Result<Box<dyn FormatSpec>, String> {
        let spec: Jffs2Spec = whole(table).map_err(|error| format!("in jffs2: {error}"))?;
        spec.check().map_err(|error| format!("in jffs2: {error}"))?;
        Ok(Box::new(spec))
    }
}

/// The signature of a node where a region of a dump begins.
pub(crate) fn signature(bytes: &[u8]) -> Option<Signature> {
    let kind = match probe::signature(bytes)? {
        Order::Little => "JFFS2, little-endian",
        Order::Big => "JFFS2, big-endian",
    };
    Some(Signature { is_blockwise: true, ..Signature::new("jffs2", kind, None) })
}

/// Refuses a device with nodes of both byte orders: parts of different volumes, of which only one can be opened. Error: what was found, and what would be right.
pub(crate) fn refuse_mixed(device: &DumpFlash) -> Result<(), String> {
    let Some(mixed) = probe::mixed_orders(device) else { return Ok(()) };
    let at = |place: Option<u64>| place.map_or_else(String::new, |place| format!(" (the first at {place:#x})"));
    let ([little, big], [first_little, first_big]) = (mixed.blocks, mixed.first.map(at));
    Err(format!(
        "mixed byte orders: {little} blocks begin with a little-endian node{first_little} and {big} with a big-endian one{first_big}, and in the {} blocks looked at {} nodes are of \
         another order than those before them; expected --offset and --size of one volume, or --endian",
        mixed.sampled, mixed.foreign
    ))
}

/// Mounts for reading. Error: why it cannot be mounted.
pub(crate) fn mount(
    device: DumpFlash,
    order: Option<ByteOrder>,
    options: &OpenOptions,
) -> Result<Jffs2<DumpFlash>, String> {
    mount_at(device, clock_at(0), order, options)
}

/// The same of any flash, at the time of its clock.
pub(crate) fn mount_at<F: Flash>(
    device: F,
    clock: Clock,
    order: Option<ByteOrder>,
    options: &OpenOptions,
) -> Result<Jffs2<F>, String> {
    let order = options.byte_order.or(order).map(|order| match order {
        ByteOrder::Little => Order::Little,
        ByteOrder::Big => Order::Big,
    });
    let mount = MountOptions {
        read_only: true,
        order,
        use_summaries: !options.no_summaries,
        parallel: true,
        ..MountOptions::default()
    };
    let volume = Jffs2::mount(device, clock, mount).map_err(|error| error.to_string())?;
    // So that every command knows it, whatever it looks at.
    volume.witness_contradictions().map_err(|error| error.to_string())?;
    Ok(volume)
}

/// What mounting and reading found damaged until now.
pub(crate) fn damage(volume: &Jffs2<DumpFlash>) -> Vec<(Option<InodeNumber>, Finding)> {
    volume.damage().into_iter().map(|found| (found.inode, found)).collect()
}

/// Looks at every byte.
pub(crate) fn check<F: Flash>(volume: &Jffs2<F>) -> Result<Checked, String> {
    volume.check(true).map(checked).map_err(|error| error.to_string())
}

fn checked(report: Report) -> Checked {
    Checked { format: FORMAT.name(), report }
}

/// The kind of a finding: a node that is whole, and that a repair has no place for.
pub const NO_ROOM: &str = "no room";

/// The image without what is provably bad: `output` is a device of the same layout on the same bytes, which is changed.
pub(crate) fn repair(volume: &Jffs2<DumpFlash>, output: &mut DumpFlash) -> Result<Repaired, String> {
    let repair = volume.repair(true, output).map_err(|error| error.to_string())?;
    Ok(Repaired {
        checked: checked(repair.before),
        kept: repair.kept,
        mended: repair.mended,
        dropped: repair.dropped,
        remaining: repair.remaining,
        image: RepairedImage::new(Vec::new()),
    })
}

fn inode_of(inode: InodeNumber) -> nandkit_vfs::Result<u32> {
    u32::try_from(inode.0).map_err(|_| FsError::new(ErrorKind::NotFound, format!("no inode {}", inode.0)))
}

fn seconds(seconds: u32) -> Timestamp {
    Timestamp(i64::from(seconds) * 1_000_000_000)
}

/// The nodes of an inode that are still there.
pub(crate) fn versions(volume: &Jffs2<DumpFlash>, inode: InodeNumber) -> nandkit_vfs::Result<Vec<FileVersion>> {
    let told = |version: versions::Version| FileVersion {
        number: version.version.into(),
        at: version.at.0.into(),
        offset: version.offset.into(),
        length: version.length.into(),
        size: version.size.into(),
        modified: seconds(version.modified),
        intact: version.intact,
    };
    Ok(volume.versions(inode_of(inode)?)?.into_iter().map(told).collect())
}

/// What a file held at one of its versions.
pub(crate) fn content_at(
    volume: &Jffs2<DumpFlash>,
    inode: InodeNumber,
    number: u64,
) -> nandkit_vfs::Result<OldContent> {
    let number = u32::try_from(number)
        .map_err(|_| FsError::new(ErrorKind::NotFound, format!("versions end at {}", u32::MAX)))?;
    let content = volume.content_at(inode_of(inode)?, number)?;
    let wide = |(start, end): (u32, u32)| (u64::from(start), u64::from(end));
    Ok(OldContent {
        number: content.version.into(),
        modified: seconds(content.modified),
        bytes: content.bytes,
        lost: content.lost.into_iter().map(wide).collect(),
    })
}

/// Names that were taken away and are still there.
pub(crate) fn deleted(volume: &Jffs2<DumpFlash>) -> nandkit_vfs::Result<Vec<DeletedName>> {
    let told = |found: versions::DeletedName| DeletedName {
        path: found.parent_path.map(|parent| {
            let mut path = parent.strip_prefix(b"/").unwrap_or(&parent).to_vec();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&found.name);
            path
        }),
        name: found.name,
        parent: InodeNumber(found.parent.into()),
        inode: InodeNumber(found.inode.into()),
        kind: FileKind::of_dirent(found.kind).unwrap_or(FileKind::Regular),
        at: found.at.0.into(),
        deleted: found.deleted.map(seconds),
        lives: found.lives,
    };
    Ok(volume.deleted()?.into_iter().map(told).collect())
}
