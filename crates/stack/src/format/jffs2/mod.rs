//! JFFS2 in images: mounting, and what is damaged.

pub(crate) mod bad_blocks;
pub(crate) mod build;
pub(crate) mod erase_size;
pub(crate) mod placement;
pub(crate) mod survey;

use nandkit_flash::{Flash, PageRead};
use nandkit_flash_image::DumpFlash;
use nandkit_flash_image::detect::sample_blocks;
use nandkit_jffs2::layout::{ByteOrder as Order, HEADER_SIZE, Header};
use nandkit_jffs2::{Jffs2, MountOptions, versions};
use nandkit_units::{BlockIndex, Clock, Context, PageAddress};
use nandkit_vfs::check;
use nandkit_vfs::{ErrorKind, FileKind, FsError, InodeNumber, Timestamp};

use crate::format::history::{DeletedName, FileVersion, OldContent};
use crate::format::{ByteOrder, Checked, Finding, Format, MediumKind, OpenOptions, Repaired, RepairedImage, clock_at};

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
}

/// Blocks that are looked at for nodes of both byte orders.
const SAMPLED: u32 = 16;
/// Nodes of the other byte order from which they are no accident: what damage lays bare of a file's content may hold a few.
const FOREIGN_MIN: u32 = 8;

/// Refuses a device with nodes of both byte orders: parts of different volumes, of which only one can be opened. Error: what was found, and what would be right.
pub(crate) fn refuse_mixed(device: &DumpFlash) -> Result<(), String> {
    let seen = Seen::whole_blocks(device);
    // How blocks begin costs little to see, and one block of another volume is enough.
    let (mut begin, mut places) = ([0_u32; 2], [None; 2]);
    for block in (0..device.geometry().blocks).map(BlockIndex) {
        let mut bytes = [0xFF; HEADER_SIZE as usize];
        if device.is_bad(block) || read(device, block, 0, &mut bytes).is_none() {
            continue;
        }
        let Some(order) = Order::ALL.into_iter().position(|order| node(order, &bytes).is_some()) else { continue };
        if let (Some(count), Some(place)) = (begin.get_mut(order), places.get_mut(order)) {
            *count += 1;
            place.get_or_insert(u64::from(block.0) * device.geometry().block_size());
        }
    }
    let [little, big] = begin;
    let strange = seen.foreign >= FOREIGN_MIN || seen.foreign.saturating_mul(4) > seen.nodes;
    if (little == 0 || big == 0) && !strange {
        return Ok(());
    }
    let at = |place: Option<u64>| place.map_or_else(String::new, |place| format!(" (the first at {place:#x})"));
    let [first_little, first_big] = places.map(at);
    Err(format!(
        "mixed byte orders: {little} blocks begin with a little-endian node{first_little} and {big} with a big-endian one{first_big}, and in the {} blocks looked at {} nodes are of \
         another order than those before them; expected --offset and --size of one volume, or --endian",
        seen.blocks(),
        seen.foreign
    ))
}

/// Whether bytes that are too few for an erase block begin as JFFS2 does.
pub(crate) fn begins(bytes: &[u8]) -> bool {
    any_node(bytes).is_some()
}

/// What sampled blocks look like.
#[derive(Default)]
struct Seen {
    /// Blocks that begin with a node, by byte order.
    begin: [u32; 2],
    other: u32,
    nodes: u32,
    /// Nodes of the other byte order than the block's first.
    foreign: u32,
}

impl Seen {
    /// All bytes of sampled blocks.
    fn whole_blocks(device: &DumpFlash) -> Self {
        let mut seen = Self::default();
        for block in sample_blocks(device.geometry(), SAMPLED) {
            seen.block(device, block);
        }
        seen
    }

    /// Blocks that are not blank.
    fn blocks(&self) -> u32 {
        self.begin.iter().sum::<u32>() + self.other
    }

    fn block(&mut self, device: &dyn Flash, block: BlockIndex) {
        let mut bytes = vec![0xFF; HEADER_SIZE as usize];
        if device.is_bad(block) || read(device, block, 0, &mut bytes).is_none() || is_blank(&bytes) {
            return;
        }
        let Some(place) = Order::ALL.into_iter().position(|order| node(order, &bytes).is_some()) else {
            self.other += 1;
            return;
        };
        let (Some(order), Some(count)) = (Order::ALL.get(place), self.begin.get_mut(place)) else { return };
        *count += 1;
        let size = device.geometry().block_size();
        bytes.resize(size as usize, 0xFF);
        if read(device, block, 0, &mut bytes).is_some() {
            self.inside(*order, &bytes);
        }
    }

