//! Makes a new volume, empty or from a tree. It uses no clock; the same tree and options give the
//! same blocks.
//!
//! An empty volume matches f2fs-mkfs.md block for block. One from a tree has the same internal
//! inodes at the same addresses; those of the tree follow in its order, each in the log where Linux
//! would write it: directories hot, files warm, or hot or cold by extension. Everything is counted
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

/// Chosen sizes are multiples of this.
const SIZE_STEP: u64 = 1 << 20;
/// The largest size chosen.
const SIZE_MAX: u64 = 16 << 40;

/// What a new volume contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MkfsReport {
    /// Size of the volume in bytes.
    pub size: u64,
    /// Inodes of all kinds.
    pub inodes: u64,
    /// Names, without `.` and `..`.
    pub names: u64,
    /// Bytes of files, including holes.
    pub content_bytes: u64,
    /// Node blocks.
    pub node_blocks: u64,
    /// Blocks of files and directories.
    pub data_blocks: u64,
    /// Blocks available to users.
    pub user_blocks: u64,
    /// Segments of the main area.
    pub segments: u64,
    /// Segments that hold blocks or belong to a log.
    pub used_segments: u64,
    /// Segments withheld from users.
    pub overprovision_segments: u64,
}

/// The tree of an empty volume: only its root.
#[derive(Clone, Debug)]
pub struct EmptyTree([SourceNode; 1]);

impl EmptyTree {
    /// A tree with the root that the options describe.
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
        Err(FsError::new(ErrorKind::InvalidArgument, format!("node {node} is not a regular file")))
    }
}

/// A planned volume: everything except size and addresses.
pub struct Mkfs<'a> {
    plan: Plan<'a>,
}

impl<'a> Mkfs<'a> {
    /// Plans a volume for this tree. Errors: `InvalidArgument` (an option, or a tree that breaks
    /// its contract), `NameTooLong`, `FileTooBig`, `NotSupported`, `NoSpace` and `AttributesTooBig`
    /// (what F2FS cannot hold, with its path), and those of the tree. Cost: a pass over the nodes,
    /// a few hundred bytes of memory each; reads no content.
    pub fn new(tree: &'a dyn SourceTree, options: MkfsOptions) -> Result<Self> {
        Ok(Self { plan: Plan::new(tree, options)? })
    }

    /// The smallest size, in whole MiB, that holds the tree and lets Linux write without collecting
    /// first. Errors: `NoSpace` (even the largest volume is too small). Cost: about fifty
    /// evaluations of the formulas.
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

    /// Checks that a volume of `bytes` holds the tree; with `reserve`, that it also leaves the
    /// sections that Linux reserves for collecting.
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
            return wrong("node numbers", self.plan.next_nid.into(), nids);
        }
        let needed = sections_needed(&self.plan.logs, options.features, options.segments_per_section);
        let kept = if reserve { new.reserved.div_ceil(options.segments_per_section.into()) + 1 } else { 0 };
        let has = new.sections.saturating_sub(kept);
        if needed > has {
            return wrong("sections", needed, has);
        }
        Ok(new)
    }

    /// Checks a size. Errors: `NoSpace`, with the minimum size; `InvalidArgument` above 16 TiB.
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

    /// Writes the volume over the whole device. The superblocks come last, after a flush, so that
    /// an interrupted volume is not recognised. `progress` receives the bytes of files written.
    ///
    /// Errors before anything is written: `NoSpace`, with the minimum size; `InvalidArgument` (an
    /// unsuitable device). Later: those of device and tree. Cost: one pass over the content, copied
    /// once; memory: a few bytes per node, and 1 MiB per log.
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

    /// Zeroes what must read as zeroes: the old superblocks, the first copies of SIT and NAT, and
    /// the start of a possible chain of fsynced nodes. Returns whether all free blocks are
    /// discarded.
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
