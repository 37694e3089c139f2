//! A new volume: empty, or from a tree. No clock, and the same blocks for the same tree and
//! options.
//!
//! What an empty one is: f2fs-mkfs.md, block for block. One from a tree has the same inodes of its
//! own and in the same places; the tree's follow in its order, each in the log where Linux would
//! write it: directories hot, files warm, or by their extension hot or cold. Everything is counted
//! before anything is written.

mod fill;
mod finish;
pub(crate) mod geometry;
mod identity;
mod logs;
mod names;
mod options;
mod output;
mod plan;
mod runs;
mod superblock;

use nandkit_block::BlockDevice;
use nandkit_units::{Clock, format_bytes};
use nandkit_vfs::source::{SourceNode, SourceTree};
use nandkit_vfs::{ErrorKind, FileKind, FsError, Result, Timestamp};

pub use geometry::NewGeometry;
pub use identity::uuid_of;
pub use options::{COLD_EXTENSIONS, HOT_EXTENSIONS, MkfsOptions, features_named};

use crate::ids::{BlockAddress, Log};
use crate::layout::Geometry;
use fill::Filler;
use logs::{LogSegments, sections_needed};
use output::{LogWriter, Output};
use plan::Plan;

/// The step of sizes that are chosen.
const SIZE_STEP: u64 = 1 << 20;
/// The largest size that is chosen.
const SIZE_MAX: u64 = 16 << 40;

/// What a new volume holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MkfsReport {
    /// Bytes of the volume.
    pub size: u64,
    /// Inodes of every kind.
    pub inodes: u64,
    /// Names, `.` and `..` not counted.
    pub names: u64,
    /// Bytes of files, holes included.
    pub content_bytes: u64,
    /// Blocks of nodes.
    pub node_blocks: u64,
    /// Blocks of files and directories.
    pub data_blocks: u64,
    /// Blocks that users may have.
    pub user_blocks: u64,
    /// Segments of the main area.
    pub segments: u64,
    /// Segments that hold something or belong to a log.
    pub used_segments: u64,
    /// Segments that users do not get.
    pub overprovision_segments: u64,
}

/// The tree of an empty volume: its root.
#[derive(Clone, Debug)]
pub struct EmptyTree([SourceNode; 1]);

impl EmptyTree {
    /// The root that the options ask for.
    pub fn new(options: &MkfsOptions) -> Self {
        let nanoseconds = i64::try_from(options.time_seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000_000);
        let (uid, gid) = options.root_owner;
        Self([SourceNode::new(FileKind::Directory, 0o755).at(Timestamp(nanoseconds)).owned_by(uid, gid)])
    }
}

impl SourceTree for EmptyTree {
    fn nodes(&self) -> &[SourceNode] {
        &self.0
    }

    fn read(&self, node: usize, _offset: u64, _into: &mut [u8]) -> Result<usize> {
        Err(FsError::new(ErrorKind::InvalidArgument, format!("node {node} is no regular file")))
    }
}

/// A volume that is to be made: everything but its size and its addresses.
pub struct Mkfs<'a> {
    plan: Plan<'a>,
}

impl<'a> Mkfs<'a> {
    /// Plans a volume with this tree. Errors: `InvalidArgument` (an option, or a tree that breaks
    /// its promises), `NameTooLong`, `FileTooBig`, `NotSupported`, `NoSpace` and `AttributesTooBig`
    /// (what F2FS cannot hold, with its path), and those of the tree. Cost: a pass over the nodes,
    /// some hundred bytes of memory for each; no content is read.
    pub fn new(tree: &'a dyn SourceTree, options: MkfsOptions) -> Result<Self> {
        Ok(Self { plan: Plan::new(tree, options)? })
    }