    /// Goes from node to node through a block.
    fn inside(&mut self, order: Order, bytes: &[u8]) {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            if let Some(header) = node(order, rest) {
                self.nodes += 1;
                at = at.saturating_add(stored_length(&header));
                continue;
            }
            if let Some(header) = any_node(rest) {
                self.foreign += 1;
                at = at.saturating_add(stored_length(&header));
                continue;
            }
            let mut places = (at..bytes.len()).step_by(4).skip(1);
            let next = places.find(|place| bytes.get(*place..).is_some_and(|rest| any_node(rest).is_some()));
            at = next.unwrap_or(bytes.len());
        }
    }
}

fn any_node(bytes: &[u8]) -> Option<Header> {
    Order::ALL.into_iter().find_map(|order| node(order, bytes))
}

/// Bytes from a node's beginning to the next one's.
fn stored_length(header: &Header) -> usize {
    let length = header.total_length.max(HEADER_SIZE).checked_next_multiple_of(4).unwrap_or(u32::MAX);
    length as usize
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0xFF)
}

fn node(order: Order, bytes: &[u8]) -> Option<Header> {
    Header::decode(order, bytes).filter(|header| header.check(order).is_ok())
}

/// Reads bytes of a block across its pages; `None` where they cannot be read.
fn read(device: &dyn Flash, block: BlockIndex, offset: u32, into: &mut [u8]) -> Option<()> {
    let page_size = device.geometry().page_size;
    let (mut at, mut rest) = (offset, into);
    while !rest.is_empty() {
        let (page, column) = (at.checked_div(page_size)?, at.checked_rem(page_size)?);
        let length = rest.len().min((page_size - column) as usize);
        let (part, tail) = rest.split_at_mut(length);
        device.read(&Context::default(), PageAddress::new(block.0, page), PageRead::bytes(column, part)).ok()?;
        (rest, at) = (tail, at + length as u32);
    }
    Some(())
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
    volume.damage().into_iter().map(|found| (found.inode, finding(found))).collect()
}

fn finding(found: check::Finding) -> Finding {
    let harmless = found.is_harmless();
    let check::Finding { kind, offset, paths, detail, .. } = found;
    Finding { kind: kind.to_owned(), offset, paths, detail, harmless }
}

fn findings(found: Vec<check::Finding>) -> Vec<Finding> {
    found.into_iter().map(finding).collect()
}

/// Looks at every byte.
pub(crate) fn check<F: Flash>(volume: &Jffs2<F>) -> Result<Checked, String> {
    volume.check(true).map(checked).map_err(|error| error.to_string())
}

fn checked(report: check::Report) -> Checked {
    let check::Report { findings: found, counts, notes } = report;
    Checked { format: FORMAT.name(), findings: findings(found), counts, notes }
}

/// The kind of a finding: a node that is whole, and that a repair has no place for.
pub const NO_ROOM: &str = "no room";

/// The image without what is provably bad: `output` is a device of the same layout on the same bytes, which is changed.
pub(crate) fn repair(volume: &Jffs2<DumpFlash>, output: &mut DumpFlash) -> Result<Repaired, String> {
    let repair = volume.repair(true, output).map_err(|error| error.to_string())?;
    Ok(Repaired {
        checked: checked(repair.before),
        kept: repair.kept,
        mended: findings(repair.mended),
        dropped: findings(repair.dropped),
        remaining: findings(repair.remaining),
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
        kind: match found.kind {
            1 => FileKind::Fifo,
            2 => FileKind::CharacterDevice,
            4 => FileKind::Directory,
            6 => FileKind::BlockDevice,
            10 => FileKind::Symlink,
            12 => FileKind::Socket,
            _ => FileKind::Regular,
        },
        at: found.at.0.into(),
        deleted: found.deleted.map(seconds),
        lives: found.lives,
    };
    Ok(volume.deleted()?.into_iter().map(told).collect())
}
