//! JFFS2 in images: mounting, and what is damaged.

pub(crate) mod bad_blocks;
pub(crate) mod build;
pub(crate) mod erase_size;
pub(crate) mod placement;
pub(crate) mod survey;

use std::collections::BTreeSet;

use nandkit_flash::{Flash, PageRead};
use nandkit_flash_image::DumpFlash;
use nandkit_flash_image::detect::sample_blocks;
use nandkit_jffs2::check::CheckReport;
use nandkit_jffs2::layout::{ByteOrder as Order, HEADER_SIZE, Header};
use nandkit_jffs2::{Damage, Jffs2, MountOptions, versions};
use nandkit_units::{BlockIndex, Clock, Context, PageAddress};
use nandkit_vfs::path::{Next, Step, walk};
use nandkit_vfs::{ErrorKind, FileKind, FileSystem, FsError, InodeNumber, Timestamp};

use crate::format::history::{DeletedName, FileVersion, OldContent};
use crate::format::{
    ByteOrder, Checked, Finding, Format, MediumKind, ORPHAN, OpenOptions, Repaired, RepairedImage, clock_at,
};

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
    let told = |damage: Damage| (damage.inode.map(|inode| InodeNumber(inode.into())), finding(&damage, None));
    volume.damage().into_iter().map(told).collect()
}

fn finding(damage: &Damage, path: Option<&[u8]>) -> Finding {
    let inode = damage.inode.map_or_else(String::new, |inode| format!("inode {inode}: "));
    Finding {
        kind: damage.kind.name().to_owned(),
        offset: Some(damage.at.0.into()),
        paths: path.map(|path| path.strip_prefix(b"/").unwrap_or(path).to_vec()).into_iter().collect(),
        detail: format!("{inode}{} (block {})", damage.detail, damage.block.0),
        harmless: damage.kind.is_harmless(),
    }
}

/// Looks at every byte.
pub(crate) fn check<F: Flash>(volume: &Jffs2<F>) -> Result<Checked, String> {
    let report = volume.check(true).map_err(|error| error.to_string())?;
    Ok(checked(volume, &report))
}

fn checked<F: Flash>(volume: &Jffs2<F>, report: &CheckReport) -> Checked {
    let mut findings: Vec<Finding> =
        report.findings.iter().map(|found| finding(&found.damage, found.path.as_deref())).collect();
    let told: BTreeSet<Vec<u8>> = findings.iter().flat_map(|finding| finding.paths.iter().cloned()).collect();
    let (mut files, mut directories) = (0, 1);
    // An error of the walk itself, which begins at the root, is among the findings.
    let _ = walk(volume, volume.root(), &mut |step| {
        match step {
            Step::Entry { attributes, .. } => match attributes.kind {
                FileKind::Directory => directories += 1,
                _ => files += 1,
            },
            // What is not shown, because it lies too deep or cannot be: whoever lists or extracts is told so, too.
            Step::Problem { path, error } if !told.contains(path) => findings.push(Finding {
                kind: "not shown".to_owned(),
                offset: None,
                paths: vec![path.to_vec()],
                detail: error.to_string(),
                harmless: false,
            }),
            Step::Problem { .. } | Step::Leave { .. } => {}
        }
        Ok(Next::Enter)
    });
    let bytes = &report.bytes;
    let counts = vec![
        ("files", files),
        ("directories", directories),
        ("nodes", report.nodes),
        ("inodes", report.inodes),
        ("content_bytes", bytes.content),
        ("blank_bytes", bytes.blank),
        ("damaged_bytes", bytes.damaged),
    ];
    Checked { format: "jffs2", findings, counts, notes: Vec::new() }
}

/// The kind of a finding: a node that is whole, and that a repair has no place for.
pub const NO_ROOM: &str = "no room";

/// The image without what is provably bad: `output` is a device of the same layout on the same bytes, which is changed.
pub(crate) fn repair(volume: &Jffs2<DumpFlash>, output: &mut DumpFlash) -> Result<Repaired, String> {
    let failed = |error: FsError| error.to_string();
    let report = volume.check(true).map_err(failed)?;
    let plan = volume.repair_plan(&report).map_err(failed)?;
    let lost = volume.repair_to(&plan, output).map_err(failed)?;
    let retyped: Vec<u64> = plan.retyped.keys().map(|at| at.0.into()).collect();
    let mut dropped: Vec<Finding> = plan.dropped.iter().map(|damage| finding(damage, None)).collect();
    dropped.extend(lost.iter().map(|at| Finding {
        kind: NO_ROOM.to_owned(),
        offset: Some(at.0.into()),
        paths: Vec::new(),
        detail: "the node is whole, but finds no place in its block of the repaired image".to_owned(),
        harmless: false,
    }));
    let checked = checked(volume, &report);
    let is_mended = |found: &&Finding| found.offset.is_some_and(|at| retyped.contains(&at));
    let mut mended: Vec<Finding> = checked.findings.iter().filter(is_mended).cloned().collect();
    let found_room = plan.attached.iter().filter(|attached| !lost.contains(&attached.at));
    mended.extend(found_room.map(|attached| Finding {
        kind: ORPHAN.to_owned(),
        offset: Some(attached.at.0.into()),
        paths: vec![attached.path.strip_prefix(b"/").unwrap_or(&attached.path).to_vec()],
        detail: format!("inode {} is there now", attached.inode),
        harmless: false,
    }));
    Ok(Repaired {
        checked,
        kept: plan.kept.len() as u64,
        mended,
        dropped,
        remaining: Vec::new(),
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