    /// The smallest size in whole MiB that holds the tree and on which Linux can write without
    /// collecting first. Errors: `NoSpace` where not even the largest volume does. Cost: some fifty
    /// times the formulas.
    pub fn smallest_size(&self) -> Result<u64> {
        let fits = |bytes: u64| self.fits(bytes, true).is_ok();
        let Some(large) = (0..25).map(|power| SIZE_STEP << power).find(|&bytes| bytes <= SIZE_MAX && fits(bytes))
        else {
            let detail =
                format!("the tree takes {} blocks; no volume with these options holds it", self.plan.valid_blocks());
            return Err(FsError::new(ErrorKind::NoSpace, detail));
        };
        let (mut low, mut high) = (large / 2 / SIZE_STEP, large / SIZE_STEP);
        while low + 1 < high {
            let middle = low.midpoint(high);
            if fits(middle * SIZE_STEP) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Ok(high * SIZE_STEP)
    }

    /// Whether a volume of `bytes` holds the tree; with `reserve`, and has the sections left that
    /// Linux keeps for collecting.
    fn fits(&self, bytes: u64, reserve: bool) -> Result<NewGeometry> {
        let options = &self.plan.options;
        let new = NewGeometry::of(bytes, options)?;
        let wrong = |what: &str, needs: u64, has: u64| {
            let detail = format!("the tree takes {needs} {what}, a volume of {} has {has}", format_bytes(bytes));
            Err(FsError::new(ErrorKind::NoSpace, detail))
        };
        if self.plan.valid_blocks() > new.user_blocks() {
            return wrong("blocks", self.plan.valid_blocks(), new.user_blocks());
        }
        let nids = new.nat / 2 * 512 * 455;
        if u64::from(self.plan.next_nid) > nids {
            return wrong("numbers of nodes", self.plan.next_nid.into(), nids);
        }
        let needed = sections_needed(&self.plan.logs, options.features, options.segments_per_section);
        let kept = if reserve { new.reserved.div_ceil(options.segments_per_section.into()) + 1 } else { 0 };
        let has = new.sections.saturating_sub(kept);
        if needed > has {
            return wrong("sections", needed, has);
        }
        Ok(new)
    }

    /// Refuses a size that does not do. Errors: `NoSpace`, with the size that would, and
    /// `InvalidArgument` for sizes above 16 TiB.
    pub fn check_size(&self, bytes: u64) -> Result<()> {
        self.shape(bytes).map(drop)
    }

    fn shape(&self, bytes: u64) -> Result<NewGeometry> {
        self.fits(bytes, false).map_err(|error| match (error.kind, self.smallest_size()) {
            (ErrorKind::NoSpace, Ok(size)) => {
                let detail = format!("{}; {} would do", error.detail, format_bytes(size));
                FsError { detail, ..error }
            }
            _ => error,
        })
    }

    /// Writes the volume over the whole device. The superblocks come last, after a flush: a volume
    /// that was cut short is none. `progress` hears how many bytes of files are done.
    ///
    /// Errors, before anything is written: `NoSpace`, with the size that would do,
    /// `InvalidArgument` (a device that cannot be one); then those of device and tree. Cost: one
    /// pass over the content, copied once; memory: some bytes for each node, and 1 MiB for each
    /// log.
    pub fn write(&self, device: &mut dyn BlockDevice, clock: &Clock, progress: &dyn Fn(u64)) -> Result<MkfsReport> {
        let bytes = device.geometry().capacity();
        let new = self.shape(bytes)?;
        let (superblock, geometry) = superblock::superblock(&new, &self.plan.options, self.plan.quota_inodes)?;
        let segments = LogSegments::place(&self.plan.logs, &new, &geometry)?;
        let mut output = Output::new(device, clock)?;
        let trimmed = self.clear(&mut output, &geometry, &segments)?;
        let writer = LogWriter::new(output, segments, geometry.clone());
        let (nat, writer) = Filler::new(&self.plan, writer, progress).run()?;
        let used = finish::finish(&self.plan, (&new, &geometry), writer, &nat, trimmed, &superblock)?;
        Ok(self.report(bytes, &new, used))
    }

    /// Makes what must read as zeroes do so: the old superblocks, the first copies of SIT and NAT,
    /// and where a chain of fsynced nodes would begin. Whether all free blocks are discarded.
    fn clear(&self, output: &mut Output<'_>, geometry: &Geometry, segments: &LogSegments) -> Result<bool> {
        let discarded = self.plan.options.discard && output.discard()?;
        output.zero(BlockAddress(0), 2)?;
        output.flush()?;
        output.zero(geometry.sit_place(0, false), geometry.sit_blocks())?;
        for block in (0..geometry.nat_blocks()).step_by(512) {
            output.zero(geometry.nat_place(block, false), 512)?;
        }
        let nodes = self.plan.logs.get(Log::WarmNode.index()).map_or(0, |blocks| *blocks as u32);
        output.zero(segments.address(Log::WarmNode, nodes), 1)?;
        Ok(discarded)
    }

    fn report(&self, size: u64, new: &NewGeometry, used_segments: u64) -> MkfsReport {
        let plan = &self.plan;
        let nodes: u64 = Log::ALL.iter().filter(|log| log.is_node()).filter_map(|log| plan.logs.get(log.index())).sum();
        let files =
            plan.tree.nodes().iter().filter(|node| node.kind == FileKind::Regular && node.hard_link_of.is_none());
        MkfsReport {
            size,
            inodes: plan.inodes.len() as u64,
            names: plan.tree.nodes().len() as u64 - 1 + u64::from(plan.lost_found.is_some()),
            content_bytes: files.fold(0, |sum: u64, node| sum.saturating_add(node.size)),
            node_blocks: nodes,
            data_blocks: plan.valid_blocks() - nodes,
            user_blocks: new.user_blocks(),
            segments: new.main,
            used_segments,
            overprovision_segments: new.overprovision,
        }
    }
}
